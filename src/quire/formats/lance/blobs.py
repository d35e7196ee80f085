"""Columns of blobs: bytes that lie beside the rows, and are read by range.

A scan shows where a blob lies and how large it is, not its bytes. Rows that are written anew take their blobs along, so
there they are read as bytes, a few rows at a time, and written as blobs again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from quire.conversion.source import Source
from quire.formats.lance.metering import metered
from quire.formats.lance.session import translating

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset

FEW = 16
"""Rows with blobs that are in memory at once: each may hold many megabytes."""


def is_blob(field: pa.Field) -> bool:
    """Whether a column holds blobs, in the type that Lance has for them."""
    return getattr(field.type, "extension_name", "") == "lance.blob.v2"


def blob_columns(schema: pa.Schema) -> list[str]:
    return [field.name for field in schema if is_blob(field)]


def with_bytes(schema: pa.Schema) -> dict[str, Any]:
    """Options of a scan that reads whole rows, blobs as bytes."""
    return {"blob_handling": "all_binary", "batch_size": FEW} if blob_columns(schema) else {}


def given(schema: pa.Schema) -> pa.Schema:
    """A table's schema as rows are given for it: blobs as bytes."""
    import pyarrow as pa

    if not blob_columns(schema):
        return schema
    return pa.schema([pa.field(f.name, pa.large_binary(), f.nullable) if is_blob(f) else f for f in schema])


def stored(data: Source, schema: pa.Schema) -> Source:
    """The same rows with bytes made into blobs, where the table holds blobs."""
    import pyarrow as pa

    wanted = {name for name in blob_columns(schema) if name in data.schema.names}
    if not any(_is_bytes(data.schema.field(name).type) for name in wanted):
        return data
    fields = [schema.field(f.name) if f.name in wanted and _is_bytes(f.type) else f for f in data.schema]
    target = pa.schema(fields)
    batches: Iterable[pa.RecordBatch] = (stored_batch(batch, target) for batch in data.batches)
    return Source(target, list(batches) if data.whole else batches, data.whole)


def stored_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows in the types of a schema of the same columns."""
    import pyarrow as pa

    arrays = [
        blobs_of(batch.column(f.name), f.type)
        if is_blob(f) and _is_bytes(batch.schema.field(f.name).type)
        else batch.column(f.name)
        for f in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def blobs_of(values: Any, kind: Any) -> pa.Array:
    """Bytes as Lance's blobs; null stays null."""
    import pyarrow as pa

    whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    data = whole.cast(pa.large_binary())
    parts = [data if f.name == "data" else pa.nulls(len(data), f.type) for f in kind.storage_type]
    storage = pa.StructArray.from_arrays(parts, fields=list(kind.storage_type), mask=data.is_null())
    return pa.ExtensionArray.from_storage(kind, storage)


def _is_bytes(kind: pa.DataType) -> bool:
    import pyarrow.types as t

    return bool(t.is_binary(kind) or t.is_large_binary(kind) or t.is_fixed_size_binary(kind))


def read_at(handle: LanceDataset, rows: list[int], column: str, *, by: Literal["ids", "addresses"] = "ids") -> pa.Array:
    """The blobs of rows by row id or by address, in the order given."""
    import pyarrow as pa

    ids, addresses = (rows, None) if by == "ids" else (None, rows)
    found = handle.read_blobs(column, ids=ids, addresses=addresses, preserve_order=True) if rows else []
    return blobs_of(pa.array([data for _, data in found], pa.large_binary()), handle.schema.field(column).type)


class LanceCell:
    """The bytes of one blob. Only what is asked for is read."""

    def __init__(self, handle: LanceDataset, file: Any) -> None:
        self._handle, self._file = handle, file
        self.size: int = file.size()

    def read(self, offset: int, length: int) -> bytes:
        with metered("take", self._handle.uri, steps=1), translating(f"a blob of {self._handle.uri}"):
            found: bytes = self._file.read_range(offset, length)
        return found


def cell(handle: LanceDataset, address: int, column: str) -> LanceCell | None:
    """The blob of a row, by its address; None where it is null."""
    with metered("take", handle.uri, steps=1) as window, translating(f"a blob of {handle.uri}"):
        window.in_turn = False
        [file] = handle.take_blobs(column, addresses=[address])
    return None if file is None else LanceCell(handle, file)


def batches_of(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Scanned rows as the table stores them."""
    for batch in batches:
        yield stored_batch(batch, schema) if blob_columns(schema) else batch
