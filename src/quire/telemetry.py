"""What this process has done so far, for monitoring: Prometheus text, and OpenTelemetry spans and metrics.

    with operation("commit", meter, {"quire.branch": "main"}) as told:
        ...
        told.outcome = "committed"

OpenTelemetry is only ever used in a program that has loaded it: one that has not can have no provider to report to, and
neither pays for the import nor needs the package. Nothing told here holds a credential, a row or the text of an error.
"""

from __future__ import annotations

import bisect
import contextlib
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from quire.errors import QuireError
from quire.store import clock
from quire.store.meter import KINDS, Meter, totals

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Histogram, Observation
    from opentelemetry.trace import Span, Tracer

Name = Literal["commit", "open", "snapshot"]
Labels = tuple[tuple[str, str], ...]

OUTCOMES = ("committed", "conflict", "unknown", "error", "repeated", "nothing")
"""How a commit can end. `repeated`: its token had been committed before. `nothing`: there was nothing to commit."""

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
HOPS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 50.0)


@dataclass
class Operation:
    """What is known about a commit, or an open, by the time it ends."""

    attributes: dict[str, Any]
    outcome: str = "error"
    cost: Mapping[str, Any] | None = None
    """What it took; None: what its meter says at the end."""


@contextlib.contextmanager
def operation(name: Name, meter: Meter, attributes: Mapping[str, Any]) -> Iterator[Operation]:
    """Report the block as one operation: a span with its phases as children, and one more in the totals."""
    told = Operation(dict(attributes))
    started = clock.monotonic()
    with _span(name, meter, told):
        try:
            yield told
        finally:
            _count(name, meter, told, clock.monotonic() - started)


# -- totals of this process ----------------------------------------------------------------------------------------


class _Distribution:
    """How many values were at most each bound, and their sum."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect.bisect_left(self.bounds, value)] += 1
        self.sum += value


@dataclass
class _Done:
    commits: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(OUTCOMES, 0)))
    opened: Counter[str] = field(default_factory=lambda: Counter({"open": 0, "snapshot": 0}))
    seconds: dict[str, _Distribution] = field(default_factory=dict)
    hops: dict[str, _Distribution] = field(default_factory=dict)


_done = _Done()
_lock = threading.Lock()


def _count(name: Name, meter: Meter, told: Operation, seconds: float) -> None:
    if name != "commit":
        with _lock:
            _done.opened[name] += told.outcome == "opened"
        return
    hops = meter.hops if told.cost is None else told.cost["hops"]
    with _lock:
        _done.commits[told.outcome] += 1
        _done.seconds.setdefault(told.outcome, _Distribution(SECONDS)).add(seconds)
        _done.hops.setdefault(told.outcome, _Distribution(HOPS)).add(hops)
    instruments = _instruments()
    if instruments is not None:
        instruments[0].record(seconds, {"quire.outcome": told.outcome})
        instruments[1].record(hops, {"quire.outcome": told.outcome})


def _requests() -> Iterator[tuple[Labels, int]]:
    """Quire's by kind; another system's together, because its counter knows no kinds."""
    found = totals()
    for kind in KINDS:
        yield (("system", "quire"), ("kind", kind)), found["requests"].get(kind, 0)
    for system, count in found["external"].items():
        yield (("system", system),), count


def _bytes() -> Iterator[tuple[Labels, int]]:
    found = totals()
    yield (("direction", "in"),), found["bytes_in"]
    yield (("direction", "out"),), found["bytes_out"]


def _retries() -> Iterator[tuple[Labels, int]]:
    yield (), totals()["retries"]


def _commits() -> Iterator[tuple[Labels, int]]:
    for outcome, count in list(_done.commits.items()):
        yield (("outcome", outcome),), count


def _opens() -> Iterator[tuple[Labels, int]]:
    yield (), _done.opened["open"]


def _snapshots() -> Iterator[tuple[Labels, int]]:
    yield (), _done.opened["snapshot"]


_COUNTERS = (
    ("requests", "{request}", "Requests to the object store, by system and kind.", _requests),
    ("bytes", "By", "Bytes received and sent by Quire's own requests.", _bytes),
    ("retries", "{retry}", "Requests by Quire that were sent again after an error or a lost answer.", _retries),
    ("commits", "{commit}", "Transactions that tried to commit, by outcome.", _commits),
    ("opens", "{lake}", "Lakes and branches opened.", _opens),
    ("snapshots", "{snapshot}", "Snapshots opened.", _snapshots),
)
_SECONDS_HELP = "Time from the call of commit to its end, in seconds."
_HOPS_HELP = "Longest chain of requests in a transaction that had to wait for one another."


# -- Prometheus ----------------------------------------------------------------------------------------------------


def prometheus() -> str:
    """What this process has requested, opened and committed so far, as Prometheus text (exposition format 0.0.4).

    >>> import quire
    >>> "quire_commits_total" in quire.metrics()
    True
    """
    lines = []
    for name, _, text, read in _COUNTERS:
        lines += _family(f"quire_{name}_total", "counter", text)
        lines += [_sample(f"quire_{name}_total", labels, count) for labels, count in read()]
    with _lock:
        lines += _family("quire_commit_seconds", "histogram", _SECONDS_HELP)
        lines += _buckets("quire_commit_seconds", _done.seconds)
        lines += _family("quire_commit_hops", "histogram", _HOPS_HELP)
        lines += _buckets("quire_commit_hops", _done.hops)
    return "\n".join(lines) + "\n"


def _family(name: str, kind: str, text: str) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]


def _buckets(name: str, by_outcome: Mapping[str, _Distribution]) -> Iterator[str]:
    for outcome, found in by_outcome.items():
        labels = (("outcome", outcome),)
        below = 0
        for bound, count in zip((*found.bounds, float("inf")), found.counts, strict=True):
            below += count
            le = "+Inf" if bound == float("inf") else f"{bound:g}"
            yield _sample(f"{name}_bucket", (*labels, ("le", le)), below)
        yield _sample(f"{name}_sum", labels, found.sum)
        yield _sample(f"{name}_count", labels, below)


def _sample(name: str, labels: Labels, value: float) -> str:
    shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
    return f"{name}{{{shown}}} {value!r}" if shown else f"{name} {value!r}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


# -- OpenTelemetry -------------------------------------------------------------------------------------------------

_tracer: Tracer | None = None
_histograms: tuple[Histogram, Histogram] | None = None
_making = threading.Lock()


def _instruments() -> tuple[Histogram, Histogram] | None:
    """The histograms of a commit's seconds and hops. The counters read the totals whenever they are asked."""
    global _histograms
    if _histograms is None and "opentelemetry.metrics" in sys.modules:
        with _making:
            if _histograms is None:
                _histograms = _make_instruments()
    return _histograms


