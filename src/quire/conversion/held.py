"""Arrow values as Python's, and as text where Python has none: times beyond the year 9999, and in files nanoseconds.

A message, a key or a line of a file must not fail because of a value that a table may hold.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

FAILURES = (OverflowError, ValueError, NotImplementedError)
"""What Arrow raises for values that Python, or pandas, has no form for; its own `ArrowInvalid` is a `ValueError`."""

SECOND = 10**9
DAY = 86_400
DAYS_OF_400_YEARS = 146_097
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": SECOND}


def values(column: Any) -> list[Any]:
    """The values of an array; text for each that Python cannot hold."""
    try:
        return list(column.to_pylist())
    except FAILURES:
        return [_value(scalar, exact=False) for scalar in column]


def rows(table: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows as dicts of such values."""
    names = table.schema.names
    columns = [values(column) for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def exact(column: Any) -> list[Any]:
    """The values of an array as files say them: whatever Python would cut or cannot hold is text."""
    import pyarrow.types as t

    if _has_nanoseconds(column.type):
        flat = t.is_timestamp(column.type) or t.is_time(column.type)
        return list(column.cast("string").to_pylist()) if flat else [_value(scalar, exact=True) for scalar in column]
    return values(column)


def _has_nanoseconds(kind: pa.DataType) -> bool:
    import pyarrow.types as t

    if t.is_timestamp(kind) or t.is_time(kind) or t.is_duration(kind):
        return bool(kind.unit == "ns")
    return any(_has_nanoseconds(kind.field(i).type) for i in range(kind.num_fields))


def _value(scalar: pa.Scalar, *, exact: bool) -> Any:
    """One value, within lists and structs too."""
    import pyarrow as pa

    if not scalar.is_valid:
        return None
    if isinstance(scalar, pa.StructScalar):
        return {name: _value(scalar[name], exact=exact) for name in scalar}
    if isinstance(scalar, pa.MapScalar):
        pairs = scalar.values
        keys, items = pairs.field(0), pairs.field(1)
        return [(_value(k, exact=exact), _value(v, exact=exact)) for k, v in zip(keys, items, strict=True)]
    if isinstance(scalar, pa.ListScalar | pa.LargeListScalar | pa.FixedSizeListScalar):
        return [_value(one, exact=exact) for one in scalar.values]
    if exact and _has_nanoseconds(scalar.type):
        return said(scalar)
    try:
        return scalar.as_py()
    except FAILURES:
        return said(scalar)


def said(scalar: pa.Scalar) -> str:
    """A time or a length of time as text, with all its digits."""
    import pyarrow as pa
    import pyarrow.types as t

    kind = scalar.type
    if t.is_duration(kind):
        return duration(scalar.value, PER_SECOND[kind.unit])
    if t.is_date32(kind):
        return day(scalar.value)
    if t.is_date64(kind):
        return day(scalar.value // (1000 * DAY))
    if t.is_timestamp(kind) and kind.unit != "ns":
        seconds, part = divmod(scalar.value, PER_SECOND[kind.unit])
        rest = dt.timedelta(seconds=seconds % DAY)
        return f"{day(seconds // DAY)}T{dt.datetime.min + rest:%H:%M:%S}{_fraction(part, kind)}{'Z' if kind.tz else ''}"
    return str(pa.array([scalar]).cast("string")[0].as_py())


def day(number: int) -> str:
    """A day since 1970 in ISO 8601, of any year: the calendar is the same every 400 years.

    >>> day(0), day(2_932_897), day(-719_529)
    ('1970-01-01', '+10000-01-01', '-0001-12-31')
    """
    cycles, rest = divmod(number, DAYS_OF_400_YEARS)
    found = dt.date(1970, 1, 1) + dt.timedelta(rest)
    year = found.year + 400 * cycles
    shown = f"+{year}" if year > 9999 else f"{year:04}" if year >= 0 else f"-{-year:04}"
    return f"{shown}-{found:%m-%d}"


def _fraction(part: int, kind: pa.DataType) -> str:
    digits = len(str(PER_SECOND[kind.unit])) - 1
    return f".{part:0{digits}}" if part else ""


def duration(count: int, per_second: int) -> str:
    """A length of time in ISO 8601, with as many digits as it has.

    >>> duration(90_061_000_000_005, 10**9), duration(-1, 10**9), duration(0, 1)
    ('P1DT3661.000000005S', '-PT0.000000001S', 'PT0S')
    """
    whole, part = divmod(abs(count), per_second)
    days, seconds = divmod(whole, 86_400)
    fraction = f".{str(part).zfill(len(str(per_second)) - 1).rstrip('0')}" if part else ""
    sign = "-" if count < 0 else ""
    time = f"T{seconds}{fraction}S" if seconds or part or not days else ""
    return f"{sign}P{f'{days}D' if days else ''}{time}"
