"""Search on the command line: by vector, by text, by both."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Run


@pytest.fixture
def lake(run: Run, here: Path) -> str:
    run("init", "lake")
    Path("docs.jsonl").write_text(
        '{"id": 1, "text": "lakes hold still", "v": [1, 0]}\n'
        '{"id": 2, "text": "rivers flow", "v": [0, 1]}\n'
        '{"id": 3, "text": "ponds and lakes", "v": [0.9, 0.1]}\n'
    )
    run("table", "create", "lake", "docs", "--schema", "id:int64,text:string,v:float32[2]", "--from", "docs.jsonl")
    run("table", "index", "lake", "docs", "text", "--kind", "INVERTED")
    return "lake"


def test_the_nearest_rows_come_first(run: Run, lake: str) -> None:
    found = run("search", lake, "docs", "--vector", "[1, 0]", "-k", "2", "--json").json
    assert [row["id"] for row in found["rows"]] == [1, 3]
    assert [c["name"] for c in found["columns"]] == ["id", "text", "_distance"], "vectors are not shown"
    Path("q.json").write_text("[0, 1]")
    assert run("search", lake, "docs", "--vector", "@q.json", "--columns", "id").lines()[1] == ["2", "0.0"]


def test_text_and_both_together(run: Run, lake: str) -> None:
    found = run("search", lake, "docs", "--text", "lakes", "--filter", "id > 1", "--json").json["rows"]
    assert [row["id"] for row in found] == [3]
    both = run("search", lake, "docs", "--text", "rivers", "--vector", "[0.9, 0.1]", "--columns", "id", "--json").json
    assert [row["id"] for row in both["rows"]] == [2, 3, 1]
    assert set(both["rows"][0]) == {"id", "_distance", "_score", "_relevance"}
    run("search", lake, "docs", "--text", "lakes", "-o", "found.csv")
    assert Path("found.csv").read_text().startswith('"id","text","_score"')


def test_an_earlier_state_is_searched(run: Run, lake: str) -> None:
    def first(*options: str) -> int:
        return run("search", lake, "docs", "--vector", "[1, 0]", *options, "--json").json["rows"][0]["id"]

    run("delete", lake, "docs", "id = 1")
    assert (first(), first("--at", "2.0")) == (3, 1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "no vector and no text"),
        (("--vector", "1, 0"), "is not a list of numbers"),
        (("--vector", "[1]"), "one vector of 2 numbers"),
        (("--vector", '["a", "b"]'), "one vector of 2 numbers"),
        (("--vector", "@nope.json"), "no file nope.json"),
        (("--vector", "[1, 0]", "--metric", "zigzag"), "There is no metric 'zigzag'"),
    ],
)
def test_what_cannot_be_searched_says_why(run: Run, lake: str, options: tuple[str, ...], said: str) -> None:
    ran = run("search", lake, "docs", *options, "--json", code=None)
    assert ran.code in (2, 3)
    assert said in ran.json["error"]["message"]
