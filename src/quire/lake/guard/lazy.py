"""A table that is seen in part, for DuckDB: read when it asks, and only the columns that it asks for."""

from __future__ import annotations

from typing import Any

from quire.lake.read.ranking.lazy_scan import LazyScan


class SeenScan(LazyScan):
    """A scan through what an actor sees."""

    def __init__(self, view: Any, masked: frozenset[str]) -> None:
        super().__init__(view, {name: name for name in view.schema.names})
        self.masked = masked
        """Columns by which a query may find nothing."""
