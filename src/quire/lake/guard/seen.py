"""A table as an actor sees it: below every reader, so that none of them can read past it."""

from __future__ import annotations

import hashlib
import hmac
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from quire.errors import ColumnNotFound, Denied, InvalidInput, Unsupported
from quire.filters import Computing, Condition, every, read_filter
from quire.filters import arrow as arrow_filters
from quire.filters.ast import Compare, IsNull, Not, Other
from quire.filters.ast import columns as named_columns
from quire.formats import ROW_ID, Addressed, Cell, Search, View
from quire.formats.blob_cell import no_row
from quire.lake.guard.protocol import MaskKind, Sight

if TYPE_CHECKING:
    import pyarrow as pa

Keep = Callable[["pa.RecordBatch"], "pa.RecordBatch"]
"""Leaves the rows of a batch that pass."""


class SeenView:
    """What an actor sees of one table at one pin. Hidden columns are not there; masked ones have other values."""

    def __init__(self, view: View, sight: Sight, table: str, missed: Callable[[str], None]) -> None:
        self._view, self._sight, self.table, self._missed = view, sight, table, missed
        self._stored = view.schema

    @property
    def schema(self) -> pa.Schema:
        import pyarrow as pa

        return pa.schema([self._field(name) for name in self._stored.names if name not in self._sight.hidden])

    def _field(self, name: str) -> pa.Field:
        import pyarrow as pa

        stored = self._stored.field(name)
        kind = self._sight.masks.get(name)
        if kind is None:
            return stored
        return pa.field(name, stored.type if kind == "null" else pa.string(), True)

    # -- reading ----------------------------------------------------------------------------------------------

    def count(self, filter: Any = None) -> int:
        pushed, keep, needed = self._filter(filter)
        if keep is None:
            return self._view.count(pushed)
        return sum(keep(batch).num_rows for batch in self._view.scan(columns=needed, filter=pushed))

    def scan(
        self,
        *,
        columns: Sequence[str] | None = None,
        filter: Any = None,
        limit: int | None = None,
        offset: int | None = None,
        search: Search | None = None,
        batch_size: int | None = None,
    ) -> pa.RecordBatchReader:
        names = self.schema.names if columns is None else columns
        if not isinstance(names, str):
            self._check(names)
        pushed, keep, needed = self._filter(filter)
        if search is not None:
            search = self._search(search)
            if keep is not None:
                raise Unsupported(
                    "A search of rows that are kept from you takes comparisons of columns with values only.",
                    next="Make the filter simpler, or filter what the search finds.",
                    table=self.table,
                )
        if keep is None:
            read = self._view.scan(
                columns=names, filter=pushed, limit=limit, offset=offset, search=search, batch_size=batch_size
            )
            return self.told(read)
        wide = [*names, *(name for name in needed if name not in names)]
        found = self._view.scan(columns=wide, filter=pushed, batch_size=batch_size)
        return self.told(_cut(found, keep, names, limit, offset or 0))

    def told(self, rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """Rows that pass, with what is hidden left out and what is masked masked."""
        import pyarrow as pa

        shown = [name for name in rows.schema.names if name.split(".")[0] not in self._sight.hidden]
        ranks = "_score" in shown and self._sight.rows is not None
        fields = [self._field(n) if n in self._stored.names else rows.schema.field(n) for n in shown]
        schema = pa.schema(fields)

        def batches() -> Iterator[pa.RecordBatch]:
            for batch in rows:
                values = []
                for name in shown:
                    column = batch.column(batch.schema.get_field_index(name))
                    mask = self._sight.masks.get(name)
                    if mask is not None:
                        column = masked(column, mask, self._sight.salt)
                    elif ranks and name == "_score":  # it tells how often words stand in rows that are hidden
                        column = pa.nulls(len(column), column.type)
                    values.append(column)
                yield pa.RecordBatch.from_arrays(values, schema=schema)

        return pa.RecordBatchReader.from_batches(schema, batches())

    def visible(self, rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """Of whole rows of the table those that are seen, as they are seen."""
        import pyarrow as pa

        condition = self._sight.rows
        if condition is None:
            return self.told(rows)
        names = [n for n in rows.schema.names if n not in self._sight.hidden]
        lacking = [name for name in named_columns(condition) if name not in rows.schema.names]
        if lacking:
            return self.told(pa.RecordBatchReader.from_batches(rows.schema, iter(())))
        return self.told(_cut(rows, _keeping(condition, rows.schema, self.table), names, None, 0))

    def dataset(self) -> Any:
        from quire.lake.guard.lazy import SeenScan

        return SeenScan(self, frozenset(self._sight.masks))

    def indexes(self) -> list[dict[str, Any]]:
        if self._sight.rows is not None:
            return []  # they tell how many rows there are
        return [
            index
            for index in self._view.indexes()
            if not any(c.split(".")[0] in self._sight.hidden for c in index.get("columns", ()))
        ]

    def config(self) -> dict[str, str]:
        return {}

    def has(self, columns: Sequence[str], values: pa.Table) -> pa.Table:
        import pyarrow as pa

        self._clear(columns)
        there: set[tuple[Any, ...]] = set()
        for batch in self.scan(columns=list(columns)):
            there.update(zip(*(column.to_pylist() for column in batch.columns), strict=True))
        rows = list(zip(*(values.column(c).to_pylist() for c in columns), strict=True))
        first = {row: place for place, row in reversed(list(enumerate(rows)))}
        return values.take(pa.array(sorted(place for row, place in first.items() if row in there), pa.int64()))

    def cell(self, column: str, on: Sequence[str], key: pa.Table) -> Cell | None:
        self._check([column])
        self._clear([column, *on])
        if self._sight.rows is not None:
            typed = {n: key.column(n)[0].as_py() for n in on}
            parts: list[Condition] = [
                IsNull(name) if value is None else Compare(name, "=", value) for name, value in typed.items()
            ]
            if not self._view.count(every([self._sight.rows, *parts])):
                raise no_row(key, self.table)
        return self._view.cell(column, on, key)

    # -- what may be asked --------------------------------------------------------------------------------------

    def _check(self, columns: Sequence[str]) -> None:
        """Refuse a hidden column as one that does not exist."""
        shown = self.schema
        for name in columns:
            if shown.get_field_index(name.split(".")[0]) < 0 and not name.startswith("_"):
                raise self._no_column(name)

    def _no_column(self, name: str) -> ColumnNotFound:
        if name.split(".")[0] in self._sight.hidden:
            self._missed(name)
        return ColumnNotFound(
            f"Table {self.table!r} has no column {name!r}.",
            next=f"Its columns are {', '.join(self.schema.names)}.",
            table=self.table,
            column=name,
        )

    def _clear(self, columns: Sequence[str]) -> None:
        """Refuse to compare or order by a masked column."""
        for name in columns:
            if name.split(".")[0] in self._sight.masks:
                self._missed(name)
                raise hidden_by_mask(name, self.table)

    def _filter(self, filter: Any) -> tuple[Condition | None, Keep | None, list[str]]:
        """What a scan takes of the rule for rows and a filter, what is left to be asked of rows, and its columns."""
        own = [] if self._sight.rows is None else [self._sight.rows]
        if filter is None:
            return (every(own) if own else None), None, []
        schema = self.schema
        if not isinstance(filter, str | Condition):
            text = str(filter)
            if "FieldPath(" in text:
                raise Unsupported("A column cannot be named by its number here.", next="Name it.", table=self.table)
            for name in self._stored.names:
                if name in self._sight.hidden and name in text:
                    raise self._no_column(name)
            named = [n for n in arrow_filters.named(filter, schema) if n in text]
            self._clear(named)
            plain = arrow_filters.plain(filter, schema)
            if plain is not None:
                return every([*own, plain]), None, []
            return (every(own) if own else None), _by_arrow(filter), list(named) or list(schema.names[:1])
        found = read_filter(filter, schema, table=self.table)
        self._clear(found.whole.columns)
        if not _has_other(found.condition):
            return every([*own, found.condition]), None, []
        needed = list(found.whole.columns) or list(schema.names[:1])
        return (every(own) if own else None), _by_duckdb(found.whole), needed

    def _search(self, search: Search) -> Search:
        import dataclasses

        if search.vector is not None:
            self._check([search.vector[0]])
            self._clear([search.vector[0]])
        if search.text is None:
            return search
        self._check(search.text_columns)
        self._clear(search.text_columns)
        if search.text_columns:
            return search
        away = self._sight.hidden | set(self._sight.masks)
        indexed = [c for ix in self._view.indexes() if ix["kind"].upper() == "INVERTED" for c in ix["columns"]]
        seen = tuple(c for c in indexed if c.split(".")[0] not in away)
        if not seen and indexed:
            raise self._no_text_index()
        return dataclasses.replace(search, text_columns=seen)

    def _no_text_index(self) -> Exception:
        return InvalidInput(
            f"Table {self.table!r} has no full-text index on any column.",
            next='Build one with create_index("column", "INVERTED").',
            table=self.table,
        )


class SeenRows(SeenView):
    """The same of a view whose rows have ids."""

    _view: Any

    def addressed(self, columns: Sequence[str], filter: Any = None) -> pa.RecordBatchReader:
        self._check(columns)
        self._clear(columns)
        pushed, keep, needed = self._filter(filter)
        wide = [*columns, *(name for name in needed if name not in columns)]
        found = self._view.addressed(wide, pushed)
        return self.told(found if keep is None else _cut(found, keep, [*columns, ROW_ID], None, 0))

    def take(self, ids: Any, columns: Sequence[str]) -> pa.Table:
        self._check(columns)
        found = self._view.take(ids, columns)
        return self.told(found.to_reader()).read_all()


def seen_through(view: View, sight: Sight, table: str, missed: Callable[[str], None]) -> SeenView:
    """What an actor sees of a view."""
    kind = SeenRows if isinstance(view, Addressed) else SeenView
    return kind(view, sight, table, missed)


def hidden_by_mask(column: str, table: str) -> Denied:
    """The error for what would tell masked values apart."""
    return Denied(
        f"Column {column!r} of table {table!r} is masked for you: it can be read, and nothing can be found, sorted, "
        "grouped or joined by it.",
        next="Leave it out of the filter, or ask for the right to read it.",
        table=table,
        column=column,
    )


def masked(column: Any, kind: MaskKind, salt: bytes) -> Any:
    """The values of a column as a mask shows them. What is null stays null."""
    import pyarrow as pa

    if kind == "null":
        return pa.nulls(len(column), column.type)
    values = column.to_pylist()
    if kind == "last4":
        return pa.array([None if v is None else _last4(v) for v in values], pa.string())
    return pa.array([None if v is None else _hashed(v, salt) for v in values], pa.string())


def _last4(value: Any) -> str:
    text = value if isinstance(value, str) else str(value)
    return f"****{text[-4:]}" if len(text) > 4 else "****"


def _hashed(value: Any, salt: bytes) -> str:
    body = value if isinstance(value, bytes) else str(value).encode()
    return hmac.new(salt, body, hashlib.sha256).hexdigest()[:32]


def _has_other(condition: Condition) -> bool:
    if isinstance(condition, Other):
        return True
    if isinstance(condition, Not):
        return _has_other(condition.inner)
    return any(_has_other(part) for part in getattr(condition, "parts", ()))


def _keeping(condition: Condition, schema: pa.Schema, table: str) -> Keep:
    return _by_duckdb(read_filter(condition, schema, table=table).whole)


def _by_duckdb(expression: Any) -> Keep:
    computing, lock = Computing(), threading.Lock()

    def keep(batch: pa.RecordBatch) -> pa.RecordBatch:
        with lock:
            return batch.filter(computing.mask(expression, batch))

    return keep


def _by_arrow(filter: Any) -> Keep:
    return lambda batch: batch.filter(arrow_filters.mask(filter, batch))


def _cut(
    rows: pa.RecordBatchReader, keep: Keep, names: Sequence[str], limit: int | None, offset: int
) -> pa.RecordBatchReader:
    """The rows that pass, from one on, so many at most, in these columns."""
    import pyarrow as pa

    schema = pa.schema([rows.schema.field(n) for n in names])

    def batches() -> Iterator[pa.RecordBatch]:
        skip, left = offset, limit
        if left == 0:
            return
        for batch in rows:
            found = keep(batch)
            part = found.slice(min(skip, found.num_rows), left)
            skip -= min(skip, found.num_rows)
            if part.num_rows:
                yield part.select(list(names)).cast(schema) if part.schema.names != list(names) else part
            if left is not None:
                left -= part.num_rows
                if left <= 0:
                    return

    return pa.RecordBatchReader.from_batches(schema, batches())
