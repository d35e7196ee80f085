"""An object store in memory that fails on purpose.

It keeps what object stores promise — every key is linearizable, a create of an existing key fails, a listing shows
every completed write — and nothing more. A request takes time, during which others act; it may fail before it had an
effect, fail after it (the answer is lost), be applied twice by the transport, or land long after its sender has given
up; and its sender may die at it.

    world = SimulatedWorld(seed=7)
    with clock.using(world):
        lake = quire.create("sim://bucket/lake")
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from quire.store import Entry, clock, register_scheme
from quire.store.address import Address
from quire.store.backend import Failure, Reason
from quire.testing.simulation.bucket import Fault
from quire.testing.simulation.scheduler import Crashed, Process
from quire.testing.simulation.world import SimulatedWorld

T = TypeVar("T")

SCHEME = "sim"


class SimulatedStore:
    """A `Backend` on a bucket. Outside every process requests take no time and never fail."""

    attempts = 4
    in_order = True

    def __init__(self, world: SimulatedWorld, prefix: str = "") -> None:
        self._world = world
        self._bucket, self._faults, self._trace = world.bucket, world.faults, world.trace
        self._prefix = f"{prefix}/" if prefix else ""

    # -- the requests -----------------------------------------------------------------------------------------

    def get(self, key: str) -> bytes:
        return self._send("get", key, lambda: self._found(key)[0])

    def get_range(self, key: str, start: int, length: int) -> bytes:
        def read() -> bytes:
            data = self._found(key)[0]
            if start >= len(data):
                raise Failure(Reason.REFUSED, "the range lies outside the object")
            return data[start : start + length]

        return self._send("get", key, read)

    def head(self, key: str) -> Entry:
        def look() -> Entry:
            data, modified = self._found(key)
            return Entry(key, len(data), modified)

        return self._send("head", key, look)

    def put(self, key: str, data: bytes) -> None:
        self._send("put", key, lambda: self._bucket.write(self._prefix + key, data), writes=True)

    def create(self, key: str, data: bytes) -> None:
        def create() -> None:
            if self._prefix + key in self._bucket.objects:
                raise Failure(Reason.EXISTS, "the object exists")
            self._bucket.write(self._prefix + key, data, "create")

        self._send("create", key, create, writes=True)

    def delete(self, key: str) -> None:
        self._send("delete", key, lambda: self._bucket.delete(self._prefix + key), writes=True)

    def pages(self, prefix: str, after: str | None) -> Iterator[Sequence[Entry]]:
        folder = self._prefix + (f"{prefix}/" if prefix else "")
        last = self._prefix + after if after is not None else ""
        while True:
            size = self._faults.page()
            page = self._send("list", prefix, lambda last=last, size=size: self._page(folder, last, size))  # type: ignore[misc]
            if page:
                yield self._faults.listed(prefix, page)
            if len(page) < size:
                return
            last = self._prefix + page[-1].key

    def sync(self, paths: Sequence[str]) -> None:
        return None

    # -- how they go ------------------------------------------------------------------------------------------

    def _send(self, verb: str, key: str, effect: Callable[[], T], *, writes: bool = False) -> T:
        process = self._world.process
        if process is None:
            return effect()
        scheduler, faults = self._world.scheduler, self._faults
        if not process.alive:
            raise Crashed
        process.requests += 1
        fault = faults.draw(process, verb, key)
        if fault is None and process.cut_until > scheduler.now:
            fault = "before"
        latency = faults.latency(process, verb, key)
        if latency:
            scheduler.sleep(latency)
        try:
            result = self._apply(process, verb, key, effect, fault, writes)
        except Failure as failure:
            self._note(process, verb, key, failure.reason.value, fault)
            raise
        self._note(process, verb, key, "ok", fault)
        return result

    def _apply(
        self, process: Process, verb: str, key: str, effect: Callable[[], T], fault: Fault | None, writes: bool
    ) -> T:
        if fault is None:
            return effect()
        scheduler = self._world.scheduler
        self._trace.count(f"fault: {fault}")
        if fault in ("crash before", "crash after"):
            if fault == "crash after":
                _quietly(effect)
            self._note(process, verb, key, "dies", fault)
            scheduler.kill(process)
            raise Crashed
        if fault == "denied":
            raise Failure(Reason.DENIED, "simulated: not allowed")
        if fault == "cut":
            if self._world.rng.random() < 0.6:
                _quietly(effect)
            process.cut_until = scheduler.now + self._faults.outage()
        elif fault == "after":
            _quietly(effect)
        elif fault == "late" and writes:
            scheduler.later(self._faults.lateness(), lambda: self._land(process, verb, key, effect))
        elif fault == "twice":
            _quietly(effect)
            return effect()
        raise Failure(Reason.FAILED, f"simulated: {fault}")

    def _land(self, process: Process, verb: str, key: str, effect: Callable[[], object]) -> None:
        outcome = _quietly(effect)
        self._note(process, verb, key, outcome, "landed late")

    def _note(self, process: Process, verb: str, key: str, outcome: str, fault: str | None) -> None:
        now = self._world.scheduler.now
        self._trace.note(f"{now:11.3f} {process.name:<6} {verb:<6} {key} {outcome}{f' [{fault}]' if fault else ''}")

    # -- the objects ------------------------------------------------------------------------------------------

    def _found(self, key: str) -> tuple[bytes, datetime]:
        found = self._bucket.objects.get(self._prefix + key)
        if found is None:
            raise Failure(Reason.ABSENT, "no such object")
        return found

    def _page(self, folder: str, after: str, size: int) -> list[Entry]:
        keys, cut = self._bucket.keys(), len(self._prefix)
        start = bisect.bisect_right(keys, after) if after >= folder else bisect.bisect_left(keys, folder)
        page = []
        for key in keys[start : start + size]:
            if not key.startswith(folder):
                break
            data, modified = self._bucket.objects[key]
            page.append(Entry(key[cut:], len(data), modified))
        return page


def _quietly(effect: Callable[[], object]) -> str:
    """Let a request have its effect and throw the answer away."""
    try:
        effect()
    except Failure as failure:
        return failure.reason.value
    return "ok"


def _open(address: Address, options: Mapping[str, str]) -> SimulatedStore:
    world = clock.world()
    if not isinstance(world, SimulatedWorld):
        raise RuntimeError("a sim:// address can be opened only inside a simulated world")
    return SimulatedStore(world, address.path)


register_scheme(SCHEME, _open)
