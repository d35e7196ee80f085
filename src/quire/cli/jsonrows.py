"""JSON values as columns and back: what JSON has no type for is text, in the same form in which Quire writes it."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import msgspec

from quire.errors import SchemaMismatch
from quire.formats.rowfiles import json_columns as columns
from quire.formats.rowfiles import json_rows as rows

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["column", "columns", "distinct", "rows"]


def column(
    values: Sequence[Any], kind: pa.DataType | None, name: str, where: Callable[[int], str] | None = None
) -> pa.Array:
    """One column from JSON values; without a type it is inferred. `where` says where a value, by its position, is."""
    try:
        return _array(values, kind)
    except _wrong() as error:
        place = f"{where(_first_wrong(values, kind))}: " if where is not None else ""
        wanted = f"is {kind}, but a value is not" if kind is not None else "mixes types"
        raise SchemaMismatch(
            f"{place}Column {name!r} {wanted}: {str(error).strip().splitlines()[0].rstrip('.')}.",
            next="Times are written in ISO 8601, bytes in base64; --schema sets the types of a new table.",
            column=name,
        ) from None


def _array(values: Sequence[Any], kind: pa.DataType | None) -> pa.Array:
    import pyarrow as pa

    if kind is None:
        return pa.array(values)
    moment = pa.types.is_timestamp(kind) or pa.types.is_date(kind)
    if moment and all(v is None or isinstance(v, str) for v in values):  # Arrow keeps nanoseconds; Python does not
        return pa.array(values, pa.string()).cast(kind)
    return pa.array(_convert(values, kind), kind)


def _wrong() -> tuple[type[Exception], ...]:
    """What is raised for a value that does not fit."""
    import pyarrow as pa

    return pa.ArrowException, TypeError, ValueError, OverflowError, InvalidOperation, binascii.Error


def _first_wrong(values: Sequence[Any], kind: pa.DataType | None) -> int:
    """The position of the first value with which those up to it do not become a column."""
    right, wrong = 0, len(values)
    while wrong - right > 1:
        middle = (right + wrong) // 2
        try:
            _array(values[:middle], kind)
            right = middle
        except _wrong():
            wrong = middle
    return right


def _convert(values: Sequence[Any], kind: pa.DataType) -> Sequence[Any]:
    """JSON values as Python values of this Arrow type. Refuses what Arrow would take and change: 1.5 as an integer."""
    import pyarrow.types as t

    if t.is_integer(kind):
        return [_whole(v) for v in values] if float in map(type, values) else values
    if t.is_floating(kind):
        if bool in map(type, values):
            raise ValueError("expected a number, got true or false")
        return values
    if t.is_decimal(kind):
        return [None if v is None else Decimal(str(v)) for v in values]
    if t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind):
        _only(list, values, "a list")
        return [None if v is None else _convert(v, kind.value_type) for v in values]
    if t.is_struct(kind):
        return _structs(values, kind)
    parse = _parser(kind)
    return values if parse is None else [parse(v) if isinstance(v, str) else v for v in values]


def _parser(kind: pa.DataType) -> Callable[[str], Any] | None:
    """How the text of this type is read; None for types that JSON has itself."""
    import pyarrow.types as t

    if t.is_timestamp(kind):
        return datetime.fromisoformat
    if t.is_date(kind):
        return date.fromisoformat
    if t.is_time(kind):
        return time.fromisoformat
    if t.is_duration(kind):
        return lambda text: msgspec.convert(text, timedelta)
    if t.is_binary(kind) or t.is_large_binary(kind) or t.is_fixed_size_binary(kind) or t.is_binary_view(kind):
        return lambda text: base64.b64decode(text, validate=True)
    return None


def _structs(values: Sequence[Any], kind: pa.DataType) -> list[dict[str, Any] | None]:
    _only(dict, values, "an object")
    members = [f.name for f in kind]
    extra = {name for v in values if v is not None for name in v} - set(members)
    if extra:
        raise ValueError(f"there is no member {sorted(extra)[0]!r}")
    columns = [_convert([None if v is None else v.get(f.name) for v in values], f.type) for f in kind]
    rows = zip(*columns, strict=True) if columns else iter([()] * len(values))
    return [None if v is None else dict(zip(members, row, strict=True)) for v, row in zip(values, rows, strict=True)]


def _whole(value: Any) -> Any:
    if isinstance(value, float):
        if not value.is_integer():
            raise ValueError(f"expected a whole number, got {value}")
        return int(value)
    return value


def _only(kind: type, values: Sequence[Any], what: str) -> None:
    for value in values:
        if value is not None and not isinstance(value, kind):
            raise ValueError(f"expected {what}, got {str(value)[:60]!r}")


def distinct(names: Sequence[str]) -> list[str]:
    """Column names made different: a query may have two columns of one name, a row of JSON may not."""
    found: list[str] = []
    for name in names:
        number, free = 1, name
        while free in found or (free != name and free in names):
            free, number = f"{name}_{number}", number + 1
        found.append(free)
    return found
