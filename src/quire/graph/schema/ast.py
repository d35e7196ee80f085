"""What a schema text declares, as it was written: names are not looked up yet, and everything knows its place."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from quire.errors import InvalidSchema
from quire.graph.catalog import Annotation, Kind
from quire.graph.types import Type


@dataclass(frozen=True, order=True)
class Position:
    """Where something was written; lines and columns count from 1."""

    line: int
    column: int


@dataclass(frozen=True)
class Named:
    """A name that refers to something else."""

    name: str
    at: Position


@dataclass(frozen=True)
class Note:
    """An annotation and its place."""

    annotation: Annotation
    at: Position

    @property
    def name(self) -> str:
        return self.annotation.name


@dataclass(frozen=True)
class DeclaredProperty:
    name: str
    type: Type
    notes: tuple[Note, ...]
    at: Position


@dataclass(frozen=True)
class Constraint:
    """A rule of the body. `names` are properties; of a range and a check there is one."""

    kind: Literal["key", "unique", "index", "range", "check"]
    names: tuple[Named, ...]
    at: Position
    low: int | float | None = None
    high: int | float | None = None
    pattern: str = ""


@dataclass(frozen=True)
class Cardinality:
    at_least: int
    at_most: int | None
    at: Position


@dataclass(frozen=True)
class DeclaredInterface:
    name: str
    properties: tuple[DeclaredProperty, ...]
    at: Position


@dataclass(frozen=True)
class DeclaredType:
    """A node or edge type. Only a node type implements; only an edge type has ends and a cardinality."""

    kind: Kind
    name: str
    at: Position
    properties: tuple[DeclaredProperty, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    notes: tuple[Note, ...] = ()
    implements: tuple[Named, ...] = ()
    source: Named | None = None
    target: Named | None = None
    cards: tuple[Cardinality, ...] = ()


@dataclass(frozen=True)
class Declared:
    """A parsed schema."""

    text: str
    file: str = ""
    interfaces: tuple[DeclaredInterface, ...] = ()
    nodes: tuple[DeclaredType, ...] = ()
    edges: tuple[DeclaredType, ...] = ()


@dataclass
class Problems:
    """What is wrong with a schema, gathered so that one run shows everything."""

    file: str
    found: list[dict[str, Any]] = field(default_factory=list)

    def add(self, at: Position, message: str, next: str, **fields: Any) -> None:
        self.found.append({"line": at.line, "column": at.column, "message": message, "next": next, **fields})

    def check(self) -> None:
        """Raise `InvalidSchema` with the first problem as its message and all of them as `problems`."""
        if not self.found:
            return
        self.found.sort(key=lambda p: (p["line"], p["column"]))
        first = dict(self.found[0])
        place = Position(first.pop("line"), first.pop("column"))
        more = f" ({len(self.found) - 1} more in `problems`.)" if len(self.found) > 1 else ""
        message, advice = first.pop("message"), first.pop("next")
        raise InvalidSchema(
            f"{where(self.file, place)}: {message}",
            next=f"{advice}{more}",
            file=self.file,
            line=place.line,
            column=place.column,
            **first,
            problems=self.found,
        )


def where(file: str, at: Position) -> str:
    """A place as messages begin with it: `people.pg:3:8`, or `line 3, column 8` of a text without a name."""
    return f"{file}:{at.line}:{at.column}" if file else f"Line {at.line}, column {at.column}"
