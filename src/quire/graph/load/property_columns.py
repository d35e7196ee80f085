"""Columns of properties from whatever the input holds: Python values, text of CSV files, Arrow columns.

The fast way converts a column at once; only when that fails is every value looked at, so that each wrong one is told
with its row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec

from quire.conversion import text_values
from quire.conversion.rules import Unfit
from quire.graph.integrity.row_rules import beyond_calendar
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


def from_python(values: Sequence[Any], kind: Type, *, text: bool = False) -> Converted:
    """Values as Python or JSON has them; with `text`, those that are text are read as what they stand for."""
    import pyarrow as pa

    if _is_plain(values, kind):
        try:
            return _within(_at_once(values, kind), kind)
        except (pa.ArrowException, OverflowError, ValueError, TypeError):
            pass  # which value it was is found below
    return _each(values, kind, (lambda value: parsed(kind, value)) if text else lambda value: exactly(kind, value))


def from_text(column: Any, kind: Type) -> Converted:
    """A column of text, as CSV has it. Null stays null."""
    import pyarrow as pa

    if kind.is_text:
        return Converted(column.cast(pa.string()))
    if _is_read_as_text(kind):
        try:
            return _within(text_values.read(column.cast(pa.string()), kind.arrow()), kind)
        except (pa.ArrowException, Unfit):
            pass  # which value it was is found below
    return _each(column.to_pylist(), kind, lambda text: parsed(kind, text))


def _is_read_as_text(kind: Type) -> bool:
    """Whether files of rows for tables and for graphs write the values in one way."""
    return not kind.many and kind.base in (*INTEGERS, *FLOATS, "Date", "DateTime", "Bool")


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
    items = column.type.value_type if pa.types.is_list(column.type) else column.type
    return from_python(column.to_pylist(), kind, text=_family(items) == "text")


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
    wrong = {row: "must be within the years 1 to 9999" for row in outside.tolist()}
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
    if kind.many and isinstance(text, list):
        item = msgspec.structs.replace(kind, many=False)
        return kind.value([parsed(item, one) for one in text])
    if text is None or kind.is_text or not isinstance(text, str):
        return exactly(kind, text)
    if kind.many or kind.base == "Vector":
        try:
            return kind.value(msgspec.json.decode(text))
        except (msgspec.DecodeError, RecursionError):
            raise Wrong(f"must be a list, written as [1, 2], not {text[:60]!r}") from None
    if kind.base in INTEGERS and _WHOLE.fullmatch(text):
        return kind.value(int(text))
    return _read(kind, text) if _is_read_as_text(kind) else kind.value(text)


def _read(kind: Type, text: str) -> Any:
    """A text as files of rows write values of the type, or `Wrong`."""
    import pyarrow as pa

    try:
        made = text_values.read(pa.array([text], pa.string()), kind.arrow())
    except (pa.ArrowException, Unfit, OverflowError, ValueError) as error:
        why = error.why if isinstance(error, Unfit) else ""
        if kind.base in FLOATS:
            raise Wrong(f"must be a number ({kind.base}), not {text[:60]!r}{f', which {why}' if why else ''}") from None
        return kind.value(text)
    return kind.value(None if made is None else made[0].as_py())


def exactly(kind: Type, value: Any) -> Any:
    """The value of the type; a whole number that no float of it is exactly is `Wrong`."""
    made = kind.value(value)
    if kind.base in FLOATS and not kind.many and type(value) in (int, Decimal):
        exact = Decimal(value)
        if exact == exact.to_integral_value() and exact != Decimal(made):
            raise Wrong(f"must be a number ({kind.base}), not {value}, which is not exactly a float")
    return made


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
    if kind.base in FLOATS:
        return _floats(values, kind)
    return pa.array(values, kind.arrow())


def _floats(values: Sequence[Any], kind: Type) -> pa.Array:
    """An error where a whole number is not exactly a float, or a number is larger than any."""
    import pyarrow as pa
    import pyarrow.compute as pc

    made = pa.array(values, pa.float64()).cast(kind.arrow())
    most = 2**53 if kind.base == "F64" else 2**24
    if any(type(value) is int and abs(value) > most for value in values) or pc.any(pc.is_inf(made)).as_py():
        raise ValueError("values that must be looked at")
    return made


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
