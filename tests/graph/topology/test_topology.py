"""Algorithms and paths say what networkx says, and a commit costs only what it changed."""

from __future__ import annotations

import uuid
from collections import defaultdict
from typing import Any

import networkx as nx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.budget import budget

import quire
from quire.errors import InvalidQuery, LimitExceeded, NotFound
from quire.graph.topology import adjacency, algorithms
from quire.graph.topology.kept import KeptColumns

SCHEMA = """
node Person { name: String @key  age: I32  rank: F64?  group: String?  core: I64? }
node City { name: String @key }
edge Knows: Person -> Person { km: F64? }
edge LivesIn: Person -> City
"""
NAMES = "abcdefgh"
Edges = list[tuple[str, str, int]]
edges = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES), st.integers(1, 4)), max_size=20)
laws = settings(max_examples=budget(8, full=150), deadline=None, suppress_health_check=list(HealthCheck))


def graph_of(found: Edges) -> quire.Graph:
    graph = quire.Graph(quire.create(f"memory://{uuid.uuid4().hex}", backfill=False))
    graph.apply_schema(SCHEMA)
    add(graph, [{"type": "Person", "data": {"name": n, "age": 1}} for n in NAMES], found)
    return graph


def add(graph: quire.Graph, nodes: list[dict[str, Any]], found: Edges) -> None:
    graph.load([*nodes, *({"edge": "Knows", "from": s, "to": t, "data": {"km": k}} for s, t, k in found)])


def plain(found: Edges) -> nx.MultiDiGraph:
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(NAMES)
    graph.add_edges_from((s, t, {"km": k}) for s, t, k in found)
    return graph


def simple(found: Edges) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from(NAMES)
    graph.add_edges_from((s, t) for s, t, _ in found if s != t)
    return graph


def values(graph: quire.Graph, name: Any, **how: Any) -> dict[str, Any]:
    return {row["id"]: row[name] for row in graph.algorithm(name, "Knows", **how).to_pylist()}


@laws
@given(edges)
def test_every_algorithm_says_what_networkx_says(found: Edges) -> None:
    graph, other, pairs = graph_of(found), plain(found), simple(found)
    assert values(graph, "degree") == dict(other.degree())
    assert values(graph, "degree", direction="out") == dict(other.out_degree())
    assert values(graph, "degree", direction="in") == dict(other.in_degree())
    assert values(graph, "core") == nx.core_number(pairs)
    parts = {n: min(part) for part in nx.connected_components(pairs) for n in part}
    assert values(graph, "components") == parts
    for weight in (None, "km"):
        ranks = shares(found if weight else [(s, t, 1) for s, t, _ in found])
        assert values(graph, "pagerank", weight=weight, iterations=1000) == pytest.approx(ranks, abs=1e-7)


def shares(found: Edges) -> dict[str, float]:
    """PageRank by plain loops, until nothing moves."""
    leaving = {n: sum(k for s, _, k in found if s == n) for n in NAMES}
    rank = dict.fromkeys(NAMES, 1 / len(NAMES))
    for _ in range(300):
        lost = sum(rank[n] for n in NAMES if not leaving[n])
        new = dict.fromkeys(NAMES, (0.15 + 0.85 * lost) / len(NAMES))
        for s, t, k in found:
            new[t] += 0.85 * rank[s] * k / leaving[s]
        rank = new
    return rank


def label_rounds(found: Edges, rounds: int) -> dict[str, str]:
    """Label propagation by plain loops; labels are the smallest id among those that share one."""
    pairs, labels = simple(found), {n: number for number, n in enumerate(NAMES)}
    for _ in range(rounds):
        new = {}
        for node in NAMES:
            times: dict[int, int] = defaultdict(int)
            for other in (node, *pairs[node]):
                times[labels[other]] += 1
            new[node] = min(times, key=lambda label: (-times[label], label))
        labels = new
    return {n: min(m for m in NAMES if labels[m] == labels[n]) for n in NAMES}


