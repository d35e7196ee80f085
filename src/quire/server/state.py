"""What all requests of one server share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import anyio
import anyio.to_thread

from quire.lake.context import default_author
from quire.lake.read.sql_limits import SqlLimits
from quire.server.agent_tools import Tools
from quire.server.auth.gate import Gate
from quire.server.config import Config, checked
from quire.server.followers import Followers
from quire.server.jobs import Jobs
from quire.server.lakes import OpenLakes
from quire.server.limits import InFlight
from quire.server.metrics import Metrics
from quire.server.open_transactions import OpenTransactions
from quire.server.request_log import RequestLog
from quire.server.ui.sessions import Sessions

T = TypeVar("T")

SWEEP = 5.0


class Server:
    """Lakes, bounds, counts, and who waits. Made before the event loop; `start` belongs to it."""

    def __init__(self, config: Config, log: RequestLog | None = None) -> None:
        self.config = checked(config)
        self.limits = config.limits
        self.gate = Gate(config.auth)
        author = default_author() if config.private else ""
        self.sessions = Sessions(private=config.private, write=not config.read_only, author=author)
        self.lakes = OpenLakes(config)
        self.metrics = Metrics()
        self.log = log or RequestLog()
        self.in_flight = InFlight(config.limits)
        self.sql_limits = SqlLimits(config.limits.sql_memory, config.limits.sql_threads, config.limits.sql_seconds)
        self.transactions = OpenTransactions(config.limits)
        self.jobs = Jobs()
        self.tools = Tools()
        self.is_open_here = config.auth is None and not config.open
        """Whether everybody on this machine is let in, and nobody else should be."""
        self._kept: dict[str, Any] = {}
        self._keeping = threading.Lock()
        self.stopping = False
        self._threads: anyio.CapacityLimiter | None = None
        self._followers: Followers | None = None

    @property
    def followers(self) -> Followers:
        """Clients that wait for changes."""
        if self._followers is None:
            self._followers = Followers(self.limits.followers, self.limits.followers_per_actor, self.in_thread)
        return self._followers

    def kept(self, face: str, make: Callable[[Server], T]) -> T:
        """What a face of the server keeps for as long as it runs, made when it is first asked for."""
        with self._keeping:
            if face not in self._kept:
                self._kept[face] = make(self)
            found: T = self._kept[face]
            return found

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run something that blocks in one of the worker threads. Work that has begun is finished."""
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(self.limits.threads)
        return await anyio.to_thread.run_sync(work, limiter=self._threads)

    def gauges(self) -> dict[str, int]:
        """What is under way."""
        waiting = self._followers.waiting if self._followers is not None else 0
        return {
            "requests_in_flight": self.in_flight.requests,
            "writes_in_flight": self.in_flight.writes,
            "followers": waiting,
            "open_transactions": len(self.transactions),
        }

    def stop(self) -> None:
        """Take no more work: what is under way is finished, and nobody waits any more."""
        self.stopping = True
        if self._followers is not None:
            self._followers.stop()

    async def sweep(self) -> None:
        """Discard transactions that nobody uses any more, for as long as the server runs."""
        while True:
            await anyio.sleep(SWEEP)
            await self.in_thread(self.transactions.sweep)

    async def close(self) -> None:
        """Discard what is open, and let background work of the lakes end."""
        await self.in_thread(self.transactions.close)
        await self.in_thread(partial(self.jobs.wait, self.limits.shutdown_seconds))
        await self.in_thread(partial(self.lakes.close, self.limits.shutdown_seconds))
