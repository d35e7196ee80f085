"""Merging rows that do not give every property."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import quire
from quire.errors import IntegrityError
from quire.graph.embed import HashEmbedder
from quire.graph.graph import Graph
from quire.graph.load import load, merge

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  city: String
  level: I32 @default(1)
  photo: Blob?
  text: String?
  vec: Vector(4)? @embed("text")
}
node Note { text: String  stars: I32? }
edge Knows: Person -> Person { since: I32?  why: String?  @unique(src, dst) }
"""


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with quire.create(str(tmp_path / "lake"), backfill=False) as lake:
        made = Graph(lake, embedder=HashEmbedder(4))
        made.apply_schema(SCHEMA)
        yield made


def person(name: str, **data: Any) -> dict[str, Any]:
    return {"type": "Person", "data": {"name": name, **data}}


def people(graph: Graph) -> dict[str, tuple[Any, ...]]:
    rows = graph.lake["node:Person"].scan(columns=["name", "age", "city", "level"]).to_pylist()
    return {r["name"]: (r["age"], r["city"], r["level"]) for r in rows}


def test_a_row_that_is_there_keeps_what_is_not_given(graph: Graph) -> None:
    graph.load([person("Ada", age=1, city="Rome", level=7), person("Bob", age=2, city="Oslo")])
    done = graph.load([person("Ada", age=5), person("Bob", city="Bonn"), person("Eve", city="Kyiv")], "merge")
    assert people(graph) == {"Ada": (5, "Rome", 7), "Bob": (2, "Bonn", 1), "Eve": (None, "Kyiv", 1)}
    assert (done.inserted, done.updated) == ({"Person": 1}, {"Person": 2})


def test_null_is_given_as_null(graph: Graph) -> None:
    graph.load([person("Ada", age=1, city="Rome")])
    graph.load([person("Ada", age=None)], "merge")
    assert people(graph) == {"Ada": (None, "Rome", 1)}


def test_columns_that_a_table_lacks_are_kept(graph: Graph, tmp_path: Path) -> None:
    graph.load([person("Ada", age=1, city="Rome"), person("Bob", age=2, city="Oslo")])
    graph.load(pa.table({"name": ["Ada", "Bob"], "age": [10, None]}), "merge", type="Person")
    assert people(graph) == {"Ada": (10, "Rome", 1), "Bob": (None, "Oslo", 1)}
    path = tmp_path / "Person.csv"
    path.write_text("name,city\nAda,Bern\n")
    graph.load(path, "merge")
    assert people(graph)["Ada"] == (10, "Bern", 1)


def test_a_new_row_needs_what_is_required(graph: Graph) -> None:
    graph.load([person("Ada", city="Rome")])
    rows = [person("Ada", age=4), person("New", age=5), person("Whole", city="Oslo")]
    with pytest.raises(IntegrityError) as caught:
        graph.load(rows, "merge")
    assert (caught.value.rule, caught.value.property, caught.value.line) == ("required", "city", 2)
    assert people(graph) == {"Ada": (None, "Rome", 1)}
    done = graph.load(rows, "merge", skip_rejects=True)
    assert (done.inserted, done.updated, done.types["Person"].rejected) == ({"Person": 1}, {"Person": 1}, 1)
    assert people(graph) == {"Ada": (4, "Rome", 1), "Whole": (None, "Oslo", 1)}


def test_a_key_is_always_given(graph: Graph) -> None:
    with pytest.raises(IntegrityError) as caught:
        graph.load([{"type": "Person", "data": {"city": "Rome"}}], "merge")
    assert (caught.value.rule, caught.value.property) == ("required", "name")


def test_blobs_are_kept(graph: Graph) -> None:
    photo = bytes(range(256)) * 500
    graph.load([{"name": "Ada", "city": "Rome", "photo": photo}], type="Person")
    graph.load([person("Ada", age=5)], "merge")
    found = graph.blob("Person", "Ada", "photo")
    assert found is not None
    assert found.read() == photo


