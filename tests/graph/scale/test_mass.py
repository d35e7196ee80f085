"""Many rows in one statement: merges, deletes and hubs are exact, and take memory that does not follow them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import quire
from quire.errors import IntegrityError
from quire.graph.graph import Graph

pytestmark = pytest.mark.slow

FULL = os.environ.get("QUIRE_SCALE") == "full"
PEOPLE = 200_000 if FULL else 20_000
EDGES = 1_000_000 if FULL else 100_000

SCHEMA = """
node Person { name: String @key  age: I32 }
edge Knows: Person -> Person { since: I32  @unique(src, dst) }
edge Likes: Person -> Person @card(0..1000000)
"""


def names(numbers: np.ndarray) -> pa.Array:
    return pa.array([f"p{n}" for n in numbers.tolist()])


def pairs(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Different pairs of people."""
    random = np.random.default_rng(seed)
    drawn = np.unique(random.integers(PEOPLE * PEOPLE, size=count + count // 8))[:count]
    drawn = random.permutation(drawn)
    return drawn // PEOPLE, drawn % PEOPLE


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with quire.create(tmp_path / "lake", backfill=False) as lake:
        graph = Graph(lake)
        graph.apply_schema(SCHEMA)
        numbers = np.arange(PEOPLE)
        graph.load(pa.table({"name": names(numbers), "age": pa.array(numbers % 100, pa.int32())}), type="Person")
        yield graph


def edges(source: np.ndarray, target: np.ndarray, since: int) -> pa.Table:
    return pa.table(
        {"from": names(source), "to": names(target), "since": pa.array(np.full(len(source), since), pa.int32())}
    )


def test_a_merge_of_many_edges_finds_those_that_are_there(graph: Graph) -> None:
    source, target = pairs(EDGES, 1)
    half = EDGES // 2
    graph.load(edges(source[:half], target[:half], 1), edge="Knows")
    ids = {
        (r["src"], r["dst"]): r["id"] for r in graph.lake["edge:Knows"].scan(columns=["id", "src", "dst"]).to_pylist()
    }

    done = graph.load(edges(source, target, 2), "merge", edge="Knows")

    assert (done.types["Knows"].inserted, done.types["Knows"].updated) == (EDGES - half, half)
    rows = graph.lake["edge:Knows"].scan().to_arrow()
    assert rows.num_rows == EDGES
    assert set(rows.column("since").to_pylist()) == {2}
    found = {(r["src"], r["dst"]): r["id"] for r in rows.select(["id", "src", "dst"]).to_pylist()}
    assert len(found) == EDGES
    assert all(found[pair] == id for pair, id in ids.items()), "an edge that is there keeps its id"


def test_a_merge_with_an_edge_twice_names_the_second(graph: Graph) -> None:
    source, target = pairs(EDGES, 1)
    graph.load(edges(source, target, 1), edge="Knows")
    again = pa.concat_tables([edges(source, target, 2), edges(source[7:8], target[7:8], 3)])
    with pytest.raises(IntegrityError) as caught:
        graph.load(again, "merge", edge="Knows")
    assert caught.value.count == 1
    assert caught.value.line == EDGES + 1


def test_an_append_of_edges_that_are_there_names_the_first_of_them(graph: Graph) -> None:
    source, target = pairs(EDGES, 1)
    graph.load(edges(source, target, 1), edge="Knows")
    other, others = pairs(EDGES + 1, 2)
    fresh = edges(other, others, 2)
    known = set(zip(source.tolist(), target.tolist(), strict=True))
    clashes = [n for n, pair in enumerate(zip(other.tolist(), others.tolist(), strict=True)) if pair in known]
    clashes += [fresh.num_rows]
    with pytest.raises(IntegrityError, match="unique") as caught:
        graph.load(pa.concat_tables([fresh, edges(source[:1], target[:1], 2)]), edge="Knows", max_errors=1000)
    assert caught.value.count == len(clashes)
    assert {v["line"] for v in caught.value.violations} <= {n + 1 for n in clashes}


def test_many_nodes_go_with_all_their_edges(graph: Graph) -> None:
    source, target = pairs(EDGES, 3)
    graph.load(edges(source, target, 1), edge="Knows")
    gone = (source % 100 < 60) | (target % 100 < 60)
    done = graph.mutate("query q() { delete Person where age < 60 }")
    assert done.deleted == {"Knows": int(gone.sum()), "Person": PEOPLE * 60 // 100}
    left = graph.lake["edge:Knows"].scan(columns=["src", "dst"]).to_arrow()
    kept = edges(source[~gone], target[~gone], 1)
    assert sorted(left.column("src").to_pylist()) == sorted(kept.column("from").to_pylist())
    assert graph.lake["node:Person"].count() == PEOPLE - PEOPLE * 60 // 100


def test_rules_count_at_a_hub(graph: Graph) -> None:
    """One node has very many edges; what is asked about the next one is right all the same."""
    others = np.arange(1, PEOPLE)
    hub = np.zeros(len(others), np.int64)
    graph.load(edges(hub, others, 1), edge="Knows")
    graph.load(pa.table({"from": names(hub), "to": names(others)}), edge="Likes")
    graph.apply_schema(SCHEMA.replace("1000000", str(PEOPLE)))
    insert = "query q($to: String) { insert Knows { from: $to, to: $to, since: 1 } }"
    assert graph.mutate(insert, to="p0").inserted == {"Knows": 1}
    with pytest.raises(IntegrityError, match="unique"):
        graph.mutate('query q() { insert Knows { from: "p0", to: "p77", since: 2 } }')
    like = 'query q() { insert Likes { from: "p0", to: "p0" } }'
    assert graph.mutate(like).inserted == {"Likes": 1}
    with pytest.raises(IntegrityError, match=f"{PEOPLE + 1} Likes edges leave 'p0', and at most {PEOPLE} may"):
        graph.mutate(like)
