"""The same suite for the graph of a lake: opened here, and behind a server."""

from __future__ import annotations

import datetime as dt
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.client.test_conformance import lake

import quire
from quire.errors import IntegrityError, InvalidInput, InvalidQuery, NotFound, SchemaRefused

__all__ = ["lake"]

SCHEMA = """
node Person { name: String @key  age: I32?  photo: Blob? }
node City { name: String @key }
edge Knows: Person -> Person { since: Date? }
edge LivesIn: Person -> City
"""
ROWS = [
    {"type": "Person", "data": {"name": "Ada", "age": 36, "photo": "base64:AAEC"}},
    {"type": "Person", "data": {"name": "Bo", "age": 20}},
    {"type": "Person", "data": {"name": "Cy"}},
    {"type": "City", "data": {"name": "Rome"}},
    {"edge": "Knows", "from": "Ada", "to": "Bo", "data": {"since": "2020-01-01"}},
    {"edge": "LivesIn", "from": "Ada", "to": "Rome"},
]
FRIENDS = """query friends($name: String) {
  match { $p: Person { name: $name }  $p knows $f }
  return { $f.name as name }
}
"""
ADD = "query add($name: String, $age: I32?) { insert Person { name: $name, age: $age } }\n"
ALL = "query q() { match { $p: Person } return { $p.name as name, $p.age as age } order { $p.name } }"


@pytest.fixture
def graph(lake: Any) -> Any:
    found = quire.Graph(lake)
    found.apply_schema(SCHEMA)
    found.load(ROWS)
    return found


def test_a_schema_is_planned_and_applied(lake: Any) -> None:
    graph = quire.Graph(lake)
    assert graph.schema() == ""
    plan = graph.plan_schema(SCHEMA)
    assert plan
    assert {s.action for s in plan.steps} >= {"add-type"} or plan.steps
    assert plan.refusals == ()
    applied = graph.apply_schema(SCHEMA, message="types")
    assert applied.receipt.commit == "1.0"
    assert [s.to_dict() for s in applied.steps] == [s.to_dict() for s in plan.steps]
    assert [e.name for e in graph.catalog().nodes] == ["City", "Person"]
    assert "edge Knows" in graph.schema()
    assert graph.picture().startswith("<svg")
    assert not graph.apply_schema(SCHEMA)
    with pytest.raises(SchemaRefused):
        graph.apply_schema("node Person { name: String @key  age: String? }")


def test_rows_are_loaded_and_what_is_wrong_is_told(graph: Any) -> None:
    more = io.BytesIO(b'{"type": "Person", "data": {"name": "Di", "age": 7}}\n')
    done = graph.load(more, "merge", format="jsonl", message="more")
    assert (done.receipt.commit, done.rows, done.types["Person"].inserted) == ("3.0", 1, 1)
    with pytest.raises(IntegrityError) as caught:
        graph.load([{"edge": "Knows", "from": "Ada", "to": "Nobody"}])
    assert caught.value.violations[0]["rule"]
    assert graph.load([{"type": "Person", "data": {"name": "Ed"}}], dry_run=True).dry_run
    some = [{"type": "Person", "data": {"name": "Ed"}}, {"type": "Person", "data": {"age": 1}}]
    left = graph.load(some, skip_rejects=True)
    assert (left.rejected, left.rows) == (1, 1)
    token = quire.token()
    first = graph.load([{"type": "City", "data": {"name": "Oslo"}}], options={"token": token})
    again = graph.load([{"type": "City", "data": {"name": "Oslo"}}], options={"token": token})
    assert (again.repeated, again.receipt.commit) == (True, first.receipt.commit)


