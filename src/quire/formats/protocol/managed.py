"""Versions that clients of a format stage themselves and ask the lake to publish."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from quire.formats.protocol.work import Work
from quire.ledger import Pin


@dataclass(frozen=True)
class StagedVersion:
    """A version that a client has staged, and nobody sees yet."""

    location: str
    name: str
    """Its file, below the table's location."""
    number: int
    """Of the version in the table's line."""
    transaction: str
    """The client's name for what it did."""
    ops: tuple[str, ...]
    properties: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class PlainVersion:
    """A version in a table's line, as plain clients see it."""

    number: int
    name: str
    """Its file, below the table's location."""
    size: int
    modified: datetime
    e_tag: str | None = None


@dataclass(frozen=True)
class NewTable:
    """A table that a client has staged: what pins it, and its files below its location."""

    pin: Pin
    files: tuple[str, ...]


@runtime_checkable
class Managed(Protocol):
    """A format whose plain clients let somebody else decide what the next version of a table is.

    What a client was told it made lies at its number, with its own transaction, for ever: the client recognises it by
    that after an answer was lost.
    """

    def staged_version(self, location: str, name: str) -> StagedVersion:
        """What a client has staged; `InvalidInput` for what cannot be that, `Unsupported` for what it may not do."""
        ...

    def client_work(
        self, pin: Pin, staged: Sequence[StagedVersion], *, key: Sequence[str], write: str, table: str
    ) -> Work:
        """Staged versions, one after the other, as the work of a transaction on `pin`, which the line must be at.

        It cannot be moved to another base. `Conflict` when the pin with what the client says it did is not what it has
        staged, and `Revoked` when a file that it names is not there.
        """
        ...

    def client_table(self, staged: Sequence[StagedVersion], *, table: str, marked: bool = False) -> NewTable:
        """The first versions of a table that a client makes; marked with the client's numbers, for a view."""
        ...

    def begun_table(self, location: str) -> Pin:
        """What pins a table that a client has begun by itself, in a folder that was kept free for it.

        Its line may be one version further then, by settings that were taken away.
        """
        ...

    def view_work(
        self, pin: Pin, staged: Sequence[StagedVersion], *, key: Sequence[str], write: str, table: str, movable: bool
    ) -> Work:
        """Staged versions that follow what a view shows of `pin`.

        With `movable` they may be moved onto a rival's state until they are committed. Without, they are published as
        they are or not at all, and are marked with the client's numbers.
        """
        ...

    def shown(self, pin: Pin, number: int, folder: str, *, table: str, exact: bool) -> PlainVersion:
        """A state under a number of a view, as a file in a folder of the view; it is made if it is not there.

        With `exact` it says of itself what the state does, and else that it was restored, unless a client made it.
        """
        ...

    def is_marked(self, pin: Pin, number: int) -> bool:
        """Whether a client made this state in a view, under this number."""
        ...

    def line(self, location: str) -> list[PlainVersion]:
        """The versions that plain clients see, the newest first."""
        ...

    def plain_version(self, location: str, number: int) -> PlainVersion | None:
        """One of them."""
        ...

    def manifest_of(self, pin: Pin) -> str:
        """The file, below the table's location, by which clients open a pinned state."""
        ...

    def commit_of(self, location: str, number: int) -> str | None:
        """The commit that a plain version shows, if Quire put it into the line; None for one of a client."""
        ...
