"""The one door: every change of visible state goes through `commit`.

    move     compare with every commit since the transaction's base; rebase or replay what may follow them
    stage    every touched table in parallel; nothing is visible
    publish  create the next slot if it is absent, together with other transactions of this process (`group`)
    tend     checkpoint, backfill, hint: later, in the background

A lost race leads back to `move` with the winner's record in hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from quire.errors import Conflict, ExpectationFailed, IntegrityError, NotFound, SnapshotExpired
from quire.formats import View, Work
from quire.lake.edits import Edit
from quire.lake.group import Member, ticket
from quire.lake.move import Repeated, move
from quire.lake.names import check_table
from quire.lake.pressure import slow_down
from quire.lake.receipt import Receipt
from quire.lake.slot import stage
from quire.lake.turns import Turns
from quire.ledger import Point
from quire.store import Store, phase

if TYPE_CHECKING:
    from quire.lake.transaction import Transaction

MAX_ATTEMPTS = 500
PATIENCE = 3
"""Failed attempts after which the other threads wait while a transaction gets ready."""


def commit(tx: Transaction) -> Receipt:
    """Publish a transaction, or raise: `Conflict` and every other error mean that nothing was committed."""
    live = tx.live
    counts = {"rebased": 0, "replayed": 0}
    turns = Turns(live, live.seat)
    place = ticket()
    try:
        if not any(e.changed for e in tx.edits.values()) and tx.stream is None and tx.token is None and not tx.parents:
            if tx.expect or tx.if_head is not None:
                live.refresh()
            move(tx, live.state, counts)
            tx.status = "committed"
            return Receipt(None, live.name, cost=tx.meter.to_dict())
        with phase("slow"):
            tx.slowed = slow_down(tx)
        for attempt in range(1, MAX_ATTEMPTS + 1):
            tx._check_deadline()
            with phase("wait"):
                turns.wait(tx.deadline)
            member = Member(tx, counts, attempt, place)
            receipt = _attempt(member, eager=attempt > PATIENCE)
            if receipt is not None:
                return receipt
            if member.lost:
                turns.lost()
        raise Conflict(
            f"Other writers were faster {MAX_ATTEMPTS} times in a row.",
            next="Try again when the branch is less busy, or commit less often with more rows.",
            branch=live.name,
        )
    except Repeated as repeated:
        tx.status = "committed"
        where = repeated.at.commit if isinstance(repeated.at, Point) else None
        return Receipt(where, live.name, repeated=True, cost=tx.meter.to_dict())
    finally:
        turns.close()


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
    except (ExpectationFailed, IntegrityError, NotFound, SnapshotExpired):
        if live.refresh().slot == seen.slot:
            raise
        return False  # this handle was behind, or a cleanup was here: the news say what that means
    return True


# -- new tables -------------------------------------------------------------------------------------------------------


def create_work(tx: Transaction, edit: Edit, data: Any, schema: Any, format: str) -> Work:
    """Write a new table at a fresh location named by its id."""
    place = tx.live.core.format(format)
    work = place.create(
        place.location(edit.info.id),
        data,
        schema=schema,
        write=tx.write,
        stable_row_ids=edit.info.stable_row_ids,
        table=check_table(edit.info.name),
    )
    if edit.info.key:
        check_key(work.view(), edit.info.key, edit.info.name)
    return work


def check_key(view: View, key: Sequence[str], table: str) -> None:
    """Refuse a key that the rows of a table do not keep."""
    from quire.formats.keys import check_columns, check_distinct

    check_columns(key, view.schema, table)
    if view.count():
        check_distinct(view.scan(columns=key).read_all(), key, table)


def registered_location(tx: Transaction, uri: str) -> str:
    """A table below the lake is pinned relative to it, so that the lake can be copied; others by their address."""
    root = tx.live.core.store.uri
    text = Store.open(uri, tx.live.core.store.options).uri
    return text[len(root) + 1 :] if text.startswith(root + "/") else text