@laws
@given(edges, st.integers(1, 6))
def test_labels_and_similarity_are_what_loops_find(found: Edges, rounds: int) -> None:
    graph = graph_of(found)
    assert values(graph, "labels", iterations=rounds) == label_rounds(found, rounds)
    near = {n: {t for s, t, _ in found if s == n} for n in NAMES}
    expected = {
        (a, b): len(near[a] & near[b]) / len(near[a] | near[b])
        for a in NAMES
        for b in NAMES
        if a != b and near[a] & near[b]
    }
    told = graph.algorithm("similarity", "Knows", most=100).to_pylist()
    assert {(r["id"], r["other"]): r["similarity"] for r in told} == pytest.approx(expected)
    best = graph.algorithm("similarity", "Knows", most=1).to_pylist()
    assert {r["id"]: r["similarity"] for r in best} == pytest.approx(
        {n: max(v for (a, _), v in expected.items() if a == n) for n in {a for a, _ in expected}}
    )


@laws
@given(edges, st.sampled_from(["out", "in", "both"]), st.sampled_from([None, "km"]))
def test_paths_are_those_of_networkx(found: Edges, direction: Any, weight: str | None) -> None:
    graph, other = graph_of(found), plain(found)
    walked: Any = {"out": other, "in": other.reverse(), "both": other.to_undirected()}[direction]
    lightest: Any = nx.DiGraph()
    lightest.add_nodes_from(NAMES)
    for s, t, k in walked.edges(data="km"):
        for one, two in ((s, t), (t, s)) if direction == "both" else ((s, t),):
            held = lightest.get_edge_data(one, two, {"km": k})["km"]
            lightest.add_edge(one, two, km=min(k, held))
    for target in "bc":
        how: dict[str, Any] = {"direction": direction, "weight": weight}
        every = graph.paths("Knows", "a", target, every=True, **how)
        if not nx.has_path(lightest, "a", target):
            assert every == []
            continue
        expected = {tuple(p) for p in nx.all_shortest_paths(lightest, "a", target, weight=weight)}
        assert sorted(p.nodes for p in every) == sorted(expected)
        assert {p.length for p in every} == {nx.shortest_path_length(lightest, "a", target, weight=weight)}
        [one] = graph.paths("Knows", "a", target, **how)
        assert one.nodes in expected
        assert len(graph.paths("Knows", "a", target, every=True, limit=1, **how)) == 1


def test_hops_bound_a_path() -> None:
    graph = graph_of([("a", "b", 1), ("b", "c", 1)])
    assert graph.paths("Knows", "a", "c", hops=1) == []
    assert graph.paths("Knows", "a", "c", hops=2)[0].nodes == ("a", "b", "c")
    assert graph.paths("Knows", "a", "a")[0].nodes == ("a",)


def test_an_append_reads_what_was_appended_and_nothing_else() -> None:
    graph = graph_of([("a", "b", 1), ("b", "c", 1)])
    values(graph, "degree")
    before = graph._columns.read_rows
    values(graph, "pagerank")
    assert graph._columns.read_rows == before
    add(graph, [{"type": "Person", "data": {"name": "new", "age": 1}}], [("a", "new", 1)])
    assert values(graph, "degree")["new"] == 1
    assert graph._columns.read_rows == before + 2
    graph.mutate('query gone() { delete Person where name = "b" }')
    assert values(graph, "degree") == {**dict.fromkeys("cdefgh", 0), "a": 1, "new": 1}


