"""What an actor does not see of a graph, no query and no algorithm tells by the edges around it."""

from __future__ import annotations

from pathlib import Path

import pytest

import quire

POLICY = """
@id("read") permit(principal in Role::"analyst", action == Action::"read", resource in Lake::"lake");
@id("columns") permit(principal in Role::"analyst", action == Action::"readColumn", resource in Lake::"lake");
@id("rows") permit(principal in Role::"analyst", action == Action::"readRow", resource in Lake::"lake");
@id("young") forbid(principal in Role::"analyst", action == Action::"readRow", resource in Table::"node:Person")
unless { resource.age < 50 };
@id("boss") permit(principal in Role::"boss", action, resource);
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with quire.create(tmp_path / "lake", backfill=False) as lake:
        graph = quire.Graph(lake)
        graph.apply_schema("node Person { name: String @key  age: I64 }  edge Knows: Person -> Person")
        people = [{"type": "Person", "data": {"name": n, "age": a}} for n, a in (("a", 1), ("b", 2), ("hidden", 99))]
        pairs = [("a", "b"), ("a", "hidden"), ("hidden", "b")]
        graph.load([*people, *({"edge": "Knows", "from": s, "to": t} for s, t in pairs)])
        lake.policy.set(POLICY, message="who is old is hidden")
    return tmp_path / "lake"


def seen_by(root: Path, role: str) -> quire.Graph:
    return quire.Graph(quire.open(root, actor="ann", roles=[role], backfill=False))


@pytest.mark.parametrize(
    "match",
    ["$p: Person  $p knows $f", '$p: Person { name: "a" }  $p knows $f', '$f: Person { name: "hidden" }  $p knows $f'],
)
def test_an_edge_does_not_tell_of_a_node_that_is_hidden(match: str, root: Path) -> None:
    query = f"query q() {{ match {{ {match} }} return {{ $f.name as name }} }}"
    told = seen_by(root, "analyst").query(query).to_pylist()
    assert "hidden" not in {row["name"] for row in told}
    assert {row["name"] for row in seen_by(root, "boss").query(query).to_pylist()} >= {"hidden"}


def test_an_algorithm_leaves_out_nodes_and_edges_that_are_hidden(root: Path) -> None:
    told = {role: seen_by(root, role).algorithm("degree", "Knows").to_pylist() for role in ("analyst", "boss")}
    assert {row["id"]: row["degree"] for row in told["analyst"]} == {"a": 1, "b": 1}
    assert {row["id"]: row["degree"] for row in told["boss"]} == {"a": 2, "b": 2, "hidden": 2}
    assert len(seen_by(root, "analyst").paths("Knows", "a", "b", every=True)) == 1
