"""What an actor does not see of a graph, no query and no algorithm tells by the edges around it."""

from __future__ import annotations

from pathlib import Path

import pytest

import quire
from quire.errors import InvalidQuery

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


def test_an_interface_shows_the_types_and_properties_that_are_seen(tmp_path: Path) -> None:
    with quire.create(tmp_path / "lake", backfill=False) as lake:
        graph = quire.Graph(lake)
        graph.apply_schema("""
            interface Named { title: String?  code: String? }
            interface Sealed { code: String? }
            node Person implements Named { name: String @key }
            node Place implements Named { name: String @key }
            node Secret implements Named, Sealed { name: String @key }
        """)
        types = ("Person", "Place", "Secret")
        graph.load([{"type": t, "data": {"name": "a", "title": f"T-{t}", "code": f"C-{t}"}} for t in types])
        hidden = 'resource == Table::"node:Secret" || resource == Column::"node:Place/code"'
        lake.policy.set(
            POLICY.replace('Lake::"lake");', f'Lake::"lake") unless {{ {hidden} }};').replace(
                POLICY[POLICY.index('@id("young")') : POLICY.index('@id("boss")')], ""
            )
        )
    query = "query q() { match { $x: Named } return { $x.type as type, $x.title as title } order { type } }"
    boss, analyst = (seen_by(tmp_path / "lake", role) for role in ("boss", "analyst"))
    assert boss.query(query).to_pylist() == [{"type": t, "title": f"T-{t}"} for t in types]
    assert analyst.query(query).to_pylist() == [{"type": t, "title": f"T-{t}"} for t in types[:2]]
    refused = {
        "{ $x: Named  $x.code is not null }": "Named has no property 'code'. .*It has title",
        "{ $x: Sealed }": "there is no node type 'Sealed'",
        '{ $x: Named  $x.type = "Secret" }': "'Secret' is not one of the values of enum.Person, Place.",
    }
    for match, said in refused.items():
        asked = f"query q() {{ match {match} return {{ $x.id }} }}"
        assert boss.query(asked).to_pylist()
        with pytest.raises(InvalidQuery, match=said):
            analyst.query(asked)
    whole = "query q() { match { $x: Named } return { $x } }"
    assert {frozenset(row["x"]) for row in analyst.query(whole).to_pylist()} == {frozenset({"id", "type", "title"})}
