"""What a writer does when it meets a floor: make sure that nothing it is about to pin can have been cleaned up.

A floor record says from which slot on commits are kept, and that no object younger than its horizon is deleted. A
transaction reads every record between its base and its slot, so it cannot overlook one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from quire.errors import Revoked
from quire.ledger import Floor, Record
from quire.ledger.protectors import MARGIN
from quire.store import Store, run_parallel

if TYPE_CHECKING:
    from quire.formats import Work
    from quire.lake.transaction import Transaction


def check_floors(tx: Transaction, records: Iterable[Record]) -> None:
    """Raise `Revoked` when cleanup may have removed what this transaction rests on or has staged."""
    for record in records:
        if record.buried:
            raise _revoked(tx, record.slot, "its base was cleaned up")
        if record.floor is not None and record.slot not in tx.floors:
            _check(tx, record.slot, record.floor)
            tx.floors.add(record.slot)


def _check(tx: Transaction, slot: int, floor: Floor) -> None:
    if floor.slot > tx.at.slot:
        raise _revoked(tx, slot, f"its base, slot {tx.at.slot}, is no longer kept")
    note = tx.live.core.writers.note
    if tx.notes & set(floor.revoked):
        raise _revoked(tx, slot, "its writer was taken for dead")
    if note is not None and note.id in tx.live.state.revoked:
        note = None  # revoked before this transaction began: the note may have been away since
    if any(edit.pin is not None and edit.pin.location.startswith("tables/") for edit in tx.edits.values()):
        raise _revoked(tx, slot, "it takes over a state that may no longer be kept")
    safe_since = floor.horizon
    if note is not None and note.covers.get(tx.live.line.branch, slot) < slot:
        safe_since = min(safe_since, note.since - MARGIN)
    store = tx.live.core.store
    if store.scheme == "memory" and not any(_keys(tx, store)):
        return
    times = run_parallel([partial(_modified, store, key) for key in dict.fromkeys(_keys(tx, store))])
    if any(time is None or time < safe_since for time in times):
        raise _revoked(tx, slot, "what it had staged may have been removed")


def _keys(tx: Transaction, store: Store) -> Iterator[str]:
    """Every object of the lake that the transaction has staged."""
    for edit in tx.edits.values():
        if edit.work is not None:
            yield from _written(edit.work, store)


def _written(work: Work, store: Store) -> Iterator[str]:
    location, names = work.written()
    if "://" in location or location.startswith("/"):
        return  # a registered table that lies elsewhere: cleanup never goes there
    for name in names:
        if name and not name.endswith("/"):
            yield f"{location}/{name}"
        else:
            folder = f"{location}/{name}".rstrip("/")
            # One that holds nothing any more is named itself, and so is missing.
            yield from [entry.key for entry in store.list(folder)] or [folder]


def _modified(store: Store, key: str) -> datetime | None:
    entry = store.stat(key)
    return entry.modified if entry is not None else None


def _revoked(tx: Transaction, slot: int, why: str) -> Revoked:
    return Revoked(
        f"A cleanup (slot {slot} of branch {tx.live.name!r}) came between: {why}. Nothing was committed.",
        next="Run the transaction again on a fresh snapshot; lake.transact does it for you.",
        branch=tx.live.name,
        slot=slot,
    )
