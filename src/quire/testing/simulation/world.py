"""A world for `quire.store.clock`: virtual time, seeded chance, tasks for threads, one bucket of objects."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from quire.store import clock
from quire.testing.simulation.bucket import Bucket, Faults, Trace
from quire.testing.simulation.scheduler import Condition, Lock, Process, Scheduler

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)


class SimulatedWorld(clock.World):
    """Everything that happens in one history, and nothing outside it."""

    simulated = True

    def __init__(self, seed: int, *, faults: Faults | None = None, limit: int = 200_000, keep: bool = False) -> None:
        self.rng = random.Random(seed)
        self.bucket = Bucket(lambda: self.store_time)
        self.faults = faults or Faults()
        self.trace = Trace(keep=keep)
        self.scheduler = Scheduler(self.rng, limit=limit)
        self.scheduler.world = self

    @property
    def process(self) -> Process | None:
        """The process that runs now; None outside every task."""
        task = self.scheduler.current
        return task.process if task is not None else None

    @property
    def store_time(self) -> datetime:
        """The store's own clock, in whole seconds as object stores tell it."""
        return BEGINNING + timedelta(seconds=int(self.scheduler.now))

    def now(self) -> datetime:
        process = self.process
        return BEGINNING + timedelta(seconds=self.scheduler.now + (process.skew if process else 0.0))

    def monotonic(self) -> float:
        return self.scheduler.now

    def sleep(self, seconds: float) -> None:
        self.scheduler.sleep(seconds)

    def uniform(self, low: float, high: float) -> float:
        return self.rng.uniform(low, high)

    def random_bytes(self, count: int) -> bytes:
        return self.rng.randbytes(count)

    def lock(self) -> Lock:
        return Lock(self.scheduler, again=False)

    def rlock(self) -> Lock:
        return Lock(self.scheduler, again=True)

    def condition(self) -> Condition:
        return Condition(self.scheduler)

    def start(self, work: Callable[[], object], name: str) -> clock.Thread:
        process = self.process
        return _Never() if process is None else self.scheduler.spawn(process, name, work)

    def order(self, count: int) -> Sequence[int]:
        return self.rng.sample(range(count), count)


class _Never:
    """The thread of somebody outside every process: it does not run."""

    def is_alive(self) -> bool:
        return False

    def join(self, timeout: float | None = None) -> None:
        return None
