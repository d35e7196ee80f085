"""Upkeep on the command line: recover, optimize, cleanup, what recoveries did, and how loaded a lake is."""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path
from typing import Any

import lance
import pytest
from tests.cli.commands.test_health import behind, plain, write_behind
from tests.cli.conftest import Run, rows
from tests.lake.upkeep.cleanup.test_cleanup import age
from tests.system.test_read_only import listing

import quire
from quire.lake.commit.back_pressure import Bounds
from quire.store.address import is_temporary

NOW = ("--keep", 1, "--older-than", "0s", "--grace", "0s")
"""Keep nothing but the newest commit, whatever its age."""


def scatter(lake: str, times: int = 4) -> None:
    """Several small fragments, an index that covers only the first, and all of it a minute old."""
    with quire.open(lake, author="writer") as handle:
        with handle.transaction("index") as tx:
            tx["events"].create_index("v")
        for number in range(times):
            with handle.transaction(f"append {number}") as tx:
                tx["events"].append([{"id": 10 + number, "v": 1.0}])
    age(lake)


def on_disk(lake: str, below: str = "tables") -> dict[str, int]:
    return {str(p.relative_to(lake)): p.stat().st_size for p in (Path(lake) / below).rglob("*") if p.is_file()}


# -- recover ----------------------------------------------------------------------------------------------------------


def test_recover_finishes_and_says_whose_commits(run: Run, lake: str) -> None:
    behind(lake)
    head = quire.open(lake, read_only=True).head
    done = run("recover", lake, "--author", "nurse", "--json").json
    assert (done["by"], done["head"], done["tidied"]) == ("nurse", head, 0)
    [step] = done["steps"]
    assert (step["table"], step["commit"], step["author"], step["outcome"]) == ("events", head, "tester", "promoted")
    assert lance.dataset(plain(lake, "events")).count_rows() == 3
    assert run("recover", lake).out == "nothing to recover\n"


def test_recover_prints_a_table(run: Run, lake: str) -> None:
    behind(lake)
    lines = run("recover", lake).lines()
    assert lines[0] == ["table", "commit", "author", "outcome", "version", "detail"]
    assert lines[1][:4] == ["events", "3.0", "tester", "promoted"]


def test_recover_removes_what_dead_processes_left(run: Run, lake: str) -> None:
    left = plain(lake, "events") / "_versions" / f"18446744073709551000.manifest-{uuid.uuid4()}"
    left.write_text("x")
    assert run("recover", lake).out == "nothing to recover\n"
    os.utime(left, (time.time() - 4000,) * 2)
    assert run("recover", lake).out == "removed 1 file(s) that dead processes had left\n"
    assert not left.exists()


def test_recover_exits_1_when_a_plain_writer_is_in_the_way(run: Run, lake: str) -> None:
    write_behind(lake, "events")
    behind(lake)
    ran = run("recover", lake, code=1)
    assert ran.lines()[1][0] == "events"
    assert "Not finished: events." in ran.err
    assert "quire adopt" in ran.err
    told = run("recover", lake, "--json", code=1)
    assert [s["outcome"] for s in told.json["steps"]] == ["foreign"]
    assert told.err == ""
    assert lance.dataset(plain(lake, "events")).count_rows() == 3


def test_the_log_shows_recoveries(run: Run, lake: str) -> None:
    assert run("log", lake, "--recovery", "--json").json == {"recoveries": []}
    for _ in range(2):
        behind(lake)
        run("recover", lake, "--author", "nurse")
    before = listing(lake)
    lines = run("log", lake, "--recovery").lines()
    assert lines[0] == ["time", "(UTC)", "by", "table", "commit", "author", "outcome", "detail"]
    assert [line[2:7] for line in lines[1:]] == [
        ["nurse", "events", "4.0", "tester", "promoted"],
        ["nurse", "events", "3.0", "tester", "promoted"],
    ]
    assert [r["head"] for r in run("log", lake, "--recovery", "--json").json["recoveries"]] == ["4.0", "3.0"]
    assert [r["head"] for r in run("log", lake, "--recovery", "-n", 1, "--json").json["recoveries"]] == ["4.0"]
    assert [c["id"] for c in run("log", lake, "--json").json["commits"]] == ["4.0", "3.0", "2.0", "1.0", "0.0"]
    assert listing(lake) == before


