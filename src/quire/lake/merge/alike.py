"""Whether two cells hold the same: null is not empty text, NaN is NaN, a list, struct or vector is one value."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quire.conversion import held

if TYPE_CHECKING:
    import pyarrow as pa

Mask = NDArray[np.bool_]


def same(a: pa.ChunkedArray, b: pa.ChunkedArray) -> Mask:
    """Row by row, for two columns of one type."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as t

    one, other = plain(a), plain(b)
    nulls = np.asarray(pc.is_null(one)), np.asarray(pc.is_null(other))
    kind = one.type
    if t.is_fixed_size_list(kind) and t.is_floating(kind.value_type) and not (_holes(one) or _holes(other)):
        equal = _vectors(one, other, kind.list_size)
    elif t.is_nested(kind) or not _comparable(kind):
        pairs = zip(held.exact(one), held.exact(other), strict=True)
        equal = np.fromiter((equal_values(x, y) for x, y in pairs), bool, len(one))
    else:
        equal = np.asarray(pc.equal(one, other).fill_null(False), bool)
        if t.is_floating(kind):
            both = [pc.is_nan(c.cast(pa.float64())).fill_null(False) for c in (one, other)]
            equal |= np.asarray(both[0], bool) & np.asarray(both[1], bool)
    return np.where(nulls[0] | nulls[1], nulls[0] & nulls[1], equal).astype(bool)


def plain(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece, as the type that its values are stored in."""
    import pyarrow as pa

    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(whole, pa.ChunkedArray):  # of no chunk, in some versions
        whole = pa.array([], whole.type) if not whole.num_chunks else pa.concat_arrays(whole.chunks)
    while isinstance(whole.type, pa.BaseExtensionType):
        whole = whole.storage
    if pa.types.is_dictionary(whole.type):
        whole = whole.dictionary_decode()
    return whole.cast(pa.float32()) if pa.types.is_float16(whole.type) else whole


def equal_values(x: Any, y: Any) -> bool:
    """The same for two values as Python has them."""
    if isinstance(x, float) and isinstance(y, float):
        return x == y or (math.isnan(x) and math.isnan(y))
    if isinstance(x, dict) and isinstance(y, dict):
        return x.keys() == y.keys() and all(equal_values(v, y[k]) for k, v in x.items())
    if isinstance(x, list | tuple) and isinstance(y, list | tuple):
        return len(x) == len(y) and all(equal_values(v, w) for v, w in zip(x, y, strict=True))
    return (x is None) == (y is None) and bool(x == y)


def _comparable(kind: pa.DataType) -> bool:
    import pyarrow.types as t

    return not (t.is_null(kind) or t.is_decimal256(kind))


def _holes(vectors: pa.Array) -> bool:
    return bool(vectors.null_count or vectors.flatten().null_count)


def _vectors(a: pa.Array, b: pa.Array, size: int) -> Mask:
    import pyarrow as pa

    x, y = (np.asarray(v.flatten().cast(pa.float64())).reshape(-1, size) for v in (a, b))
    return np.asarray(((x == y) | (np.isnan(x) & np.isnan(y))).all(axis=1), bool)
