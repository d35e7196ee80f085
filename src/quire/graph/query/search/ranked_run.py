"""Running a read that is put in order of a search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from quire.graph.language import plan
from quire.graph.query.duckdb_run import execute
from quire.graph.query.implied_nodes import imply
from quire.graph.query.prepare import prepare
from quire.graph.query.search.ranking import Best, ranking
from quire.graph.query.search.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.graph.query.prepare import Prepared
    from quire.graph.query.search.ranking import Ranked
    from quire.graph.query.search.search import Embed
    from quire.lake.read.snapshot import Snapshot
    from quire.lake.read.sql_limits import Watch


def ranked(
    query: plan.Query,
    snapshot: Snapshot,
    params: Mapping[str, Any],
    embed: Embed | None,
    settings: Settings | None,
    watch: Watch,
) -> Ranked | None:
    """The answer of a read that is put in order of a search, if indexes give candidates for it."""
    found = ranking(query.body) if isinstance(query.body, plan.Read) else None
    if found is None:
        return None

    def run(prepared: Prepared) -> pa.Table:
        watch.again()
        return execute(prepared, watch).to_arrow()

    with watch.reading():
        prepared = prepare(replace(query, body=found.read), snapshot, params, embed)
        imply(prepared)
    return Best(prepared, found, settings or Settings(), run).rows()
