"""Random reads of random graphs, answered by Spark, by this process and by plain loops: the answers are equal.

The graphs and the loops are those of tests/graph/differential. A longer run: QUIRE_SPARK_DIFFERENTIAL=100 for that many
graphs, and QUIRE_SEED for others.
"""

from __future__ import annotations

import datetime as dt
import os
import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from tests.graph.differential.draw import Asked, queries
from tests.graph.differential.naive import Naive
from tests.graph.differential.test_reads import _settled, agree
from tests.graph.differential.values import Unclear, Undefined, same
from tests.graph.differential.world import World, worlds

import quire
from quire.errors import InvalidQuery
from quire.graph import query as local
from quire.graph.graph import Graph
from quire.graph.language import bind, check, parse
from quire.spark.graph_query import run

GRAPHS = int(os.environ.get("QUIRE_SPARK_DIFFERENTIAL", "4"))
SEED = int(os.environ.get("QUIRE_SEED", "1"))
QUERIES = 10
"""Asked of every graph."""


def graph_of(world: World, folder: Path) -> Graph:
    """On a disk, where the workers find it."""
    graph = Graph(quire.create(folder / uuid.uuid4().hex, backfill=False))
    graph.apply_schema(world.schema)
    if records := world.records():
        graph.load(records)
    return graph


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_spark_answers_as_this_process_and_as_plain_loops_do(spark: Any, tmp_path: Path) -> None:
    seen = {"asked": 0, "rows": 0, "failed": 0}

    @seed(SEED)
    @settings(
        max_examples=GRAPHS,
        phases=[Phase.generate],
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def asked(data: st.DataObject) -> None:
        world = data.draw(worlds(), "world")
        graph = graph_of(world, tmp_path)
        for _ in range(QUERIES):
            query = data.draw(queries(world), "query")
            compare(spark, graph, world, query, data.draw(st.booleans(), "reduce"), seen)

    asked()
    assert seen["asked"] == GRAPHS * QUERIES
    assert seen["rows"] >= seen["asked"] / 2


def compare(spark: Any, graph: Graph, world: World, asked: Asked, reduce: bool, seen: dict[str, int]) -> None:
    [query] = parse(asked.text).queries
    now = dt.datetime.now(dt.UTC)
    naive = Naive(world, query, asked.values, now)
    expected, unclear = None, False
    try:
        expected = naive.answer()
    except Undefined as error:
        unclear = isinstance(error, Unclear)
    snapshot = graph.lake.snapshot()
    checked = check(query, graph.catalog(snapshot))
    values = bind(checked, asked.values)
    shown = f"{world.schema}\n{world.rows}\n{asked.text}\n{asked.values}\nreduce={reduce}"
    seen["asked"] += 1
    try:
        found = run.run(spark, checked, snapshot, values, reduce=reduce).to_arrow()
    except InvalidQuery as error:
        seen["failed"] += 1
        if error.fields.get("reason") and (expected is None or naive.may_fail):
            return
        raise AssertionError(f"{shown}\nexpected {expected}") from error
    except Exception as error:
        raise AssertionError(shown) from error
    if unclear:
        return
    assert expected is not None, f"{shown}\ncannot be computed, and gave {found}"
    seen["rows"] += found.num_rows > 0
    rows = [tuple(_settled(value, now) for value in row.values()) for row in found.to_pylist()]
    agree(rows, expected, now, shown)
    try:
        here = local.run(checked, snapshot, values).to_arrow()
    except InvalidQuery:
        return
    assert found.schema == here.schema, f"{shown}\n{found.schema}\n{here.schema}"
    if expected.ordered:
        mine = [tuple(_settled(value, now) for value in row.values()) for row in here.to_pylist()]
        assert same(rows, mine), f"{shown}\nSpark {rows}\nhere  {mine}"
