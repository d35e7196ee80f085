"""A world in which background work waits until it is let go, so that what a caller waits for can be counted apart."""

from __future__ import annotations

import contextvars
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from quire.store import clock

BACKGROUND = "quire-background"
LONG_AGO = 3600.0
SLOWER = 50


class Quiet(clock.World):
    """While background work is held, its threads live an hour ago: nothing that is queued now is due there.

    Nobody waits long before trying again, and chance has no part in it. The clock goes slowly, so that a busy machine
    does not make a client do what is done only after a while: a note, a look at the newest commit after a pause.
    """

    def __init__(self) -> None:
        self._holders = 0
        self._conditions: weakref.WeakSet[threading.Condition] = weakref.WeakSet()

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Hold background work back for as long as the block lasts. `Lake.flush` does it afterwards."""
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            for condition in list(self._conditions):
                with condition:
                    condition.notify_all()

    def monotonic(self) -> float:
        now = time.monotonic() / SLOWER
        return now - LONG_AGO if self._holders and threading.current_thread().name == BACKGROUND else now

    def sleep(self, seconds: float) -> None:
        time.sleep(min(seconds, 0.001))

    def uniform(self, low: float, high: float) -> float:
        return low

    def condition(self) -> threading.Condition:
        made = threading.Condition()
        self._conditions.add(made)
        return made

    def start(self, work: Callable[[], object], name: str) -> threading.Thread:
        thread = threading.Thread(target=contextvars.copy_context().run, args=(work,), name=name, daemon=True)
        thread.start()
        return thread
