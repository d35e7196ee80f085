"""What is wrong with rows, and the one error that tells it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from quire.errors import IntegrityError

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
class Found:
    """Violations as they are found: the first of them, and how many there are."""

    most: int = MOST
    violations: list[Violation] = field(default_factory=list)
    count: int = 0

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
        rest = self.count - SHOWN
        shown = " ".join(str(v) for v in self.violations[:SHOWN])
        return IntegrityError(
            f"{shown} {f'And {rest} more.' if rest > 0 else ''}".strip(),
            next="Nothing was committed; correct the rows." if self.count > 1 else "Nothing was committed; correct it.",
            violations=[v.to_dict() for v in self.violations],
            count=self.count,
            **_first(self.violations[0]),
        )


def _first(violation: Violation) -> dict[str, Any]:
    """Where to look first, as fields of the error."""
    return {k: v for k, v in violation.to_dict().items() if k != "message"}
