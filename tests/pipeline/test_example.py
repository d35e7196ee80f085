"""The worked example runs and ends with what it promises."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

import quire
from quire import pipeline

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "pipeline"


@pytest.fixture
def example() -> Any:
    spec = importlib.util.spec_from_file_location("pipeline_example", FOLDER / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PEOPLE = "query all() { match { $p: Person } return { $p.name as name, $p.born as born } order { $p.name } }"
KNOWS = (
    "query all() { match { $p: Person $p $k:knows $q $q: Person } "
    "return { $p.name as a, $q.name as b, $k.since as since } order { $p.name, $q.name } }"
)


def known(lake: quire.Lake) -> tuple[list[Any], list[Any]]:
    graph = quire.Graph(lake)
    people = [(row["name"], str(row["born"])) for row in graph.query(PEOPLE).to_pylist()]
    return people, [(row["a"], row["b"], row["since"]) for row in graph.query(KNOWS).to_pylist()]


AFTER = (
    [
        ("Ada Lovelace", "1815-12-10"),
        ("Charles Babbage", "1791-12-26"),
        ("Luigi Menabrea", "1809-09-04"),
        ("Mary Somerville", "1780-12-26"),
    ],
    [
        ("Ada Lovelace", "Charles Babbage", 1835),
        ("Luigi Menabrea", "Charles Babbage", 1840),
        ("Mary Somerville", "Ada Lovelace", 1834),
    ],
)


def test_the_example_makes_a_graph_on_spark_and_keeps_it_up_to_date(spark: Any, tmp_path: Path, example: Any) -> None:
    lake = example.main(tmp_path, spark)
    assert known(lake) == AFTER
    assert {row["who"]: row["pages"] for row in lake["totals"].to_pylist()} == {"ada": 19, "bo": 4}
    messages = [entry.message for entry in lake.log()]
    assert messages[:4] == ["stream visits", "stream visits", "a day of raw files", "a day of raw files"]


def test_its_loads_do_the_same_in_one_process(tmp_path: Path, example: Any) -> None:
    lake = quire.create(tmp_path / "lake")
    example.prepare(lake)
    done = pipeline.run(lake, FOLDER / "pipeline.yaml")
    assert {name: fed.inserted for name, fed in done.tables.items()} == {
        "visits": 2,
        "Person": 4,
        "Work": 3,
        "Wrote": 4,
        "Knows": 2,
    }
    done = pipeline.run(lake, FOLDER / "pipeline.yaml", base=FOLDER / "raw" / "day2")
    assert {name: (fed.inserted, fed.updated) for name, fed in done.tables.items()} == {
        "visits": (0, 1),
        "Person": (0, 2),
        "Work": (0, 1),
        "Wrote": (0, 1),
        "Knows": (1, 1),
    }
    assert known(lake) == AFTER
