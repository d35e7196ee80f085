"""The writer note: what this process stages is in use. Off the critical path, one per process, never listed here.

A transaction that is open for longer than a moment is covered by a note, renewed while it lasts. Cleanup leaves alone
what was written since; a writer whose note it takes for dead is revoked by a record in the log, and so finds out.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import weakref
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from quire.errors import QuireError
from quire.lake.upkeep.background import Background
from quire.ledger import FORMAT, encode, new_id
from quire.ledger.notes_and_leases import Note, note_key
from quire.ledger.protocol import settled
from quire.store import Outcome, clock

if TYPE_CHECKING:
    from quire.lake.commit.transaction import Transaction
    from quire.lake.context import Core

NOTE_AFTER = 1.0
"""Seconds after which an open transaction is worth a note; less than the margin that cleanup allows."""
RENEW_SECONDS = 10.0


@dataclass
class Written:
    """A note that is in the store."""

    id: str
    since: datetime
    covers: dict[str, int] = field(default_factory=dict)
    """By branch: a head that was read after the note was written. Every later floor was published in its sight."""
    beats: list[tuple[float, datetime]] = field(default_factory=list)
    """When a renewal was known to be in the store, by our own clock, and its time by the store's."""


_alive: weakref.WeakSet[Writers] = weakref.WeakSet()


class Writers:
    """The open transactions of one lake in this process, and the note that covers them."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._open: weakref.WeakKeyDictionary[Transaction, float] = weakref.WeakKeyDictionary()
        self._unsettled: set[Transaction] = set()
        """Held here so that they are not forgotten while nobody knows how they ended."""
        self._lock = clock.lock()
        self._background: Background | None = None
        self._due = float("-inf")
        """When the open transactions are looked at next; in the past when nothing is planned."""
        self._left: list[str] = []
        """Notes that are still to be deleted."""
        self._pid = os.getpid()
        self.note: Written | None = None
        _alive.add(self)

    def began(self, tx: Transaction, background: Background | None) -> None:
        with self._lock:
            now = self._open[tx] = clock.monotonic()
            if background is None or self._core.store.scheme == "memory" or now <= self._due <= now + NOTE_AFTER:
                return
            if self._background is None:
                self._background = Background()  # its own: a long backfill must not hold a note up
            self._come_again(NOTE_AFTER)

    def _come_again(self, delay: float) -> None:
        assert self._background is not None
        self._due = clock.monotonic() + delay
        self._background.submit("note", self.tend, delay=delay, lasting=True)

    def unsettled(self, tx: Transaction) -> None:
        """Remember a transaction whose outcome is unknown: what it staged stays protected until that is settled."""
        with self._lock:
            self._unsettled.add(tx)

    def tend(self) -> None:
        """Write, renew or remove the note, and come again while transactions are open or it could not be removed."""
        with self._lock:
            self._due = float("-inf")
        later = RENEW_SECONDS
        try:
            self._settle()
            busy = self._busy()
            if not busy:
                self._remove()
                return
            oldest = min(busy.values())
            soon = oldest + NOTE_AFTER - clock.monotonic()
            if self.note is not None or soon <= 0:
                self._write(oldest)
                self._cover(list(busy))
            else:
                later = soon
        finally:
            if self.note is not None or self._left or self._busy():
                with self._lock:
                    self._come_again(later)

    def _remove(self) -> None:
        with self._lock:
            note, self.note = self.note, None  # first of all: it covers nobody any more
            if note is not None:
                self._left.append(note.id)
            left = list(self._left)
        for name in left:
            self._core.store.delete(note_key(name))
            with self._lock:
                self._left = [other for other in self._left if other != name]

    def _busy(self) -> dict[Transaction, float]:
        """Transactions that may still come to pin what they staged: also those whose publish may still land."""
        with self._lock:
            return {tx: at for tx, at in self._open.items() if tx.status in ("open", "publishing", "unknown")}

    def _settle(self) -> None:
        """An unknown outcome is settled as soon as the slots that may hold it are taken, or it is in one of them."""
        with self._lock:
            self._unsettled = {tx for tx in self._unsettled if tx.status == "unknown"}
        for tx in self._busy():
            if tx.status == "unknown" and tx.slot is not None:
                found = settled(self._core.ledger, tx.live.line.branch, tx.slot, tx.until, tx.write)
                if found is not Outcome.UNKNOWN:
                    tx.status = "committed" if found is Outcome.COMMITTED else "discarded"
                    with self._lock:
                        self._unsettled.discard(tx)

    def _write(self, oldest: float) -> None:
        note = self.note
        name = note.id if note is not None else new_id()
        since = note.since if note is not None else None
        if note is not None:
            earlier = [modified for acknowledged, modified in note.beats if acknowledged <= oldest]
            since = max([note.since, *earlier])
        key = note_key(name)
        if note is not None and self._core.store.stat(key) is None:
            self.note = None  # somebody took us for dead; the next note has a new name
            return
        self._core.store.put(key, encode(Note(format=FORMAT, id=name, author=self._core.author, since=since)))
        entry = self._core.store.stat(key)
        if entry is None:
            self.note = None
            return
        self._core.store.saw(entry.modified)
        beat = (clock.monotonic(), entry.modified)
        if note is None:
            self.note = Written(name, entry.modified, beats=[beat])
            return
        assert since is not None
        note.since = since
        note.beats = [b for b in note.beats if b[1] >= since] + [beat]

    def _cover(self, open_: list[Transaction]) -> None:
        """Read the head of every branch that is written to, now that the note is there."""
        note = self.note
        if note is None:
            return
        for tx in open_:
            tx.notes.add(note.id)
        for live in {id(tx.live): tx.live for tx in open_}.values():
            if live.line.branch not in note.covers:
                note.covers[live.line.branch] = live.refresh().slot

    def close(self) -> None:
        """Take the note away when nothing is open any more. A forked child leaves its parent's alone."""
        if self._pid != os.getpid():
            return
        if (self.note is not None or self._left) and not self._busy():
            with contextlib.suppress(QuireError):
                self._remove()


@atexit.register
def _close_all() -> None:
    """A program that ends leaves no note behind, unless it does not know how a publish ended."""
    for writers in list(_alive):
        with contextlib.suppress(Exception):
            writers.close()
