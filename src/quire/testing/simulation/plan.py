"""What goes wrong in one history, drawn from its seed."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

from quire.store import Entry
from quire.testing.simulation.bucket import Fault, Faults
from quire.testing.simulation.scheduler import Process

_SLOT = re.compile(r"_quire/log/[^/]+/\d{20}$")


class Plan(Faults):
    """Faults of every kind, at rates that differ from history to history; at least one for certain."""

    def __init__(self, rng: random.Random, now: Callable[[], float]) -> None:
        self._rng, self._now = rng, now
        self._rate = rng.choice((0.0, 0.002, 0.01, 0.03))
        self._slot_rate = rng.choice((0.0, 0.05, 0.15, 0.3))
        self._stage_rate = rng.choice((0.0, 0.0, 0.03, 0.1))
        """How often a state of a table cannot be written, so that one member of a group fails."""
        self._quick = rng.choice((0.2, 0.5, 0.8))
        """The share of requests that take no time."""
        self._slow_slots = rng.choice((0.5, 0.95))
        """The share of slots whose writing takes so long that others of the process come to wait for the next."""
        self._stalls = rng.choice((0.0, 0.003, 0.01))
        self._page = rng.choice((2, 9, 1000))
        self._offer_rate = rng.choice((0.0, 0.1, 0.3))
        """How often an offer goes wrong, and how often a listing of offers is late or shows one twice."""
        self._certain = rng.randint(5, 150)
        self._requests = 0
        self.drawn = 0

    def draw(self, process: Process, verb: str, key: str) -> Fault | None:
        self._requests += 1
        fault = self._draw(process, verb, key)
        if fault is not None:
            self.drawn += 1
        return fault

    def _draw(self, process: Process, verb: str, key: str) -> Fault | None:
        rng = self._rng
        if process.crash_at is not None and process.requests >= process.crash_at:
            return rng.choice(("crash before", "crash after"))
        writes = verb in ("put", "create", "delete")
        if verb == "create" and _SLOT.search(key):
            if rng.random() < (max(self._slot_rate, 0.1) if process.crowd else self._slot_rate):
                return rng.choice(("before", "after", "after", "late", "twice", "cut", "cut", "cut", "crash after"))
        elif verb == "create" and process.crowd and "/versions/" in key and rng.random() < self._stage_rate:
            return "denied"
        elif verb == "put" and "_quire/offers/" in key and rng.random() < self._offer_rate:
            return rng.choice(
                ("before", "after", "late", "twice", "cut", "cut", "cut", "cut", "crash before", "crash after")
            )
        elif verb == "put" and "/hint" in key and rng.random() < 0.1:
            return "late"
        if rng.random() < self._rate / 10:
            return "cut"
        if rng.random() < self._rate or (self.drawn == 0 and self._requests >= self._certain):
            return rng.choice(("before", "after", "late", "twice", "denied") if writes else ("before",))
        return None

    def latency(self, process: Process, verb: str, key: str) -> float:
        rng = self._rng
        chance = rng.random()
        if chance > 1 - self._stalls:
            seconds = rng.uniform(0.5, 5) if rng.random() < 0.8 else rng.uniform(5, 200)
            if rng.random() < 0.4:
                process.frozen_until = max(process.frozen_until, self._now() + seconds)
            return seconds
        if verb == "create" and _SLOT.search(key) and rng.random() < self._slow_slots:
            return rng.uniform(0.02, 0.3)
        return 0.0 if chance < self._quick else rng.uniform(0.002, 0.05)

    def lateness(self) -> float:
        return self._rng.choice((0.05, 1.0, 10.0, 120.0)) * self._rng.uniform(0.2, 2)

    def outage(self) -> float:
        return self._rng.choice((0.3, 2.0, 10.0, 40.0)) * self._rng.uniform(0.5, 1.5)

    def page(self) -> int:
        return self._page

    def listed(self, folder: str, page: Sequence[Entry]) -> Sequence[Entry]:
        """Listings of offers may be late, and show an object twice: nothing rests on them."""
        if "_quire/offers" not in folder or self._rng.random() >= self._offer_rate:
            return page
        return [entry for entry in page for _ in range(self._rng.choice((0, 1, 2)))] or page
