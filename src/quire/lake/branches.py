"""Branches and tags. A branch is a ref and a log that starts at another branch's commit; nothing is copied."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from quire.errors import (
    BranchClosed,
    BranchExists,
    BranchNotFound,
    CommitNotFound,
    Conflict,
    ExpectationFailed,
    NotFastForward,
    QuireError,
    Refused,
    Revoked,
    TagExists,
    TagNotFound,
)
from quire.lake.core import Core
from quire.lake.edits import Edit
from quire.lake.line import LiveBranch, no_branch, open_branch
from quire.lake.marks import mark
from quire.lake.names import check_ref, closed
from quire.lake.protect import protect
from quire.lake.receipt import Receipt
from quire.ledger import MAIN, History, Learnt, Line, Point, Record, State, new_id, new_ref
from quire.store import clock, run_parallel

if TYPE_CHECKING:
    from quire.lake.lake import Lake


@dataclass(frozen=True)
class BranchInfo:
    """A branch in a listing: where it is and where it began."""

    name: str
    head: str
    start: str | None
    author: str
    time: datetime

    def to_dict(self) -> dict[str, Any]:
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
    found = [BranchInfo(MAIN, heads[0] or "", None, "", core.about.created)]
    for ref, at in zip(refs, heads[1:], strict=True):
        if at is None or ref.line is None:
            continue
        last = ref.line.inherited[-1]
        found.append(BranchInfo(ref.name, at, f"{last.slot}.{last.index}", ref.author, ref.time))
    return found


def create(core: Core, live: LiveBranch, source: Line, name: str, at: Point) -> LiveBranch:
    """Create a branch at a commit of a line: the same few requests, however many tables there are."""
    check_ref(name, "branch")
    if name == MAIN:
        raise _exists(name)
    reads: list[Callable[[], Any]] = [
        lambda: core.refs.get("branch", name),
        lambda: core.ledger.read(at.branch, [at.slot])[0],
    ]
    (ref, generation), record = run_parallel(reads)
    # Before anything is written: when the branch is made, nothing may be left that can fail.
    known = live.state.head == at and live.state.slot == at.slot
    state = live.state if known else History(core.store, core.ledger, source).at(at)
    _check_there(core, source, at, record)
    if ref is not None and ref.kind == "branch" and _is_open(core, name):
        raise _exists(name)
    made = new_ref(
        "branch",
        name,
        author=core.author,
        time=clock.now(),
        line=source.fork(new_id(), at),
        target=at,
        checkpoint=record.checkpoint,
    )

    numbers = itertools.count(generation + 1)

    def write() -> None:
        if not core.refs.create("branch", made, next(numbers)):
            raise _exists(name)

    def take_back(_: None) -> None:
        core.refs.create("branch", new_ref("gone", name, author=core.author, time=clock.now()), next(numbers))

    protect(core, live, source, at, write, take_back)
    assert made.line is not None
    return LiveBranch(core, name, made.line, made.checkpoint, None, state)


def _check_there(core: Core, line: Line, at: Point, record: Record | None) -> None:
    history = History(core.store, core.ledger, line)
    if record is not None and record.buried:
        raise history.expired(at.commit)
    if record is None or at.index >= len(record.commits) or not line.contains(at):
        raise history.no_commit(at.commit)


def delete(core: Core, name: str) -> None:
    """Close the branch's log with a last record, so that a writer with a cached id is refused, then retire the name."""
    if name == MAIN:
        raise Refused("The main branch cannot be deleted.", next="Delete the lake's folder to delete everything.")
    ref, generation = core.refs.get("branch", name)
    if ref is None or ref.kind != "branch" or ref.line is None:
        raise no_branch(name)
    # Exactly this generation: somebody may make a new branch of the same name as soon as the log is closed.
    with contextlib.suppress(BranchClosed):  # an earlier delete got this far
        _close(LiveBranch(core, name, ref.line, ref.checkpoint, None))
    core.refs.create("branch", new_ref("gone", name, author=core.author, time=clock.now()), generation + 1)


def _close(live: LiveBranch) -> None:
    mark(live, "closed")


def _is_open(core: Core, name: str) -> bool:
    try:
        open_branch(core, name)
    except (BranchClosed, BranchNotFound):
        return False
    return True


def line_of(core: Core, name: str) -> Line:
    if name == MAIN:
        return Line(branch=core.about.main)
    ref, _ = core.refs.get("branch", name)
    if ref is not None and ref.line is not None:
        return ref.line
    # The log names branches by id, because names come and go.
    for other in core.refs.list("branch"):
        if other.line is not None and other.line.branch == name:
            return other.line
    if name == core.about.main:
        return Line(branch=name)
    raise no_branch(name)


def fast_forward(lake: Lake, source: LiveBranch) -> Receipt:
    """Adopt what another branch has. When a cleanup comes between, look again at where that branch is."""
    for _ in range(2):
        try:
            return _fast_forward(lake, source)
        except Revoked:
            source.refresh()
    return _fast_forward(lake, source)


