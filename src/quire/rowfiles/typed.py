"""Files as one stream of rows in the types of a table; or, for a new one, in the types of their values.

A value that does not fit, and a line that is no row, are errors that name the file, the line and the column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn

from quire.conversion import text_values
from quire.conversion.rules import Unfit, converted, verdict
from quire.errors import InvalidInput, SchemaMismatch
from quire.rowfiles import json_values
from quire.rowfiles.csv import PLAIN, CsvForm
from quire.rowfiles.files import Numbered, RowFile, buffered
from quire.rowfiles.inferred import inferred, misread
from quire.rowfiles.jsonl import NoObject
from quire.rowfiles.kinds import STANDARD, Kind, explained, kind_of

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK_BYTES = 1 << 20
BATCH_ROWS = 16_384


def read(files: Sequence[RowFile], schema: pa.Schema | None) -> pa.RecordBatchReader:
    """The rows of these files, one after the other, streamed. `schema` says the types of the columns that it has."""
    import pyarrow as pa

    first = _typed(files[0], schema)
    if len(files) == 1:
        return first

    def batches() -> Iterator[pa.RecordBatch]:
        yield from first
        for file in files[1:]:
            for batch in _typed(file, schema or first.schema, guessed=schema is None):
                yield _like(batch, first.schema, file.path)

    return pa.RecordBatchReader.from_batches(first.schema, batches())


def row_files(paths: Sequence[str], kind: Kind | None, form: CsvForm = PLAIN, stdin: Any = None) -> list[RowFile]:
    """Files by their names; `-` stands for stdin."""
    if list(paths).count(STANDARD) > 1:
        raise InvalidInput("- is stdin, which can be read once.", next="Name it once.")
    found = [RowFile(path, kind_of(path, kind), form) for path in paths]
    if any(file.path == STANDARD and file.kind is Kind.parquet for file in found):
        raise InvalidInput("Parquet cannot be read from stdin.", next="Name a file, or pipe CSV, JSONL or Arrow.")
    return [replace(file, stream=buffered(stdin)) if file.path == STANDARD else file for file in found]


def rows_in(files: Sequence[RowFile]) -> int | None:
    """How many rows there are, where the files say so at once."""
    import pyarrow.parquet as pq

    if any(file.kind is not Kind.parquet for file in files):
        return None
    total = 0
    for file in files:
        with explained(file.path):
            total += pq.read_metadata(file.path).num_rows
    return total


def _typed(file: RowFile, schema: pa.Schema | None, *, guessed: bool = False) -> pa.RecordBatchReader:
    """The rows of a file. The types of the schema may be `guessed` from a file before it."""
    read = _of_objects if file.kind is Kind.jsonl else _of_columns
    return read(file, schema, guessed)


# -- CSV, Parquet and Arrow -------------------------------------------------------------------------------------------


def _of_columns(file: RowFile, schema: pa.Schema | None, guessed: bool) -> pa.RecordBatchReader:
    import pyarrow as pa

    def refuse(line: int, rule: str, said: str, row: Any) -> NoReturn:
        raise InvalidInput(
            f"{file.place(line)}: {said}", next="Correct the file.", file=file.path, line=line, rule=rule
        )

    names = list(schema.names) if schema is not None else None
    found = file.read(refuse, block=CHUNK_BYTES, names=names)
    head: list[Numbered] = []
    for batch, lines in found:
        head.append((batch, lines))
        if batch.num_rows:
            break
    columns = head[0][0].schema
    values = head[-1][0] if file.is_text else None
    fields = [_field(field, schema, None if values is None else values.column(i)) for i, field in enumerate(columns)]
    target = pa.schema(fields)
    known = () if schema is None or guessed else schema.names
    doubted = {f.name for f in fields if values is not None and f.name not in known}

    def batches() -> Iterator[pa.RecordBatch]:
        for batch, lines in chain(head, found):
            if batch.num_rows:
                arrays = [
                    _fitted(c, f, file, lines, guessed=f.name in doubted)
                    for c, f in zip(batch.columns, target, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=target)

    return pa.RecordBatchReader.from_batches(target, batches())


def _field(have: pa.Field, schema: pa.Schema | None, values: pa.Array | None) -> pa.Field:
    """The column as the table has it, if values of a file become that; of text without a table, as its values are."""
    place = -1 if schema is None else schema.get_field_index(have.name)
    if schema is None or place < 0:
        return have.with_type(inferred(values)) if values is not None else have
    want = schema.field(place).type
    if values is not None or verdict(have.type, want) == "if it fits":
        return have.with_type(want)
    return have


def _fitted(column: pa.Array, field: pa.Field, file: RowFile, lines: Any, *, guessed: bool) -> pa.Array:
    """A column in the type of the table's: text is read as that, and other values are converted.

    The type may be `guessed` from the first rows.
    """
    if column.type == field.type:
        return column
    try:
        other = misread(column, field.type) if guessed else None
        if other is not None:
            raise Unfit(other, column[other].as_py(), f"is not written as the values of {field.type} before it")
        made = text_values.read(column, field.type) if file.is_text else converted(column, field.type)
    except Unfit as unfit:
        line = int(lines[unfit.at])
        raise json_values.located(unfit, field, file.place(line), file=file.path, line=line) from None
    if made is None:
        raise SchemaMismatch(
            f"{file.path}: Column {field.name!r} is {field.type}, which text has no form for.",
            next="Use Parquet or Arrow.",
            file=file.path,
            column=field.name,
        )
    return made


# -- JSON lines -------------------------------------------------------------------------------------------------------


def _of_objects(file: RowFile, schema: pa.Schema | None, guessed: bool) -> pa.RecordBatchReader:
    """The first chunk decides which columns there are; a row that lacks one has null there."""
    import pyarrow as pa

    chunks = _chunks(file, schema)
    first = next(chunks, None)
    if first is None:
        if schema is None:
            raise InvalidInput(
                f"{file.path} is empty, so its columns are unknown.", next="Give --schema.", file=file.path
            )
        return pa.RecordBatchReader.from_batches(schema, [])
    names = list(dict.fromkeys(chain.from_iterable(first[0])))
    known = {f.name: f.type for f in schema or ()}
    sure = frozenset() if guessed else frozenset(known)
    head = _batch(*first, {name: known.get(name) for name in names}, file, sure)
    types = {f.name: f.type for f in head.schema}
    rest = (_batch(rows, lines, types, file, sure) for rows, lines in chunks)
    return pa.RecordBatchReader.from_batches(head.schema, chain([head], rest))


def _batch(
    rows: list[dict[str, Any]], lines: list[int], types: dict[str, Any], file: RowFile, sure: frozenset[str]
) -> pa.RecordBatch:
    """Objects as columns. Text stands for values of other types only where a type is `sure`, not guessed."""
    import pyarrow as pa

    for row, line in zip(rows, lines, strict=True):
        if not row.keys() <= types.keys():
            extra = sorted(row.keys() - types.keys())
            raise SchemaMismatch(
                f"{file.path} has the column {extra[0]!r} further down, in line {line}, but not in its first rows.",
                next="Give the first row every column, with null where there is no value.",
                file=file.path,
                unexpected=extra,
            )

    def where(at: int) -> str:
        return file.place(lines[at])

    arrays = [
        json_values.column([row.get(name) for row in rows], kind, name, where, guessed=name not in sure)
        for name, kind in types.items()
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(types))


def _chunks(file: RowFile, schema: pa.Schema | None) -> Iterator[tuple[list[dict[str, Any]], list[int]]]:
    """Objects in lists of bounded size, and the lines that they are on."""
    exact = schema is None or any(json_values.is_exact(f.type) for f in schema)
    found: list[dict[str, Any]] = []
    lines: list[int] = []
    taken = 0
    for line, size, row in file.objects(exact=exact, block=CHUNK_BYTES):
        if isinstance(row, NoObject):
            raise InvalidInput(
                f"{file.place(line)}: {row.said}",
                next='Write one object per line, such as {"id": 1}.',
                file=file.path,
                line=line,
            )
        found.append(row)
        lines.append(line)
        taken += size
        if len(found) >= BATCH_ROWS or taken >= CHUNK_BYTES:
            yield found, lines
            found, lines, taken = [], [], 0
    if found:
        yield found, lines


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
    arrays = []
    for field in schema:
        try:
            arrays.append(converted(batch.column(field.name), field.type))
        except Unfit as unfit:
            raise json_values.located(unfit, field, path, file=path) from None
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
