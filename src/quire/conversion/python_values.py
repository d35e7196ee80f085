"""Python values as Arrow columns, exactly.

Values are read as the type that holds them whole: a `datetime` as a timestamp, a pandas time to its nanosecond, a
large integer as a decimal. Where the type of the column is known they are then converted by the rules of
`rules`, like values from anywhere else.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.conversion.rules import ONE_VALUE, Unfit, converted, kind_of, shown
from quire.conversion.value_kinds import grouped, joint, joint_type, mixed

if TYPE_CHECKING:
    import pyarrow as pa

ReadText = Callable[["pa.Array", "pa.DataType"], "pa.Array | None"]
"""Reads text as another type, for sources that have no other form for it; None where it does not."""


def column(values: Sequence[Any], want: pa.DataType | None = None, text: ReadText | None = None) -> pa.Array:
    """One column. Without a type it is that of the values. `Unfit` names the first value that does not fit."""
    import pyarrow as pa

    groups = grouped(values)
    if not groups:
        return pa.nulls(len(values), want if want is not None else pa.null())
    if len(groups) == 1:
        [(kind, places)] = groups.items()
        return _whole(kind, values, want, text) if places is None else _spread(kind, values, places, want, text)
    if want is None:
        common = joint(groups)
        if common is None:
            raise mixed(values, groups)
        want = joint_type(common, values, groups)
    parts: list[pa.Array] = []
    order = np.full(len(values), -1, np.int64)
    wrong: Unfit | None = None
    for kind, places in groups.items():
        at: list[int] = list(range(len(values))) if places is None else places.tolist()
        try:
            part = _whole(kind, [values[i] for i in at], want, text)
        except Unfit as unfit:
            unfit.at = at[unfit.at]
            wrong = unfit if wrong is None or unfit.at < wrong.at else wrong
            continue
        order[at] = np.arange(len(at)) + sum(len(one) for one in parts)
        parts.append(part)
    if wrong is not None:
        raise wrong
    return pa.concat_arrays(parts).take(pa.array(order, mask=order < 0))


# -- values of one kind -----------------------------------------------------------------------------------------------


def _spread(kind: str, values: Sequence[Any], places: Any, want: Any, text: ReadText | None) -> pa.Array:
    """Values of one kind among nulls of several."""
    import pyarrow as pa

    try:
        part = _whole(kind, [values[i] for i in places], want, text)
    except Unfit as unfit:
        unfit.at = int(places[unfit.at])
        raise
    order = np.full(len(values), -1, np.int64)
    order[places] = np.arange(len(places))
    return part.take(pa.array(order, mask=order < 0))


def _whole(kind: str, values: Sequence[Any], want: pa.DataType | None, text: ReadText | None) -> pa.Array:
    """A column of values of one kind and None."""
    import pyarrow as pa

    if kind == "list":
        return _lists(values, want, text)
    if kind == "struct":
        return _structs(values, want, text)
    if kind.startswith("numpy "):
        return numpy_column(np.array(values), want)
    if want is not None and pa.types.is_floating(want) and _is_large(kind, values):
        kind, values = "float64", [_floated(i, v, want) for i, v in enumerate(values)]
    natural = _natural(kind, values, want)
    if want is None:
        return natural
    if kind == "text" and text is not None:
        read = text(natural, want)
        if read is not None:
            return read
    try:
        return converted(natural, want)
    except Unfit as unfit:
        raise Unfit(unfit.at, values[unfit.at], unfit.why) from None


def _is_large(kind: str, values: Sequence[Any]) -> bool:
    """Whether there are numbers that only floats, or decimals with very many digits, can hold."""
    if kind == "decimal":
        return True
    return kind == "integer" and any(v is not None and not -(2**63) <= v < 2**64 for v in values)


def _floated(at: int, value: Any, want: pa.DataType) -> float | None:
    """A number that is too large or too long for other types, as a float."""
    if value is None:
        return None
    try:
        made = float(value)
    except (OverflowError, ValueError):
        raise Unfit(at, value, f"is larger than a {want} can hold") from None
    if isinstance(value, int) and int(made) != value:
        raise Unfit(at, value, f"is not exactly a {want}")
    if isinstance(value, Decimal) and value.is_finite() and made in (float("inf"), float("-inf")):
        raise Unfit(at, value, f"is larger than a {want} can hold")
    return made


def _natural(kind: str, values: Sequence[Any], want: pa.DataType | None) -> pa.Array:
    """Values of one kind in the type that holds them whole."""
    import pyarrow as pa

    for one in _candidates(kind, want):
        if kind.startswith("pandas time") and getattr(one, "unit", "") == "us" and _has_nanoseconds(values):
            continue
        try:
            made = pa.array(values, one)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            continue
        if isinstance(made, pa.Array):  # more text than one array holds comes in chunks
            return made
    at = _first_wrong(kind, values, want)
    raise Unfit(at, values[at], _REASONS.get(kind, f"is a {type(values[at]).__name__}, which no column holds"))


def _has_nanoseconds(values: Sequence[Any]) -> bool:
    return any(getattr(v, "nanosecond", 0) for v in values)


def _candidates(kind: str, want: pa.DataType | None) -> list[Any]:
    """Types that hold values of a kind, the usual one first."""
    import pyarrow as pa

    zone = "UTC"
    fixed: dict[str, list[Any]] = {
        "boolean": [pa.bool_()],
        "integer": [pa.int64(), pa.uint64(), pa.decimal128(38, 0), pa.decimal256(76, 0)],
        "float64": [pa.float64()],
        "float32": [pa.float32()],
        "float16": [pa.float16()],
        "decimal": [None],
        "text": [pa.string(), pa.large_string()],
        "binary": [pa.binary(), pa.large_binary()],
        "datetime": [pa.timestamp("us")],
        "datetime with zone": [None, pa.timestamp("us", zone)] if want is None else [pa.timestamp("us", zone)],
        "pandas time": [pa.timestamp("ns"), pa.timestamp("us")],
        "pandas time with zone": [pa.timestamp("ns", zone), pa.timestamp("us", zone)],
        "date": [pa.date32()],
        "time": [pa.time64("us")],
        "duration": [pa.duration("us")],
        "pandas duration": [pa.duration("ns")],
        "uuid": [None],
        "arrow": [None],
    }
    return fixed.get(kind, [])


def _first_wrong(kind: str, values: Sequence[Any], want: pa.DataType | None) -> int:
    import pyarrow as pa

    def reads(some: Sequence[Any]) -> bool:
        for one in _candidates(kind, want):
            try:
                pa.array(some, one)
            except (pa.ArrowException, OverflowError, TypeError, ValueError):
                continue
            return True
        return all(v is None for v in some)

    right, wrong = 0, len(values)
    while wrong - right > 1:
        middle = (right + wrong) // 2
        right, wrong = (middle, wrong) if reads(values[right:middle]) else (right, middle)
    return right


_REASONS = {
    "integer": "is larger than any column can hold",
    "decimal": "is not a number that a decimal can hold",
    "text": "is not valid text",
    "datetime": "is outside the range of a timestamp",
    "datetime with zone": "is outside the range of a timestamp",
    "pandas time": "is outside the range of a timestamp",
    "time with zone": "has a zone, which a time of the day cannot keep",
}


# -- lists, structs and maps ------------------------------------------------------------------------------------------


def _lists(values: Sequence[Any], want: pa.DataType | None, text: ReadText | None) -> pa.Array:
    import pyarrow as pa
    import pyarrow.types as t

    if want is not None and t.is_map(want):
        return _maps(
            values, [None if v is None else [_pair(i, p) for p in v] for i, v in enumerate(values)], want, text
        )
    items = [None if v is None else _items(v) for v in values]
    inner = want.value_type if want is not None and kind_of(want) == "list" else None
    if want is not None and inner is None:
        at = next(i for i, v in enumerate(items) if v is not None)
        raise Unfit(at, values[at], "is a list")
    lengths = np.array([0 if v is None else len(v) for v in items], np.int64)
    ends = np.cumsum(lengths)
    try:
        flat = _flat(items, inner, text)
    except Unfit as unfit:
        raise Unfit(int(np.searchsorted(ends, unfit.at, "right")), unfit.value, unfit.why) from None
    offsets = pa.array(np.concatenate([[0], ends]), pa.int32() if len(flat) < 2**31 else pa.int64())
    mask = pa.array([v is None for v in items], pa.bool_())
    made = pa.ListArray if len(flat) < 2**31 else pa.LargeListArray
    whole = made.from_arrays(offsets, flat, mask=mask)
    if want is None:
        size = _vector_size(items, flat)
        return converted(whole, pa.list_(flat.type, size)) if size else whole
    return converted(whole, want)


def _items(value: Any) -> Any:
    """The values of a list; those of numpy stay together."""
    if isinstance(value, list | tuple):
        return value
    if hasattr(value, "__array__"):
        found = np.ma.asarray(value) if isinstance(value, np.ma.MaskedArray) else np.asarray(value)
        if isinstance(found, np.ma.MaskedArray):
            return found.tolist()
        return found if found.ndim == 1 and found.dtype.kind in "biuf" else list(found)
    return list(value)


def _flat(items: Sequence[Any], want: pa.DataType | None, text: ReadText | None) -> pa.Array:
    """The values of all lists, one after the other."""
    given = [v for v in items if v is not None]
    if given and all(isinstance(v, np.ndarray) for v in given):
        return numpy_column(np.concatenate(given), want)
    return column(list(itertools.chain.from_iterable(given)), want, text)


def _vector_size(items: Sequence[Any], flat: pa.Array) -> int:
    """How long the arrays of numpy are, if they are vectors: floats, as many in each."""
    import pyarrow as pa

    given = [v for v in items if v is not None]
    if not pa.types.is_floating(flat.type) or not all(isinstance(v, np.ndarray) for v in given):
        return 0
    lengths = {len(v) for v in given}
    return lengths.pop() if len(lengths) == 1 else 0


def _pair(at: int, pair: Any) -> Any:
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        raise Unfit(at, pair, "is not a pair of key and value")
    return pair


def _maps(given: Sequence[Any], pairs: Sequence[Any], want: pa.DataType, text: ReadText | None) -> pa.Array:
    import pyarrow as pa

    ends = np.cumsum([0 if p is None else len(p) for p in pairs])
    flat = list(itertools.chain.from_iterable(p for p in pairs if p is not None))
    try:
        keys = column([k for k, _ in flat], want.key_type, text)
        if keys.null_count:
            raise Unfit(int(np.argmax(keys.is_null().to_numpy(zero_copy_only=False))), None, "is a key")
        items = column([v for _, v in flat], want.item_type, text)
    except Unfit as unfit:
        raise Unfit(int(np.searchsorted(ends, unfit.at, "right")), unfit.value, unfit.why) from None
    offsets = pa.array(np.concatenate([[0], ends]), pa.int32())
    return pa.MapArray.from_arrays(offsets, keys, items, type=want, mask=pa.array([v is None for v in given]))


def _structs(values: Sequence[Any], want: pa.DataType | None, text: ReadText | None) -> pa.Array:
    import pyarrow as pa
    import pyarrow.types as t

    if want is not None and t.is_map(want):
        return _maps(values, [None if v is None else list(v.items()) for v in values], want, text)
    names = list(dict.fromkeys(itertools.chain.from_iterable(v for v in values if v is not None)))
    known = {f.name: f.type for f in want} if want is not None and t.is_struct(want) else None
    for name in names:
        if isinstance(name, str) and (known is None or name in known):
            continue
        at = next(i for i, v in enumerate(values) if v is not None and name in v)
        if want is not None and known is None:
            raise Unfit(at, values[at], "is a struct")
        reason = "is not a text" if known is None else "the column does not have"
        raise Unfit(at, values[at], f"has the field {name!r}, which {reason}")
    if want is not None and known is None:
        at = next(i for i, v in enumerate(values) if v is not None)
        raise Unfit(at, values[at], "is a struct")
    fields = []
    for name in names:
        try:
            kind = None if known is None else known[name]
            fields.append(column([None if v is None else v.get(name) for v in values], kind, text))
        except Unfit as unfit:
            why = f"in the field {name!r}" + (f": {unfit.why}" if unfit.why else "")
            raise Unfit(unfit.at, unfit.value, why) from None
    mask = pa.array([v is None for v in values], pa.bool_())
    if not names:
        empty = pa.array([None if v is None else {} for v in values], pa.struct([]))
        return empty if want is None or not want.num_fields else _with_nulls(empty, want)
    made = pa.StructArray.from_arrays(fields, names, mask=mask)
    return made if want is None else converted(made, want)


def _with_nulls(empty: pa.Array, want: pa.DataType) -> pa.Array:
    """Structs of which no row names a field."""
    import pyarrow as pa

    lacking = [f.name for f in want if not f.nullable]
    if lacking and empty.null_count < len(empty):
        at = int(np.argmax(empty.is_valid().to_numpy(zero_copy_only=False)))
        raise Unfit(at, shown(empty, at), f"the field {lacking[0]!r} is required and absent")
    fields = [pa.nulls(len(empty), f.type) for f in want]
    return pa.StructArray.from_arrays(fields, fields=list(want), mask=empty.is_null())


# -- numpy and pandas -------------------------------------------------------------------------------------------------


def numpy_column(values: Any, want: pa.DataType | None = None) -> pa.Array:
    """An array of numpy as one column: each row of several dimensions is a list of fixed size."""
    import pyarrow as pa

    if values.ndim == 0:
        raise Unfit(0, values.item(), ONE_VALUE)
    if values.ndim > 1:
        return _matrix(values, want)
    if values.dtype.kind == "O":
        return column(list(values), want)
    mask = None
    if isinstance(values, np.ma.MaskedArray):
        mask, values = np.ma.getmaskarray(values), values.data
    if values.dtype.byteorder not in "=|" and values.dtype.kind in "iufMm":
        values = values.astype(values.dtype.newbyteorder("="))
    if values.dtype.kind in "Mm":
        values = _known_unit(values)
    try:
        made = pa.array(values, mask=mask)
    except (pa.ArrowException, ValueError, TypeError):
        raise Unfit(0, shown_numpy(values), f"is {values.dtype}, which no column holds") from None
    return made if want is None else converted(made, want)


def shown_numpy(values: Any) -> Any:
    return values[0].item() if len(values) else None


def _known_unit(values: Any) -> Any:
    """Times in a unit that Arrow has, the same to the last digit."""
    unit = np.datetime_data(values.dtype)[0]
    times = values.dtype.kind == "M"
    known = ("D", "s", "ms", "us", "ns") if times else ("s", "ms", "us", "ns")
    if unit in known and np.datetime_data(values.dtype)[1] == 1:
        return values
    finer = {"Y": "D", "M": "D", "W": "D", "D": "D"} if times else {"W": "s", "D": "s"}
    target = finer.get(unit, {"h": "s", "m": "s", "generic": "s"}.get(unit, "ns"))
    made = values.astype(f"{values.dtype.kind}8[{target}]")
    lost = (made.astype(values.dtype) != values) & ~np.isnat(values)
    if lost.any():
        at = int(np.argmax(lost))
        raise Unfit(at, str(values[at]), f"has no exact form in {target}")
    return made


def _matrix(values: Any, want: pa.DataType | None) -> pa.Array:
    """Rows of numbers, each as a list of fixed size."""
    import pyarrow as pa

    rows, size = values.shape[0], values.shape[1]
    if not size or values.dtype.kind == "O":
        return column([None if v is None else list(v) for v in values], want)
    inner = numpy_column(values.reshape(rows * size, *values.shape[2:]))
    made = pa.FixedSizeListArray.from_arrays(inner, size)
    return made if want is None else converted(made, want)


def pandas_column(series: Any, want: pa.DataType | None = None) -> pa.Array:
    """A column of a frame. What pandas calls missing (NaN, NaT, NA, None) is null."""
    import pyarrow as pa

    if series.dtype == object:
        return column([None if isinstance(v, float) and v != v else v for v in series], want)
    try:
        made = pa.array(series, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, NotImplementedError):
        return column([None if isinstance(v, float) and v != v else v for v in series], want)
    whole = made.combine_chunks() if isinstance(made, pa.ChunkedArray) else made
    return whole if want is None else converted(whole, want)


def is_pandas(values: Any) -> bool:
    """Whether these are values of pandas, which is imported then."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(
        values, pandas.Series | pandas.Index | pandas.api.extensions.ExtensionArray
    )


def listed(values: Any) -> Sequence[Any] | None:
    """The values of what can be a column, or None for what cannot: a single value, or text."""
    if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__iter__"):
        return None
    return values if isinstance(values, list | tuple) else list(values)
