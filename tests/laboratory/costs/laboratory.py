"""Measure what a verb costs on a lake of a given condition: on the wire, and by the meter.

with SeaweedFS() as s3, Laboratory(s3) as laboratory:
    found = laboratory.measure(verb, BASE)
    found.bill.quire, found.bill.lance, found.bill.hops
"""

from __future__ import annotations

import shutil
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.laboratory.costs.lakes import LARGEST, LARGEST_GRAPH, Builder, Condition, Laid
from tests.laboratory.costs.quiet import Quiet
from tests.laboratory.everywhere import Place

from quire.store import Meter, clock, metering
from quire.store.threads import THREADS
from quire.testing.proxy import Proxy, Request, longest_chain
from quire.testing.s3 import SeaweedFS

MEMORY = Path("/dev/shm")
"""Where lakes are built if it is there: a disk makes every commit durable, for which nobody waits here."""
LATENCIES = (0.02, 0.1, 0.3)
"""Seconds per request: what is enough on a quiet machine, on a busy one, and on any."""


@dataclass(frozen=True)
class Slack:
    """A constant by which a verb may be dearer on a larger lake, and why."""

    requests: int
    hops: int
    why: str


NO_SLACK = Slack(0, 0, "")


@dataclass(frozen=True)
class Verb:
    """Something that a program does with a lake. `prepare` opens what it takes, `act` is what is measured.

    It needs `tables` tables. The `important` ones are measured by every run of the tests on the largest lakes too. One
    that is not `wide` is measured on the smallest only: it looks at everything there is, by intent.
    """

    name: str
    act: Callable[[Any], Any]
    prepare: Callable[[Place], Any] = Place.open
    tables: int = 2
    important: bool = False
    wide: bool = True
    graph: bool = False
    """Whether it is measured on graphs, and only there."""
    slack: Slack = NO_SLACK
    per_commit: str = ""
    """Why it costs more with every commit on a lake that nobody maintains."""
    per_table: str = ""
    """Why it costs more with every table."""
    metered: bool = True
    """Whether calls of Quire do it: what another library's client sends is on no bill of ours."""

    def suits(self, condition: Condition) -> bool:
        """Whether it is measured on such a lake."""
        if self.graph != condition.graph:
            return False
        return self.tables <= condition.tables and (self.wide or condition.is_smallest)

    @property
    def largest(self) -> Condition:
        """The largest of the lakes on which it is measured."""
        return LARGEST_GRAPH if self.graph else LARGEST


@dataclass(frozen=True)
class Bill:
    """Requests by kind, those for Quire's own objects and those for tables apart.

    The caller waits for `quire` and `lance`, of which `hops` follow one another: the longest chain on the wire. Of more
    requests than a client has threads it is what the meter says, since what such a client wants at once goes in waves,
    as they come. What is `later` happens in the background after the answer.
    """

    quire: dict[str, int]
    lance: dict[str, int]
    hops: int
    later_quire: dict[str, int] = field(default_factory=dict)
    later_lance: dict[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """The requests that the caller waits for."""
        return sum(self.quire.values()) + sum(self.lance.values())

    @property
    def later(self) -> int:
        """The requests that follow."""
        return sum(self.later_quire.values()) + sum(self.later_lance.values())


@dataclass(frozen=True)
class Measured:
    """One run of a verb: its bill, and the same by other means."""

    bill: Bill
    meter: Meter
    seconds: float
    requests: list[Request]
    result: Any


class Laboratory:
    """A proxy in front of a server, and lakes of every condition behind it, each laid down when it is first used."""

    def __init__(self, s3: SeaweedFS) -> None:
        self._s3 = s3
        self.proxy = Proxy(s3.endpoint)
        self._prefix = f"costs-{uuid.uuid4().hex}"
        self._laid: dict[Condition, Laid] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            folder = tempfile.mkdtemp(prefix="quire-costs-", dir=MEMORY if MEMORY.is_dir() else None)
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            self._builder = Builder(Path(folder))
            stack.enter_context(self.proxy)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    def lake(self, condition: Condition) -> Laid:
        """A lake of this condition, on the server."""
        if condition not in self._laid:
            folder = self._builder.build(condition)
            uri = self._s3.uri(f"{self._prefix}/{len(self._laid)}")
            self._laid[condition] = Laid(folder, uri, self._s3.options)
        return self._laid[condition]

    def measure(self, verb: Verb, condition: Condition, *, latency: float = LATENCIES[0]) -> Measured:
        """Run a verb once, and undo it. Only what it does itself, and what follows from it, meets the latency."""
        laid = self.lake(condition)
        place = Place(laid.uri, {**self._s3.options, "aws_endpoint": self.proxy.endpoint})
        quiet = Quiet()
        begun = self.proxy.mark()
        try:
            with clock.using(quiet):
                return self._run(verb, place, quiet, condition, latency)
        finally:
            self.proxy.latency = 0.0
            place.ends.close()
            self.proxy.settle()
            prefix = laid.uri.removeprefix(self._s3.uri()).lstrip("/") + "/"
            laid.restore({r.key.removeprefix(prefix) for r in self.proxy.since(begun) if not r.reads})

    def settled(self, verb: Verb, condition: Condition, expected: Bill | None) -> Bill:
        """The bill, measured again with larger latencies while the hops are not as expected.

        On a busy machine what is meant to be side by side may come one after the other; the larger the latency, the
        less of that.
        """
        for latency in LATENCIES:
            bill = self.measure(verb, condition, latency=latency).bill
            if expected is None or bill.hops == expected.hops or bill.total > THREADS:
                break
        return bill

    def twice(self, verb: Verb, condition: Condition) -> tuple[Bill, Bill]:
        """Two bills, which should count the same; the hops of the second are the more exact."""
        first = self.measure(verb, condition).bill
        for latency in LATENCIES[1:] if first.total <= THREADS else LATENCIES[:1]:
            second = self.measure(verb, condition, latency=latency).bill
            if second.hops == first.hops:
                break
        return first, second

    def _run(self, verb: Verb, place: Place, quiet: Quiet, condition: Condition, latency: float) -> Measured:
        with ExitStack() as stack:
            if not condition.maintained:
                stack.enter_context(quiet.holding())
                stack.callback(_die, place)
            prepared = verb.prepare(place)
            if condition.maintained:
                place.flush()
            self.proxy.settle()
            start = self.proxy.mark()
            with quiet.holding():
                self.proxy.latency = latency
                began = time.perf_counter()
                with metering() as meter:
                    result = verb.act(prepared)
                seconds = time.perf_counter() - began
                self.proxy.settle()
                self.proxy.latency = 0.0
                requests = self.proxy.since(start)
        place.flush()
        self.proxy.settle()
        later = self.proxy.since(start)[len(requests) :]
        hops = longest_chain(requests) if len(requests) <= THREADS else meter.hops
        bill = Bill(*_by_owner(requests), hops, *_by_owner(later))
        return Measured(bill, meter, seconds, requests, result)


def _die(place: Place) -> None:
    """What was left for the background is not done: it is such writers that leave a lake without upkeep."""
    for lake in place.handles:
        lake._background._tasks.clear()


def _by_owner(requests: Sequence[Request]) -> tuple[dict[str, int], dict[str, int]]:
    """Requests by kind: for objects of the ledger, and for those of tables."""
    ledger = Counter(str(r.kind) for r in requests if _is_quires(r))
    tables = Counter(str(r.kind) for r in requests if not _is_quires(r))
    return dict(sorted(ledger.items())), dict(sorted(tables.items()))


def _is_quires(request: Request) -> bool:
    return "/_quire" in f"/{request.key}"
