"""Count requests: how many, of which kind, how many bytes, and how many had to wait for one another.

    with metering() as m:
        store.get("a")
    m.total, m.hops          # 1, 1

Every attempt counts, so a failed request and its repetition are two.
"""

from __future__ import annotations

import bisect
import contextlib
import contextvars
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

KINDS = ("get", "put", "create", "delete", "list", "head")


@dataclass(frozen=True)
class _Span:
    start: float
    end: float
    hops: int


@dataclass
class _Fork:
    """Branches that ran side by side by intent, whatever the scheduler made of it."""

    start: float
    branches: list[_Line]
    end: float = 0.0

    @property
    def hops(self) -> int:
        return max(_longest(branch) for branch in self.branches)


# What happened in one line of control. Appending is atomic, so threads that share a context may share a line.
_Line = list["_Span | _Fork"]


def _longest(line: Sequence[_Span | _Fork]) -> int:
    """Weight of the heaviest chain of items that do not overlap in time."""
    items = sorted(line, key=lambda item: item.end)
    ends = [item.end for item in items]
    best = [0]
    for position, item in enumerate(items):
        before = bisect.bisect_right(ends, item.start, hi=position)
        best.append(max(best[-1], best[before] + item.hops))
    return best[-1]


@dataclass
class _Counts:
    requests: Counter[str] = field(default_factory=Counter)
    windows: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    bytes_in: int = 0
    bytes_out: int = 0

    @property
    def external(self) -> dict[str, int]:
        return {system: sum(last - first for first, last in parts) for system, parts in self.windows.items()}

    def to_dict(self) -> dict[str, Any]:
        return {
            "requests": dict(self.requests),
            "total": self.requests.total(),
            "external": self.external,
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
        }


class Meter:
    """What was requested while a `metering()` block ran, in its context and in the parallel calls it made.

    Threads that the block starts by itself are counted only if they run in a copy of its context. After the block the
    numbers stay as they are.
    """

    def __init__(self) -> None:
        self._counts = _Counts()
        self._line: _Line = []
        self._lock = threading.Lock()
        self._started = time.perf_counter()
        self._ended: float | None = None
        self._aside: float | None = None

    @property
    def requests(self) -> dict[str, int]:
        """Quire's own requests by kind; kinds that did not occur are left out."""
        with self._lock:
            return dict(self._counts.requests)

    @property
    def total(self) -> int:
        """Quire's own requests."""
        return sum(self.requests.values())

    @property
    def external(self) -> dict[str, int]:
        """Requests that other systems made for us, by system."""
        with self._lock:
            return self._counts.external

    @property
    def hops(self) -> int:
        """Requests, own and external, that had to follow one another: the longest chain that does not overlap.

        Calls given to `run_parallel` together count as parallel even where one thread ran them in turn.
        """
        return _longest(list(self._line))

    @property
    def bytes_in(self) -> int:
        return self._counts.bytes_in

    @property
    def bytes_out(self) -> int:
        return self._counts.bytes_out

    @property
    def seconds(self) -> float:
        return (self._ended or time.perf_counter()) - self._started

    def to_dict(self) -> dict[str, Any]:
        with self._lock:
            counts = self._counts.to_dict()
        return {**counts, "hops": self.hops, "seconds": self.seconds}

    def __repr__(self) -> str:
        return f"<Meter requests={self.requests} external={self.external} hops={self.hops}>"


# The meters that count here, each with the line it is to be written on.
_active: contextvars.ContextVar[tuple[tuple[Meter, _Line], ...]] = contextvars.ContextVar("quire_meters", default=())
_totals = _Counts()
_totals_lock = threading.Lock()


@contextlib.contextmanager
def metering() -> Iterator[Meter]:
    """Count what is requested inside the block. Blocks may be nested; each counts everything inside it."""
    meter = Meter()
    token = _active.set((*_active.get(), (meter, meter._line)))
    try:
        yield meter
    finally:
        _active.reset(token)
        meter._ended = time.perf_counter()


