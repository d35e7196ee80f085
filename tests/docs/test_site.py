"""The documentation site builds, hangs together, needs no network, and its reference has everything that is public."""

from __future__ import annotations

import json
import posixpath
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from website import markdown
from website.api import Entry
from website.build import DOCS, PAGES, ROOT, SHARED, THEME, Site, build
from website.reference import FOLDER, unmentioned


@dataclass
class Seen(HTMLParser):
    """What a page has to be found by, and where it leads to."""

    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            self.ids.add(given["id"])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif "href" in given or "src" in given:
            self.loads.append(given.get("href") or given["src"])


@dataclass(frozen=True)
class Built:
    site: Site
    folder: Path
    pages: dict[str, Seen]

    def entries(self) -> list[Entry]:
        return [entry for group in self.site.groups for entry in group.entries]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("site")
    site = build(folder, say=lambda text: None)
    pages = {}
    for file in folder.rglob("*.html"):
        seen = pages[file.relative_to(folder).as_posix()] = Seen()
        seen.feed(file.read_text("utf-8"))
    return Built(site, folder, pages)


def test_every_link_and_every_anchor_leads_somewhere(built: Built) -> None:
    broken = []
    for url, seen in built.pages.items():
        for link in seen.links:
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            target = posixpath.normpath(posixpath.join(posixpath.dirname(url), path)) if path else url
            if target not in built.pages or (anchor and unquote(anchor) not in built.pages[target].ids):
                broken.append(f"{url}: {link}")
    assert broken == []


def test_sizes_colours_and_the_mark_are_those_of_the_pages_of_the_server(built: Built) -> None:
    assert [(built.folder / "assets" / name).read_bytes() for name in SHARED] == [
        (PAGES / name).read_bytes() for name in SHARED
    ]


def test_nothing_is_loaded_from_elsewhere(built: Built) -> None:
    for url, seen in built.pages.items():
        for load in seen.loads:
            assert (built.folder / posixpath.dirname(url) / load).resolve().is_file(), f"{url} loads {load}"
    for file in (built.folder / "assets").glob("*.css"):
        assert re.findall(r"@import|url\(", file.read_text("utf-8")) == []
    script = (built.folder / "assets" / "site.js").read_text("utf-8")
    assert re.findall(r"https?:|fetch\(|XMLHttpRequest|WebSocket|import\(", script) == []


def test_images_of_pages_are_on_the_site(built: Built) -> None:
    for source in built.site.sources:
        if source.startswith("docs/") and source.endswith(".md"):
            for image in re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", (ROOT / source).read_text("utf-8")):
                shown = built.site.image(source, "index.html", image)
                assert shown is not None, f"{source} shows {image}"
                assert (built.folder / shown).is_file()


def test_an_image_that_is_no_part_of_the_documentation_is_its_words(built: Built) -> None:
    for image in ("../README.md", "../website/theme/none.svg", "https://example.org/a.svg", "none.svg"):
        assert built.site.image("docs/benchmarks.md", "benchmarks.html", image) is None
    page = markdown.render("![the words](a.svg)", markdown.Links(lambda target: None))
    assert page.html == "<p>the words</p>\n"
    page = markdown.render("![words](a.svg)", markdown.Links(lambda target: None, image=lambda source: f"x/{source}"))
    assert page.html == '<p><img src="x/a.svg" alt="words" /></p>\n'


def test_every_page_has_one_place_in_the_navigation(built: Built) -> None:
    pages = sorted(path.relative_to(ROOT).as_posix() for path in DOCS.rglob("*.md"))
    listed = sorted(source for source in built.site.sources if source.startswith("docs/"))
    assert listed == pages, "docs/nav.toml lists every page of docs/ once"


def test_links_between_pages_stay_links(built: Built) -> None:
    """A link from one page to another that the site does not have would become plain words."""
    for source in built.site.sources:
        if source.startswith("docs/") and source.endswith(".md"):
            text = (ROOT / source).read_text("utf-8")
            for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+\.md)[)#]", text):
                assert built.site.target(source, "index.html", target) is not None, f"{source} links to {target}"


def test_the_search_finds_names_and_headings(built: Built) -> None:
    text = (built.folder / "assets" / "search-index.js").read_text("utf-8")
    rows = json.loads(text.removeprefix("window.quireSearch = ").removesuffix(";\n"))
    assert [f"{FOLDER}/lake.html#Lake.transact", "Lake", "Lake.transact"] in [row[:3] for row in rows]
    assert ["quickstart.html#a-conflict", "Quickstart", "A conflict"] in [row[:3] for row in rows]
    for url, *_ in rows:
        path, _, anchor = url.partition("#")
        assert path in built.pages
        assert not anchor or anchor in built.pages[path].ids


def test_design_notes_show_their_status(built: Built) -> None:
    for note in DOCS.glob("design/[0-9]*.md"):
        html = (built.folder / "design" / note.name).with_suffix(".html").read_text("utf-8")
        assert re.search(r'class="status (in|proposed|replaced)">', html), note.name


