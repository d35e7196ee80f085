"""Work that may happen later or not at all.

Hints, checkpoints, backfill. One thread per lake, tasks of one name coalesced.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable, Hashable
from typing import Any

from quire.errors import QuireError

DRAIN_SECONDS = 60.0
IDLE_SECONDS = 2.0

_alive: weakref.WeakSet[Background] = weakref.WeakSet()


class Background:
    """Runs each named task at most once at a time; a task submitted while it waits replaces the waiting one."""

    def __init__(self) -> None:
        self._tasks: dict[Hashable, tuple[float, Callable[[], Any]]] = {}
        self._changed = threading.Condition()
        self._busy = False
        self._thread: threading.Thread | None = None
        self.failures: list[str] = []
        self._pid = os.getpid()
        _alive.add(self)

    def submit(self, name: Hashable, task: Callable[[], Any], *, delay: float = 0.0) -> None:
        with self._changed:
            due = time.monotonic() + delay
            waiting = self._tasks.get(name)
            self._tasks[name] = (min(due, waiting[0]) if waiting else due, task)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="quire-background", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def drain(self, timeout: float = DRAIN_SECONDS) -> bool:
        """Do everything that waits, now. False when time ran out first."""
        if os.getpid() != self._pid:
            return (
                True  # a forked child: the parent does its own work, and a lock copied by the fork may be held for ever
            )
        deadline = time.monotonic() + timeout
        with self._changed:
            self._tasks = {name: (0.0, task) for name, (_, task) in self._tasks.items()}
            self._changed.notify_all()
            while self._tasks or self._busy:
                left = deadline - time.monotonic()
                if left <= 0 or not (self._thread and self._thread.is_alive()):
                    return not (self._tasks or self._busy)
                self._changed.wait(min(left, 0.5))
        return True

    def _run(self) -> None:
        while True:
            with self._changed:
                while True:
                    task = self._next()
                    if task is not None:
                        break
                    wait = min((due for due, _ in self._tasks.values()), default=None)
                    if wait is None and not self._changed.wait(IDLE_SECONDS) and not self._tasks:
                        self._thread = None  # the next task starts another
                        return
                    if wait is not None:
                        self._changed.wait(max(0.0, wait - time.monotonic()))
                self._busy = True
            try:
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
        now = time.monotonic()
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
