"""Changes of a graph by actors who see a part of it: the rules see everything, and their answers tell nothing of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import quire
from quire.errors import Denied, QuireError

SCHEMA = """
node Person { name: String @key  note: String? }
node Hidden { name: String @key }
edge Knows: Person -> Person
edge Owns: Person -> Hidden
edge Likes: Person -> Person { since: I32 @unique }
"""
POLICY = """
permit(principal, action == Action::"write", resource in Lake::"lake");
permit(principal in Role::"types", action in Action::"read", resource in Lake::"lake")
unless { resource in Table::"node:Hidden" || resource in Table::"edge:Owns" };
permit(principal in Role::"columns", action in Action::"read", resource in Lake::"lake")
unless { resource == Column::"node:Person/note" };
permit(principal in Role::"rows", action in Action::"read", resource in Lake::"lake");
forbid(principal in Role::"rows", action == Action::"readRow", resource in Table::"node:Person")
unless { resource.name == "Ada" };
permit(principal in Role::"edges", action in Action::"read", resource in Lake::"lake");
forbid(principal in Role::"edges", action == Action::"readRow", resource in Table::"edge:Likes")
unless { resource.since == 1 };
"""
Do = Callable[[quire.Graph], Any]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("graph") / "lake"
    with quire.create(where, backfill=False) as lake:
        graph = quire.Graph(lake)
        graph.apply_schema(SCHEMA)
        people = [{"type": "Person", "data": {"name": n, "note": "S-note"}} for n in ("Ada", "Bo", "Cy")]
        edges = [
            {"edge": "Knows", "from": "Ada", "to": "Bo"},
            {"edge": "Owns", "from": "Cy", "to": "H-node"},
            {"edge": "Likes", "from": "Ada", "to": "Bo", "data": {"since": 7}},
        ]
        graph.load([*people, {"type": "Hidden", "data": {"name": "H-node"}}, *edges])
        lake.policy.set(POLICY)
    return where


def graph_of(root: Path, role: str) -> quire.Graph:
    return quire.Graph(quire.open(root, actor="ada", roles=[role], backfill=False))


def mutation(text: str) -> Do:
    return lambda graph: graph.mutate(f"query m() {{ {text} }}")


def written(table: str, verb: str, *args: Any) -> Do:
    def do(graph: quire.Graph) -> None:
        with graph.lake.transaction() as tx:
            getattr(tx[table], verb)(*args)

    return do


def loaded(row: dict[str, Any]) -> Do:
    return lambda graph: graph.load([row], mode="append")


def told(root: Path, role: str, do: Do) -> str:
    """The words of a refusal."""
    with pytest.raises(QuireError) as caught:
        do(graph_of(root, role))
    assert isinstance(caught.value, Denied), caught.value
    return str(caught.value.to_dict())


@pytest.mark.parametrize("way", ["mutation", "statement"])
def test_a_node_is_not_deleted_where_its_edges_are_hidden(way: str, root: Path) -> None:
    """With an edge that is hidden and without: the answer is the same, and names no type that is hidden."""
    answers = set()
    for name in ("Bo", "Cy"):
        do = mutation(f'delete Person where name = "{name}"')
        if way == "statement":
            do = written("node:Person", "delete", f"id = '{name}'")
        answers.add(told(root, "types", do).replace(name, "…"))
    assert len(answers) == 1
    assert "Owns" not in answers.pop()


@pytest.mark.parametrize("name", ["Bo", "nobody"])
@pytest.mark.parametrize("way", ["mutation", "statement", "load"])
def test_an_edge_does_not_ask_whether_a_hidden_node_is_there(way: str, name: str, root: Path) -> None:
    do = {
        "mutation": mutation(f'insert Knows {{ from: "Ada", to: "{name}" }}'),
        "statement": written("edge:Knows", "append", [{"id": "new", "src": "Ada", "dst": name}]),
        "load": loaded({"edge": "Knows", "from": "Ada", "to": name}),
    }[way]
    assert "may not write" in told(root, "rows", do)


@pytest.mark.parametrize("since", [7, 8])
def test_a_rule_of_unique_values_does_not_tell_of_hidden_rows(since: int, root: Path) -> None:
    told(root, "edges", loaded({"edge": "Likes", "from": "Ada", "to": "Bo", "data": {"since": since}}))


def test_what_the_rules_look_at_may_be_hidden_elsewhere(root: Path) -> None:
    """A hidden column that no rule asks for, or a hidden type that the change does not touch, is no hindrance."""
    columns, types = graph_of(root, "columns"), graph_of(root, "types")
    columns.mutate('query m() { insert Knows { from: "Bo", to: "Cy" } }')
    types.mutate('query m() { insert Person { name: "Di" }  insert Knows { from: "Di", to: "Ada" } }')
    with pytest.raises(QuireError) as caught:
        types.mutate('query m() { insert Knows { from: "Di", to: "nobody" } }')
    assert not isinstance(caught.value, Denied)
    whole = quire.Graph(quire.open(root))
    assert whole.lake["edge:Knows"].count() == 3
    assert whole.lake["node:Person"].count() == 4
