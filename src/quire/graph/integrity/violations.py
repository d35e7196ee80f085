"""What is wrong with rows, and the one error that tells it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from quire.errors import IntegrityError
from quire.graph.catalog import Entity

End = Literal["src", "dst"]


def not_unique(entity: Entity, names: Sequence[str], values: Sequence[Any], id: str | None) -> Violation:
    said = ", ".join(f"{n} = {v!r}" for n, v in zip(names, values, strict=True))
    what = f"{entity.name} {id!r}: {said} is unique, and another row has it too."
    return Violation(entity.name, "unique", what, id=id, property=", ".join(names))


def no_end(edge: Entity, end: str, node: Entity, id: str, value: str) -> Violation:
    side = side_of(end)
    what = f"{edge.name} {id!r}: {side} is the {node.name} {value!r}, which does not exist."
    return Violation(edge.name, "end", what, id=id, property=side)


def left_behind(edge: Entity, end: str, node: Entity, id: str, value: str) -> Violation:
    way = "leaves" if end == "src" else "leads to"
    what = f"{edge.name} {id!r} {way} the {node.name} {value!r}, which is removed."
    return Violation(edge.name, "orphan", what, id=id, property=side_of(end))


def too_many(edge: Entity, source: str, number: int, id: str | None) -> Violation:
    what = f"{number} {edge.name} edges leave {source!r}, and at most {edge.defined.at_most} may."
    return Violation(edge.name, "card", what, id=id, property="from")


def too_few(edge: Entity, node: Entity, id: str, number: int) -> Violation:
    what = f"{number} {edge.name} edges leave the {node.name} {id!r}, and at least {edge.defined.at_least} must."
    return Violation(node.name, "card", what, id=id, property=edge.name)


def side_of(end: str) -> str:
    """An end of an edge as data names it."""
    return "from" if end == "src" else "to"


MOST = 100
"""So many violations are told; the others are counted."""
SHOWN = 3


@dataclass(frozen=True)
class Violation:
    """One row that breaks one rule. `rule` is stable: type, required, enum, range, check, key, unique, …"""

    type: str
    rule: str
    message: str
    id: str | None = None
    property: str | None = None
    file: str | None = None
    line: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Without what is not known."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def __str__(self) -> str:
        """With the place, if it is known: `people.csv:12: …`, or `row 12: …` of rows that are in no file."""
        if self.file is None:
            return self.message if self.line is None else f"row {self.line}: {self.message}"
        line = f":{self.line}" if self.line is not None else ""
        return f"{self.file}{line}: {self.message}"


@dataclass
class Violations:
    """Violations as they are found: the first of them, and how many there are."""

    most: int = MOST
    violations: list[Violation] = field(default_factory=list)
    count: int = 0
    stopped: bool = False
    """Whether the search ended when there were so many: there may be more."""

    def __bool__(self) -> bool:
        return self.count > 0

    @property
    def room(self) -> int:
        """How many more are told."""
        return max(0, self.most - len(self.violations))

    def add(self, some: Iterable[Violation], count: int | None = None) -> None:
        """Add violations; `count` says how many there are when not all of them are given."""
        given = list(some)
        self.count += len(given) if count is None else count
        self.violations += given[: self.room]

    def error(self) -> IntegrityError:
        """All of them as one error."""
        shown = " ".join(str(v) for v in self.violations[:SHOWN])
        return IntegrityError(
            f"{shown} {self._rest()}".strip(),
            next="Nothing was committed; correct the rows." if self.count > 1 else "Nothing was committed; correct it.",
            violations=[v.to_dict() for v in self.violations],
            count=self.count,
            stopped=self.stopped,
            **_first(self.violations[0]),
        )

    def _rest(self) -> str:
        """What is to be said of those that the message does not show."""
        rest = self.count - SHOWN
        if self.stopped:
            there = f"And at least {rest} more" if rest > 0 else "There may be more"
            return f"{there}: the search stopped at {self.count}."
        return f"And {rest} more." if rest > 0 else ""


def _first(violation: Violation) -> dict[str, Any]:
    """Where to look first, as fields of the error."""
    return {k: v for k, v in violation.to_dict().items() if k != "message"}
