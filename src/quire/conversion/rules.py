"""The one rule set for values that go into a column: which types fit which, and when a value may not.

`RULES` says for every pair of kinds whether values are converted: always, if each of them fits, or never (pairs that
are not listed). `converted` carries it out. A value that would not mean the same afterwards is `Unfit`, which names its
row; nothing is cut, and no value becomes another silently. Only fractions are rounded, to the nearest float.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from quire.conversion import held

if TYPE_CHECKING:
    import pyarrow as pa

Verdict = Literal["always", "if it fits", "never"]

RULES: dict[tuple[str, str], tuple[Verdict, str]] = {
    ("null", "any type"): ("always", "null"),
    ("boolean", "boolean"): ("always", "the same"),
    ("integer", "integer"): ("if it fits", "within the range of the column"),
    ("integer", "float"): ("if it fits", "the float is exactly this number"),
    ("integer", "decimal"): ("if it fits", "enough digits"),
    ("float", "float"): ("if it fits", "rounds to the nearest; larger than the column can hold is an error"),
    ("float", "integer"): ("if it fits", "a whole number within the range"),
    ("float", "decimal"): ("if it fits", "the decimal reads as the same float again"),
    ("decimal", "decimal"): ("if it fits", "enough digits before and after the point"),
    ("decimal", "integer"): ("if it fits", "a whole number within the range"),
    ("decimal", "float"): ("if it fits", "rounds to the nearest; larger than the column can hold is an error"),
    ("text", "text"): ("always", "the same"),
    ("binary", "binary"): ("if it fits", "the length of a fixed-size column"),
    ("date", "date"): ("always", "the same day"),
    ("date", "timestamp"): ("if it fits", "midnight; within the range of the unit"),
    ("date", "timestamp with zone"): ("if it fits", "midnight UTC; within the range of the unit"),
    ("time", "time"): ("if it fits", "no digits beyond the unit"),
    ("timestamp", "timestamp"): ("if it fits", "no digits beyond the unit, within its range"),
    ("timestamp", "timestamp with zone"): ("if it fits", "read as UTC; no digits beyond the unit"),
    ("timestamp", "date"): ("if it fits", "midnight"),
    ("timestamp with zone", "timestamp with zone"): ("if it fits", "the same instant; no digits beyond the unit"),
    ("duration", "duration"): ("if it fits", "no digits beyond the unit, within its range"),
    ("list", "list"): ("if it fits", "each value by these rules; the length of a fixed-size column"),
    ("struct", "struct"): (
        "if it fits",
        "each field by these rules; an absent one is null, an unknown one an error",
    ),
    ("map", "map"): ("if it fits", "keys and values by these rules"),
    ("uuid", "uuid"): ("always", "the same"),
}
"""From, to: whether it is converted, and what that takes. Dictionaries, views and run lengths are read as their values.
"""


ONE_VALUE = "is one value instead of a column"


class Unfit(Exception):
    """A value that a column cannot hold. `at` is its position, counted from 0; `why` ends a sentence."""

    def __init__(self, at: int, value: Any, why: str = "") -> None:
        super().__init__(at, value, why)
        self.at, self.value, self.why = at, value, why


def kind_of(kind: pa.DataType) -> str:
    """The kind by which `RULES` knows a type; its own name if there is none."""
    import pyarrow as pa
    import pyarrow.types as t

    if isinstance(kind, pa.BaseExtensionType):
        return "uuid" if kind.extension_name == "arrow.uuid" else str(kind)
    if t.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "timestamp with zone"
    for name, tests in _KINDS.items():
        if any(getattr(t, test)(kind) for test in tests):
            return name
    return str(kind)


_KINDS = {
    "null": ("is_null",),
    "boolean": ("is_boolean",),
    "integer": ("is_integer",),
    "float": ("is_floating",),
    "decimal": ("is_decimal",),
    "text": ("is_string", "is_large_string", "is_string_view"),
    "binary": ("is_binary", "is_large_binary", "is_fixed_size_binary", "is_binary_view"),
    "date": ("is_date",),
    "time": ("is_time",),
    "duration": ("is_duration",),
    "map": ("is_map",),
    "list": ("is_list", "is_large_list", "is_fixed_size_list", "is_list_view", "is_large_list_view"),
    "struct": ("is_struct",),
}


def verdict(have: pa.DataType, want: pa.DataType) -> Verdict:
    """Whether values of one type go into a column of another, as far as the types tell."""
    import pyarrow.types as t

    if t.is_dictionary(have) or t.is_run_end_encoded(have):
        return verdict(have.value_type, want)
    if have == want or t.is_null(have):
        return "always"
    pair = kind_of(have), kind_of(want)
    if pair not in RULES:
        return "never"
    if pair == ("list", "list"):
        inner = verdict(have.value_type, want.value_type)
        return "never" if inner == "never" else "if it fits"
    if pair == ("map", "map"):
        both = {verdict(have.key_type, want.key_type), verdict(have.item_type, want.item_type)}
        return "never" if "never" in both else "if it fits"
    if pair == ("struct", "struct"):
        return "never" if _misfit(have, want) else "if it fits"
    return RULES[pair][0]


def _misfit(have: pa.DataType, want: pa.DataType) -> str:
    """Why a struct cannot become another, or nothing."""
    names = [f.name for f in have]
    for name in names:
        if want.get_field_index(name) < 0:
            return f"the field {name!r} is not in the column"
        if names.count(name) > 1:
            return f"the field {name!r} is there twice"
    for field in want:
        if field.name not in names:
            if not field.nullable:
                return f"the field {field.name!r} is required and absent"
        elif verdict(have.field(field.name).type, field.type) == "never":
            return f"the field {field.name!r} is {have.field(field.name).type}, not {field.type}"
    return ""


def refusal(have: pa.DataType, want: pa.DataType) -> str:
    """What the verdict "never" rests on, where the two types alone do not show it."""
    import pyarrow.types as t

    if t.is_struct(have) and t.is_struct(want):
        return _misfit(have, want)
    pair = kind_of(have), kind_of(want)
    if pair == ("list", "list"):
        return refusal(have.value_type, want.value_type)
    return {
        ("timestamp with zone", "timestamp"): "the column has no zone to keep the instant",
        ("timestamp with zone", "date"): "which day it is depends on the zone",
    }.get(pair, "")


def converted(array: pa.Array, want: pa.DataType) -> pa.Array:
    """The same values in a type that `verdict` allows, or `Unfit` for the first that would change."""
    import pyarrow as pa
    import pyarrow.types as t

    have = array.type
    if have == want and (not have.num_fields or str(have) == str(want)):
        return array
    if array.null_count == len(array):
        return pa.nulls(len(array), want)
    if t.is_dictionary(have):
        return converted(_with_values(array, _no_view(array.dictionary)).dictionary_decode(), want)
    if t.is_run_end_encoded(have):
        return converted(_decoded_runs(array), want)
    if verdict(have, want) == "never":
        why = refusal(have, want)
        raise Unfit(*_first(array), why=why)
    if kind_of(want) == "list":
        return _lists(array, want)
    if t.is_struct(want):
        return _structs(array, want)
    if t.is_map(want):
        return _maps(array, want)
    return _values(array, want)


def _with_values(array: pa.Array, values: pa.Array) -> pa.Array:
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(array.indices, values)


def _no_view(values: pa.Array) -> pa.Array:
    """Text and bytes as Arrow's functions take them."""
    import pyarrow as pa

    other = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}.get(values.type)
    return values if other is None else values.cast(other)


