"""Scans of the tables of a snapshot, as relations that DuckDB can read.

A scan shows some columns under names of its own, and reads rows with a filter that Lance applies. It is read when
DuckDB asks, and only the columns that it asks for; or it is read once before, when its rows are few.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quire.formats import Search
from quire.graph.query.filters import both

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.graph.query.layout import Place
    from quire.lake.snapshot import Snapshot
    from quire.lake.table import Table


@dataclass
class Source:
    """What is read of one variable."""

    place: Place
    filters: list[str] = field(default_factory=list)
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
        from quire.graph.query.lazy import LazyScan

        view = self.table(snapshot)._view()
        return LazyScan(view, self.place.columns, both(self.filters), self.limit)

    def table(self, snapshot: Snapshot) -> Table:
        return snapshot[self.place.entity.table]

    def read(
        self, snapshot: Snapshot, *, filters: Sequence[str] = (), limit: int | None = None, search: Search | None = None
    ) -> pa.Table:
        """Read rows now: those that the filters leave, `limit` of them at most."""
        import pyarrow as pa

        from quire.graph.query.lazy import renamed

        names = self.place.columns
        found = (
            self.table(snapshot)
            ._view()
            .scan(columns=list(names.values()), filter=both([*self.filters, *filters]), limit=limit, search=search)
        )
        shown = pa.schema([pa.field(n, found.schema.field(c).type) for n, c in names.items()])
        return renamed(found, list(names), shown, list(names.values())).read_all()

    def nothing(self, snapshot: Snapshot) -> pa.Table:
        """No rows, with the columns of the scan."""
        import pyarrow as pa

        stored = self.table(snapshot)._view().schema
        return pa.schema([pa.field(n, stored.field(c).type) for n, c in self.place.columns.items()]).empty_table()
