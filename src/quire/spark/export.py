"""Tables of one commit as files. The same as `Snapshot.export`, for a lake, a snapshot or an address."""

from __future__ import annotations

from collections.abc import Sequence

from quire.lake import Lake, Snapshot
from quire.lake.engines import Engine
from quire.lake.read.export import ExportKind
from quire.spark.read import snapshot_of


def export(
    lake: Lake | Snapshot | str,
    folder: str,
    *,
    tables: Sequence[str] | None = None,
    format: ExportKind = "parquet",
    engine: Engine = "local",
) -> dict[str, int]:
    """Write every table of one commit, or some, to `folder`/table/part-….parquet; how many rows each has."""
    done = snapshot_of(lake, None).export(folder, tables=tables, format=format, engine=engine)
    return {name: table.rows for name, table in done.tables.items()}
