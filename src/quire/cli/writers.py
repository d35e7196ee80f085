"""Rows into files and stdout, streamed. A file appears under its name only when it is whole."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from quire.cli import jsonrows
from quire.cli.kinds import STANDARD, Kind, compression_of, explained
from quire.cli.output import to_json
from quire.errors import InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa

GROUP_ROWS = 122_880
GROUP_BYTES = 64 << 20


def write(batches: Iterable[pa.RecordBatch], schema: pa.Schema, path: str, kind: Kind) -> int:
    """Write the rows and return their number. An existing file is replaced, at the end and at once."""
    names = jsonrows.distinct(schema.names)
    if names != schema.names:
        import pyarrow as pa

        schema = pa.schema([field.with_name(name) for field, name in zip(schema, names, strict=True)])
        batches = (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in batches)
    with explained(path):
        if path == STANDARD:
            if kind is Kind.parquet:
                raise InvalidInput("Parquet cannot be written to stdout.", next="Name a file, or use --format jsonl.")
            sys.stdout.flush()
            return _WRITERS[kind](batches, schema, sys.stdout.buffer)
        with _whole(Path(path)) as file, _compressed(file, path, kind) as sink:
            return _WRITERS[kind](batches, schema, sink)


@contextmanager
def _whole(path: Path) -> Iterator[IO[bytes]]:
    """A file beside the target that takes its name at the end, or is removed."""
    if path.is_dir():
        raise IsADirectoryError
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(beside, "xb") as file:
            yield file
        with open(beside, "rb") as file:  # opened again: a compressor closes what it writes to
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        with suppress(FileNotFoundError):
            beside.unlink()
        raise


@contextmanager
def _compressed(file: IO[bytes], path: str, kind: Kind) -> Iterator[Any]:
    import pyarrow as pa

    compression = compression_of(path) if kind in (Kind.csv, Kind.jsonl) else None
    if compression is None:
        yield file
        return
    with pa.CompressedOutputStream(pa.PythonFile(file, mode="w"), compression) as sink:
        yield sink


def _csv(batches: Iterable[pa.RecordBatch], schema: pa.Schema, sink: Any) -> int:
    import pyarrow as pa
    import pyarrow.csv as csv

    plain = [f.type.value_type if pa.types.is_dictionary(f.type) else f.type for f in schema]
    target = pa.schema(
        [(f.name, kind if _csv_writes(kind) else pa.string()) for f, kind in zip(schema, plain, strict=True)]
    )
    count = 0
    with csv.CSVWriter(sink, target) as writer:
        for batch in batches:
            arrays = [
                column.cast(kind) if _csv_writes(kind) else _as_text(column)
                for column, kind in zip(batch.columns, plain, strict=True)
            ]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=target))
            count += batch.num_rows
    return count


def _csv_writes(kind: pa.DataType) -> bool:
    import pyarrow.types as t

    raw = t.is_binary(kind) or t.is_large_binary(kind) or t.is_fixed_size_binary(kind) or t.is_binary_view(kind)
    return not (t.is_nested(kind) or raw or t.is_duration(kind) or t.is_float16(kind))


def _as_text(column: pa.Array) -> pa.Array:
    """JSON for what CSV has no form for; a bare text (bytes in base64, a duration) without its quotes."""
    import pyarrow as pa

    texts = (None if value is None else to_json(value).decode() for value in column.to_pylist())
    return pa.array([text[1:-1] if text and text.startswith('"') else text for text in texts], pa.string())


def _jsonl(batches: Iterable[pa.RecordBatch], schema: pa.Schema, sink: Any) -> int:
    count = 0
    for batch in batches:
        sink.write(b"".join(to_json(row) + b"\n" for row in jsonrows.rows(batch)))
        count += batch.num_rows
    return count


def _parquet(batches: Iterable[pa.RecordBatch], schema: pa.Schema, sink: Any) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    count = 0
    with pq.ParquetWriter(sink, schema) as writer:
        for group in _groups(batches):
            writer.write_table(pa.Table.from_batches(group, schema=schema))
            count += sum(batch.num_rows for batch in group)
    return count


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Batches put together to row groups of a useful size."""
    group: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        group.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= GROUP_ROWS or size >= GROUP_BYTES:
            yield group
            group, rows, size = [], 0, 0
    if group:
        yield group


def _arrow(batches: Iterable[pa.RecordBatch], schema: pa.Schema, sink: Any) -> int:
    """The file form, which can be read at any place; on stdout the stream form."""
    import pyarrow as pa

    make = pa.ipc.new_stream if sink is sys.stdout.buffer else pa.ipc.new_file
    with make(sink, schema) as writer:
        return _each(batches, writer.write_batch)


def _each(batches: Iterable[pa.RecordBatch], put: Callable[[pa.RecordBatch], None]) -> int:
    count = 0
    for batch in batches:
        put(batch)
        count += batch.num_rows
    return count


_WRITERS: dict[Kind, Callable[[Iterable[pa.RecordBatch], pa.Schema, Any], int]] = {
    Kind.csv: _csv,
    Kind.jsonl: _jsonl,
    Kind.parquet: _parquet,
    Kind.arrow: _arrow,
}
