"""Plain readers and writers, and the doctor."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from tests.cli.conftest import Run, rows

import quire


def plain(lake: str, table: str) -> Path:
    """Where plain Lance clients find a table."""
    return Path(lake) / quire.open(lake, read_only=True)[table].describe()["location"]


def write_behind(lake: str, table: str, id: int = 9) -> None:
    lance.write_dataset(pa.table({"id": [id], "v": [9.5]}), plain(lake, table), mode="append")


def behind(lake: str) -> None:
    """A commit that plain readers do not see yet."""
    handle = quire.open(lake, backfill=False)
    with handle.transaction() as tx:
        tx["events"].append([{"id": 7, "v": 7.0}])
    handle.close()


def test_a_writing_command_leaves_the_plain_tables_up_to_date(run: Run, lake: str) -> None:
    run("append", lake, "events", "-", "--format", "csv", stdin="id,v\n3,3\n")
    assert lance.dataset(plain(lake, "events")).count_rows() == 3


def test_backfill_brings_plain_readers_up_to_date(run: Run, lake: str) -> None:
    behind(lake)
    assert lance.dataset(plain(lake, "events")).count_rows() == 2
    assert run("status", lake, "--json").json["pending_backfill"] == ["events"]

    done = next(t for t in run("backfill", lake, "--json").json["tables"] if t["outcome"] != "current")

    assert (done["table"], done["outcome"]) == ("events", "promoted")
    assert lance.dataset(plain(lake, "events")).count_rows() == 3
    assert run("backfill", lake).out == "nothing to backfill\n"


def test_backfill_stops_at_a_foreign_write_and_exits_6(run: Run, lake: str) -> None:
    write_behind(lake, "events")
    behind(lake)

    ran = run("backfill", lake, code=6)
    assert ran.lines()[1][:2] == ["events", "foreign"]
    assert "quire adopt" in ran.err
    error = run("backfill", lake, "--json", code=6).json["error"]
    assert error["kind"] == "foreign-writer"
    assert error["tables"][0]["outcome"] == "foreign"
    assert lance.dataset(plain(lake, "events")).count_rows() == 3


def test_a_foreign_write_is_adopted_as_a_commit(run: Run, lake: str) -> None:
    assert run("adopt", lake, "events").out.startswith("nothing to adopt")
    write_behind(lake, "events")

    done = run("adopt", lake, "events", "--author", "ada", "--json").json

    assert (done["table"], done["commit"], done["branch"]) == ("events", "3.0", "main")
    assert rows(lake, "events")[2] == {"id": 9, "v": 9.5}
    assert run("show", lake, "3.0", "--json").json["author"] == "ada"
    write_behind(lake, "events", id=10)
    assert run("adopt", lake, "events").out.startswith("adopted as 4.0 on main")
    assert run("adopt", lake, "nope", code=3).err.startswith("error: There is no table")


def test_the_doctor_reports_a_healthy_lake(run: Run, lake: str) -> None:
    found = run("doctor", lake, "--json").json
    assert found["ok"]
    assert found["problems"] == []
    for package in ("quire", "pylance", "pyarrow", "duckdb"):
        assert found["versions"][package] == version(package)
    assert (found["store"], found["readable"], found["head"], found["foreign"]) == ("file", True, "2.0", [])
    assert found["offers"] == {"on": True, "waiting": 0}
    assert "cleanup and compaction" in found["notes"][0]

    text = run("doctor", lake).out
    assert "no problem found" in text
    assert "on, 0 commits waiting" in text
    assert "cleanup and compaction" in text


def test_the_doctor_proves_the_store_only_when_asked(run: Run, lake: str) -> None:
    before = sorted(Path(lake).rglob("*"))
    assert "create_if_absent" not in run("doctor", lake, "--json").json
    assert run("doctor", lake, "--probe", "--json").json["create_if_absent"] is True
    assert [p for p in sorted(Path(lake).rglob("*")) if p.is_file()] == [p for p in before if p.is_file()]


def test_the_doctor_names_foreign_writes_and_exits_1(run: Run, lake: str) -> None:
    write_behind(lake, "events")
    ran = run("doctor", lake, code=1)
    assert "quire adopt LAKE events" in ran.out
    found = run("doctor", lake, "--json", code=1).json
    assert not found["ok"]
    assert found["foreign"][0]["table"] == "events"
    assert [p["kind"] for p in found["problems"]] == ["foreign-writer"]


@pytest.mark.parametrize(
    ("uri", "kind"), [("nowhere", "lake-not-found"), ("s4://bucket/x", "invalid-uri"), ("broken", "corrupt-record")]
)
def test_the_doctor_reports_where_there_is_no_lake(run: Run, uri: str, kind: str) -> None:
    Path("broken/_quire").mkdir(parents=True)
    Path("broken/_quire/format.json").write_text("nonsense")
    found = run("doctor", uri, "--json", code=1).json
    assert [p["kind"] for p in found["problems"]] == [kind]
    assert found["versions"]["quire"] == version("quire")
    assert "problem: " in run("doctor", uri, code=1).out


def test_the_doctor_names_variables_and_never_their_values(
    run: Run, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    ran = run("doctor", lake, "--json")
    assert "AWS_SECRET_ACCESS_KEY" in ran.json["variables"]
    assert "hunter2" not in ran.out


def test_verify_says_what_it_looked_at_and_exits_1_when_something_is_wrong(run: Run, lake: str) -> None:
    sound = run("verify", lake, "--json").json
    assert (sound["ok"], sound["findings"]) == (True, [])
    assert sound["records"] > 1
    assert "nothing is wrong" in run("verify", lake).out

    gone = min((Path(plain(lake, "events")) / "data").iterdir())
    gone.unlink()
    broken = run("verify", lake, "--json", code=1).json
    assert [f["check"] for f in broken["findings"]] == ["file"]
    assert gone.name in run("verify", lake, code=1).out


def test_the_doctor_says_what_clients_could_destroy(run: Run, lake: str, tmp_path: Path) -> None:
    told = tmp_path / "told.json"
    told.write_text('{"expires_at_millis": "1"}')
    before = sorted(path for path in Path(lake).rglob("*") if path.is_file())
    found = run("doctor", lake, "--client-options", str(told), "--json", code=1).json
    assert found["client_rights"] == ["stages", "moves", "deletes", "records"]
    said = [problem["message"] for problem in found["problems"]]
    assert [problem["check"] for problem in found["problems"]] == ["clients"] * 3
    assert "destroy versions that commits rest on" in said[0]
    assert "sessions" in found["problems"][0]["next"]
    assert sorted(path for path in Path(lake).rglob("*") if path.is_file()) == before
    told.write_text("secret")
    found = run("doctor", lake, "--client-options", str(told), "--json", code=1).json
    assert found["problems"][0]["kind"] == "invalid-input"
    assert "secret" not in str(found["problems"])
