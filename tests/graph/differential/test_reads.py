"""Random reads of random graphs, answered by the engine and by plain loops: the answers are equal.

The two share the parsed tree and nothing else. A longer run: `make differential`, or QUIRE_DIFFERENTIAL=1000 for that
many graphs, and QUIRE_SEED for others.
"""

from __future__ import annotations

import datetime as dt
import os
import uuid
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from tests import budget as tier
from tests.budget import budget
from tests.graph.differential.constructs import READS, of_read
from tests.graph.differential.draw import Asked, queries
from tests.graph.differential.naive import Answer, Naive
from tests.graph.differential.values import Unclear, Undefined, left_over, same
from tests.graph.differential.world import World, worlds

import quire
from quire.errors import InvalidQuery
from quire.graph.graph import Graph
from quire.graph.language import ast, bind, check, parse
from quire.graph.query import run, semi_join

GRAPHS = int(os.environ.get("QUIRE_DIFFERENTIAL", budget(3, full=90)))
PHASES = list(Phase) if "QUIRE_DIFFERENTIAL" in os.environ else [Phase.generate]
"""A failure is made smaller only when there is time."""
ENOUGH = GRAPHS >= 40
"""Whether so many graphs are drawn that every construct must have come. Fewer are others every day."""
SEED = int(os.environ.get("QUIRE_SEED", 1 if ENOUGH else tier.SEED))
QUERIES = 10
"""Asked of every graph. More would need more random choices than one example may make."""
LEAST = 100
"""Every construct is drawn so often."""
SOON = dt.timedelta(minutes=10)


@dataclass
class Tally:
    """What a run has seen."""

    asked: int = 0
    found: int = 0
    failed: int = 0
    constructs: Counter[str] = field(default_factory=Counter)

    def check(self, least: int) -> None:
        seldom = {name: self.constructs[name] for name in READS if self.constructs[name] < least}
        assert not seldom, f"drawn too seldom in {self.asked} queries: {seldom}"
        assert self.found >= self.asked / 2, f"{self.found} answers of {self.asked} had rows"
        assert self.failed, "no query divided by zero"


def graph_of(world: World) -> Graph:
    graph = Graph(quire.create(f"memory://{uuid.uuid4().hex}", backfill=False))
    graph.apply_schema(world.schema)
    if records := world.records():
        graph.load(records)
    return graph


def test_the_engine_answers_as_plain_loops_do() -> None:
    tally = Tally()

    @seed(SEED)
    @settings(max_examples=GRAPHS, phases=PHASES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def asked(data: st.DataObject) -> None:
        world = data.draw(worlds(), "world")
        graph = graph_of(world)
        for _ in range(QUERIES):
            query = data.draw(queries(world), "query")
            few = data.draw(st.sampled_from([None, 2, semi_join.FEW]), "few")
            compare(graph, world, query, few, tally)

    asked()
    assert tally.asked == GRAPHS * QUERIES
    if ENOUGH:
        tally.check(LEAST)


def compare(graph: Graph, world: World, asked: Asked, few: int | None, tally: Tally) -> None:
    """Ask both. What the engine says first decides nothing."""
    [query] = parse(asked.text).queries
    now = dt.datetime.now(dt.UTC)
    naive = Naive(world, query, asked.values, now)
    expected, unclear = None, False
    try:
        expected = naive.answer()
    except Undefined as error:
        unclear = isinstance(error, Unclear)
    tally.asked += 1
    tally.constructs.update(of_read(query))
    tally.found += bool(expected and expected.rows)
    tally.failed += expected is None and not unclear
    shown = f"{world.schema}\n{world.rows}\n{asked.text}\n{asked.values}\nfew={few}"
    try:
        found = answered(graph, query, asked.values, few)
    except InvalidQuery as error:
        if error.fields.get("reason") and (expected is None or naive.may_fail):
            return
        raise AssertionError(f"{shown}\nexpected {expected}") from error
    if unclear:
        return
    assert expected is not None, f"{shown}\ncannot be computed, and gave {found}"
    agree([tuple(_settled(v, now) for v in row) for row in found], expected, now, shown)


def answered(graph: Graph, read: ast.Query, values: dict[str, Any], few: int | None) -> list[tuple[Any, ...]]:
    """The rows of the engine, with scans narrowed by up to so many ids, or not at all."""
    snapshot = graph.lake.snapshot()
    query = check(read, graph.catalog(snapshot))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(semi_join, "FEW", few or 0)
        rows = run(query, snapshot, bind(query, values), reduce=few is not None)
        return [tuple(row.values()) for row in rows.to_pylist()]


def agree(found: list[tuple[Any, ...]], expected: Answer, now: dt.datetime, shown: str) -> None:
    said = f"{shown}\nfound    {found}\nexpected {expected}"
    if expected.ordered:
        assert same(found, expected.rows), said
        return
    assert not left_over(found, expected.rows), said
    wanted = len(expected.rows)
    assert len(found) == (wanted if expected.limit is None else min(wanted, expected.limit)), said


def _settled(value: Any, now: dt.datetime) -> Any:
    """The time of the engine's run is that of ours."""
    return now if isinstance(value, dt.datetime) and abs(value - now) < SOON else value
