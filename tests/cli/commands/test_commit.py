"""Several statements on several tables as one commit."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Run, rows


@pytest.fixture(autouse=True)
def files(here: Path) -> None:
    Path("people.csv").write_text("id,name\n7,Gil\n")
    Path("more.jsonl").write_text('{"id": 2, "name": "Bert"}\n{"id": 8, "name": "Hal"}\n')
    Path("events.csv").write_text("id,v\n3,3.5\n")


def test_statements_on_several_tables_are_one_commit(run: Run, lake: str) -> None:
    receipt = run(
        "commit", lake, "--append", "events=events.csv", "--upsert", "people=more.jsonl", "--create", "new=people.csv",
        "--delete", "people=name = 'Ada'", "-m", "all of it", "--author", "ada", "--json",
    ).json  # fmt: skip
    assert receipt["commit"] == "3.0"
    assert {name: t["ops"] for name, t in receipt["tables"].items()} == {
        "events": ["append"],
        "people": ["upsert", "delete"],
        "new": ["create"],
    }
    assert rows(lake, "people") == [{"id": 2, "name": "Bert"}, {"id": 3, "name": "Cy"}, {"id": 8, "name": "Hal"}]
    assert rows(lake, "new") == [{"id": 7, "name": "Gil"}]
    shown = run("show", lake, "3.0", "--json").json
    assert (shown["message"], shown["author"]) == ("all of it", "ada")


def test_statements_run_in_the_order_of_the_command_line(run: Run, lake: str) -> None:
    run("commit", lake, "--delete", "people=true", "--insert=people=people.csv")
    assert rows(lake, "people") == [{"id": 7, "name": "Gil"}]
    run("commit", lake, "--insert", "people=more.jsonl", "--delete=people=id = 2", "--append", "people=-", "--format",
        "csv", "--delete", "people=id = 8", stdin="id,name\n2,Again\n")  # fmt: skip
    assert rows(lake, "people") == [{"id": 2, "name": "Again"}, {"id": 7, "name": "Gil"}]
    run("commit", lake, "--drop", "events", "--create", "events=people.csv", "--key", "events=id")
    assert rows(lake, "events") == [{"id": 7, "name": "Gil"}]
    assert run("table", "describe", lake, "events", "--json").json["key"] == ["id"]


def test_one_statement_that_fails_leaves_nothing(run: Run, lake: str) -> None:
    failing = ("--insert", "people=people.csv", "--append", "events=people.csv")
    assert run("commit", lake, *failing, "--json", code=2).json["error"]["kind"] == "schema-mismatch"
    assert run("log", lake, "--json").json["commits"][0]["id"] == "2.0"
    assert len(rows(lake, "people")) == 3


def test_rows_are_updated_and_overwritten_and_existing_ones_ignored(run: Run, lake: str) -> None:
    run(
        "commit", lake, "--overwrite", "events=events.csv", "--insert", "people=more.jsonl", "--ignore-existing",
        "--update", 'people={"set": {"name": "upper(name)"}, "where": "id < 3"}',
        "--update", 'people={"values": {"name": "?"}, "where": "id = 8"}',
    )  # fmt: skip
    assert [r["name"] for r in rows(lake, "people")] == ["ADA", "BOBBY", "Cy", "?"]
    assert rows(lake, "events") == [{"id": 3, "v": 3.5}]


def test_a_table_without_a_key_is_told_the_columns(run: Run, lake: str) -> None:
    Path("events.csv").write_text("id,v\n2,9\n3,3.5\n")
    run("commit", lake, "--upsert", "events=events.csv", "--key", "events=id")
    assert [r["v"] for r in rows(lake, "events")] == [1.5, 9.0, 3.5]


def test_it_is_conditional_and_at_most_once(run: Run, lake: str) -> None:
    statement = ("--append", "events=events.csv")
    error = run("commit", lake, *statement, "--expect", "people=9", "--json", code=4).json["error"]
    assert error["kind"] == "expectation-failed"
    assert run("commit", lake, *statement, "--token", "day:1", "--json").json["repeated"] is False
    assert run("commit", lake, *statement, "--token", "day:1", "--json").json["repeated"] is True
    assert len(rows(lake, "events")) == 3
    error = run("commit", lake, *statement, "--timeout", "0", "--json", code=6).json["error"]
    assert error["kind"] == "deadline-exceeded"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "There is no statement"),
        (("--append", "events"), "names no table"),
        (("--append", "=events.csv"), "names no table"),
        (("--append", "events=-", "--upsert", "people=-", "--format", "csv"), "stdin"),
        (("--update", "people=name = 'x'"), "--update people"),
        (("--update", 'people={"set": {}, "where": "true"}'), "at least one column"),
        (("--update", 'people={"set": {"name": "1"}}'), "where"),
    ],
)
def test_what_is_no_statement_says_why(run: Run, lake: str, options: tuple[str, ...], said: str) -> None:
    error = run("commit", lake, *options, "--json", code=2).json["error"]
    assert said in error["message"]
    assert error["next"]
