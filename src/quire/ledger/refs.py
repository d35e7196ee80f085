"""Branches and tags: create-only generations of a named ref.

No ref is changed or deleted in place: a new generation is created if absent, so two people who move one ref at the
same time cannot both win, on any store.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from typing import Literal
from urllib.parse import quote, unquote

from quire.errors import CommitUnknown, FormatError, QuireError
from quire.ledger import repairs
from quire.ledger.head_search import last_existing
from quire.ledger.records import (
    FORMAT,
    Count,
    GivenText,
    Moment,
    Point,
    Slot,
    Stored,
    corrupt,
    encode,
    in_calendar,
    new_id,
    readable,
)
from quire.store import Entry, Outcome, Store, run_parallel

MAIN = "main"


class Segment(Stored, frozen=True):
    """A stretch of a branch's past: the commits of `branch` up to and including `slot`.`index`."""

    branch: str
    slot: Slot
    index: Count


class Line(Stored, frozen=True):
    """Where a branch's commits lie: segments inherited from its ancestors, then its own log."""

    branch: str
    inherited: tuple[Segment, ...] = ()

    def __post_init__(self) -> None:
        slots = [s.slot for s in self.inherited]
        if any(a >= b for a, b in itertools.pairwise(slots)):
            raise ValueError("the parts of its history do not follow each other")
        if any(s.branch == self.branch for s in self.inherited):
            raise ValueError("its history contains its own log")

    @property
    def start(self) -> int:
        """The first slot of the branch's own log."""
        return self.inherited[-1].slot + 1 if self.inherited else 0

    def owner(self, slot: int) -> str:
        """Id of the log that holds this slot of the line."""
        for segment in self.inherited:
            if slot <= segment.slot:
                return segment.branch
        return self.branch

    def limit(self, slot: int) -> int | None:
        """How far into the group at `slot` this line goes: a branch may start inside a group."""
        return next((s.index for s in self.inherited if s.slot == slot), None)

    def contains(self, point: Point) -> bool:
        limit = self.limit(point.slot)
        return self.owner(point.slot) == point.branch and (limit is None or point.index <= limit)

    def fork(self, branch: str, at: Point) -> Line:
        """The line of a new branch that starts after commit `at` of this line."""
        kept = tuple(s for s in self.inherited if s.slot < at.slot)
        return Line(branch=branch, inherited=(*kept, Segment(branch=at.branch, slot=at.slot, index=at.index)))


class Ref(Stored, frozen=True):
    """One generation of a branch or a tag."""

    format: int
    write: str
    kind: Literal["branch", "tag", "gone"]
    name: str
    author: GivenText
    time: Moment
    message: GivenText = ""
    line: Line | None = None
    target: Point | None = None
    checkpoint: Point | None = None
    """For a branch: a checkpoint at or before its start, so that opening it is bounded."""

    def __post_init__(self) -> None:
        in_calendar(self.time)
        if self.kind == "branch" and (self.line is None or not self.line.inherited):
            raise ValueError("a branch has no history that leads to its start")
        if self.kind == "tag" and self.target is None:
            raise ValueError("a tag does not name a commit")


readable(Ref)


class Refs:
    """Refs at `_quire/refs/<kind>.<encoded name>/<generation>`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, space: Literal["branch", "tag"], name: str) -> tuple[Ref | None, int]:
        """The newest generation of a ref and its number; (None, -1) if it never existed."""
        root = _root(space, name)
        bodies: dict[int, bytes | None] = {}

        def exists(numbers: list[int]) -> list[bool]:
            fresh = [n for n in numbers if n not in bodies]
            bodies.update(zip(fresh, self._store.get_many([f"{root}/{n:010d}" for n in fresh]), strict=True))
            return [bodies[n] is not None for n in numbers]

        newest = last_existing(exists, 0)  # type: ignore[arg-type]
        if newest < 0:
            return None, -1
        body = bodies[newest]
        assert body is not None
        return self._decode(body, f"{root}/{newest:010d}", name), newest

    def lives(self, space: Literal["branch", "tag"], name: str) -> bool:
        """Whether there is such a ref: one request when the name was never used."""
        if self._store.get_or_none(f"{_root(space, name)}/{0:010d}") is None:
            return False
        ref, _ = self.get(space, name)
        return ref is not None and ref.kind == space

    def create(self, space: Literal["branch", "tag"], ref: Ref, generation: int) -> bool:
        """Create this generation. False: somebody else created it first."""
        key = f"{_root(space, ref.name)}/{generation:010d}"
        created = self._store.create(
            key, encode(ref), mine=lambda found: repairs.read(self._store, found, Ref, key).write == ref.write
        )
        if created.outcome is Outcome.UNKNOWN:
            raise CommitUnknown(
                f"The store did not confirm that {space} {ref.name!r} was written.",
                next="List the refs. If it is not there, run the command again.",
                ref=ref.name,
                write=ref.write,
            )
        return created.outcome is Outcome.COMMITTED

    def every(self, space: Literal["branch", "tag"]) -> Iterator[tuple[Ref, datetime | None]]:
        """Every generation of every ref of this kind, and when the next one took its place, by the store's clock."""
        generations: dict[str, list[Entry]] = {}
        for entry in self._store.list("_quire/refs"):
            folder, _, _ = entry.key.removeprefix("_quire/refs/").partition("/")
            if folder.startswith(space + "."):
                generations.setdefault(folder, []).append(entry)
        every = [entry.key for entries in generations.values() for entry in entries]
        read = dict(zip(every, run_parallel([partial(self._store.get, key) for key in every]), strict=True))
        for folder, entries in sorted(generations.items()):
            entries.sort(key=lambda e: e.key)
            bodies = [read[entry.key] for entry in entries]
            ends = [*(e.modified for e in entries[1:]), None]
            for entry, body, end in zip(entries, bodies, ends, strict=True):
                yield self._decode(body, entry.key, unquote(folder.removeprefix(space + "."))), end

    def list(
        self, space: Literal["branch", "tag"], bad: Callable[[str, QuireError], None] | None = None
    ) -> Iterator[Ref]:
        """Every living ref of this kind, by name. With `bad`, one that cannot be read is told instead of raised."""
        newest: dict[str, str] = {}
        for entry in self._store.list("_quire/refs"):
            folder, _, _ = entry.key.removeprefix("_quire/refs/").partition("/")
            if folder.startswith(space + "."):
                newest[folder] = max(entry.key, newest.get(folder, ""))
        names = sorted(newest)
        bodies = run_parallel([lambda key=newest[n]: self._store.get(key) for n in names])  # type: ignore[misc]
        for folder, body in zip(names, bodies, strict=True):
            try:
                ref = self._decode(body, newest[folder], unquote(folder.removeprefix(space + ".")))
            except FormatError as error:
                if bad is None:
                    raise
                bad(newest[folder], error)
                continue
            if ref.kind != "gone":
                yield ref

    def _decode(self, body: bytes, key: str, name: str) -> Ref:
        ref = repairs.read(self._store, body, Ref, key)
        if ref.name != name:
            raise corrupt(key, f"it says that it is the ref {ref.name!r}")
        return ref


def new_ref(kind: Literal["branch", "tag", "gone"], name: str, *, author: str, time: datetime, **rest: object) -> Ref:
    return Ref(format=FORMAT, write=new_id(), kind=kind, name=name, author=author, time=time, **rest)  # type: ignore[arg-type]


def _root(space: str, name: str) -> str:
    return f"_quire/refs/{space}.{quote(name, safe='')}"
