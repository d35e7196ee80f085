"""Sources of a pipeline that feed types of the graph, beside tables, in one commit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import quire
from quire import pipeline
from quire.errors import IntegrityError, InvalidInput, NotFound

SCHEMA = """
node Person { name: String @key  born: Date?  age: I32? @range(age, 0..150) }
node City { name: String @key }
edge LivesIn: Person -> City @card(0..1) { since: I32? }
"""

MAPPING = """
message: people and cities
mode: merge
sources:
  - files: people.csv
    node: Person
    columns:
      name: {sql: "concat_ws(' ', first, last)"}
      born: born
      age: years
  - files: people.csv
    node: City
    columns: {name: city}
    where: "city is not null"
  - files: people.csv
    edge: LivesIn
    where: "city is not null"
    columns:
      id: {sql: "'lives:' || first"}
      from: {sql: "concat_ws(' ', first, last)"}
      to: city
      since: {value: 2020}
  - files: log.jsonl
    table: log
    mode: append
"""


@pytest.fixture(params=["local", pytest.param("spark", marks=pytest.mark.full)])
def engine(request: pytest.FixtureRequest) -> Any:
    return "local" if request.param == "local" else request.getfixturevalue("spark")


@pytest.fixture
def graph(lake: quire.Lake) -> quire.Graph:
    graph = quire.Graph(lake)
    graph.apply_schema(SCHEMA)
    lake.create_table("log", schema=pa.schema([("n", pa.int64()), ("at", pa.timestamp("us", "UTC"))]))
    return graph


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "raw"
    folder.mkdir()
    (folder / "people.csv").write_text(
        "first,last,born,years,city\nAda,Lovelace,1815-12-10,36,London\nBo,,,7,\nCy,Young,2000-01-01,26,Ulm\n", "utf-8"
    )
    (folder / "log.jsonl").write_text('{"n": 1, "at": "2026-01-01T00:00:00Z"}\n{"n": 2}\n', "utf-8")
    (folder / "pipeline.yaml").write_text(MAPPING, "utf-8")
    return folder


def lives(graph: quire.Graph) -> list[tuple[str, str, int]]:
    rows = graph.table("LivesIn").to_pylist()
    return sorted(
        (row["src"], row["dst"], row[graph.catalog().edge("LivesIn").properties["since"].column]) for row in rows
    )


def test_types_and_tables_move_in_one_commit(graph: quire.Graph, files: Path, engine: Any) -> None:
    before = len(list(graph.lake.log()))
    done = pipeline.run(graph.lake, files / "pipeline.yaml", engine=engine)
    assert len(list(graph.lake.log())) == before + 1
    assert {name: (fed.inserted, fed.updated) for name, fed in done.tables.items()} == {
        "log": (2, 0),
        "Person": (3, 0),
        "City": (2, 0),
        "LivesIn": (2, 0),
    }
    assert graph.node("Person", "Ada Lovelace") is not None
    assert lives(graph) == [("Ada Lovelace", "London", 2020), ("Cy Young", "Ulm", 2020)]
    assert done.receipt is not None
    assert sorted(done.receipt.tables) == ["edge:LivesIn", "log", "node:City", "node:Person"]
    again = pipeline.run(graph.lake, files / "pipeline.yaml", engine=engine)
    assert (again.tables["Person"].updated, again.tables["LivesIn"].updated) == (3, 2)
    assert graph.lake["log"].count() == 4


def test_what_breaks_a_rule_of_the_graph_refuses_tables_too(graph: quire.Graph, files: Path, engine: Any) -> None:
    text = (files / "people.csv").read_text("utf-8").replace(",26,", ",260,")
    (files / "people.csv").write_text(text, "utf-8")
    before = graph.lake.head
    with pytest.raises(IntegrityError) as caught:
        pipeline.run(graph.lake, files / "pipeline.yaml", engine=engine)
    [told] = caught.value.fields["violations"]
    assert (told["type"], told["rule"], told["line"]) == ("Person", "range", 4)
    assert told["file"].endswith("people.csv")
    assert quire.open(graph.lake.uri).head == before


def test_rejects_of_the_graph_are_counted_and_written(graph: quire.Graph, files: Path, engine: Any) -> None:
    text = (files / "people.csv").read_text("utf-8").replace(",7,", ",x,")
    (files / "people.csv").write_text(text, "utf-8")
    mapping = files / "pipeline.yaml"
    done = pipeline.run(graph.lake, mapping, engine=engine, rejects=str(files / "out"), skip_rejects=1)
    assert (done.rejected, done.tables["Person"].rejected, done.tables["Person"].inserted) == (1, 1, 2)
    [told] = [json.loads(line) for path in (files / "out").iterdir() for line in path.read_text().splitlines()]
    assert (told["line"], told["type"], told["rule"], told["property"]) == (3, "Person", "type", "age")
    assert graph.node("Person", "Bo") is None


def test_frames_feed_types(graph: quire.Graph, engine: Any) -> None:
    rows = [{"who": "Dora", "years": 40}]
    frame = pa.Table.from_pylist(rows) if engine == "local" else engine.createDataFrame(rows, "who string, years int")
    feed = {"frame": "people", "node": "Person", "columns": {"name": {"sql": "upper(who)"}, "age": "years"}}
    done = pipeline.run(graph.lake, {"sources": [feed]}, engine=engine, frames={"people": frame})
    assert done.tables["Person"].inserted == 1
    found = graph.node("Person", "DORA")
    assert found is not None
    assert found["age"] == 40


def test_a_type_that_is_not_there_is_named(graph: quire.Graph, files: Path) -> None:
    feed = {"files": "people.csv", "node": "Persn"}
    with pytest.raises(NotFound, match="Persn"):
        pipeline.run(graph.lake, {"base": str(files), "sources": [feed]})
    with pytest.raises(InvalidInput, match="known by their ids"):
        pipeline.run(graph.lake, {"base": str(files), "sources": [{**feed, "node": "Person", "on": "name"}]})


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_rows_for_the_table_of_a_type_keep_its_rules_beside_rows_for_the_type(
    graph: quire.Graph, tmp_path: Path, engine: Any, mode: str
) -> None:
    (tmp_path / "raw.csv").write_text("id,name,born,age\nbad,bad,,999\n")
    (tmp_path / "good.csv").write_text("name,age\ngood,7\n")
    feeds = [
        {"files": "raw.csv", "table": "node:Person"},
        {"files": "good.csv", "node": "Person"},
    ]
    before = graph.lake.refresh()
    with pytest.raises(IntegrityError) as caught:
        pipeline.run(graph.lake, {"base": str(tmp_path), "mode": mode, "sources": feeds}, engine=engine)
    assert [(v["rule"], v["id"]) for v in caught.value.fields["violations"]] == [("range", "bad")]
    assert graph.lake.refresh() == before

    (tmp_path / "raw.csv").write_text("id,name,born,age\nfine,fine,,99\n")
    pipeline.run(graph.lake, {"base": str(tmp_path), "mode": mode, "sources": feeds}, engine=engine)
    assert sorted(row["name"] for row in graph.table("Person").to_pylist()) == ["fine", "good"]


def test_a_dry_run_tells_what_is_wrong_with_tables_and_with_the_graph(graph: quire.Graph, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("n,at\nmany,2020-01-01\n")
    (tmp_path / "people.csv").write_text("name,age\nbad,999\n")
    feeds = [{"files": "log.csv", "table": "log"}, {"files": "people.csv", "node": "Person"}]
    mapping = {"base": str(tmp_path), "sources": feeds}
    with pytest.raises(IntegrityError) as caught:
        pipeline.run(graph.lake, mapping, dry_run=True)
    found = [(Path(v["file"]).name, v["line"], v["rule"]) for v in caught.value.fields["violations"]]
    assert found == [("log.csv", 2, "type"), ("people.csv", 2, "range")]
    assert caught.value.fields["count"] == 2
    with pytest.raises(IntegrityError) as caught:
        pipeline.run(graph.lake, mapping)
    assert caught.value.fields["count"] == 1


def test_a_merge_leaves_out_rows_that_break_a_rule_together(graph: quire.Graph, engine: Any, tmp_path: Path) -> None:
    graph.load([{"type": "City", "data": {"name": "Ulm"}}])
    (tmp_path / "people.csv").write_text("name,age\nAda,36\nold,999\n")
    (tmp_path / "lives.csv").write_text("id,from,to\na,Ada,Ulm\nb,Ada,Atlantis\n")
    feeds = [{"files": "people.csv", "node": "Person"}, {"files": "lives.csv", "edge": "LivesIn"}]
    mapping = {"base": str(tmp_path), "mode": "merge", "skip_rejects": True, "sources": feeds}
    done = pipeline.run(graph.lake, mapping, engine=engine)
    found = sorted((Path(str(v.file)).name, v.line, v.rule) for v in done.violations)
    assert found == [("lives.csv", 3, "end"), ("people.csv", 3, "range")]
    assert {name: (fed.inserted, fed.rejected) for name, fed in done.tables.items()} == {
        "Person": (1, 1),
        "LivesIn": (1, 1),
    }
    with pytest.raises(IntegrityError, match="Atlantis"):
        pipeline.run(graph.lake, {**mapping, "skip_rejects": 1}, engine=engine)
