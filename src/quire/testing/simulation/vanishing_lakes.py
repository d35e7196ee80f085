"""A lake that goes away under open handles, on a disk: lost, made anew, or replaced by an older copy of itself.

A disk can prove with a create that what it comes after is still there, and so a handle of the lake that went away gets
no commit acknowledged any more. What it was told before lies in the lake that went away, and nothing of it in another.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import quire
from quire.errors import CommitUnknown, LakeLost, QuireError
from quire.store import clock, register_scheme
from quire.store.address import Address
from quire.store.backend import Failure, Follows, Reason
from quire.testing import memory
from quire.testing.simulation.plan import Plan
from quire.testing.simulation.scheduler import Process
from quire.testing.simulation.store import SimulatedStore
from quire.testing.simulation.world import SimulatedWorld

SCHEME = "simdisk"
URI = f"{SCHEME}://bucket/lake"
WRITERS, COMMITS, STEPS = 3, 8, 5_000
Objects = dict[str, tuple[bytes, datetime]]


class SimulatedDisk(SimulatedStore):
    """The same store with what a disk can do: a create that proves what it comes after."""

    def extend(self, key: str, data: bytes, follows: Follows) -> None:
        def extend() -> None:
            self.precedes(follows)
            if self._prefix + key in self._bucket.objects:
                raise Failure(Reason.EXISTS, "the object exists")
            self._bucket.write(self._prefix + key, data, "create")

        self._send("create", key, extend, writes=True)

    def precedes(self, follows: Follows) -> None:
        found = self._bucket.objects.get(self._prefix + follows.key)
        if found is None or not follows.known(found[0]):
            raise Failure(Reason.GONE, f"{follows.key} is not what it was")


def _open(address: Address, options: Mapping[str, str]) -> SimulatedDisk:
    world = clock.world()
    if not isinstance(world, SimulatedWorld):
        raise RuntimeError(f"a {SCHEME}:// address can be opened only inside a simulated world")
    return SimulatedDisk(world, address.path)


register_scheme(SCHEME, _open)


class Vanishing:
    """Writers on one lake, and a moment at which it goes away."""

    def __init__(self, seed: int) -> None:
        self.world = SimulatedWorld(seed, limit=STEPS)
        self.rng = self.world.rng
        self.violations: list[str] = []
        self.acknowledged: list[tuple[int, int, str]] = []
        """Values, the lake of whose handle they went through, and the commit."""
        self.number = 0
        self.generation = 0
        self.shares = False
        """Whether the lake that is there now has a part of its log in common with the one that went away."""
        self.before: Objects = {}
        """The objects of the lake that went away."""

    def run(self) -> list[str]:
        memory.install()
        with clock.using(self.world):
            self._make()
            self.world.faults = Plan(self.rng, lambda: self.world.scheduler.now)
            for index in range(WRITERS):
                self._start(Process(f"w{index}"), self._write)
            self._start(Process("intruder"), self._vanish, delay=self.rng.uniform(0.1, 20))
            self.world.scheduler.run()
            for task, error in self.world.scheduler.errors:
                self.violations.append(f"{task.process.name} ended with {error!r}")
            self._check()
        return self.violations

    def _start(self, process: Process, program: Callable[[Process], None], delay: float = 0.0) -> None:
        def live() -> None:
            try:
                program(process)
            finally:
                self.world.scheduler.kill(process)  # its background work too

        self.world.scheduler.spawn(process, "main", live, delay=delay)

    def _make(self) -> None:
        with quire.create(URI, author="maker", backfill=False).transaction("begin") as tx:
            tx.create_table("events", [{"n": 0}], format="memory")

    # -- what goes on -----------------------------------------------------------------------------------------

    def _write(self, process: Process) -> None:
        lake: quire.Lake | None = None
        opened = 0
        for _ in range(COMMITS):
            self.world.scheduler.sleep(self.rng.uniform(0, 5))
            try:
                if lake is None:
                    opened = self.generation
                    lake = quire.open(URI, author=process.name, backfill=False)
                    if opened != self.generation:
                        lake = None  # it went away while it was opened
                        continue
                self._append(lake, opened)
            except LakeLost:
                self.world.trace.count("lake lost")
                lake = None
            except QuireError as error:
                if not isinstance(error, CommitUnknown) and self.rng.random() < 0.3:
                    lake = None

    def _append(self, lake: quire.Lake, opened: int) -> None:
        self.number += 1
        value = self.number
        with lake.transaction(f"{value}") as tx:
            tx["events"].append([{"n": value}])
            self.world.scheduler.sleep(self.rng.choice((0.0, 0.0, 2.0)))
        self.acknowledged.append((value, opened, str(tx.receipt.commit)))

    def _vanish(self, process: Process) -> None:
        """All at once, as when a folder is renamed or another one is mounted."""
        bucket = self.world.bucket
        how: Callable[[], Any] = self.rng.choice((self._nothing, self._anew, self._older))
        self.before, self.generation = dict(bucket.objects), 1
        bucket.objects, bucket._keys = how(), None
        if how == self._anew:
            with contextlib.suppress(QuireError):
                self._make()

    def _nothing(self) -> Objects:
        """The folder was moved, or is not mounted any more."""
        return {}

    def _anew(self) -> Objects:
        """Somebody makes another lake there."""
        return {}

    def _older(self) -> Objects:
        """A copy from before the last slots is put there."""
        self.shares = True
        slots = sorted(key for key in self.before if "/_quire/log/" in key)
        gone = set(slots[-self.rng.randint(1, 3) :])
        return {key: found for key, found in self.before.items() if key not in gone}

    # -- what must hold ---------------------------------------------------------------------------------------

    def _check(self) -> None:
        places = {0: self.before or self.world.bucket.objects, 1: self.world.bucket.objects}
        rows = {generation: self._rows(objects) for generation, objects in places.items()}
        if self.shares:
            rows[0] |= rows[1]  # a handle that knew no more than the copy holds goes on from there, and proves it
        for value, opened, commit in self.acknowledged:
            if value not in rows[opened]:
                self.violations.append(
                    f"{value} was acknowledged as {commit} by a handle of lake {opened}, and is not in it"
                )

    def _rows(self, objects: Objects) -> set[int]:
        """The values of a lake, read in peace; none where there is no lake."""
        bucket = self.world.bucket
        known, bucket.objects, bucket._keys = bucket.objects, dict(objects), None
        try:
            return {row["n"] for row in quire.open(URI, read_only=True)["events"].to_pylist()}
        except QuireError:
            return set()
        finally:
            bucket.objects, bucket._keys = known, None


def run(seed: int) -> list[str]:
    """What went wrong in one history.

    >>> run(1)
    []
    """
    return Vanishing(seed).run()
