"""`@card(1..)` is judged at the commit, for the nodes that it touches."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

import quire
from quire.errors import IntegrityError

SCHEMA = "node P { name: String @key  age: I32? } node C { name: String @key } edge At: P -> C @card(1..)"


@pytest.fixture
def graph() -> quire.Graph:
    found = quire.Graph(quire.create(f"memory://{uuid.uuid4().hex}", backfill=False))
    found.apply_schema(SCHEMA)
    found.load(
        [
            {"type": "C", "data": {"name": "x"}},
            {"type": "P", "data": {"name": "a"}},
            {"edge": "At", "from": "a", "to": "x", "data": {}},
        ]
    )
    return found


def test_nodes_and_their_first_edges_come_in_one_load(graph: quire.Graph, tmp_path: Path) -> None:
    people, at = tmp_path / "people.csv", tmp_path / "at.csv"
    people.write_text("name\nb\nc\n")
    at.write_text("from,to\nb,x\nc,x\n")
    with pytest.raises(IntegrityError, match="at least 1"):
        graph.load(people, type="P")
    assert graph.load({"P": people, "At": at}).inserted == {"P": 2, "At": 2}


def test_or_in_one_transaction_whichever_is_written_first(graph: quire.Graph) -> None:
    with graph.lake.transaction("both") as tx:
        tx["node:P"].append([{"id": "b", "name": "b"}], missing="null")
        tx["edge:At"].append([{"id": "e", "src": "b", "dst": "x"}], missing="null")
    assert graph.find("P").count() == 2
    with pytest.raises(IntegrityError, match="at least 1"), graph.lake.transaction("one") as tx:
        tx["node:P"].append([{"id": "c", "name": "c"}], missing="null")


def test_a_mutation_is_judged_at_its_end(graph: quire.Graph) -> None:
    with pytest.raises(IntegrityError, match="at least 1"):
        graph.mutate('query q() { delete At where from = "a" }')
    graph.mutate('query q() { delete At where from = "a"  insert At { from: "a", to: "x" } }')
    graph.mutate('query q() { delete At where from = "a"  delete P where name = "a" }')
    assert graph.find("P").count() == 0