# -- optimize ---------------------------------------------------------------------------------------------------------


def test_optimize_merges_fragments_and_extends_indexes(run: Run, lake: str) -> None:
    scatter(lake)
    before = rows(lake, "events")
    done = run("optimize", lake, "--json").json
    [events] = [t for t in done["tables"] if t["table"] == "events"]
    assert (events["outcome"], events["fragments_before"], events["fragments_after"]) == ("optimized", 5, 1)
    assert events["indexes"] == ["v_idx"]
    assert events["commit"] in done["commits"]
    assert done["checkpoint"]
    assert rows(lake, "events") == before
    assert run("status", lake, "--json").json["load"]["small_fragments"]["now"] < 4
    assert run("optimize", lake, "events").out == "nothing to optimize\n"


def test_optimize_prints_a_table(run: Run, lake: str) -> None:
    scatter(lake)
    head, row = run("optimize", lake, "events").lines()
    assert head == ["table", "outcome", "fragments", "after", "rows", "size", "indexes", "commit"]
    assert row[:5] == ["events", "optimized", "5", "1", "6"]
    assert row[-2:] == ["v_idx", "8.0"]


def test_optimize_takes_only_the_tables_that_are_named(run: Run, lake: str) -> None:
    scatter(lake)
    done = run("optimize", lake, "people", "--json").json
    assert [t["table"] for t in done["tables"]] == ["people"]
    assert run("status", lake, "--json").json["load"]["small_fragments"] == {"now": 4, "bound": 1000, "table": "events"}
    error = run("optimize", lake, "people", "nope", "--json", code=3).json["error"]
    assert error["kind"] == "table-not-found"


def test_optimize_takes_tables_by_option_too(run: Run, lake: str) -> None:
    done = run("optimize", lake, "people", "-t", "events", "--dry-run", "--json").json
    assert [t["table"] for t in done["tables"]] == ["events", "people"]
    done = run("optimize", lake, "--table", "events", "--dry-run", "--json").json
    assert [t["table"] for t in done["tables"]] == ["events"]


def test_no_time_at_all_is_a_length(run: Run, lake: str) -> None:
    run("cleanup", lake, "--older-than", "0", "--grace", "0", "--dry-run")
    assert "not a length" in run("cleanup", lake, "--older-than", "7", code=2).err


def test_optimize_with_dry_run_plans_and_writes_nothing(run: Run, lake: str) -> None:
    scatter(lake)
    before = listing(lake)
    planned = run("optimize", lake, "--dry-run", "--json").json
    assert planned["dry_run"] is True
    assert planned["commits"] == []
    [events] = [t for t in planned["tables"] if t["table"] == "events"]
    assert (events["outcome"], events["fragments_after"], events["commit"]) == ("planned", 1, None)
    assert ["events", "planned"] in [line[:2] for line in run("optimize", lake, "--dry-run").lines()]
    assert listing(lake) == before


def test_optimize_exits_7_when_a_table_failed(run: Run, lake: str) -> None:
    scatter(lake)
    for file in (plain(lake, "events") / "data").iterdir():
        file.write_bytes(b"x" * file.stat().st_size)
    told = run("optimize", lake, "--json", code=7)
    assert {t["table"]: t["outcome"] for t in told.json["tables"]}["events"] == "failed"
    ran = run("optimize", lake, code=7)
    assert ["events", "failed"] in [line[:2] for line in ran.lines()]
    assert "events: " in ran.err


def test_optimize_works_on_a_branch(run: Run, lake: str) -> None:
    run("branch", "create", lake, "side")
    for number in range(2):
        run("append", lake, "events", "-", "--format", "csv", "--branch", "side", stdin=f"id,v\n{number},3\n")
    [events] = run("optimize", lake, "events", "--branch", "side", "--json").json["tables"]
    assert (events["outcome"], events["fragments_after"]) == ("optimized", 1)
    assert run("status", lake, "--json").json["head"] == "2.0"


