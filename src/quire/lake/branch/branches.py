"""Branches. A branch is a ref and a log that starts at another branch's commit; nothing is copied."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from quire.errors import (
    AmbiguousName,
    BranchClosed,
    BranchExists,
    BranchNotFound,
    Refused,
    TagExists,
)
from quire.lake.branch.live import LiveBranch, no_branch, open_branch
from quire.lake.commit import record_time
from quire.lake.context import Core
from quire.lake.names import fresh_ref
from quire.lake.publish.control_records import mark
from quire.lake.upkeep.cleanup.protection import protect
from quire.ledger import MAIN, History, Line, Point, Record, Ref, new_id, new_ref
from quire.prompt import Escaped, one_line
from quire.store import run_parallel

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class BranchInfo(Escaped):
    """A branch in a listing: where it is and where it began."""

    name: str
    head: str
    start: str | None
    author: str
    time: datetime

    def __repr__(self) -> str:
        began = f", from {self.start}" if self.start else ""
        return one_line(f"<Branch {self.name!r} at {self.head}{began}>")

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "name": self.name,
            "head": self.head,
            "start": self.start,
            "author": self.author,
            "time": self.time.isoformat(),
        }


def list_branches(core: Core) -> list[BranchInfo]:
    """Main first, then the others by name."""
    refs = list(core.refs.list("branch"))

    def head(name: str) -> str | None:
        try:
            return open_branch(core, name).state.head.commit
        except (BranchClosed, BranchNotFound):
            return None

    heads = run_parallel([lambda n=n: head(n) for n in (MAIN, *(r.name for r in refs))])  # type: ignore[misc]
    found = [] if heads[0] is None else [BranchInfo(MAIN, heads[0], None, "", core.about.created)]
    for ref, at in zip(refs, heads[1:], strict=True):
        if at is None or ref.line is None:
            continue
        last = ref.line.inherited[-1]
        found.append(BranchInfo(ref.name, at, f"{last.slot}.{last.index}", ref.author, ref.time))
    return found


def create(core: Core, live: LiveBranch, source: Line, name: str, at: Point) -> LiveBranch:
    """Create a branch at a commit of a line: the same few requests, however many tables there are."""
    fresh_ref(name, "branch")
    if name == MAIN:
        raise _exists(name)
    reads: list[Callable[[], Any]] = [
        lambda: core.refs.get("branch", name),
        lambda: core.ledger.read(at.branch, [at.slot])[0],
        lambda: core.refs.lives("tag", name),
    ]
    (ref, generation), record, is_tag = run_parallel(reads)
    if is_tag:
        raise TagExists(
            f"{name!r} is the name of a tag, and a branch with this name could not be told apart from it.",
            next="Choose another name.",
            tag=name,
        )
    # Before anything is written: when the branch is made, nothing may be left that can fail.
    known = live.state.head == at and live.state.slot == at.slot
    state = live.state if known else History(core.store, core.ledger, source).at(at)
    check_there(core, source, at, record)
    if ref is not None and ref.kind == "branch" and _is_open(core, name):
        raise _exists(name)
    made = new_ref(
        "branch",
        name,
        author=core.author,
        time=record_time.now(core.store),
        line=source.fork(new_id(), at),
        target=at,
        checkpoint=record.checkpoint,
    )

    numbers = itertools.count(generation + 1)

    def write() -> None:
        if not core.refs.create("branch", made, next(numbers)):
            raise _exists(name)

    def take_back(_: None) -> None:
        core.refs.create("branch", retired(core, name), next(numbers))

    protect(core, live, source, at, write, take_back)
    assert made.line is not None
    branch = LiveBranch(core, name, made.line, made.checkpoint, None, state)
    core.known.learn(name, branch.history, state, alone=True)
    return branch


def check_there(core: Core, line: Line, at: Point, record: Record | None) -> None:
    history = History(core.store, core.ledger, line)
    if record is not None and record.buried:
        raise history.expired(at.commit)
    if record is None or at.index >= len(record.commits) or not line.contains(at):
        raise history.no_commit(at.commit)


def delete(core: Core, name: str) -> None:
    """Close the branch's log with a last record, so that a writer with a cached id is refused, then retire the name."""
    if name == MAIN:
        raise Refused("The main branch cannot be deleted.", next="To delete the whole lake, delete its folder.")
    ref, generation = core.refs.get("branch", name)
    if ref is None or ref.kind != "branch" or ref.line is None:
        raise no_branch(name)
    # Exactly this generation: somebody may make a new branch of the same name as soon as the log is closed.
    with contextlib.suppress(BranchClosed):  # an earlier delete got this far
        _close(LiveBranch(core, name, ref.line, ref.checkpoint, None))
    core.refs.create("branch", retired(core, name), generation + 1)


def retired(core: Core, name: str) -> Ref:
    """The generation of a ref that says that its name is free again."""
    return new_ref("gone", name, author=core.author, time=record_time.now(core.store))


def _close(live: LiveBranch) -> None:
    mark(live, "closed")


def _is_open(core: Core, name: str) -> bool:
    return opened(core, name) is not None


def opened(core: Core, name: str) -> LiveBranch | None:
    """A branch; None when there is none of this name."""
    try:
        return open_branch(core, name)
    except (BranchClosed, BranchNotFound):
        return None


def is_there(core: Core, name: str) -> bool:
    """Whether a name is a branch's."""
    return name == MAIN or core.refs.lives("branch", name)


def line_of(core: Core, name: str) -> Line:
    """The line of a branch by its name, or by the id of its log or the beginning of one.

    The log names branches by id, because names come and go. Refs stay, also those of branches that were deleted.
    """
    core.see_branch(name)
    if name == MAIN:
        return Line(branch=core.about.main)
    ref, _ = core.refs.get("branch", name)
    if ref is not None and ref.line is not None:
        return ref.line
    lines = {core.about.main: Line(branch=core.about.main)}
    called = {core.about.main: MAIN}
    for other, _ in core.refs.every("branch"):
        if other.line is not None:
            lines[other.line.branch], called[other.line.branch] = other.line, other.name
    if name in lines:
        return lines[name]
    found = [log for log in lines if log.startswith(name)] if len(name) >= SHORTEST else []
    if not found:
        raise no_branch(name)
    if len(found) > 1:
        candidates = {log: called[log] for log in sorted(found)}
        told = ", ".join(f"{log} ({branch})" for log, branch in candidates.items())
        raise AmbiguousName(
            f"{name!r} is the beginning of the ids of {len(found)} logs: {told}.",
            next="Write more of the id, or the name of the branch.",
            name=name,
            candidates=candidates,
        )
    return lines[found[0]]


SHORTEST = 4
"""Characters of the id of a log that may stand for all of it."""


def _exists(name: str) -> BranchExists:
    return BranchExists(
        f"Branch {name!r} already exists.", next="Choose another name, or delete the branch first.", branch=name
    )
