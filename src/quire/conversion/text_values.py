"""Text of files as the type of its column: CSV, and what JSON has no form for. A text that means more than the column
can hold is `Unfit`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from quire.conversion import held
from quire.conversion.json_keys import repeated
from quire.conversion.python_values import column
from quire.conversion.rules import Unfit, converted, kind_of

if TYPE_CHECKING:
    import pyarrow as pa

ZONED = r"\d{2}:\d{2}.*([Zz]|[+-]\d{2}(:?\d{2})?)$"
TIME = r"^\d{2}:\d{2}:\d{2}(\.\d{1,9})?$"
_DURATION = re.compile(
    r"^([+-])?P(?:(\d{1,19})W)?(?:(\d{1,19})D)?(?:T(?=\d)(?:(\d{1,19})H)?(?:(\d{1,19})M)?(?:(\d{1,19}(?:\.\d{1,30})?)S)?)?$",
    re.ASCII | re.IGNORECASE,
)
_LENGTHS = (7 * 86_400, 86_400, 3600, 60, 1)
NOT_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
"""Floats that JSON has no form for, as text."""

Reader = Callable[["pa.Array", "pa.DataType"], "pa.Array"]


def read(text: pa.Array, want: pa.DataType) -> pa.Array | None:
    """Text as values of a type, spaces around it left out; None for types that are not written as a text.

    Lists and structs are written as JSON.
    """
    import pyarrow.compute as pc

    if kind_of(want) == "text":
        return text.cast(want)
    reader = _nested if want.num_fields else _readers().get(kind_of(want))
    return None if reader is None else _each(pc.utf8_trim_whitespace(text), want, reader)


def _readers() -> dict[str, Reader]:
    return {
        "boolean": _cast,
        "integer": _integers,
        "float": _floats,
        "decimal": _cast,
        "date": _dates,
        "time": _times,
        "timestamp": _timestamps,
        "timestamp with zone": _instants,
        "duration": _durations,
        "binary": _bytes,
    }


def _each(text: pa.Array, want: pa.DataType, reader: Reader) -> pa.Array:
    """What the reader makes of a text, or `Unfit` for the first that it cannot read."""
    import pyarrow as pa

    failures = (pa.ArrowException, ValueError, OverflowError, binascii.Error)
    try:
        return reader(text, want)
    except Unfit as unfit:
        raise Unfit(unfit.at, text[unfit.at].as_py(), unfit.why) from None
    except failures:
        right, wrong = 0, len(text)
        while wrong - right > 1:
            middle = (right + wrong) // 2
            try:
                reader(text.slice(right, middle - right), want)
                right = middle
            except (Unfit, *failures):
                wrong = middle
        raise Unfit(right, text[right].as_py()) from None


def _cast(text: pa.Array, want: pa.DataType) -> pa.Array:
    return text.cast(want)


def _integers(text: pa.Array, want: pa.DataType) -> pa.Array:
    import pyarrow as pa

    try:
        return text.cast(want)
    except pa.ArrowException:  # 1.0, as programs write whole numbers beside missing ones
        return converted(text.cast(pa.decimal256(76, 38)), want)


def _floats(text: pa.Array, want: pa.DataType) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    made = text.cast(pa.float64())
    large = pc.and_(pc.is_inf(made), pc.invert(pc.match_substring(text, "inf", ignore_case=True)))
    at = int(pc.index(large, True).as_py())
    if at >= 0:
        raise Unfit(at, text[at].as_py(), f"is larger than a {want} can hold")
    _exactly_whole(text, want)
    return converted(made, want)


def _exactly_whole(text: pa.Array, want: pa.DataType) -> None:
    """`Unfit` for a whole number that no float of the type is. Up to 3 digits all are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for digits, kind in (("{4,18}", pa.int64()), ("{19,76}", pa.decimal256(76, 0))):
        places = np.flatnonzero(pc.match_substring_regex(text, rf"^[+-]?\d{digits}$").fill_null(False).to_numpy(False))
        if not len(places):
            continue
        whole = text.take(pa.array(places)).cast(pa.large_string()).cast(kind)
        try:
            column([int(v) for v in whole.to_pylist()], want) if kind != pa.int64() else converted(whole, want)
        except Unfit as unfit:
            raise Unfit(int(places[unfit.at]), text[int(places[unfit.at])].as_py(), unfit.why) from None


