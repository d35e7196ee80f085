"""One table at one state, for reading."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quire.errors import ColumnNotFound, InvalidInput, Unsupported
from quire.filters import shown
from quire.formats import ROW_ID, Cell, Parts, Place, Search, View, WholeRows, task_table
from quire.formats.blob_cell import in_memory, no_row
from quire.testing.memory import sql
from quire.testing.memory.files import Folder, Fragment, Version
from quire.testing.memory.net import Located, locate, lost, numbered, where_key

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


class MemoryView:
    """Reads the data files it needs when it needs them, and never anything newer."""

    def __init__(self, folder: Folder, state: Version, table: str) -> None:
        self.folder = folder
        self.state = state
        self.table = table

    @property
    def schema(self) -> pa.Schema:
        return self.state.schema

    def count(self, filter: Any = None) -> int:
        return self.state.rows if filter is None else self._filtered(filter, []).num_rows

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
        self._check(columns, limit, offset, batch_size)
        if search is not None:
            raise Unsupported(
                "Memory tables have no vector or text search.", next="Use a Lance table.", table=self.table
            )
        found = self._filtered(filter, self.schema.names if columns is None else list(columns))
        if limit is not None or offset is not None:
            found = found.slice(offset or 0, limit)
        return found.to_reader(max_chunksize=batch_size)

    def _filtered(self, filter: Any, names: list[str]) -> pa.Table:
        """These columns of the rows that pass the filter."""
        import pyarrow as pa

        if filter is None:
            return self._table(names)
        rows = self._located(self.schema.names)
        kept = sql.matches(filter, self.schema, rows.columns, rows.rows, table=self.table)
        columns = [pa.array([rows.columns[n][i] for i in kept], self.schema.field(n).type) for n in names]
        return _table(columns, self._schema(names), len(kept))

    def _table(self, names: Sequence[str], fragments: Sequence[Fragment] | None = None) -> pa.Table:
        import pyarrow as pa

        found = self._located(names, fragments)
        columns = [pa.array(found.columns[n], self.schema.field(n).type) for n in names]
        return _table(columns, self._schema(names), found.rows)

    def _located(self, names: Sequence[str], fragments: Sequence[Fragment] | None = None) -> Located:
        return locate(self.folder, self.state, names, fragments, self.table)

    def _schema(self, names: Sequence[str]) -> pa.Schema:
        import pyarrow as pa

        return pa.schema([self.schema.field(n) for n in names])

    def of(self, fragments: Sequence[Fragment]) -> pa.Table:
        """The living rows of some fragments, all columns."""
        return self._table(self.schema.names, fragments)

    def _check(
        self, columns: Sequence[str] | None, limit: int | None, offset: int | None, batch_size: int | None
    ) -> None:
        if isinstance(columns, str):
            raise InvalidInput("columns takes a list of names.", next=f"Write columns=[{columns!r}].")
        twice = [n for i, n in enumerate(columns or ()) if n in (columns or ())[:i]]
        if twice:
            raise InvalidInput(f"columns names {twice[0]!r} twice.", next="Name each once.", column=twice[0])
        require(self.state, columns or (), self.table)
        for what, value, least in (("limit", limit, 0), ("offset", offset, 0), ("batch_size", batch_size, 1)):
            if value is not None and (not isinstance(value, int) or value < least):
                raise InvalidInput(
                    f"{what} must be a whole number of at least {least}, not {value!r}.", next="Correct it."
                )

    def dataset(self) -> Any:
        import pyarrow as pa

        rows = self._table(self.schema.names)
        return rows.cast(pa.schema([f.with_type(shown(f.type)) for f in rows.schema]))

    def indexes(self) -> list[dict[str, Any]]:
        names = {f.id: f.name for f in self.state.fields}
        found = []
        for index in self.state.indexes:
            covered = sum(f.alive for f in self.state.fragments if f.key in index.covers)
            found.append(
                {
                    "name": index.name,
                    "kind": index.kind,
                    "columns": [names[index.field]],
                    "rows_indexed": covered,
                    "rows_unindexed": self.state.rows - covered,
                }
            )
        return found

    # -- for other processes ----------------------------------------------------------------------------------

    def place(self) -> Place:
        return self.folder.at(self.state, {})

    def parts(self) -> Parts:
        return [(number, f.alive) for number, f in enumerate(self.state.fragments)]

    def parts_since(self, before: View) -> tuple[Parts, Parts]:
        assert isinstance(before, MemoryView)
        return before._beyond(self.state), self._beyond(before.state)

    def _beyond(self, other: Version) -> Parts:
        """Fragments with rows that another state does not have."""
        rows = ((number, lost(f, other).alive) for number, f in enumerate(self.state.fragments))
        return [part for part in rows if part[1]]

    def whole(self, fragments: Sequence[int], *, here: bool) -> WholeRows:
        return MemoryRows(None if here else self.place(), tuple(fragments), self if here else None)

    # -- by row id --------------------------------------------------------------------------------------------

    def addressed(self, columns: Sequence[str], filter: Any = None) -> pa.RecordBatchReader:
        import pyarrow as pa

        self._check(columns, None, None, None)
        found = self._located(self.schema.names)
        kept = list(range(found.rows))
        if filter is not None:
            kept = sql.matches(filter, self.schema, found.columns, found.rows, table=self.table)
        ids = numbered(self.state, found.addresses)[kept]
        rows = self._table(columns).take(pa.array(kept, pa.int64())) if columns else None
        held = pa.table({ROW_ID: ids}) if rows is None else rows.append_column(ROW_ID, pa.array(ids))
        return held.to_reader()

    def take(self, ids: NDArray[np.uint64], columns: Sequence[str]) -> pa.Table:
        import pyarrow as pa

        self._check(columns, None, None, None)
        found = numbered(self.state, self._located([]).addresses)
        position = {address: row for row, address in enumerate(found.tolist())}
        return self._table(columns).take(pa.array([position[address] for address in ids.tolist()], pa.int64()))

    # -- what else is known -----------------------------------------------------------------------------------

    def config(self) -> dict[str, str]:
        return dict(self.state.config)

    def cell(self, column: str, on: Sequence[str], key: pa.Table) -> Cell | None:
        require(self.state, [column], self.table)
        [wanted] = key.select(list(on)).to_pylist()
        for row in self._table([*dict.fromkeys([*on, column])]).to_pylist():
            if all(row[name] == wanted[name] for name in on):
                return in_memory(row[column], column, self.table)
        raise no_row(key, self.table)

    def has(self, columns: Sequence[str], values: pa.Table) -> pa.Table:
        import pyarrow as pa

        _, positions = where_key(self.folder, self.state, columns, values, table=self.table)
        return values.take(pa.array(sorted(set(positions)), pa.int64()))


@dataclass(frozen=True)
class MemoryRows:
    """Whole rows of some fragments of a state."""

    place: Place | None
    fragments: tuple[int, ...]
    view: MemoryView | None = None
    """For this process."""

    def schema(self) -> pa.Schema:
        return self._opened().schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        view = self._opened()
        yield from view.of([view.state.fragments[number] for number in self.fragments]).to_batches()

    def _opened(self) -> MemoryView:
        if self.view is not None:
            return self.view
        assert self.place is not None
        view: Any = task_table(self.place).view("")
        assert isinstance(view, MemoryView)
        return view


def require(state: Version, names: Sequence[str], table: str) -> None:
    for name in names:
        if state.field(name) is None:
            raise ColumnNotFound(
                f"Table {table!r} has no column {name!r}.",
                next=f"Its columns are {', '.join(f.name for f in state.fields)}.",
                table=table,
                column=name,
            )


def _table(columns: list[Any], schema: pa.Schema, rows: int) -> pa.Table:
    """A table that keeps its number of rows even without a column."""
    import pyarrow as pa

    if columns:
        return pa.table(columns, schema=schema)
    return pa.table({"": pa.nulls(rows)}).select([])
