"""The type of a column of text that no table says: that of its first values, if every value says the same in it.

What would say less, such as `007` as a number or `1` beside `true`, makes a column of text; where the type is settled
already, because rows before it were written, it is an error.
"""

from __future__ import annotations

import io
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

from quire.conversion import text_values
from quire.conversion.rules import Unfit
from quire.rowfiles.json_values import WIDEST, is_faithful

if TYPE_CHECKING:
    import pyarrow as pa

_WHOLE = r"^(0|-?[1-9]\d*)$"
"""A whole number as programs write it: no nought before it as in postal codes, no plus as in phone numbers, no hex."""
_NUMBER = r"^-?(0|[1-9]\d*|(0|[1-9]\d*)?\.\d+|(0|[1-9]\d*)\.)([eE][+-]?\d+)?$"
_NO_NUMBER = r"(?i)^-?(nan|inf|infinity)$"
_LONG = r"\d[\d.]{15,}|[eE]"
"""A number that a double may not hold."""
_BOOLEAN = r"(?i)^(true|false)$"


def inferred(texts: pa.Array) -> pa.DataType:
    """What Arrow takes values for, if they say the same in it; of long numbers one that keeps all their digits."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as t

    found = _by_arrow(texts)
    if t.is_floating(found) and not pc.any(pc.match_substring_regex(pc.utf8_trim_whitespace(texts), _NUMBER)).as_py():
        return pa.string()  # names such as Nan and Inf
    candidates = (found, _exact(texts)) if t.is_floating(found) else (found,)
    return next((kind for kind in candidates if _holds(kind, texts)), pa.string())


def misread(texts: pa.Array, kind: pa.DataType) -> int | None:
    """Where the first text is that a value of an inferred type says less than: it is not written as those are."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as t

    trimmed = pc.utf8_trim_whitespace(texts)
    if t.is_boolean(kind):
        well = pc.match_substring_regex(trimmed, _BOOLEAN)
    elif t.is_integer(kind):
        well = pc.match_substring_regex(trimmed, _WHOLE)
    elif t.is_decimal(kind):
        well = pc.match_substring_regex(trimmed, _NUMBER)
    elif t.is_floating(kind):
        well = _doubles(trimmed)
    else:
        return None
    at = int(pc.index(pc.fill_null(well, True), pa.scalar(False)).as_py())
    return at if at >= 0 else None


def _holds(kind: pa.DataType, texts: pa.Array) -> bool:
    if misread(texts, kind) is not None:
        return False
    try:
        return text_values.read(texts, kind) is not None
    except Unfit:
        return False


def _doubles(texts: pa.Array) -> pa.Array:
    """Which texts are numbers that a double holds."""
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = pc.match_substring_regex(texts, _NUMBER)
    doubtful = pc.and_(numbers, pc.match_substring_regex(texts, _LONG))
    if pc.any(doubtful).as_py():
        given = pc.unique(texts.filter(pc.fill_null(doubtful, False))).to_pylist()
        changed = pa.array([text for text in given if not _is_double(text)], pa.string())
        numbers = pc.and_not(numbers, pc.is_in(texts, changed))
    return pc.or_(numbers, pc.match_substring_regex(texts, _NO_NUMBER))


def _is_double(text: str) -> bool:
    try:
        return is_faithful(text, float(text))
    except InvalidOperation:  # an exponent beyond reason
        return False


def _by_arrow(texts: pa.Array) -> pa.DataType:
    import pyarrow as pa
    import pyarrow.csv as csv

    sink = io.BytesIO()
    csv.write_csv(pa.table({"c": texts}), sink)
    sink.seek(0)
    options = csv.ConvertOptions(null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False)
    reading = csv.ReadOptions(block_size=max(1 << 20, 2 * len(sink.getvalue())), use_threads=False)
    table = csv.read_csv(sink, reading, csv.ParseOptions(newlines_in_values=True), options)
    return table.schema.field(0).type


def _exact(texts: pa.Array) -> pa.DataType:
    """Whole numbers or decimals that hold all of these; text where there are none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        values = [Decimal(text.strip()) for text in pc.unique(texts.drop_null()).to_pylist()]
    except InvalidOperation:
        return pa.string()
    if not all(value.is_finite() for value in values):
        return pa.string()
    scale = max(0, *(-int(value.as_tuple().exponent) for value in values))
    digits = max(0, *(value.adjusted() + 1 for value in values))
    if not scale and all(0 <= value < 2**64 for value in values):
        return pa.uint64()
    return pa.decimal128(WIDEST, scale) if digits + scale <= WIDEST else pa.string()