def test_arrays_are_made_once_for_a_state(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    real = adjacency._made
    monkeypatch.setattr(adjacency, "_made", lambda *given: made.append(given[3].name) or real(*given))
    graph = graph_of([("a", "b", 1), ("b", "c", 5), ("a", "c", 9)])
    before = graph.lake.snapshot()
    assert graph.paths("Knows", "a", "c")[0].length == 1
    assert graph.paths("Knows", "a", "c", direction="both")[0].nodes == ("a", "c")
    assert values(graph, "degree")["a"] == 2
    assert made == ["Knows"]
    assert graph.paths("Knows", "a", "c", weight="km")[0].nodes == ("a", "b", "c")
    assert len(made) == 2  # weights are arrays of their own
    graph.mutate('query gone() { delete Knows where from = "a" }')
    assert graph.paths("Knows", "a", "c") == []
    assert graph.paths("Knows", "a", "c", at=before)[0].length == 1
    assert len(made) == 3
    graph._columns = KeptColumns(most=10)
    assert [graph.paths("Knows", "a", "c", at=before)[0].length for _ in range(2)] == [1, 1]
    assert len(made) == 5  # too large to be kept


def test_what_is_kept_is_bounded_and_changes_no_answer() -> None:
    graph = graph_of([("a", "b", 1), ("b", "c", 1)])
    expected = values(graph, "degree")
    graph._columns = KeptColumns(most=10)
    assert values(graph, "degree") == expected
    read = graph._columns.read_rows
    assert values(graph, "degree") == expected
    assert graph._columns.read_rows == 2 * read, "nothing was kept"


def test_two_types_at_the_ends() -> None:
    graph = graph_of([])
    graph.load([{"type": "City", "data": {"name": "a"}}, {"edge": "LivesIn", "from": "a", "to": "a"}])
    told = graph.algorithm("degree", "LivesIn").to_pylist()
    assert {(r["type"], r["id"]): r["degree"] for r in told if r["degree"]} == {("Person", "a"): 1, ("City", "a"): 1}
    assert graph.paths("LivesIn", "a", "a")[0].length == 1


def test_values_are_written_in_one_commit_beside_what_is_there() -> None:
    graph = graph_of([("a", "b", 1), ("c", "b", 1)])
    assert graph.write_algorithm("pagerank", "Knows", "rank") == {"Person": 8}
    assert graph.write_algorithm("components", "Knows", "group") == {"Person": 8}
    assert graph.write_algorithm("core", "Knows", "core") == {"Person": 8}
    rows = {r["name"]: r for r in graph.lake["node:Person"].to_pylist()}
    assert rows["b"]["rank"] == pytest.approx(values(graph, "pagerank")["b"])
    assert (rows["c"]["group"], rows["c"]["core"], rows["c"]["age"]) == ("a", 1, 1)


def test_what_changes_meanwhile_is_computed_again() -> None:
    graph = graph_of([("a", "b", 1)])
    rival = quire.Graph(graph.lake)
    real, times = graph._columns.read, []

    def read(*args: Any) -> Any:
        if not times:
            times.append(1)
            rival.mutate('query gone() { delete Person where name = "a" }')
        return real(*args)

    graph._columns.read = read  # type: ignore[method-assign]
    assert graph.write_algorithm("degree", "Knows", "core") == {"Person": 7}
    assert {r["name"]: r["core"] for r in graph.lake["node:Person"].to_pylist()} == dict.fromkeys("bcdefgh", 0)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda g: g.algorithm("magic", "Knows"), "no algorithm|must be"),
        (lambda g: g.algorithm("degree", "Knows", damping=1), "no setting"),
        (lambda g: g.algorithm("core", "Knows", direction="out"), "both ways"),
        (lambda g: g.algorithm("degree", "Knows", weight="km"), "takes no weight"),
        (lambda g: g.algorithm("pagerank", "Knows", damping=2), "damping"),
        (lambda g: g.algorithm("pagerank", "LivesIn", weight="km"), "km"),
        (lambda g: g.write_algorithm("degree", "Knows", "nothing"), "no property"),
        (lambda g: g.write_algorithm("components", "Knows", "rank"), "cannot hold"),
        (lambda g: g.write_algorithm("similarity", "Knows", "rank"), "no single value"),
        (lambda g: g.paths("Knows", "a", "b", weight="km", hops=2), "hops"),
    ],
)
def test_what_cannot_be_done_is_told(call: Any, said: str) -> None:
    with pytest.raises(quire.QuireError, match=said):
        call(graph_of([("a", "b", 1)]))


def test_nodes_and_weights_must_be_there() -> None:
    graph = graph_of([("a", "b", 1)])
    with pytest.raises(NotFound, match="nobody"):
        graph.paths("Knows", "a", "nobody")
    graph.load([{"edge": "Knows", "from": "a", "to": "b"}])
    with pytest.raises(InvalidQuery, match="have no km"):
        graph.paths("Knows", "a", "b", weight="km")
    graph.load([{"edge": "Knows", "from": "a", "to": "b", "data": {"km": 1}}], mode="overwrite")
    graph.load([{"edge": "Knows", "from": "a", "to": "b", "data": {"km": -1}}])
    with pytest.raises(InvalidQuery, match="above 0"):
        graph.paths("Knows", "a", "b", weight="km")


def test_too_many_pairs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(algorithms, "PAIRS", 3)
    with pytest.raises(LimitExceeded):
        graph_of([("a", "b", 1), ("c", "b", 1)]).algorithm("similarity", "Knows")
