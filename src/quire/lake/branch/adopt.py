"""Foreign writes.

A plain Lance client wrote to a table behind Quire's back. They are never overwritten and never lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from quire.errors import Conflict, ForeignWriter, IntegrityError, InvalidInput
from quire.formats import AlreadyAdopted, Foreign, Head, Promotion
from quire.lake.branch import branches
from quire.lake.commit.table_change import Edit
from quire.lake.commit.transaction import Transaction
from quire.lake.context import Core
from quire.lake.names import no_table
from quire.ledger import State, TableState, new_id
from quire.store import clock, run_parallel

if TYPE_CHECKING:
    from quire.lake.lake import Lake


@dataclass(frozen=True)
class Adoption:
    """What became of a foreign write: the commit that holds it now, on which branch, and what it did."""

    table: str
    commit: str | None
    branch: str
    ops: tuple[str, ...]
    details: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "table": self.table,
            "commit": self.commit,
            "branch": self.branch,
            "ops": list(self.ops),
            "details": list(self.details),
        }


def find_foreign(core: Core, state: State) -> list[Promotion]:
    """Tables whose plain HEAD is a version that Quire neither wrote nor adopted."""
    tables = list(state.tables.values())
    heads = run_parallel([lambda t=t: core.format(t.pin.format).head(t.pin) for t in tables])  # type: ignore[misc]
    return [
        Promotion(t.info.name, "foreign", h.version, f"version {h.version} was written by a plain Lance client")
        for t, h in zip(tables, heads, strict=True)
        if _is_foreign(t, h)
    ]


def _is_foreign(table: TableState, head: Head) -> bool:
    """The counter of a version that a client made through the lake is known from the pin, if it is the newest."""
    taken = any(known.number == head.version for known in table.pin.acknowledged)
    newer = head.version > table.pin.head or taken
    return head.counter is None and newer and str(head.version) != table.pin.version


def adopt(lake: Lake, name: str) -> Adoption:
    """Commit the foreign change as a transaction that began where the foreign writer began."""
    live, core = lake._live, lake._core
    if not live.is_main:
        raise InvalidInput("Only main has foreign writes.", next="Open the lake on main, and adopt there.")
    now = live.refresh()
    table = now.by_name(name)
    if table is None:
        raise no_table(name, now.names())
    format_ = core.format(table.pin.format)
    head = format_.head(table.pin)
    if not _is_foreign(table, head):
        return Adoption(name, None, live.name, (), ())
    found = format_.foreign(table.pin, head)
    try:
        base, same = _state_of(lake, table, found, now)
    except ForeignWriter:
        if now.floor == 0:
            raise
        return _onto_branch(lake, table, now, found)  # where it began was cleaned up: it cannot be compared any more
    tx = lake.transaction(f"adopt foreign write to {name} (version {head.version})")
    tx.at = base
    try:
        _graft(tx, base.tables[table.info.id], found, same=same, key=table.info.key)
        receipt = tx.commit()
    except AlreadyAdopted:
        return Adoption(name, None, live.name, (), ())
    except (Conflict, IntegrityError):  # others changed the same, or the rows break a rule of the table
        if live.refresh().tables[table.info.id].pin.head >= found.head:
            return Adoption(name, None, live.name, (), ())  # somebody else was faster
        return _onto_branch(lake, table, base, found)
    return Adoption(name, receipt.commit, live.name, found.ops, found.details)


def _graft(
    tx: Transaction, then: TableState, found: Foreign, *, same: bool, key: Sequence[str], guarded: bool = True
) -> None:
    """Make the foreign change the work of a transaction; a state that breaks the key or rules is kept without them."""
    info = then.info if key == then.info.key else msgspec.structs.replace(then.info, key=tuple(key))
    if not guarded:
        info = msgspec.structs.replace(info, validator=None)
    edit = Edit(info, then, ops=["adopt", *dict.fromkeys(found.ops)])
    format_ = tx.live.core.format(then.pin.format)
    tx.live.core.owners.writable(then.pin, then.info)
    edit.work = format_.graft(then.pin, found, same=same, key=key, write=tx.write, table=then.info.name)
    tx.edits[then.info.id] = edit


def _state_of(lake: Lake, table: TableState, found: Foreign, now: State) -> tuple[State, bool]:
    """The lake's state where the foreign writer started, and whether the table was exactly as the writer saw it.

    A version that was adopted beside the lake's own commits, or kept on a branch, is only accounted for in that state.
    """
    for point, entry in lake._live.history.commits(now):
        for change in entry.changes:
            if change.table != table.info.id or change.pin is None:
                continue
            format_ = lake._core.format(change.pin.format)
            if format_.is_at(change.pin, found.base, point.commit):
                return lake._live.history.at(point), True
            if "adopt" in change.ops and change.pin.head == found.base:
                return lake._live.history.at(point), False
    raise ForeignWriter(
        f"Table {table.info.name!r} has foreign versions after version {found.base}, which Quire does not know.",
        next="Copy the rows that you need from the plain table in an ordinary transaction.",
        table=table.info.name,
        version=found.base,
    )


def _onto_branch(lake: Lake, table: TableState, base: State, found: Foreign) -> Adoption:
    """Keep the foreign state on a branch of its own, and let main go on from its own."""
    stem = table.info.name.replace(":", "-")[:60]
    name = f"foreign/{stem}-{found.head}-{clock.now():%Y%m%d%H%M%S}-{new_id()[:4]}"
    branches.create(lake._core, lake._live, lake._live.line, name, base.head)
    side = lake.branch(name)
    tx = side.transaction(f"foreign write to {table.info.name} (version {found.head})")
    # On its own branch the state is kept as it is, even where it breaks the key or a rule.
    _graft(tx, base.tables[table.info.id], found, same=True, key=(), guarded=False)
    receipt = tx.commit()
    _acknowledge(lake, table, found, name)
    return Adoption(table.info.name, receipt.commit, name, found.ops, found.details)


def _acknowledge(lake: Lake, table: TableState, found: Foreign, kept_on: str) -> None:
    """Record on main that the foreign version is kept elsewhere, so that backfill may go past it."""

    def note(tx: Any) -> None:
        now = tx.at.tables[table.info.id]
        pin = msgspec.structs.replace(now.pin, head=found.head)
        tx.edits[table.info.id] = Edit(now.info, now, ops=["adopt"], pin=pin)

    lake.transact(note, f"foreign write to {table.info.name} kept on {kept_on}")
