"""The pages of the Python reference."""

from __future__ import annotations

from html import escape

from website import api, markdown
from website.api import Entry, Group, Parameter
from website.layout import Page, relative
from website.markdown import Heading, Links, Section
from website.mentions import Mentions

FOLDER = "reference/python"
INDEX = f"{FOLDER}/index.html"
WIDE = 88
"""Columns from which a signature takes a line for each parameter."""


def address(group: Group, entry: Entry) -> str:
    return f"{FOLDER}/{group.slug.lower()}.html#{anchor(group, entry)}"


def anchor(group: Group, entry: Entry) -> str:
    """`Lake.snapshot` for `quire.Lake.snapshot`."""
    top = next(top for top in group.entries if entry.path == top.path or entry.path.startswith(f"{top.path}."))
    return entry.path.removeprefix(f"{top.owner}.")


class Reference:
    """Renders groups of names as pages. `titles` are those of the pages that may mention them."""

    def __init__(self, groups: list[Group], mentions: Mentions, titles: dict[str, str]) -> None:
        self.groups, self.mentions, self.titles = groups, mentions, titles

    def pages(self) -> list[Page]:
        return [self.index(), *(self.page(group) for group in self.groups)]

    def index(self) -> Page:
        rows = []
        for group in self.groups:
            names = ", ".join(
                f'<a href="{escape(relative(address(group, entry), INDEX))}"><code>{escape(entry.name)}</code></a>'
                for entry in group.entries
            )
            href = escape(relative(f"{FOLDER}/{group.slug.lower()}.html", INDEX))
            rows.append(f'<tr><td><a href="{href}">{escape(group.title)}</a></td><td>{names}</td></tr>')
        html = (
            '<h1 id="python-reference">Python reference</h1>\n'
            "<p>Every public class and function with its signature, from the docstrings. "
            f'<a href="{relative("reference/python.html", INDEX)}">Python in tables</a> has the same on one page.</p>\n'
            '<div class="table"><table><thead><tr><th>page</th><th>names</th></tr></thead>'
            f"<tbody>{''.join(rows)}</tbody></table></div>"
        )
        return Page(INDEX, "Python reference", html, label="All names")

    def page(self, group: Group) -> Page:
        shown = GroupPage(self, group)
        for entry in group.entries:
            shown.top(entry)
        title = Heading(1, "", escape(group.title), group.title)
        html = f"<h1>{escape(group.title)}</h1>\n{''.join(shown.html)}"
        return Page(shown.url, group.title, html, [title, *shown.headings], shown.sections, kind="page api")


