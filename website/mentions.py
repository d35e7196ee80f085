"""What code in the documentation means: `lake.transact(...)` leads to the reference, and the reference leads back."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from html import escape, unescape

from website.api import Entry, Group

VARIABLES = {
    "lake": "quire.Lake",
    "snap": "quire.Snapshot",
    "snapshot": "quire.Snapshot",
    "tx": "quire.Transaction",
    "table": "quire.Table",
    "graph": "quire.Graph",
    "receipt": "quire.Receipt",
    "rows": "quire.Rows",
    "pipeline": "quire.pipeline",
    "errors": "quire.errors",
}
"""What these names stand for in the pages."""
ROWS_OF = {
    "quire.Lake": "quire.Table",
    "quire.Snapshot": "quire.Table",
    "quire.Transaction": "quire.TransactionTable",
}
"""What `[…]` gives."""

_NAME = r'<span class="n[a-z]*">(?:\w+)</span>'
_SUBSCRIPT = r'<span class="p">\[</span><span class="s[12]">[^<]*</span><span class="p">\]</span>'
_DOT = r'<span class="o">\.</span>'
CHAIN = re.compile(rf"({_NAME})({_SUBSCRIPT})?((?:{_DOT}{_NAME})+)")
IMPORTED = re.compile(
    r'(<span class="kn">from</span> *<span class="w"> *</span> *<span class="nn">(quire[\w.]*)</span>)([^\n]*)'
)
WORD = re.compile(r'<span class="n[a-z]*">(\w+)</span>')


class Mentions:
    def __init__(self, groups: list[Group], address: Callable[[Group, Entry], str]) -> None:
        self.addresses: dict[str, str] = {}
        self.classes: dict[str, list[str]] = defaultdict(list)
        self.pages: dict[str, set[str]] = defaultdict(set)
        """By path, the pages that mention it."""
        for group in groups:
            for top in group.entries:
                for entry in top.walk():
                    self.addresses[entry.path] = address(group, entry)
                if top.kind in ("class", "error"):
                    self.classes[top.name].append(top.path)
        for path in [p for p in self.addresses if p.startswith("quire.errors.")]:
            self.addresses.setdefault(path.replace("quire.errors.", "quire."), self.addresses[path])

    def known(self, path: str) -> str | None:
        return path if path in self.addresses else None

    def meant(self, code: str, heading: str = "") -> str | None:
        """The path of what a piece of code names, below a heading that may be a class."""
        if found := re.match(r"quire(?:\.\w+)+", code):
            return self.prefix(found[0].split("."))
        if found := re.fullmatch(r"(\w+)(\[[^\]]*\])?\.(\w+)(?:\(.*\))?", code, re.DOTALL):
            return self.attribute(found[1], bool(found[2]), found[3]) or self.of_class(found[1], found[3])
        if found := re.fullmatch(r"([A-Z]\w+)(?:\(.*\))?", code, re.DOTALL):
            return self.of_class(found[1])
        if found := re.match(r"\.([a-z]\w*)", code):
            return self.of_class(heading, found[1])
        return None

    def prefix(self, parts: list[str]) -> str | None:
        """The longest beginning that is public."""
        for count in range(len(parts), 1, -1):
            if found := self.known(".".join(parts[:count])):
                return found
        return None

    def attribute(self, name: str, subscript: bool, attribute: str) -> str | None:
        owner = VARIABLES.get(name, "")
        return self.known(f"{ROWS_OF.get(owner, '') if subscript else owner}.{attribute}")

    def of_class(self, name: str, attribute: str = "") -> str | None:
        paths = self.classes.get(name, [])
        if len(paths) != 1:
            return None
        return self.known(f"{paths[0]}.{attribute}") if attribute else paths[0]

    # -- in highlighted code ------------------------------------------------------------------------------------------

    def in_block(self, html: str, link: Callable[[str], str]) -> str:
        """A block of Python with links on what it names."""

        def chain(found: re.Match[str]) -> str:
            first, subscript, rest = found.groups()
            names = WORD.findall(found[0])
            if names[0] == "quire" and not subscript:
                path = self.prefix(names)
                spans = re.findall(rf"(?:{_DOT})?{_NAME}", found[0])
                count = len(path.split(".")) if path else 0
                return self.anchor(path, "".join(spans[:count]), link) + "".join(spans[count:]) if path else found[0]
            path = self.attribute(names[0], bool(subscript), names[1])
            if path is None:
                return found[0]
            spans = re.findall(_NAME, rest)
            return f"{first}{subscript or ''}{rest.replace(spans[0], self.anchor(path, spans[0], link), 1)}"

        def imported(found: re.Match[str]) -> str:
            def name(word: re.Match[str]) -> str:
                path = self.known(f"{found[2]}.{unescape(word[1])}")
                return self.anchor(path, word[0], link) if path else word[0]

            return found[1] + WORD.sub(name, found[3])

        return IMPORTED.sub(imported, CHAIN.sub(chain, html))

    def anchor(self, path: str, html: str, link: Callable[[str], str]) -> str:
        return f'<a href="{escape(link(path))}">{html}</a>'
