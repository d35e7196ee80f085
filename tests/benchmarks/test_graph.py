"""The benchmark of graphs: the graph is the same every time, the engines agree, and a difference ends the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from benchmarks.graph import data, report, social, social_questions
from benchmarks.graph.__main__ import main
from benchmarks.graph.data import QUICK, TINY
from benchmarks.graph.questions import QUESTIONS, comparable, turns
from benchmarks.graph.runner import Disagreement, _compare


def test_the_graph_is_the_same_every_time_and_keeps_its_rules(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        counts = data.write(tmp_path / name, TINY)
    assert counts["Person"] + counts["City"] == TINY.nodes
    assert counts["Knows"] >= 0.98 * TINY.friends * TINY.people
    for name in counts:
        one, two = (pq.read_table(tmp_path / where / f"{name}.parquet") for where in ("one", "two"))
        assert one.equals(two)
    knows = pq.read_table(tmp_path / "one" / "Knows.parquet").select(["from", "to"]).to_pylist()
    pairs = {(row["from"], row["to"]) for row in knows}
    assert len(pairs) == len(knows)
    assert all(a != b for a, b in pairs)


def test_the_social_network_is_the_same_every_time_and_keeps_its_rules(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        counts = social.write(tmp_path / name, social.TINY)
    for name in social.TYPES:
        one, two = (pq.read_table(tmp_path / where / f"{name}.parquet") for where in ("one", "two"))
        assert one.equals(two)
        assert one.num_rows == counts[name] > 0
        if "from" in one.schema.names:
            assert one.select(["from", "to"]).group_by(["from", "to"]).aggregate([]).num_rows == one.num_rows
    for question in social_questions.QUESTIONS:
        asked = [social_questions.turns(question, social.TINY, 3) for _ in range(2)]
        assert asked[0] == asked[1]


def test_every_run_asks_the_same() -> None:
    for question in QUESTIONS:
        assert turns(question, QUICK, 5) == turns(question, QUICK, 5)
    somebody = [values["name"] for values in turns(QUESTIONS[1], QUICK, 10)]
    assert len(set(somebody)) == 10


def test_answers_are_compared_as_sets_of_rows() -> None:
    class Named:
        title = "one"

    engines: Any = [Named(), Named()]
    _compare(QUESTIONS[0], engines, [[("a", 0.1 + 0.2), ("b", 1.0)], [("b", 1.0), ("a", 0.3)]], {})
    with pytest.raises(Disagreement, match="look-up by key"):
        _compare(QUESTIONS[0], engines, [[("a", 1)], [("a", 2)]], {})
    assert comparable([("b",), ("a",)]) == [("a",), ("b",)]


@pytest.mark.full
@pytest.mark.slow
def test_a_tiny_run_measures_everything_and_all_engines_agree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("real_ladybug")
    out = tmp_path / "graph.json"
    assert main(["--size", "tiny", "--json", str(out)]) == 0
    run = json.loads(out.read_text())
    assert [step["step"] for step in run["loads"]] == ["quire", "quire-index", "ladybug"]
    assert all(0 < step["peak_mb"] < report.LIMIT_MB for step in run["loads"])
    assert [asked["title"] for asked in run["questions"]] == [question.title for question in QUESTIONS]
    assert all(len(times) >= 3 for asked in run["questions"] for times in asked["seconds"].values())
    assert "all answers are the same" in capsys.readouterr().out
    text = out.with_suffix(".md").read_text()
    assert text.count("| Ladybug") == 3
    assert "recall@10" in text
    assert "cold start" in text
    assert all(asked["recall"] is None or asked["recall"] >= 0.9 for asked in run["social"]["questions"])
