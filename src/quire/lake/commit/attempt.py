"""The loop that commits a transaction: get ready, try for the next slot, and again when it was lost.

    move     compare with every commit since the transaction's base; rebase or replay what may follow them
    stage    every touched table in parallel; nothing is visible
    publish  create the next slot if it is absent, together with other transactions of this process (`group`)
    tend     checkpoint, backfill, hint: later, in the background

A lost race leads back to `move` with the winner's record in hand.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from quire.errors import (
    Conflict,
    ExpectationFailed,
    IntegrityError,
    InvalidInput,
    KeyConflict,
    NameConflict,
    NotFound,
    SnapshotExpired,
    shown,
)
from quire.formats import Configurable, View, Work
from quire.lake.commit.back_pressure import slow_down
from quire.lake.commit.fairness import Turns
from quire.lake.commit.offering import Offering
from quire.lake.commit.rebase import Repeated, Taken, move
from quire.lake.commit.table_change import Edit
from quire.lake.names import check_table
from quire.lake.publish.group import Member, ticket
from quire.lake.publish.publish import carried, stage
from quire.lake.receipt import Receipt
from quire.ledger import Point
from quire.store import Store, phase
from quire.store.reach import LONGEST
from quire.telemetry import Operation, operation

if TYPE_CHECKING:
    from quire.lake.commit.transaction import Transaction

MAX_ATTEMPTS = 500
PATIENCE = 3
"""Failed attempts after which the other threads wait while a transaction gets ready."""


def commit(tx: Transaction) -> Receipt:
    """Publish a transaction, or raise: `Conflict` and every other error mean that nothing was committed.

    How it ends is told to whoever watches this process.
    """
    core = tx.live.core
    about = {"quire.lake": core.store.uri, "quire.lake_id": core.about.lake, "quire.branch": tx.live.name}
    receipt: Receipt | None = None
    with operation("commit", tx.meter, about) as told:
        try:
            receipt = _commit(tx)
        except Conflict:
            told.outcome = "conflict"
            raise
        finally:
            _tell(tx, receipt, told)
    return receipt


def _tell(tx: Transaction, receipt: Receipt | None, told: Operation) -> None:
    if tx.status in ("publishing", "unknown"):
        told.outcome = "unknown"
    receipt = receipt or tx._receipt
    if tx.status != "committed" or receipt is None:
        return
    told.outcome = "repeated" if receipt.repeated else "committed" if receipt.commit is not None else "nothing"
    told.cost = receipt.cost
    told.attributes |= {
        "quire.commit": receipt.commit,
        "quire.tables": len(receipt.tables),
        "quire.attempts": receipt.attempts,
        "quire.rebased": receipt.rebased,
        "quire.replayed": receipt.replayed,
        "quire.shared": receipt.cost.get("shared"),
    }


def _commit(tx: Transaction) -> Receipt:
    live = tx.live
    counts = {"rebased": 0, "replayed": 0}
    turns: Turns | Offering | None = None
    place = ticket()
    member: Member | None = None
    try:
        changed = [table for table, edit in tx.edits.items() if edit.changed]
        if not changed and tx.stream is None and tx.token is None and not tx.parents:
            if tx.expect or tx.if_head is not None:
                live.refresh()
            move(tx, live.state, counts)
            tx.status = "committed"
            return Receipt(None, live.name, cost=tx.meter.to_dict())
        if live.may_lag(changed):
            with phase("slow"):
                tx.slowed = slow_down(tx)
        for attempt in range(1, MAX_ATTEMPTS + 1):
            tx._check_deadline()
            member = Member(tx, counts, attempt, place)
            if turns is None and live.has_company:
                turns = _turns(tx)
            if turns is not None:
                _wait(turns, member)
            receipt = _attempt(member, eager=attempt > PATIENCE)
            if receipt is not None:
                return receipt
            if member.lost:
                turns = turns or _turns(tx)
                turns.lost(live.others)
        tired = Conflict(
            f"Other writers committed first {MAX_ATTEMPTS} times in a row.",
            next="Try again when fewer writers use the branch, or commit less often, with more rows.",
            branch=live.name,
        )
        raise tired if turns is None else turns.ended(tired, tired=True)
    except Taken as taken:
        return carried(tx, taken.record, taken.index, member.attempt if member is not None else 1, counts)
    except Repeated as repeated:
        tx.status = "committed"
        where = repeated.at.commit if isinstance(repeated.at, Point) else None
        return Receipt(where, live.name, repeated=True, cost=tx.meter.to_dict())
    except Exception as error:
        told = error if turns is None else turns.ended(error)
        if isinstance(told, Taken):
            return carried(tx, told.record, told.index, member.attempt if member is not None else 1, counts)
        if told is error:
            raise
        raise told from error
    except BaseException:
        if turns is not None:
            turns.interrupted()
        raise
    finally:
        if turns is not None:
            turns.close()


def _turns(tx: Transaction) -> Turns | Offering:
    """A transaction's way to a slot where others compete for it."""
    return Offering(tx) if tx.live.offers.on else Turns(tx.live, tx.live.seat)


