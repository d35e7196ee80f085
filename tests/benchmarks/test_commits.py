"""The comparison measures what it says: small runs of its parts, and one of the whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.commits import crew, ducklake, latency, older, plot, promises, seat, throughput
from benchmarks.commits.__main__ import main
from benchmarks.commits.fork_server import Environment, ForkServer, Remote, gather
from benchmarks.commits.numbers import p50, p99
from benchmarks.commits.places import Ground, Place, disk, memory
from benchmarks.commits.systems import APART, ROWS, SYSTEMS, System, system
from benchmarks.commits.wire import Wire

from quire.store import Store

KEYS = [one.key for one in SYSTEMS]
LIBRARIES = ("quire-log", "quire-manifest", "lance", "lance-namespace", "quire-delta", "delta", "icechunk")
"""The systems that one process can load together."""
EVERYTHING = Environment("everything", ("lance", "lance.namespace", "obstore", "quire", "quire.formats.lance"))


@pytest.fixture(scope="module")
def server() -> Iterator[Ground]:
    with memory() as ground:
        yield ground


@pytest.fixture(scope="module")
def processes() -> Iterator[ForkServer]:
    """Where processes come from that can be any of the systems."""
    with ForkServer(EVERYTHING) as started:
        yield started


@pytest.fixture(scope="module")
def servers(processes: ForkServer) -> latency.Servers:
    return {one.environment.name: processes for one in SYSTEMS}


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


@pytest.mark.parametrize("proxied", [False, True])
def test_the_wire_counts_and_delays(server: Ground, proxied: bool) -> None:
    assert server.wire is not None
    with Wire(server.wire.endpoint if proxied else None) as wire:
        store = Store.open("s3://lake/wire", {**server.place.options, "aws_endpoint": wire.endpoint})
        store.put("a", b"warm")
        began = time.perf_counter()
        store.put("a", b"12345")
        between = time.perf_counter()
        store.get("a")
        store.get("a")
        store.create("b", b"", mine=lambda _: True)
        wire.settle()
        assert wire.tally(began, between).kinds == {"PUT": 1}
        ended = time.perf_counter()
        whole = wire.tally(began, ended)
        assert (whole.requests, whole.hops) == (4, 4)
        assert whole.kinds == {"PUT": 1, "GET": 2, "create": 1}
        assert (whole.bytes_out, whole.bytes_in) == (5, 10)
        assert (wire.count(began, ended), wire.count(ended, ended + 1)) == (4, 0)
        wire.latency = 0.1
        began = time.monotonic()
        store.get("a")
        assert time.monotonic() - began >= 0.1, "a request waits for as long as was told"
        assert wire.cpu() > 0


def test_requests_side_by_side_are_one_hop(server: Ground) -> None:
    assert server.wire is not None
    store = Store.open(server.place.at("beside"), server.place.options)
    store.get_many(["a"] * 4)  # connections
    server.set_latency(50)
    began = time.perf_counter()
    store.get_many(["a"] * 4)
    store.get_many(["a"] * 4)
    server.set_latency(0)
    tally = server.wire.tally(began, time.perf_counter())
    assert (tally.requests, tally.hops) == (8, 2)


def test_a_server_that_was_emptied_holds_and_counts_nothing() -> None:
    with Wire(None) as wire:
        store = Store.open("s3://lake/x", {**_options(wire)})
        store.put("a", b"1")
        wire.empty()
        assert wire.count(0, time.perf_counter()) == 0
        assert list(store.list("")) == []


def _options(wire: Wire) -> dict[str, str]:
    from benchmarks.commits.places import OPTIONS

    return {**OPTIONS, "aws_endpoint": wire.endpoint}


def test_a_wire_that_is_not_running_says_so() -> None:
    with pytest.raises(RuntimeError, match="not running"):
        Wire("http://127.0.0.1:1").settle()


# -- the systems ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [*LIBRARIES, "quire-log-ungrouped"])
@pytest.mark.parametrize("where", ["disk", "server"])
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


@pytest.mark.parametrize("key", [key for key in KEYS if key.startswith("ducklake")])
def test_ducklake_says_what_is_missing(
    key: str, local: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ducklake, "FOLDER", tmp_path)
    refusal = system(key).refuses(local.place, shared=False)
    assert "PostgreSQL" in refusal if key == "ducklake" else "ducklake.txt" in refusal


@pytest.mark.skipif(bool(ducklake.problem()), reason="DuckLake is installed by `make bench` only")
def test_ducklake_commits(server: Ground, tmp_path: Path) -> None:
    place = Place(server.place.at("ducklake-commits"), server.place.options, str(tmp_path))
    with ForkServer(ducklake.ENVIRONMENT) as started:
        one = started.start()
        one.call("create", "ducklake-sqlite", place, ["t0", "t1"])
        one.call("open", "ducklake-sqlite", place)
        assert one.call("writer", ["t0", "t1"]) == 0
        one.call("commit", 0)
        assert one.call("rows", ["t0", "t1"]) == [2 * ROWS, 2 * ROWS]


# -- processes ------------------------------------------------------------------------------------------------------


def test_a_process_says_what_went_wrong_and_goes_on(processes: ForkServer) -> None:
    one = processes.start()
    with pytest.raises(RuntimeError, match="KeyError: 'abacus'"):
        one.call("open", "abacus", Place("nowhere"))
    one.call("collect")
    one.kill()
    one.kill()


def test_processes_answer_in_their_order_and_die_alone(processes: ForkServer, local: Ground) -> None:
    several = [processes.start() for _ in range(3)]
    for number, one in enumerate(several):
        one.send("create", "lance", local.place.below(str(number)), [f"t{number}"])
    assert gather(several, 60) == [None, None, None]
    several[1].kill()
    for number in (0, 2):
        several[number].call("open", "lance", local.place.below(str(number)))
        assert several[number].call("rows", [f"t{number}"]) == [ROWS]


def test_a_process_that_ends_or_hangs_is_noticed(processes: ForkServer) -> None:
    one = processes.start()
    with pytest.raises(TimeoutError, match="1 of 1 processes did not answer"):
        gather([one], 0.05)
    os.kill(one.pid, 9)
    with pytest.raises(RuntimeError, match="ended instead of answering"):
        one.call("collect")


def test_processes_end_with_their_server() -> None:
    with ForkServer(Environment("bare")) as started:
        one: Remote = started.start()
        one.call("collect")
    until = time.monotonic() + 20
    while alive(one.pid):
        assert time.monotonic() < until, "it was told to die and did not"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_cpu_is_told_by_what_threads_are_for() -> None:
    before = seat.cpu_by_family()
    ended = time.thread_time() + 0.05
    while time.thread_time() < ended:
        pass
    after = seat.cpu_by_family()
    assert sum(after.values()) >= sum(before.values()) + 0.03


def test_an_older_revision_has_its_own_source() -> None:
    try:
        with older.exported("HEAD") as found:
            [folder] = map(Path, found.environment.path)
            assert (folder / "quire" / "__init__.py").exists()
            assert len(found.revision) == 40
        assert not folder.exists()
    except older.NoSuchRevision as problem:
        pytest.skip(f"not a clone: {problem}")


@pytest.mark.parametrize("revision", ["no-such-revision", "--help"])
def test_an_unknown_revision_is_named(revision: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(older.NoSuchRevision), older.exported(revision):
        pass


# -- latency --------------------------------------------------------------------------------------------------------


def test_latency_counts_what_each_commit_sends(server: Ground, servers: latency.Servers) -> None:
    pair = [system("quire-log"), system("lance")]
    found = latency.measure(server, servers, pair, latency=20, widths=(1, 2), most=3, seconds=0.1)
    by = {(r["system"], r["tables"]): r for r in found}
    assert {r["n"] for r in found} == {3}
    assert all(r["p50_ms"] <= r["p99_ms"] for r in found)
    for width in (1, 2):
        plain, quire = by["lance", width], by["quire-log", width]
        assert (plain["requests"], plain["hops"], plain["requests_after"]) == (4 * width, 4 * width, 0)
        assert quire["requests"] <= 3 * width + 1
        assert quire["hops"] <= 4
        assert quire["requests_after"] > 0, "the backfill, after the acknowledgement"
        assert plain["p50_ms"] >= 20 * plain["hops"], "every hop waits for the added latency"
        assert plain["client_cpu_ms"] > 0
        assert set(plain["cpu_cores"]) == {"server", "machine"}


def test_slopes_tell_hops_by_the_clock() -> None:
    points = [(0, 10.0), (5, 31.0), (50, 210.0)]
    one = {"system": "lance", "place": "seaweedfs", "tables": 1, "requests": 4}
    results: list[dict[str, Any]] = [{**one, "latency_ms": latency, "p50_ms": ms} for latency, ms in points]
    on_disk = {"system": "lance", "place": "disk", "tables": 1, "latency_ms": 0, "p50_ms": 1.0}
    [slope] = latency.slopes([*results, on_disk])
    assert (slope["slope"], slope["rest_ms"]) == (4.0, 10.0)
    assert latency.slopes(results[:1]) == []


def test_rows_that_are_missing_end_the_run(processes: ForkServer, local: Ground) -> None:
    one = processes.start()
    one.call("create", "lance", local.place, ["t0"])
    one.call("open", "lance", local.place)
    latency.check("lance", one, "t0", 1)
    with pytest.raises(latency.LostRows, match="lance holds 100 rows, not 200"):
        latency.check("lance", one, "t0", 2)


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
def test_writers_on_one_table_lose_nothing(processes: ForkServer, local: Ground, key: str, kind: str) -> None:
    place = local.place.below("crew")
    one = system(key)
    one.create(place, ["t0"])
    condition = throughput.Condition(3, kind, shared=True)
    looks = iter("ab")
    work, before, after = crew.run(
        processes, key, place, condition.processes, warm_up=20, seconds=0.5, look=lambda: next(looks)
    )
    assert work.acknowledged - len(work.commits) >= 3, "every writer has committed once before the time began"
    assert work.commits
    assert (work.failed, before, after) == (0, "a", "b")
    assert len(work.per_writer) == 3
    assert sum(work.per_writer) == len(work.commits)
    assert "the threads that commit" in work.threads or not Path("/proc").exists()
    rows = one.open(place).rows("t0")
    assert rows >= ROWS * (1 + work.acknowledged)
    assert rows <= ROWS * (1 + work.acknowledged + 3), "at most one commit per writer was under way"


def test_a_writer_that_cannot_open_is_reported(processes: ForkServer, local: Ground) -> None:
    with pytest.raises(RuntimeError, match="NotFound"):
        crew.run(processes, "quire-log", local.place.below("nothing"), [[["t0"]]], warm_up=1, seconds=0.1)


def test_commits_that_fail_are_counted_and_quoted() -> None:
    def fail() -> None:
        raise OSError("no such luck")

    writer = seat._Writer(0, fail)
    writer._commit()
    work = writer.report(0.0, time.monotonic())
    assert (work.commits, work.acknowledged, work.failed, work.problem) == ([], 0, 1, "OSError: no such luck")


def test_throughput_refuses_what_a_system_cannot_do(local: Ground, servers: latency.Servers) -> None:
    condition = throughput.Condition(2, "threads", shared=True)
    [found] = throughput.measure(local, servers, [system("icechunk")], [condition], latency=0, seconds=0.1, warm_up=1)
    assert "not safe" in found["refused"]
    assert "commits_per_second" not in found


def test_throughput_sees_lost_rows(processes: ForkServer, local: Ground) -> None:
    place = local.place.below("lost")
    one: System = system("lance")
    one.create(place, ["t0"])
    keeper = processes.start()
    throughput._check(keeper, one, place, throughput.Condition(1, "threads", shared=False), 0)
    with pytest.raises(latency.LostRows, match="100 rows where 300"):
        throughput._check(keeper, one, place, throughput.Condition(1, "threads", shared=False), 2)


# -- promises -------------------------------------------------------------------------------------------------------


def a_run(**changed: Any) -> dict[str, Any]:
    """A run in which every promise is kept, just so, but for what is changed."""
    now: dict[str, Any] = {"requests": 17, "hops": 2, "quire": 100.0, "threads": 400.0, "processes": 33.0, "least": 4}
    now |= {"ungrouped": 40.0, "busy": 0.5} | changed
    processes = {"kind": "processes", "writers": 64, "latency_ms": 50, "place": "memory"}
    throughputs = [
        {**processes, "system": "quire-log", "shared": False, "commits_per_second": now["processes"]},
        {**processes, "system": "quire-older", "shared": False, "commits_per_second": 3.3},
        {**processes, "system": "lance", "shared": False, "commits_per_second": 66.0},
        *[
            {**processes, "writers": n, "system": "quire-log", "shared": True, "per_writer": [now["least"], 12.0, 20]}
            for n in (12, 64)
        ],
        {
            **{**processes, "kind": "threads", "system": "quire-log", "shared": False},
            "commits_per_second": now["threads"],
            "cpu_cores": {"clients": now["busy"], "server": now["busy"]},
        },
    ]
    grouped = {"writers": 64, "latency_ms": 50}
    return {
        "machine": {"cores": 2},
        "latency": [
            {"system": "quire-log", "tables": 8, "latency_ms": 5, "requests": 99, "hops": 9},
            {"system": "quire-log", "tables": 8, "latency_ms": 50, "requests": now["requests"], "hops": now["hops"]},
        ],
        "pair": [
            {"system": "quire-log", "tables": 8, "latency_ms": 50, "p50_ms": now["quire"]},
            {"system": "lance", "tables": 8, "latency_ms": 50, "p50_ms": 1200.0},
        ],
        "throughput": throughputs,
        "grouping": {
            "runs": [
                {**grouped, "system": "quire-log", "commits_per_second": 400.0},
                {**grouped, "system": "quire-log-ungrouped", "commits_per_second": now["ungrouped"]},
            ]
        },
    }


def verdicts(run: dict[str, Any]) -> list[bool | None]:
    return [p["kept"] for p in promises.judge(run)]


def test_promises_are_kept_just_so() -> None:
    found = promises.judge(a_run())
    values = [17, 2, 12.0, 400.0, pytest.approx(10.0), pytest.approx(0.5), 3.0, 3.0, 10.0]
    assert [p["value"] for p in found] == values
    assert [p["kept"] for p in found] == [True] * 5 + [None] + [True] * 3, "the goal breaks nothing"
    assert [p["promise"] for p in found if p.get("goal")] == [found[5]["promise"]]


@pytest.mark.parametrize(
    ("changed", "broken"),
    [
        ({"requests": 18}, [0]),
        ({"hops": 3}, [1]),
        ({"quire": 101.0}, [2]),
        ({"threads": 399.0}, [3]),
        ({"processes": 32.9}, [4]),
        ({"least": 3}, [6, 7]),
        ({"least": 0}, [6, 7]),
        ({"ungrouped": 41.0}, [8]),
    ],
)
def test_promises_are_broken_by_the_numbers(changed: dict[str, Any], broken: list[int]) -> None:
    assert [n for n, kept in enumerate(verdicts(a_run(**changed))) if kept is False] == broken


def test_fewer_commits_are_enough_where_no_core_is_left() -> None:
    [kept] = [p for p in promises.judge(a_run(threads=300.0, busy=0.9)) if "400" in f"{p['limit']:g}"]
    assert kept["kept"]
    assert "90% of the cores were theirs" in kept["promise"]


def test_a_promise_without_numbers_is_not_measured() -> None:
    run = {"machine": {"cores": 2}, "latency": [], "throughput": []}
    assert set(verdicts(run)) == {None}


# -- the whole ------------------------------------------------------------------------------------------------------


def test_the_systems_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == KEYS


def test_an_unknown_system_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--only", "abacus"])
    assert "there is no system 'abacus'" in capsys.readouterr().err


def test_every_system_has_a_colour_and_a_name() -> None:
    keys = {one.key for one in (*SYSTEMS, *APART)} - {"quire-log-ungrouped"}
    assert set(plot.COLOURS) == set(plot.LABELS) == keys
    assert all(plot.colour(name).startswith("#") for name in plot.COLOURS.values())
    assert len({plot.colour(name) for name in plot.COLOURS.values()}) == len(keys)


@pytest.mark.full  # its parts are measured above
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
    assert {(r["place"], r["latency_ms"]) for r in found["latency"]} == {
        ("disk", 0),
        ("seaweedfs", 0),
        ("seaweedfs", 5),
    }
    assert {r["place"] for r in found["throughput"]} == {"disk", "memory"}
    assert {r["kind"] for r in found["throughput"]} == {"threads", "processes"}
    assert {r["system"] for r in found["grouping"]["runs"]} == {"quire-log", "quire-log-ungrouped"}
    assert found["grouping"]["ceiling"]["requests_per_second"] > 0
    assert found["slopes"]
    assert found["machine"]["versions"]["pylance"]
    assert found["command"].endswith("--only quire-log --only lance")
    for text in (
        "One commit over T tables",
        "Commits per second",
        "Group commit",
        "What must come out",
        "Share of the",
    ):
        assert text in ended.stdout
    assert file.with_suffix(".svg").read_text().startswith("<?xml")
    assert file.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
