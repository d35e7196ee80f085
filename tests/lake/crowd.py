"""Threads that commit while a slot is on its way, so that what they have becomes one group."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import quire


class Crowd:
    """The threads, and how each ended."""

    def __init__(self, lake: quire.Lake) -> None:
        self.lake = lake
        self.receipts: dict[str, quire.Receipt | None] = {}
        self.errors: dict[str, BaseException] = {}
        self._threads: list[threading.Thread] = []

    def commit(self, name: str, work: Callable[[quire.Transaction], Any], **options: Any) -> None:
        """A transaction of that message, which is in the queue when this returns."""
        tx = self.lake.transaction(name, author=f"author of {name}", **options)
        work(tx)
        before = self._queued()

        def run() -> None:
            try:
                self.receipts[name] = tx.commit()
            except BaseException as error:
                self.errors[name] = error

        thread = threading.Thread(target=run)
        thread.start()
        self._threads.append(thread)
        wait_for(lambda: self._queued() > before or not thread.is_alive())

    def _queued(self) -> int:
        group = self.lake._live.group
        return len(group._waiting) + len(group._taken)

    def join(self) -> None:
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive(), "a member waits for ever"


def wait_for(what: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not what():
        assert time.monotonic() < until, "it never happened"
        time.sleep(0.001)


@contextmanager
def crowd(lake: quire.Lake, first: Callable[[quire.Transaction], Any]) -> Iterator[Crowd]:
    """What is committed in the block waits until its end: the first alone, the others in the slot after it."""
    together = Crowd(lake)
    with lake._live.publishing:
        together.commit("first", first)
        yield together
    together.join()
