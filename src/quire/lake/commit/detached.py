"""Work that begins in one process and is committed by another, while neither lives as long as it takes.

Before anything is written a note is left for cleanup, and the state read right after it is where the commit begins. So
a floor that was published in between cannot be overlooked: either its collector has seen the note, or the commit finds
that its files may be gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quire.errors import Revoked, SnapshotExpired
from quire.lake.commit.preconditions import check_epoch
from quire.lake.commit.transaction import Transaction
from quire.ledger import FORMAT, encode, new_id
from quire.ledger.notes_and_leases import Note, note_key

if TYPE_CHECKING:
    from quire.lake.commit.tokens import Token
    from quire.lake.lake import Lake


@dataclass(frozen=True)
class Begun:
    """Where such work began. It can be pickled."""

    note: str
    """It is not renewed: it counts for as long as cleanup waits for a writer that is silent."""
    slot: int
    epoch: int
    """In which the branch stood then: a claim that comes later ends the work, whoever commits it."""


def begin(lake: Lake) -> Begun:
    """Leave a note, and look where the branch stands."""
    core = lake._core
    core.check_writable()
    name = new_id()
    core.store.put(note_key(name), encode(Note(format=FORMAT, id=name, author=core.author, since=None)))
    live = lake._live
    state = live.refresh()
    check_epoch(live.name, state, live.epoch, live.claims)
    return Begun(name, state.slot, max(live.epoch, state.epoch))


def resume(lake: Lake, begun: Begun, message: str, *, token: Token | None = None) -> Transaction:
    """A transaction on the state at which the work began."""
    try:
        base = lake._live.history.at_slot(begun.slot)
    except SnapshotExpired as error:
        raise Revoked(
            f"A cleanup ran in between, and the files that were written may be gone: {error.message} Nothing was "
            "committed.",
            next="Write it again.",
            branch=lake._live.name,
            slot=begun.slot,
        ) from None
    how: dict[str, Any] = {"message": message, "token": token, "base": base, "epoch": begun.epoch}
    tx = Transaction(lake._live, lake._background, backfill=lake._backfill, **how)
    tx.notes.add(begun.note)
    return tx


def keep(lake: Lake, begun: Begun) -> None:
    """Leave another note that covers the same: nobody knows how the commit ended, and whoever ends the work now takes
    the first one away.
    """
    core, name = lake._core, new_id()
    first = core.store.stat(note_key(begun.note))
    since = first.modified if first is not None else None
    core.store.put(note_key(name), encode(Note(format=FORMAT, id=name, author=core.author, since=since)))


def end(lake: Lake, begun: Begun) -> None:
    """Take the note away, however the work ended."""
    lake._core.store.delete(note_key(begun.note))
