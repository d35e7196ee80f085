"""Markdown as HTML: anchors as on GitHub, tables that scroll, highlighted code, and the text that the search finds."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

from website.lexers import Console, Graph

LEXERS = {"pg": Graph(), "gq": Graph(), "console": Console()}


@dataclass(frozen=True)
class Heading:
    level: int
    anchor: str
    html: str
    text: str


@dataclass
class Section:
    """A heading and the text below it, for the search."""

    anchor: str
    heading: str
    text: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Rendered:
    html: str
    headings: list[Heading]
    sections: list[Section]

    @property
    def title(self) -> str:
        return next((heading.text for heading in self.headings if heading.level == 1), "")


@dataclass(frozen=True)
class Links:
    """Where what a text names is found, seen from the page that is rendered."""

    target: Callable[[str], str | None]
    """The address for a link's target; None leaves the words without a link."""
    code: Callable[[str, str], str | None] = lambda code, heading: None
    """The address for code in the text below a heading."""
    block: Callable[[str], str] = lambda html: html
    """A highlighted block of Python, with links."""
    image: Callable[[str], str | None] = lambda source: None
    """The address of an image; None leaves the words that stand for it."""


def highlighted(code: str, info: str) -> str:
    """The inside of a block of code."""
    lexer = LEXERS.get(info) or get_lexer_by_name(info or "text", stripnl=False)
    return str(highlight(code, lexer, HtmlFormatter(nowrap=True)))


def slug(text: str, taken: dict[str, int]) -> str:
    """The anchor of a heading, as GitHub makes it."""
    plain = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
    count = taken.get(plain, 0)
    taken[plain] = count + 1
    return f"{plain}-{count}" if count else plain


def code_block(code: str, info: str, links: Links) -> str:
    html = highlighted(code, info)
    if info in ("python", "pycon"):
        html = links.block(html)
    label = info if info not in ("", "text") else ""
    return (
        f'<div class="code" data-info="{escape(label)}"><pre tabindex="0"><code>{html}</code></pre>'
        '<button class="copy" type="button" aria-label="Copy">Copy</button></div>\n'
    )


def render(text: str, links: Links) -> Rendered:
    """A page of Markdown."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    renderer = RendererHTML()
    tokens = parser.parse(text)
    taken: dict[str, int] = {}
    headings: list[Heading] = []
    sections = [Section("", "")]
    for at, token in enumerate(tokens):
        if token.type == "heading_open":
            content = tokens[at + 1]
            plain = plain_text(content.children or ())
            anchor = slug(plain, taken)
            token.attrSet("id", anchor)
            level = int(token.tag[1])
            shown = renderer.renderInline(content.children or [], parser.options, {})
            headings.append(Heading(level, anchor, shown, plain))
            sections.append(Section(anchor if level > 1 else "", plain))
            if level > 1:
                content.children = [*(content.children or ()), *permalink(anchor)]
        elif token.type == "inline" and tokens[at - 1].type != "heading_open":
            sections[-1].text.append(plain_text(token.children or ()))
            linked(token.children or (), links, headings[-1].text if headings else "")
        elif token.type in ("fence", "code_block"):
            sections[-1].text.append(token.content)
            info = token.info.strip() if token.type == "fence" else language_of(token.content)
            token.type, token.content = "html_block", code_block(token.content, info, links)
        elif token.type == "table_open":
            token.type, token.content = "html_block", '<div class="table" tabindex="0"><table>\n'
        elif token.type == "table_close":
            token.type, token.content = "html_block", "</table></div>\n"
    html = str(renderer.render(tokens, parser.options, {}))
    return Rendered(html, headings, [section for section in sections if section.heading or section.text])


def permalink(anchor: str) -> list[Token]:
    opening = Token("link_open", "a", 1, attrs={"href": f"#{anchor}", "class": "anchor", "aria-label": "Link"})
    return [opening, Token("text", "", 0, content="#"), Token("link_close", "a", -1)]


def linked(children: Sequence[Token], links: Links, heading: str) -> None:
    """Give links their addresses here, and code that names something public a link."""
    inside = 0
    for token in children:
        if token.type == "link_open":
            inside += 1
            href = str(token.attrGet("href"))
            target = href if re.match(r"[a-z]+:|#", href) else links.target(href)
            if target is None:
                token.tag, token.attrs = "span", {}
            else:
                token.attrSet("href", target)
                if re.match(r"https?:", target):
                    token.attrSet("class", "away")
        elif token.type == "link_close":
            inside -= 1
        elif token.type == "image":
            address = links.image(str(token.attrGet("src")))
            if address is None:
                token.type, token.tag = "text", ""
            else:
                token.attrSet("src", address)
        elif token.type == "code_inline":
            href_or_none = None if inside else links.code(token.content, heading)
            code = f"<code>{escape(token.content)}</code>"
            if href_or_none is not None:
                code = f'<a class="name" href="{escape(href_or_none)}">{code}</a>'
            token.type, token.content = "html_inline", code
    _balance(children)


def _balance(children: Sequence[Token]) -> None:
    """The end of a link that became a span is one, too."""
    tags: list[str] = []
    for token in children:
        if token.type == "link_open":
            tags.append(token.tag)
        elif token.type == "link_close":
            token.tag = tags.pop()


def plain_text(children: Sequence[Token]) -> str:
    return "".join(
        token.content if token.type in ("text", "code_inline") else " " if "break" in token.type else ""
        for token in children
    )


def language_of(code: str) -> str:
    """What an indented block of a docstring holds."""
    if code.lstrip().startswith(">>>"):
        return "pycon"
    try:
        ast.parse(code)
    except SyntaxError:
        return "text"
    return "python"


def docstring(text: str) -> str:
    """A docstring as Markdown: examples with a prompt are blocks of code."""
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        if not inside and line.startswith(">>> "):
            inside = True
            lines += ["", "```pycon"]
        elif inside and not line.strip():
            inside = False
            lines += ["```", ""]
        lines.append(line)
    return "\n".join([*lines, "```"] if inside else lines)
