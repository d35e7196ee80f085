"""Commits of a Delta log as they are stored: one action per line, in JSON."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from quire.errors import FormatError
from quire.ledger.records import readable

Action = dict[str, Any]
"""An action by its kind, such as `{"add": {…}}`."""

OWNER = "quire"
"""The part of `commitInfo` that is Quire's own: whose the commit is, and what it stands on."""


class Follows(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the state before a commit is found without walking through the log."""

    state: str | None = None
    """The version of which there is a file with the whole state; None where the log begins."""
    since: tuple[str, ...] = ()
    """The versions from there up to the one before the commit, in order."""


class Made(msgspec.Struct, frozen=True, omit_defaults=True):
    """What Quire says of a commit that it made."""

    lake: str
    write: str
    counter: int
    """Of the pin; 0 for a version that was there before the lake's first commit of it."""
    follows: Follows = Follows()


readable(Made)


class Commit(msgspec.Struct, frozen=True):
    """The actions of one version."""

    actions: tuple[Action, ...]

    @property
    def info(self) -> dict[str, Any]:
        return next((a["commitInfo"] for a in self.actions if "commitInfo" in a), {})

    @property
    def made(self) -> Made | None:
        """What Quire says of it; None for a commit of another writer."""
        found = self.info.get(OWNER)
        if found is None:
            return None
        try:
            return msgspec.convert(found, Made)
        except msgspec.ValidationError:
            return None

    @property
    def time(self) -> int:
        """The in-commit timestamp, or what stands for it, in milliseconds."""
        found = self.info.get("inCommitTimestamp", self.info.get("timestamp", 0))
        return found if isinstance(found, int) else 0

    def encode(self) -> bytes:
        return b"".join(msgspec.json.encode(action) + b"\n" for action in self.actions)


_decoder = msgspec.json.Decoder(dict[str, Any])


def decode(body: bytes, path: str) -> Commit:
    """A commit as it is stored, or `FormatError`."""
    try:
        actions = tuple(_decoder.decode(line) for line in body.split(b"\n") if line.strip())
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(f"{path} is no commit of a Delta table ({error}).", next="Restore it from a copy.") from None
    if any(not isinstance(part, dict) for action in actions for part in action.values()):
        raise FormatError(f"{path} is no commit of a Delta table.", next="Restore it from a copy.", key=path)
    return Commit(actions)


def name_by_content(body: bytes) -> str:
    """A UUID that the same bytes always have, so that a commit which is staged twice is one file."""
    return str(uuid.UUID(bytes=hashlib.sha256(body).digest()[:16], version=4))


def encoded_made(made: Made) -> Any:
    """The same as part of `commitInfo`."""
    return msgspec.to_builtins(made)


def only(actions: Iterable[Action], kind: str) -> Sequence[dict[str, Any]]:
    """The actions of one kind."""
    return [action[kind] for action in actions if kind in action]
