"""Numbers of JSON as they are written, for columns that hold whole numbers or decimals: no double comes in between."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from quire.pipeline.mapping import Feed

if TYPE_CHECKING:
    import pyarrow as pa

WIDEST = 38
"""Digits of a decimal that DuckDB takes too."""
LONGEST = 100
"""Digits up to which a number is written out rather than with an exponent."""


def wanted(feed: Feed, kinds: Mapping[str, pa.DataType]) -> dict[str, pa.DataType]:
    """The columns of a source that a feed takes for whole numbers or decimals, with the types that they become.

    One that is taken for both is read as the decimal, which holds either.
    """
    import pyarrow.types as t

    columns = feed.mapped()
    pairs = [(n, n) for n in kinds] if columns is None else [(c.column, n) for n, c in columns.items()]
    found: dict[str, pa.DataType] = {}
    for column, name in pairs:
        kind = kinds.get(name)
        if column is None or kind is None or not is_exact(kind):
            continue
        if column not in found or t.is_decimal(kind):
            found[column] = kind
    return found


def is_exact(kind: pa.DataType) -> bool:
    """Whether a type holds whole numbers or decimals, itself or within."""
    import pyarrow.types as t

    if t.is_integer(kind) or t.is_decimal(kind):
        return True
    if is_list(kind):
        return is_exact(kind.value_type)
    return bool(t.is_struct(kind) and any(is_exact(f.type) for f in kind))


def is_list(kind: pa.DataType) -> bool:
    import pyarrow.types as t

    return bool(t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind))


def within(kind: pa.DataType | None, name: str | None = None) -> pa.DataType | None:
    """What the values of a list, or a field of a struct, become."""
    import pyarrow.types as t

    if kind is None:
        return None
    if name is None:
        return kind.value_type if is_list(kind) else None
    found = kind.get_field_index(name) if t.is_struct(kind) else -1
    return kind.field(found).type if found >= 0 else None


def number_type(kind: pa.DataType) -> pa.DataType:
    """The type that Arrow reads a number as, so that one that it cannot hold exactly is an error."""
    import pyarrow as pa

    if pa.types.is_decimal256(kind):
        return pa.decimal256(76, kind.scale)
    return pa.decimal128(WIDEST, kind.scale if pa.types.is_decimal(kind) else 0)


def settled(column: Any, kind: pa.DataType) -> Any:
    """A column that was read so, in a type that DuckDB has: whole numbers as such, very wide decimals as text."""
    target = _settled_type(column.type, kind)
    return column if target == column.type else column.cast(target)


def _settled_type(have: pa.DataType, want: pa.DataType | None) -> pa.DataType:
    import pyarrow as pa
    import pyarrow.types as t

    if t.is_list(have):
        return pa.list_(_settled_type(have.value_type, within(want)))
    if t.is_struct(have):
        return pa.struct([(f.name, _settled_type(f.type, within(want, f.name))) for f in have])
    if not t.is_decimal(have):
        return have
    if want is not None and t.is_integer(want):
        return pa.uint64() if t.is_unsigned_integer(want) else pa.int64()
    return pa.string() if t.is_decimal256(have) else have


# -- lines, one by one ------------------------------------------------------------------------------------------------


def read_lines(texts: Iterable[str], shapes: Mapping[str, Any]) -> dict[str, pa.Array]:
    """Some columns of lines that are objects, each value as it is written; `shapes` tell of fields seen elsewhere."""
    rows = [row if isinstance(row, dict) else {} for row in read_values(texts)]
    return {name: built([row.get(name) for row in rows], shape) for name, shape in shapes.items()}


def read_values(texts: Iterable[str | None]) -> list[Any]:
    """What texts of JSON say; what is none stays text."""
    decode = json.JSONDecoder(parse_float=_number, parse_int=_number, parse_constant=str).decode
    found: list[Any] = []
    for text in texts:
        try:
            found.append(None if text is None else decode(text))
        except (ValueError, RecursionError):
            found.append(text)
    return found


def built(values: Sequence[Any], shape: Any = None) -> pa.Array:
    """Values of JSON as one column: of numbers, lists or objects where all are; of text where they are mixed."""
    import pyarrow as pa

    given = [v for v in values if v is not None]
    if given and all(isinstance(v, Decimal) for v in given):
        return _numbers(values, given)
    if given and all(isinstance(v, list) for v in given):
        offsets: list[int] = [0]
        flat: list[Any] = []
        for value in values:
            flat += value or ()
            offsets.append(len(flat))
        mask = pa.array([value is None for value in values])
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), built(flat, _inner(shape)), mask=mask)
    if given and all(isinstance(v, dict) and v for v in given):
        known = shape if isinstance(shape, dict) else {}
        names = list(dict.fromkeys([*known, *(name for value in given for name in value)]))
        fields = [built([None if v is None else v.get(n) for v in values], known.get(n)) for n in names]
        return pa.StructArray.from_arrays(fields, names, mask=pa.array([v is None for v in values]))
    if given and all(isinstance(v, bool) for v in given):
        return pa.array(values, pa.bool_())
    return pa.array([None if v is None else written(v) for v in values], pa.string())


def _inner(shape: Any) -> Any:
    return shape[0] if isinstance(shape, list) else None


def _numbers(values: Sequence[Decimal | None], given: Sequence[Decimal]) -> pa.Array:
    """As whole numbers if they are, as decimals if those are wide enough, else as text."""
    import pyarrow as pa

    texts = [None if v is None else written(v) for v in values]
    for kind in (pa.int64(), pa.uint64()):
        try:
            return pa.array(texts, pa.string()).cast(kind)
        except pa.ArrowException:
            continue
    scale = max(0, *(-int(v.as_tuple().exponent) for v in given))
    if scale <= WIDEST and max(v.adjusted() for v in given) + 1 + scale <= WIDEST:
        return pa.array(texts, pa.string()).cast(pa.decimal128(WIDEST, scale))
    return pa.array(texts, pa.string())


def written(value: Any) -> str:
    """A value as text: a whole number without a fraction, whatever it was written with; what is no number as JSON."""
    if isinstance(value, str):
        return value
    if not isinstance(value, Decimal):
        return _json(value)
    if value.adjusted() > LONGEST or int(value.as_tuple().exponent) < -LONGEST:
        return str(value)
    return format(value.to_integral_value() if value == value.to_integral_value() else value, "f")


def _number(text: str) -> Decimal | str:
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent beyond reason
        return text


def _json(value: Any) -> str:
    """JSON with numbers as they are."""
    if isinstance(value, list):
        return "[" + ", ".join(map(_json, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k, ensure_ascii=False)}: {_json(v)}" for k, v in value.items()) + "}"
    return written(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)
