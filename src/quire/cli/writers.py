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
from quire.errors import InvalidInput, NotFound
from quire.formats import rowfiles

if TYPE_CHECKING:
    import pyarrow as pa


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
        with whole(Path(path)) as file, _compressed(file, path, kind) as sink:
            return _WRITERS[kind](batches, schema, sink)


@contextmanager
def whole(path: Path) -> Iterator[IO[bytes]]:
    """A file beside the target that takes its name at the end, or is removed."""
    if path.is_dir():
        raise IsADirectoryError
    if not path.parent.is_dir():
        raise NotFound(f"There is no directory for {path}.", next="Make it, or name another.", file=str(path))
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
    import pyarrow.csv as csv

    with csv.CSVWriter(sink, rowfiles.csv_schema(schema)) as writer:
        return _each(batches, lambda batch: writer.write_table(rowfiles.as_csv(batch, schema)))


def _jsonl(batches: Iterable[pa.RecordBatch], schema: pa.Schema, sink: Any) -> int:
    return _each(batches, lambda batch: sink.write(rowfiles.as_jsonl(batch)))


def _parquet(batches: Iterable[pa.RecordBatch], schema: pa.Schema, sink: Any) -> int:
    count = 0
    with rowfiles.opened(sink, schema, "parquet") as put:
        for group in rowfiles.grouped(batches):
            put(group)
            count += group.num_rows
    return count


def _arrow(batches: Iterable[pa.RecordBatch], schema: pa.Schema, sink: Any) -> int:
    """The file form, which can be read at any place; on stdout the stream form."""
    import pyarrow as pa

    make = pa.ipc.new_stream if sink is sys.stdout.buffer else pa.ipc.new_file
    with make(sink, schema) as writer:
        return _each(batches, writer.write_batch)


def _each(batches: Iterable[pa.RecordBatch], put: Callable[[pa.RecordBatch], Any]) -> int:
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
