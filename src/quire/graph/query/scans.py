"""Scans of the tables of a snapshot, as relations that DuckDB can read.

A scan shows some columns under names of its own, and reads rows with a filter that Lance applies. It is read when
DuckDB asks, and only the columns that it asks for; or it is read once before, when its rows are few.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quire.filters import Condition
from quire.formats import Search
from quire.graph.query.pushed_filters import both
from quire.lake.handles import view_of

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.graph.query.layout import EntityColumns
    from quire.lake.read.snapshot import Snapshot
    from quire.lake.read.table import Table


@dataclass
class Source:
    """What is read of one variable."""

    place: EntityColumns
    filters: list[Condition] = field(default_factory=list)
    """Pushed down; all of them hold."""
    conditions: list[Any] = field(default_factory=list)
    """What the filters were made of."""
    limit: int | None = None
    rows: pa.Table | None = None
    """What was read before the SQL runs, because it is little."""
    why: str = ""
    """How the rows were found, if they were read before."""

    def relation(self, snapshot: Snapshot) -> Any:
        """What DuckDB is given."""
        if self.rows is not None:
            return self.rows
        from quire.lake.read.ranking.lazy_scan import LazyScan

        view = view_of(self.table(snapshot))
        return LazyScan(view, self.place.columns, both(self.filters), self.limit)

    def table(self, snapshot: Snapshot) -> Table:
        return snapshot[self.place.entity.table]

    def read(
        self,
        snapshot: Snapshot,
        *,
        filters: Sequence[Condition] = (),
        limit: int | None = None,
        search: Search | None = None,
    ) -> pa.Table:
        """Read rows now: those that the filters leave, `limit` of them at most."""
        import pyarrow as pa

        from quire.lake.read.ranking.lazy_scan import renamed

        names = self.place.columns
        where = both([*self.filters, *filters])
        view = view_of(self.table(snapshot))
        found = view.scan(columns=list(names.values()), filter=where, limit=limit, search=search)
        shown = pa.schema([pa.field(n, found.schema.field(c).type) for n, c in names.items()])
        return renamed(found, list(names), shown, list(names.values())).read_all()

    def searched(self, snapshot: Snapshot, search: Search, limit: int, rank: str) -> tuple[pa.Table, pa.ChunkedArray]:
        """The first rows of a search among those that the filters leave, best first, and the ranks that it gave."""
        import pyarrow as pa
        import pyarrow.compute as pc

        names = self.place.columns
        view = view_of(self.table(snapshot))
        found = view.scan(
            columns=list(names.values()), filter=both(self.filters), limit=limit, search=search
        ).read_all()
        found = found.take(pc.sort_indices(found, [(rank, "descending" if rank == "_score" else "ascending")]))
        rows = pa.table([found.column(c) for c in names.values()], names=list(names))
        return rows, found.column(rank)

    def nothing(self, snapshot: Snapshot) -> pa.Table:
        """No rows, with the columns of the scan."""
        import pyarrow as pa

        stored = view_of(self.table(snapshot)).schema
        return pa.schema([pa.field(n, stored.field(c).type) for n, c in self.place.columns.items()]).empty_table()
