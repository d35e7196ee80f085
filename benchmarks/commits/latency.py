"""How long one writer waits for one commit, and what it sends meanwhile.

Every system has a process of its own. They take turns, in an order that is drawn for every round, so that whatever else
this machine does hits all alike, and none has always the same one before it. A turn is a few commits in a row, of which
the first does not count: it is about a writer that commits again and again, not about what the others have pushed out
of the caches. What a system does behind its commits, and the garbage that it leaves, are seen to outside the time; the
requests are counted apart.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.commits.fork_server import ForkServer, Remote
from benchmarks.commits.numbers import in_ms, p50, p99
from benchmarks.commits.passed import Tally
from benchmarks.commits.places import Ground
from benchmarks.commits.seat import Commit
from benchmarks.commits.systems import ROWS, System

WARM_UP = 1
IN_A_ROW = 3
"""Commits of one turn that count."""

Say = Callable[[str], None]
Servers = Mapping[str, ForkServer]
"""By the name of their environment."""


class LostRows(Exception):
    """A table does not hold what was acknowledged: nothing measured on it counts."""


@dataclass
class _Runner:
    """One system in one condition."""

    system: System
    seat: Remote
    writer: int
    commits: list[Commit] = field(default_factory=list)
    before: list[Tally] = field(default_factory=list)
    """What passed the wire until the commit was acknowledged."""
    after: list[int] = field(default_factory=list)
    """How many requests followed."""
    cpu: dict[str, float] = field(default_factory=dict)
    """Seconds of CPU during its turns, by whom."""
    turns: float = 0.0
    """Seconds that its turns took, with what goes on behind the commits."""

    def turn(self, ground: Ground, *, counts: bool) -> None:
        wire = ground.wire
        self.seat.call("collect")
        for number in range(1 + IN_A_ROW):
            began, before = time.perf_counter(), ground.cpu()
            commit: Commit = self.seat.call("commit", self.writer)
            if wire:
                wire.settle()
            ended, after = time.perf_counter(), ground.cpu()
            if not counts or not number:
                continue
            self.commits.append(commit)
            self.turns += ended - began
            for name, seconds in after.items():
                self.cpu[name] = self.cpu.get(name, 0.0) + seconds - before[name]
            if wire:
                self.before.append(wire.tally(commit.began, commit.ended))
                self.after.append(wire.count(commit.ended, ended))

    def result(self, ground: Ground, latency: float, tables: int) -> dict[str, Any]:
        seconds = [commit.ended - commit.began for commit in self.commits]
        found: dict[str, Any] = {
            "system": self.system.key,
            "atomic": self.system.atomic,
            "place": ground.name,
            "latency_ms": latency,
            "tables": tables,
            "n": len(seconds),
            "p50_ms": in_ms(p50(seconds)),
            "p99_ms": in_ms(p99(seconds)),
            "client_cpu_ms": in_ms(p50([commit.cpu for commit in self.commits])),
            "cpu_cores": {name: round(taken / self.turns, 3) for name, taken in self.cpu.items()},
        }
        if self.before:
            found |= {
                "requests": p50([tally.requests for tally in self.before]),
                "hops": p50([tally.hops for tally in self.before]),
                "requests_after": p50(self.after),
                "bytes_out": p50([tally.bytes_out for tally in self.before]),
                "bytes_in": p50([tally.bytes_in for tally in self.before]),
            }
        return found


def measure(
    ground: Ground,
    servers: Servers,
    systems: Sequence[System],
    *,
    latency: float,
    widths: Sequence[int],
    most: int,
    seconds: float,
    say: Say = lambda _: None,
) -> list[dict[str, Any]]:
    """Commits over so many tables (`widths`), at most `most` rounds and about `seconds` each, with `latency` in ms."""
    names = [f"t{n}" for n in range(max(widths))]
    ground.set_latency(0)
    seats: dict[str, Remote] = {}
    results = []
    systems = [system for system in systems if not system.refuses(ground.place, shared=False)]
    folder = f"latency-{latency:g}-{time.monotonic_ns()}"
    try:
        for system in systems:
            say(f"{ground.name} {latency:g} ms: tables of {system.title}")
            place = ground.place.below(folder, system.key)
            seat = seats[system.key] = servers[system.environment.name].start()
            seat.call("create", system.key, place, names)
            seat.call("open", system.key, place)
        written = dict.fromkeys(seats, 1)
        order = random.Random(int(latency))
        for width in widths:
            runners = [_Runner(s, seats[s.key], seats[s.key].call("writer", names[:width])) for s in systems]
            ground.set_latency(latency)
            until = time.monotonic() + seconds
            done = 0
            while done < WARM_UP + 1 or (time.monotonic() < until and done < WARM_UP + most // IN_A_ROW):
                say(f"{ground.name} {latency:g} ms, {width} tables: round {done + 1}")
                for runner in order.sample(runners, len(runners)):
                    runner.turn(ground, counts=done >= WARM_UP)
                    written[runner.system.key] += 1 + IN_A_ROW
                done += 1
            ground.set_latency(0)
            results += [runner.result(ground, latency, width) for runner in runners]
        for key, seat in seats.items():
            check(key, seat, names[0], written[key])
            seat.call("close")
    finally:
        for seat in seats.values():
            seat.kill()
    return results


def check(key: str, seat: Remote, table: str, written: int) -> None:
    """Raise unless a table holds the rows of so many batches."""
    [rows] = seat.call("rows", [table])
    if rows != ROWS * written:
        raise LostRows(f"{key} holds {rows} rows, not {ROWS * written}")


def slopes(results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Hops by the clock: by how much p50 rises per millisecond of added latency, on the server with a wire.

    It is what a commit waits for one after the other, whatever the requests look like on the wire.
    """
    found = []
    keys = list(dict.fromkeys((r["system"], r["place"], r["tables"]) for r in results if "requests" in r))
    for system, place, tables in keys:
        own = [r for r in results if (r["system"], r["place"], r["tables"]) == (system, place, tables)]
        points = sorted((r["latency_ms"], r["p50_ms"]) for r in own)
        (x0, y0), (x1, y1) = points[0], points[-1]
        if x1 > x0:
            slope = round((y1 - y0) / (x1 - x0), 2)
            found.append({"system": system, "place": place, "tables": tables, "slope": slope, "rest_ms": y0})
    return found
