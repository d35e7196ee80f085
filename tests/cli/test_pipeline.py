"""A pipeline from the command line, in this process and on Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run
from tests.cli.test_output import terminal

import quire
from quire.cli import options

PIPELINE = """
message: nightly
mode: merge
sources:
  - files: people-*.csv
    table: people
  - files: events.jsonl
    table: events
    mode: append
"""


@pytest.fixture
def files(here: Path) -> None:
    Path("people-1.csv").write_text("id,name\n2,Bo\n7,Gil\n")
    Path("people-2.csv").write_text("id,name\n8,Hal\n")
    Path("events.jsonl").write_text('{"id": 3, "v": 0.5}\n{"id": 4, "v": 1}\n')
    Path("load.yaml").write_text(PIPELINE)


def test_a_pipeline_is_one_commit_and_one_table_of_counts(run: Run, lake: str, files: None) -> None:
    ran = run("load", lake, "load.yaml", "--author", "ada")

    assert ran.lines() == [
        ["committed", "3.0", "on", "main"],
        ["table", "inserted", "updated", "removed", "rejected", "files"],
        ["people", "2", "1", "0", "0", "2"],
        ["events", "2", "0", "0", "0", "1"],
    ]
    assert ran.err == ""
    commit = quire.open(lake, read_only=True).log()[0]
    assert (commit.message, commit.author) == ("nightly", "ada")


def test_json_tells_the_commit_and_the_rows(run: Run, lake: str, files: None) -> None:
    ran = run("load", lake, "load.yaml", "--json", "-m", "mine")

    assert (ran.json["commit"], ran.json["branch"], ran.json["rows"]) == ("3.0", "main", 5)
    assert ran.json["tables"]["people"] == {"inserted": 2, "updated": 1, "removed": 0, "rejected": 0, "files": 2}
    assert quire.open(lake, read_only=True).log()[0].message == "mine"


def test_a_dry_run_and_a_wrong_row_commit_nothing(run: Run, lake: str, files: None) -> None:
    ran = run("load", lake, "load.yaml", "--dry-run")
    assert ran.lines()[0] == ["dry", "run:", "nothing", "was", "committed"]
    Path("people-2.csv").write_text("id,name\n8,Hal\nnine,Ida\n")
    ran = run("load", lake, "load.yaml", code=None)
    assert ran.code != 0
    assert "people-2.csv:3" in ran.err
    assert "nine" in ran.err
    assert quire.open(lake, read_only=True).head == "2.0"
    ran = run("load", lake, "load.yaml", "--skip-rejects", "--rejects", "out")
    assert ["1", "row(s)", "rejected,", "written", "to", "out"] in ran.lines()
    [path] = Path("out").iterdir()
    assert json.loads(path.read_text())["line"] == 3


def test_options_that_are_not_for_a_pipeline(run: Run, lake: str, files: None) -> None:
    for option in (("--type", "Person"), ("--format", "csv"), ("--engine", "local", "--master", "local[2]")):
        ran = run("load", lake, "load.yaml", *option, code=None)
        assert ran.code != 0
        assert "Traceback" not in ran.err
    ran = run("load", lake, "none.yaml", code=None)
    assert "none.yaml" in ran.err


def test_a_terminal_sees_how_far_it_is(lake: str, files: None) -> None:
    code, shown = terminal("load", lake, "load.yaml")
    assert code == 0
    assert "parts" in shown
    assert "people" in shown


@pytest.mark.slow
def test_the_same_on_spark(run: Run, lake: str, files: None, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session that the command starts is the one of all tests, which goes on afterwards."""
    monkeypatch.setattr(options, "start", lambda master: spark)
    monkeypatch.setattr(type(spark), "stop", lambda self: None)
    told = run("load", lake, "load.yaml", "--master", "local[2]", "--json").json
    assert (told["rows"], told["commit"]) == (5, "3.0")
    assert told["tables"]["people"] == {"inserted": 2, "updated": 1, "removed": 0, "rejected": 0, "files": 2}


def test_rows_that_do_not_fit_a_table_are_not_called_rules_of_the_graph(run: Run, lake: str, files: None) -> None:
    Path("events.jsonl").write_text('{"id": 3, "v": "x"}\n{"id": 4, "v": "y"}\n')
    said = run("load", lake, "load.yaml", code=2).err
    assert said.startswith("error: Rows do not fit their tables, 2 times.")


def test_every_mistake_of_a_mapping_is_a_line(run: Run, lake: str, files: None) -> None:
    Path("wrong.yaml").write_text(
        "sources:\n- {files: people-1.csv, table: nope}\n- {files: people-1.csv, table: people, columns: {nix: id}}\n"
    )
    said = run("load", lake, "wrong.yaml", code=2).err.splitlines()
    assert said[0] == "error: The pipeline does not fit in 2 places."
    assert [line.strip().split(":")[0] for line in said[1:3]] == ["Source 1 (nope)", "Source 2 (people)"]
