"""What a word for a commit means, wherever one is given.

    12.0               a commit of the branch at hand
    12                 the same, if it is the only commit of its slot
    exp:12.0           a commit of another branch, by its name, or by the id of its log or the beginning of one
    HEAD               the newest commit of the branch at hand
    tag:v1  branch:exp a tag, the newest commit of a branch
    v1  exp            either, if there is only one of the two

A word that means several things is an error that says how to name each of them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from quire.errors import AmbiguousName, BranchNotFound, CommitNotFound, InvalidInput
from quire.lake.branch import branches, tags
from quire.lake.names import is_ref, parse_commit, parse_time
from quire.ledger import MAIN, History, Line, Point, State
from quire.store import run_parallel

if TYPE_CHECKING:
    from quire.lake.branch.live import LiveBranch
    from quire.lake.context import Core

_COMMIT = re.compile(r"(?:(.+):)?(\d+(?:\.\d*)?)", re.DOTALL)
_SPACES = ("tag", "branch")


class ResolvedCommit(NamedTuple):
    """The commit that a word means."""

    point: Point
    line: Line
    """One that leads to it."""
    on: str
    """The name of its branch, as far as the word tells; else the id of its log."""


def resolve(core: Core, live: LiveBranch, word: Any) -> ResolvedCommit:
    """The commit that a word means; None means the newest one."""
    if word is None or word == "HEAD":
        return ResolvedCommit(live.refresh().head, live.line, live.name)
    written = _COMMIT.fullmatch(word) if isinstance(word, str) else None
    if written is None:
        return _named(core, live, word)
    slot, index = parse_commit(written[2])
    line = live.line if written[1] is None else branches.line_of(core, written[1])
    point = Point(branch=line.owner(slot), slot=slot, index=index)
    if "." not in written[2]:
        _check_alone(core, line, point, word)
    return ResolvedCommit(point, line, live.name if written[1] is None or live.line.contains(point) else written[1])


def state_of(core: Core, live: LiveBranch, word: Any) -> State:
    """The state at the commit that a word means."""
    if word is None or word == "HEAD":
        return core.narrow(live.refresh())
    found = resolve(core, live, word)
    return core.narrow(_state(core, live, found.point, found.line))


def state_at(core: Core, live: LiveBranch, commit: Any, tag: str | None, time: Any) -> State:
    """The state at a commit, a tag or a time, whichever is given."""
    if sum(x is not None for x in (commit, tag, time)) != 1:
        raise InvalidInput("More than one of commit=, tag= and time= is given, or none.", next='lake.at(tag="v1").')
    if commit is not None:
        return state_of(core, live, commit)
    if tag is None:
        return core.narrow(live.history.at_time(live.refresh(), parse_time(time)))
    found = _tagged(core, live, tag)
    return core.narrow(_state(core, live, found.point, found.line))


def _state(core: Core, live: LiveBranch, point: Point, line: Line) -> State:
    history = live.history if line is live.line else History(core.store, core.ledger, line)
    return history.at(point)


def _named(core: Core, live: LiveBranch, word: Any) -> ResolvedCommit:
    space, _, rest = word.partition(":") if isinstance(word, str) else ("", "", "")
    if space in _SPACES and rest:
        return _tagged(core, live, rest) if space == "tag" else _head(core, rest)
    if not is_ref(word):
        parse_commit(word)  # it says what a commit looks like
    is_tag, is_branch = run_parallel([lambda: tags.is_there(core, word), lambda: branches.is_there(core, word)])
    if is_tag and is_branch:
        raise _ambiguous(word, [_tagged(core, live, word), _head(core, word)])
    if is_tag:
        return _tagged(core, live, word)
    if is_branch:
        return _head(core, word)
    raise CommitNotFound(
        f"There is no commit, tag or branch {word!r}.",
        next="`quire log`, `quire tag list` and `quire branch list` show them.",
        commit=word,
    )


def _tagged(core: Core, live: LiveBranch, name: str) -> ResolvedCommit:
    point, line = tags.target(core, name)
    if live.line.contains(point):
        return ResolvedCommit(point, live.line, live.name)
    return ResolvedCommit(point, line, MAIN if line.branch == core.about.main else line.branch)


def _head(core: Core, name: str) -> ResolvedCommit:
    other = branches.opened(core, name)
    if other is None:
        raise BranchNotFound(
            f"There is no branch {name!r}.", next="`quire branch list` shows the branches.", branch=name
        )
    return ResolvedCommit(other.state.head, other.line, name)


def _check_alone(core: Core, line: Line, at: Point, word: str) -> None:
    """Refuse a slot for a commit when it holds several."""
    [record] = core.ledger.read(at.branch, [at.slot])
    limit = line.limit(at.slot)
    commits = record.commits[: None if limit is None else limit + 1] if record is not None else ()
    if len(commits) < 2:
        return
    candidates = {f"{word}.{index}": commit.message for index, commit in enumerate(commits)}
    told = ", ".join(f"{name} ({message!r})" for name, message in list(candidates.items())[:NAMED])
    more = f" and {len(candidates) - NAMED} more" if len(candidates) > NAMED else ""
    raise AmbiguousName(
        f"{word!r} is the beginning of {len(candidates)} commits: {told}{more}.",
        next=f"Write {word}.0, or the one that is meant.",
        name=word,
        candidates=candidates,
    )


NAMED = 10
"""Candidates that a message names; the error has all of them."""


def _ambiguous(word: str, found: list[ResolvedCommit]) -> AmbiguousName:
    candidates = {f"{space}:{word}": one.point.commit for space, one in zip(_SPACES, found, strict=True)}
    told = " and ".join(f"{name} ({commit})" for name, commit in candidates.items())
    return AmbiguousName(
        f"{word!r} is a tag and a branch: {told}.",
        next=f"Write tag:{word} or branch:{word}.",
        name=word,
        candidates=candidates,
    )
