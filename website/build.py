"""Puts the site together: pages of `docs/`, the reference, notebooks, files that pages lead to, search, styles."""

from __future__ import annotations

import json
import posixpath
import re
import shutil
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path

from website import api, markdown, notebook
from website.layout import Page, Part, document, relative
from website.markdown import Links
from website.mentions import Mentions
from website.reference import Reference, address

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
THEME = Path(__file__).with_name("theme")
PAGES = ROOT / "src/quire/server/ui/static"
SHARED = ("tokens.css", "mark.svg")
"""What the site has from the pages of the server, where it is inside the package: sizes, colours, the mark."""
IMAGES = (".svg", ".png")
SHOWN = {".py": "python", ".pg": "pg", ".gq": "gq", ".yaml": "yaml", ".csv": "text", ".jsonl": "json"}
"""Files of examples that pages may lead to, and what they hold."""


def address_of(source: str) -> str:
    """The page of a file, given by its path in the repository."""
    path = source.removeprefix("docs/")
    if path.endswith("README.md"):
        path = path.removesuffix("README.md") + "index.md"
    return re.sub(r"\.(md|ipynb)$", "", path) + ".html"


class Site:
    """The site while it is built. Pages render twice-linked: their code leads to the reference and back."""

    def __init__(self) -> None:
        self.groups = api.groups()
        self.mentions = Mentions(self.groups, address)
        navigation = tomllib.loads((DOCS / "nav.toml").read_text("utf-8"))
        self.sections, self.labels = navigation["section"], navigation["labels"]
        self.sources = [source for section in self.sections for source in section["pages"] if source != "@reference"]
        self.files: dict[str, Page] = {}
        """Files that pages lead to, by path."""
        self.images: set[str] = set()
        """Images that pages show, by path."""
        self.statuses = design_statuses()
        self.pages = {source: self.page(source) for source in self.sources}
        titles = {page.url: page.short for page in self.pages.values()}
        self.reference = Reference(self.groups, self.mentions, titles).pages()
        self.parts = [self.part(section) for section in self.sections]

    def part(self, section: dict[str, list[str]]) -> Part:
        pages: list[Page] = []
        for source in section["pages"]:
            pages += self.reference if source == "@reference" else [self.pages[source]]
        return Part(str(section["title"]), pages)

    # -- pages --------------------------------------------------------------------------------------------------------

    def page(self, source: str) -> Page:
        url = address_of(source)
        links = self.links(source, url)
        if source.endswith(".ipynb"):
            html, headings, sections = notebook.render(notebook.run(ROOT / source), links)
            return Page(url, headings[0].text, html, headings, sections)
        rendered = markdown.render((ROOT / source).read_text("utf-8"), links)
        kind = "home" if url == "index.html" else "page"
        return Page(
            url,
            rendered.title,
            as_cards(rendered.html) if kind == "home" else rendered.html,
            rendered.headings,
            rendered.sections,
            label=self.labels.get(source, ""),
            kind=kind,
            status=self.statuses.get(source, ""),
        )

    def links(self, source: str, url: str) -> Links:
        def named(path: str | None) -> str | None:
            if path is None:
                return None
            self.mentions.pages[path].add(url)
            return relative(self.mentions.addresses[path], url)

        def code(text: str, heading: str) -> str | None:
            return named(self.mentions.meant(text, heading))

        def block(html: str) -> str:
            return self.mentions.in_block(html, lambda path: str(named(path)))

        return Links(partial(self.target, source, url), code, block, partial(self.image, source, url))

    def image(self, source: str, url: str, src: str) -> str | None:
        """Where an image of the documentation is on the site; None if it is no part of it."""
        found = posixpath.normpath(posixpath.join(posixpath.dirname(source), src))
        if not found.startswith("docs/") or posixpath.splitext(found)[1] not in IMAGES or not (ROOT / found).exists():
            return None
        self.images.add(found)
        return relative(f"assets/{found}", url)

    def target(self, source: str, url: str, href: str) -> str | None:
        """Where a relative link leads to on the site; None if that is no part of it."""
        path, _, anchor = href.partition("#")
        found = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        if found in self.sources:
            to = address_of(found)
        elif (ROOT / found).exists() and found.startswith("examples"):
            to = self.file(found)
        else:
            return None
        return relative(f"{to}#{anchor}" if anchor else to, url)

    def file(self, path: str) -> str:
        """The page that shows a file, or all files of a folder."""
        url = f"files/{path}.html"
        if path not in self.files:
            whole = ROOT / path
            files = [whole] if whole.is_file() else sorted(each for each in whole.rglob("*") if each.suffix in SHOWN)
            html = f"<h1>{path}</h1>\n"
            for file in files:
                name = file.relative_to(whole).as_posix()
                html += f"<h2>{name}</h2>\n" if file != whole else ""
                html += markdown.code_block(
                    file.read_text("utf-8"), SHOWN.get(file.suffix, "text"), Links(lambda target: None)
                )
            self.files[path] = Page(url, path, html)
        return url

    # -- files --------------------------------------------------------------------------------------------------------

    def write(self, out: Path) -> None:
        import quire

        shutil.rmtree(out, ignore_errors=True)
        shown = [*(page for part in self.parts for page in part.pages), *self.files.values()]
        for page in shown:
            file = out / page.url
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(document(page, self.parts, quire.__version__), "utf-8")
        assets = out / "assets"
        shutil.copytree(THEME, assets, ignore=shutil.ignore_patterns("*.html"))
        for name in SHARED:
            shutil.copyfile(PAGES / name, assets / name)
        for image in sorted(self.images):
            (assets / image).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / image, assets / image)
        (assets / "search-index.js").write_text(self.search_index(), "utf-8")

    def search_index(self) -> str:
        """All sections: address, title of the page, heading, text. A script, so that it loads from a disk too."""
        rows = []
        for part in self.parts:
            for page in part.pages:
                for section in page.sections:
                    url = f"{page.url}#{section.anchor}" if section.anchor else page.url
                    text = " ".join(" ".join(section.text).replace("`", "").split())
                    rows.append([url, page.title, section.heading, text])
        return f"window.quireSearch = {json.dumps(rows, ensure_ascii=False, separators=(',', ':'))};\n"


def as_cards(html: str) -> str:
    """Items of a list that begin with a link are cards."""
    html = re.sub(
        r"<li>(<a [^>]*>(?:(?!</a>).)*</a>): ((?:(?!</li>).)*)</li>", r'<li class="card">\1<span>\2</span></li>', html
    )
    return html.replace("<li><a ", '<li class="card"><a ')


def design_statuses() -> dict[str, str]:
    """The status of every design note, from their index."""
    index = (DOCS / "design" / "README.md").read_text("utf-8")
    rows = re.findall(r"^\| \[[^\]]*\]\(([^)]+)\) \|[^|]*\| ([^|]+) \|$", index, flags=re.MULTILINE)
    return {f"docs/design/{file}": status.strip() for file, status in rows}


def build(out: Path, say: Callable[[str], None] = print) -> Site:
    """Build all of it into a folder, which is emptied first."""
    site = Site()
    site.write(out)
    files = [file for file in out.rglob("*") if file.is_file()]
    size = sum(file.stat().st_size for file in files)
    say(f"{out / 'index.html'}: {sum(f.suffix == '.html' for f in files)} pages, {size / 1e6:.1f} MB")
    return site
