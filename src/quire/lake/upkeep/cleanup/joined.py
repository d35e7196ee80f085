"""Commits that a log does not hold and that its merges need: those of merged branches, and bases of merges to come.

A merge names a commit of another log as its parent. That commit stays as long as the merge does. Of a branch that is
open, the others follow its own floor; of one that was deleted, they are kept by the same rule, counted back from the
commit that was merged: by age, and so many as are kept of any branch. What those had merged in turn is kept by age, so
that a chain of merges does not keep the history of the lake for ever.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from quire.errors import SnapshotExpired
from quire.lake.branch.lineage import vector_of
from quire.ledger import History, Line, Point
from quire.ledger.version_vector import Vector, bases, own

if TYPE_CHECKING:
    from quire.lake.context import Core
    from quire.lake.upkeep.cleanup.retained import Log


BATCH = 64
"""Records of a deleted branch that are read at once."""


@dataclass(frozen=True)
class Rule:
    """How far back commits are kept: those that were the newest at or after `cutoff`, and the last `keep`."""

    keep: int
    cutoff: datetime


@dataclass(frozen=True)
class Stretch:
    """Slots of one log that follow each other and are kept."""

    line: Line
    first: int
    last: int
    young: frozenset[int]
    """Those whose merges are kept, too: they were written at or after the cutoff."""


def stretch(core: Core, line: Line, upto: Point, rule: Rule, *, counted: bool) -> Stretch | None:
    """What is kept of a deleted branch that was merged at `upto`; None when that commit was cleaned up.

    It ends where an earlier cleanup has given up the log.
    """
    written = core.ledger.written(line.branch)
    history = History(core.store, core.ledger, line)
    by_age = upto.slot
    while by_age > line.start and written.get(by_age, rule.cutoff) >= rule.cutoff:
        by_age -= 1  # what was the head until `by_age` was written was seen after the cutoff
    first: int | None = None
    commits = 0
    for low in range(upto.slot, line.start - 1, -BATCH):
        slots = list(range(low, max(line.start - 1, low - BATCH), -1))
        for record in history.records(slots):
            enough = not counted or commits >= rule.keep
            if record.buried or (first is not None and record.slot < by_age and enough):
                return _stretch(line, first, upto, written, rule)
            first = record.slot
            commits += len(record.commits)
    return _stretch(line, first, upto, written, rule)


def unburied(core: Core, line: Line, first: int, last: int) -> Stretch | None:
    """The slots of a log from `first` to `last`, from where none of them was given up; None if all were."""
    history = History(core.store, core.ledger, line)
    lowest: int | None = None
    for low in range(last, first - 1, -BATCH):
        for record in history.records(list(range(low, max(first - 1, low - BATCH), -1))):
            if record.buried:
                return Stretch(line, lowest, last, frozenset()) if lowest is not None else None
            lowest = record.slot
    return Stretch(line, lowest, last, frozenset()) if lowest is not None else None


def _stretch(line: Line, first: int | None, upto: Point, written: Mapping[int, datetime], rule: Rule) -> Stretch | None:
    if first is None:
        return None
    slots = range(first, upto.slot + 1)
    young = frozenset(slot for slot in slots if written.get(slot, rule.cutoff) >= rule.cutoff)
    return Stretch(line, first, upto.slot, young)


def bases_of_open(core: Core, every: Sequence[Log]) -> set[Point]:
    """The bases of a merge of any two branches that are open, so that it is possible however old they are."""
    lines = {log.line.branch: log.line for log in every}
    heads = [(log.line, log.live.state) for log in every if log.live is not None]
    vectors = [vector_of(core, line, state) for line, state in heads]
    known: dict[Point, Vector] = {}

    def vectors_at(points: list[Point]) -> Iterable[Vector]:
        for point in points:
            if point not in known:
                known[point] = _vector_at(core, lines.get(point.branch), point)
        return [known[point] for point in points]

    # The logs of open branches first: what a deleted branch brought is nearly always contained in one of theirs.
    first = [line.branch for line, _ in heads]
    found: set[Point] = set()
    for a, b in itertools.combinations(vectors, 2):
        found.update(bases(a, b, vectors_at, first))
    return {point for point in found if point.branch in lines}


def _vector_at(core: Core, line: Line | None, point: Point) -> Vector:
    with contextlib.suppress(SnapshotExpired):
        if line is not None:
            return vector_of(core, line, History(core.store, core.ledger, line).at(point))
    return own(point)