@pytest.mark.parametrize("wrong", ["0", "-1", "many"])
def test_optimize_refuses_a_target_that_is_none(run: Run, lake: str, wrong: str) -> None:
    assert "--target-rows" in run("optimize", lake, "--target-rows", wrong, code=2).err


# -- cleanup ----------------------------------------------------------------------------------------------------------


def test_cleanup_deletes_what_it_said_it_would(run: Run, lake: str) -> None:
    scatter(lake)
    run("optimize", lake)
    age(lake)
    before, kept = on_disk(lake), rows(lake, "events")
    state = listing(lake)

    ran = run("cleanup", lake, *NOW, "--dry-run")
    *names, last = ran.out.splitlines()
    planned = run("cleanup", lake, *NOW, "--dry-run", "--json").json

    assert listing(lake) == state, "a dry run writes nothing"
    assert planned["dry_run"] is True
    assert names == planned["names"]
    assert set(names) <= set(before)
    assert planned["files"] == len(names) > 5
    assert planned["bytes"] == sum(before[name] for name in names)
    assert last.startswith(f"would delete {len(names)} file(s), ")
    assert last.endswith("1 commit(s) kept")

    done = run("cleanup", lake, *NOW, "--json").json

    assert before.keys() - on_disk(lake).keys() == set(names)
    assert (done["files"], done["bytes"], done["names"]) == (planned["files"], planned["bytes"], [])
    assert done["slots"] > 0
    assert rows(lake, "events") == kept
    assert run("verify", lake).code == 0
    assert run("show", lake, "2.0", "--json", code=None).code == 3
    assert run("sql", lake, "select 1 from people", "--at", "1.0", "--json", code=3).json["error"]["kind"] == (
        "snapshot-expired"
    )


def test_cleanup_prints_what_it_did(run: Run, lake: str) -> None:
    scatter(lake)
    first, second = run("cleanup", lake, *NOW).out.splitlines()
    assert first.startswith("deleted ")
    assert second.startswith("buried ")
    assert run("cleanup", lake, *NOW).out.startswith("deleted 0 file(s), 0 B; ")


def test_cleanup_keeps_a_week_and_ten_commits_by_default(run: Run, lake: str) -> None:
    scatter(lake)
    before = on_disk(lake)
    assert run("cleanup", lake, "--json").json["files"] == 0
    age(lake, 30 * 86400)
    assert run("cleanup", lake, "--json").json["floors"] == {"main": 0}, "8 commits are fewer than ten"
    run("cleanup", lake, "--keep", 2)
    assert len(on_disk(lake)) < len(before)
    assert [c["id"] for c in run("log", lake, "--json").json["commits"]] == ["7.0", "6.0"]


def test_cleanup_says_which_writers_it_revokes(run: Run, lake: str) -> None:
    with quire.open(lake) as handle:
        tx = handle.transaction("slow")
        tx["events"].append([{"id": 5, "v": 5.0}])
        handle._core.writers._open[tx] -= 2.0  # as if it had been open for so long
        handle._core.writers.tend()
        [note] = [name for name in os.listdir(f"{lake}/_quire/writers") if not is_temporary(name)]
        age(lake, 7200)
        assert "would revoke writer" in run("cleanup", lake, *NOW, "--dead-after", "1h", "--dry-run").out
        done = run("cleanup", lake, *NOW, "--dead-after", "1h", "--json").json
        assert done["revoked"] == [note.removesuffix(".json")]
        with pytest.raises(quire.errors.Revoked):
            tx.commit()


@pytest.mark.parametrize("option", ["--older-than", "--grace", "--dead-after"])
@pytest.mark.parametrize("wrong", ["", "7", "d", "-1d", "7 days", "1y", "1e3d", "nan", "99999999999w"])
def test_a_bad_length_of_time_is_refused_before_anything_is_done(run: Run, lake: str, option: str, wrong: str) -> None:
    before = listing(lake)
    error = run("cleanup", lake, f"{option}={wrong}", "--json", code=2).json["error"]
    assert error["kind"] == "invalid-input"
    assert "90s, 30m, 12h, 7d or 2w" in error["next"]
    assert run("cleanup", lake, f"{option}={wrong}", code=2).err.startswith("error: ")
    assert listing(lake) == before


