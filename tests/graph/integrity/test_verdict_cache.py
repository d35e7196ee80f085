"""What was found right is not asked again, and what was never asked is not taken for right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import quire
from quire.errors import IntegrityError
from quire.graph.integrity import check
from quire.graph.integrity import verdict_cache as verdicts_module
from quire.graph.integrity.changes import catalog_of
from quire.graph.language import bind, parse
from quire.graph.language import check as typed
from quire.graph.load import load
from quire.graph.mutate import run

SCHEMA = """
node Person { name: String @key  email: String? @unique }
node Team { name: String @key }
edge Knows: Person -> Person
edge Has: Team -> Person @card(1..2)
"""


def node(kind: str, name: str, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": {"name": name, **data}}


def edge(kind: str, source: str, target: str) -> dict[str, Any]:
    return {"edge": kind, "from": source, "to": target, "data": {}}


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[quire.Graph]:
    with quire.create(str(tmp_path / "lake"), backfill=False) as lake:
        made = quire.Graph(lake)
        made.apply_schema(SCHEMA)
        people = [node("Person", name) for name in "ABC"] + [node("Person", "D", email="x")]
        made.load([*people, node("Team", "t"), edge("Has", "t", "A"), edge("Knows", "A", "B")])
        yield made


def mutate(tx: Any, body: str) -> None:
    query = typed(parse(f"query q() {{ {body} }}").queries[0], catalog_of(tx))
    run(tx, query.body, bind(query, {}))  # type: ignore[arg-type]


def raw_delete_then_an_edge_of_others(tx: Any) -> None:
    tx["node:Person"].delete("id = 'B'")
    load(tx, [edge("Knows", "A", "C")])


def raw_duplicate_then_an_edge(tx: Any) -> None:
    tx["node:Person"].update(values={"email": "x"}, where="id = 'A'")
    load(tx, [edge("Knows", "A", "C")])


def a_node_without_its_edge_then_an_edge_of_another(tx: Any) -> None:
    load(tx, [node("Team", "u")])
    load(tx, [edge("Has", "t", "B")])


def a_raw_edge_to_nobody_then_a_merge_of_its_source(tx: Any) -> None:
    tx["edge:Has"].insert([{"id": "h", "src": "t", "dst": "nobody"}])
    load(tx, [node("Team", "t")], "merge")


def a_mutated_duplicate_then_an_edge(tx: Any) -> None:
    mutate(tx, 'update Person set { email: "x" } where name = "A"')
    load(tx, [edge("Knows", "A", "C")])


def an_edge_then_a_raw_delete(tx: Any) -> None:
    load(tx, [edge("Knows", "A", "C")])
    tx["node:Person"].delete("id = 'B'")


def a_shorter_team_then_people(tx: Any) -> None:
    load(tx, [edge("Has", "t", "B")], "overwrite")
    tx["edge:Has"].delete("src = 't'")
    load(tx, [node("Team", "t")], "merge")


@pytest.mark.parametrize(
    ("writes", "rule"),
    [
        (raw_delete_then_an_edge_of_others, "orphan"),
        (raw_duplicate_then_an_edge, "unique"),
        (a_node_without_its_edge_then_an_edge_of_another, "card"),
        (a_raw_edge_to_nobody_then_a_merge_of_its_source, "end"),
        (a_mutated_duplicate_then_an_edge, "unique"),
        (an_edge_then_a_raw_delete, "orphan"),
        (a_shorter_team_then_people, "card"),
    ],
)
def test_every_write_of_a_transaction_is_judged(graph: quire.Graph, writes: Callable[[Any], None], rule: str) -> None:
    head = graph.lake.head
    with pytest.raises(IntegrityError) as caught:
        with graph.lake.transaction() as tx:
            writes(tx)
    assert caught.value.rule == rule
    assert graph.lake.refresh() == head


def test_writes_that_are_right_together_land_together(graph: quire.Graph) -> None:
    with graph.lake.transaction() as tx:
        load(tx, [node("Team", "u")])
        load(tx, [edge("Has", "u", "B")])
    assert sorted(row["src"] for row in graph.lake["edge:Has"].to_pylist()) == ["t", "u"]


def test_one_load_is_judged_once(graph: quire.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    before = verdicts_module.ask_all

    def counted(catalog: Any, changed: Any, looks: Any, found: Any) -> None:
        asked.append(sorted(one.entity.name for one in changed))
        before(catalog, changed, looks, found)

    monkeypatch.setattr(verdicts_module, "ask_all", counted)
    with graph.lake.transaction() as tx:
        load(tx, [node("Person", "E"), edge("Knows", "A", "E")])
        assert not check(tx, ["node:Person"])  # a part of what was asked
    assert asked == [["Knows", "Person"]]