def _decoded_runs(array: pa.Array) -> pa.Array:
    """Each value as often as its run is long."""
    import numpy as np
    import pyarrow as pa

    ends = array.run_ends.to_numpy()
    runs = np.searchsorted(ends, np.arange(array.offset, array.offset + len(array)), "right")
    return _no_view(array.values).take(pa.array(runs))


def _first(array: pa.Array) -> tuple[int, Any]:
    """The first value that is not null."""
    import pyarrow.compute as pc

    at = int(pc.index(array.is_valid(), True).as_py())
    return max(at, 0), shown(array, max(at, 0))


def shown(array: pa.Array, at: int) -> Any:
    """A value as Python has it; as text where Python has no such value."""
    return held.values(array.slice(at, 1))[0]


# -- nested values ----------------------------------------------------------------------------------------------------


def _lists(array: pa.Array, want: pa.DataType) -> pa.Array:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as t

    lengths = pc.list_value_length(array).fill_null(0).to_numpy().astype(np.int64)
    ends = np.cumsum(lengths)
    if t.is_fixed_size_list(want):
        short = (lengths != want.list_size) & array.is_valid().to_numpy(zero_copy_only=False)
        if short.any():
            at = int(np.argmax(short))
            raise Unfit(at, shown(array, at), f"has {lengths[at]} values instead of {want.list_size}")
    try:
        values = _required(converted(array.flatten(), want.value_type), want.value_field)
    except Unfit as unfit:
        at = int(np.searchsorted(ends, unfit.at, "right"))
        raise Unfit(at, unfit.value, unfit.why) from None
    mask = array.is_null() if array.null_count else None
    if t.is_fixed_size_list(want):
        if mask is None:
            return pa.FixedSizeListArray.from_arrays(values, type=want)
        spread = np.repeat(array.is_valid().to_numpy(zero_copy_only=False), want.list_size)
        places = np.where(spread, np.cumsum(spread) - 1, 0)
        # Under a null there is some value of the column: no null may stand where the values are required.
        return pa.FixedSizeListArray.from_arrays(values.take(pa.array(places)), type=want, mask=mask)
    large = t.is_large_list(want)
    offsets = pa.array(np.concatenate([[0], ends]), pa.int64() if large else pa.int32())
    made = pa.LargeListArray if large else pa.ListArray
    return made.from_arrays(offsets, values, type=want, mask=mask)


