"""The one place where time, randomness and threads come from.

Everything in `store`, `ledger` and `lake` that decides something by a clock, a random number or a thread asks here, so
that `quire.testing.simulation` can put a world of its own in place and replay a history from one number. Without one
this is the standard library.

    clock.monotonic(), clock.now(), clock.sleep(0.1), clock.uniform(0, 1), clock.token()
    clock.lock(), clock.rlock(), clock.condition(), clock.start(work, "name")   # instead of threading's
"""

from __future__ import annotations

import contextlib
import contextvars
import random
import secrets
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Protocol


class Lock(Protocol):
    """What is used of `threading.Lock` and `RLock`."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...

    def release(self) -> None: ...

    def __enter__(self) -> bool: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...


class Condition(Protocol):
    """What is used of `threading.Condition`."""

    def __enter__(self) -> bool: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...

    def wait(self, timeout: float | None = None) -> bool: ...

    def notify_all(self) -> None: ...


class Thread(Protocol):
    """What is used of a started `threading.Thread`."""

    def is_alive(self) -> bool: ...

    def join(self, timeout: float | None = None) -> None: ...


class World:
    """The real world. A simulation derives from it and answers every call itself."""

    simulated = False

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def uniform(self, low: float, high: float) -> float:
        return random.uniform(low, high)

    def random_bytes(self, count: int) -> bytes:
        return secrets.token_bytes(count)

    def lock(self) -> Lock:
        return threading.Lock()

    def rlock(self) -> Lock:
        return threading.RLock()

    def condition(self) -> Condition:
        return threading.Condition()

    def start(self, work: Callable[[], object], name: str) -> Thread:
        thread = threading.Thread(target=work, name=name, daemon=True)
        thread.start()
        return thread

    def order(self, count: int) -> Sequence[int]:
        """The order in which that many calls that may run side by side are begun."""
        return range(count)


_world: contextvars.ContextVar[World] = contextvars.ContextVar("quire_world", default=World())  # noqa: B039


@contextlib.contextmanager
def using(world: World) -> Iterator[World]:
    """Put a world in place for this context: this thread, and what is run in copies of its context."""
    token = _world.set(world)
    try:
        yield world
    finally:
        _world.reset(token)


def world() -> World:
    """The world of this context."""
    return _world.get()


def now() -> datetime:
    """The time of day, in UTC."""
    return _world.get().now()


def monotonic() -> float:
    return _world.get().monotonic()


def sleep(seconds: float) -> None:
    _world.get().sleep(seconds)


def uniform(low: float, high: float) -> float:
    return _world.get().uniform(low, high)


def random_bytes(count: int) -> bytes:
    return _world.get().random_bytes(count)


def uuid4() -> uuid.UUID:
    """A random UUID."""
    return uuid.UUID(bytes=random_bytes(16), version=4)


def token(count: int = 8) -> str:
    """That many random bytes, as hexadecimal text."""
    return _world.get().random_bytes(count).hex()


def lock() -> Lock:
    """A lock that may be held across requests. One that never is may as well be `threading.Lock`."""
    return _world.get().lock()


def rlock() -> Lock:
    return _world.get().rlock()


def condition() -> Condition:
    return _world.get().condition()


def start(work: Callable[[], object], name: str) -> Thread:
    """Run `work` on a daemon thread of its own."""
    return _world.get().start(work, name)


def order(count: int) -> Sequence[int]:
    return _world.get().order(count)


def simulated() -> bool:
    """Whether calls that may run side by side must run one after the other, on the calling thread."""
    return _world.get().simulated
