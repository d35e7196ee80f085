"""Graph queries on Spark.

quire.spark.query(spark, graph, "query all() { match { $p: Person } return { $p.name } }")
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from quire.graph.graph import Graph
    from quire.lake import Snapshot


def query(
    spark: SparkSession,
    graph: Graph,
    query: str | os.PathLike[str],
    which: str | None = None,
    /,
    *,
    at: Snapshot | None = None,
    params: Mapping[str, Any] | None = None,
    **values: Any,
) -> DataFrame:
    """The rows of a read as a frame of Spark, which is computed when you use it. Arguments are those of `graph.query`.

    Whole nodes and edges are structs. Types are those of `quire.spark.table`: vectors are arrays, unsigned numbers the
    next wider type. An order holds where Spark keeps it: for what is collected or written right away. Walks of several
    hops are made before the frame is there.
    """
    # The graph is imported here: workers import this package for every kind of task.
    from quire.graph.embed.fill import asked_with
    from quire.graph.language import bind
    from quire.spark.query_run import frame_of

    snapshot = graph._at(at)
    checked = graph._read_query(query, which, snapshot)
    given = bind(checked, {**dict(params or {}), **values})
    return frame_of(spark, checked, snapshot, given, embed=asked_with(graph.embedder))
