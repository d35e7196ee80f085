"""One small story of each part of the house, told on every table format: what is above the formats needs none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import quire
from quire import pipeline
from quire.errors import IntegrityError, KeyConflict, SchemaMismatch, Unsupported
from quire.formats import Handed, tasks
from quire.lake import engines
from quire.lake.key_files import KeyFiles
from quire.testing import memory

SCHEMA = """
node Person { name: String @key  age: I32?  bio: String?  face: Vector(2)? }
node City { name: String @key }
edge LivesIn: Person -> City @card(0..1)
"""
PEOPLE = [
    {"type": "Person", "data": {"name": "Ada", "age": 36, "bio": "writes notes on engines", "face": [0.0, 1.0]}},
    {"type": "Person", "data": {"name": "Bo", "age": 20, "bio": "likes boats", "face": [1.0, 0.0]}},
    {"type": "City", "data": {"name": "Ulm"}},
    {"edge": "LivesIn", "from": "Ada", "to": "Ulm"},
]


@pytest.fixture(params=["lance", "memory", "delta"])
def kind(request: pytest.FixtureRequest) -> str:
    memory.install()
    return str(request.param)


@pytest.fixture
def lake(tmp_path: Path) -> quire.Lake:
    return quire.create(tmp_path / "lake")


@pytest.fixture
def graph(lake: quire.Lake, kind: str, tmp_path: Path) -> quire.Graph:
    graph = quire.Graph(lake)
    graph.apply_schema(SCHEMA, table_format=kind)
    source = tmp_path / "people.jsonl"
    source.write_text("".join(json.dumps(one) + "\n" for one in PEOPLE), "utf-8")
    receipt = graph.load(source)
    assert receipt.rows == 4
    return graph


def formats(lake: quire.Lake) -> set[str]:
    return {state.pin.format for state in lake.snapshot()._state.tables.values()}


def asked(graph: quire.Graph, text: str, **params: Any) -> list[dict[str, Any]]:
    found = graph.query(text, **params).to_pylist()
    return [{name.removeprefix("p."): value for name, value in row.items()} for row in found]


# -- the graph ---------------------------------------------------------------------------------------------------------


def test_a_graph_is_of_the_format_that_it_began_with(graph: quire.Graph, kind: str) -> None:
    graph.apply_schema(SCHEMA + "node Pet { name: String @key }")
    assert formats(graph.lake) == {kind}


def test_a_graph_is_queried(graph: quire.Graph) -> None:
    found = asked(
        graph,
        "query q($least: I32) { match { $p: Person  $p livesIn $c  $p.age > $least } "
        "return { $p.name, $c.name as city } }",
        least=30,
    )
    assert found == [{"name": "Ada", "city": "Ulm"}]


def test_rules_of_a_graph_hold(graph: quire.Graph) -> None:
    with pytest.raises(IntegrityError):
        graph.load([{"edge": "LivesIn", "from": "Ada", "to": "Ulm"}])
    with pytest.raises(IntegrityError):
        graph.load([{"edge": "LivesIn", "from": "Bo", "to": "Nowhere"}])


def test_a_graph_is_merged_and_mutated(graph: quire.Graph) -> None:
    graph.load([{"type": "Person", "data": {"name": "Ada", "age": 37}}], "merge")
    graph.mutate('query m() { update Person set { age: 21 } where name = "Bo" }')
    found = asked(graph, "query q() { match { $p: Person } return { $p.name, $p.age, $p.bio } order { $p.name } }")
    assert [(row["name"], row["age"]) for row in found] == [("Ada", 37), ("Bo", 21)]
    assert found[0]["bio"] == "writes notes on engines"


def test_a_schema_is_changed_under_data(graph: quire.Graph) -> None:
    graph.apply_schema(SCHEMA.replace("age: I32?", 'years: I64? @rename_from("age")  kind: String?'))
    found = asked(graph, "query q() { match { $p: Person } return { $p.years, $p.kind } order { $p.years } }")
    assert found == [{"years": 20, "kind": None}, {"years": 36, "kind": None}]


def test_a_graph_is_searched(graph: quire.Graph) -> None:
    text = 'query q() { match { $p: Person  search($p.bio, "boats") } return { $p.name } }'
    assert asked(graph, text) == [{"name": "Bo"}]
    match = "match { $p: Person } return { $p.name } order { nearest($p.face, $like) } limit 1"
    near = f"query q($like: Vector(2)) {{ {match} }}"
    assert asked(graph, near, like=[0.1, 0.9]) == [{"name": "Ada"}]
    assert str(graph.explain(near, like=[0.1, 0.9]))


def test_what_a_format_cannot_hold_or_find_is_a_typed_refusal(lake: quire.Lake) -> None:
    memory.install()
    with pytest.raises(SchemaMismatch, match="memory tables cannot hold"):
        quire.Graph(lake).apply_schema("node Day { on: Date @key }", table_format="memory")
    with lake.transaction() as tx:
        tx.create_table("t", [{"id": 1, "text": "a"}], format="memory")
    with pytest.raises(Unsupported, match="no vector or text search"):
        lake["t"].search(text="a").to_arrow()


# -- the pipeline ------------------------------------------------------------------------------------------------------

MAPPING = """
sources:
  - files: people.csv
    table: people
    columns: {id: pid, name: {sql: "upper(first)"}}
  - files: cities.jsonl
    node: City
    mode: merge
