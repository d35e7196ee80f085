"""How long one writer waits for one commit, and what it sends meanwhile.

The systems take turns, in an order that is drawn for every round, so that whatever else this machine does hits all
alike, and none has always the same one before it. A turn is a few commits in a row, of which the first does not count:
it is about a writer that commits again and again, not about what the others have pushed out of the caches. What a
system does behind its commits, and the garbage that it leaves, are seen to outside the time; the requests are counted
apart.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.commits.numbers import in_ms, p50, p99
from benchmarks.commits.places import Ground
from benchmarks.commits.systems import ROWS, Client, System, Write
from benchmarks.commits.wire import Tally

WARM_UP = 1
IN_A_ROW = 3
"""Commits of one turn that count."""

Say = Callable[[str], None]


class LostRows(Exception):
    """A table does not hold what was acknowledged: nothing measured on it counts."""


@dataclass
class _Runner:
    """One system in one condition."""

    system: System
    client: Client
    write: Write
    seconds: list[float] = field(default_factory=list)
    before: list[Tally] = field(default_factory=list)
    """What passed the wire until the commit was acknowledged."""
    after: list[int] = field(default_factory=list)
    """How many requests followed."""

    def commit(self, ground: Ground, *, counts: bool) -> None:
        wire = ground.wire
        start = wire.mark() if wire else 0
        began = time.perf_counter()
        self.write()
        seconds = time.perf_counter() - began
        acknowledged = wire.mark() if wire else 0
        self.client.settle()
        if not counts:
            return
        self.seconds.append(seconds)
        if wire:
            wire.settle()
            self.before.append(wire.tally(start, acknowledged))
            self.after.append(wire.total(acknowledged))

    def result(self, ground: Ground, latency: float, tables: int) -> dict[str, Any]:
        found: dict[str, Any] = {
            "system": self.system.key,
            "atomic": self.system.atomic,
            "place": ground.name,
            "latency_ms": latency,
            "tables": tables,
            "n": len(self.seconds),
            "p50_ms": in_ms(p50(self.seconds)),
            "p99_ms": in_ms(p99(self.seconds)),
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
    clients: dict[str, Client] = {}
    for system in systems:
        say(f"{ground.name} {latency:g} ms: tables of {system.title}")
        place = ground.place.below(f"latency-{latency:g}", system.key)
        system.create(place, names)
        clients[system.key] = system.open(place)
    written = dict.fromkeys(clients, 1)
    order = random.Random(int(latency))
    results = []
    for width in widths:
        runners = [_Runner(s, clients[s.key], clients[s.key].writer(names[:width])) for s in systems]
        ground.set_latency(latency)
        until = time.monotonic() + seconds
        done = 0
        while done < WARM_UP + 1 or (time.monotonic() < until and done < WARM_UP + most // IN_A_ROW):
            say(f"{ground.name} {latency:g} ms, {width} tables: round {done + 1}")
            for runner in order.sample(runners, len(runners)):
                gc.collect()
                for number in range(1 + IN_A_ROW):
                    runner.commit(ground, counts=number > 0 and done >= WARM_UP)
                    written[runner.system.key] += 1
            done += 1
        ground.set_latency(0)
        results += [runner.result(ground, latency, width) for runner in runners]
    for key, client in clients.items():
        if client.rows(names[0]) != ROWS * written[key]:
            raise LostRows(f"{key} holds {client.rows(names[0])} rows, not {ROWS * written[key]}")
        client.close()
    return results
