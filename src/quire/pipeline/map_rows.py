"""From rows of a source to rows of a table: columns by the mapping, types by the table, and what is wrong by row.

A batch is converted as a whole. Only where that fails is it halved, until the rows that cannot be converted stand
alone; they are told with their line and left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from quire.conversion import text_values
from quire.conversion.engine_types import returned
from quire.conversion.fit import Missing, fit
from quire.conversion.plain_types import plain
from quire.conversion.rules import Unfit, converted
from quire.conversion.source import Source
from quire.errors import InvalidInput, QuireError, SchemaMismatch
from quire.pipeline.mapping import Column, Feed
from quire.rowfiles import kinds
from quire.rowfiles.json_values import is_list

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

LINE = "__line"

_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_ ]*(\(\d+(, *\d+)?\))?(\[\d*\])*")

Reject = Callable[[int, str, str | None, str, Any], None]
"""Called with the line, the rule, the column, what is wrong, and the row."""
Met = dict[str, list[str]]
"""Columns that rows had (`seen`), and those that were asked for and that no row had (`lacking`)."""


@dataclass
class Mapper:
    """Makes the columns that a feed asks for, with DuckDB, which can reach nothing but the rows."""

    feed: Feed
    reject: Reject
    _seen: set[str] = field(default_factory=set)
    _lacking: set[str] = field(default_factory=set)
    _connection: duckdb.DuckDBPyConnection | None = None

    def __enter__(self) -> Mapper:
        return self

    def __exit__(self, *_: Any) -> None:
        if self._connection is not None:
            self._connection.close()

    def __call__(self, batch: pa.RecordBatch, lines: Any) -> Iterator[tuple[pa.RecordBatch, Any]]:
        """Rows as the feed wants them. Those that an expression fails on are rejected."""
        columns = self.feed.mapped()
        if columns is None and self.feed.where is None:
            yield batch, lines
            return
        given = columns if columns is not None else {name: Column(column=name) for name in batch.schema.names}
        complete = self._completed(batch, given)
        yield from screened(self._mapped(given), complete, lines, self.reject)

    def shape(self, nothing: pa.RecordBatch) -> pa.Schema:
        """The columns that it makes of those of a batch."""
        columns = self.feed.mapped()
        given = columns if columns is not None else {name: Column(column=name) for name in nothing.schema.names}
        return self._mapped(given)(self._completed(nothing, given), np.empty(0, np.int64))[0].schema

    def finish(self) -> None:
        """Refuse a column that no row of the source had."""
        refuse_lacking([(self.feed, self.met)])

    @property
    def met(self) -> Met:
        """The columns that rows had, and those that no row had."""
        return {"seen": sorted(self._seen), "lacking": sorted(self._lacking - self._seen)}

    def _completed(self, batch: pa.RecordBatch, columns: dict[str, Column]) -> pa.Table:
        """With the columns that other rows of a source of JSON may have and these do not."""
        import pyarrow as pa

        self._seen.update(batch.schema.names)
        table = pa.Table.from_batches([batch])
        for column in columns.values():
            if column.column is not None and column.column not in table.schema.names:
                self._lacking.add(column.column)
                table = table.append_column(column.column, pa.nulls(table.num_rows, pa.string()))
        return table

    def _mapped(self, columns: dict[str, Column]) -> Convert:
        values: dict[str, Any] = {}
        chosen = [
            f"{_expression(column, f'v{position}', values)} AS {quoted(name)}"
            for position, (name, column) in enumerate(columns.items())
        ]
        query = f"SELECT {LINE}, {', '.join(chosen)} FROM rows"
        query += f" WHERE ({self.feed.where})" if self.feed.where is not None else ""

        def convert(rows: pa.Table, lines: Any) -> tuple[pa.RecordBatch, Any]:
            import pyarrow as pa

            connection = self._opened()
            connection.register("rows", rows.append_column(LINE, pa.array(lines, pa.int64())))
            found = connection.sql(query, params=values or None).to_arrow_table()
            numbers = found.column(LINE).to_numpy()
            [batch] = found.drop_columns([LINE]).combine_chunks().to_batches() or [None]
            if batch is None:
                batch = pa.RecordBatch.from_pylist([], found.drop_columns([LINE]).schema)
            return batch, numbers

        return convert

    def _opened(self) -> duckdb.DuckDBPyConnection:
        import duckdb

        if self._connection is None:
            self._connection = duckdb.connect(
                config={"enable_external_access": "false", "preserve_insertion_order": "true"}
            )
            self._connection.execute("set lock_configuration = true").fetchall()
        return self._connection


def refuse_lacking(met: Iterable[tuple[Feed, Met | None]]) -> None:
    """Refuse a column that none of the pieces of a feed had. Where one was not read to its end, nobody can tell."""
    by_feed: dict[int, list[tuple[Feed, Met | None]]] = {}
    for feed, one in met:
        by_feed.setdefault(id(feed), []).append((feed, one))
    for pairs in by_feed.values():
        told = [one for _, one in pairs if one]
        seen = {name for one in told for name in one["seen"]}
        lacking = sorted({name for one in told for name in one["lacking"]} - seen)
        if not lacking or not seen or len(told) < len(pairs):
            continue
        target = pairs[0][0].target
        raise InvalidInput(
            f"The source of {target!r} has no column {lacking[0]!r}.",
            next=f"It has {', '.join(sorted(seen))}.",
            column=lacking[0],
            target=target,
        )


@dataclass
class Fitter:
    """Makes rows fit a table: text is read as the type of its column, and nothing changes its value."""

    table: str
    schema: pa.Schema
    keys: tuple[str, ...]
    """Columns that must hold no null, because rows are found by them."""
    reject: Reject
    missing: Missing = "error"
    """What becomes of columns that no row has: an object of JSON leaves out what is null."""
    _checked: bool = False

    def __call__(self, batch: pa.RecordBatch, lines: Any) -> Iterator[tuple[pa.RecordBatch, Any]]:
        """Rows in the types of the table. Those that do not fit are rejected."""
        import pyarrow as pa

        if not self._checked:  # whether the columns fit at all is no matter of rows
            self._fitted(pa.Table.from_batches([batch.slice(0, 0)]), lines[:0])
            self._checked = True
        for fitted, numbers in screened(self._fitted, pa.Table.from_batches([batch]), lines, self.reject):
            yield self._present(fitted, numbers)

    def _fitted(self, rows: pa.Table, lines: Any) -> tuple[pa.RecordBatch, Any]:
        import pyarrow as pa

        data = plain(Source(rows.schema, rows.to_batches(), whole=True))
        read = pa.Table.from_batches(_read(data, self.schema, self.table), schema=None) if rows.num_rows else None
        if read is None:
            read = _typed_schema(data.schema, self.schema).empty_table()
        known = returned(Source(read.schema, read.to_batches(), whole=True), self.schema)
        loose = pa.schema([f.with_nullable(True) for f in self.schema])
        fitted = fit(known, loose, table=self.table, missing=self.missing).table().combine_chunks().to_batches()
        return (fitted[0] if fitted else pa.RecordBatch.from_pylist([], loose)), lines

    def _present(self, batch: pa.RecordBatch, lines: Any) -> tuple[pa.RecordBatch, Any]:
        """Without rows that have a null where none may be."""
        import pyarrow as pa

        wrong = np.zeros(batch.num_rows, bool)
        for column in self.schema:
            if column.nullable and column.name not in self.keys:
                continue
            nulls = batch.column(column.name).is_null().to_numpy(zero_copy_only=False)
            rule = "key" if column.name in self.keys else "required"
            for row in np.flatnonzero(nulls & ~wrong):
                said = f"Column {column.name!r} of table {self.table!r} is {rule} and has no value."
                self.reject(int(lines[row]), rule, column.name, said, batch.slice(row, 1).to_pylist()[0])
            wrong |= nulls
        if wrong.any():
            batch, lines = batch.filter(pa.array(~wrong)), lines[~wrong]
        return pa.RecordBatch.from_arrays(batch.columns, schema=self.schema), lines


Convert = Callable[["pa.Table", Any], tuple["pa.RecordBatch", Any]]


def screened(convert: Convert, rows: pa.Table, lines: Any, reject: Reject) -> Iterator[tuple[pa.RecordBatch, Any]]:
    """The rows converted, in order. Where that fails they are halved, and a row that fails alone is rejected."""
    import duckdb

    mistaken = (duckdb.BinderException, duckdb.ParserException, duckdb.CatalogException, duckdb.PermissionException)
    try:
        found, numbers = convert(rows, lines)
    except mistaken:
        raise  # the mapping is wrong, whatever the rows are
    except (duckdb.Error, QuireError) as error:
        if rows.num_rows == 0:
            raise
        if rows.num_rows == 1:
            said, rule, column = _told(error)
            reject(int(lines[0]), rule, column, said, rows.to_pylist()[0])
            return
        half = rows.num_rows // 2
        # Copied, since Arrow casts the values of a list beyond the slice as well.
        first, second = np.arange(half), np.arange(half, rows.num_rows)
        yield from screened(convert, rows.take(first), lines[:half], reject)
        yield from screened(convert, rows.take(second), lines[half:], reject)
        return
    if found.num_rows:
        yield found, numbers


def _told(error: Exception) -> tuple[str, str, str | None]:
    """What is wrong with a row, by which rule, in which column."""
    if isinstance(error, QuireError):
        return error.message, "type", error.fields.get("column")
    said = " ".join(str(error).split("\n\nLINE ")[0].split("\nLINE ")[0].split()).rstrip(".")
    return f"{said}.", "sql", None


def _expression(column: Column, parameter: str, values: dict[str, Any]) -> str:
    if column.column is not None:
        said = quoted(column.column)
    elif column.sql is not None:
        said = f"({column.sql})"
    else:
        values[parameter] = None if column.value is msgspec.UNSET else column.value
        said = f"${parameter}"
    return said if column.cast is None else f"CAST({said} AS {_type(column.cast)})"


def _type(name: str) -> str:
    """A type of SQL: a word or two, perhaps with a size, perhaps a list."""
    if not _TYPE.fullmatch(name):
        raise InvalidInput(f"{name!r} is not an SQL type.", next="For example bigint, double, date or decimal(10,2).")
    return name


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# -- text into types --------------------------------------------------------------------------------------------------


def _is_read(have: Any, want: Any) -> bool:
    """Whether values are read as another type: text as nearly anything, decimals as whole numbers, in lists too."""
    import pyarrow.types as t

    if is_list(have) and is_list(want):
        return _is_read(have.value_type, want.value_type)
    if t.is_decimal(have):
        return bool(t.is_integer(want))
    if not t.is_string(have) and not t.is_large_string(have):
        return False
    return not (t.is_string(want) or t.is_large_string(want) or t.is_null(want))


def _read_type(have: Any, want: Any) -> Any:
    """The type that such values have then; how long lists are is seen to later."""
    import pyarrow as pa

    if is_list(have) and is_list(want):
        return pa.list_(_read_type(have.value_type, want.value_type))
    return want


def _typed_schema(have: pa.Schema, want: pa.Schema) -> pa.Schema:
    import pyarrow as pa

    def kind(f: Any) -> Any:
        there = want.get_field_index(f.name) >= 0 and _is_read(f.type, want.field(f.name).type)
        return _read_type(f.type, want.field(f.name).type) if there else f.type

    return pa.schema([pa.field(f.name, kind(f)) for f in have])


def _read(data: Source, schema: pa.Schema, table: str) -> list[pa.RecordBatch]:
    """Text as what its columns hold, strictly: 4.5 is no whole number."""
    import pyarrow as pa

    target = _typed_schema(data.schema, schema)
    found = []
    for batch in data.batches:
        columns = []
        for column, have, want in zip(batch.columns, data.schema, target, strict=True):
            try:
                columns.append(_converted(column, want.type))
            except (pa.ArrowException, Unfit) as error:
                said = _told_of(error)
                raise SchemaMismatch(
                    f"Column {have.name!r} of table {table!r} is {want.type}: {said}.",
                    next="Correct the value, or map the column with an expression.",
                    table=table,
                    column=have.name,
                ) from None
        found.append(pa.RecordBatch.from_arrays(columns, schema=target))
    return found


def _converted(column: Any, kind: Any) -> Any:
    """A column as `_read_type` says, or an error for the first value that would change."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.type == kind:
        return column
    if is_list(column.type):
        ends = np.cumsum(np.concatenate([[0], pc.list_value_length(column).fill_null(0).to_numpy()]))
        values = _converted(column.flatten(), kind.value_type)
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), values, type=kind, mask=column.is_null())
    if pa.types.is_decimal(column.type):
        return converted(column, kind)
    made = text_values.read(column, kind)
    if made is None:
        raise pa.ArrowInvalid("text has no form for it")
    return made


def _told_of(error: Exception) -> str:
    """What is wrong, as the end of a sentence."""
    if isinstance(error, Unfit):
        return f"{str(error.value)[:60]!r} {error.why or 'does not fit'}"
    return str(error).splitlines()[0].rstrip(".")


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Turn what DuckDB, Arrow and the file system say about a file into one error that names it."""
    import duckdb

    try:
        with kinds.explained(path):
            yield
    except duckdb.Error as error:
        said = " ".join((str(error).split("\n\nLINE ")[0].split("\nLINE ")[0]).split()).rstrip(".")
        raise InvalidInput(f"{path}: {said}.", next="Correct the file or the mapping.", file=path) from None
