"""How much one actor, and all together, may have under way. What is beyond it is told to come again: 429."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from quire.errors import Throttled

if TYPE_CHECKING:
    from quire.server.config import Limits

KNOWN = 10_000
"""Actors whose rates are remembered: the latest."""


class InFlight:
    """What is under way now. It belongs to the event loop."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.requests = 0
        self.writes = 0
        self._of: Counter[str] = Counter()
        self._writes_of: Counter[str] = Counter()
        self._rates: OrderedDict[str, tuple[float, float]] = OrderedDict()

    @contextmanager
    def taken(self, actor: str, *, writes: bool) -> Iterator[None]:
        """A place for one request, or `Throttled`."""
        limits = self._limits
        self._paced(actor)
        if self.requests >= limits.in_flight:
            raise _throttled(f"{limits.in_flight} requests are under way", 1)
        if self._of[actor] >= limits.requests_per_actor:
            raise _throttled(f"{limits.requests_per_actor} requests of {actor!r} are under way", 1)
        if writes and self._writes_of[actor] >= limits.writes_per_actor:
            raise _throttled(f"{limits.writes_per_actor} writes of {actor!r} are under way", 1)
        self.requests += 1
        self._of[actor] += 1
        self.writes += writes
        self._writes_of[actor] += writes
        try:
            yield
        finally:
            self.requests -= 1
            self.writes -= writes
            for counts, count in ((self._of, 1), (self._writes_of, int(writes))):
                counts[actor] -= count
                if not counts[actor]:
                    del counts[actor]

    def _paced(self, actor: str) -> None:
        """Let through what a bucket of one second's requests holds."""
        rate = self._limits.requests_per_second
        if not rate:
            return
        now = time.monotonic()
        left, since = self._rates.pop(actor, (max(rate, 1.0), now))
        left = min(max(rate, 1.0), left + (now - since) * rate)
        granted = left >= 1.0
        self._rates[actor] = (left - granted, now)
        while len(self._rates) > KNOWN:
            self._rates.popitem(last=False)
        if not granted:
            raise _throttled(f"{actor!r} asks more than {rate:g} times a second", (1.0 - left) / rate)


def _throttled(what: str, seconds: float) -> Throttled:
    return Throttled(f"Too much at once: {what}.", next="Ask again after Retry-After.", retry_after=seconds)
