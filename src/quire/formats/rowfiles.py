"""Rows as files: Parquet, Arrow, CSV and JSON Lines.

What CSV and JSON have no form for is text: times in ISO 8601, bytes in base64, and in CSV lists and structs as JSON.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    import pyarrow as pa

FileKind = Literal["parquet", "arrow", "csv", "jsonl"]
KINDS: tuple[FileKind, ...] = ("parquet", "arrow", "csv", "jsonl")

GROUP_ROWS = 122_880
GROUP_BYTES = 64 << 20


def to_json(value: Any) -> bytes:
    """Compact JSON. Times are ISO 8601, bytes base64, decimals text; NaN and the infinities are null."""
    return msgspec.json.encode(value, enc_hook=str)


def files(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, kind: FileKind, most: int
) -> Iterator[tuple[bytes, int]]:
    """Rows as whole files in memory, of about `most` bytes each, with their numbers of rows. There is at least one."""
    waiting = grouped(batches)
    group = next(waiting, None)
    first = True
    while group is not None or first:
        sink, rows, first = io.BytesIO(), 0, False
        with opened(sink, schema, kind) as put:
            while group is not None and (rows == 0 or sink.tell() < most):
                put(group)
                rows += group.num_rows
                group = next(waiting, None)
        yield sink.getvalue(), rows


@contextmanager
def opened(sink: Any, schema: pa.Schema, kind: FileKind) -> Iterator[Callable[[pa.Table], Any]]:
    """A way to put rows into a file, which is whole at the end of the block."""
    import pyarrow as pa

    if kind == "parquet":
        import pyarrow.parquet as pq

        with pq.ParquetWriter(sink, schema) as writer:
            yield writer.write_table
    elif kind == "arrow":
        with pa.ipc.new_file(sink, schema) as writer:
            yield writer.write_table
    elif kind == "csv":
        import pyarrow.csv as csv

        with csv.CSVWriter(sink, csv_schema(schema)) as writer:
            yield lambda rows: writer.write_table(as_csv(rows, schema))
    else:
        yield lambda rows: sink.write(as_jsonl(rows))


def grouped(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches put together to row groups of a useful size."""
    import pyarrow as pa

    group: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        group.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= GROUP_ROWS or size >= GROUP_BYTES:
            yield pa.Table.from_batches(group)
            group, rows, size = [], 0, 0
    if rows:
        yield pa.Table.from_batches(group)


# -- CSV ---------------------------------------------------------------------------------------------------------------


def csv_schema(schema: pa.Schema) -> pa.Schema:
    """The columns as CSV has them: what it has no form for is text."""
    import pyarrow as pa

    return pa.schema([(f.name, _flat(f.type) if _csv_writes(_flat(f.type)) else pa.string()) for f in schema])


def as_csv(rows: pa.Table | pa.RecordBatch, schema: pa.Schema) -> pa.Table:
    import pyarrow as pa

    arrays = [
        column.cast(_flat(field.type)) if _csv_writes(_flat(field.type)) else _as_text(column)
        for column, field in zip(rows.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=csv_schema(schema))


def _flat(kind: pa.DataType) -> pa.DataType:
    import pyarrow.types as t

    return kind.value_type if t.is_dictionary(kind) else kind


def _csv_writes(kind: pa.DataType) -> bool:
    import pyarrow.types as t

    raw = t.is_binary(kind) or t.is_large_binary(kind) or t.is_fixed_size_binary(kind) or t.is_binary_view(kind)
    return not (t.is_nested(kind) or raw or t.is_duration(kind) or t.is_float16(kind))


def _as_text(column: Any) -> pa.Array:
    """JSON for what CSV has no form for; a bare text (bytes in base64, a duration) without its quotes."""
    import pyarrow as pa

    texts = (None if value is None else to_json(value).decode() for value in column.to_pylist())
    return pa.array([text[1:-1] if text and text.startswith('"') else text for text in texts], pa.string())


# -- JSON --------------------------------------------------------------------------------------------------------------


def as_jsonl(rows: pa.RecordBatch | pa.Table) -> bytes:
    return b"".join(to_json(row) + b"\n" for row in json_rows(rows))


def json_rows(data: pa.RecordBatch | pa.Table) -> list[dict[str, Any]]:
    """Rows as values that `to_json` can write."""
    return [dict(zip(data.schema.names, row, strict=True)) for row in zip(*json_columns(data), strict=True)]


def json_columns(data: pa.RecordBatch | pa.Table) -> list[list[Any]]:
    """Columns as plain values. Nanoseconds become text; decimals without a fraction, such as sums, integers."""
    import pyarrow.types as t

    found = []
    for array in data.columns:
        if t.is_timestamp(array.type) and array.type.unit == "ns":  # Python's times cannot hold them
            array = array.cast("string")
        values = array.to_pylist()
        if t.is_decimal(array.type) and array.type.scale == 0:
            values = [None if v is None else int(v) for v in values]
        found.append(values)
    return found
