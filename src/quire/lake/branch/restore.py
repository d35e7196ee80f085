"""Bring tables back to what they were at an earlier commit, by a new commit that pins their states again."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from quire.errors import ExpectationFailed, NameConflict, Revoked, SnapshotExpired
from quire.lake.branch.fast_forward import adopt_pin
from quire.lake.commit.transaction import Transaction
from quire.lake.names import no_table, parse_time
from quire.lake.receipt import Receipt
from quire.lake.resolve import resolve
from quire.lake.upkeep.cleanup.leases import SnapshotLease
from quire.ledger import History, Line, Pin, State
from quire.store import Meter, attached

if TYPE_CHECKING:
    from quire.lake.lake import Lake

TRIES = 5
LEASE_SECONDS = 300.0
"""Of the lease on the state that is restored, so that no cleanup takes its files before they are pinned again."""


def restore(
    lake: Lake,
    at: str | datetime,
    tables: Sequence[str] | None,
    message: str | None,
    metadata: Mapping[str, str] | None,
) -> Receipt:
    """Restore all tables, or some. When others commit in between, look again at what there is now."""
    for _ in range(TRIES - 1):
        with contextlib.suppress(Revoked, ExpectationFailed):
            return _restore(lake, at, tables, message, metadata)
    return _restore(lake, at, tables, message, metadata)


def _restore(
    lake: Lake,
    at: str | datetime,
    tables: Sequence[str] | None,
    message: str | None,
    metadata: Mapping[str, str] | None,
) -> Receipt:
    core, live = lake._core, lake._live
    spent = Meter()
    with contextlib.ExitStack() as holding:
        with attached(spent):
            now = live.refresh()
            line, then = state_then(lake, at, now)
            if then.head == now.head:
                return Receipt(None, live.name)
            if then.head.branch != live.line.branch or then.head.slot < now.floor:
                # A floor on this log is met before the publish; in another one, or below it, only a lease protects.
                holding.enter_context(SnapshotLease(core, None, line, then.head, LEASE_SECONDS))
        # Everything of an older state means that nothing else came since; of some tables others may go on.
        if_head = now.head.commit if tables is None else None
        tx = lake.transaction(message or _told(then, tables), if_head=if_head, metadata=metadata)
        tx.at, tx.meter = now, spent
        try:
            for table in _ids(now, then, tables):
                edit = adopt_pin(now, then, table)
                if edit is not None:
                    if edit.base is None and edit.pin is not None:
                        edit.pin = _after_the_drop(lake, now, table, edit.pin)
                    tx.edits[table] = edit
            _check_names(tx, now)
        except BaseException:
            tx.discard()
            raise
        return tx.commit()


def state_then(lake: Lake, at: str | datetime, now: State) -> tuple[Line, State]:
    """The state to restore, and the line that leads to it."""
    core, live = lake._core, lake._live
    if isinstance(at, datetime):
        return live.line, live.history.at_time(now, parse_time(at))
    point, line, _ = resolve(core, live, at)
    history = live.history if line is live.line else History(core.store, core.ledger, line)
    return line, history.at(point)


def _ids(now: State, then: State, tables: Sequence[str] | None) -> list[str]:
    """Ids of the tables to restore: those that have the names at the older commit, and that have them now."""
    if tables is None:
        return sorted(now.tables.keys() | then.tables.keys())
    old, new, found = then.names(), now.names(), set()
    for name in tables:
        if name not in old:
            raise no_table(name, old, f"at commit {then.head.commit}")
        found.add(old[name])
        if name in new and new[name] not in then.tables:
            found.add(new[name])  # made under the name since: the older table takes it back
    return sorted(found)


def _after_the_drop(lake: Lake, now: State, table: str, pin: Pin) -> Pin:
    """An older state of a table that was dropped since, as what follows its last one, where its plain line goes on."""
    with contextlib.suppress(SnapshotExpired):
        for _, entry in lake._live.history.commits(now):
            last = next((change.pin for change in entry.changes if change.table == table and change.pin), None)
            if last is not None and last.counter > pin.counter:
                known = max(pin.acknowledged, last.acknowledged, key=lambda a: a[-1].number if a else 0)
                head, counter = max(pin.head, last.head), last.counter + 1
                return msgspec.structs.replace(pin, head=head, counter=counter, acknowledged=known)
            if last is not None:
                break
    return pin


def _check_names(tx: Transaction, now: State) -> None:
    """Refuse to give a table its older name while another one has it and keeps it."""
    holders = now.names()
    for edit in tx.edits.values():
        holder = holders.get(edit.info.name, edit.info.id)
        if edit.dropped or holder == edit.info.id:
            continue
        other = tx.edits.get(holder)
        if other is None or not (other.dropped or other.info.name != edit.info.name):
            raise _taken(edit.info.name, now, holder)


def _taken(name: str, now: State, holder: str) -> NameConflict:
    return NameConflict(
        f"The name {name!r} belongs to another table now, which commit {now.tables[holder].commit.commit} moved last.",
        next="Rename that table first, or restore it too.",
        table=name,
        commit=now.tables[holder].commit.commit,
    )


def _told(then: State, tables: Sequence[str] | None) -> str:
    """The message of a restore, as far as there is room."""
    what = f" {', '.join(tables)}" if tables else ""
    return f"restore{what[:900]} to {then.head.commit}"
