"""What must hold on the state that a transaction lands on, beside what rivals did to its tables.

- Its writer was not fenced: work belongs to the epoch in which it began, and a claim by anybody else ends it for good.
  A claim raises the epoch of a branch in its log. Whoever publishes has read that record before (a slot is never taken
  without the one before it), so comparing two numbers is enough: no clock, no lease.
- Nothing that it is about to pin can have been cleaned up. A floor record says from which slot on commits are kept, and
  that no object younger than its horizon is deleted. A transaction reads every record between its base and its slot, so
  it cannot overlook one.
- What its caller expects is so: `expect={"table": version}`, a compare-and-swap. A version counts the commits of one
  table, so a number alone could be that of a table which was dropped and made anew under its name, or which took the
  name by a rename. An expectation is therefore about one table: the one whose version was looked up, or, for a plain
  number, the one that has the name where the transaction begins. Branches count on their own from where they part, so a
  version that was looked up also knows which state of its table it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from quire.errors import ExpectationFailed, Fenced, Revoked
from quire.ledger import Floor, Record
from quire.ledger.notes_and_leases import MARGIN
from quire.store import Store, is_outside, run_parallel

if TYPE_CHECKING:
    from quire.formats import Work
    from quire.lake.commit.transaction import Transaction
    from quire.ledger import State


# -- epochs ------------------------------------------------------------------------------------------------------------


class Epochs:
    """By log, the epoch that the handles of one open lake belong to: that of the first look at it, or of a claim.

    A handle that is made from another one is as old as that: `branch()` does not lead around a claim.
    """

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def of(self, log: str, now: int) -> int:
        """The epoch of a handle on this log, which stands at `now`."""
        return self._known.setdefault(log, now)

    def hold(self, log: str, epoch: int) -> None:
        """Count as open since an epoch: a claim of our own, or a handle that came from another process."""
        self._known[log] = epoch


def check_epoch(branch: str, seen: State, epoch: int, own: Collection[int] = ()) -> None:
    """Raise `Fenced` when another than ourselves has claimed the branch since `epoch`.

    `own` are epochs of claims by the handle that the work belongs to: they fence others.
    """
    if all(claimed in own for claimed in range(epoch + 1, seen.epoch + 1)):
        return
    raise Fenced(
        f"Another writer has claimed branch {branch!r}: its epoch is {seen.epoch}, and this work began in "
        f"epoch {epoch}.",
        next="Stop this writer. If it should take over, open the lake again.",
        branch=branch,
        epoch=seen.epoch,
        began=epoch,
    )


# -- floors ------------------------------------------------------------------------------------------------------------


def check_floors(tx: Transaction, records: Iterable[Record]) -> None:
    """Raise `Revoked` when cleanup may have removed what this transaction rests on or has staged."""
    for record in records:
        if record.buried:
            raise _revoked(tx, record.slot, "the commit it is based on was cleaned up")
        if record.floor is not None and record.slot not in tx.floors:
            _check_floor(tx, record.slot, record.floor)
            tx.floors.add(record.slot)


def _check_floor(tx: Transaction, slot: int, floor: Floor) -> None:
    if floor.slot > tx.at.slot:
        raise _revoked(tx, slot, f"the slot it is based on, {tx.at.slot}, is no longer kept")
    note = tx.live.core.writers.note
    if tx.notes & set(floor.revoked):
        raise _revoked(tx, slot, "its writer gave no sign of life for too long")
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
        raise _revoked(tx, slot, "the files it had staged may have been deleted")


def _keys(tx: Transaction, store: Store) -> Iterator[str]:
    """Every object of the lake that the transaction has staged."""
    for edit in tx.edits.values():
        if edit.work is not None:
            yield from _written(edit.work, store)


def _written(work: Work, store: Store) -> Iterator[str]:
    location, names = work.written()
    if is_outside(location):
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
        f"A cleanup ran in between (slot {slot} of branch {tx.live.name!r}): {why}. Nothing was committed.",
        next="Run the transaction again on a fresh snapshot; lake.transact does this by itself.",
        branch=tx.live.name,
        slot=slot,
    )


# -- expectations ------------------------------------------------------------------------------------------------------


class TableVersion(int):
    """A table's version, and whose it is. Everywhere but in `expect=` it is the plain number."""

    table: str | None
    state: str | None
    """The version of its pin: two branches may have different ones under one number."""

    def __new__(cls, value: int, table: str | None = None, state: str | None = None) -> TableVersion:
        made = super().__new__(cls, value)
        made.table, made.state = table, state
        return made


@dataclass(frozen=True)
class Expected:
    """At which version a name is expected, and of which table, if that is known."""

    name: str
    version: int
    table: str | None
    state: str | None = None


def bound(expect: Mapping[str, int], base: State) -> list[Expected]:
    """Expectations of a transaction that begins on `base`."""
    found = []
    for name, version in expect.items():
        known, table = base.by_name(name), getattr(version, "table", None)
        if table is None and known is not None and version >= known.pin.counter:
            table = known.info.id  # a lower version than it has can only be meant of another
        state = getattr(version, "state", None)
        found.append(Expected(name, int(version), table if version else None, state if version else None))
    return found


def check_expected(expected: Expected, seen: State) -> None:
    """Raise `ExpectationFailed` when the table is not as it is expected."""
    found = seen.by_name(expected.name)
    actual = found.pin.counter if found is not None else 0
    if found is None and expected.version:
        said = f"Table {expected.name!r} does not exist, but its version {expected.version} is expected."
        advice = "Check the name. To expect that a table does not exist, expect version 0."
    elif actual != expected.version:
        said = f"Table {expected.name!r} is at version {actual}, not {expected.version}."
        advice = "Check what was committed since, and decide anew."
    elif found is not None and expected.table not in (None, found.info.id):
        said = (
            f"Table {expected.name!r} is at version {actual}, but it is not the expected table: that one was "
            "dropped or renamed."
        )
        advice = "Check the table that has the name now, and decide anew."
    elif found is not None and expected.state not in (None, found.pin.version):
        said = f"Table {expected.name!r} is at version {actual}, but the expected version is of another branch."
        advice = "Read the version on this branch, and decide anew."
    else:
        return
    raise ExpectationFailed(
        said,
        next=advice,
        table=expected.name,
        expected=expected.version,
        actual=actual,
        commit=found.commit.commit if found is not None else None,
    )