def _dates(text: pa.Array, want: pa.DataType) -> pa.Array:
    import pyarrow as pa

    try:
        return text.cast(want)
    except pa.ArrowException:
        return converted(_timestamps(text, pa.timestamp("us")), want)


def _timestamps(text: pa.Array, want: pa.DataType) -> pa.Array:
    import pyarrow as pa

    try:
        return text.cast(want)
    except pa.ArrowException:  # more digits than the column has, perhaps zeros only
        return converted(text.cast(pa.timestamp("ns")), want)


def _instants(text: pa.Array, want: Any) -> pa.Array:
    """With a zone as it is said, without one in UTC."""
    import pyarrow as pa
    import pyarrow.compute as pc

    zoned = pc.match_substring_regex(text, ZONED)
    nothing = pa.scalar(None, pa.string())
    said = pc.if_else(zoned, text.cast(pa.string()), nothing)
    try:
        with_zone = said.cast(pa.timestamp(want.unit, "UTC"))
    except pa.ArrowException:
        with_zone = said.cast(pa.timestamp("ns", "UTC"))
    bare = _timestamps(pc.if_else(zoned, nothing, text.cast(pa.string())), pa.timestamp(want.unit))
    without = converted(bare, pa.timestamp(want.unit, "UTC"))
    return converted(pc.coalesce(converted(with_zone, without.type), without), want)


def _times(text: pa.Array, want: pa.DataType) -> pa.Array:
    """Times of the day, `12:34:56` and perhaps a fraction; Arrow reads such text only after a date."""
    import pyarrow as pa
    import pyarrow.compute as pc

    well = pc.match_substring_regex(text, TIME).fill_null(True).to_numpy(zero_copy_only=False)
    if not well.all():
        at = int(np.argmin(well))
        raise Unfit(at, text[at].as_py(), "is not a time such as 12:34:56 or 12:34:56.789")
    day = pc.binary_join_element_wise("1970-01-01T", text.cast(pa.string()), "")
    return converted(day.cast(pa.timestamp("ns")).cast(pa.time64("ns")), want)


def _durations(text: pa.Array, want: Any) -> pa.Array:
    """In ISO 8601, `P1DT2H3.5S`, with all the digits that the column has."""
    import pyarrow as pa

    found: list[int | None] = []
    for at, one in enumerate(text.to_pylist()):
        parts = None if one is None else _DURATION.match(one)
        if one is not None and (parts is None or not any(parts.groups()[1:])):
            raise Unfit(at, one, "is not a duration such as P1DT2H or PT0.5S")
        found.append(None if parts is None else _count(at, one, parts, want))
    return pa.array(found, pa.int64()).cast(want)


def _count(at: int, text: str, parts: re.Match[str], want: Any) -> int:
    """How many units of a column a duration is."""
    sign, *amounts = parts.groups()
    seconds: Decimal = sum((Decimal(n) * length for n, length in zip(amounts, _LENGTHS, strict=True) if n), Decimal(0))
    count = seconds * held.PER_SECOND[want.unit]
    if count != int(count):
        raise Unfit(at, text, f"has digits that {want} cannot hold")
    if abs(count) >= 2**63:
        raise Unfit(at, text, f"is out of the range of {want}")
    return -int(count) if sign == "-" else int(count)


def _bytes(text: pa.Array, want: pa.DataType) -> pa.Array:
    """Base64, also with the mark that graphs write before it."""
    texts = (None if v is None else v.removeprefix("base64:") for v in text.to_pylist())
    return column([None if v is None else base64.b64decode(v, validate=True) for v in texts], want)


def _nested(text: pa.Array, want: pa.DataType) -> pa.Array:
    values: list[Any] = []
    for at, one in enumerate(text.to_pylist()):
        try:
            value = None if one is None else msgspec.json.decode(one)
        except (msgspec.DecodeError, RecursionError):
            raise Unfit(at, one, "is not JSON, such as [1, 2, 3]") from None
        twice = None if one is None else repeated(one.encode(), value)
        if twice is not None:
            raise Unfit(at, one, f"has the key {twice!r} twice")
        values.append(value)
    return column(values, want, read)
