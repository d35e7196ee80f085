"""What surrounds the text of every page: head, search, navigation, the list of its headings, the pages beside it."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from string import Template

from website.markdown import Heading, Section

TEMPLATE = Template(Path(__file__).with_name("theme").joinpath("page.html").read_text("utf-8"))


@dataclass
class Page:
    """A page of the site; `url` is relative to its root."""

    url: str
    title: str
    html: str
    headings: list[Heading] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)
    label: str = ""
    kind: str = "page"
    status: str = ""

    @property
    def short(self) -> str:
        return self.label or self.title


@dataclass(frozen=True)
class Part:
    """A part of the navigation. Its pages fold away unless the reader is among them."""

    title: str
    pages: list[Page]


def relative(url: str, page: str) -> str:
    """The address of a page of the site, seen from another; an anchor may follow."""
    target, _, anchor = url.partition("#")
    path = posixpath.relpath(target, posixpath.dirname(page) or ".") if target != page else ""
    return f"{path}#{anchor}" if anchor else path or posixpath.basename(page)


def document(page: Page, parts: Sequence[Part], version: str) -> str:
    """The whole file."""
    order = [each for part in parts for each in part.pages]
    return TEMPLATE.substitute(
        root=escape(posixpath.relpath(".", posixpath.dirname(page.url) or ".")),
        title="Quire" if page.kind == "home" else escape(f"{page.title} · Quire"),
        kind=page.kind,
        version=escape(version),
        navigation=_navigation(page, parts),
        text=_crumb(page, parts) + page.html,
        beside=_beside(page, order),
        contents=_contents(page),
    )


def _navigation(page: Page, parts: Sequence[Part]) -> str:
    html = []
    for part in parts:
        links = ""
        for each in part.pages:
            current = ' aria-current="page"' if each is page else ""
            links += f'<li><a href="{escape(relative(each.url, page.url))}"{current}>{escape(each.short)}</a></li>'
        opened = " open" if page in part.pages or page.kind == "home" else ""
        html.append(f"<details{opened}><summary>{escape(part.title)}</summary><ul>{links}</ul></details>")
    return "".join(html)


def _crumb(page: Page, parts: Sequence[Part]) -> str:
    part = next((part.title for part in parts if page in part.pages), "")
    badge = f'<span class="status {page.status.split()[0]}">{escape(page.status)}</span>' if page.status else ""
    return "" if page.kind == "home" else f'<p class="crumb">{escape(part)}{badge}</p>\n'


def _contents(page: Page) -> str:
    shown = [heading for heading in page.headings if heading.level in (2, 3)]
    if len(shown) < 2:
        return ""
    links = "".join(f'<li class="h{h.level}"><a href="#{escape(h.anchor)}">{h.html}</a></li>' for h in shown)
    return f"<p>On this page</p><ul>{links}</ul>"


def _beside(page: Page, order: Sequence[Page]) -> str:
    if page not in order:
        return ""
    at = order.index(page)
    before = order[at - 1] if at else None
    after = order[at + 1] if at + 1 < len(order) else None
    html = ""
    for each, css, word in ((before, "before", "Before"), (after, "after", "Next")):
        if each is not None:
            href = escape(relative(each.url, page.url))
            html += f'<a class="{css}" href="{href}"><small>{word}</small>{escape(each.short)}</a>'
    return f'<nav class="beside" aria-label="Pages beside this one">{html}</nav>'
