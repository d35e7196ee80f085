"""The two ledgers of Quire, after a long history: what a commit and a cold open take, in turn on both.

Without backfill, which is the same for both and would hide the difference.
"""

from __future__ import annotations

import time
from typing import Any

from benchmarks.commits.latency import Say
from benchmarks.commits.numbers import in_ms, p50, p99
from benchmarks.commits.passed import Tally
from benchmarks.commits.places import Ground
from benchmarks.commits.systems import batch

import quire

LEDGERS = ("log", "manifest")
TABLES = 8
OPENS = 5


def measure(
    ground: Ground, *, depths: tuple[int, ...], latency: float, commits: int, say: Say = lambda _: None
) -> list[dict[str, Any]]:
    """Grow one lake per ledger to each depth without latency; there, measure `commits` commits and some cold opens."""
    assert ground.wire is not None
    wire = ground.wire
    options = ground.place.options
    lakes = {}
    ground.set_latency(0)
    for ledger in LEDGERS:
        uri = ground.place.at("ledgers", ledger)
        lake = lakes[ledger] = quire.create(uri, storage_options=options, ledger=ledger, backfill=False)  # type: ignore[arg-type]
        with lake.transaction("tables") as tx:
            for n in range(TABLES):
                tx.create_table(f"t{n}", batch())
    results = []
    for depth in depths:
        built = {}
        for ledger, lake in lakes.items():
            began, before = time.monotonic(), _slot(lake)
            while (slot := _slot(lake)) < depth:
                if slot % 50 == 0:
                    say(f"{ledger} ledger: slot {slot} of {depth}")
                _append(lake, slot)
            lake.flush()
            built[ledger] = in_ms((time.monotonic() - began) / max(1, depth - before))
        ground.set_latency(latency)
        kept: dict[str, list[tuple[float, Tally, int]]] = {ledger: [] for ledger in LEDGERS}
        opened: dict[str, list[tuple[float, Tally]]] = {ledger: [] for ledger in LEDGERS}
        for number in range(commits + 1):
            say(f"ledgers at {depth} slots, {latency:g} ms: commit {number} of {commits}")
            for ledger, lake in lakes.items():
                began = time.perf_counter()
                _append(lake, number)
                ended = time.perf_counter()
                lake.flush()
                wire.settle()
                if number:  # the first one warms up
                    after = wire.count(ended, time.perf_counter())
                    kept[ledger].append((ended - began, wire.tally(began, ended), after))
        for _ in range(OPENS):
            for ledger, lake in lakes.items():
                began = time.perf_counter()
                quire.open(lake.uri, storage_options=options, read_only=True).close()
                ended = time.perf_counter()
                opened[ledger].append((ended - began, wire.tally(began, ended)))
        ground.set_latency(0)
        for ledger in LEDGERS:
            head = {"ledger": ledger, "depth": depth, "latency_ms": latency, "build_ms_per_commit": built[ledger]}
            results.append({**head, **_summary(kept[ledger], opened[ledger])})
    for lake in lakes.values():
        lake.close()
    return results


def _slot(lake: quire.Lake) -> int:
    return int(lake.head.partition(".")[0])


def _append(lake: quire.Lake, number: int) -> None:
    with lake.transaction("append") as tx:
        tx[f"t{number % TABLES}"].append(batch())


def _summary(kept: list[tuple[float, Tally, int]], opened: list[tuple[float, Tally]]) -> dict[str, Any]:
    times = [seconds for seconds, _, _ in kept]
    tallies = [tally for _, tally, _ in kept]
    return {
        "n": len(kept),
        "p50_ms": in_ms(p50(times)),
        "p99_ms": in_ms(p99(times)),
        "requests": p50([t.requests for t in tallies]),
        "hops": p50([t.hops for t in tallies]),
        "bytes_in": p50([t.bytes_in for t in tallies]),
        "bytes_out": p50([t.bytes_out for t in tallies]),
        "requests_after": p50([after for _, _, after in kept]),
        "open_ms": in_ms(p50([seconds for seconds, _ in opened])),
        "open_requests": p50([t.requests for _, t in opened]),
        "open_hops": p50([t.hops for _, t in opened]),
        "open_bytes_in": p50([t.bytes_in for _, t in opened]),
    }