def _fast_forward(lake: Lake, source: LiveBranch) -> Receipt:
    """One commit that adopts every pin by which `source` is ahead."""
    target = lake._live
    here = target.refresh()
    there = source.refresh()  # afterwards: what is its head now stays until a floor comes after `here`
    if there.closed:
        raise closed(source.name)
    last = target.history.commit(here.head)
    known = last.adopts or here.head
    if known == there.head or target.line.contains(there.head):
        return Receipt(None, target.name)
    if not source.line.contains(known) and not source.line.contains(here.head):
        raise _diverged(target.name, source.name, here)
    tx = lake.transaction(f"fast-forward to {source.name} at {there.head.commit}", if_head=here.head.commit)
    tx.at = here
    tx.parents = (there.head,)
    tx.adopts = there.head
    tx.learnt = _learnt(here, there)
    for table in sorted(here.tables.keys() | there.tables.keys()):
        edit = adopt_pin(here, there, table)
        if edit is not None:
            tx.edits[table] = edit
    try:
        return tx.commit()
    except Revoked:
        raise
    except (ExpectationFailed, Conflict):
        raise _diverged(target.name, source.name, target.state) from None


def _learnt(here: State, there: State) -> Learnt:
    """The tokens that were used there and are not known here."""
    return Learnt(
        streams={s: n for s, n in there.streams.items() if n > here.streams.get(s, -1)},
        tokens={t: at for t, at in there.tokens.items() if t not in here.tokens},
        since=there.tokens_since,
    )


def adopt_pin(here: State, there: State, table: str) -> Edit | None:
    """The edit that makes `table` here what it is there; None when it is the same."""
    mine, theirs = here.tables.get(table), there.tables.get(table)
    same_place = mine and theirs and mine.pin.location == theirs.pin.location and mine.info == theirs.info
    if mine and theirs and same_place and mine.pin.version == theirs.pin.version:
        return None  # the same state; counters are each branch's own
    if theirs is None:
        assert mine is not None
        return Edit(mine.info, mine, ops=["drop"], dropped=True)
    if mine is None:
        return Edit(theirs.info, None, ops=["restore"], pin=theirs.pin)
    renamed = mine.info.name != theirs.info.name
    return Edit(theirs.info, mine, ops=["restore"], pin=theirs.pin, renamed=renamed)


def _diverged(target: str, source: str, here: State) -> NotFastForward:
    return NotFastForward(
        f"Branch {target!r} has commits that {source!r} does not contain (head {here.head.commit}).",
        next="Create a new branch from the head and apply the work there.",
        target=target,
        source=source,
    )


def _exists(name: str) -> BranchExists:
    return BranchExists(
        f"There is already a branch {name!r}.", next="Choose another name, or delete it first.", branch=name
    )


# -- tags ---------------------------------------------------------------------------------------------------------


def create_tag(core: Core, live: LiveBranch, name: str, at: Point, line: Line, message: str = "") -> None:
    """Name a commit. The tag keeps the line that leads to it, so it can be read even after the branch is deleted."""
    check_ref(name, "tag")
    ref, generation = core.refs.get("tag", name)
    if ref is not None and ref.kind == "tag":
        raise _tagged(name)
    [record] = core.ledger.read(at.branch, [at.slot])
    _check_there(core, line, at, record)
    made = new_ref("tag", name, author=core.author, time=clock.now(), target=at, message=message, line=line)

    numbers = itertools.count(generation + 1)

    def write() -> None:
        if not core.refs.create("tag", made, next(numbers)):
            raise _tagged(name)

    def take_back(_: None) -> None:
        core.refs.create("tag", new_ref("gone", name, author=core.author, time=clock.now()), next(numbers))

    protect(core, live, line, at, write, take_back)


def delete_tag(core: Core, name: str) -> None:
    _, generation = _get_tag(core, name)
    core.refs.create("tag", new_ref("gone", name, author=core.author, time=clock.now()), generation + 1)


def no_place(name: str) -> CommitNotFound:
    return CommitNotFound(
        f"There is no commit, tag or branch {name!r}.",
        next="`quire log`, `quire tag list` and `quire branch list` show them.",
        commit=name,
    )


def tag_target(core: Core, name: str) -> tuple[Point, Line]:
    """The tagged commit, and a line that contains it whatever became of its branch."""
    ref, _ = _get_tag(core, name)
    return ref.target, ref.line or Line(branch=core.about.main)


def has_tag(core: Core, name: str) -> bool:
    try:
        _get_tag(core, check_ref(name, "tag"))
    except QuireError:
        return False
    return True


def _get_tag(core: Core, name: str) -> tuple[Any, int]:
    ref, generation = core.refs.get("tag", name)
    if ref is None or ref.kind != "tag" or ref.target is None:
        raise TagNotFound(f"There is no tag {name!r}.", next="`quire tag list` shows the tags.", tag=name)
    return ref, generation


def list_tags(core: Core, line: Line) -> dict[str, str]:
    names = {core.about.main: MAIN}
    names |= {ref.line.branch: ref.name for ref in core.refs.list("branch") if ref.line is not None}
    found = {}
    for ref in core.refs.list("tag"):
        if ref.target is not None:
            there = ref.target.commit
            owner = names.get(ref.target.branch, "(deleted)")
            found[ref.name] = there if line.contains(ref.target) else f"{owner}:{there}"
    return found


def state_anywhere(core: Core, at: Point, line: Line) -> State:
    """The state at a commit that does not lie on the current branch."""
    return History(core.store, core.ledger, line).at(at)


def _tagged(name: str) -> TagExists:
    return TagExists(f"There is already a tag {name!r}.", next="Choose another name, or delete it first.", tag=name)