def test_files_and_frames_are_loaded(graph: Any, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("name;age\nFay;5\nGus;\n")
    assert graph.load(tmp_path / "people.csv", type="Person", csv={"delimiter": ";"}).rows == 2
    for number in (1, 2):
        (tmp_path / f"c{number}.jsonl").write_text(json.dumps({"type": "City", "data": {"name": f"C{number}"}}))
    assert graph.load(str(tmp_path / "c*.jsonl")).rows == 2
    assert graph.load(pa.table({"name": ["Hal"], "age": pa.array([9], pa.int32())}), type="Person").rows == 1
    with pytest.raises(NotFound):
        graph.load(tmp_path / "nowhere.jsonl")


def test_queries_and_mutations(graph: Any) -> None:
    assert graph.query(ALL).to_pylist() == [
        {"name": "Ada", "age": 36}, {"name": "Bo", "age": 20}, {"name": "Cy", "age": None},
    ]  # fmt: skip
    done = graph.mutate(ADD, name="Di", age=3)
    assert (done.inserted, done.updated, done.receipt.commit) == ({"Person": 1}, {}, "3.0")
    before = graph.lake.at(commit="2.0")
    assert len(graph.query(ALL, at=before).to_pylist()) == 3
    assert len(graph.query(ALL).to_pylist()) == 4
    with pytest.raises(InvalidQuery):
        graph.query(ADD, name="x")
    with pytest.raises(InvalidQuery, match="Persn") as caught:
        graph.query("query q() { match { $p: Persn } return { $p.name } }")
    assert (caught.value.fields["line"], caught.value.fields["column"]) == (1, 21)
    with pytest.raises(InvalidQuery):
        graph.query(FRIENDS, name=3)
    assert [f.code for f in graph.lint(FRIENDS)] == []
    assert graph.lint("query q() { match { $p: Persn } return { $p.name } }")[0].severity == "error"
    assert graph.check(FRIENDS).name == "friends"
    explained = graph.explain(FRIENDS, name="Ada", analyze=True)
    assert (explained.rows, explained.name) == (1, "friends")
    assert graph.find("Person", name="Ada").out("knows").to_pylist()[0]["name"] == "Bo"


def test_queries_are_stored_by_name(graph: Any) -> None:
    assert graph.store(FRIENDS + ADD) == ["friends", "add"]
    assert set(graph.stored()) == {"friends", "add"}
    assert graph.query("friends", name="Ada").to_pylist() == [{"name": "Bo"}]
    assert graph.mutate("add", name="Di").inserted == {"Person": 1}
    graph.unstore("add")
    assert set(graph.stored()) == {"friends"}
    with pytest.raises(NotFound):
        graph.unstore("add")
    with pytest.raises(NotFound):
        graph.query("frends", name="Ada")


def test_nodes_and_what_is_around_them(graph: Any) -> None:
    assert graph.node("Person", "Ada")["age"] == 36
    assert graph.node("Person", "Nobody") is None
    around = graph.neighbours("Person", "Ada")
    assert [(n.edge, n.direction, n.type, n.node["name"]) for n in around] == [
        ("Knows", "out", "Person", "Bo"), ("LivesIn", "out", "City", "Rome"),
    ]  # fmt: skip
    assert around[0].properties["since"] == dt.date(2020, 1, 1)
    graph.mutate('query m() { update Person set { age: 37 } where name = "Ada" }')
    assert [(v.change, v.row["age"]) for v in graph.history("Person", "Ada")] == [("update", 37), ("insert", 36)]
    assert graph.table("City").count() == 1
    assert set(graph.frames("arrow")) == {"Person", "City", "Knows", "LivesIn"}
    assert graph.to_networkx().number_of_edges() == 2
    past = graph.lake.at(commit="1.0")
    assert (graph.node("Person", "Ada", at=past), graph.table("City", past).count()) == (None, 0)
    assert graph.stored(past) == {}
    assert graph.frames("arrow", ["City"], past)["City"].num_rows == graph.to_networkx(at=past).number_of_nodes() == 0
    assert graph.find("Person", at=past).to_pylist() == graph.lint(FRIENDS, past) == []


def test_blobs_are_read_by_range(graph: Any) -> None:
    blob = graph.blob("Person", "Ada", "photo")
    assert (len(blob), blob.readall(), blob.read_range(1, 1)) == (3, b"\x00\x01\x02", b"\x01")
    blob.seek(-2, 2)
    assert blob.read(5) == b"\x01\x02"
    assert graph.blob("Person", "Bo", "photo") is None
    with pytest.raises(NotFound):
        graph.blob("Person", "Nobody", "photo")
    with pytest.raises(InvalidInput):
        graph.blob("Person", "Ada", "age")


def test_a_graph_goes_out_and_in_again(graph: Any, tmp_path: Path) -> None:
    assert graph.export(tmp_path / "all.jsonl.gz") == {"City": 1, "Person": 3, "Knows": 1, "LivesIn": 1}
    done = graph.load(tmp_path / "all.jsonl.gz", "merge")
    assert done.rows == 6
    assert graph.blob("Person", "Ada", "photo").readall() == b"\x00\x01\x02"
