"""Columns of properties from whatever the input holds: Python values, text of CSV files, Arrow columns.

The fast way converts a column at once; only when that fails is every value looked at, so that each wrong one is told
with its row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from quire.graph.integrity.rules import beyond_calendar
from quire.graph.types import FLOATS, INTEGERS, Type, Wrong

if TYPE_CHECKING:
    import pyarrow as pa

_WHOLE = re.compile(r"[+-]?\d{1,40}")
_NONE = type(None)


@dataclass
class Converted:
    """A column, and which of its rows could not be converted; those are null in it."""

    column: pa.Array
    wrong: dict[int, str] = field(default_factory=dict)


def from_python(values: Sequence[Any], kind: Type) -> Converted:
    """Values as Python or JSON has them."""
    import pyarrow as pa

    if _is_plain(values, kind):
        try:
            return _within(_at_once(values, kind), kind)
        except (pa.ArrowException, OverflowError, ValueError, TypeError):
            pass  # which value it was is found below
    return _each(values, kind, kind.value)


def from_text(column: Any, kind: Type) -> Converted:
    """A column of text, as CSV has it. Null stays null."""
    import pyarrow as pa

    if kind.is_text:
        return Converted(column.cast(pa.string()))
    if not kind.many and (kind.base in INTEGERS or kind.base in (*FLOATS, "Date", "DateTime")):
        try:
            return _within(column.cast(kind.arrow()), kind)
        except pa.ArrowException:
            pass
    return _each(column.to_pylist(), kind, lambda text: parsed(kind, text))


def from_arrow(column: Any, kind: Type) -> Converted:
    """A column of any Arrow type."""
    import pyarrow as pa

    target = kind.arrow()
    if column.type == target:
        return _within(column, kind)
    if pa.types.is_null(column.type):
        return Converted(pa.nulls(len(column), target))
    if _family(column.type) == "text" and not kind.is_text:
        return from_text(column, kind)
    vectors = _vectors(column, kind)
    if vectors is not None:
        return Converted(vectors)
    if (_family(column.type), _family(target)) in _CASTS:
        try:
            return _within(_cast(column, target), kind)
        except (pa.ArrowException, ValueError):
            pass
    return from_python(column.to_pylist(), kind)


def _vectors(column: Any, kind: Type) -> Any | None:
    """Lists of floats as vectors, without looking at each of them, where all have the right length."""
    import numpy as np
    import pyarrow as pa

    if kind.base != "Vector" or not pa.types.is_list(column.type) or column.null_count:
        return None
    if not pa.types.is_floating(column.type.value_type):
        return None
    if not bool((np.diff(column.offsets.to_numpy()) == kind.size).all()):
        return None
    return pa.FixedSizeListArray.from_arrays(column.flatten().cast(pa.float32()), kind.size).cast(kind.arrow())


def _cast(column: Any, target: pa.DataType) -> Any:
    """A column in another type, or an error where values would change."""
    made = column.cast(target)
    # Arrow cuts the time of day off without a word.
    if _family(column.type) == "moment" and _family(target) == "date" and not made.cast(column.type).equals(column):
        raise ValueError("a time of day")
    return made


def _within(column: Any, kind: Type) -> Converted:
    """What Arrow converted, as `Type.value` would have: no minus zero, and times that Python has too."""
    import pyarrow.compute as pc

    if kind.many:
        return Converted(column)
    if kind.base in FLOATS:
        return Converted(pc.add(column, 0.0).cast(column.type))
    if not kind.is_time:
        return Converted(column)
    outside = beyond_calendar(column, kind)
    wrong = {row: "is within the years 1 to 9999" for row in outside.tolist()}
    if not wrong:
        return Converted(column)
    return Converted(pc.if_else(_mask(len(column), outside), None, column), wrong)


def _mask(length: int, rows: Any) -> pa.Array:
    import numpy as np
    import pyarrow as pa

    mask = np.zeros(length, bool)
    mask[rows] = True
    return pa.array(mask)


def parsed(kind: Type, text: Any) -> Any:
    """The value that a text stands for."""
    if text is None or kind.is_text or not isinstance(text, str):
        return kind.value(text)
    if kind.many or kind.base == "Vector":
        try:
            return kind.value(msgspec.json.decode(text))
        except (msgspec.DecodeError, RecursionError):
            raise Wrong(f"is a list, written as [1, 2], not {text[:60]!r}") from None
    if kind.base in INTEGERS:
        return kind.value(int(text) if _WHOLE.fullmatch(text) else text)
    if kind.base in FLOATS:
        try:
            return kind.value(float(text))
        except ValueError as error:
            raise (error if isinstance(error, Wrong) else Wrong(f"is a number, not {text[:60]!r}")) from None
    if kind.base == "Bool":
        return kind.value({"true": True, "false": False}.get(text.lower(), text))
    return kind.value(text)


def _each(values: Sequence[Any], kind: Type, read: Callable[[Any], Any]) -> Converted:
    import pyarrow as pa

    wrong: dict[int, str] = {}
    read_values: list[Any] = []
    for row, value in enumerate(values):
        try:
            read_values.append(read(value))
        except Wrong as error:
            wrong[row] = str(error)
            read_values.append(None)
    return Converted(pa.array(read_values, kind.arrow()), wrong)


def _is_plain(values: Sequence[Any], kind: Type) -> bool:
    """Whether Arrow reads these values as `Type.value` would; a bool is no number, and 1.5 no whole one."""
    types = set(map(type, values)) - {_NONE}
    if kind.many:
        return False
    if kind.base == "Vector":
        return types <= {list}
    return types <= _PLAIN.get(kind.base, set())


_PLAIN: dict[str, set[type]] = {
    "String": {str},
    "enum": {str},
    "Bool": {bool},
    "Date": {str},
    "DateTime": {str},
    **{base: {int} for base in INTEGERS},
    **{base: {int, float} for base in FLOATS},
}


def _at_once(values: Sequence[Any], kind: Type) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if kind.is_time:
        texts = pa.array(values, pa.string())
        if kind.base == "Date" and pc.any(pc.not_equal(pc.utf8_length(texts), 10)).as_py():
            raise ValueError("not a plain date")
        return texts.cast(kind.arrow())
    if kind.base == "Vector":
        made = pa.array(values, pa.list_(pa.float64(), kind.size))
        return made.cast(kind.arrow())
    if kind.base == "F32":
        return pa.array(values, pa.float64()).cast(pa.float32())
    return pa.array(values, kind.arrow())


_CASTS = frozenset(
    {
        *((same, same) for same in ("int", "float", "text", "binary", "date", "moment", "aware")),
        ("moment", "aware"),
        ("int", "float"),
        ("float", "int"),
        ("decimal", "int"),
        ("decimal", "float"),
        ("moment", "date"),
    }
)


def _family(kind: pa.DataType) -> str:
    import pyarrow.types as t

    if t.is_integer(kind):
        return "int"
    if t.is_floating(kind):
        return "float"
    if t.is_string(kind) or t.is_large_string(kind):
        return "text"
    if t.is_binary(kind) or t.is_large_binary(kind):
        return "binary"
    if t.is_date(kind):
        return "date"
    if t.is_decimal(kind):
        return "decimal"
    if t.is_timestamp(kind) and kind.tz is not None:
        return "aware"
    return "moment" if t.is_timestamp(kind) else "other"