def test_a_vector_goes_with_its_text(graph: Graph) -> None:
    def vector() -> list[float]:
        [row] = graph.lake["node:Person"].scan(columns=["vec"]).to_pylist()
        return list(row["vec"])

    graph.load([person("Ada", city="Rome", text="red fox")])
    before = vector()
    graph.load([person("Ada", age=5)], "merge")
    assert vector() == before
    graph.load([person("Ada", text="blue whale")], "merge")
    assert vector() == pytest.approx(HashEmbedder(4).embed(["blue whale"])[0])


def test_an_edge_keeps_what_is_not_given_by_what_is_unique(graph: Graph) -> None:
    edge = {"edge": "Knows", "from": "Ada", "to": "Bob"}
    graph.load([person("Ada", city="a"), person("Bob", city="b"), {**edge, "data": {"since": 1, "why": "x"}}])
    done = graph.load([{**edge, "data": {"since": 2}}, {**edge, "from": "Bob"}], "merge")
    rows = graph.lake["edge:Knows"].to_pylist()
    assert sorted((r["src"], r["since"], r["why"]) for r in rows) == [("Ada", 2, "x"), ("Bob", None, None)]
    assert (done.inserted, done.updated) == ({"Knows": 1}, {"Knows": 1})


def test_a_node_without_a_key_keeps_by_its_id(graph: Graph) -> None:
    graph.load([{"type": "Note", "id": "n", "data": {"text": "t", "stars": 3}}])
    graph.load([{"type": "Note", "id": "n", "data": {"stars": 4}}], "merge")
    assert graph.lake["node:Note"].to_pylist() == [{"id": "n", "text": "t", "stars": 4}]


def test_a_change_of_another_property_is_not_lost_between(graph: Graph) -> None:
    """Somebody moves Ada while a merge that says nothing about her city is on its way."""
    graph.load([person("Ada", age=1, city="Rome")])
    with graph.lake.transaction() as tx:
        load(tx, [person("Ada", age=9), person("Bob", city="Oslo")], "merge")
        graph.load([person("Ada", city="Bern")], "merge")
    assert people(graph) == {"Ada": (9, "Bern", 1), "Bob": (None, "Oslo", 1)}


def test_a_receipt_counts_what_came_to_be(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bob is inserted by somebody else before the merge lands, so that it updates him."""
    from quire.graph import load as loading

    run, others = loading.load, [person("Bob", age=2, city="Oslo")]

    def overtaken(*given: Any, **named: Any) -> Any:
        done = run(*given, **named)
        if others:
            graph.load([others.pop()], "merge")
        return done

    monkeypatch.setattr(loading, "load", overtaken)
    done = graph.load([person("Eve", city="Kyiv"), person("Bob", city="Bonn")], "merge")
    assert (done.inserted, done.updated) == ({"Person": 1}, {"Person": 1})
    assert people(graph) == {"Bob": (2, "Bonn", 1), "Eve": (None, "Kyiv", 1)}


def test_many_rows_of_many_shapes_are_merged_in_parts(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge, "AT_ONCE", 40)
    graph.load([person(str(i), age=i, city=f"c{i}", level=i) for i in range(150)])
    changes: list[dict[str, Any]] = [
        {"age": -1},
        {"city": "new"},
        {"level": 0, "age": 0},
        {"age": 8, "city": "x", "level": 9},
    ]
    graph.load([person(str(i), **changes[i % 4]) for i in range(200) if i < 150 or "city" in changes[i % 4]], "merge")
    found = people(graph)
    for i in range(150):
        was = {"age": i, "city": f"c{i}", "level": i} | changes[i % 4]
        assert found[str(i)] == (was["age"], was["city"], was["level"])
    assert len(found) == 150 + sum("city" in changes[i % 4] for i in range(150, 200))