"""


def test_a_pipeline_fills_tables_and_types(graph: quire.Graph, kind: str, tmp_path: Path) -> None:
    lake = graph.lake
    with lake.transaction() as tx:
        tx.create_table("people", [{"id": 1, "name": "OLD"}], key="id", format=kind)
    (tmp_path / "people.csv").write_text("pid,first\n2,bo\n3,cy\n2,again\n", "utf-8")
    (tmp_path / "cities.jsonl").write_text('{"name": "Ulm"}\n{"name": "Bonn"}\n', "utf-8")
    mapping = tmp_path / "mapping.yaml"
    mapping.write_text(MAPPING, "utf-8")
    with pytest.raises(IntegrityError, match="more than once"):
        pipeline.run(lake, mapping)
    loaded = pipeline.run(lake, mapping, skip_rejects=True)
    assert loaded.rejected == 1
    assert sorted(row["name"] for row in lake["people"].to_pylist()) == ["BO", "CY", "OLD"]
    assert lake["node:City"].count() == 2


# -- tasks -------------------------------------------------------------------------------------------------------------


def test_tasks_write_files_and_look_their_keys_up(lake: quire.Lake, kind: str) -> None:
    with lake.transaction() as tx:
        tx.create_table("t", pa.table({"id": [1, 2], "v": [10, 20]}), key="id", format=kind)
    with lake.transaction() as tx:
        output = tasks.Output(tx["t"].target(), "t", ("id",))

        def work(number: int) -> engines.Answer:
            ids = [2 + number, 12 + number]
            rows = pa.table({"id": ids, "v": [7, 7]})
            return {"written": tasks.write_rows(output, rows.to_batches())[0]}, b""

        written = [one for head, _ in engines.tasks_on(None)(3, work) for one in head["written"]]
        paths = tuple(tasks.paths_of(output.place, written))
        keys = KeyFiles(None, output.place, paths, ("id",), 6, "t", True)
        keys.check_distinct()
        assert tx["t"].hand_in(Handed("upsert", tuple(written), ("id",), keys.seek)) == 1
    found = sorted((r["id"], r["v"]) for r in lake["t"].to_pylist())
    assert found == [(1, 10), *((i, 7) for i in (2, 3, 4, 12, 13, 14))]
    with pytest.raises(KeyConflict), lake.transaction() as tx:
        tx["t"].hand_in(Handed("insert", tuple(written), ("id",), keys.seek))


def test_tables_are_exported_in_parts(lake: quire.Lake, kind: str, tmp_path: Path) -> None:
    with lake.transaction() as tx:
        tx.create_table("t", pa.table({"id": [1, 2]}), format=kind)
    with lake.transaction() as tx:
        tx["t"].append([{"id": 3}])
    lake.snapshot().export(tmp_path / "out")
    files = sorted((tmp_path / "out").rglob("*.parquet"))
    assert sorted(i for file in files for i in pq.read_table(file).column("id").to_pylist()) == [1, 2, 3]