def _make_instruments() -> tuple[Histogram, Histogram]:
    from opentelemetry import metrics

    source = metrics.get_meter("quire")

    def observed(read: Any) -> Any:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            return [
                metrics.Observation(count, {f"quire.{label}": text for label, text in labels})
                for labels, count in read()
            ]

        return observe

    for name, unit, text, read in _COUNTERS:
        source.create_observable_counter(f"quire.{name}", [observed(read)], unit=unit, description=text)
    return (
        source.create_histogram(
            "quire.commit.duration",
            unit="s",
            description=_SECONDS_HELP,
            explicit_bucket_boundaries_advisory=SECONDS,
        ),
        source.create_histogram(
            "quire.commit.hops",
            unit="{hop}",
            description=_HOPS_HELP,
            explicit_bucket_boundaries_advisory=HOPS,
        ),
    )


@contextlib.contextmanager
def _span(name: Name, meter: Meter, told: Operation) -> Iterator[None]:
    """A span around the block, if this program traces."""
    global _tracer
    _instruments()
    if "opentelemetry.trace" not in sys.modules:
        yield
        return
    from opentelemetry import trace

    _tracer = _tracer or trace.get_tracer("quire")
    with _tracer.start_as_current_span(f"quire.{name}", record_exception=False, set_status_on_exception=False) as span:
        if not span.is_recording():
            yield
            return
        meter.stretches = []
        try:
            yield
        except BaseException as error:
            kind = error.kind if isinstance(error, QuireError) else type(error).__qualname__
            span.set_attribute("error.type", kind)
            span.set_status(trace.Status(trace.StatusCode.ERROR, kind))
            raise
        finally:
            _describe(span, told.attributes, told.outcome, meter.to_dict() if told.cost is None else told.cost)
            _phases(_tracer, name, meter)


def _describe(span: Span, attributes: Mapping[str, Any], outcome: str, cost: Mapping[str, Any]) -> None:
    span.set_attributes({key: value for key, value in attributes.items() if value is not None})
    span.set_attribute("quire.outcome", outcome)
    span.set_attribute("quire.requests", cost["total"])
    for system, count in cost["external"].items():
        span.set_attribute(f"quire.requests_{system}", count)
    for what in ("hops", "retries", "bytes_in", "bytes_out"):
        span.set_attribute(f"quire.{what}", cost[what])


def _phases(tracer: Tracer, name: Name, meter: Meter) -> None:
    """A child of the current span for every stretch of a phase: told at the end, so that a phase itself stays cheap."""
    zero = clock.now().timestamp() - clock.monotonic()
    for phase, start, end in meter.stretches or ():
        child = tracer.start_span(f"quire.{name}.{phase}", start_time=int((zero + start) * 1e9))
        child.end(int((zero + end) * 1e9))
    meter.stretches = None


def _forget() -> None:
    # A forked child has done nothing yet, and whoever held a lock is not there to release it.
    global _done, _lock, _making
    _done, _lock, _making = _Done(), threading.Lock(), threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
