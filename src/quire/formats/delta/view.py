"""One Delta table at one state, for reading."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.errors import InvalidInput, Unsupported
from quire.formats import ROW_ID, Cell, Parts, Place, Search, View, WholeRows, task_table
from quire.formats.blob_cell import in_memory, no_row
from quire.formats.delta.files.schema import require
from quire.formats.delta.find_rows import chosen_by, kept, numbered, where_key
from quire.formats.delta.folder import Folder
from quire.formats.delta.log.state import DataFile, State
from quire.formats.delta.staging.net import lost
from quire.formats.tasks import place_of

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


class DeltaView:
    """Reads the data files it needs when it needs them, and never anything newer."""

    def __init__(self, folder: Folder, state: State, table: str, name: str | None = None) -> None:
        self.folder = folder
        self.state = state
        self.table = table
        self.name = name
        """By which others find the state, if it is stored."""

    @property
    def schema(self) -> pa.Schema:
        return self.state.schema

    def count(self, filter: Any = None) -> int:
        if filter is None:
            return self.state.rows
        chosen = chosen_by(filter, self.schema, table=self.table)
        return sum(len(offsets) for _, offsets, _ in kept(self.folder, self.state, chosen, []))

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
        import pyarrow as pa

        self._check(columns, limit, offset, batch_size)
        if search is not None:
            raise Unsupported(
                f"Table {self.table!r} is a Delta table, which has no vector or text search.",
                next="Use a Lance table.",
                table=self.table,
            )
        names = self.schema.names if columns is None else list(columns)
        chosen = chosen_by(filter, self.schema, table=self.table)
        batches = (batch for _, _, batch in kept(self.folder, self.state, chosen, names))
        rows = _cut(batches, limit, offset or 0)
        if batch_size is not None:
            rows = _sized(rows, batch_size)
        return pa.RecordBatchReader.from_batches(self._schema(names), rows)

    def _schema(self, names: Sequence[str]) -> pa.Schema:
        import pyarrow as pa

        return pa.schema([self.schema.field(n) for n in names])

    def of(self, files: Sequence[DataFile], names: Sequence[str] | None = None) -> pa.RecordBatchReader:
        """The living rows of some files."""
        import pyarrow as pa

        names = self.schema.names if names is None else names
        rows = (batch for _, _, batch in self.folder.rows(self.state, names, files))
        return pa.RecordBatchReader.from_batches(self._schema(names), rows)

    def _check(
        self, columns: Sequence[str] | None, limit: int | None, offset: int | None, batch_size: int | None
    ) -> None:
        if isinstance(columns, str):
            raise InvalidInput("columns takes a list of names.", next=f"Write columns=[{columns!r}].")
        twice = [n for i, n in enumerate(columns or ()) if n in (columns or ())[:i]]
        if twice:
            raise InvalidInput(f"columns names {twice[0]!r} twice.", next="Name each once.", column=twice[0])
        require(self.schema, columns or (), self.table)
        for what, value, least in (("limit", limit, 0), ("offset", offset, 0), ("batch_size", batch_size, 1)):
            if value is not None and (not isinstance(value, int) or value < least):
                raise InvalidInput(
                    f"{what} must be a whole number of at least {least}, not {value!r}.", next="Correct it."
                )

    def dataset(self) -> Any:
        from quire.formats.delta.duckdb_scan import PushDown

        return PushDown(self)

    def indexes(self) -> list[dict[str, Any]]:
        return []

    # -- for other processes ----------------------------------------------------------------------------------

    def place(self) -> Place:
        if self.name is None:
            raise Unsupported(
                f"Other processes cannot read what a transaction has done to table {self.table!r} so far.",
                next="Read it in this process, or commit first.",
                table=self.table,
            )
        store = self.folder.store
        return place_of(store, "delta", store.reach.address(self.folder.location), self.name)

    def parts(self) -> Parts:
        return [(number, f.alive) for number, f in enumerate(self.state.files)]

    def parts_since(self, before: View) -> tuple[Parts, Parts]:
        assert isinstance(before, DeltaView)
        return before._beyond(self.state), self._beyond(before.state)

    def _beyond(self, other: State) -> Parts:
        """Files with rows that another state does not have."""
        rows = ((number, lost(self.folder, f, other).alive) for number, f in enumerate(self.state.files))
        return [part for part in rows if part[1]]

    def whole(self, fragments: Sequence[int], *, here: bool) -> WholeRows:
        return DeltaWhole(None if here else self.place(), tuple(fragments), self if here else None)

    # -- by row id --------------------------------------------------------------------------------------------

    def addressed(self, columns: Sequence[str], filter: Any = None) -> pa.RecordBatchReader:
        import pyarrow as pa

        self._check(columns, None, None, None)
        chosen = chosen_by(filter, self.schema, table=self.table)
        schema = self._schema(columns).append(pa.field(ROW_ID, pa.uint64()))

        def batches() -> Iterator[pa.RecordBatch]:
            for file, offsets, batch in kept(self.folder, self.state, chosen, list(columns)):
                ids = pa.array(numbered(self.state, [(file.path, offsets)]))
                yield pa.RecordBatch.from_arrays([*batch.columns, ids], schema=schema)

        return pa.RecordBatchReader.from_batches(schema, batches())

    def take(self, ids: NDArray[np.uint64], columns: Sequence[str]) -> pa.Table:
        import pyarrow as pa

        self._check(columns, None, None, None)
        wanted = np.unique(ids)
        some = [self.state.files[n] for n in np.unique(wanted >> np.uint64(32)).tolist()]
        found, parts = [np.empty(0, np.uint64)], []
        for file, offsets, batch in self.folder.rows(self.state, list(columns), some):
            mine = numbered(self.state, [(file.path, offsets)])
            inside = np.flatnonzero(np.isin(mine, wanted))
            found.append(mine[inside])
            parts.append(batch.take(pa.array(inside)))
        there = np.concatenate(found)
        order = np.argsort(there)
        rows = pa.Table.from_batches(parts, schema=self._schema(columns))
        return rows.take(pa.array(order[np.searchsorted(there[order], ids)]))

    # -- what else is known -----------------------------------------------------------------------------------

    def config(self) -> dict[str, str]:
        return dict(self.state.metadata.configuration)

    def cell(self, column: str, on: Sequence[str], key: pa.Table) -> Cell | None:
        import pyarrow as pa

        require(self.schema, [column], self.table)
        typed = key.select(list(on)).cast(pa.schema([self.schema.field(n).with_nullable(True) for n in on]))
        found = where_key(self.folder, self.state, on, typed)
        if not len(found):
            raise no_row(key, self.table)
        path, offsets = found.files[0]
        ids = numbered(self.state, [(path, offsets[:1])])
        return in_memory(self.take(ids, [column]).column(0)[0].as_py(), column, self.table)

    def has(self, columns: Sequence[str], values: pa.Table) -> pa.Table:
        import pyarrow as pa

        found = where_key(self.folder, self.state, columns, values)
        return values.take(pa.array(np.unique(found.positions)))


def _cut(batches: Iterator[pa.RecordBatch], limit: int | None, offset: int) -> Iterator[pa.RecordBatch]:
    """Some rows of a stream; it is read no further than them."""
    if limit == 0:
        return
    for batch in batches:
        skipped = min(offset, batch.num_rows)
        offset -= skipped
        rows = batch.slice(skipped, limit)
        if rows.num_rows:
            yield rows
        if limit is not None:
            limit -= rows.num_rows
            if limit == 0:
                return


def _sized(batches: Iterator[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, batch.num_rows, size):
            yield batch.slice(start, size)


@dataclass(frozen=True)
class DeltaWhole:
    """Whole rows of some files of a state."""

    place: Place | None
    fragments: tuple[int, ...]
    view: DeltaView | None = None
    """For this process."""

    def schema(self) -> pa.Schema:
        return self._opened().schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        view = self._opened()
        yield from view.of([view.state.files[number] for number in self.fragments])

    def _opened(self) -> DeltaView:
        if self.view is not None:
            return self.view
        assert self.place is not None
        view: Any = task_table(self.place).view("")
        assert isinstance(view, DeltaView)
        return view