# -- the reference ----------------------------------------------------------------------------------------------------


def test_everything_public_has_a_docstring(built: Built) -> None:
    bare = [
        each.path
        for entry in built.entries()
        for each in entry.walk()
        if not each.doc and each.kind != "field" and not (each is not entry and each.path.startswith("quire.testing."))
    ]
    assert bare == []


def test_everything_public_is_in_the_reference(built: Built) -> None:
    import quire
    import quire.errors
    import quire.lake
    import quire.pipeline
    import quire.spark

    public = {f"quire.{name}" for name in (*quire.__all__, *quire.lake.__all__)} - {"quire.errors"}
    public |= {f"quire.pipeline.{name}" for name in quire.pipeline.__all__}
    public |= {f"quire.spark.{name}" for name in quire.spark.__all__}
    missing = [path for path in public if path not in built.site.mentions.addresses]
    assert missing == []
    for path, address in built.site.mentions.addresses.items():
        page, _, anchor = address.partition("#")
        assert anchor in built.pages[page].ids or path.startswith("quire.testing."), path


def test_every_page_leads_to_the_reference_by_its_code(built: Built) -> None:
    """Every function and class is named in code on some page, and so linked; the reference leads back."""
    public = [entry for entry in built.entries() if entry.path.count(".") == 1 or entry.owner in PACKAGES]
    assert unmentioned(built.site.mentions, public) == []
    html = (built.folder / FOLDER / "lake.html").read_text("utf-8")
    assert 'href="../../guides/transactions.html"' in html


PACKAGES = ("quire.errors", "quire.spark", "quire.pipeline", "quire.graph.embed")


def test_code_in_docstrings_has_a_prompt_and_so_is_run(built: Built) -> None:
    """Blocks with a prompt run in `test_docs.py`. The guide on testing runs what its modules sketch."""
    sketched = []
    for group in built.site.groups:
        docs = [(group.slug, group.intro)] + [(e.path, e.doc) for top in group.entries for e in top.walk()]
        for path, doc in docs:
            for block in re.findall(r'data-info="(\w*)"', render(doc)):
                if block == "python" and not path.startswith("quire.testing"):
                    sketched.append(path)
    assert sketched == []


def render(doc: str) -> str:
    return markdown.render(markdown.docstring(doc), markdown.Links(lambda target: None)).html


def test_signatures_have_types_that_lead_to_their_classes(built: Built) -> None:
    html = (built.folder / FOLDER / "lake.html").read_text("utf-8")
    [signature] = re.findall(
        r'id="Lake.transaction">.*?</h3>\s*<div class="code signature">(.*?)</div>', html, re.DOTALL
    )
    assert '<span class="parameter">isolation</span>' in signature
    assert "snapshot" in signature
    assert "serializable" in signature
    assert 'href="transaction.html#Transaction"' in signature


# -- markdown ---------------------------------------------------------------------------------------------------------


def test_anchors_are_those_of_github() -> None:
    page = markdown.render("# A\n## At most once: tokens\n## `quire` & Co\n## A\n", markdown.Links(lambda target: None))
    assert [h.anchor for h in page.headings] == ["a", "at-most-once-tokens", "quire--co", "a-1"]


@pytest.mark.parametrize(
    ("code", "language"),
    [(">>> 1\n1", "pycon"), ("x = 1", "python"), ("QuireError\n├── Conflict", "text")],
)
def test_a_block_of_a_docstring_says_what_it_holds(code: str, language: str) -> None:
    assert markdown.language_of(code) == language


# -- the design system ------------------------------------------------------------------------------------------------

TOKENS = (PAGES / "tokens.css").read_text("utf-8")
STYLES = (THEME / "site.css").read_text("utf-8")
COLOURS = dict(re.findall(r"--q-([\w-]+): light-dark\((#\w{6}, #\w{6})\)", TOKENS))


def test_styles_use_the_tokens_and_no_colours_of_their_own() -> None:
    assert set(re.findall(r"var\((--q-[\w-]+)\)", STYLES)) <= set(re.findall(r"(--q-[\w-]+):", TOKENS))
    assert re.findall(r"#[0-9a-fA-F]{3,8}\b(?=[^{]*;)|rgba?\(", STYLES) == []


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(front: str, back: str) -> float:
    low, high = sorted((luminance(front), luminance(back)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(
    ("front", "back"),
    [
        *((front, back) for front in ("text", "muted", "accent") for back in ("bg", "surface", "raised")),
        *((front, "code-bg") for front in COLOURS if front.startswith("code-") and front != "code-bg"),
        *((state, f"{state}-soft") for state in ("accent", "good", "warn", "bad")),
        ("on-accent", "accent"),
    ],
)
def test_words_can_be_read(front: str, back: str, scheme: int) -> None:
    colours = [COLOURS[name].split(", ")[scheme] for name in (front, back)]
    assert contrast(*colours) >= 4.5, f"{front} on {back}"
