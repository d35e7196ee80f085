"""Count requests: how many, of which kind, how many bytes, how many had to wait for one another, and where time went.

    with metering() as m:
        with phase("read"):
            store.get("a")
    m.total, m.hops, m.phases          # 1, 1, {"read": 0.0004}

Every attempt counts, so a failed request and its repetition are two, and one retry.
"""

from __future__ import annotations

import bisect
import contextlib
import contextvars
import os
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from quire.store import clock

KINDS = ("get", "put", "create", "delete", "list", "head")

_WINDOWS = 64
"""Windows of an external counter that are kept apart; older ones are summed up."""
_STRETCHES = 1000
"""Stretches of time that a traced meter keeps at most."""


@dataclass(frozen=True)
class _Span:
    start: float
    end: float
    hops: int

    @property
    def chains(self) -> Sequence[tuple[float, int]]:
        return ((self.start, self.hops),)


@dataclass(eq=False)
class _Fork:
    """Branches that ran side by side by intent, whatever the scheduler made of it."""

    start: float
    branches: list[_Line]
    end: float = 0.0

    @property
    def chains(self) -> Sequence[tuple[float, int]]:
        """When it began and how many hops it took; also from when on a branch waited for a call put aside before."""
        own = [[item for item in branch if item.start >= self.start] for branch in self.branches]
        found = [(self.start, max(map(_longest, own)))]
        for branch in self.branches:
            waited = [item for item in branch if item.end > self.start]
            early = min((item.start for item in waited), default=self.start)
            if early < self.start:
                found.append((early, _longest(waited)))
        return found


# What happened in one line of control. Appending is atomic, so threads that share a context may share a line.
_Line = list["_Span | _Fork"]


def _longest(line: Sequence[_Span | _Fork]) -> int:
    """Weight of the heaviest chain of items that do not overlap in time."""
    if len(line) < 2:
        return max((hops for item in line for _, hops in item.chains), default=0)
    items = sorted(line, key=_end)
    ends = [item.end for item in items]
    best = [0]
    for position, item in enumerate(items):
        ways = (best[bisect.bisect_right(ends, start, hi=position)] + hops for start, hops in item.chains)
        best.append(max(best[-1], *ways))
    return best[-1]


def _end(item: _Span | _Fork) -> float:
    return item.end


class _Windows:
    """Which part of another system's rising counter is ours: disjoint windows, in order."""

    def __init__(self) -> None:
        self._parts: list[tuple[int, int]] = []
        self._summed = self._summed_to = 0

    @property
    def count(self) -> int:
        return self._summed + sum(last - first for first, last in self._parts)

    def add(self, first: int, last: int) -> None:
        """Take one more in. What lies before the windows that are kept apart is not counted again."""
        first, last = max(first, self._summed_to), max(last, self._summed_to)
        apart = []
        for part in self._parts:
            if part[1] < first or part[0] > last:
                apart.append(part)
            else:
                first, last = min(first, part[0]), max(last, part[1])
        self._parts = sorted([*apart, (first, last)])
        if len(self._parts) > _WINDOWS:
            first, self._summed_to = self._parts.pop(0)
            self._summed += self._summed_to - first


@dataclass
class _Counts:
    requests: Counter[str] = field(default_factory=Counter)
    windows: dict[str, _Windows] = field(default_factory=dict)
    retries: int = 0
    bytes_in: int = 0
    bytes_out: int = 0

    @property
    def external(self) -> dict[str, int]:
        return {system: windows.count for system, windows in self.windows.items()}

    def to_dict(self) -> dict[str, Any]:
        return {
            "requests": dict(self.requests),
            "total": self.requests.total(),
            "external": self.external,
            "retries": self.retries,
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
        }


@dataclass(eq=False)
class _Phase:
    """One that is open."""

    name: str


class Meter:
    """What was requested while a `metering()` block ran, in its context and in the parallel calls it made.

    Threads that the block starts by itself are counted only if they run in a copy of its context. After the block the
    numbers stay as they are.
    """

    def __init__(self) -> None:
        self._counts = _Counts()
        self._line: _Line = []
        self._lock = threading.Lock()
        self._started = clock.monotonic()
        self._ended: float | None = None
        self._aside: float | None = None
        self._phases: dict[str, float] = {}
        self._open: list[_Phase] = []
        self._turned = 0.0
        """Up to when the phases have been charged."""
        self.stretches: list[tuple[str, float, float]] | None = None
        """When each phase ran, by `clock.monotonic()`, if somebody has put a list here."""
        self._jobs: dict[str, Counter[str]] = {}

    def ran(self, name: str, **told: float) -> None:
        """Add up what a job of other processes took, under the name of the statement that it belongs to."""
        with self._lock:
            self._jobs.setdefault(name, Counter()).update(told)

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
    def retries(self) -> int:
        """Quire's own requests that were sent again because the answer was an error or was lost."""
        return self._counts.retries

    @property
    def bytes_in(self) -> int:
        return self._counts.bytes_in

    @property
    def bytes_out(self) -> int:
        return self._counts.bytes_out

    @property
    def seconds(self) -> float:
        return (clock.monotonic() if self._ended is None else self._ended) - self._started

    @property
    def phases(self) -> dict[str, float]:
        """Seconds by phase, what is open counted up to now. They never add up to more than `seconds`."""
        with self._lock:
            found = dict(self._phases)
            if self._open:
                name = self._open[-1].name
                found[name] = found.get(name, 0.0) + clock.monotonic() - self._turned
            return found

    def to_dict(self) -> dict[str, Any]:
        with self._lock:
            counts = self._counts.to_dict()
            jobs = {"jobs": {name: dict(told) for name, told in self._jobs.items()}} if self._jobs else {}
        return {**counts, "hops": self.hops, "seconds": self.seconds, "phases": self.phases, **jobs}

    def _enter(self, name: str) -> _Phase:
        opened = _Phase(name)
        with self._lock:
            if self._ended is None:
                self._turn()
                self._open.append(opened)
        return opened

    def _leave(self, opened: _Phase) -> None:
        with self._lock:
            if opened in self._open:
                self._turn()
                self._open.remove(opened)

    def _turn(self) -> None:
        """Charge the time since the last turn to the phase that was opened last."""
        now, since = clock.monotonic(), self._turned
        self._turned = now
        if self._open:
            name = self._open[-1].name
            self._phases[name] = self._phases.get(name, 0.0) + now - since
            if self.stretches is not None and len(self.stretches) < _STRETCHES:
                self.stretches.append((name, since, now))

    def _end(self) -> None:
        with self._lock:
            self._turn()
            self._open.clear()
            self._ended = self._turned

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
        meter._end()


