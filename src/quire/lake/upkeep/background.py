"""Work that may happen later or not at all.

Hints, checkpoints, backfill. One thread per lake, tasks of one name coalesced.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import weakref
from collections.abc import Callable, Hashable
from typing import Any

from quire.errors import QuireError
from quire.store import clock, quietly

DRAIN_SECONDS = 60.0
IDLE_SECONDS = 2.0

_alive: weakref.WeakSet[Background] = weakref.WeakSet()


class Background:
    """Runs each named task at most once at a time; a task submitted while it waits replaces the waiting one."""

    def __init__(self) -> None:
        self._tasks: dict[Hashable, tuple[float, Callable[[], Any]]] = {}
        self._lasting: set[Hashable] = set()
        """Tasks that come again and again for as long as something is held; nobody waits for them."""
        self._changed = clock.condition()
        self._wakes = float("-inf")
        """Until when its thread sleeps, if nobody wakes it."""
        self._busy = False
        self._thread: clock.Thread | None = None
        self.failures: list[str] = []
        self._pid = os.getpid()
        _alive.add(self)

    def submit(self, name: Hashable, task: Callable[[], Any], *, delay: float = 0.0, lasting: bool = False) -> None:
        """Run a task later. One that is `lasting` keeps to its time, and `drain` leaves it alone."""
        with self._changed:
            if lasting:
                self._lasting.add(name)
            due = clock.monotonic() + delay
            waiting = self._tasks.get(name)
            due = min(due, waiting[0]) if waiting else due
            self._tasks[name] = (due, task)
            if self._thread is None or not self._thread.is_alive():
                self._thread = clock.start(self._run, "quire-background")
            if due < self._wakes:  # every commit submits some: a thread that will come in time is not woken
                self._changed.notify_all()

    def cancel(self, name: Hashable) -> None:
        """Forget a task that waits."""
        with self._changed:
            self._tasks.pop(name, None)
            self._lasting.discard(name)
            self._changed.notify_all()

    def drain(self, timeout: float = DRAIN_SECONDS) -> bool:
        """Do everything that waits, now. False when time ran out first."""
        if os.getpid() != self._pid:
            return (
                True  # a forked child: the parent does its own work, and a lock copied by the fork may be held for ever
            )
        deadline = clock.monotonic() + timeout
        with self._changed:
            due = {n: (0.0, task) for n, (_, task) in self._tasks.items() if n not in self._lasting}
            self._tasks.update(due)
            self._changed.notify_all()
            while self._waiting() or self._busy:
                left = deadline - clock.monotonic()
                if left <= 0 or not (self._thread and self._thread.is_alive()):
                    return not (self._waiting() or self._busy)
                self._changed.wait(min(left, 0.5))
        return True

    def _waiting(self) -> bool:
        return any(name not in self._lasting for name in self._tasks)

    def _run(self) -> None:
        while True:
            with self._changed:
                while True:
                    task = self._next()
                    if task is not None:
                        break
                    wait = min((due for due, _ in self._tasks.values()), default=None)
                    self._wakes = float("inf") if wait is None else wait
                    if wait is None and not self._changed.wait(IDLE_SECONDS) and not self._tasks:
                        self._thread = None  # the next task starts another
                        return
                    if wait is not None:
                        self._changed.wait(max(0.0, wait - clock.monotonic()))
                self._wakes = float("-inf")
                self._busy = True
            try:
                with quietly():
                    task()
            except QuireError as error:
                self._failed(error)
            except Exception as error:
                self._failed(error)
            finally:
                with self._changed:
                    self._busy = False
                    self._changed.notify_all()

    def _next(self) -> Callable[[], Any] | None:
        now = clock.monotonic()
        for name, (due, task) in list(self._tasks.items()):
            if due <= now:
                del self._tasks[name]
                return task
        return None

    def _failed(self, error: Exception) -> None:
        # Everything here is repeated by the next commit or the next open, so a failure is reported, not raised.
        self.failures.append(f"{type(error).__name__}: {error}")
        del self.failures[:-20]


@atexit.register
def _drain_all() -> None:
    for background in list(_alive):
        with contextlib.suppress(Exception):
            background.drain()
