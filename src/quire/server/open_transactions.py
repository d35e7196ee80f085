"""Transactions that clients keep open over several requests: in this process, each for one actor, for a while.

Every face of the server finds them here by id: statements of Quire's own addresses, and writes of clients of a format
below `…/txn/{id}`. So one transaction may hold what came in by any of them, and any of them may end it.

One that is idle for too long, or old, is discarded: nothing of it can be seen, and its client is told to begin again.
How one ended is remembered for some time, so that a commit whose answer was lost can be asked for again.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from quire.errors import Conflict, QuireError, Throttled, TransactionClosed
from quire.lake import Lake, Receipt, Transaction

if TYPE_CHECKING:
    from quire.server.config import Limits

REMEMBERED = 10_000
"""Ended transactions whose end is known."""


class View(Protocol):
    """A transaction as the clients of a face see it."""

    def settle(self) -> None:
        """Do what is left before the transaction commits, by whatever face it is asked to."""
        ...


@dataclass
class OpenTransaction:
    """One that is open, or has just ended."""

    id: str
    actor: str
    lake_name: str
    lake: Lake
    tx: Transaction
    began: float
    used: float
    busy: threading.Lock = field(default_factory=threading.Lock)
    views: dict[str, View] = field(default_factory=dict)
    """What a face keeps of it from request to request, by the name of the face."""
    receipt: Receipt | None = None
    error: QuireError | None = None


class OpenTransactions:
    """All of a server's."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._open: dict[str, OpenTransaction] = {}
        self._ended: OrderedDict[str, OpenTransaction] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, actor: str, lake_name: str, lake: Lake, tx: Transaction) -> OpenTransaction:
        """Keep a transaction open for an actor."""
        self.sweep()
        with self._lock:
            mine = sum(one.actor == actor for one in self._open.values())
            if mine >= self._limits.transactions_per_actor:
                raise Throttled(
                    f"{actor!r} has {mine} transactions open already.",
                    next="Commit or discard one of them.",
                    retry_after=self._limits.transaction_idle_seconds,
                )
            now = time.monotonic()
            made = OpenTransaction(secrets.token_urlsafe(16), actor, lake_name, lake, tx, now, now)
            self._open[made.id] = made
            return made

    @contextmanager
    def used(self, id: str, actor: str, lake_name: str, *, wait: float = 0.0) -> Iterator[OpenTransaction]:
        """One that is open, for one request at a time.

        Whoever comes meanwhile is refused, or waits for so many seconds: clients of a format do not ask again.
        """
        self.sweep()
        found = self.find(id, actor, lake_name)
        if found.id not in self._open:
            raise self._closed(found)
        if not found.busy.acquire(blocking=wait > 0, timeout=wait if wait > 0 else -1):
            raise Conflict(
                "Another request is at work in this transaction.", next="Wait for its answer.", retryable=True
            )
        try:
            if found.id not in self._open:
                raise self._closed(found)
            found.used = time.monotonic()
            yield found
        finally:
            found.used = time.monotonic()
            found.busy.release()

    def find(self, id: str, actor: str, lake_name: str) -> OpenTransaction:
        """One that is open or has just ended. That of somebody else looks like none."""
        with self._lock:
            found = self._open.get(id) or self._ended.get(id)
        if found is None or (found.actor, found.lake_name) != (actor, lake_name):
            raise TransactionClosed(
                "There is no such transaction here: it ended long ago, or the server was started again.",
                next="Begin a new one. If it may have been committed, begin with the same Idempotency-Key.",
                status="discarded",
            )
        return found

    def commit(self, id: str, actor: str, lake_name: str, *, wait: float = 0.0) -> OpenTransaction:
        """Publish one. Asked again, the outcome is what it was the first time: its receipt, or its error."""
        found = self.find(id, actor, lake_name)
        if found.receipt is None and found.error is None:
            with self.used(id, actor, lake_name, wait=wait):
                try:
                    for view in found.views.values():
                        view.settle()
                    self.end(found, found.tx.commit())
                except QuireError as error:
                    self.end(found, None, error)
                    raise
        if found.error is not None:
            raise found.error
        return found

    def discard(self, id: str, actor: str, lake_name: str, *, wait: float = 0.0) -> None:
        """Forget one: nothing of it was ever visible."""
        with self.used(id, actor, lake_name, wait=wait) as found:
            found.tx.discard()
            self.end(found, None)

    def is_open(self, found: OpenTransaction) -> bool:
        """Whether it can still be written to."""
        return found.id in self._open

    def end(self, found: OpenTransaction, receipt: Receipt | None, error: QuireError | None = None) -> None:
        """Remember how one ended."""
        found.receipt, found.error = receipt, error
        with self._lock:
            self._open.pop(found.id, None)
            self._ended[found.id] = found
            while len(self._ended) > REMEMBERED:
                self._ended.popitem(last=False)

    def sweep(self) -> None:
        """Discard what nobody uses any more."""
        now, limits = time.monotonic(), self._limits
        with self._lock:
            late = [
                one
                for one in self._open.values()
                if now - one.used > limits.transaction_idle_seconds or now - one.began > limits.transaction_seconds
            ]
        for one in late:
            if one.busy.acquire(blocking=False):
                try:
                    one.tx.discard()
                    self.end(one, None)
                finally:
                    one.busy.release()

    def close(self) -> None:
        """Discard all of them."""
        with self._lock:
            left = list(self._open.values())
        for one in left:
            one.tx.discard()
            self.end(one, None)

    def _closed(self, found: OpenTransaction) -> QuireError:
        said = "committed" if found.receipt is not None else "discarded"
        return TransactionClosed(
            f"This transaction is {said}.", next="Begin a new one with POST transactions.", status=said
        )