@pytest.mark.parametrize("given", ["90s", "30m", "12h", "7d", "2w", "1.5h", " 7d "])
def test_lengths_of_time_as_people_write_them(run: Run, lake: str, given: str) -> None:
    assert run("cleanup", lake, "--older-than", given, "--dry-run").code == 0


@pytest.mark.parametrize("options", [("--keep", 0), ("--keep", -1), ("--dead-after", "1s")])
def test_cleanup_refuses_what_would_not_be_safe(run: Run, lake: str, options: tuple[Any, ...]) -> None:
    error = run("cleanup", lake, *options, "--json", code=2).json["error"]
    assert error["kind"] in ("invalid-argument", "invalid-input")
    assert error["next"]


@pytest.mark.parametrize("command", ["recover", "optimize", "cleanup"])
def test_upkeep_of_what_is_not_there(run: Run, command: str) -> None:
    assert run(command, "nowhere", "--json", code=3).json["error"]["kind"] == "lake-not-found"
    assert not Path("nowhere").exists()


def test_upkeep_where_nothing_may_be_written(run: Run, lake: str) -> None:
    """A lake that cannot be written to can still be looked at."""
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    scatter(lake)
    for folder, _, _ in os.walk(lake):
        os.chmod(folder, 0o555)
    try:
        assert run("optimize", lake, "--dry-run").code == 0
        assert run("cleanup", lake, *NOW, "--dry-run").code == 0
        assert run("cleanup", lake, *NOW, "--json", code=7).json["error"]["kind"] == "permission-denied"
    finally:
        for folder, _, _ in os.walk(lake):
            os.chmod(folder, 0o755)


# -- init and status --------------------------------------------------------------------------------------------------


def test_a_lake_can_be_made_on_a_manifest_table(run: Run) -> None:
    assert run("init", "table", "--ledger", "manifest", "--json").json["head"] == "0.0"
    run("table", "create", "table", "t", "--from", "-", "--format", "csv", stdin="id\n1\n")
    assert run("status", "table", "--json").json["head"] == "1.0"
    assert lance.dataset("table/_quire/__manifest.lance").count_rows() > 0
    assert run("verify", "table").code == 0
    error = run("init", "other", "--ledger", "paper", "--json", code=2).json["error"]
    assert (error["kind"], error["next"]) == ("invalid-argument", "Give 'log' or 'manifest'.")
    assert not Path("other").exists()
    assert run("init", "table", "--ledger", "log", "--exist-ok").code == 0
    assert run("status", "table", "--json").json["head"] == "1.0"


def test_status_shows_the_bounds_and_the_present_load(run: Run, lake: str) -> None:
    scatter(lake)
    load = run("status", lake, "--json").json["load"]
    assert set(load) == {"small_fragments", "unbackfilled", "uncheckpointed"}
    assert load["small_fragments"] == {"now": 4, "bound": 1000, "table": "events"}
    assert load["uncheckpointed"]["bound"] == 256
    text = run("status", lake).out
    assert "small fragments: 4 of at most 1000 (events)\n" in text
    assert "uncheckpointed: 8 of at most 256\n" in text
    assert "slowed" not in text


def test_status_and_receipts_say_that_writers_are_slowed(run: Run, lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scatter(lake)
    monkeypatch.setattr("quire.lake.context.BOUNDS", Bounds(small_fragments=3))
    assert "small fragments: 4 of at most 3 (events); writers are slowed\n" in run("status", lake).out
    append = ("append", lake, "events", "-", "--format", "csv")
    told = run(*append, stdin="id,v\n3,3\n").err
    assert told.startswith("slowed by 0.")
    assert "4 small fragments of table 'events', more than 3: run `quire optimize`" in told
    slowed = run(*append, "--json", stdin="id,v\n4,3\n").json["slowed"]
    assert slowed["seconds"] > 0
    assert len(slowed["reasons"]) == 1
    assert (
        run("append", lake, "people", "-", "--format", "csv", "--json", stdin="id,name\n8,H\n").json["slowed"] is None
    )
