"""Rows from files and stdin, streamed: no file is ever held in memory."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from csv import reader as csv_rows
from itertools import chain
from typing import IO, TYPE_CHECKING, Any

import msgspec

from quire.cli import jsonrows
from quire.cli.kinds import STANDARD, Kind, compression_of, explained, kind_of
from quire.errors import InvalidInput, SchemaMismatch

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK_BYTES = 1 << 20
BATCH_ROWS = 16_384
_CSV_PLACE = re.compile(r"In CSV column #(\d+): (?:Row #(\d+): )?(.*)", re.DOTALL)


def read(paths: Sequence[str], kind: Kind | None, schema: pa.Schema | None) -> pa.RecordBatchReader:
    """The rows of these files, one after the other. `schema` types what the format leaves open (CSV, JSONL)."""
    import pyarrow as pa

    first = _open(paths[0], kind, schema)
    if len(paths) == 1:
        return first

    def batches() -> Iterator[pa.RecordBatch]:
        yield from first
        for path in paths[1:]:
            for batch in _open(path, kind, schema or first.schema):
                yield _like(batch, first.schema, path)

    return pa.RecordBatchReader.from_batches(first.schema, batches())


def rows_in(paths: Sequence[str], kind: Kind | None) -> int | None:
    """How many rows there are, where the files say so at once."""
    import pyarrow.parquet as pq

    if any(path == STANDARD or kind_of(path, kind) is not Kind.parquet for path in paths):
        return None
    total = 0
    for path in paths:
        with explained(path):
            total += pq.read_metadata(path).num_rows
    return total


def _open(path: str, kind: Kind | None, schema: pa.Schema | None) -> pa.RecordBatchReader:
    import pyarrow as pa

    found = kind_of(path, kind)
    if path == STANDARD and found is Kind.parquet:
        raise InvalidInput("Parquet cannot be read from stdin.", next="Name a file, or pipe CSV, JSONL or Arrow.")
    with explained(path):
        if found is Kind.parquet:
            reader = _parquet(path)
        elif found is Kind.arrow:
            reader = _arrow(path)
        elif found is Kind.csv:
            with _with_row(path, schema):
                reader = _csv(path, schema)
        else:
            reader = _jsonl(path, schema)

    def guarded() -> Iterator[pa.RecordBatch]:
        with explained(path), _with_row(path, schema) if found is Kind.csv else nullcontext():
            yield from reader

    return pa.RecordBatchReader.from_batches(reader.schema, guarded())


def _bytes(path: str) -> Any:
    import pyarrow as pa

    if path == STANDARD:
        return pa.PythonFile(sys.stdin.buffer, mode="r")
    return pa.input_stream(path, compression=compression_of(path))


def _parquet(path: str) -> pa.RecordBatchReader:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path, memory_map=False)
    return pa.RecordBatchReader.from_batches(
        file.schema_arrow.remove_metadata(), file.iter_batches(batch_size=BATCH_ROWS)
    )


def _arrow(path: str) -> pa.RecordBatchReader:
    import pyarrow as pa

    if path != STANDARD:
        with open(path, "rb") as file:
            seekable = file.read(6) == b"ARROW1"
        if seekable:
            stored = pa.ipc.open_file(pa.memory_map(path))
            return pa.RecordBatchReader.from_batches(
                stored.schema.remove_metadata(), (stored.get_batch(i) for i in range(stored.num_record_batches))
            )
    return pa.ipc.open_stream(_bytes(path))


# -- CSV ---------------------------------------------------------------------------------------------------------------


@contextmanager
def _with_row(path: str, schema: pa.Schema | None) -> Iterator[None]:
    """Name the row and the column that Arrow could not read. Reading in several threads it does not know the row, so a
    file is read once more, by one."""
    import pyarrow as pa

    try:
        yield
        return
    except pa.ArrowInvalid as error:
        said = error
    if path != STANDARD:
        try:
            for _ in _csv(path, schema, threads=False):
                pass
        except pa.ArrowInvalid as error:
            said = error
    raise pa.ArrowInvalid(_named(str(said), path)) from None


def _named(said: str, path: str) -> str:
    """`row 3, column 'v': CSV conversion error …` of what Arrow says with numbers."""
    told = _CSV_PLACE.match(said)
    if told is None:
        return re.sub(r"Row #(\d+)", r"row \1", said)
    column, row, rest = int(told[1]), told[2], told[3]
    names = _header(path)
    which = f"column {names[column]!r}" if column < len(names) else f"column {column + 1}"
    return f"{f'row {row}, ' if row else ''}{which}: {rest}"


def _header(path: str) -> list[str]:
    """The names of the columns, as far as they can be read."""
    if path == STANDARD:
        return []
    text = io.TextIOWrapper(io.BufferedReader(_bytes(path)), "utf-8-sig", errors="replace", newline="")
    return next(csv_rows(text), [])


def _csv(path: str, schema: pa.Schema | None, *, threads: bool = True) -> pa.RecordBatchReader:
    """Typed by the schema where there is one. An empty field is null; a quoted empty field is empty text."""
    import pyarrow as pa
    import pyarrow.csv as csv

    as_text = {f.name: f.type for f in schema or () if not _csv_reads(f.type)}
    types = {f.name: pa.string() if f.name in as_text else f.type for f in schema or ()}
    reader = csv.open_csv(
        _bytes(path),
        read_options=csv.ReadOptions(block_size=CHUNK_BYTES, use_threads=threads),
        parse_options=csv.ParseOptions(newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            column_types=types, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )
    if not any(name in as_text for name in reader.schema.names):
        return reader
    target = pa.schema([pa.field(f.name, as_text.get(f.name, f.type)) for f in reader.schema])

    def batches() -> Iterator[pa.RecordBatch]:
        row = 2  # the first is the header
        for batch in reader:
            yield _from_text(batch, target, as_text, path, row)
            row += batch.num_rows

    return pa.RecordBatchReader.from_batches(target, batches())


def _csv_reads(kind: pa.DataType) -> bool:
    import pyarrow.types as t

    return bool(
        t.is_boolean(kind)
        or t.is_integer(kind)
        or t.is_float32(kind)
        or t.is_float64(kind)
        or t.is_decimal128(kind)
        or t.is_string(kind)
        or t.is_large_string(kind)
        or t.is_timestamp(kind)
        or t.is_date(kind)
        or t.is_time(kind)
    )


def _from_text(
    batch: pa.RecordBatch, target: pa.Schema, as_text: dict[str, pa.DataType], path: str, first: int
) -> pa.RecordBatch:
    """Columns that CSV has no form for hold JSON: lists as [1, 2], bytes in base64."""
    import pyarrow as pa

    arrays = []
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        kind = as_text.get(name)
        if kind is None:
            arrays.append(array)
            continue
        found = [_value(v, kind, f"{path}, row {row}, column {name!r}") for row, v in enumerate(array, first)]
        arrays.append(jsonrows.column(found, kind, name, lambda at: f"{path}, row {first + at}"))
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def _value(scalar: pa.Scalar, kind: pa.DataType, where: str) -> Any:
    import pyarrow.types as t

    text = scalar.as_py()
    if text is None or not (t.is_nested(kind) or t.is_floating(kind)):
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidInput(
            f"{where}: {text[:60]!r} is not {kind}: {error}.", next="Write lists as [1, 2, 3]."
        ) from None


# -- JSONL -------------------------------------------------------------------------------------------------------------


def _jsonl(path: str, schema: pa.Schema | None) -> pa.RecordBatchReader:
    """The first chunk decides which columns there are; a row that lacks one has null there."""
    import pyarrow as pa

    source: Any = sys.stdin.buffer if path == STANDARD else _bytes(path)
    chunks = _rows(source, path)
    first = next(chunks, None)
    if first is None:
        if schema is None:
            raise InvalidInput(f"{path} is empty, so its columns are unknown.", next="Say --schema.", file=path)
        return pa.RecordBatchReader.from_batches(schema, [])
    names = list(dict.fromkeys(chain.from_iterable(first[0])))
    known = {f.name: f.type for f in schema or ()}
    head = _batch(*first, {name: known.get(name) for name in names}, path)
    types = {f.name: f.type for f in head.schema}
    rest = (_batch(rows, lines, types, path) for rows, lines in chunks)
    return pa.RecordBatchReader.from_batches(head.schema, chain([head], rest))


def _batch(rows: list[dict[str, Any]], lines: list[int], types: dict[str, Any], path: str) -> pa.RecordBatch:
    import pyarrow as pa

    for row, line in zip(rows, lines, strict=True):
        if not row.keys() <= types.keys():
            extra = sorted(row.keys() - types.keys())
            raise SchemaMismatch(
                f"{path} has the column {extra[0]!r} further down, in line {line}, but not in its first rows.",
                next="Give the first row every column, with null where there is no value.",
                file=path,
                unexpected=extra,
            )

    def where(at: int) -> str:
        return f"{path}, line {lines[at]}"

    arrays = [jsonrows.column([row.get(name) for row in rows], kind, name, where) for name, kind in types.items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(types))


def _rows(source: IO[bytes], path: str) -> Iterator[tuple[list[dict[str, Any]], list[int]]]:
    """Objects, one per line, in lists of bounded size, and the lines that they are on."""
    decoder = msgspec.json.Decoder(dict[str, Any])
    found: list[dict[str, Any]] = []
    lines: list[int] = []
    size = 0
    for number, line in enumerate(_lines(source), 1):
        if not line.strip():
            continue
        try:
            found.append(decoder.decode(line))
        except msgspec.DecodeError as error:
            raise InvalidInput(
                f"Line {number} of {path} is not a JSON object: {error}.",
                next='Write one object per line, such as {"id": 1}.',
                file=path,
                line=number,
            ) from None
        lines.append(number)
        size += len(line)
        if len(found) >= BATCH_ROWS or size >= CHUNK_BYTES:
            yield found, lines
            found, lines, size = [], [], 0
    if found:
        yield found, lines


def _lines(source: IO[bytes]) -> Iterable[bytes]:
    rest = b""
    while block := source.read(1 << 20):
        *lines, rest = (rest + block).split(b"\n")
        yield from lines
    if rest:
        yield rest


def _like(batch: pa.RecordBatch, schema: pa.Schema, path: str) -> pa.RecordBatch:
    """A batch of a later file in the shape of the first file's."""
    import pyarrow as pa

    if batch.schema.equals(schema):
        return batch
    if set(batch.schema.names) != set(schema.names):
        raise SchemaMismatch(
            f"{path} has the columns {', '.join(batch.schema.names)}, not {', '.join(schema.names)}.",
            next="Read files of one shape together, others one by one.",
            file=path,
        )
    with explained(path):
        return pa.RecordBatch.from_arrays([batch.column(f.name).cast(f.type) for f in schema], schema=schema)