def _structs(array: pa.Array, want: pa.DataType) -> pa.Array:
    import pyarrow as pa

    there = dict(zip((f.name for f in array.type), array.flatten(), strict=True))
    fields = []
    for field in want:
        if field.name not in there:
            fields.append(pa.nulls(len(array), field.type))
            continue
        try:
            values = converted(there[field.name], field.type)
            if not field.nullable:
                _required(values, field, array.is_valid())
        except Unfit as unfit:
            why = f"in the field {field.name!r}" + (f": {unfit.why}" if unfit.why else "")
            raise Unfit(unfit.at, unfit.value, why) from None
        fields.append(values)
    return pa.StructArray.from_arrays(fields, fields=list(want), mask=array.is_null())


def _maps(array: pa.Array, want: pa.DataType) -> pa.Array:
    import numpy as np
    import pyarrow as pa

    # A slice of maps shows all keys of the whole.
    array = pa.concat_arrays([array, array.slice(0, 0)])
    offsets = array.offsets
    try:
        keys = converted(array.keys, want.key_type)
        items = _required(converted(array.items, want.item_type), want.item_field)
    except Unfit as unfit:
        at = int(np.searchsorted(offsets.to_numpy()[1:], unfit.at, "right"))
        raise Unfit(at, unfit.value, unfit.why) from None
    return pa.MapArray.from_arrays(offsets, keys, items, type=want, mask=array.is_null())


def _required(values: pa.Array, field: pa.Field, present: pa.Array | None = None) -> pa.Array:
    """The values, or `Unfit` for a null where the field has none."""
    import pyarrow.compute as pc

    if not field.nullable and values.null_count:
        wrong = values.is_null() if present is None else pc.and_(values.is_null(), present)
        at = int(pc.index(wrong, True).as_py())
        if at >= 0:
            raise Unfit(at, None, "the column has no nulls there")
    return values


# -- single values ----------------------------------------------------------------------------------------------------


def _values(array: pa.Array, want: pa.DataType) -> pa.Array:
    import pyarrow as pa

    convert = _conversion(array.type, want)
    try:
        return convert(array, want)
    except pa.ArrowException:
        at = _first_wrong(array, want, convert)
        raise Unfit(at, shown(array, at)) from None


def _first_wrong(array: pa.Array, want: pa.DataType, convert: Convert) -> int:
    """The position of the first value that cannot be converted."""
    import pyarrow as pa

    right, wrong = 0, len(array)
    while wrong - right > 1:
        middle = (right + wrong) // 2
        try:
            convert(array.slice(right, middle - right), want)
            right = middle
        except (pa.ArrowException, Unfit):
            wrong = middle
    return right


Convert = Callable[["pa.Array", "pa.DataType"], "pa.Array"]


