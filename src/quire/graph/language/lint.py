"""Everything that is wrong or doubtful in a text of queries, without running it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

from quire.errors import InvalidQuery
from quire.graph.catalog import Catalog
from quire.graph.language import ast
from quire.graph.language.checker.check import checked
from quire.graph.language.parse import parse
from quire.prompt import OneLine

# What is never closed goes on to the end of the text, so that nothing is looked at twice.
_WORDS = re.compile(
    r'//[^\n]*|/\*[\s\S]*?(?:\*/|\Z)|"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
    r"|\bquery(?=\s{1,99}[a-z_]\w{0,99}\s{0,99}\()",
    re.DOTALL,
)
FIRST = ast.At(1, 1)
T = TypeVar("T")


@dataclass(frozen=True, repr=False)
class Finding(OneLine):
    """Something in a text. `code` is stable; the message is not."""

    severity: Literal["error", "warning"]
    code: str
    message: str
    query: str
    line: int
    column: int
    file: str = ""

    def _facts(self) -> str:
        where = f"{self.file}:" if self.file else ""
        return f"{where}{self.line}:{self.column}: {self.severity}: {self.message} [{self.code}]"

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def lint(text: str, catalog: Catalog, file: str = "") -> list[Finding]:
    """All findings, in the order of the text. A broken query does not hide what is wrong with the next ones."""
    findings: list[Finding] = []
    seen: dict[str, ast.At] = {}
    for piece, start in _pieces(text):
        try:
            queries = parse(piece).queries
        except InvalidQuery as error:
            findings.append(_error("parse", error, _name(piece), file, start))
            continue
        for query in _moved(queries, start):
            if query.name in seen:
                message = f"There are two queries {query.name!r}; the first is in line {seen[query.name].line}."
                findings.append(
                    Finding("error", "duplicate-query", message, query.name, query.at.line, query.at.column, file)
                )
            seen.setdefault(query.name, query.at)
            findings += _checked(query, catalog, file)
    return sorted(findings, key=lambda f: (f.line, f.column))


def _checked(query: ast.Query, catalog: Catalog, file: str) -> Iterator[Finding]:
    found, errors = checked(query, catalog)
    for error in errors:
        yield _error("type", error, query.name, file)
    for warning in found.warnings if found is not None else ():
        yield Finding("warning", warning.code, warning.message, query.name, warning.line, warning.column, file)


def _error(code: str, error: InvalidQuery, query: str, file: str, start: ast.At = FIRST) -> Finding:
    said = re.sub(r"^Line \d+, column \d+: (.)", lambda m: m[1].upper(), error.message)
    message = f"{said} {error.next}" if error.next else said
    at = _after(start, ast.At(error.fields["line"], error.fields["column"]))
    return Finding("error", code, message, query, at.line, at.column, file)


def _pieces(text: str) -> Iterator[tuple[str, ast.At]]:
    """The text if all of it can be read; else cut before every query, each piece with the place where it begins."""
    try:
        parse(text)
    except InvalidQuery:
        yield from _cut(text)
    else:
        yield text, FIRST


def _cut(text: str) -> Iterator[tuple[str, ast.At]]:
    cuts = [found.start() for found in _WORDS.finditer(text) if found[0] == "query"]
    if cuts and not text[: cuts[0]].strip():
        cuts[0] = 0
    starts = cuts if cuts and cuts[0] == 0 else [0, *cuts]
    line, before = 1, 0
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        line, before = line + text.count("\n", before, start), start
        yield text[start:end], ast.At(line, start - text.rfind("\n", 0, start))


def _after(start: ast.At, at: ast.At) -> ast.At:
    """A place within a piece as a place in the text."""
    return ast.At(start.line + at.line - 1, at.column if at.line > 1 else start.column + at.column - 1)


def _moved(part: T, start: ast.At) -> T:
    """A part of the tree of a piece, with the places that it has in the text."""
    if start == FIRST:
        return part
    if isinstance(part, ast.At):
        return cast(T, _after(start, part))
    if isinstance(part, tuple):
        return cast(T, tuple(_moved(item, start) for item in part))
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        changes = {f.name: _moved(getattr(part, f.name), start) for f in dataclasses.fields(part)}
        return dataclasses.replace(part, **changes)
    return part


def _name(piece: str) -> str:
    found = re.search(r"\bquery\s+([a-z_]\w*)", piece)
    return found[1] if found else ""
