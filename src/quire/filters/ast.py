"""Conditions on the rows of one table, with typed values: what a filter says once it is understood.

    Both((Compare("year", ">", 2020), In("id", (1, 2))))

A reader of some format takes from a condition what it can tell exactly; `Other` stands for everything that only DuckDB
can tell. Values are those of the column's own type, and no value is null.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from quire.filters.quotes import quoted

Operator = Literal["=", "<>", "<", "<=", ">", ">="]


class Condition:
    """A condition: true, false or null for each row. `str` writes it as a person would."""


@dataclass(frozen=True)
class Compare(Condition):
    column: str
    operator: Operator
    value: Any

    def __str__(self) -> str:
        return f"{quoted(self.column)} {self.operator} {shown(self.value)}"


@dataclass(frozen=True)
class In(Condition):
    """Whether a column has one of some values; of no values it is false."""

    column: str
    values: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{quoted(self.column)} IN ({', '.join(map(shown, self.values))})" if self.values else "false"


@dataclass(frozen=True)
class IsNull(Condition):
    column: str

    def __str__(self) -> str:
        return f"{quoted(self.column)} IS NULL"


@dataclass(frozen=True)
class Flag(Condition):
    """A column of truth values, by itself."""

    column: str

    def __str__(self) -> str:
        return quoted(self.column)


@dataclass(frozen=True)
class Part(Condition):
    """Whether a text holds another one, which is not empty: at its start, its end, or anywhere."""

    function: Literal["starts_with", "ends_with", "contains"]
    column: str
    value: str

    def __str__(self) -> str:
        return f"{self.function}({quoted(self.column)}, {shown(self.value)})"


@dataclass(frozen=True)
class Has(Condition):
    """Whether a list has an item."""

    column: str
    value: Any

    def __str__(self) -> str:
        return f"list_contains({quoted(self.column)}, {shown(self.value)})"


@dataclass(frozen=True)
class Both(Condition):
    """All of some conditions; none at all is true."""

    parts: tuple[Condition, ...]

    def __str__(self) -> str:
        return " AND ".join(f"({part})" for part in self.parts) or "true"


@dataclass(frozen=True)
class Either(Condition):
    """One of some conditions at least; none at all is false."""

    parts: tuple[Condition, ...]

    def __str__(self) -> str:
        return " OR ".join(f"({part})" for part in self.parts) or "false"


@dataclass(frozen=True)
class Not(Condition):
    inner: Condition

    def __str__(self) -> str:
        return f"NOT ({self.inner})"


@dataclass(frozen=True)
class Always(Condition):
    """The same for every row."""

    value: bool

    def __str__(self) -> str:
        return "true" if self.value else "false"


@dataclass(frozen=True)
class Other(Condition):
    """What only DuckDB can tell."""

    def __str__(self) -> str:
        return "…"


Where = str | Condition
"""A condition as a person writes it, or as a layer above has it."""


def every(parts: Sequence[Condition]) -> Condition:
    """All of them; none at all is true."""
    return parts[0] if len(parts) == 1 else Both(tuple(parts))


def either(parts: Sequence[Condition]) -> Condition:
    """One of them at least; none at all is false."""
    return parts[0] if len(parts) == 1 else Either(tuple(parts))


def columns(condition: Condition) -> Iterator[str]:
    """The columns that a condition names."""
    match condition:
        case Both() | Either():
            for part in condition.parts:
                yield from columns(part)
        case Not():
            yield from columns(condition.inner)
        case Compare() | In() | IsNull() | Flag() | Part() | Has():
            yield condition.column


def shown(value: Any) -> str:
    """A value as SQL writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        parts = ["'" + part.replace("'", "''") + "'" for part in value.split("\x00")]
        return parts[0] if len(parts) == 1 else f"({' || chr(0) || '.join(parts)})"
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, float):
        return f"CAST('{value!r}' AS DOUBLE)"
    if isinstance(value, dt.datetime):
        if value.tzinfo is None:
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        return f"TIMESTAMPTZ '{value.astimezone(dt.UTC).replace(tzinfo=None).isoformat(sep=' ')}+00:00'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, Decimal):
        return f"{value:f}"
    return str(value)