def _conversion(have: pa.DataType, want: pa.DataType) -> Convert:
    """How one type becomes another. Where Arrow's own cast would change a value silently there is a stricter one."""
    special: dict[tuple[str, str], Convert] = {
        ("integer", "float"): _whole_floats,
        ("integer", "decimal"): _whole_decimals,
        ("float", "float"): _finite_floats,
        ("float", "integer"): _whole_numbers,
        ("float", "decimal"): _float_decimals,
        ("decimal", "float"): _decimal_floats,
        ("timestamp", "date"): _days,
        ("binary", "binary"): _bytes,
    }
    return special.get((kind_of(have), kind_of(want)), _cast)


def _cast(array: pa.Array, want: pa.DataType) -> pa.Array:
    return array.cast(want)


def _floats(array: pa.Array) -> Any:
    """As float64 of numpy, NaN where it is null."""
    import pyarrow as pa

    return array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)


def _no(wrong: Any, array: pa.Array, why: str) -> None:
    """`Unfit` for the first value that is wrong and is not null."""
    import numpy as np

    wrong = wrong & array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else wrong
    if wrong.any():
        at = int(np.argmax(wrong))
        raise Unfit(at, shown(array, at), why)


def _whole_floats(array: pa.Array, want: pa.DataType) -> pa.Array:
    import numpy as np
    import pyarrow as pa

    made = array.cast(want, safe=False)
    back = _floats(made)
    exact = np.isfinite(back)
    # A float of 2^63 or 2^64 is none of the numbers again, whatever it would be made into.
    limit = 2.0 ** (array.type.bit_width - (0 if pa.types.is_unsigned_integer(array.type) else 1))
    exact &= back < limit
    numbers = array.fill_null(0).to_numpy(zero_copy_only=False)
    exact[exact] = back[exact].astype(numbers.dtype) == numbers[exact]
    _no(~exact, array, f"is not exactly a {want}")
    return made


def _whole_decimals(array: pa.Array, want: pa.DataType) -> pa.Array:
    import pyarrow as pa

    # Arrow asks for room for the largest number of the type, not of those that are there.
    wide = pa.decimal256(76, want.scale) if want.scale <= 56 else want
    return array.cast(pa.decimal256(20, 0)).cast(wide).cast(want)


def _finite_floats(array: pa.Array, want: pa.DataType) -> pa.Array:
    import numpy as np

    made = array.cast(want, safe=False)
    if want.bit_width < array.type.bit_width:
        _no(np.isinf(_floats(made)) & ~np.isinf(_floats(array)), array, f"is larger than a {want} can hold")
    return made


def _whole_numbers(array: pa.Array, want: pa.DataType) -> pa.Array:
    import numpy as np

    values = _floats(array)
    _no(~np.isfinite(values) | (values != np.floor(values)), array, "is not a whole number")
    return array.cast(want)


def _float_decimals(array: pa.Array, want: pa.DataType) -> pa.Array:
    import pyarrow as pa

    source = array.cast(pa.float32()) if pa.types.is_float16(array.type) else array
    made = source.cast(want)
    back = made.cast(pa.float64()).cast(source.type, safe=False)
    _no(_floats(back) != _floats(source), array, f"has more digits than {want}")
    return made


def _decimal_floats(array: pa.Array, want: pa.DataType) -> pa.Array:
    import numpy as np
    import pyarrow as pa

    made = array.cast(want if want.bit_width > 16 else pa.float64(), safe=False)
    if want.bit_width == 16:
        return _finite_floats(made, want)
    _no(~np.isfinite(_floats(made)), array, f"is larger than a {want} can hold")
    return made


def _days(array: pa.Array, want: pa.DataType) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    days = array.cast(pa.date32(), safe=False)
    back = days.cast(pa.timestamp("s")).cast(pa.int64())
    seconds = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[array.type.unit]
    rest = pc.subtract(array.cast(pa.int64()), pc.multiply(back, seconds))
    _no(rest.fill_null(0).to_numpy(zero_copy_only=False) != 0, array, "is not midnight")
    return days.cast(want)


def _bytes(array: pa.Array, want: pa.DataType) -> pa.Array:
    import pyarrow as pa

    plain = array.cast(pa.large_binary()) if pa.types.is_fixed_size_binary(array.type) else array
    return plain.cast(want)
