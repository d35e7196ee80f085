"""Everything in one run: how much is measured, where, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.commits import grouping, latency, ledgers, promises, systems, throughput
from benchmarks.commits.latency import Say
from benchmarks.commits.places import bucket, disk
from benchmarks.commits.systems import System

from quire.testing.s3 import Ministack, SeaweedFS

DUCKLAKE = (
    "DuckLake is not among them: its extension for DuckDB 2 is only downloaded, and the one on PyPI belongs to "
    "DuckDB 1.5, which Quire does not run on. icechunk stands in its place."
)


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    widths: tuple[int, ...]
    rounds: int
    disk_seconds: float
    latencies: dict[float, float]
    """Milliseconds added to a request, and for how many seconds each number of tables is measured there."""
    writers: tuple[int, ...]
    windows: dict[float, tuple[float, tuple[str, ...]]]
    """The same for throughput: seconds per measurement, and whether with threads, processes or both."""
    disk_window: float
    warm_up: float
    group: tuple[int, float, float, int]
    """Writers, seconds, longest warm-up and repetitions for group commit at 50 ms."""
    depths: tuple[int, ...]
    ledger_commits: int
    pair: tuple[tuple[int, ...], int, float]
    """Quire and pylance alone at 5 ms: numbers of tables, most commits, and seconds for each."""


BOTH = ("threads", "processes")
FULL = Size(
    widths=(1, 2, 8),
    rounds=100,
    disk_seconds=8,
    latencies={0: 10, 5: 22, 50: 26},
    writers=(1, 8, 64),
    windows={0: (1.0, ("threads",)), 5: (1.0, ("threads",)), 50: (3.0, BOTH)},
    disk_window=1.0,
    warm_up=2.5,
    group=(64, 4.0, 10.0, 3),
    depths=(20, 1000),
    ledger_commits=30,
    pair=((1, 8), 60, 20),
)
QUICK = Size(
    widths=(1, 8),
    rounds=20,
    disk_seconds=2,
    latencies={0: 2, 5: 6},
    writers=(1, 8),
    windows={5: (0.5, ("threads",))},
    disk_window=0.5,
    warm_up=1.5,
    group=(64, 2.0, 6.0, 1),
    depths=(20, 100),
    ledger_commits=8,
    pair=((1, 8), 30, 10),
)
TINY = Size(
    widths=(1, 2),
    rounds=3,
    disk_seconds=0.1,
    latencies={5: 0.1},
    writers=(1, 2),
    windows={5: (0.3, BOTH)},
    disk_window=0.3,
    warm_up=1.0,
    group=(4, 0.5, 2.0, 1),
    depths=(3,),
    ledger_commits=3,
    pair=((1, 2), 3, 0.1),
)
SIZES = {"full": FULL, "quick": QUICK, "tiny": TINY}


def run(size: Size, chosen: Sequence[System], say: Say) -> dict[str, Any]:
    """Measure everything and judge it."""
    keys = {system.key for system in chosen}
    found: dict[str, Any] = {"latency": [], "throughput": []}
    wanted = throughput.conditions(size.writers, BOTH)
    common: dict[str, Any] = {"warm_up": size.warm_up, "say": say}
    pair = [system for system in chosen if system.key in ("quire-log", "lance")]
    if len(pair) == 2:
        # First, and without the others: what is promised is a ratio of these two, and each library that is loaded
        # brings threads and memory of its own.
        with bucket(SeaweedFS) as ground:
            widths, most, seconds = size.pair
            found["pair"] = latency.measure(ground, pair, latency=5, widths=widths, most=most, seconds=seconds, say=say)
    with disk() as ground:
        found["latency"] += latency.measure(
            ground, chosen, latency=0, widths=size.widths, most=size.rounds, seconds=size.disk_seconds, say=say
        )
        found["throughput"] += throughput.measure(ground, chosen, wanted, latency=0, seconds=size.disk_window, **common)
    with bucket(SeaweedFS) as ground:
        for added, seconds in size.latencies.items():
            found["latency"] += latency.measure(
                ground, chosen, latency=added, widths=size.widths, most=size.rounds, seconds=seconds, say=say
            )
        if {"quire-log", "quire-manifest"} <= keys:
            found["ledgers"] = ledgers.measure(
                ground, depths=size.depths, latency=5, commits=size.ledger_commits, say=say
            )
    with bucket(Ministack) as ground:
        for added, (window, kinds) in size.windows.items():
            wanted = throughput.conditions(size.writers, kinds)
            found["throughput"] += throughput.measure(ground, chosen, wanted, latency=added, seconds=window, **common)
        if "quire-log" in keys:
            writers, window, warm_up, repetitions = size.group
            found["grouping"] = grouping.measure(
                ground,
                latency=50,
                writers=writers,
                seconds=window,
                warm_up=warm_up,
                repetitions=repetitions,
                say=say,
            )
    found["promises"] = promises.judge(found)
    found["notes"] = [DUCKLAKE, *_refusals(found["throughput"])]
    return found


def _refusals(results: Sequence[dict[str, Any]]) -> list[str]:
    """What could not be measured and what was given up on, each said once."""
    lines = []
    for r in results:
        title = systems.system(r["system"]).title
        where = f"{r['place']} {r['latency_ms']:g} ms, {r['writers']} {r['kind']}{', one table' if r['shared'] else ''}"
        if "refused" in r:
            lines.append(f"{title}: no number on {r['place']} for concurrent writers: {r['refused']}")
        elif r["failed"]:
            lines.append(f"{title}: gave up on {r['failed']} commits ({where}): {r['problem']}")
    return list(dict.fromkeys(lines))
