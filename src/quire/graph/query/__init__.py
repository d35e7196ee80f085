"""Queries on a snapshot: a typed plan runs as Lance scans that DuckDB joins.

run(checked, snapshot, {"name": "Alice"}).to_pylist()
explain(checked, snapshot, {"name": "Alice"})
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from quire.graph.interface_type import InterfaceType
from quire.graph.language import plan

if TYPE_CHECKING:
    from quire.graph.query.explain_report import Explained
    from quire.graph.query.search.search import Embed
    from quire.graph.query.search.settings import Settings
    from quire.lake.read.snapshot import Snapshot
    from quire.lake.read.table import Rows


def run(
    query: plan.Query,
    snapshot: Snapshot,
    params: Mapping[str, Any],
    *,
    embed: Embed | None = None,
    reduce: bool = True,
    settings: Settings | None = None,
) -> Rows:
    """The rows of a read at a snapshot, as Arrow that streams. `params` are values that fit, as `bind` gives them.

    `embed` makes vectors of text for `nearest`. `reduce=False` leaves out the passes that read less: by ids found
    before, and by what indexes rank first. `settings` say how vectors are searched.
    """
    from quire.graph.query.duckdb_run import execute
    from quire.graph.query.implied_nodes import imply
    from quire.graph.query.prepare import prepare
    from quire.graph.query.search.ranked_run import ranked
    from quire.lake.read.sql_limits import Watch
    from quire.lake.read.table import Rows

    watch = Watch()
    if reduce:
        best = ranked(query, snapshot, params, embed, settings, watch)
        if best is not None:
            return Rows(best.rows.to_reader(), approximate=best.approximate)
    with watch.reading():
        prepared = prepare(query, snapshot, params, embed)
        imply(prepared)
        if reduce:
            from quire.graph.query.semi_join import narrow

            narrow(prepared)
    return execute(prepared, watch)


def explain(
    query: plan.Query,
    snapshot: Snapshot,
    params: Mapping[str, Any],
    *,
    embed: Embed | None = None,
    analyze: bool = False,
    reduce: bool = True,
    settings: Settings | None = None,
) -> Explained:
    """How a read is run: plan, pushdowns, index use and SQL; with `analyze` also what it read and requested."""
    from quire.graph.query.explain_report import explain as explained

    return explained(query, snapshot, params, embed=embed, analyze=analyze, reduce=reduce, settings=settings)


def size_of(query: plan.Query, snapshot: Snapshot) -> int:
    """How many bytes the tables have that a query reads; costs no request."""
    if not isinstance(query.body, plan.Read):
        return 0
    types = (needs.entity for needs in query.body.needs.values())
    tables = {type.table for type in types if not isinstance(type, InterfaceType)}
    return sum(snapshot[table].bytes for table in tables)


__all__ = ["explain", "run", "size_of"]
