"""Fingerprints of keys: four bytes for each, the same in every process and every version, so that they may be stored.

    of([ids])             # one column, or the columns of a composite key
    wanted & known == ∅   # then no row has a wanted key

Equal keys of one type have equal fingerprints. Keys that differ may share one, so a fingerprint never says that a row
is there, only that none is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

Prints = NDArray[np.uint32]
"""Fingerprints in ascending order, each once."""
_Words = NDArray[np.uint64]

AT_ONCE = 1 << 20
"""Bytes of text whose places are numbered at once."""
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_NAN = 0x7FF8000000000000


def of(columns: Sequence[Any]) -> Prints | None:
    """The fingerprints of rows, or None for values of a type that has none."""
    return None if (found := in_order(columns)) is None else distinct(found)


def distinct(found: NDArray[np.uint32]) -> Prints:
    """A set of those that were found."""
    ordered = np.sort(found)  # np.unique takes very much longer
    return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] if len(ordered) else ordered


def in_order(columns: Sequence[Any]) -> NDArray[np.uint32] | None:
    """The same with one for each row, in the order of the rows."""
    import pyarrow as pa

    combined: _Words | None = None
    for column in columns:
        whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        words = _words(whole)
        if words is None:
            return None
        combined = words if combined is None else _mixed(combined * _GOLDEN + words)
    return None if combined is None else (combined >> np.uint64(32)).astype(np.uint32)


def has_one(kind: pa.DataType) -> bool:
    """Whether values of a type have fingerprints."""
    import pyarrow as pa

    try:
        return _words(pa.array([], kind)) is not None
    except (pa.ArrowException, NotImplementedError):
        return False


def may_share(a: Prints, b: Prints) -> bool:
    """Whether two sets have a fingerprint in common."""
    few, many = (a, b) if len(a) <= len(b) else (b, a)
    if not len(few):
        return False
    at = many.searchsorted(few)
    at[at == len(many)] = 0
    return bool((many[at] == few).any())


def _words(values: pa.Array) -> _Words | None:
    """A number of 64 bits for every value, well mixed; null is like zero or empty text, which does no harm."""
    import pyarrow.types as t

    kind = values.type
    if t.is_dictionary(kind):
        return _words(values.dictionary_decode())
    if t.is_decimal(kind):
        return _of_text(_filled(values.cast("string"), ""))
    if t.is_boolean(kind):
        return _of_numbers(_filled(values, False).cast("int64"))
    if t.is_integer(kind):
        return _of_numbers(_filled(values, 0))
    if t.is_floating(kind):
        return _of_floats(values)
    if t.is_temporal(kind) and not t.is_interval(kind):
        return _of_numbers(_filled(values.view("int64" if kind.bit_width == 64 else "int32"), 0))
    if t.is_string(kind) or t.is_large_string(kind) or t.is_binary(kind) or t.is_large_binary(kind):
        return _of_text(_filled(values, b"" if t.is_binary(kind) or t.is_large_binary(kind) else ""))
    if t.is_fixed_size_binary(kind):
        return _of_text(_filled(values.cast("binary"), b""))
    return None


def _filled(values: pa.Array, value: Any) -> pa.Array:
    return values.fill_null(value) if values.null_count else values


def _of_numbers(values: pa.Array) -> _Words:
    numbers = values.to_numpy(zero_copy_only=False)
    wide = numbers if numbers.dtype == np.uint64 else numbers.astype(np.int64).view(np.uint64)
    return _mixed(wide)


def _of_floats(values: pa.Array) -> _Words:
    numbers = np.asarray(values.to_numpy(zero_copy_only=False), np.float64) + 0.0  # zero has no sign
    bits = numbers.view(np.uint64).copy()
    bits[np.isnan(numbers)] = _NAN
    return _mixed(bits)


def _of_text(values: pa.Array) -> _Words:
    """Each byte times a number that belongs to its place, added up: texts that differ hardly ever come to the same."""
    import pyarrow as pa

    plain = values.cast(pa.large_binary())
    _, offsets, data = plain.buffers()
    if len(plain) == 0:
        return np.empty(0, np.uint64)
    ends = np.frombuffer(offsets, np.int64)[plain.offset : plain.offset + len(plain) + 1]
    lengths = np.diff(ends)
    every = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    found = np.empty(len(plain), np.uint64)
    start = 0
    while start < len(plain):
        stop = max(start + 1, int(ends.searchsorted(ends[start] + AT_ONCE, "right")) - 1)
        found[start:stop] = _added_up(every[ends[start] : ends[stop]], lengths[start:stop])
        start = stop
    return _mixed(found + _mixed(lengths.astype(np.uint64)))


def _added_up(data: NDArray[np.uint8], lengths: NDArray[np.int64]) -> _Words:
    ends = np.cumsum(lengths)
    places = np.arange(len(data), dtype=np.uint64) - np.repeat((ends - lengths).astype(np.uint64), lengths)
    terms = (data.astype(np.uint64) + np.uint64(1)) * (_mixed(places + np.uint64(1)) | np.uint64(1))
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms, dtype=np.uint64)])
    return np.asarray(sums[ends] - sums[ends - lengths], np.uint64)


def _mixed(words: _Words) -> _Words:
    """Every bit of a number depends on all of its bits (the finalizer of splitmix64)."""
    with np.errstate(over="ignore"):
        x = words + _GOLDEN
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(x ^ (x >> np.uint64(31)), np.uint64)
