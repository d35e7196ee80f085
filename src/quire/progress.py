"""How far long work has come: one signature wherever Quire reports it.

progress("compact documents", 3, 8)
progress("read people.jsonl", 65_536, None)
"""

from __future__ import annotations

from collections.abc import Callable

from quire.store import clock

Progress = Callable[[str, int, int | None], None]
"""`progress(what, done, total)`: the step, how much of it is done so far, and how much there is, None if nobody knows.

It is called from the threads that do the work, and what it raises ends the work.
"""


def silent(what: str, done: int, total: int | None) -> None:
    """Report nothing."""


class Count:
    """Counts one step up, from whatever thread, and reports one sum after the other."""

    def __init__(self, progress: Progress, what: str, total: int | None = None) -> None:
        self._progress, self._what, self._total, self._done = progress, what, total, 0
        self._lock = clock.lock()

    def add(self, done: int = 1) -> None:
        with self._lock:
            self._done += done
            self._progress(self._what, self._done, self._total)