@contextlib.contextmanager
def attached(meter: Meter) -> Iterator[None]:
    """Count what is requested inside the block on a meter that lives longer than the block."""
    if any(active is meter for active, _ in _active.get()):
        yield
        return
    token = _active.set((*_active.get(), (meter, meter._line)))
    try:
        yield
    finally:
        _active.reset(token)


def totals() -> dict[str, Any]:
    """Requests, external requests and bytes of this process so far."""
    with _totals_lock:
        return _totals.to_dict()


def record(kind: str, *, start: float, end: float, bytes_in: int = 0, bytes_out: int = 0) -> None:
    """Count one request of Quire's own."""
    _record(_Span(start, end, 1), {kind: 1}, {}, bytes_in, bytes_out)


def record_external(
    system: str,
    kind: str,
    *,
    window: tuple[int, int],
    hops: int,
    start: float,
    end: float,
    bytes_in: int = 0,
    bytes_out: int = 0,
) -> None:
    """Count requests that `system` made on our behalf between two `time.perf_counter()` readings.

    `window` is what the system's own counter of all its requests read before and after. Calls that ran side by side
    have windows that overlap; a request in two of them counts once. `kind` says what for; it is not counted apart.
    """
    _record(_Span(start, end, hops), {}, {system: window}, bytes_in, bytes_out)


def _record(
    span: _Span, requests: dict[str, int], external: dict[str, tuple[int, int]], bytes_in: int, bytes_out: int
) -> None:
    with _totals_lock:
        _add(_totals, requests, external, bytes_in, bytes_out)
    for meter, line in _active.get():
        with meter._lock:
            if meter._ended is not None:
                continue
            _add(meter._counts, requests, external, bytes_in, bytes_out)
            line.append(span)


def _union(parts: list[tuple[int, int]], window: tuple[int, int]) -> list[tuple[int, int]]:
    """Disjoint windows, in order, with one more taken in."""
    first, last = window
    apart = []
    for part in parts:
        if part[1] < first or part[0] > last:
            apart.append(part)
        else:
            first, last = min(first, part[0]), max(last, part[1])
    return sorted([*apart, (first, last)])


def _add(
    counts: _Counts, requests: dict[str, int], external: dict[str, tuple[int, int]], bytes_in: int, bytes_out: int
) -> None:
    counts.requests.update(requests)
    for system, window in external.items():
        counts.windows[system] = _union(counts.windows.get(system, []), window)
    counts.bytes_in += bytes_in
    counts.bytes_out += bytes_out


def aside() -> tuple[contextvars.Context, Callable[[], None]]:
    """A context for one call that runs in the background of this one, and what to call when it has ended.

    Calls put aside before anybody waits for one of them are side by side by intent: none has to follow another.
    """
    forks = []
    for meter, line in _active.get():
        if meter._aside is None:
            meter._aside = time.perf_counter()
        forks.append((meter, line, _Fork(meter._aside, [[]])))
    context = contextvars.copy_context()
    context.run(_active.set, tuple((meter, fork.branches[0]) for meter, _, fork in forks))

    def ended() -> None:
        for _, line, fork in forks:
            fork.end = time.perf_counter()
            line.append(fork)

    return context, ended


def awaited() -> None:
    """What is requested from now on follows the calls put aside before."""
    for meter, _ in _active.get():
        meter._aside = None


@contextlib.contextmanager
def branches(count: int) -> Iterator[list[contextvars.Context]]:
    """Contexts for `count` calls that run side by side in the block: copies of this one, each with its own line."""
    forks = [(meter, line, _Fork(time.perf_counter(), [[] for _ in range(count)])) for meter, line in _active.get()]
    contexts = [contextvars.copy_context() for _ in range(count)]
    for index, context in enumerate(contexts):
        context.run(_active.set, tuple((meter, fork.branches[index]) for meter, _, fork in forks))
    try:
        yield contexts
    finally:
        for _, line, fork in forks:
            fork.end = time.perf_counter()
            line.append(fork)
