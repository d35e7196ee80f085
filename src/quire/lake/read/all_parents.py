"""The commits of a history over all parents: those of a branch, and of every branch that was merged into it.

Each log is linear, so it is read from its newest commit that is reached down to where it begins, and the logs are woven
together by time. A commit that cleanup has removed ends its log quietly, as it does in the log of one branch.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from quire.ledger import MAIN, Commit, Point

if TYPE_CHECKING:
    from quire.lake.context import Core

FIRST, MOST = 8, 128
"""Slots of a log that are read at once: few, then more."""


@dataclass(frozen=True)
class Reached:
    """A commit of the history, and those of its parents that are kept."""

    point: Point
    commit: Commit
    parents: tuple[Point, ...]


class _Next(NamedTuple):
    """The newest commit of a log that was not told yet, as logs wait for their turn: the latest first."""

    age: float
    order: int
    point: Point
    commit: Commit
    rest: Iterator[tuple[Point, Commit]]


class AllParents:
    """Every commit that a head descends from, newest first, read as it is looked at. No commit comes twice."""

    def __init__(self, core: Core, head: Point) -> None:
        self._core, self._head = core, head

    def __iter__(self) -> Iterator[Reached]:
        return _Walk(self._core).commits(self._head)


class _Walk:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._waiting: list[_Next] = []
        self._told: set[Point] = set()
        """Commits that were told, or wait for their turn."""
        self._tops: dict[str, Point] = {}
        """By log, the newest commit from which it was begun."""
        self._going: Counter[str] = Counter()
        """By log, how many ways down it are being gone."""
        self._asked: dict[str, set[Point]] = defaultdict(set)
        """By log, parents that lie further down: cleanup may have been between."""
        self._order = itertools.count()

    def commits(self, head: Point) -> Iterator[Reached]:
        self._is_kept(head)
        while self._waiting:
            _, _, point, commit, rest = heapq.heappop(self._waiting)
            self._wait(point.branch, rest)
            inside = [p for p in commit.parents if p.branch == point.branch]
            across = [p for p in commit.parents if p.branch != point.branch]
            kept = {p for p in inside if p in self._told} | {p for p in across if self._is_kept(p)}
            yield Reached(point, commit, tuple(p for p in commit.parents if p in kept))

    def _is_kept(self, point: Point) -> bool:
        """Whether a commit is there. Then it is told when its turn comes."""
        if point in self._told:
            return True
        top = self._tops.get(point.branch)
        if top is None or point > top:
            self._tops[point.branch] = point
            self._begin(point, top)
            return point in self._told
        [record] = self._core.ledger.read(point.branch, [point.slot])
        if record is None or record.buried or point.index >= len(record.commits):
            return False
        if self._going[point.branch]:
            self._asked[point.branch].add(point)
        else:
            self._begin(point, None)
        return True

    def _begin(self, point: Point, after: Point | None) -> None:
        self._going[point.branch] += 1
        self._wait(point.branch, _down(self._core, point, after))

    def _wait(self, branch: str, rest: Iterator[tuple[Point, Commit]]) -> None:
        """Put the next commit of a log where it waits for its turn."""
        for point, commit in rest:
            if point not in self._told:
                self._told.add(point)
                heapq.heappush(self._waiting, _Next(-_seconds(commit.time), next(self._order), point, commit, rest))
                return
        self._going[branch] -= 1
        if not self._going[branch]:
            below = self._asked[branch] - self._told
            if below:
                self._asked[branch] = below
                self._begin(max(below), None)


def _seconds(time: datetime) -> float:
    return time.timestamp()


def _down(core: Core, top: Point, after: Point | None) -> Iterator[tuple[Point, Commit]]:
    """The commits of one log from a commit down to its beginning, or to one that is known, or to where cleanup was."""
    newest, size = top.slot, FIRST
    lowest = after.slot if after is not None else 0
    while newest >= lowest:
        slots = list(range(newest, max(lowest, newest - size + 1) - 1, -1))
        for record in core.ledger.read(top.branch, slots):
            if record is None or record.buried:
                return
            for index in reversed(range(len(record.commits))):
                point = Point(branch=top.branch, slot=record.slot, index=index)
                if point > top:
                    continue
                if after is not None and point <= after:
                    return
                commit = record.commits[index]
                yield point, commit
                if not commit.parents or commit.parents[0].branch != top.branch:
                    return  # the log begins with it
        newest, size = slots[-1] - 1, min(size * 4, MOST)


class LogNames:
    """What logs are called: the names of the branches that are there, the ids of those that were deleted."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._known: dict[str, str] | None = None

    def of(self, branch: str) -> str:
        if branch == self._core.about.main:
            return MAIN
        if self._known is None:
            refs = self._core.refs.list("branch")
            self._known = {ref.line.branch: ref.name for ref in refs if ref.line is not None}
        return self._known.get(branch, branch)
