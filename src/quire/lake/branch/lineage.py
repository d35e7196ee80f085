"""What a commit descends from, across the logs of branches: version vectors, and the bases of a merge.

States keep the vector of their head, so for two heads nothing is read. Only a lake in which an older version joined
branches has states without one: then the commits of the line are walked, once, until one that tells it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

from quire.errors import InvalidInput, SnapshotExpired
from quire.lake.branch.branches import line_of
from quire.lake.branch.live import LiveBranch
from quire.lake.context import Core
from quire.lake.resolve import resolve
from quire.ledger import History, Line, Point, State
from quire.ledger.version_vector import Vector, bases, contains, joined, own
from quire.store import run_parallel


def vector_of(core: Core, line: Line, state: State) -> Vector:
    """The last commit in every log that the head of a state descends from, or is.

    Below what cleanup has kept it may miss ancestors, never name others.
    """
    return state.vector if state.vector is not None else _walked(core, line, state, {})


def merge_bases(core: Core, ours: tuple[Line, State], theirs: tuple[Line, State]) -> list[Point]:
    """The common ancestors of two heads of which no other common ancestor descends, without a request for most."""

    def vectors_at(points: list[Point]) -> Iterable[Vector]:
        return run_parallel([lambda p=p: _vector_at(core, (ours[0], theirs[0]), p) for p in points])  # type: ignore[misc]

    first = (ours[1].head.branch, theirs[1].head.branch)
    return bases(vector_of(core, *ours), vector_of(core, *theirs), vectors_at, first)


def base_of(core: Core, live: LiveBranch, a: Any, b: Any) -> State:
    """The state from which two commits parted; the newest of several.

    `SnapshotExpired` if cleanup was there: bases of branches that are open are kept.
    """
    sides = []
    for word in (a, b):
        found = resolve(core, live, word)
        sides.append((found.line, History(core.store, core.ledger, found.line).at(found.point)))
    (line, ours), (other, theirs) = sides
    points = merge_bases(core, (line, ours), (other, theirs))
    if not points:
        raise InvalidInput(f"{a!r} and {b!r} have no commit in common.", next="Compare them without since_base.")
    states = []
    for point in points:
        way = line_to(core, (line, other), point)
        try:
            states.append(History(core.store, core.ledger, way).at(point))
        except SnapshotExpired as error:
            raise SnapshotExpired(
                f"The two parted at commit {point.commit}, which was cleaned up.",
                next="Compare with a commit that is kept: give it as the first one, without since_base.",
                commit=point.commit,
            ) from error
    return max(states, key=lambda state: state.time)


def line_to(core: Core, lines: Iterable[Line], point: Point) -> Line:
    """A line that leads to a commit: one of those at hand, or that of the branch whose log it is in."""
    return next((line for line in lines if line.contains(point)), None) or line_of(core, point.branch)


def _vector_at(core: Core, lines: Iterable[Line], point: Point) -> Vector:
    line = line_to(core, lines, point)
    return vector_of(core, line, History(core.store, core.ledger, line).at(point))


def _walked(core: Core, line: Line, state: State, known: dict[Point, Vector]) -> Vector:
    """The vector of a head of which only the records tell it."""
    found = own(state.head)
    for segment in line.inherited:
        found = joined(found, own(Point(branch=segment.branch, slot=segment.slot, index=segment.index)))
    history = History(core.store, core.ledger, line)
    for _, commit in history.commits(state):
        if commit.reaches is not None:
            return joined(found, commit.reaches)
        for parent in commit.parents[1:]:
            if not contains(found, parent):
                found = joined(found, _joined_by(core, parent, known))
    return found


def _joined_by(core: Core, parent: Point, known: dict[Point, Vector]) -> Vector:
    """What came with a commit of another log that an older version took over."""
    if parent not in known:
        known[parent] = own(parent)  # commits form no circle, but what is stored may be damaged
        line = line_of(core, parent.branch)
        with contextlib.suppress(SnapshotExpired):
            state = History(core.store, core.ledger, line).at(parent)
            known[parent] = state.vector if state.vector is not None else _walked(core, line, state, known)
    return known[parent]
