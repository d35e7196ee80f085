"""The commits of a branch, and one of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from quire.arguments import bounded
from quire.errors import InvalidInput
from quire.lake.read.all_parents import AllParents, LogNames
from quire.lake.receipt import CommitInfo, Log
from quire.lake.resolve import resolve

if TYPE_CHECKING:
    from quire.lake.branch.live import LiveBranch
    from quire.lake.context import Core

Parents = Literal["first", "all"]


def log(core: Core, live: LiveBranch, limit: int | None, parents: Parents = "first") -> Log:
    """Commits up to the newest, newest first: of the branch alone, or of what was merged into it, too."""
    limit, head = bounded("limit", limit, 0), live.refresh()
    if parents not in ("first", "all"):
        raise InvalidInput(f"{parents!r} is not which parents to follow.", next='Pass "first" or "all".')

    def entries() -> Iterator[CommitInfo]:
        for point, commit in live.history.commits(head):
            yield CommitInfo.of(point, core.told(commit), live.name, ledger=core.about.ledger)

    def all_entries() -> Iterator[CommitInfo]:
        names = LogNames(core)
        for found in AllParents(core, head.head):
            on = live.name if live.line.contains(found.point) else names.of(found.point.branch)
            yield CommitInfo.of(found.point, core.told(found.commit), on, ledger=core.about.ledger, kept=found.parents)

    return Log(entries if parents == "first" else all_entries, limit)


def show(core: Core, live: LiveBranch, word: str) -> CommitInfo:
    """The commit that a word means, and how many others share its slot."""
    point, line, name = resolve(core, live, word)
    [record] = core.ledger.read(point.branch, [point.slot])
    if record is not None and record.buried:
        raise live.history.expired(word)
    if record is None or point.index >= len(record.commits) or not line.contains(point):
        raise live.history.no_commit(word)
    shared = len(record.commits)
    return CommitInfo.of(point, core.told(record.commits[point.index]), name, ledger=core.about.ledger, shared=shared)
