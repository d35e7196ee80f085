"""Values as literals of the SQL that Lance runs: typed, and with every character quoted."""

from __future__ import annotations

from typing import Any

from quire.graph.types import Type, canonical

ARROW = {
    "Bool": "Boolean",
    "I32": "Int32",
    "I64": "Int64",
    "U32": "UInt32",
    "U64": "UInt64",
    "F32": "Float32",
    "F64": "Float64",
    "Date": "Date32",
    "DateTime": 'Timestamp(Microsecond, Some("UTC"))',
}
"""Scalar types as Arrow's own SQL functions name them."""


def literal(type: Type, value: Any) -> str:
    """A value of a scalar type. It is written as text and cast, so that no number loses a digit on the way."""
    given = type.value(value)
    if type.base in ("String", "enum"):
        return _text(given)
    if type.base == "Blob":
        return f"arrow_cast(X'{given.hex()}', 'LargeBinary')"
    return f"arrow_cast({_text(canonical(given))}, {_text(ARROW[type.base])})"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
