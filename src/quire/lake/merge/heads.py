"""Two heads that are merged, what they have in common, and what follows from that alone.

The outcome is told by lineage, whatever the tables hold: when the source has nothing new it is up to date, when the
target has nothing new it can be fast-forwarded.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from quire.errors import InvalidInput, SnapshotExpired
from quire.lake.branch import branches
from quire.lake.branch.lineage import line_to, merge_bases, vector_of
from quire.lake.branch.live import LiveBranch
from quire.lake.merge.several_bases import NOWHERE, Ancestry, joined, same
from quire.lake.names import closed, is_ref
from quire.lake.resolve import resolve
from quire.ledger import History, Line, Point, State
from quire.ledger.version_vector import Vector, contains, without
from quire.ledger.version_vector import joined as joined_vectors
from quire.store import run_parallel

if TYPE_CHECKING:
    from quire.lake.context import Core

DEEPEST = 16
"""So many times the bases of bases are looked for."""
Outcome = Literal["up-to-date", "fast-forward", "merged"]


@dataclass(frozen=True)
class Tip:
    """The head of one side: its state, the line that leads to it, and a word for it."""

    name: str
    line: Line
    state: State
    history: History

    @property
    def point(self) -> Point:
        return self.state.head


@dataclass(frozen=True)
class Heads:
    """What is merged into what, and from where they parted."""

    core: Core
    live: LiveBranch
    """The branch that is merged into."""
    ours: Tip
    theirs: Tip
    bases: tuple[Point, ...]
    states: tuple[State, ...]
    """The states at the bases, in the same order."""
    outcome: Outcome

    def ancestry(self, table: str) -> Ancestry:
        """A table at the base, or what its base is made of where there are several."""
        return _ancestry(self.core, (self.ours.line, self.theirs.line), self.bases, self.states, table)

    @property
    def reaches(self) -> Vector:
        """Of a commit that joins both: its ancestors in other logs."""
        mine, its = (vector_of(self.core, tip.line, tip.state) for tip in (self.ours, self.theirs))
        return without(joined_vectors(mine, its), self.ours.line.branch)


def heads(core: Core, live: LiveBranch, source: str | Tip, base: str | None = None) -> Heads:
    """Look at both heads. A source that was looked at before stays where it was."""
    here, there = run_parallel([live.refresh, lambda: source if isinstance(source, Tip) else _tip(core, live, source)])
    assert isinstance(here, State)
    assert isinstance(there, Tip)
    ours = Tip(live.name, live.line, here, live.history)
    outcome = _outcome(core, ours, there)
    if base is not None:
        found = resolve(core, live, base)
        points = [found.point]
        states = [History(core.store, core.ledger, found.line).at(found.point)]
    elif outcome == "merged":
        points = merge_bases(core, (ours.line, here), (there.line, there.state))
        states = [_state_at(core, ours, there, p) for p in points]
    else:
        points = [here.head if outcome == "fast-forward" else there.point]
        states = [here if outcome == "fast-forward" else there.state]
    return Heads(core, live, ours, there, tuple(points), tuple(states), outcome)


def picked(core: Core, live: LiveBranch, word: str, parent: int) -> Heads:
    """What one commit did, to be done here too: it is theirs, and its parent the base."""
    commit, before = _commit_and_parent(core, live, word, parent)
    here = Tip(live.name, live.line, live.refresh(), live.history)
    return Heads(core, live, here, commit, (before.point,), (before.state,), "merged")


def reverted(core: Core, live: LiveBranch, word: str, parent: int) -> Heads:
    """What one commit did, to be taken back: its parent is theirs, and it is the base."""
    commit, before = _commit_and_parent(core, live, word, parent)
    here = Tip(live.name, live.line, live.refresh(), live.history)
    return Heads(core, live, here, before, (commit.point,), (commit.state,), "merged")


def _commit_and_parent(core: Core, live: LiveBranch, word: str, parent: int) -> tuple[Tip, Tip]:
    found = resolve(core, live, word)
    history = live.history if found.line is live.line else History(core.store, core.ledger, found.line)
    state = history.at(found.point)
    parents = history.commit(found.point).parents
    if not 1 <= parent <= len(parents):
        many = f"{len(parents)} parent{'s' * (len(parents) != 1)}" if parents else "no parent"
        raise InvalidInput(
            f"Commit {word} has {many}, so there is no parent {parent}.",
            next="Choose another commit." if not parents else f"Name a parent from 1 to {len(parents)}.",
            commit=found.point.commit,
        )
    at = parents[parent - 1]
    line = line_to(core, (found.line, live.line), at)
    way = history if line is found.line else History(core.store, core.ledger, line)
    return Tip(word, found.line, state, history), Tip(word, line, way.at(at), way)


def _tip(core: Core, live: LiveBranch, word: str) -> Tip:
    """The commit that a word means: the newest one of a branch, as it is now, or any other."""
    if word == live.name:
        raise InvalidInput(f"Branch {word!r} cannot be merged into itself.", next="Name another branch.", source=word)
    known = _known(core, word)
    if known is not None:
        return known
    if is_ref(word) and word != "HEAD":
        looks: list[Any] = [partial(branches.opened, core, word), partial(core.refs.lives, "tag", word)]
        branch, is_tag = run_parallel(looks)
        if branch is not None and not is_tag:
            if branch.state.closed:
                raise closed(word)
            core.known.learn(word, branch.history, branch.state, alone=True)
            return Tip(word, branch.line, branch.state, branch.history)
    found = resolve(core, live, word)
    history = live.history if found.line is live.line else History(core.store, core.ledger, found.line)
    return Tip(word, found.line, history.at(found.point), history)


def _known(core: Core, name: str) -> Tip | None:
    """The newest commit of a branch that this process has looked at before; None where it has to be looked for.

    A name that a tag has too is looked for: it is told what it may mean.
    """
    known = core.known.get(name)
    if known is None:
        return None
    looks: list[Any] = [known.refresh, lambda: not known.alone and core.refs.lives("tag", name)]
    state, is_tag = run_parallel(looks)
    if state.closed:
        core.known.forget(name)
    if state.closed or is_tag:
        return None
    core.known.learn(name, known.history, state, alone=True)
    return Tip(name, known.history.line, state, known.history)


def _outcome(core: Core, ours: Tip, theirs: Tip) -> Outcome:
    mine, its = (vector_of(core, tip.line, tip.state) for tip in (ours, theirs))
    if contains(mine, theirs.point) or contains(mine, _taken_over(theirs)):
        return "up-to-date"
    return "fast-forward" if contains(its, ours.point) or contains(its, _taken_over(ours)) else "merged"


def _taken_over(tip: Tip) -> Point:
    """The commit whose tables a head has as they were: itself, or one that it fast-forwarded to."""
    try:
        return tip.history.commit(tip.point, recent=True).adopts or tip.point
    except SnapshotExpired:
        return tip.point


def _ancestry(
    core: Core,
    lines: tuple[Line, ...],
    points: tuple[Point, ...],
    states: tuple[State, ...],
    table: str,
    depth: int = 0,
) -> Ancestry:
    first, *others = (Ancestry(s.tables.get(table)) for s in states)
    if all(same(first.state, other.state) for other in others):
        return first
    several = [(line_to(core, lines, p), s) for p, s in zip(points, states, strict=True)]
    below = merge_bases(core, several[0], several[1]) if depth < DEEPEST else []
    before = NOWHERE  # of what nobody knows the base, whatever differs is a conflict
    if below:
        known = tuple(History(core.store, core.ledger, line_to(core, lines, p)).at(p) for p in below)
        before = _ancestry(core, lines, tuple(below), known, table, depth + 1)
    for other in others:
        first = joined(before, first, other)
    return first


def _state_at(core: Core, ours: Tip, theirs: Tip, point: Point) -> State:
    for tip in (ours, theirs):
        if tip.point == point:
            return tip.state
    known = core.known.state_at(point)
    if known is not None:
        return known
    line = line_to(core, (ours.line, theirs.line), point)
    history = next((t.history for t in (ours, theirs) if t.line is line), None) or History(
        core.store, core.ledger, line
    )
    try:
        found = history.at(point)
    except SnapshotExpired as error:
        raise SnapshotExpired(
            f"Commit {point.commit}, from which {ours.name!r} and {theirs.name!r} parted, was cleaned up.",
            next="Name a commit that both have and that is kept, with base=.",
            commit=point.commit,
        ) from error
    core.known.remember(found)
    return found
