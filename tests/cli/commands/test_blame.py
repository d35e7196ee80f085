"""`quire blame`: which commit gave a row its values."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.cli.conftest import Run

import quire


@pytest.fixture
def told(here: Path) -> str:
    lake = quire.create("told", author="ada")
    schema = pa.schema({"id": pa.int64(), "v": pa.string(), "w": pa.string()})
    lake.create_table("t", pa.Table.from_pylist([{"id": 1, "v": "a"}], schema=schema), key="id")
    with lake.transaction("better", author="ben") as tx:
        tx["t"].upsert([{"id": 1, "v": "b", "w": None}])
    lake.create_table("plain", [{"n": 1}])
    return "told"


def test_each_column_names_its_commit(run: Run, told: str) -> None:
    lines = [line.split() for line in run("blame", told, "t", "1").out.splitlines()]
    assert [line[:3] for line in lines[1:]] == [["id", "1", "1.0"], ["v", "b", "2.0"], ["w", "NULL", "1.0"]]
    assert lines[2][-2:] == ["ben", "better"]
    versions = run("blame", told, "t", "1", "--versions").out.splitlines()
    assert [line.split()[0] for line in versions[1:]] == ["2.0", "1.0"]
    found = run("blame", told, "t", "1", "--json").json
    assert (found["complete"], found["blame"]) == (True, {"id": "1.0", "v": "2.0", "w": "1.0"})
    assert [v["change"] for v in found["versions"]] == ["update", "insert"]
    assert "no such row" in run("blame", told, "t", "7").out


def test_wrong_keys_say_what_is_asked(run: Run, told: str) -> None:
    assert "is not a value of key column 'id'" in run("blame", told, "t", "x", code=2).err
    assert "has the columns id" in run("blame", told, "t", "1", "2", code=2).err
    assert "no key" in run("blame", told, "plain", "1", code=2).err
    assert run("blame", told, "nothing", "1", "--json", code=3).json["error"]["kind"] == "table-not-found"


def test_a_type_of_a_graph_is_asked_by_its_key(run: Run, here: Path) -> None:
    graph = quire.Graph(quire.create("graph"))
    graph.apply_schema("node Person { name: String @key age: I32? }\n")
    graph.load([{"type": "Person", "data": {"name": "Ann", "age": 1}}])
    assert run("blame", "graph", "Person", "Ann", "--json").json["blame"]["age"] == "2.0"
