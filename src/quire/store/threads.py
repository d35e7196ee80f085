"""Run calls side by side on threads that the whole process shares."""

from __future__ import annotations

import contextlib
import contextvars
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, TypeVar, cast

from quire.store import clock, meter

T = TypeVar("T")

THREADS = 64
QUIET_THREADS = 8
"""For work in the background, which must not hold up a commit."""

_pools: dict[bool, ThreadPoolExecutor] = {}
_pool_lock = threading.Lock()
_quiet: contextvars.ContextVar[bool] = contextvars.ContextVar("quire_quiet", default=False)


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Calls of this block run on few threads of their own."""
    token = _quiet.set(True)
    try:
        yield
    finally:
        _quiet.reset(token)


def run_parallel(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Run every call and return the results in the order of the calls.

    Each call sees the context variables of the caller. All of them are settled before the first error, in the order of
    the calls, is raised. The calling thread works too, so a call may itself use `run_parallel`.
    """
    if not calls:
        return []
    if len(calls) == 1:
        return [contextvars.copy_context().run(calls[0])]
    with meter.branches(len(calls)) as contexts:
        group = _Group(calls, contexts, clock.order(len(calls)))
        for _ in range(0 if clock.simulated() else min(len(calls) - 1, THREADS)):
            try:
                _shared_pool().submit(group.drain)
            except RuntimeError:  # the interpreter is shutting down: the caller does the work alone
                break
        return group.finish()


_asides: weakref.WeakKeyDictionary[Future[Any], meter.Aside] = weakref.WeakKeyDictionary()


def submit(call: Callable[[], T]) -> Future[T]:
    """Start a call in the background, in the context of the caller.

    The pool is first in, first out, so a call that waits for one submitted before it cannot wait for ever.
    """
    context, aside = meter.aside()

    def run() -> T:
        try:
            return context.run(call)
        finally:
            aside.ended()

    try:
        if not clock.simulated():
            future = _shared_pool().submit(run)
            _asides[future] = aside
            return future
    except RuntimeError:  # the interpreter is shutting down
        pass
    settled: Future[T] = Future()
    _asides[settled] = aside
    try:
        settled.set_result(run())
    except Exception as error:
        settled.set_exception(error)
    return settled


def result_of(future: Future[T]) -> T:
    """What a call in the background gave. Requests made here from now on follow those of the call."""
    try:
        return future.result()
    finally:
        meter.awaited(_asides.get(future))


class _Group(Generic[T]):
    def __init__(
        self,
        calls: Sequence[Callable[[], T]],
        contexts: Sequence[contextvars.Context],
        order: Sequence[int],
    ) -> None:
        self._calls = calls
        self._contexts = contexts
        self._waiting = deque(order)
        self._results: list[T | None] = [None] * len(calls)
        self._errors: dict[int, BaseException] = {}
        self._unsettled = len(calls)
        self._settled = threading.Condition()

    def drain(self) -> None:
        """Run calls until none is waiting. A thread that comes late finds nothing to do."""
        while True:
            try:
                index = self._waiting.popleft()
            except IndexError:
                return
            try:
                self._results[index] = self._contexts[index].run(self._calls[index])
            except BaseException as error:
                self._errors[index] = error
                if not isinstance(error, Exception):
                    self._abandon()
            finally:
                self._settle(1)

    def finish(self) -> list[T]:
        # The caller only ever waits for calls that some thread is running, so nesting cannot exhaust the pool.
        try:
            self.drain()
            with self._settled:
                self._settled.wait_for(lambda: self._unsettled == 0)
        except BaseException:
            self._abandon()
            raise
        if self._errors:
            raise self._errors[min(self._errors)]
        return cast("list[T]", self._results)

    def _abandon(self) -> None:
        """Start nothing more: the user wants to stop."""
        dropped = 0
        while self._waiting:
            try:
                self._waiting.popleft()
                dropped += 1
            except IndexError:
                break
        self._settle(dropped)

    def _settle(self, count: int) -> None:
        with self._settled:
            self._unsettled -= count
            if self._unsettled == 0:
                self._settled.notify_all()


def _shared_pool() -> ThreadPoolExecutor:
    quiet = _quiet.get()
    with _pool_lock:
        if quiet not in _pools:
            name, threads = ("quire-quiet", QUIET_THREADS) if quiet else ("quire-io", THREADS)
            _pools[quiet] = ThreadPoolExecutor(threads, thread_name_prefix=name)
        return _pools[quiet]


def _forget_pool() -> None:
    # A forked child has the pool object but none of its threads.
    global _pool_lock
    _pools.clear()
    _pool_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
