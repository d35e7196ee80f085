"""A table at a snapshot: reading it as Arrow, pandas, polars, DuckDB, or by search."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from quire.errors import InvalidExpression, InvalidInput, QuireError, StorageError, Unsupported
from quire.formats import Parted, Place, Search, View
from quire.ledger import TableState

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


class Rows:
    """Rows that stream: from a scan, a search or a SQL query. Consumed once.

    Anything that reads Arrow streams can take it as it is (`pa.table(rows)`, `pl.DataFrame(rows)`, DuckDB, …).
    """

    def __init__(
        self,
        reader: pa.RecordBatchReader,
        keep: Any = None,
        failure: Callable[[], QuireError | None] | None = None,
    ) -> None:
        self._reader = reader
        self._keep = keep
        self._failure = failure or (lambda: None)
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
                "These rows were read already; they stream only once.",
                next="Keep what to_arrow() returned, or run the scan or query again.",
            )
        self._taken = True
        return self._reader

    def to_pylist(self) -> list[dict[str, Any]]:
        """All rows as dicts."""
        return list(self.to_arrow().to_pylist())

    def into(self, kind: type[T]) -> list[T]:
        """All rows as objects of a class: a dataclass, a `TypedDict` or a msgspec `Struct`.

        Columns that the class does not have are left out; one that it lacks, or a value of another type, is an
        `InvalidInput` that names row and column.
        """
        rows = self.to_pylist()
        try:
            return msgspec.convert(rows, list[kind])  # type: ignore[valid-type]
        except msgspec.ValidationError as error:
            raise InvalidInput(
                f"The rows do not fit {kind.__name__}: {error}.",
                next="Change the class, or name the columns as it does (`return { $p.name as name }`).",
            ) from None
        except TypeError as error:
            raise InvalidInput(
                f"Rows cannot be made into {kind!r}: {str(error).splitlines()[0]}",
                next="Give a dataclass, a TypedDict or a msgspec Struct.",
            ) from None

    def to_pandas(self) -> pd.DataFrame:
        """All rows as a pandas frame."""
        _need("pandas")
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

    def to_polars(self) -> pl.DataFrame:
        """All rows as a polars frame."""
        polars = _need("polars")
        frame: pl.DataFrame = polars.from_arrow(self.to_arrow())
        return frame

    def __repr__(self) -> str:
        return f"<Rows of {', '.join(self.schema.names)}, {'read' if self._taken else 'not read yet'}>"

    def _repr_html_(self) -> str:
        return "<i>rows not read yet: call to_arrow(), to_pandas() or to_polars()</i>"


class Table:
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
    def version(self) -> int:
        """The table's own counter: it rises by one with every commit that touches the table."""
        return self._state.pin.counter

    @property
    def bytes(self) -> int:
        """Size of the data files, deleted rows included; costs no request."""
        return self._state.pin.bytes

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
        return self._state.pin.rows if filter is None else self._view().count(filter)

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
        return Rows(
            self._view().scan(columns=columns, filter=filter, limit=limit, offset=offset, batch_size=batch_size)
        )

    def search(
        self,
        query: Any,
        *,
        column: str | None = None,
        limit: int = 10,
        filter: Any = None,
        columns: Sequence[str] | None = None,
        metric: str | None = None,
        nprobes: int | None = None,
        refine: int | None = None,
    ) -> Rows:
        """Vector search when `query` is a vector, full-text search when it is text; the filter applies first.

        Without an index a vector search is exact; rows that an index does not cover yet are searched too.
        Results carry `_distance` or `_score`.
        """
        if not isinstance(limit, int) or limit < 1:
            raise InvalidInput(f"limit must be a whole number of at least 1, not {limit!r}.", next="Ask for more rows.")
        if isinstance(query, str):
            found = Search(text=query, text_columns=(column,) if column else ())
        else:
            found = Search(vector=(self._vector_column(column), query), metric=metric, nprobes=nprobes, refine=refine)
        return Rows(self._view().scan(columns=columns, filter=filter, limit=limit, search=found))

    def _vector_column(self, column: str | None) -> str:
        if column is not None:
            return column
        vectors: list[str] = [f.name for f in self.schema if getattr(f.type, "list_size", None)]
        if len(vectors) != 1:
            raise InvalidInput(
                f"Table {self.name!r} has {len(vectors)} vector columns.",
                next=f"Name one with column=: {', '.join(vectors)}." if vectors else _no_vector(self.schema),
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

        link = connection or duckdb.connect()
        return link.from_arrow(self._view().dataset())

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.scan().__arrow_c_stream__(requested_schema)

    def parts(self) -> tuple[Place, list[tuple[int, int]]]:
        """For engines that read in parallel: where other processes open this state, and its fragments with rows."""
        view = self._view()
        if not isinstance(view, Parted):
            raise Unsupported(
                f"Table {self.name!r} cannot be read by other processes.", next="Read it in this one.", table=self.name
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
            "rows": pin.rows,
            "bytes": pin.bytes,
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
                f"A table of a snapshot is only read. To write: with lake.transaction() as tx: tx[...].{name}(…)"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_snapshot, (self._owner, self.name)

    def __repr__(self) -> str:
        return f"<Table {self.name!r} version {self.version}, {self._state.pin.rows} rows>"

    def _repr_html_(self) -> str:
        columns = "".join(f"<tr><td>{escape(f.name)}</td><td>{escape(str(f.type))}</td></tr>" for f in self.schema)
        return f"<b>{escape(self.name)}</b> version {self.version}, {self._state.pin.rows} rows<table>{columns}</table>"


def _no_vector(schema: pa.Schema) -> str:
    lists = [f.name for f in schema if str(f.type).startswith(("list", "large_list"))]
    advice = "A vector column is a fixed-size list of floats."
    if lists:
        advice += f' Make one of {lists[0]!r} with alter_column("{lists[0]}", type=pa.list_(pa.float32(), N)).'
    return advice


def _failed(error: Exception) -> QuireError:
    """What went wrong while rows were computed: the store, or a value that the query cannot take."""
    if isinstance(error, QuireError):
        return error
    text = (str(error).splitlines() or [type(error).__name__])[0].split(", /")[0].split(", rust/")[0].rstrip(".")
    # DuckDB's errors come through the Arrow stream as text, with their class in front.
    if isinstance(error, OSError) and not re.match(r"(?!IO |HTTP )[A-Z][A-Za-z ]* Error:", text):
        return StorageError(f"Reading stopped half-way: {text}.", next="Try again; nothing was changed.")
    return InvalidExpression(
        f"The rows cannot be computed: {text}.", next="Check the filter or the query against the data."
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
