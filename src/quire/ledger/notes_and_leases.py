"""What keeps files from cleanup besides the log itself: writers in flight and leased snapshots.

Protectors write themselves down first and read the floor afterwards; a collector publishes the floor first and lists
protectors afterwards. So one of the two always sees the other. Writers never list them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Generic, TypeVar

import msgspec

from quire.errors import CorruptRecord, StorageError
from quire.ledger import repairs
from quire.ledger.records import FORMAT, GivenText, Moment, Point, Stored, decode, in_calendar, readable
from quire.ledger.refs import Line
from quire.store import Entry, Store

NOTES = "_quire/writers"
LEASES = "_quire/leases"

LONGEST = 10 * 365 * 86_400.0
"""The longest lease, in seconds."""

MARGIN = timedelta(seconds=5)
"""Allowance for the granularity of a store's timestamps, and for a note that is written a moment after the files."""

P = TypeVar("P", bound="Note | Lease")


class Note(Stored, frozen=True):
    """A writer with open transactions. Objects written at or after `since` may be theirs."""

    format: int
    id: str
    author: GivenText
    since: Moment | None = None
    """Store time; None: since this note itself was written."""

    def __post_init__(self) -> None:
        in_calendar(self.since)


class Lease(Stored, frozen=True):
    """A reader that wants the files of one commit to stay."""

    format: int
    id: str
    author: GivenText
    target: Point
    line: Line
    seconds: Annotated[float, msgspec.Meta(ge=0, le=LONGEST)]
    """How long it counts after it was last renewed."""


readable(Note, Lease)


@dataclass(frozen=True)
class StoredProtector(Generic[P]):
    """A protector and when it was written last, by the clock of the store."""

    key: str
    modified: datetime
    what: P


def note_key(name: str) -> str:
    return f"{NOTES}/{name}"


def lease_key(name: str) -> str:
    return f"{LEASES}/{name}"


def notes(store: Store) -> Iterator[StoredProtector[Note]]:
    """Every writer that says it is there. A note that cannot be read protects what is younger than itself."""
    for entry, body in _held(store, NOTES):
        if body is None:
            continue
        try:
            note = decode(body, Note, entry.key)
        except CorruptRecord:
            note = Note(format=FORMAT, id=entry.key.rpartition("/")[2], author="")
        yield StoredProtector(entry.key, entry.modified, note)


def leases(store: Store) -> Iterator[StoredProtector[Lease]]:
    """Every lease. One that cannot be read is an error: nobody knows what it protects."""
    for entry, body in _held(store, LEASES):
        if body is not None:
            yield StoredProtector(entry.key, entry.modified, repairs.read(store, body, Lease, entry.key))


def _held(store: Store, folder: str) -> Iterator[tuple[Entry, bytes | None]]:
    entries = list(store.list(folder))
    yield from zip(entries, store.get_many([entry.key for entry in entries]), strict=True)


def store_time(store: Store, name: str) -> datetime:
    """What time it is for the store: the time it gives to an object written now."""
    key = f"_quire/probe/{name}"
    for _ in range(3):
        store.put(key, b"")
        try:
            entry = store.stat(key)
        finally:
            store.delete(key)
        if entry is not None:
            store.saw(entry.modified)
            return entry.modified
        # else somebody tidied it away between the two
    raise StorageError(
        f"{store.uri} did not keep what was written to {key!r}.",
        next="Try again. If it happens again, use another store.",
        key=key,
    )
