"""Conditions as Lance's SQL: what Lance reads exactly as DuckDB does, and nothing else.

    pushed(Both((Compare("id", "=", 7), Other())), schema)    # ('`id` = 7', False): holds for every row that is meant

Names stand in backticks and every value has the type of its column. Lance orders floats by their bits, so that NaN may
be below everything and -0.0 is below 0.0; what is written here says what DuckDB says.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from quire.filters import ast

if TYPE_CHECKING:
    import pyarrow as pa

LONG = 10_000
"""Values that a list may have for Lance."""
TERMS = 500
"""Conditions that may be joined for Lance, and levels of them."""
LEVELS = 12
_EARLIEST, _LATEST = dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1)
"""Times that Lance can write: it counts nanoseconds in 64 bits while it reads them."""


def pushed(condition: ast.Condition, schema: pa.Schema) -> tuple[str | None, bool]:
    """SQL for Lance that holds for all rows that satisfy a condition, and whether it holds for no others.

    None where there is nothing to say.
    """
    if isinstance(condition, ast.Both):
        parts = [pushed(part, schema) for part in condition.parts]
        said = [sql for sql, _ in parts if sql is not None]
        if len(said) > TERMS:
            return None, False
        return (_joined("and", said) if said else None), all(exact and sql is not None for sql, exact in parts)
    found = exactly(condition, schema)
    return found, found is not None


def exactly(condition: ast.Condition, schema: pa.Schema, level: int = 0) -> str | None:
    """SQL for Lance that is true, false and null where a condition is; None where there is none."""
    if level > LEVELS:
        return None
    match condition:
        case ast.Both() | ast.Either():
            parts = [exactly(part, schema, level + 1) for part in condition.parts]
            said = [part for part in parts if part is not None]
            if len(said) != len(parts) or len(said) > TERMS:
                return None
            if not said:
                return "true" if isinstance(condition, ast.Both) else "false"
            return _joined("and" if isinstance(condition, ast.Both) else "or", said)
        case ast.Not():
            inner = exactly(condition.inner, schema, level + 1)
            return None if inner is None else f"not ({inner})"
        case ast.Always():
            return "true" if condition.value else "false"
        case ast.Compare():
            return _compare(condition, schema.field(condition.column))
        case ast.In():
            return _within(condition, schema.field(condition.column))
        case ast.IsNull():
            field = schema.field(condition.column)
            return f"{quoted(field.name)} is null" if _is_plain(field.type) else None
        case ast.Flag():
            return quoted(condition.column)
        case ast.Part():
            return f"{condition.function}({quoted(condition.column)}, {_text(condition.value)})"
        case ast.Has():
            return _has(condition, schema.field(condition.column))
    return None


def quoted(name: str) -> str:
    """A column name as Lance's SQL reads it. Names with a backtick are refused when a column is made."""
    return f"`{name}`"


def literal(value: Any, kind: pa.DataType) -> str | None:
    """A value of a type as Lance's SQL reads it; None where it has no word for it."""
    import pyarrow.types as t

    if t.is_boolean(kind) and isinstance(value, bool):
        return "true" if value else "false"
    if t.is_integer(kind) and isinstance(value, int):
        return _whole(value)
    if (t.is_string(kind) or t.is_large_string(kind)) and isinstance(value, str):
        return _text(value)
    if (t.is_float32(kind) or t.is_float64(kind)) and isinstance(value, int | float) and math.isfinite(value):
        return f"cast({_text(repr(float(value)))} as {'float' if t.is_float32(kind) else 'double'})"
    if t.is_date32(kind) and isinstance(value, dt.date):
        return f"cast({_text(value.isoformat())} as date)" if 1700 < value.year < 2200 else None
    if t.is_timestamp(kind) and isinstance(value, dt.datetime):
        return _moment(value, kind)
    if t.is_decimal128(kind) and isinstance(value, Decimal | int):
        return f"cast({_text(f'{value:f}')} as decimal({kind.precision},{kind.scale}))"
    return None


def _moment(value: dt.datetime, kind: Any) -> str | None:
    # Of a column with another zone it takes the time for that of a clock there.
    if kind.unit == "ns" or kind.tz not in (None, "UTC") or (value.tzinfo is None) != (kind.tz is None):
        return None
    plain = value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)
    if not _EARLIEST < plain < _LATEST:
        return None
    zone = "" if kind.tz is None else "+00:00"
    return f"cast({_text(plain.isoformat(sep=' ') + zone)} as timestamp)"


def _whole(value: int) -> str:
    # A minus is an operator there, and the smallest number has no opposite.
    return str(value) if value >= 0 else f"cast({_text(str(value))} as bigint)"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _compare(term: ast.Compare, field: pa.Field) -> str | None:
    import pyarrow.types as t

    if t.is_floating(field.type):
        return _compare_floats(term, field)
    value = literal(term.value, field.type)
    return None if value is None else f"{quoted(term.column)} {term.operator} {value}"


def _compare_floats(term: ast.Compare, field: pa.Field) -> str | None:
    value, name = float(term.value), quoted(term.column)
    if value == 0 and term.operator in ("=", "<>"):
        return None
    if value == 0:
        value = -0.0 if term.operator in ("<", ">=") else 0.0
    written = literal(value, field.type)
    if written is None:
        return None
    plain = f"{name} {term.operator} {written}"
    if term.operator in ("=", "<>"):
        return plain
    # NaN is greater than every number, whatever its sign.
    return f"({plain} or isnan({name}))" if term.operator in (">", ">=") else f"({plain} and not isnan({name}))"


def _within(term: ast.In, field: pa.Field) -> str | None:
    import pyarrow.types as t

    if not term.values:
        return "false"
    if len(term.values) > LONG or (t.is_floating(field.type) and any(v == 0 for v in term.values)):
        return None
    values = [literal(value, field.type) for value in term.values]
    said = [value for value in values if value is not None]
    return f"{quoted(term.column)} in ({', '.join(said)})" if len(said) == len(values) else None


def _has(term: ast.Has, field: pa.Field) -> str | None:
    import pyarrow.types as t

    if not t.is_list(field.type) or t.is_floating(field.type.value_type):
        return None
    value = literal(term.value, field.type.value_type)
    return None if value is None else f"array_has({quoted(term.column)}, {value})"


def _is_plain(kind: pa.DataType) -> bool:
    """Whether null is null, however it is stored."""
    import pyarrow as pa
    import pyarrow.types as t

    extended = isinstance(kind, pa.BaseExtensionType)
    return bool(extended or t.is_primitive(kind) or t.is_string(kind) or t.is_large_string(kind))


def _joined(word: str, parts: Sequence[str]) -> str:
    """Many conditions as a tree that is not deep: Lance goes down it, level by level, on a stack that ends."""
    if len(parts) <= 8:
        return f" {word} ".join(f"({part})" for part in parts) if len(parts) > 1 else parts[0]
    middle = len(parts) // 2
    return f"({_joined(word, parts[:middle])}) {word} ({_joined(word, parts[middle:])})"
