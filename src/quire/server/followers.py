"""Clients that wait for commits: one look-out for each branch wakes all that wait on it, without a thread for any."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from quire.errors import QuireError, Throttled
from quire.lake import Lake
from quire.lake.handles import log_of, slot_of
from quire.server.auth.actors import ANYBODY, Actor

GLANCE = 0.05
"""Seconds after which this process's own commits are seen."""
PROBE = 1.0
"""Seconds after which the store is asked for the commits of others."""

InThread = Callable[[Callable[[], Any]], Awaitable[Any]]


class _LookOut:
    """Whoever waits for one branch."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.slot = slot_of(lake)
        self.waiting = 0
        self.news = asyncio.Event()
        self.task: asyncio.Task[None] | None = None


class Followers:
    """All clients that wait. It belongs to the event loop."""

    def __init__(self, most: int, most_of_actor: int, in_thread: InThread) -> None:
        self._most, self._most_of_actor, self._in_thread = most, most_of_actor, in_thread
        self._of: Counter[str] = Counter()
        self._branches: dict[tuple[str, str], _LookOut] = {}
        self.waiting = 0
        self.stopping = asyncio.Event()

    def stop(self) -> None:
        """Wake everybody: nothing is waited for any more."""
        self.stopping.set()
        for found in self._branches.values():
            found.news.set()

    def taken(self, actor: Actor) -> Callable[[], None]:
        """A place for one client that follows, or `Throttled`. Call what is returned to give it back."""
        name = "" if actor is ANYBODY else actor.name
        if self.waiting >= self._most or (name and self._of[name] >= self._most_of_actor):
            most = self._most if self.waiting >= self._most else self._most_of_actor
            raise Throttled(f"{most} clients wait for changes already.", next="Ask again without wait.", retry_after=5)
        self.waiting += 1
        self._of[name] += 1

        def give_back() -> None:
            self.waiting -= 1
            self._of[name] -= 1
            if not self._of[name]:
                del self._of[name]

        return give_back

    async def wait(self, lake: Lake, seen: int, seconds: float) -> bool:
        """Wait until a branch is beyond a slot. False when the time was up first, or the server stops."""
        key = (lake.uri, log_of(lake))
        found = self._branches.get(key)
        if found is None:
            found = self._branches[key] = _LookOut(lake)
            found.task = asyncio.ensure_future(self._look(found))
        found.waiting += 1
        try:
            deadline = asyncio.get_running_loop().time() + seconds
            while slot_of(lake) <= seen and not self.stopping.is_set():
                left = deadline - asyncio.get_running_loop().time()
                if left <= 0:
                    return False
                with suppress(TimeoutError):
                    await asyncio.wait_for(found.news.wait(), left)
            return not self.stopping.is_set()
        finally:
            found.waiting -= 1
            if not found.waiting and self._branches.get(key) is found:
                del self._branches[key]
                if found.task is not None:
                    found.task.cancel()

    async def _look(self, found: _LookOut) -> None:
        """Look out for one branch as long as somebody waits."""
        loop = asyncio.get_running_loop()
        asked = loop.time()
        while True:
            await asyncio.sleep(GLANCE)
            if loop.time() >= asked + PROBE:
                asked = loop.time()
                with suppress(QuireError):  # whoever waits reads next, and is told
                    await self._in_thread(found.lake.refresh)
            slot = slot_of(found.lake)
            if slot != found.slot:
                found.slot = slot
                found.news.set()
                found.news = asyncio.Event()