class attached:  # noqa: N801 - used as a function; a class because every commit enters several
    """Count what is requested inside the block on a meter that lives longer than the block."""

    __slots__ = ("_meter", "_token")

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def __enter__(self) -> None:
        active = _active.get()
        there = any(one is self._meter for one, _ in active)
        self._token = None if there else _active.set((*active, (self._meter, self._meter._line)))

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _active.reset(self._token)


class phase:  # noqa: N801 - as above
    """Charge the time of the block to a phase of every meter that counts here.

    On each meter time belongs to the phase that was opened last and is still open, whichever thread opened it: to the
    inner one of two nested phases, and only once where calls run side by side.
    """

    __slots__ = ("_name", "_opened")

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        self._opened = [(meter, meter._enter(self._name)) for meter, _ in _active.get()]

    def __exit__(self, *_: object) -> None:
        for meter, entered in self._opened:
            meter._leave(entered)


def active_meters() -> tuple[tuple[Meter, _Line], ...]:
    """What counts here, to be handed to `on_behalf` in another thread."""
    return _active.get()


@contextlib.contextmanager
def on_behalf(meters: Iterable[tuple[Meter, _Line]]) -> Iterator[None]:
    """Count what is requested inside the block on the meters of others, once on each, and on no other."""
    token = _active.set(tuple({id(meter): (meter, line) for meter, line in meters}.values()))
    try:
        yield
    finally:
        _active.reset(token)


def off_the_path() -> contextlib.AbstractContextManager[None]:
    """Count what is requested inside the block, but not as hops: nobody waits for it."""
    return on_behalf((meter, []) for meter, _ in _active.get())


def totals() -> dict[str, Any]:
    """Requests, external requests, retries and bytes of this process so far."""
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


def record_retry() -> None:
    """Count that a request of Quire's own is about to be sent again; the request itself is counted by `record`."""
    with _totals_lock:
        _totals.retries += 1
    for meter, _ in _active.get():
        with meter._lock:
            if meter._ended is None:
                meter._counts.retries += 1


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


def _add(
    counts: _Counts, requests: dict[str, int], external: dict[str, tuple[int, int]], bytes_in: int, bytes_out: int
) -> None:
    counts.requests.update(requests)
    for system, (first, last) in external.items():
        counts.windows.setdefault(system, _Windows()).add(first, last)
    counts.bytes_in += bytes_in
    counts.bytes_out += bytes_out


def aside() -> tuple[contextvars.Context, Aside]:
    """A context for one call that runs in the background of this one, and what is to be told when it has ended.

    Calls put aside before anybody waits for one of them are side by side by intent: none has to follow another.
    """
    forks = []
    for meter, line in _active.get():
        if meter._aside is None or any(isinstance(item, _Span) and item.start >= meter._aside for item in line[-8:]):
            meter._aside = time.perf_counter()  # what was asked for in between had to be waited for
        forks.append((meter, line, _Fork(meter._aside, [[]])))
    context = contextvars.copy_context()
    context.run(_active.set, tuple((meter, fork.branches[0]) for meter, _, fork in forks))
    return context, Aside(forks)


@dataclass(frozen=True)
class Aside:
    """A call in the background."""

    _forks: list[tuple[Meter, _Line, _Fork]]

    def ended(self) -> None:
        for _, line, fork in self._forks:
            fork.end = time.perf_counter()
            line.append(fork)


def awaited(call: Aside | None = None) -> None:
    """What is requested from now on follows the calls put aside before; on another line than theirs, only this one."""
    for meter, line in _active.get():
        meter._aside = None
        for other, its, fork in call._forks if call is not None else ():
            if other is meter and its is not line:
                line.append(fork)


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


def _forget_totals() -> None:
    # A forked child has done nothing yet, and whoever held the lock is not there to release it.
    global _totals, _totals_lock
    _totals, _totals_lock = _Counts(), threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_totals)
