"""Walks of several hops on Spark: one join for every hop, until a hop finds nothing new.

A step joins what the one before it found with the edges and leaves out what was found before. It is kept where it was
computed (`localCheckpoint`), so that no hop is computed twice and plans stay short. The driver learns only whether a
step found anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from quire.graph.query.sql.walks import Walk

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PARTS = 16
"""Steps that are kept apart at most, before they are put together."""


def walked(walk: Walk, ask: Callable[[str], DataFrame]) -> DataFrame:
    """The relation of a walk: its ends, and for shortest paths `length` and `nodes`. `ask` runs SQL."""
    from pyspark.sql import functions as f

    edges = ask(f"SELECT DISTINCT s, t FROM ({walk.edges}) AS e").localCheckpoint()
    reached = _reached(walk, edges, ask(walk.seeds))
    within = reached.where(_within(walk))
    loops = edges.where("s = t" if walk.gives_loops else "false").select(f.col("s").alias("z"))
    target = "y" if walk.side == "source" else "x"
    before = reached.where("n = 0").join(loops, f.col(target) == f.col("z"), "left_semi")
    if not walk.path:
        source = "x" if walk.side == "source" else "y"
        both = within.unionByName(before)
        return both.select(f.col(source).alias(f"{walk.name}_a"), f.col(target).alias(f"{walk.name}_b"))
    more = before.withColumn("n", f.col("n") + 1).withColumn("way", f.concat("way", f.array("y")))
    shown = [("x", "a"), ("y", "b"), ("n", "length"), ("way", "nodes")]
    return within.unionByName(more).select(*(f.col(column).alias(f"{walk.name}_{name}") for column, name in shown))


def _within(walk: Walk) -> str:
    return f"n >= {walk.least:d}" + ("" if walk.most is None else f" AND n <= {walk.most:d}")


def _reached(walk: Walk, edges: DataFrame, seeds: DataFrame) -> DataFrame:
    """From every seed `x`, the nodes `y` that are reached, with the fewest hops `n` and the smallest of such ways."""
    from pyspark.sql import functions as f

    start, end = ("s", "t") if walk.side == "source" else ("t", "s")
    step = seeds.toDF("x").distinct().withColumn("y", f.col("x")).withColumn("n", f.lit(0).cast("bigint"))
    if walk.path:
        step = step.withColumn("way", f.array("x"))
    step = step.localCheckpoint()
    found, hops = step, 0
    while walk.most is None or hops < walk.most:
        hops += 1
        step = step.join(edges, f.col("y") == f.col(start))
        if walk.path:
            step = step.select("x", f.col(end).alias("y"), f.concat("way", f.array(end)).alias("way"))
            step = step.groupBy("x", "y").agg(f.min("way").alias("way"))
        else:
            step = step.select("x", f.col(end).alias("y")).distinct()
        step = step.join(found.select("x", "y"), ["x", "y"], "left_anti")
        step = step.withColumn("n", f.lit(hops).cast("bigint")).localCheckpoint()
        if step.isEmpty():
            break
        found = found.unionByName(step)
        found = found if hops % PARTS else found.localCheckpoint()
    return found
