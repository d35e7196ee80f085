"""Several sources at once: files that patterns share, columns that only some have, modes and names that meet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import quire
from quire import pipeline
from quire.errors import IntegrityError, InvalidInput, NotFound
from quire.rowfiles import files

SCHEMA = "node P { name: String @key  v: I64? }\nedge K: P -> P { @unique(src, dst) }"


@pytest.fixture(params=["local", pytest.param("spark", marks=pytest.mark.full)])
def engine(request: pytest.FixtureRequest) -> Any:
    return "local" if request.param == "local" else request.getfixturevalue("spark")


@pytest.fixture
def graph(lake: quire.Lake) -> quire.Graph:
    graph = quire.Graph(lake)
    graph.apply_schema(SCHEMA)
    return graph


def written(path: Path, *lines: str) -> str:
    path.write_text("".join(line + "\n" for line in lines), "utf-8")
    return str(path)


def test_a_file_that_two_patterns_match_is_loaded_once(graph: quire.Graph, tmp_path: Path) -> None:
    path = written(tmp_path / "p.csv", "name,v", "a,1", "b,2")
    graph.lake.create_table("t", schema=pa.schema([("name", pa.string()), ("v", pa.int64())]))
    both = [path, str(tmp_path / "p.cs?")]
    pipeline.run(graph.lake, {"sources": [{"files": both, "table": "t"}]})
    assert graph.lake["t"].count() == 2
    assert graph.load(both, type="P").rows == 2


def test_a_column_that_only_some_pieces_have_is_null_in_the_others(
    graph: quire.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Any
) -> None:
    monkeypatch.setattr(files, "SHARE", 100)
    graph.lake.create_table("t", schema=pa.schema([("name", pa.string()), ("v", pa.int64())]))
    many = [f'{{"n": "x{n}"}}' for n in range(20)]
    first = written(tmp_path / "1.jsonl", '{"n": "a", "opt": 1}', *many)
    second = written(tmp_path / "2.jsonl", '{"n": "b"}')
    columns = {"name": "n", "v": "opt"}
    for target in ({"table": "t"}, {"node": "P"}):
        plan = {"sources": [{"files": [second, first], "columns": columns, **target}]}
        assert pipeline.run(graph.lake, plan, engine=engine).rows == 22
        wrong = {"sources": [{"files": [second, first], "columns": {**columns, "v": "optt"}, **target}]}
        with pytest.raises(InvalidInput, match="no column 'optt'"):
            pipeline.run(graph.lake, wrong, engine=engine, mode="overwrite")
    for name in ("t", "node:P"):
        found = {row["name"]: row["v"] for row in graph.lake[name].to_pylist()}
        assert (len(found), found["a"], found["b"]) == (22, 1, None)


def test_a_share_is_one_of_all_rows_also_those_of_the_graph(graph: quire.Graph, tmp_path: Path, engine: Any) -> None:
    graph.lake.create_table("t", schema=pa.schema([("id", pa.int64())]), key="id")
    table = written(tmp_path / "t.jsonl", *(f'{{"id": {n}}}' for n in range(9)), '{"id": "x"}', '{"id": 3}')
    nodes = written(tmp_path / "p.jsonl", *(f'{{"name": "n{n}"}}' for n in range(200)))
    sources = [{"files": table, "table": "t"}, {"files": nodes, "node": "P"}]
    done = pipeline.run(graph.lake, {"sources": sources}, engine=engine, skip_rejects="1%")
    assert (done.rejected, graph.lake["t"].count(), graph.lake["node:P"].count()) == (2, 9, 200)
    with pytest.raises(IntegrityError):
        pipeline.run(graph.lake, {"sources": sources}, engine=engine, mode="overwrite", skip_rejects="0.5%")


def test_insert_is_no_mode_of_a_graph(graph: quire.Graph, tmp_path: Path) -> None:
    nodes = written(tmp_path / "p.jsonl", '{"name": "a"}')
    with pytest.raises(InvalidInput, match="ode insert works for tables only"):
        pipeline.run(graph.lake, {"mode": "insert", "sources": [{"files": nodes, "node": "P"}]})


def test_nodes_are_there_before_edges_whatever_their_modes(graph: quire.Graph, tmp_path: Path, engine: Any) -> None:
    nodes = written(tmp_path / "p.jsonl", '{"name": "a"}', '{"name": "b"}')
    edges = written(tmp_path / "k.jsonl", '{"from": "a", "to": "b"}')
    sources = [{"files": edges, "edge": "K", "mode": "append"}, {"files": nodes, "node": "P", "mode": "merge"}]
    done = pipeline.run(graph.lake, {"sources": sources}, engine=engine)
    assert {name: fed.inserted for name, fed in done.tables.items()} == {"P": 2, "K": 1}


def test_a_table_and_a_type_of_one_name_are_told_apart(graph: quire.Graph, tmp_path: Path) -> None:
    graph.lake.create_table("P", schema=pa.schema([("name", pa.string())]))
    nodes = written(tmp_path / "p.jsonl", '{"name": "a"}', '{"name": "b"}')
    one = written(tmp_path / "t.jsonl", '{"name": "c"}')
    done = pipeline.run(graph.lake, {"sources": [{"files": one, "table": "P"}, {"files": nodes, "node": "P"}]})
    assert {name: fed.inserted for name, fed in done.tables.items()} == {"P": 1, "node:P": 2}


def test_a_run_that_was_done_needs_its_files_no_more(graph: quire.Graph, tmp_path: Path) -> None:
    path = written(tmp_path / "p.jsonl", '{"name": "a"}')
    plan = {"sources": [{"files": path, "node": "P"}]}
    token = quire.StreamToken("nightly", 1)
    pipeline.run(graph.lake, plan, token=token)
    Path(path).unlink()
    done = pipeline.run(graph.lake, plan, token=token)
    assert done.receipt is not None
    assert done.receipt.repeated
    with pytest.raises(NotFound):
        pipeline.run(graph.lake, plan, token=quire.StreamToken("nightly", 2))


@pytest.mark.parametrize("skip", [False, True])
def test_a_frame_is_mapped_into_a_type_as_into_a_table(graph: quire.Graph, engine: Any, skip: bool) -> None:
    rows = [{"n": "a", "v": "1"}, {"n": "b", "v": "x"}, {"n": "c", "v": "3"}]
    frame = pa.Table.from_pylist(rows) if engine == "local" else engine.createDataFrame(rows, "n string, v string")
    feed = {"frame": "f", "node": "P", "columns": {"name": "n", "v": {"column": "v", "cast": "bigint"}}}
    if not skip:
        with pytest.raises(IntegrityError, match="frame f") as caught:
            pipeline.run(graph.lake, {"sources": [feed]}, frames={"f": frame}, engine=engine)
        assert [v["rule"] for v in caught.value.fields["violations"]] == ["sql"]
        return
    done = pipeline.run(graph.lake, {"sources": [feed]}, frames={"f": frame}, engine=engine, skip_rejects=True)
    assert done.rejected == 1
    assert {row["name"]: row["v"] for row in graph.lake["node:P"].to_pylist()} == {"a": 1, "c": 3}


@pytest.mark.parametrize("columns", [{"name": "nn"}, {"name": {"sql": "nn"}}, {"name": "n", "nope": "n"}])
def test_a_frame_that_a_mapping_does_not_fit_is_refused(graph: quire.Graph, engine: Any, columns: Any) -> None:
    rows = [{"n": "a"}]
    frame = pa.Table.from_pylist(rows) if engine == "local" else engine.createDataFrame(rows, "n string")
    plan = {"sources": [{"frame": "f", "node": "P", "columns": columns}]}
    with pytest.raises(InvalidInput, match="nn|nope"):
        pipeline.run(graph.lake, plan, frames={"f": frame}, engine=engine)


def test_very_wide_decimals_are_keys_too(lake: quire.Lake, tmp_path: Path) -> None:
    lake.create_table("t", schema=pa.schema([("id", pa.decimal256(60, 2))]), key="id")
    path = written(tmp_path / "t.jsonl", *(f'{{"id": {n}}}' for n in ("1" * 50, "2.25", "2.25")))
    done = pipeline.run(lake, {"sources": [{"files": path, "table": "t"}]}, skip_rejects=True)
    assert [(v.line, v.rule) for v in done.violations] == [(3, "key")]
    with pytest.raises(IntegrityError, match=r"2\.25.* already"):
        pipeline.run(lake, {"sources": [{"files": path, "table": "t"}]}, skip_rejects=1)
