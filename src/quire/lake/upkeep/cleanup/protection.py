"""Keeping a commit from cleanup: tags, branches and leases write themselves down first and read the floor afterwards.

A collector publishes its floor first and lists them afterwards. So either it sees the protector, or the protector sees
the floor and takes itself back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar

from quire.errors import SnapshotExpired
from quire.lake.branch.live import LiveBranch
from quire.lake.context import Core
from quire.ledger import MAIN, History, Line, Point, State, read_hint

T = TypeVar("T")

Guard = tuple[Literal["branch", "tag"], str, int]


def protect(
    core: Core, live: LiveBranch | None, line: Line, at: Point, write: Callable[[], T], take_back: Callable[[T], None]
) -> T:
    """Write a protector of commit `at` down; `SnapshotExpired` when cleanup was there first.

    What lies below the floor can be protected only while something else that protects it stays there throughout.
    """
    known = live.state if live is not None and live.line.branch == at.branch else _newest(core, live, line, at)
    made = _protect(core, live, line, at, write, take_back, known)
    if made is None:
        # The floor came as news: what lies below it may be protected by something else.
        made = _protect(core, live, line, at, write, take_back, _newest(core, live, line, at))
    if made is None:
        raise _not_kept(core, line, at, _newest(core, live, line, at))
    return made[0]


def _protect(
    core: Core,
    live: LiveBranch | None,
    line: Line,
    at: Point,
    write: Callable[[], T],
    take_back: Callable[[T], None],
    known: State,
) -> tuple[T] | None:
    """What `write` made; None when it was taken back, or not made because nothing protects the commit."""
    guards = [] if _kept(known, at) else _guards(core, at)
    if not _kept(known, at) and not guards:
        return None
    made = write()
    if guards:
        if any(core.refs.get(kind, name)[1] == generation for kind, name, generation in guards):
            return (made,)
    elif _kept(_newest(core, live, line, at), at):
        return (made,)
    take_back(made)
    return None


def check_kept(core: Core, live: LiveBranch, line: Line, at: Point) -> None:
    """Refuse to build on a commit that lies below the floor: its files may be going just now."""
    newest = _newest(core, live, line, at)
    if not _kept(newest, at):
        raise _not_kept(core, line, at, newest)


def _not_kept(core: Core, line: Line, at: Point, newest: State) -> SnapshotExpired:
    """Why nothing new can rest on a commit: it was cleaned up, or nobody will say so when it is."""
    if not newest.closed:
        return History(core.store, core.ledger, line).expired(at.commit)
    return SnapshotExpired(
        f"The branch of commit {at.commit} was deleted: the commit can be read as long as it is there, and nothing new"
        " can keep it.",
        next="Choose a commit of a branch that is there. After a fast-forward that is the one that has this commit as a"
        " parent: its rows are the same.",
        commit=at.commit,
    )


def _kept(state: State, at: Point) -> bool:
    return not state.closed and at.slot >= state.floor


def _newest(core: Core, live: LiveBranch | None, line: Line, at: Point) -> State:
    """The newest state of the log in which a commit lies."""
    if live is not None and live.line.branch == at.branch:
        return live.refresh()
    before = tuple(s for s in line.inherited if s.slot < at.slot and s.branch != at.branch)
    owner = line if line.branch == at.branch else Line(branch=at.branch, inherited=before)
    hint = read_hint(core.store, MAIN) if at.branch == core.about.main else None
    return History(core.store, core.ledger, owner).open(hint)


def _guards(core: Core, at: Point) -> list[Guard]:
    """Tags that name this very commit, and branches that start at it."""
    found: list[Guard] = []
    for ref in core.refs.list("tag"):
        if ref.target == at:
            found.append(("tag", ref.name, core.refs.get("tag", ref.name)[1]))
    for ref in core.refs.list("branch"):
        starts = ref.line.inherited if ref.line is not None else ()
        if any((s.branch, s.slot) == (at.branch, at.slot) and s.index == at.index for s in starts):
            found.append(("branch", ref.name, core.refs.get("branch", ref.name)[1]))
    return found
