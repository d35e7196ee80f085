"""`quire changes`: the feed for people and for programs, and cursors in files."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.cli.conftest import Run

import quire
from quire.cli import program


@pytest.fixture
def feed(here: Path) -> str:
    lake = quire.create("feed")
    with lake.transaction("start", author="ada") as tx:
        tx.create_table("k", [{"id": 1, "v": "a"}, {"id": 2, "v": None}], key="id")
        tx.create_table("p", [{"n": 1}])
    with lake.transaction("more") as tx:
        tx["k"].upsert([{"id": 1, "v": "A"}, {"id": 3, "v": "c"}])
        tx["k"].delete("id = 2")
    lake.close()
    return "feed"


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_people_read_commits_tables_and_rows(run: Run, feed: str) -> None:
    text = run("changes", feed).out
    assert "1.0" in text
    assert "ada  start" in text
    assert "  k: created" in text
    assert ["update_postimage", "1", "A"] in [line.split() for line in text.splitlines()]
    assert ["delete", "2", "NULL"] in [line.split() for line in text.splitlines()]
    assert "_commit_seq" not in text


def test_programs_read_lines_and_documents(run: Run, feed: str) -> None:
    found = lines(run("changes", feed, "k", "--format", "jsonl").out)
    assert found[0]["_event"]["events"] == ["created"]
    assert [(r["_change_type"], r["id"]) for r in found if "id" in r and r["_commit"] == "2.0"] == [
        ("update_postimage", 1),
        ("delete", 2),
        ("insert", 3),
    ]
    ends = [line for line in found if "_cursor" in line]
    assert [(e["_commit"], e["_message"]) for e in ends] == [("1.0", "start"), ("2.0", "more")]
    again = lines(run("changes", feed, "k", "--format", "jsonl", "--since", ends[0]["_cursor"]).out)
    assert again == found[found.index(ends[0]) + 1 :]

    document = run("changes", feed, "--json", "--limit", "1").json
    [block] = document["changes"]
    assert (block["commit"], [t["table"] for t in block["tables"]], len(block["tables"][0]["rows"])) == (
        "1.0",
        ["k", "p"],
        2,
    )
    rest = run("changes", feed, "--json", "--since", document["cursor"]).json
    assert [b["commit"] for b in rest["changes"]] == ["2.0"]
    assert run("changes", feed, "--json", "--net", "--since", "0.0").json["changes"][0]["commit"] == "2.0"


def test_arrow_is_a_stream_of_one_table(run: Run, feed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = io.BytesIO()

    class Stdout(io.StringIO):
        buffer = sink

    monkeypatch.setattr("sys.stdout", Stdout())
    assert program.run(["changes", feed, "k", "--format", "arrow", "--op", "insert"]) == 0
    rows = pa.ipc.open_stream(sink.getvalue()).read_all()
    assert rows.select(["id", "_commit"]).to_pylist() == [
        {"id": 1, "_commit": "1.0"},
        {"id": 2, "_commit": "1.0"},
        {"id": 3, "_commit": "2.0"},
    ]


def test_a_stream_of_arrow_needs_one_table(run: Run, feed: str) -> None:
    assert run("changes", feed, "--format", "arrow", "--json", code=2).json["error"]["kind"] == "invalid-input"
    assert "one table" in run("changes", feed, "--format", "arrow", code=2).err


def test_a_cursor_file_goes_on_where_the_last_run_ended(run: Run, feed: str) -> None:
    ask = ("changes", feed, "--format", "jsonl", "--cursor-file", "at")
    first = lines(run(*ask, "--limit", "1").out)
    assert {line["_commit"] for line in first} == {"1.0"}
    assert {line["_commit"] for line in lines(run(*ask).out)} == {"2.0"}
    assert run(*ask).out == ""
    quire.open(feed).create_table("late", [{"n": 1}])
    assert {line["_commit"] for line in lines(run(*ask, "--follow", "--wait", "0").out)} == {"3.0"}
    Path("at").write_text("\x00nonsense")
    assert "not a commit id" in run(*ask, code=2).err
    Path("folder").mkdir()
    assert run("changes", feed, "--cursor-file", "folder", "--json", code=2).json["error"]["kind"] == "invalid-input"


def test_following_ends_when_nothing_comes(run: Run, feed: str) -> None:
    assert run("changes", feed, "--follow", "--wait", "0").out == ""
    quire.open(feed).create_table("late", [{"n": 1}])
    [block] = lines(run("changes", feed, "--follow", "--wait", "0", "--since", "2.0", "--json").out)
    assert block["tables"][0]["table"] == "late"


def test_a_consumer_goes_on_where_it_was(run: Run, feed: str) -> None:
    first = run("changes", feed, "k", "--consumer", "search", "--hold", "1d", "--json").json["changes"]
    assert [block["message"] for block in first] == ["start", "more"]
    assert run("changes", feed, "--consumer", "search", "--json").json["changes"] == []
    run("delete", feed, "k", "id = 1")
    lines = run("changes", feed, "--consumer", "search", "--format", "jsonl").out.splitlines()
    assert [json.loads(line).get("_change_type") for line in lines] == ["delete", None]
    [listed] = run("consumer", "list", feed, "--json").json["consumers"]
    assert (listed["name"], listed["commit"], listed["holds"], listed["hold"]) == ("search", "3.0", True, 86400)
    assert run("consumer", "list", feed).lines()[1][:3] == ["search", "main", "3.0"]
    assert run("consumer", "drop", feed, "search").out == "dropped consumer search\n"
    assert run("consumer", "drop", feed, "search", "--json", code=3).json["error"]["kind"] == "consumer-not-found"


def test_a_consumer_that_printed_nothing_stays_where_it_was(run: Run, feed: str) -> None:
    for arguments in (("--json",), ()):
        run("changes", feed, "--consumer", "all", "--since", "baseline", "-n", "0", *arguments)
    [block] = run("changes", feed, "--consumer", "all", "--json").json["changes"]
    assert block["baseline"]
    for wrong in (("--consumer", "x", "--net"), ("--consumer", "x", "--cursor-file", "f"), ("--hold", "1d")):
        assert run("changes", feed, *wrong, code=2).err
