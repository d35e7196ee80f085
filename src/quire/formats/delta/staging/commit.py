"""From what a transaction did to a Delta table to the commit that its log will have.

A commit is a function of the work and of the state that it stands on, to the last byte, and its file is named by its
content. So whoever stages the same work on the same state again writes the same file, in any process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from quire.formats.delta.folder import Folder
from quire.formats.delta.log.actions import OWNER, Action, Commit, Follows, Made, decode, encoded_made, name_by_content
from quire.formats.delta.log.dialects import dialect_of, folder_of
from quire.formats.delta.log.names import Name, follows_path, state_path
from quire.formats.delta.log.state import State, differences, replay

OWNERS = ("inCommitTimestamp", "timestamp", "txnId")
"""What the owner says of a commit, whatever the client said."""
EVERY = 32
"""Commits after which the whole state is written to a file of its own again."""


@dataclass(frozen=True)
class Base:
    """The state that a commit stands on."""

    state: State
    follows: Follows
    counter: int


@dataclass(frozen=True)
class Version:
    """A commit as it will be stored, and the state after it."""

    name: Name
    body: bytes
    state: State
    follows: Follows
    beside: dict[str, bytes] = field(default_factory=dict)
    """Other files that it needs."""

    def base(self, counter: int) -> Base:
        return Base(self.state, self.follows, counter)


def version_on(
    base: Base,
    target: State,
    *,
    counter: int,
    lake: str,
    write: str,
    time: int,
    operation: str,
    rearranged: bool = False,
    given: Sequence[Action] | None = None,
) -> Version:
    """The commit that leads from a base to a target in which all that is deleted is written down.

    With `given`, these are its actions, word for word; only what its owner says of it is the owner's.
    """
    follows, beside = _followed(base)
    when = max(time, base.state.time + 1)
    changes = list(differences(base.state, target, when=when, rearranged=rearranged))
    told: dict[str, Any] = {}
    if given is not None:
        changes = [action for action in given if "commitInfo" not in action]
        told = next((action["commitInfo"] for action in given if "commitInfo" in action), {})
    info: dict[str, Any] = {
        "inCommitTimestamp": when,
        "timestamp": when,
        "operation": operation,
        "operationParameters": {},
        "isBlindAppend": operation == "WRITE",
        "engineInfo": "Quire",
        "txnId": write,
        **{key: value for key, value in told.items() if key not in OWNERS},
        OWNER: encoded_made(Made(lake, write, counter, follows)),
    }
    commit = Commit(({"commitInfo": info}, *changes))
    body = commit.encode()
    number = base.state.version + 1
    # A table that is given up is staged as its owner did it last.
    kind = folder_of(target if dialect_of(target) is not None else base.state)
    name = Name(number, kind, name_by_content(body)) if number else Name(0)
    state = replay(base.state, [commit], name.path)
    return Version(name, body, state, Follows(follows.state, (*follows.since, name.text)), beside)


def version_of_client(base: Base, name: Name, body: bytes) -> Version:
    """A commit that a client has staged, as it is; what it follows is told beside it."""
    follows, beside = _followed(base)
    beside[follows_path(name)] = msgspec.json.encode(follows)
    state = replay(base.state, [decode(body, name.path)], name.path)
    return Version(name, body, state, Follows(follows.state, (*follows.since, name.text)), beside)


def _followed(base: Base) -> tuple[Follows, dict[str, bytes]]:
    """What the next commit follows, and the file with a whole state that is due with it."""
    follows = base.follows
    if len(follows.since) < EVERY:
        return follows, {}
    last = Name.parse(follows.since[-1])
    return Follows(state=last.text), {state_path(last): Folder.whole_file(base.state)}
