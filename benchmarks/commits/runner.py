"""Everything in one run: how much is measured, where, and in which order."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.commits import ducklake, grouping, latency, ledgers, older, postgres, systems, throughput
from benchmarks.commits.fork_server import Environment, ForkServer
from benchmarks.commits.latency import Say, Servers
from benchmarks.commits.places import bucket, disk, memory
from benchmarks.commits.systems import System
from benchmarks.commits.throughput import Condition

ALONE = ("quire-log", "lance")
"""Whose ratio is promised: measured first, without the others."""
OLDER = "quire-older"
NO_CROWDS = ("quire-manifest", "ducklake-sqlite")
"""Measured alone only: the one shares its protocol with the log, the other locks its whole database."""
SQLITE = "DuckLake with SQLite has no number for many writers: each locks the whole database, and most give up on it."


@dataclass(frozen=True)
class Crowds:
    """Writers at the same time at 50 ms: which, and seconds of measuring and of warming up at most."""

    threads: tuple[int, ...]
    processes: tuple[int, ...]
    shared_processes: tuple[int, ...]
    seconds: float
    process_seconds: float
    warm_up: float
    repetitions: int = 1

    @property
    def conditions(self) -> list[tuple[Condition, float]]:
        """Each with how long it is measured."""
        threads = [(one, self.seconds) for one in throughput.conditions(self.threads, ("threads",))]
        own = [Condition(n, "processes", shared=False) for n in self.processes]
        shared = [Condition(n, "processes", shared=True) for n in self.shared_processes]
        return threads + [(one, self.process_seconds) for one in own + shared]


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    widths: tuple[int, ...]
    rounds: int
    disk_seconds: float
    latencies: dict[float, float]
    """Milliseconds added to a request, and for how many seconds each number of tables is measured there."""
    pair: dict[float, float]
    """The same for Quire and pylance alone."""
    disk_threads: tuple[int, ...]
    disk_window: float
    crowds: Crowds
    group: tuple[int, float, float, int] | None
    """Writers, seconds, longest warm-up and repetitions for group commit at 50 ms."""
    depths: tuple[int, ...]
    ledger_commits: int


FULL = Size(
    widths=(1, 2, 8),
    rounds=100,
    disk_seconds=10,
    latencies={0: 14, 5: 24, 50: 40},
    pair={5: 20, 50: 40},
    disk_threads=(1, 16, 64),
    disk_window=2.0,
    crowds=Crowds((1, 16, 64, 128), (4, 16, 64), (4, 12, 16, 64), 4.0, 10.0, 15.0),
    group=(64, 4.0, 10.0, 3),
    depths=(20, 1000),
    ledger_commits=30,
)
QUICK = Size(
    widths=(1, 8),
    rounds=12,
    disk_seconds=0.5,
    latencies={5: 1},
    pair={50: 7},
    disk_threads=(),
    disk_window=0.5,
    crowds=Crowds((64,), (16,), (), 2.0, 4.0, 4.0),
    group=None,
    depths=(),
    ledger_commits=8,
)
TINY = Size(
    widths=(1, 2),
    rounds=3,
    disk_seconds=0.1,
    latencies={0: 0.1, 5: 0.1},
    pair={5: 0.1},
    disk_threads=(2,),
    disk_window=0.3,
    crowds=Crowds((2,), (2,), (2,), 0.3, 0.3, 2.0),
    group=(4, 0.5, 2.0, 1),
    depths=(3,),
    ledger_commits=3,
)
SIZES = {"full": FULL, "quick": QUICK, "tiny": TINY}


def run(size: Size, chosen: Sequence[System], say: Say, *, old: str | None = None) -> dict[str, Any]:
    """Measure everything. `old` is a revision of this repository to be measured beside the others."""
    found: dict[str, Any] = {"latency": [], "throughput": []}
    common: dict[str, Any] = {"warm_up": size.crowds.warm_up, "say": say}
    alone: dict[str, Any] = {"widths": size.widths, "most": size.rounds, "say": say}
    with contextlib.ExitStack() as opened:
        say("starting servers and environments")
        wants_postgres = any(system.environment is ducklake.ENVIRONMENT for system in chosen)
        database = opened.enter_context(postgres.running()) if wants_postgres else None
        environments = [system.environment for system in chosen]
        crowd = [system for system in chosen if system.key not in NO_CROWDS]
        if old is not None:
            before = opened.enter_context(older.exported(old))
            found["older"] = {"revision": before.revision, "date": before.date}
            environments.append(before.environment)
            crowd.insert(1, systems.system(OLDER))
        servers = {one.name: opened.enter_context(ForkServer(one)) for one in _apart(environments)}
        _alone(size, servers, chosen, found, say)
        with disk(postgres=database) as ground:
            found["latency"] += latency.measure(ground, servers, chosen, latency=0, seconds=size.disk_seconds, **alone)
            wanted = throughput.conditions(size.disk_threads, ("threads",))
            found["throughput"] += throughput.measure(
                ground, servers, crowd, wanted, latency=0, seconds=size.disk_window, **common
            )
        with bucket(database) as ground:
            for added, seconds in size.latencies.items():
                found["latency"] += latency.measure(ground, servers, chosen, latency=added, seconds=seconds, **alone)
            if size.depths and {"quire-log", "quire-manifest"} <= {system.key for system in chosen}:
                found["ledgers"] = ledgers.measure(
                    ground, depths=size.depths, latency=5, commits=size.ledger_commits, say=say
                )
        with memory(database) as ground:
            for condition, seconds in size.crowds.conditions:
                found["throughput"] += throughput.measure(
                    ground,
                    servers,
                    crowd,
                    [condition],
                    latency=50,
                    seconds=seconds,
                    repetitions=size.crowds.repetitions,
                    **common,
                )
                assert ground.wire is not None
                ground.wire.empty()
            if size.group and "quire-log" in [system.key for system in chosen]:
                writers, window, warm_up, repetitions = size.group
                found["grouping"] = grouping.measure(
                    ground,
                    servers,
                    latency=50,
                    writers=writers,
                    seconds=window,
                    warm_up=warm_up,
                    repetitions=repetitions,
                    say=say,
                )
    found["slopes"] = latency.slopes(found["latency"])
    found["notes"] = _notes(found, chosen)
    return found


def _apart(environments: Sequence[Environment]) -> Iterator[Environment]:
    """Each once."""
    yield from {environment.name: environment for environment in environments}.values()


def _alone(size: Size, servers: Servers, chosen: Sequence[System], found: dict[str, Any], say: Say) -> None:
    pair = [system for system in chosen if system.key in ALONE]
    if len(pair) < 2:
        return
    widths = (size.widths[0], size.widths[-1])
    with bucket() as ground:
        found["pair"] = [
            result
            for added, seconds in size.pair.items()
            for result in latency.measure(
                ground, servers, pair, latency=added, widths=widths, most=60, seconds=seconds, say=say
            )
        ]


def _notes(found: dict[str, Any], chosen: Sequence[System]) -> list[str]:
    """What could not be measured and what was given up on, each said once."""
    lines = []
    keys = {system.key for system in chosen}
    if "ducklake-sqlite" in keys:
        lines.append(SQLITE)
    for system in chosen:
        if not any(r["system"] == system.key for r in found["latency"]):
            lines.append(f"{system.title} was not measured: {ducklake.problem() or 'no PostgreSQL server was found'}.")
    for r in found["throughput"]:
        title = systems.system(r["system"]).title
        where = f"{r['place']} {r['latency_ms']:g} ms, {r['writers']} {r['kind']}{', one table' if r['shared'] else ''}"
        if "refused" in r:
            lines.append(f"{title}: no number ({where}): {r['refused']}")
        elif r["failed"]:
            lines.append(f"{title}: gave up on {r['failed']} commits ({where}): {r['problem']}")
    return list(dict.fromkeys(lines))
