"""Rows that come back from an engine without some types of a table: vectors and unsigned numbers as they were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from quire.conversion.source import Source

if TYPE_CHECKING:
    import pyarrow as pa


def returned(data: Source, schema: pa.Schema) -> Source:
    """The same rows as the table has them, where an engine without its types had to show them in others.

    Lists become vectors, without a copy, in every batch in which all of them fit; decimals without a fraction become
    unsigned numbers, also in lists and structs. Everything else stays as it is, for `fit` to cast or to refuse.
    """
    import pyarrow as pa

    wanted = {f.name: f.type for f in schema if _is_shown_otherwise(f.type)}
    if not any(name in wanted for name in data.schema.names):
        return data

    def convert(batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [_returned(c, wanted.get(n)) for c, n in zip(batch.columns, batch.schema.names, strict=True)]
        return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)

    fields = [f.with_type(_returned_type(f.type, wanted.get(f.name))) for f in data.schema]
    batches = (convert(b) for b in data.batches)
    # What is whole is read more than once.
    return Source(pa.schema(fields), list(batches) if data.whole else batches, data.whole)


def _is_shown_otherwise(kind: Any) -> bool:
    """Whether there are vectors or unsigned numbers in values of a type."""
    import pyarrow as pa

    if pa.types.is_fixed_size_list(kind) or pa.types.is_uint64(kind):
        return True
    return any(_is_shown_otherwise(kind.field(i).type) for i in range(kind.num_fields))


def _returned_type(have: Any, want: Any) -> Any:
    """The type that such values have then, but for vectors, which not every batch may hold."""
    import pyarrow as pa

    if _whole(have, want):
        return want
    if want is not None and pa.types.is_list(have) and _is_list(want):
        return pa.list_(have.value_field.with_type(_returned_type(have.value_type, want.value_type)))
    if want is not None and pa.types.is_struct(have) and pa.types.is_struct(want):
        return pa.struct([f.with_type(_returned_type(f.type, _field_type(want, f.name))) for f in have])
    return have


def _returned(column: Any, kind: Any) -> Any:
    import pyarrow as pa

    if kind is None or column.type == kind:
        return column
    if _whole(column.type, kind):
        try:
            return column.cast(kind)
        except pa.ArrowException:
            return column
    if pa.types.is_list(column.type) and _is_list(kind):
        return _returned_lists(column, kind)
    if pa.types.is_struct(column.type) and pa.types.is_struct(kind):
        names = [f.name for f in column.type]
        inner = [_returned(c, _field_type(kind, n)) for c, n in zip(column.flatten(), names, strict=True)]
        return pa.StructArray.from_arrays(inner, names, mask=column.is_null())
    return column


def _returned_lists(column: Any, kind: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    values = _returned(column.flatten(), kind.value_type)
    lengths = pc.list_value_length(column).fill_null(0).to_numpy()
    fits = pa.types.is_fixed_size_list(kind) and values.type == kind.value_type and not column.null_count
    if fits and bool((lengths == kind.list_size).all()):
        return pa.FixedSizeListArray.from_arrays(values, type=kind)
    if values.type == column.type.value_type:
        return column
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    field = column.type.value_field.with_type(values.type)
    return pa.ListArray.from_arrays(offsets, values, type=pa.list_(field), mask=column.is_null())


def _is_list(kind: Any) -> bool:
    import pyarrow.types as t

    return bool(t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind))


def _field_type(kind: Any, name: str) -> Any:
    place = kind.get_field_index(name)
    return None if place < 0 else kind.field(place).type


def _whole(have: Any, want: Any) -> bool:
    """Whether decimals without a fraction stand for unsigned numbers."""
    import pyarrow as pa

    return want is not None and pa.types.is_uint64(want) and pa.types.is_decimal(have) and have.scale == 0
