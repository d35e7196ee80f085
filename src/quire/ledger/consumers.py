"""Named consumers of a change feed as they are stored: how far each has come, and what it holds.

A consumer is `_quire/consumers/<name>/<generation>`. Each step is a new generation, created if absent, so of two
processes under one name none goes back behind the other unseen. The newest one counts; those before it are removed by
whoever wrote it, or by cleanup. Its age is what the store says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated
from urllib.parse import quote, unquote

import msgspec

from quire.errors import CommitUnknown
from quire.ledger.notes_and_leases import LONGEST, MARGIN
from quire.ledger.records import GivenText, Moment, Point, Stored, corrupt, decode, encode, in_calendar, readable
from quire.ledger.refs import Line
from quire.store import Entry, Outcome, Store, run_parallel

FOLDER = "_quire/consumers"


class StoredConsumer(Stored, frozen=True):
    """One generation of a consumer."""

    format: int
    write: str
    name: GivenText
    branch: GivenText
    """The name of the branch when it began; `line` says which one it is."""
    line: Line
    at: Point
    """The last commit that it is done with."""
    author: GivenText
    time: Moment
    hold: Annotated[float, msgspec.Meta(ge=0, le=LONGEST)] = 0.0
    """Seconds for which cleanup keeps what comes after `at`, from when this was written; 0: it keeps nothing."""
    baseline: bool = False
    """Whether it has yet to read all rows of a commit first."""
    tables: tuple[str, ...] | None = None
    ops: tuple[str, ...] | None = None
    images: str = "after"
    dropped: bool = False

    def __post_init__(self) -> None:
        in_calendar(self.time)


readable(StoredConsumer)


@dataclass(frozen=True)
class Generation:
    """A consumer as it stands, and when that was written by the clock of the store."""

    number: int
    modified: datetime
    what: StoredConsumer

    def holds(self, now: datetime, margin: timedelta = MARGIN) -> bool:
        """Whether it keeps changes from cleanup."""
        if self.what.dropped or not self.what.hold:
            return False
        return now - self.modified <= timedelta(seconds=self.what.hold) + margin


class StoredConsumers:
    """The consumers of a lake."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, name: str) -> Generation | None:
        """A consumer as it stands; None if there is none of this name, or it was dropped and forgotten."""
        found = list(self._store.list(_folder(name)))
        while found:
            newest = max(found, key=lambda entry: entry.key)
            body = self._store.get_or_none(newest.key)
            if body is not None:
                return _read(body, newest)
            found = list(self._store.list(_folder(name)))  # somebody made the next one, and removed it
        return None

    def create(self, consumer: StoredConsumer, number: int) -> bool:
        """Create a generation. False: somebody else created it first."""
        key = f"{_folder(consumer.name)}/{number:020d}"
        created = self._store.create(
            key, encode(consumer), mine=lambda found: decode(found, StoredConsumer, key).write == consumer.write
        )
        if created.outcome is Outcome.UNKNOWN:
            raise CommitUnknown(
                f"The store did not confirm that consumer {consumer.name!r} was written.",
                next="Read the changes again from where it stood: each has a token, so none is applied twice.",
                consumer=consumer.name,
                write=consumer.write,
            )
        return created.outcome is Outcome.COMMITTED

    def written(self, name: str) -> dict[int, datetime]:
        """Its generations that are there, and when each was written."""
        return {_number(entry): entry.modified for entry in self._store.list(_folder(name))}

    def forget(self, name: str, numbers: list[int]) -> None:
        """Remove generations that do not count any more."""
        run_parallel([partial(self._store.delete, f"{_folder(name)}/{number:020d}") for number in numbers])

    def every(self) -> Iterator[Generation]:
        """Every consumer as it stands, by name, those that were dropped too."""
        newest: dict[str, Entry] = {}
        for entry in self._store.list(FOLDER):
            folder = entry.key.rpartition("/")[0]
            if folder not in newest or entry.key > newest[folder].key:
                newest[folder] = entry
        bodies = self._store.get_many([entry.key for entry in newest.values()])
        for entry, body in zip(newest.values(), bodies, strict=True):
            if body is not None:
                yield _read(body, entry)
                continue
            name = _name_in(entry)
            found = self.get(name) if name is not None else None
            if found is not None:
                yield found

    def over(self, horizon: datetime) -> list[str]:
        """Objects that do not count any more and are older than a time: former generations, and dropped consumers."""
        found: dict[str, list[Entry]] = {}
        for entry in self._store.list(FOLDER):
            found.setdefault(entry.key.rpartition("/")[0], []).append(entry)
        keys = []
        for entries in found.values():
            *former, newest = sorted(entries, key=lambda entry: entry.key)
            keys += [entry.key for entry in former if entry.modified < horizon]
            if newest.modified < horizon:
                body = self._store.get_or_none(newest.key)
                if body is not None and _read(body, newest).what.dropped:
                    keys.append(newest.key)
        return keys


def _read(body: bytes, entry: Entry) -> Generation:
    found = decode(body, StoredConsumer, entry.key)
    if _folder(found.name) != entry.key.rpartition("/")[0]:
        raise corrupt(entry.key, f"it says that it is consumer {found.name!r}")
    return Generation(_number(entry), entry.modified, found)


def _number(entry: Entry) -> int:
    number = entry.key.rpartition("/")[2]
    if not number.isdecimal():
        raise corrupt(entry.key, "its name is not that of a consumer")
    return int(number)


def _name_in(entry: Entry) -> str | None:
    parts = entry.key.removeprefix(f"{FOLDER}/").split("/")
    return unquote(parts[0]) if len(parts) == 2 else None


def _folder(name: str) -> str:
    return f"{FOLDER}/{quote(name, safe='')}"
