"""Tags: names for commits, with a message. A tag keeps its commit from cleanup, whatever becomes of the branch."""

from __future__ import annotations

import itertools
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from quire.errors import BranchExists, CorruptRecord, TagExists, TagNotFound
from quire.lake.branch import branches
from quire.lake.commit import record_time, record_values
from quire.lake.names import fresh_ref
from quire.lake.upkeep.cleanup.protection import protect
from quire.ledger import MAIN, Line, Point, Ref, new_ref
from quire.prompt import Escaped, one_line
from quire.store import run_parallel

if TYPE_CHECKING:
    from quire.lake.branch.live import LiveBranch
    from quire.lake.context import Core


class TagInfo(Escaped, str):
    """A tag in a listing: the commit that it names, as text, with the message and who made it when.

    >>> import quire
    >>> lake = quire.create("memory://tag-example")
    >>> lake.tag("v1", message="the first release")
    '0.0'
    >>> lake.tags()["v1"].message
    'the first release'
    """

    message: str
    author: str
    time: datetime

    def __new__(cls, commit: str, ref: Ref) -> TagInfo:
        made = super().__new__(cls, commit)
        made.message, made.author, made.time = ref.message, ref.author, ref.time
        return made

    @property
    def commit(self) -> str:
        """The commit: `12.0`, or `exp:12.0` on another branch."""
        return str(self)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "commit": self.commit,
            "message": self.message,
            "author": self.author,
            "time": self.time.isoformat(),
        }

    def __repr__(self) -> str:
        said = f", {self.message!r}" if self.message else ""
        return one_line(f"<tag of {self.commit}{said}>")

    def __reduce__(self) -> Any:
        return restored, (str(self), self.message, self.author, self.time)


def restored(commit: str, message: str, author: str, time: datetime) -> TagInfo:
    return TagInfo(commit, Ref(1, "", "gone", "", author, time, message))


def create(core: Core, live: LiveBranch, name: str, at: Point, line: Line, message: str | None = "") -> None:
    """Name a commit. The tag keeps the line that leads to it, so it can be read even after the branch is deleted."""
    fresh_ref(name, "tag")
    said = "" if message is None else record_values.message(message, "message of the tag")
    looks: list[Any] = [
        partial(core.refs.get, "tag", name),
        partial(core.ledger.read, at.branch, [at.slot]),
        partial(core.refs.lives, "branch", name),
    ]
    (ref, generation), [record], is_branch = run_parallel(looks)
    if ref is not None and ref.kind == "tag":
        raise _exists(name)
    if is_branch or name == MAIN:
        raise BranchExists(
            f"{name!r} is the name of a branch, and a tag with this name could not be told apart from it.",
            next="Choose another name.",
            branch=name,
        )
    branches.check_there(core, line, at, record)
    made = new_ref(
        "tag", name, author=core.author, time=record_time.now(core.store), target=at, message=said, line=line
    )
    numbers = itertools.count(generation + 1)

    def write() -> None:
        if not core.refs.create("tag", made, next(numbers)):
            raise _exists(name)

    def take_back(_: None) -> None:
        core.refs.create("tag", branches.retired(core, name), next(numbers))

    protect(core, live, line, at, write, take_back)


def delete(core: Core, name: str) -> None:
    _, generation = _get(core, name)
    core.refs.create("tag", branches.retired(core, name), generation + 1)


def target(core: Core, name: str) -> tuple[Point, Line]:
    """The tagged commit, and a line that contains it whatever became of its branch."""
    ref, _ = _get(core, name)
    assert ref.target is not None
    line = ref.line or Line(branch=core.about.main)
    if not line.contains(ref.target):
        raise CorruptRecord(
            f"Tag {name!r} names commit {ref.target.commit} and a history that does not hold it.",
            next="Delete the tag, and tag the commit again.",
            tag=name,
            commit=ref.target.commit,
        )
    return ref.target, line


def is_there(core: Core, name: str) -> bool:
    ref, _ = core.refs.get("tag", name)
    return ref is not None and ref.kind == "tag" and ref.target is not None


def _get(core: Core, name: str) -> tuple[Ref, int]:
    ref, generation = core.refs.get("tag", name)
    if ref is None or ref.kind != "tag" or ref.target is None:
        raise TagNotFound(f"There is no tag {name!r}.", next="`quire tag list` shows the tags.", tag=name)
    return ref, generation


def every(core: Core, line: Line) -> dict[str, TagInfo]:
    """Tags by name."""
    names = {core.about.main: MAIN}
    names |= {ref.line.branch: ref.name for ref in core.refs.list("branch") if ref.line is not None}
    found = {}
    for ref in core.refs.list("tag"):
        if ref.target is not None:
            there = ref.target.commit
            owner = names.get(ref.target.branch, "(deleted)")
            found[ref.name] = TagInfo(there if line.contains(ref.target) else f"{owner}:{there}", ref)
    return found


def _exists(name: str) -> TagExists:
    return TagExists(f"Tag {name!r} already exists.", next="Choose another name, or delete the tag first.", tag=name)
