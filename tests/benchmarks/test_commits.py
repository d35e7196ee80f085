"""The comparison measures what it says: small runs of its parts, and one of the whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from benchmarks.commits import crew, latency, promises, throughput
from benchmarks.commits.__main__ import main
from benchmarks.commits.numbers import p50, p99
from benchmarks.commits.places import Ground, Place, bucket, disk
from benchmarks.commits.systems import ROWS, SYSTEMS, Lance, System, system

from quire.store import Store
from quire.testing.s3 import Ministack

KEYS = [one.key for one in SYSTEMS]


@pytest.fixture(scope="module")
def server() -> Iterator[Ground]:
    with bucket(Ministack) as ground:
        yield ground


@pytest.fixture
def local() -> Iterator[Ground]:
    with disk() as ground:
        yield ground


# -- numbers --------------------------------------------------------------------------------------------------------


def test_p99_is_the_largest_of_a_few_and_leaves_out_one_in_a_hundred() -> None:
    assert p99([3.0, 1.0, 2.0]) == 3.0
    assert p99([float(n) for n in range(1, 101)]) == 99.0
    assert p50([5.0, 1.0, 2.0]) == 2.0


# -- the wire -------------------------------------------------------------------------------------------------------


@pytest.mark.s3
def test_the_wire_counts_and_delays(server: Ground) -> None:
    assert server.wire is not None
    store = Store.open(server.place.at("wire"), server.place.options)
    store.put("a", b"warm")
    start = server.wire.mark()
    store.put("a", b"12345")
    between = server.wire.mark()
    store.get("a")
    store.get("a")
    assert server.wire.tally(start, between).kinds == {"PUT": 1}
    whole = server.wire.tally(start)
    assert (whole.requests, whole.hops, whole.kinds) == (3, 3, {"PUT": 1, "GET": 2})
    assert (whole.bytes_out, whole.bytes_in) == (5, 10)
    server.set_latency(100)
    began = time.monotonic()
    store.get("a")
    waited = time.monotonic() - began
    server.set_latency(0)
    assert waited >= 0.1, "the proxy sleeps for as long as it was told"


def test_a_wire_that_is_not_running_says_so() -> None:
    from benchmarks.commits.wire import Wire

    with pytest.raises(RuntimeError, match="not running"):
        Wire("http://127.0.0.1:1").mark()


# -- the systems ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [*KEYS, "quire-log-ungrouped"])
@pytest.mark.parametrize("where", ["disk", pytest.param("server", marks=pytest.mark.s3)])
def test_a_commit_appends_one_batch_to_each_table(key: str, where: str, request: pytest.FixtureRequest) -> None:
    ground: Ground = request.getfixturevalue("local" if where == "disk" else "server")
    one = system(key)
    place = ground.place.below(f"system-{key}")
    one.create(place, ["t0", "t1", "t2"])
    client = one.open(place)
    write = client.writer(["t0", "t2"])
    write()
    write()
    client.settle()
    again = one.open(place)
    assert [again.rows(table) for table in ("t0", "t1", "t2")] == [3 * ROWS, ROWS, 3 * ROWS]
    again.close()
    client.close()


def test_the_ungrouped_variant_is_ungrouped(local: Ground) -> None:
    place = local.place.below("lake")
    system("quire-log").create(place, ["t0"])
    for key, grouped in (("quire-log", True), ("quire-log-ungrouped", False)):
        client: Any = system(key).open(place)
        assert client._lake._core.grouped is grouped
        client.close()


def test_there_is_no_other_system() -> None:
    with pytest.raises(KeyError):
        system("abacus")


# -- latency --------------------------------------------------------------------------------------------------------


@pytest.mark.s3
def test_latency_counts_what_each_commit_sends(server: Ground) -> None:
    pair = [system("quire-log"), system("lance")]
    found = latency.measure(server, pair, latency=20, widths=(1, 2), most=3, seconds=0.1)
    by = {(r["system"], r["tables"]): r for r in found}
    assert {r["n"] for r in found} == {3}
    assert all(r["p50_ms"] <= r["p99_ms"] for r in found)
    for width in (1, 2):
        plain, quire = by["lance", width], by["quire-log", width]
        assert (plain["requests"], plain["hops"], plain["requests_after"]) == (4 * width, 4 * width, 0)
        assert (quire["requests"], quire["hops"]) == (3 * width + 1, 4)
        assert quire["requests_after"] > 0, "the backfill, after the acknowledgement"
        assert plain["p50_ms"] >= 20 * plain["hops"], "every hop waits for the added latency"


class Forgetful(Lance):
    """Acknowledges commits that it does not make."""

    key = "forgetful"

    def open(self, place: Place) -> Any:
        client: Any = super().open(place)
        client.writer = lambda tables: lambda: None
        return client


def test_rows_that_are_missing_end_the_run(local: Ground) -> None:
    with pytest.raises(latency.LostRows, match="forgetful holds 100 rows"):
        latency.measure(local, [Forgetful()], latency=0, widths=(1,), most=1, seconds=0.1)


# -- throughput -----------------------------------------------------------------------------------------------------


def test_conditions_name_the_tables_of_every_writer() -> None:
    apart = throughput.Condition(3, "threads", shared=False)
    assert apart.processes == [[["t0"], ["t1"], ["t2"]]]
    together = throughput.Condition(3, "processes", shared=True)
    assert together.processes == [[["t0"]], [["t0"]], [["t0"]]]
    every = throughput.conditions((1, 8), ("threads", "processes"))
    assert [str(one) for one in every] == [
        "1 writer",
        "8 threads, a table each",
        "8 threads, one table",
        "8 processes, a table each",
        "8 processes, one table",
    ]


@pytest.mark.parametrize("kind", ["threads", "processes"])
@pytest.mark.parametrize("key", ["quire-log", "lance"])
def test_writers_on_one_table_lose_nothing(local: Ground, key: str, kind: str) -> None:
    place = local.place.below("crew")
    one = system(key)
    one.create(place, ["t0"])
    condition = throughput.Condition(3, kind, shared=True)
    work, passed = crew.run(key, place, condition.processes, warm_up=20, seconds=0.5)
    assert work.acknowledged - len(work.commits) >= 3, "every writer has committed once before the time began"
    assert work.commits
    assert (work.failed, passed) == (0, 0)
    rows = one.open(place).rows("t0")
    assert rows >= ROWS * (1 + work.acknowledged)
    assert rows <= ROWS * (1 + work.acknowledged + 3), "at most one commit per writer was under way"


def test_a_writer_that_cannot_open_is_reported(local: Ground) -> None:
    with pytest.raises(RuntimeError, match="quire-log: "):
        crew.run("quire-log", local.place.below("nothing"), [[["t0"]]], warm_up=1, seconds=0.1)


def test_commits_that_fail_are_counted_and_quoted() -> None:
    def fail() -> None:
        raise OSError("no such luck")

    writer = crew._Writer(fail)
    writer._commit()
    work = writer.report(0.0, time.monotonic())
    assert (work.commits, work.acknowledged, work.failed, work.problem) == ([], 0, 1, "OSError: no such luck")


def test_throughput_refuses_what_a_system_cannot_do(local: Ground) -> None:
    condition = throughput.Condition(2, "threads", shared=True)
    [found] = throughput.measure(local, [system("icechunk")], [condition], latency=0, seconds=0.1, warm_up=1)
    assert "not safe" in found["refused"]
    assert "commits_per_second" not in found


def test_throughput_sees_lost_rows(local: Ground) -> None:
    place = local.place.below("lost")
    one: System = system("lance")
    one.create(place, ["t0"])
    throughput._check(one, place, throughput.Condition(1, "threads", shared=False), 0)
    with pytest.raises(latency.LostRows, match="100 rows where 300"):
        throughput._check(one, place, throughput.Condition(1, "threads", shared=False), 2)


# -- promises -------------------------------------------------------------------------------------------------------


def a_run(quire: tuple[float, float], lance: tuple[float, float], grouped: Sequence[float]) -> dict[str, Any]:
    """A run with these latencies of one and eight tables at 5 ms, and these rates."""
    latencies = [
        {"system": key, "tables": tables, "latency_ms": 5, "requests": requests, "p50_ms": ms}
        for key, times in (("quire-log", quire), ("lance", lance))
        for tables, requests, ms in ((1, 4, times[0]), (8, 25, times[1]))
    ]
    runs = [
        {"system": key, "writers": 64, "latency_ms": 50, "commits_per_second": rate}
        for key, rate in zip(("quire-log", "quire-log-ungrouped"), grouped, strict=False)
    ]
    return {"latency": latencies, "throughput": [], "grouping": {"runs": runs}}


def test_promises_are_kept_or_broken_by_the_numbers() -> None:
    kept = promises.judge(a_run((25, 40), (20, 200), (100, 10)))
    assert [(p["value"], p["kept"]) for p in kept] == [(1.0, True), (1.25, True), (5.0, True), (10.0, True)]
    broken = promises.judge(a_run((26, 41), (20, 200), (99, 10)))
    assert [p["kept"] for p in broken] == [True, False, False, False]


def test_a_promise_without_numbers_is_not_measured() -> None:
    run = a_run((25, 40), (20, 200), ())
    run["latency"] = [r for r in run["latency"] if r["system"] != "lance"]
    assert [p["kept"] for p in promises.judge(run)] == [None] * 4
    small = a_run((25, 40), (20, 200), (100, 10))
    for one in small["grouping"]["runs"]:
        one["writers"] = 4
    assert promises.judge(small)[3]["kept"] is None, "few writers say nothing about 64"


# -- the whole ------------------------------------------------------------------------------------------------------


def test_the_systems_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == KEYS


def test_an_unknown_system_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--only", "abacus"])
    assert "there is no system 'abacus'" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.s3
def test_a_tiny_run_of_everything(tmp_path: Path) -> None:
    """Two systems, tiny sizes: numbers, tables, figure and exit code."""
    file = tmp_path / "out" / "run.json"
    command = [sys.executable, "-m", "benchmarks.commits", "--size", "tiny", "--json", str(file)]
    chosen = ["--only", "quire-log", "--only", "lance"]
    ended = subprocess.run([*command, *chosen], capture_output=True, text=True, env={**os.environ, "COLUMNS": "200"})
    found = json.loads(file.read_text())
    assert ended.returncode == int(any(p["kept"] is False for p in found["promises"])), ended.stderr
    assert ended.stderr == "", "quiet in a pipe"
    assert {r["system"] for r in found["latency"]} == {"quire-log", "lance"}
    assert {(r["place"], r["latency_ms"]) for r in found["latency"]} == {("disk", 0), ("seaweedfs", 5)}
    assert {r["place"] for r in found["throughput"]} == {"disk", "ministack"}
    assert {r["system"] for r in found["grouping"]["runs"]} == {"quire-log", "quire-log-ungrouped"}
    assert found["grouping"]["ceiling"]["requests_per_second"] > 0
    assert found["machine"]["versions"]["pylance"]
    assert found["command"].endswith("--only quire-log --only lance")
    for text in ("One commit over T tables", "Commits per second", "Group commit", "What must come out"):
        assert text in ended.stdout
    assert file.with_suffix(".svg").read_text().startswith("<?xml")
    assert file.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
