"""Algorithms and paths from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Run

import quire


@pytest.fixture
def towns(tmp_path: Path) -> str:
    lake = str(tmp_path / "towns")
    with quire.create(lake) as made:
        graph = quire.Graph(made)
        graph.apply_schema("node Town { name: String @key  rank: F64? }  edge Road: Town -> Town { km: F64 }")
        rows = [{"type": "Town", "data": {"name": name}} for name in "abc"]
        roads = [("a", "b", 1), ("b", "c", 1), ("a", "c", 5)]
        graph.load([*rows, *({"edge": "Road", "from": s, "to": t, "data": {"km": k}} for s, t, k in roads)])
    return lake


def test_an_algorithm_prints_a_value_for_every_node(run: Run, towns: str) -> None:
    found = run("algorithm", towns, "degree", "Road", "--direction", "out", "--json").json
    assert found["rows"] == [{"type": "Town", "id": id, "degree": n} for id, n in (("a", 2), ("b", 1), ("c", 0))]
    ranks = run("algorithm", towns, "pagerank", "Road", "--set", "damping=0", "--json").json
    assert [row["pagerank"] for row in ranks["rows"]] == pytest.approx([1 / 3] * 3)


def test_it_is_written_to_a_property(run: Run, towns: str) -> None:
    assert run("write-algorithm", towns, "pagerank", "Road", "rank", "--json").json["written"] == {"Town": 3}
    with quire.open(towns) as lake:
        assert sum(row["rank"] for row in lake["node:Town"].to_pylist()) == pytest.approx(1)
        assert next(iter(lake.log())).message == "pagerank of Road as rank"


def test_paths_are_printed(run: Run, towns: str) -> None:
    assert run("paths", towns, "Road", "a", "c", "--json").json["paths"] == [{"length": 1.0, "nodes": ["a", "c"]}]
    lines = run("paths", towns, "Road", "a", "c", "--weight", "km").lines()
    assert lines[1][0] == "2.0"
    assert "no path" in run("paths", towns, "Road", "c", "a").out
