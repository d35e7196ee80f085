"""Filters for Lance from typed values. Text is quoted here and nowhere else; nothing else is pasted.

is_in("id", Type("String"), ["Alice", "O'Hara"])    # `id` in ('Alice', 'O''Hara')
compare("age", Type("I32"), ">=", 18)               # `age` >= 18
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any, Literal

from quire.errors import InvalidInput
from quire.graph.types import FLOATS, INTEGERS, Type

Operator = Literal["=", "!=", "<", "<=", ">", ">="]
TEXT = Type("String")


def column(name: str) -> str:
    """A column by name. Lance has no way to write a backtick within one, and Quire makes no such column."""
    if "`" in name:
        raise InvalidInput(f"Column {name!r} cannot be used in a filter.", next="Rename it.", column=name)
    return f"`{name}`"


def literal(kind: Type, value: Any) -> str:
    """A scalar value of this type as Lance's SQL writes it."""
    value = kind.value(value)
    if value is None:
        return "null"
    if kind.base in ("String", "enum"):
        return _text(value)
    if kind.base == "Bool":
        return "true" if value else "false"
    if kind.base in INTEGERS:
        # A minus is an operator there, and the smallest number has no opposite.
        return str(value) if value > -(2**63) else f"cast({_text(str(value))} as bigint)"
    if kind.base in FLOATS:
        return f"cast({_text(repr(value))} as {'float' if kind.base == 'F32' else 'double'})"
    if kind.base == "Date":
        return f"cast({_text(value.isoformat())} as date)"
    if kind.base == "DateTime":
        return f"cast({_text(_moment(value))} as timestamp)"
    raise InvalidInput(f"A value of type {kind} cannot be compared.", next="Compare another property.", type=str(kind))


def compare(name: str, kind: Type, operator: Operator, value: Any) -> str:
    return f"{column(name)} {operator} {literal(kind, value)}"


def is_in(name: str, kind: Type, values: Sequence[Any]) -> str:
    """Whether a column has one of these values; no value at all is false."""
    if not values:
        return "false"
    return f"{column(name)} in ({', '.join(literal(kind, v) for v in values)})"


def is_null(name: str) -> str:
    return f"{column(name)} is null"


def negated(condition: str) -> str:
    return f"not ({condition})"


def every(conditions: Sequence[str]) -> str:
    """All of them; none at all is true."""
    return " and ".join(f"({c})" for c in conditions) or "true"


def contains(name: str, kind: Type, value: Any) -> str:
    """Membership in a list, or an exact part of a text."""
    if kind.many:
        item = Type(kind.base)
        return f"array_has({column(name)}, {literal(item, value)})"
    return f"contains({column(name)}, {literal(TEXT, value)})"


def starts_with(name: str, value: Any) -> str:
    return f"starts_with({column(name)}, {literal(TEXT, value)})"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _moment(value: dt.datetime) -> str:
    return value.astimezone(dt.UTC).replace(tzinfo=None).isoformat(sep=" ") + "+00:00"
