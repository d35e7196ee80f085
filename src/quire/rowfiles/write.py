"""Rows as files and on stdout: Parquet, Arrow, CSV and JSON lines. A file appears under its name only when it is whole.

What CSV and JSON have no form for is text: times in ISO 8601, bytes in base64, in JSON the floats `NaN`, `Infinity` and
`-Infinity`, and in CSV lists and structs as JSON.
"""

from __future__ import annotations

import io
import math
import os
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import msgspec

from quire.conversion import held
from quire.errors import InvalidInput, NotFound
from quire.rowfiles.kinds import STANDARD, Kind, compression_of, explained

if TYPE_CHECKING:
    import pyarrow as pa

FileKind = Literal["parquet", "arrow", "csv", "jsonl"]
KINDS: tuple[FileKind, ...] = ("parquet", "arrow", "csv", "jsonl")

GROUP_ROWS = 122_880
GROUP_BYTES = 64 << 20


def to_json(value: Any) -> bytes:
    """Compact JSON. Times are ISO 8601, bytes base64, decimals text."""
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


# -- one file, or stdout -----------------------------------------------------------------------------------------------


def write(batches: Iterable[pa.RecordBatch], schema: pa.Schema, path: str, kind: Kind) -> int:
    """Write the rows and return their number. An existing file is replaced, at the end and at once."""
    names = distinct(schema.names)
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


def _csv_file(batches: Iterable[pa.RecordBatch], schema: pa.Schema, sink: Any) -> int:
    import pyarrow.csv as csv

    with csv.CSVWriter(sink, csv_schema(schema)) as writer:
        return _each(batches, lambda batch: writer.write_table(as_csv(batch, schema)))


def _jsonl_file(batches: Iterable[pa.RecordBatch], schema: pa.Schema, sink: Any) -> int:
    return _each(batches, lambda batch: sink.write(as_jsonl(batch)))


def _parquet_file(batches: Iterable[pa.RecordBatch], schema: pa.Schema, sink: Any) -> int:
    count = 0
    with opened(sink, schema, "parquet") as put:
        for group in grouped(batches):
            put(group)
            count += group.num_rows
    return count


def _arrow_file(batches: Iterable[pa.RecordBatch], schema: pa.Schema, sink: Any) -> int:
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
    Kind.csv: _csv_file,
    Kind.jsonl: _jsonl_file,
    Kind.parquet: _parquet_file,
    Kind.arrow: _arrow_file,
}


def distinct(names: Sequence[str]) -> list[str]:
    """Column names made different: a query may have two columns of one name, a row of JSON may not."""
    found: list[str] = []
    for name in names:
        number, free = 1, name
        while free in found or (free != name and free in names):
            free, number = f"{name}_{number}", number + 1
        found.append(free)
    return found


# -- CSV ---------------------------------------------------------------------------------------------------------------


def csv_schema(schema: pa.Schema) -> pa.Schema:
    """The columns as CSV has them: what it has no form for is text."""
    import pyarrow as pa

    return pa.schema([(f.name, _flat(f.type) if _csv_writes(_flat(f.type)) else pa.string()) for f in schema])


def as_csv(rows: pa.Table | pa.RecordBatch, schema: pa.Schema) -> pa.Table:
    import pyarrow as pa

    for column, field in zip(rows.columns, schema, strict=True):
        _refuse_far(column, field.name)
    arrays = [
        column.cast(_flat(field.type)) if _csv_writes(_flat(field.type)) else _as_text(column)
        for column, field in zip(rows.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=csv_schema(schema))


def csv_bytes(rows: pa.Table | pa.RecordBatch, schema: pa.Schema, *, header: bool) -> bytes:
    """Rows as lines of CSV, after a line of their names if there is to be one."""
    import pyarrow.csv as csv

    sink = io.BytesIO()
    csv.write_csv(as_csv(rows, schema), sink, csv.WriteOptions(include_header=header))
    return sink.getvalue()


def _refuse_far(column: Any, name: str) -> None:
    """Refuse times for which Arrow writes a remark in place of a value."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as t

    if not (t.is_date(column.type) or t.is_timestamp(column.type)):
        return
    ends = pc.min_max(column)
    if any(end.is_valid and _is_far(pa.array([end])) for end in (ends["min"], ends["max"])):
        raise InvalidInput(
            f"Column {name!r} has a time that CSV has no form for: its year has more than four digits.",
            next="Write Parquet or Arrow.",
            column=name,
        )


def _is_far(time: pa.Array) -> bool:
    import re

    return re.match(r"\d{4}-", time.cast("string")[0].as_py()) is None


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

    found = held.exact(column)
    values = _without_nan(found) if _holds_floats(column.type) else found
    texts = (None if value is None else to_json(value).decode() for value in values)
    return pa.array([text[1:-1] if text and text.startswith('"') else text for text in texts], pa.string())


# -- JSON --------------------------------------------------------------------------------------------------------------


def as_jsonl(rows: pa.RecordBatch | pa.Table) -> bytes:
    return b"".join(to_json(row) + b"\n" for row in json_rows(rows))


def json_rows(data: pa.RecordBatch | pa.Table) -> list[dict[str, Any]]:
    """Rows as values that `to_json` can write."""
    return [dict(zip(data.schema.names, row, strict=True)) for row in zip(*json_columns(data), strict=True)]


def json_columns(data: pa.RecordBatch | pa.Table) -> list[list[Any]]:
    """Columns as plain values.

    Nanoseconds, and times that Python cannot hold, become text; decimals without a fraction, such as sums, integers;
    NaN and the infinities their names.
    """
    import pyarrow.types as t

    found = []
    for array in data.columns:
        values = held.exact(array)
        if t.is_decimal(array.type) and array.type.scale == 0:
            values = [None if v is None else int(v) for v in values]
        found.append(_without_nan(values) if _holds_floats(array.type) else values)
    return found


def _holds_floats(kind: pa.DataType) -> bool:
    import pyarrow.types as t

    return bool(t.is_floating(kind)) or any(_holds_floats(kind.field(i).type) for i in range(kind.num_fields))


def _without_nan(value: Any) -> Any:
    """The same values, with NaN and the infinities as text: JSON has no numbers for them."""
    if isinstance(value, float):
        return value if math.isfinite(value) else "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list | tuple):
        return [_without_nan(one) for one in value]
    return {k: _without_nan(v) for k, v in value.items()} if isinstance(value, dict) else value
