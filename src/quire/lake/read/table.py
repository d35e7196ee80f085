"""A table at a snapshot: reading it as Arrow, pandas, polars, DuckDB, or by search."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from quire.arguments import bounded, checks_arguments
from quire.conversion import held
from quire.errors import InvalidExpression, InvalidInput, QuireError, StorageError, Unsupported, shown
from quire.formats import Parted, Place, Search, View
from quire.lake import display
from quire.lake.commit.preconditions import TableVersion
from quire.lake.guard.verbs import TABLE, guarded
from quire.ledger import Pin, TableState
from quire.ledger.records import learn
from quire.prompt import PublicNames

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa

T = TypeVar("T")

WRITES = frozenset(
    (
        "append",
        "insert",
        "upsert",
        "update",
        "delete",
        "overwrite",
        "add",
        "merge_insert",
        "create_index",
        "add_columns",
    )
)
"""What people try on a table that they hold from a snapshot."""

MOST_ASKED = 2**31 - 1
"""Lance takes the options of a search as 32-bit numbers."""


@checks_arguments
class Rows(PublicNames):
    """Rows that stream: from a scan, a search or a SQL query. Consumed once.

    Anything that reads Arrow streams can take it as it is (`pa.table(rows)`, `pl.DataFrame(rows)`, DuckDB, …).
    """

    def __init__(
        self,
        reader: pa.RecordBatchReader,
        keep: Any = None,
        failure: Callable[[], QuireError | None] | None = None,
        again: Callable[[int], pa.RecordBatchReader] | None = None,
        approximate: str | None = None,
    ) -> None:
        self.approximate = approximate
        """Why these need not be exactly the rows that were asked for, as with an index of vectors; None if they are."""
        self._reader = reader
        self._keep = keep
        self._failure = failure or (lambda: None)
        self._again = again
        """Reads the first rows apart, for a preview that starts nothing larger."""
        self._shown: list[pa.RecordBatch] = []
        """Batches that a preview took from the reader; whoever reads the rows gets them first."""
        self._taken = False

    @property
    def schema(self) -> pa.Schema:
        """Columns of the rows, known before any is read."""
        return self._reader.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Record batches, as they arrive."""
        reader = self._take()
        while True:
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
            except Exception as error:
                raise self._failure() or _failed(error) from None
            yield batch

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._take().__arrow_c_stream__(requested_schema)

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as a pyarrow reader, to consume as you like."""
        return self._take()

    def to_arrow(self) -> pa.Table:
        """All rows as one Arrow table."""
        reader = self._take()
        try:
            return reader.read_all()
        except Exception as error:
            raise self._failure() or _failed(error) from None

    def _take(self) -> pa.RecordBatchReader:
        if self._taken:
            raise InvalidInput(
                "These rows were read already; they can be read only once.",
                next="Keep the result of to_arrow(), or run the scan or query again.",
            )
        self._taken = True
        if not self._shown:
            return self._reader
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self._reader.schema, chain(self._shown, self._reader))

    def to_pylist(self) -> list[dict[str, Any]]:
        """All rows as dicts."""
        table = self.to_arrow()
        try:
            return list(table.to_pylist())
        except held.FAILURES as error:
            raise _not_held("Python", table, lambda column: column.to_pylist(), error) from None

    def into(self, kind: type[T]) -> list[T]:
        """All rows as objects of a class: a dataclass, a `TypedDict` or a msgspec `Struct`.

        Columns that the class does not have are left out; one that it lacks, or a value of another type, is an
        `InvalidInput` that names row and column.
        """
        rows = self.to_pylist()
        try:
            learn(kind)
            return msgspec.convert(rows, list[kind])  # type: ignore[valid-type]
        except msgspec.ValidationError as error:
            raise InvalidInput(
                f"The rows do not match {kind.__name__}: {error}.",
                next="Change the class, or name the columns as the class does (`return { $p.name as name }`).",
            ) from None
        except TypeError as error:
            raise InvalidInput(
                f"The rows cannot be converted to {kind!r}: {str(error).splitlines()[0]}",
                next="Pass a dataclass, a TypedDict or a msgspec Struct.",
            ) from None

    def to_pandas(self) -> pd.DataFrame:
        """All rows as a pandas frame."""
        _need("pandas")
        table = self.to_arrow()
        try:
            frame: pd.DataFrame = table.to_pandas()
        except held.FAILURES as error:
            raise _not_held("pandas", table, lambda column: column.to_pandas(), error) from None
        return frame

    def to_polars(self) -> pl.DataFrame:
        """All rows as a polars frame."""
        polars = _need("polars")
        frame: pl.DataFrame = polars.from_arrow(self.to_arrow())
        return frame

    def __repr__(self) -> str:
        head = f"<Rows of {', '.join(self.schema.names)}, {'read' if self._taken else 'not read yet'}>"
        return head if self._taken else display.shown(head, lambda: f"\n{self._preview().text()}")

    def _repr_html_(self) -> str:
        if self._taken:
            return "<i>rows that were read already</i>"
        head = "<i>rows not read yet: call to_arrow(), to_pandas() or to_polars()</i>"
        return display.shown(head, lambda: self._preview().html(), html=True)

    def _preview(self) -> display.Preview:
        """The first rows. What is taken from the stream for it is kept for whoever reads the rows."""
        return display.preview(self.schema, self._first() if self._again is None else self._again(display.ROWS + 1))

    def _first(self) -> Iterator[pa.RecordBatch]:
        yield from self._shown
        while True:
            try:
                batch = self._reader.read_next_batch()
            except StopIteration:
                return
            except Exception as error:
                failure = self._failure() or _failed(error)
                self._reader = _broken(self._reader.schema, failure)
                raise failure from None
            self._shown.append(batch)
            yield batch


def _not_held(what: str, table: pa.Table, convert: Callable[[Any], Any], error: Exception) -> InvalidInput:
    """That rows hold something that Python or pandas has no value for, such as a time beyond the year 9999."""
    column, why = "", (str(error).splitlines() or [type(error).__name__])[0]
    for name, values in zip(table.schema.names, table.columns, strict=True):
        try:
            convert(values)
        except held.FAILURES:
            column = name
            break
    return InvalidInput(
        f"Column {column!r} has a value that {what} cannot hold: {why.rstrip('.')}.",
        next="Use to_arrow() or to_polars(), leave the column out, or cast it to text: select cast(c as varchar).",
        column=column,
    )


def _broken(schema: pa.Schema, failure: QuireError) -> pa.RecordBatchReader:
    """What is left of a stream that failed."""
    import pyarrow as pa

    def fail() -> Iterable[pa.RecordBatch]:
        raise failure
        yield

    return pa.RecordBatchReader.from_batches(schema, fail())


@guarded(TABLE)
@checks_arguments
class Table(PublicNames):
    """One table at one commit. It never changes and never sees anything newer.

    >>> import quire
    >>> lake = quire.create("memory://table-example")
    >>> receipt = lake.create_table("documents", [{"id": 1, "year": 2019}, {"id": 2, "year": 2024}])
    >>> lake["documents"].scan(filter="year > 2020", columns=["id"], limit=10).to_pylist()
    [{'id': 2}]
    """

    def __init__(self, state: TableState, view: Callable[[], View], owner: Any = None) -> None:
        self._state = state
        self._open = view
        self._owner = owner
        self._gate = getattr(owner, "_gate", None)

    def _pin(self) -> Pin | None:
        """What the log says of the state, unless it may count rows that whoever reads does not see."""
        return self._state.pin if self._gate is None else self._gate.told_pin(self._state.pin, self._view())

    @property
    def name(self) -> str:
        """The table's name at this commit."""
        return self._state.info.name

    @property
    def id(self) -> str:
        """The table's identity: it stays through renames and names the table's folder."""
        return self._state.info.id

    @property
    def key(self) -> tuple[str, ...]:
        """The key columns, or () for a table without a key."""
        return self._state.info.key

    @property
    def version(self) -> TableVersion:
        """The table's own counter: it rises by one with every commit that touches the table.

        A number that knows its table: given to `expect=`, no other table of the name passes for it, and no state
        that another branch has under the same number.
        """
        pin = self._state.pin
        return TableVersion(pin.counter, self._state.info.id, pin.version)

    @property
    def bytes(self) -> int:
        """Size of the data files, deleted rows included; costs no request. 0 for an actor who sees only a part."""
        pin = self._pin()
        return pin.bytes if pin is not None else 0

    @property
    def commit(self) -> str:
        """The commit that last moved this table."""
        return self._state.commit.commit

    @property
    def schema(self) -> pa.Schema:
        """Columns and their Arrow types."""
        return self._view().schema

    def count(self, filter: Any = None) -> int:
        """The number of rows; without a filter it costs no request."""
        pin = self._pin() if filter is None else None
        return pin.rows if pin is not None else self._view().count(filter)

    def scan(
        self,
        *,
        columns: Sequence[str] | None = None,
        filter: Any = None,
        limit: int | None = None,
        offset: int | None = None,
        batch_size: int | None = None,
    ) -> Rows:
        """Stream rows.

        `filter` is SQL text or a pyarrow expression; filter, columns and limit are pushed into the scan.
        """
        limit, offset = bounded("limit", limit, 0), bounded("offset", offset, 0)
        batch_size = bounded("batch_size", batch_size, 1, MOST_ASKED)
        view = self._view()

        def read(most: int | None, size: int | None = None) -> pa.RecordBatchReader:
            return view.scan(columns=columns, filter=filter, limit=most, offset=offset, batch_size=size)

        return Rows(read(limit, batch_size), again=lambda n: read(n if limit is None else min(n, limit)))

    def head(self, n: int = 5, *, columns: Sequence[str] | None = None) -> Rows:
        """The first `n` rows, in the order in which they are stored."""
        return self.scan(columns=columns, limit=bounded("n", n, 0))

    def __len__(self) -> int:
        """The number of rows, as `count()` tells it."""
        return self.count()

    def __bool__(self) -> bool:
        """A table is true, also one without rows."""
        return True

    def search(
        self,
        query: Any = None,
        *,
        vector: Any = None,
        text: str | None = None,
        column: str | None = None,
        vector_column: str | None = None,
        text_column: str | None = None,
        limit: int = 10,
        filter: Any = None,
        columns: Sequence[str] | None = None,
        metric: str | None = None,
        nprobes: int | None = None,
        refine: int | None = None,
    ) -> Rows:
        """Vector search with a `vector`, full-text search with a `text`, hybrid search with both; `query` is either.

        The filter applies first. Without an index a vector search is exact; rows that an index does not cover yet are
        searched too. Results carry `_distance` or `_score`. A hybrid search ranks all rows by distance and by BM25
        score, exactly and without any index, and puts them in order of the sum of `1 / (60 + rank)`, `_relevance`.
        """
        limit, nprobes = bounded("limit", limit, 1, MOST_ASKED), bounded("nprobes", nprobes, 1, MOST_ASKED)
        refine = bounded("refine", refine, 1, MOST_ASKED)
        if query is not None:
            if vector is not None or text is not None:
                raise InvalidInput(
                    "query must be a vector or a text, not both.", next="For both, pass vector= and text=."
                )
            vector, text = (None, query) if isinstance(query, str) else (query, None)
        if vector is not None and text is not None:
            if column is not None or nprobes is not None or refine is not None:
                raise InvalidInput(
                    "A hybrid search does not take column=, nprobes= or refine=.",
                    next="Pass vector_column= and text_column=.",
                )
            return self._hybrid(vector, text, vector_column, text_column, limit, filter, columns, metric)
        if text is not None:
            where = text_column or column
            found = Search(text=text, text_columns=(where,) if where else ())
        elif vector is not None:
            where = self._vector_column(vector_column or column)
            found = Search(vector=(where, vector), metric=metric, nprobes=nprobes, refine=refine)
        else:
            raise InvalidInput("The search has no vector and no text.", next="Pass a vector, a text, or both.")
        return Rows(self._view().scan(columns=columns, filter=filter, limit=limit, search=found))

    def _hybrid(
        self,
        vector: Any,
        text: str,
        vector_column: str | None,
        text_column: str | None,
        limit: int,
        filter: Any,
        columns: Sequence[str] | None,
        metric: str | None,
    ) -> Rows:
        from quire.lake.read.ranking import hybrid, scores

        wanted = (metric or "l2").lower()
        if wanted not in scores.METRICS:
            raise InvalidInput(f"{metric!r} is not a metric.", next=f"Use one of {', '.join(scores.METRICS)}.")
        where = hybrid.text_column(self._view(), text_column, self.name)
        asked = hybrid.Hybrid(vector, text, self._vector_column(vector_column), where, wanted, limit, filter, columns)
        return Rows(hybrid.hybrid(self, asked, settled=self._settled).to_reader())

    _settled = True
    """Whether it never changes."""

    def _vector_column(self, column: str | None) -> str:
        if column is not None:
            return column
        vectors: list[str] = [f.name for f in self.schema if getattr(f.type, "list_size", None)]
        if len(vectors) != 1:
            raise InvalidInput(
                f"Table {self.name!r} has {len(vectors)} vector columns.",
                next=f"Choose one with vector_column=: {', '.join(vectors)}." if vectors else _no_vector(self.schema),
                table=self.name,
            )
        return vectors[0]

    def to_arrow(self) -> pa.Table:
        """The whole table as Arrow."""
        return self.scan().to_arrow()

    def to_pylist(self) -> list[dict[str, Any]]:
        """The whole table as dicts."""
        return self.scan().to_pylist()

    def to_pandas(self) -> pd.DataFrame:
        """The whole table as a pandas frame."""
        return self.scan().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """The whole table as a polars frame."""
        return self.scan().to_polars()

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """A lazy DuckDB relation over the table; DuckDB pushes filters and columns into the scan."""
        import duckdb

        if not isinstance(connection, duckdb.DuckDBPyConnection | None):
            raise InvalidInput(
                f"{shown(connection)} is not a DuckDB connection.", next="Pass the result of duckdb.connect()."
            )
        link = connection or duckdb.connect()
        return link.from_arrow(self._view().dataset())

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.scan().__arrow_c_stream__(requested_schema)

    def parts(self) -> tuple[Place, list[tuple[int, int]]]:
        """For engines that read in parallel: where other processes open this state, and its fragments with rows."""
        view = self._view()
        if not isinstance(view, Parted):
            raise Unsupported(
                f"Table {self.name!r} cannot be read by other processes.",
                next="Read it in this process.",
                table=self.name,
            )
        return view.place(), view.parts()

    def indexes(self) -> list[dict[str, Any]]:
        """Indexes with their kind, columns, and how many rows they cover."""
        return self._view().indexes()

    def describe(self) -> dict[str, Any]:
        """Everything `quire table describe` prints."""
        pin = self._state.pin
        return {
            "name": self.name,
            "id": self.id,
            "format": pin.format,
            "location": pin.location,
            "version": pin.counter,
            "commit": self.commit,
            "key": list(self.key),
            "rows": self.count(),
            "bytes": self.bytes,
            "stable_row_ids": self._state.info.stable_row_ids,
            "columns": [{"name": f.name, "type": str(f.type), "nullable": f.nullable} for f in self.schema],
            "indexes": self.indexes(),
            "config": self._view().config(),
        }

    def _view(self) -> View:
        return self._open()

    def __getattr__(self, name: str) -> Any:
        if name in WRITES:
            raise AttributeError(
                f"A table of a snapshot is read-only. To write: with lake.transaction() as tx: tx[...].{name}(…)"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_snapshot, (self._owner, self.name)

    def __repr__(self) -> str:
        head = f"<Table {self.name!r} version {self.version}{self._rows_told()}>"
        return display.shown(head, lambda: f"\n{self._preview().text()}")

    def _repr_html_(self) -> str:
        head = f"<b>{escape(self.name)}</b> version {self.version}{self._rows_told()}"
        return display.shown(head, lambda: self._preview().html(), html=True)

    def _rows_told(self) -> str:
        return "" if self._gate is not None else f", {self._state.pin.rows} rows"

    def _preview(self) -> display.Preview:
        """The first rows of the first columns; no more is read."""
        view = self._open()
        names = view.schema.names
        reader = view.scan(columns=names[: display.COLUMNS], limit=display.ROWS)
        return display.preview(reader.schema, reader, columns=len(names), total=self.count())


def _no_vector(schema: pa.Schema) -> str:
    lists = [f.name for f in schema if str(f.type).startswith(("list", "large_list"))]
    advice = "A vector column is a fixed-size list of floats."
    if lists:
        advice += f' Convert {lists[0]!r} with alter_column("{lists[0]}", type=pa.list_(pa.float32(), N)).'
    return advice


def _failed(error: Exception) -> QuireError:
    """What went wrong while rows were computed: the store, or a value that the query cannot take."""
    if isinstance(error, QuireError):
        return error
    text = (str(error).splitlines() or [type(error).__name__])[0].split(", /")[0].split(", rust/")[0].rstrip(".")
    # DuckDB's errors come through the Arrow stream as text, with their class in front.
    if isinstance(error, OSError) and not re.match(r"(?!IO |HTTP )[A-Z][A-Za-z ]* Error:", text):
        return StorageError(f"Reading failed before the end: {text}.", next="Try again. Nothing was changed.")
    return InvalidExpression(
        f"The rows cannot be computed: {text}.", next="Compare the filter or the query with the data."
    )


def _from_snapshot(snapshot: Any, name: str) -> Table:
    table: Table = snapshot[name]
    return table


def _need(package: str) -> Any:
    import importlib

    try:
        return importlib.import_module(package)
    except ImportError:
        raise Unsupported(f"{package} is not installed.", next=f"pip install {package}.", package=package) from None
