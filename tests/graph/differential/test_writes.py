"""Random mutations of random graphs, run by the engine and on plain dicts: rows, receipts and refusals are equal."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from tests.graph.differential.constructs import WRITES, of_mutation
from tests.graph.differential.draw import Asked
from tests.graph.differential.draw_writes import mutations
from tests.graph.differential.test_reads import ENOUGH, GRAPHS, PHASES, SEED, SOON, graph_of
from tests.graph.differential.values import Unclear, Undefined, left_over
from tests.graph.differential.world import Kind, Row, World, worlds
from tests.graph.differential.writes import Counts, Refused, Writes

from quire.errors import IntegrityError, InvalidQuery, KeyConflict
from quire.graph.graph import Graph
from quire.graph.language import parse

MUTATIONS = 12
"""Of every graph, one after the other."""
LEAST = max(5, GRAPHS // 8)
"""Every construct of a mutation is drawn so often."""


def test_the_engine_changes_a_graph_as_plain_dicts_are_changed() -> None:
    seen: Counter[str] = Counter()

    @seed(SEED)
    @settings(
        max_examples=GRAPHS * 2 // 3,
        phases=PHASES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def changed(data: st.DataObject) -> None:
        world = data.draw(worlds(), "world")
        graph = graph_of(world)
        for _ in range(MUTATIONS):
            asked = data.draw(mutations(world), "mutation")
            world = compare(graph, world, asked, seen)

    changed()
    seldom = {name: seen[name] for name in (*WRITES, "changed", "refused") if seen[name] < LEAST}
    assert not (ENOUGH and seldom), f"drawn too seldom: {seldom}"


def compare(graph: Graph, world: World, asked: Asked, seen: Counter[str]) -> World:
    """Run it on both; the world that is there now."""
    [query] = parse(asked.text).queries
    now = dt.datetime.now(dt.UTC)
    naive = Writes(world, query, asked.values, now)
    seen.update(of_mutation(query, {e.name for e in world.edges}))
    expected: Counts | None = None
    unclear = False
    try:
        expected = naive.run()
    except (Undefined, Refused) as error:
        unclear = isinstance(error, Unclear)
    shown = f"{world.schema}\n{world.rows}\n{asked.text}\n{asked.values}"
    try:
        done = graph.mutate(asked.text, params=asked.values)
    except (InvalidQuery, IntegrityError, KeyConflict) as error:
        if expected is not None and not naive.may_fail:
            raise AssertionError(f"{shown}\nexpected {expected}") from error
        seen["refused"] += 1
        agree(graph, world, now, shown)
        return world
    if unclear:
        return settled(graph, world)
    found = {"inserted": done.inserted, "updated": done.updated, "deleted": done.deleted}
    assert found == expected, f"{shown}\nexpected {expected}, found {found}"
    seen["changed"] += any(found.values())
    agree(graph, naive.world, now, shown)
    return settled(graph, naive.world)


def agree(graph: Graph, world: World, now: dt.datetime, shown: str) -> None:
    """Every table holds what the world does."""
    for kind in world.kinds.values():
        known = {row["@id"] for row in world.rows[kind.name]}
        expected = [_settled(as_row(kind, row), known, now) for row in world.rows[kind.name]]
        found = [_settled(row, known, now) for row in stored(graph, kind)]
        more, less = left_over(found, expected), left_over(expected, found)
        assert not more, f"{shown}\n{kind.name}: {more} is there"
        assert not less, f"{shown}\n{kind.name}: {less} is not there"


def stored(graph: Graph, kind: Kind) -> list[dict[str, Any]]:
    return graph.lake.snapshot()[f"{'edge' if kind.is_edge else 'node'}:{kind.name}"].to_pylist()


def as_row(kind: Kind, row: Row) -> dict[str, Any]:
    ends = {"src": row["@src"], "dst": row["@dst"]} if kind.is_edge else {}
    return {"id": row["@id"], **ends, **{p.name: row[p.name] for p in kind.props}}


def _settled(row: dict[str, Any], known: set[str | None], now: dt.datetime) -> dict[str, Any]:
    """An id that was made by Quire is none that we know, and its now is ours."""
    found = {k: now if isinstance(v, dt.datetime) and abs(v - now) < SOON else v for k, v in row.items()}
    return found if row["id"] in known else found | {"id": None}


def settled(graph: Graph, world: World) -> World:
    """The world with the ids and times that Quire gave."""
    rows = {}
    for kind in world.kinds.values():
        rows[kind.name] = [
            {"@id": r["id"], **({"@src": r["src"], "@dst": r["dst"]} if kind.is_edge else {})}
            | {p.name: r[p.name] for p in kind.props}
            for r in stored(graph, kind)
        ]
    return World(world.kinds, rows)