class GroupPage:
    """One page while it is written."""

    def __init__(self, reference: Reference, group: Group) -> None:
        self.reference, self.group = reference, group
        self.url = f"{FOLDER}/{group.slug.lower()}.html"
        self.headings: list[Heading] = []
        self.sections: list[Section] = []
        self.alone = len(group.entries) == 1 and group.entries[0].name == group.title
        self.html = [self.prose(group.intro)] if group.intro else []

    def prose(self, text: str, heading: str = "") -> str:
        mentions = self.reference.mentions

        def code(text: str, _: str) -> str | None:
            path = mentions.meant(text, heading)
            return relative(mentions.addresses[path], self.url) if path else None

        def block(html: str) -> str:
            return mentions.in_block(html, lambda path: relative(mentions.addresses[path], self.url))

        return markdown.render(markdown.docstring(text), Links(lambda target: None, code, block)).html

    def top(self, entry: Entry) -> None:
        """A function or a class with what it has."""
        if not self.alone:
            self.heading(entry, 2)
        is_result = self.group.slug.endswith("results") and any(m.kind == "field" for m in entry.members)
        made = None if is_result else api.constructor(entry)
        if entry.kind == "function":
            self.html.append(self.signature(entry))
        elif made is not None and self.is_for_users(made[0], entry):
            self.html.append(self.call(f"class {entry.name}", *made, entry.module))
        if entry.kind == "error":
            self.html.append(self.error(entry))
        self.text(entry)
        fields = [m for m in entry.members if m.kind in ("field", "property")]
        if fields:
            self.html.append(self.fields(fields))
        methods = [m for m in entry.members if m.kind == "method"]
        tests = [m for m in methods if m.name.startswith("test_") and not m.doc]
        for member in methods:
            if member not in tests and (member.doc or not entry.module.startswith("quire.testing")):
                self.heading(member, 3)
                self.html.append(self.signature(member))
                self.text(member)
        if tests:
            names = "".join(f"<li><code>{escape(m.name)}</code></li>" for m in tests)
            self.html.append(f"<details><summary>{len(tests)} tests</summary><ul>{names}</ul></details>")

    def heading(self, entry: Entry, level: int) -> None:
        at = anchor(self.group, entry)
        shown = entry.name
        self.headings.append(Heading(level, at, f"<code>{escape(shown)}</code>", shown))
        self.html.append(
            f'<h{level} id="{escape(at)}"><code>{escape(shown)}</code>'
            f'<a class="anchor" href="#{escape(at)}" aria-label="Link">#</a></h{level}>\n'
        )
        self.sections.append(Section(at, at, [entry.doc]))

    def text(self, entry: Entry) -> None:
        if self.alone and entry in self.group.entries:
            self.html.append(f'<a id="{escape(anchor(self.group, entry))}"></a>')
            self.sections.append(Section("", entry.name, [entry.doc]))
        self.html.append(self.prose(entry.doc, entry.owner.rpartition(".")[2]) if entry.doc else "")
        pages = self.reference.mentions.pages.get(entry.path, set())
        named = sorted((self.reference.titles[url], url) for url in pages if url in self.reference.titles)
        if named:
            links = ", ".join(f'<a href="{escape(relative(url, self.url))}">{escape(t)}</a>' for t, url in named)
            self.html.append(f'<p class="seen">Used in {links}</p>\n')

    def fields(self, members: list[Entry]) -> str:
        rows = []
        for member in members:
            at = escape(anchor(self.group, member))
            doc = self.prose(member.doc, member.owner.rpartition(".")[2]) if member.doc else ""
            rows.append(
                f'<tr id="{at}"><td><code>{escape(member.name)}</code></td>'
                f"<td><code>{self.type(member.value, member.module)}</code></td><td>{doc}</td></tr>"
            )
            self.sections.append(Section(anchor(self.group, member), anchor(self.group, member), [member.doc]))
        head = "<thead><tr><th>attribute</th><th>type</th><th></th></tr></thead>"
        return f'<div class="table fields"><table>{head}<tbody>{"".join(rows)}</tbody></table></div>\n'

    def error(self, entry: Entry) -> str:
        bases = [base for base in entry.thing.__bases__ if issubclass(base, BaseException)]
        of = ", ".join(f"<code>{self.name(base.__name__, base)}</code>" for base in bases)
        kind = getattr(entry.thing, "kind", None)
        facts = f" · kind <code>{escape(kind)}</code> · exit code <code>{entry.thing.exit_code}</code>" if kind else ""
        again = " · may be run again" if getattr(entry.thing, "retryable", False) else ""
        return f'<p class="facts">of {of}{facts}{again}</p>\n'

    # -- signatures ---------------------------------------------------------------------------------------------------

    def is_for_users(self, parameters: list[Parameter], entry: Entry) -> bool:
        """Whether everything that it takes is public."""
        return all(
            self.address_of(thing) or not str(getattr(thing, "__module__", "")).startswith("quire.")
            for parameter in parameters
            for name in api.IDENTIFIER.findall(parameter.annotation)
            if isinstance(thing := api.resolve(entry.module, name), type)
        )

    def signature(self, entry: Entry) -> str:
        parameters, returns = api.signature(entry.thing)
        return self.call(entry.name, parameters, returns, entry.module)

    def call(self, name: str, parameters: list[Parameter], returns: str, module: str) -> str:
        plain = sum(len(p.name) + len(p.annotation) + len(p.default) + 5 for p in parameters) + len(name + returns)
        pieces = [self.parameter(parameter, module) for parameter in parameters]
        word, _, last = name.rpartition(" ")
        html = f'<span class="k">{escape(word)} </span>' if word else ""
        html += f'<span class="nf">{escape(last)}</span>('
        html += "\n    " + ",\n    ".join(pieces) + ",\n" if plain > WIDE else ", ".join(pieces)
        html += ")" + (f" → {self.type(returns, module)}" if returns else "")
        return f'<div class="code signature"><pre tabindex="0"><code>{html}</code></pre></div>\n'

    def parameter(self, parameter: Parameter, module: str) -> str:
        html = f'<span class="parameter">{escape(parameter.name)}</span>'
        if parameter.annotation:
            html += f": {self.type(parameter.annotation, module)}"
        if parameter.default:
            html += f' = <span class="default">{escape(parameter.default)}</span>'
        return html

    def type(self, text: str, module: str) -> str:
        """A type with links, and with the values of choices."""
        html, at = "", 0
        for found in api.IDENTIFIER.finditer(text):
            thing = api.resolve(module, found[0])
            html += escape(text[at : found.start()])
            values = api.choices(thing)
            html += escape(" | ".join(map(repr, values))) if values else self.name(found[0].split(".")[-1], thing)
            at = found.end()
        return f'<span class="type">{html}{escape(text[at:])}</span>'

    def name(self, shown: str, thing: object) -> str:
        href = self.address_of(thing)
        return f'<a href="{escape(relative(href, self.url))}">{escape(shown)}</a>' if href else escape(shown)

    def address_of(self, thing: object) -> str | None:
        if not isinstance(thing, type):
            return None
        for group in self.reference.groups:
            for entry in group.entries:
                if entry.thing is thing:
                    return address(group, entry)
        return None


def unmentioned(mentions: Mentions, entries: list[Entry]) -> list[str]:
    """Functions to which no page leads, and classes to none of whose members one does."""
    return [top.path for top in entries if not any(mentions.pages.get(entry.path) for entry in top.walk())]
