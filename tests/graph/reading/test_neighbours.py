"""What is next to a node, and a graph for other tools."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict

import msgspec
import pytest

import quire
from quire.errors import AlreadyExists, InvalidInput, InvalidQuery, NotFound
from quire.graph.graph import Graph

SCHEMA = """
node Person { name: String @key  born: Date?  id: I32?  tags: [String]? }
node City { land: String  name: String  seen: DateTime?  type: String?  @key(land, name) }
node Note { text: String  scan: Blob? }
edge Knows: Person -> Person { since: Date? }
edge LivesIn: Person -> City
"""
ROWS: list[dict[str, Any]] = [
    {"type": "Person", "data": {"name": "Ada", "born": "1815-12-10", "id": 7, "tags": ["a", "b"]}},
    {"type": "Person", "data": {"name": "Bo"}},
    {"type": "City", "data": {"land": "no", "name": "Oslo", "seen": "2024-01-01T12:00:00Z", "type": "capital"}},
    {"type": "Note", "id": "n1", "data": {"text": "hello"}},
    {"edge": "Knows", "from": "Ada", "to": "Bo", "id": "k1", "data": {"since": "2020-01-01"}},
    {"edge": "Knows", "from": "Bo", "to": "Ada", "id": "k2"},
    {"edge": "Knows", "from": "Bo", "to": "Bo", "id": "k3"},
    {"edge": "LivesIn", "from": "Ada", "to": '["no","Oslo"]', "id": "l1"},
]


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with quire.create(tmp_path / "lake", backfill=False) as lake:
        graph = Graph(lake)
        graph.apply_schema(SCHEMA)
        graph.load(ROWS)
        yield graph


def test_neighbours_are_edges_and_the_nodes_at_their_other_ends(graph: Graph) -> None:
    found = graph.neighbours("Person", "Ada")
    assert [(n.edge, n.direction, n.type, n.node["name"]) for n in found] == [
        ("Knows", "out", "Person", "Bo"),
        ("Knows", "in", "Person", "Bo"),
        ("LivesIn", "out", "City", "Oslo"),
    ]
    assert found[0].properties["since"] == dt.date(2020, 1, 1)
    assert [n.properties["id"] for n in graph.neighbours("Person", "Bo")] == ["k2", "k3", "k1", "k3"]


def test_neighbours_by_edge_direction_and_number(graph: Graph) -> None:
    def asked(*key: Any, **how: Any) -> list[str]:
        return [n.properties["id"] for n in graph.neighbours(*key, **how)]

    assert asked("Person", "Ada", edge="knows", direction="out") == ["k1"]
    assert asked("Person", "Ada", direction="in") == ["k2"]
    assert asked("City", "no", "Oslo", edge="LivesIn") == ["l1"]
    assert len(asked("Person", "Bo", edge="knows", direction="out", limit=1)) == 1
    assert asked("Note", "n1") == []


@pytest.mark.parametrize(
    ("ask", "kind", "told"),
    [
        (lambda g: g.neighbours("Person", "Nobody"), NotFound, "no Person 'Nobody'"),
        (lambda g: g.neighbours("City", "Oslo"), InvalidQuery, "known by land, name"),
        (lambda g: g.neighbours("Person", 5), InvalidQuery, "must be text"),
        (lambda g: g.neighbours("City", "no", "Oslo", edge="knows"), InvalidQuery, "from Person to Person"),
        (lambda g: g.neighbours("Person", "Ada", direction="up"), InvalidInput, "must be 'out', 'in' or 'both'"),
        (lambda g: g.neighbours("Persn", "Ada"), NotFound, "'Persn'"),
        (lambda g: g.table("Persn"), NotFound, "'Persn'"),
        (lambda g: g.frames("excel"), InvalidInput, "'excel'"),
        (lambda g: g.frames(types="Person"), InvalidInput, "Write ['Person']."),
    ],
)
def test_what_is_not_there_is_named(graph: Graph, ask: Any, kind: type[Exception], told: str) -> None:
    with pytest.raises(kind) as raised:
        ask(graph)
    assert told in f"{raised.value} {getattr(raised.value, 'next', '')}"


def test_every_type_is_a_frame_of_one_commit(graph: Graph) -> None:
    frames = graph.frames()
    assert sorted(frames) == ["City", "Knows", "LivesIn", "Note", "Person"]
    assert sorted(frames["Person"]["name"]) == ["Ada", "Bo"]
    assert sorted(graph.frames("polars", ["Person"])) == ["Knows", "Person"]
    assert graph.frames("arrow", ["LivesIn"])["LivesIn"].column("src").to_pylist() == ["Ada"]
    assert graph.table("Knows").count() == 3
    before = graph.lake.snapshot()
    graph.load([{"type": "Person", "data": {"name": "Cy"}}])
    assert graph.table("Person", before).count() == 2


def test_networkx_has_every_node_and_edge(graph: Graph) -> None:
    made = graph.to_networkx()
    assert set(made.nodes) == {("Person", "Ada"), ("Person", "Bo"), ("City", '["no","Oslo"]'), ("Note", "n1")}
    assert set(made.edges(keys=True)) == {
        (("Person", "Ada"), ("Person", "Bo"), "k1"),
        (("Person", "Bo"), ("Person", "Ada"), "k2"),
        (("Person", "Bo"), ("Person", "Bo"), "k3"),
        (("Person", "Ada"), ("City", '["no","Oslo"]'), "l1"),
    }
    ada, oslo = made.nodes["Person", "Ada"], made.nodes["City", '["no","Oslo"]']
    assert (ada["type"], ada["name"], ada["born"], ada["id"]) == ("Person", "Ada", dt.date(1815, 12, 10), 7)
    assert (oslo["type"], oslo["property:type"]) == ("City", "capital")
    only = graph.to_networkx(["Person"])
    assert (only.number_of_nodes(), only.number_of_edges()) == (2, 3)


@pytest.mark.parametrize("name", ["graph.jsonl", "graph.jsonl.gz"])
def test_what_is_exported_loads_again(graph: Graph, tmp_path: Path, name: str) -> None:
    graph.mutate('query q($b: Blob) { insert Note { text: "with a scan", scan: $b } }', b=b"\x00\xff")
    counts = graph.export(tmp_path / name)
    assert counts == {"City": 1, "Note": 2, "Person": 2, "Knows": 3, "LivesIn": 1}
    with quire.create(tmp_path / "other", backfill=False) as lake:
        other = Graph(lake)
        other.apply_schema(graph.schema())
        other.load(tmp_path / name)
        again = tmp_path / f"again-{name}"
        assert other.export(again) == counts
        for kind in counts:
            here, there = graph.frames("arrow")[kind].to_pylist(), other.frames("arrow")[kind].to_pylist()
            by_id = "@id" if kind == "Person" else "id"  # a Person has a property called id
            assert sorted(here, key=lambda r: r[by_id]) == sorted(there, key=lambda r: r[by_id])
    with pytest.raises(AlreadyExists):
        graph.export(tmp_path / name)
    with pytest.raises(InvalidInput):
        graph.export(tmp_path / "nowhere" / "x.jsonl")
    assert not list(tmp_path.glob(".*unfinished"))


@dataclasses.dataclass
class Person:
    name: str
    born: dt.date | None = None


class Named(TypedDict):
    name: str


class Struct(msgspec.Struct):
    name: str


class Old(msgspec.Struct):
    name: int


PEOPLE = "query people() { match { $p: Person } return { $p.name as name, $p.born as born } order { name } }"


def test_rows_become_objects_of_a_class(graph: Graph) -> None:
    assert graph.query(PEOPLE).into(Person) == [Person("Ada", dt.date(1815, 12, 10)), Person("Bo")]
    assert graph.query(PEOPLE).into(Named) == [{"name": "Ada"}, {"name": "Bo"}]
    assert graph.query(PEOPLE).into(Struct)[0].name == "Ada"
    with pytest.raises(InvalidInput, match=r"do not match Old: .*\$\[0\]\.name"):
        graph.query(PEOPLE).into(Old)
    with pytest.raises(InvalidInput, match="must be a class"):
        graph.query(PEOPLE).into(object())  # type: ignore[arg-type]