def _wait(turns: Turns | Offering, member: Member) -> None:
    """Before a try: let those go first whose turn it is. An offer is made of what is staged on the newest state."""
    tx = member.tx
    if isinstance(turns, Turns):
        with phase("wait"):
            turns.wait(tx.deadline)
        return
    while turns.waits and _get_ready(member, wait=False):
        with phase("offer"):
            turns.wait()


def _attempt(member: Member, *, eager: bool) -> Receipt | None:
    """One try at the next slot. None when it went to somebody else, here or elsewhere."""
    group = member.tx.live.group
    if eager:
        return group.join_first(member, lambda: _get_ready(member, wait=False))
    return group.join(member) if _get_ready(member, wait=True) else None


def _get_ready(member: Member, *, wait: bool) -> bool:
    """Bring the transaction onto the newest known state; False when there turned out to be a newer one.

    With `wait`, tables that others are about to change are staged later, when it is clear on top of what.
    """
    tx, live = member.tx, member.tx.live
    seen = live.state
    try:
        with phase("move"):
            move(tx, seen, member.counts)
        if wait and live.group.is_busy(member.tables):
            with phase("settle"):
                for edit in tx.edits.values():
                    if edit.work is not None:
                        edit.work.settle()
        else:
            with phase("stage"):  # each table as soon as its data files are written
                stage(tx)
    except (ExpectationFailed, IntegrityError, KeyConflict, NameConflict, NotFound, SnapshotExpired):
        if live.refresh().slot == seen.slot:
            raise
        return False  # this handle was behind, or a cleanup was here: the news say what that means
    return True


# -- new tables -------------------------------------------------------------------------------------------------------


def create_work(
    tx: Transaction, edit: Edit, data: Any, schema: Any, format: str, options: Mapping[str, Any] | None = None
) -> Work:
    """Write a new table at a fresh location named by its id."""
    place = tx.live.core.format(format)
    location = place.location(edit.info.id)
    tx.live.core.store.reach.writable(location)
    name = check_table(edit.info.name)
    given: dict[str, Any] = {"schema": _as_schema(schema, edit.info.name), "write": tx.write, "table": name}
    if options:
        if not isinstance(place, Configurable) or edit.info.stable_row_ids:
            raise InvalidInput(
                f"Table {name!r} of format {format!r} is created without options.", next="Leave them out.", table=name
            )
        work = place.create_with(location, data, options=options, **given)
    else:
        work = place.create(location, data, stable_row_ids=edit.info.stable_row_ids, **given)
    if edit.info.key:
        check_key(work.view(), edit.info.key, edit.info.name)
    return work


def _as_schema(schema: Any, table: str) -> Any:
    """A schema as pyarrow has it, from anything that can tell one, or a list of fields."""
    if schema is None:
        return None
    import pyarrow as pa

    try:
        if isinstance(schema, list | tuple):
            return pa.schema(schema)
        return schema if isinstance(schema, pa.Schema) else pa.schema(schema)
    except (pa.ArrowException, AttributeError, TypeError, ValueError):
        raise InvalidInput(
            f"{shown(schema)} is not a schema for table {table!r}.",
            next='Pass a pyarrow schema, such as pa.schema({"id": pa.int64(), "name": pa.string()}).',
            table=table,
        ) from None


def check_key(view: View, key: Sequence[str], table: str) -> None:
    """Refuse a key that the rows of a table do not keep."""
    from quire.formats.keys import check_columns, check_distinct

    check_columns(key, view.schema, table)
    if view.count():
        check_distinct(view.scan(columns=key).read_all(), key, table)


def registered_location(tx: Transaction, uri: str) -> str:
    """A table below the lake is pinned relative to it, so that the lake can be copied; others by their address.

    One table has one location, by whatever links it was named.
    """
    root, text = (_real(store) for store in (tx.live.core.store, Store.open(uri, tx.live.core.store.options)))
    location = text[len(root) + 1 :] if text.startswith(root + "/") else text
    if len(location) > LONGEST:
        raise InvalidInput(
            f"The address of the table has {len(location)} characters; a lake keeps at most {LONGEST}.",
            next="Register the table at a shorter path.",
            limit=LONGEST,
        )
    return location


def _real(store: Store) -> str:
    return os.path.realpath(store.uri) if store.is_local else store.uri
