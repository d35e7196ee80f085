"""What a query may take: memory, threads, and time in which DuckDB works. Beyond it the query ends, not the process."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from quire.errors import InvalidInput, LimitExceeded
from quire.store import clock

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


MOST = 1 << 60
"""Bytes that DuckDB can count; more is no bound either."""

T = TypeVar("T")
N = TypeVar("N", int, float)


@dataclass(frozen=True)
class SqlLimits:
    """Bounds of one query; None is no bound."""

    memory: int | None = 1 << 30
    """Bytes that DuckDB may hold. Nothing is written to disk instead."""
    threads: int | None = 2
    seconds: float | None = 30.0
    """Time in which DuckDB works on it. Time in which the reader of the rows is busy does not count."""
    rows: int | None = None
    """Rows of the answer."""

    def settings(self) -> dict[str, str]:
        """How a connection of DuckDB is opened with them."""
        found = {} if self.memory is None else {"memory_limit": f"{min(self.memory, MOST)}B", "temp_directory": ""}
        return found if self.threads is None else {**found, "threads": str(self.threads)}


_limits: ContextVar[SqlLimits | None] = ContextVar("quire_sql_limits", default=None)


@contextmanager
def limited(limits: SqlLimits) -> Iterator[None]:
    """A block in which every query that begins, of SQL or of the graph, is bounded, also while its rows are read."""
    token = _limits.set(limits)
    try:
        yield
    finally:
        _limits.reset(token)


@contextmanager
def asked(*, timeout: float | None = None, memory: int | None = None, max_rows: int | None = None) -> Iterator[None]:
    """The same for what a caller asks for, who can lower the bounds in force and not lift them."""
    for name, given in (("timeout", timeout), ("memory", memory), ("max_rows", max_rows)):
        if given is not None and not given > 0:
            raise InvalidInput(f"{name} must be above 0, not {given!r}.", next=f"Leave {name} out for no such limit.")
    if timeout is None and memory is None and max_rows is None:
        yield
        return
    outer = _limits.get() or SqlLimits(None, None, None)
    lower = SqlLimits(
        _least(outer.memory, memory), outer.threads, _least(outer.seconds, timeout), _least(outer.rows, max_rows)
    )
    with limited(lower):
        yield


def _least(one: N | None, other: N | None) -> N | None:
    return other if one is None else one if other is None else min(one, other)


class Watch:
    """Watches over one query, which is interrupted when its time is used up, and by Ctrl-C."""

    def __init__(self) -> None:
        limits = _limits.get()
        self.limits = limits
        """Those in force where the query began; None for none."""
        self._left = math.inf if limits is None or limits.seconds is None else limits.seconds
        self._rows = 0
        self._expired = False
        self.failure: LimitExceeded | None = None
        """Why the query was ended, once it was."""

    @property
    def settings(self) -> dict[str, str]:
        """How the connection of this query is opened."""
        return {} if self.limits is None else self.limits.settings()

    def work(self, connection: duckdb.DuckDBPyConnection, do: Callable[[], T]) -> T:
        """Let DuckDB work. What ends it for a limit is raised as `LimitExceeded`."""
        with self._timed(connection):
            # DuckDB lets no signal through to the thread that it works in, and only the main thread gets any.
            if threading.current_thread() is not threading.main_thread():
                return do()
            doing = _aside().submit(copy_context().run, do)
            try:
                return doing.result()
            except BaseException:
                while not doing.done():  # Ctrl-C, also a second one
                    with suppress(BaseException):
                        connection.interrupt()
                        wait([doing], timeout=0.1)
                raise

    @contextmanager
    def reading(self) -> Iterator[None]:
        """A block that reads for the query before DuckDB works. It is not interrupted: its reads are short."""
        began = clock.monotonic()
        yield
        self._left -= clock.monotonic() - began
        if self._left <= 0:
            self._expired = True
            self.failure = self._reason(TimeoutError())
            assert self.failure is not None
            raise self.failure

    @contextmanager
    def _timed(self, connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
        if self.limits is None:
            yield
            return
        timer = None
        if self._left != math.inf:
            timer = threading.Timer(max(self._left, 0.0), self._expire, [connection])
            timer.daemon = True
            timer.start()
        began = clock.monotonic()
        try:
            yield
        except StopIteration:
            raise
        except Exception as error:
            self.failure = self._reason(error)
            if self.failure is not None:
                raise self.failure from None
            raise
        finally:
            if timer is not None:
                timer.cancel()
            self._left -= clock.monotonic() - began

    def _expire(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._expired = True
        connection.interrupt()

    def _reason(self, error: Exception) -> LimitExceeded | None:
        limits = self.limits
        assert limits is not None
        if self._expired and limits.seconds is not None:
            return LimitExceeded(
                f"The query was ended after {limits.seconds:g} seconds.",
                next="Read fewer rows, or filter earlier.",
                limit="seconds",
                most=limits.seconds,
            )
        # On its way through an Arrow stream an error of DuckDB keeps its class only in front of its text.
        told = type(error).__name__ == "OutOfMemoryException" or str(error).startswith("Out of Memory Error:")
        if told and limits.memory is not None:
            return LimitExceeded(
                f"The query needs more than {limits.memory >> 20} MiB of memory.",
                next="Read fewer columns or rows, or sort and group less at once.",
                limit="memory",
                most=limits.memory,
            )
        return None

    def reader(self, found: pa.RecordBatchReader, connection: duckdb.DuckDBPyConnection) -> pa.RecordBatchReader:
        """The same rows, each batch of them computed under watch."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(found.schema, self._batches(found, connection))

    def _batches(self, found: Any, connection: duckdb.DuckDBPyConnection) -> Iterator[pa.RecordBatch]:
        while True:
            batch = self.work(connection, lambda: next(found, None))
            if batch is None:
                return
            self.count(batch.num_rows)
            yield batch

    def again(self) -> None:
        """The query begins its answer anew; its time goes on."""
        self._rows = 0

    def count(self, rows: int) -> None:
        """Rows of the answer are there, unless they are too many."""
        self._rows += rows
        most = None if self.limits is None else self.limits.rows
        if most is not None and self._rows > most:
            self.failure = LimitExceeded(
                f"The answer has more than {most} rows.",
                next="Filter or aggregate more, add a limit to the query, or allow more rows.",
                limit="rows",
                most=most,
            )
            raise self.failure


_threads: dict[int, ThreadPoolExecutor] = {}


def _aside() -> ThreadPoolExecutor:
    """A thread for the work of the main thread, in each process one."""
    process = os.getpid()
    if process not in _threads:
        _threads[process] = ThreadPoolExecutor(1, "quire-sql")
    return _threads[process]
