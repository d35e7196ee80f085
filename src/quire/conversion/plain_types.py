"""Types as tables store them: no views, dictionaries, run lengths or narrow decimals."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from quire.conversion.rules import converted
from quire.conversion.source import Source

if TYPE_CHECKING:
    import pyarrow as pa


def plain(data: Source) -> Source:
    """Without encodings that tables do not store: views, dictionaries, run lengths, narrow decimals."""
    import pyarrow as pa

    if all(_is_plain(kind) for kind in data.schema.types):
        return data
    target = plain_schema(data.schema)

    def convert(batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [converted(c, f.type) for c, f in zip(batch.columns, target, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=target)

    if data.whole:
        return Source(target, [convert(b) for b in data.batches], whole=True, own=data.own)
    return Source(target, (convert(b) for b in data.batches), whole=False, own=data.own)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([pa.field(f.name, _plain_type(f.type), f.nullable, f.metadata) for f in schema])


def _is_plain(kind: pa.DataType) -> bool:
    simple, lists = _plain_ids()
    if kind.id in lists:
        return _is_plain(kind.value_type)
    return kind.id in simple or _plain_type(kind) == kind


@cache
def _plain_ids() -> tuple[frozenset[int], frozenset[int]]:
    """Types that are stored as they are, which most columns have; and lists, which are if their values are."""
    import pyarrow as pa

    kinds = (pa.int8, pa.int16, pa.int32, pa.int64, pa.uint8, pa.uint16, pa.uint32, pa.uint64, pa.float16, pa.float32)
    more = (pa.float64, pa.bool_, pa.string, pa.large_string, pa.binary, pa.large_binary, pa.date32, pa.date64)
    lists = (pa.list_(pa.int8()), pa.list_(pa.int8(), 1), pa.large_list(pa.int8()))
    return frozenset(kind().id for kind in (*kinds, *more)), frozenset(kind.id for kind in lists)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa
    import pyarrow.types as t

    if t.is_string_view(kind):
        return pa.string()
    if t.is_binary_view(kind):
        return pa.binary()
    if t.is_dictionary(kind) or t.is_run_end_encoded(kind):
        return _plain_type(kind.value_type)
    if t.is_decimal(kind) and kind.bit_width < 128:
        return pa.decimal128(kind.precision, kind.scale)
    if t.is_list_view(kind) or t.is_list(kind):
        return pa.list_(_plain_field(kind.value_field))
    if t.is_large_list_view(kind) or t.is_large_list(kind):
        return pa.large_list(_plain_field(kind.value_field))
    if t.is_fixed_size_list(kind):
        return pa.list_(_plain_field(kind.value_field), kind.list_size)
    if t.is_struct(kind):
        return pa.struct([_plain_field(f) for f in kind])
    return kind


def _plain_field(field: pa.Field) -> pa.Field:
    return field.with_type(_plain_type(field.type))
