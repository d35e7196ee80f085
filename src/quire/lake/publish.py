"""The one door: every change of visible state goes through `commit`.

    move     compare with every commit since the transaction's base; rebase or replay what may follow them
    stage    every touched table in parallel; nothing is visible
    publish  create the next slot if it is absent
    tend     checkpoint, backfill, hint: later, in the background

A lost race leads back to `move` with the winner's record in hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import TimeoutError as NotYet
from typing import TYPE_CHECKING, Any

import msgspec

from quire.errors import CommitUnknown, Conflict, ExpectationFailed, QuireError
from quire.formats import Staged, View, Work
from quire.lake.core import now_after
from quire.lake.edits import Edit
from quire.lake.move import Repeated, move, read_tables
from quire.lake.names import check_table
from quire.lake.receipt import Receipt, TableReceipt
from quire.lake.turns import Turns
from quire.ledger import FORMAT, Appended, Change, Commit, Pin, Point, Read, Record, State
from quire.store import Outcome, Store, awaited, run_parallel, submit

if TYPE_CHECKING:
    from quire.lake.transaction import Transaction

MAX_ATTEMPTS = 500
SETTLE_SECONDS = 15.0


def commit(tx: Transaction) -> Receipt:
    """Publish a transaction, or raise: `Conflict` and every other error mean that nothing was committed."""
    live = tx.live
    counts = {"rebased": 0, "replayed": 0}
    turns = Turns(live, tx.write)
    try:
        for edit in tx.edits.values():
            if edit.work is not None:
                edit.work.settle()
        if not any(e.changed for e in tx.edits.values()) and tx.stream is None and tx.token is None and not tx.parents:
            if tx.expect or tx.if_head is not None:
                live.refresh()
            move(tx, live.state, counts)
            tx.status = "committed"
            return Receipt(None, live.name, cost=tx.meter.to_dict())
        for attempt in range(1, MAX_ATTEMPTS + 1):
            tx._check_deadline()
            turns.wait(tx.deadline)
            receipt = _attempt(tx, attempt, counts, hold=turns.losses >= 3)
            if receipt is not None:
                return receipt
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


def _attempt(tx: Transaction, attempt: int, counts: dict[str, int], *, hold: bool) -> Receipt | None:
    """One try at the next slot.

    None when somebody else took it. With `hold`, other threads wait while this one rebases.
    """
    live = tx.live
    if hold:
        live.publishing.acquire()
    try:
        seen = live.state
        try:
            move(tx, seen, counts)
        except ExpectationFailed:
            if live.refresh().slot == seen.slot:
                raise
            return None  # this handle was behind: ask again with the news
        staged = stage(tx)
        record = build(tx, seen, staged)
        with live.publishing:
            if live.state.slot != seen.slot:
                return None
            tx._check_deadline()
            tx.status, tx.slot = "publishing", record.slot
            try:
                appended, interrupted = _append(tx, record)
            except QuireError as error:
                if not isinstance(error, CommitUnknown):
                    tx.status = "discarded"
                raise
            if appended.outcome is Outcome.COMMITTED:
                tx.status = "committed"
                receipt = tx.receipt = _receipt(tx, record, attempt, counts)
                live.won(seen, record)
                _tend(tx, record.slot)
            elif appended.outcome is Outcome.CONFLICT:
                tx.status = "open"
                live.lost(appended.winner)
                receipt = None
            else:
                tx.status = "unknown"
                raise unknown(tx)
        if interrupted:
            if receipt is None:
                tx.status = "discarded"
            raise KeyboardInterrupt
        return receipt
    finally:
        if hold:
            live.publishing.release()


def _tend(tx: Transaction, slot: int) -> None:
    """Queue what follows. The commit is done: nothing here may be told to the caller as a failure of it."""
    if tx.background is None:
        return
    try:
        tx.live.tend(tx.background, slot, backfill=tx.backfill)
    except Exception as error:
        tx.background.failures.append(f"{type(error).__name__}: {error}")


def _append(tx: Transaction, record: Record) -> tuple[Appended, bool]:
    """Create the slot in another thread, so that Ctrl-C cannot part the request from its outcome."""
    awaited()
    future = submit(lambda: tx.live.core.ledger.append(record, deadline=tx.deadline))
    try:
        return future.result(), False
    except KeyboardInterrupt:
        try:
            return future.result(timeout=SETTLE_SECONDS), True
        except (NotYet, KeyboardInterrupt):
            tx.status = "unknown"
            raise unknown(tx) from None


def unknown(tx: Transaction) -> CommitUnknown:
    return CommitUnknown(
        f"The store did not say whether slot {tx.slot} of branch {tx.live.name!r} was written.",
        next="Do not run it again; settle it with lake.outcome(error).",
        branch=tx.live.name,
        log=tx.live.line.branch,
        slot=tx.slot,
        write=tx.write,
    )


# -- staging and the record -------------------------------------------------------------------------------------------


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


def stage(tx: Transaction) -> dict[str, Staged]:
    """Write every touched table's new state, in parallel, and make it durable on a local disk."""
    works = {i: e.work for i, e in tx.edits.items() if e.work is not None and e.work.changed}

    def one(table: str, work: Work) -> Staged:
        staged = work.stage()
        if tx.live.core.store.is_local:
            _make_durable(tx, staged)
        return staged

    done = run_parallel([lambda t=t, w=w: one(t, w) for t, w in works.items()])  # type: ignore[misc]
    return dict(zip(works, done, strict=True))


def _make_durable(tx: Transaction, staged: Staged) -> None:
    import os

    store = tx.live.core.store
    root = staged.pin.location
    if "://" in root:
        return  # a registered table in a cloud
    base = root if os.path.isabs(root) else os.path.join(store.uri, root)
    paths: list[str] = []
    for name in staged.files:
        path = os.path.join(base, name)
        if name and not name.endswith("/"):
            paths.append(path)
            continue
        for folder, _, files in os.walk(path):
            paths.extend(os.path.join(folder, f) for f in files)
    fresh = [p for p in dict.fromkeys(paths) if p not in tx.durable]
    store.sync(fresh)
    tx.durable.update(fresh)


def build(tx: Transaction, seen: State, staged: dict[str, Staged]) -> Record:
    """The record that would extend `seen` by this transaction."""
    now = now_after(seen.time)
    changes = tuple(c for i, e in tx.edits.items() if (c := _change(e, staged.get(i))) is not None)
    reads = [check.record() for check in tx.checks]
    if tx.isolation == "serializable":
        reads += [Read(kind="table", table=t) for t in sorted(read_tables(tx))]
    entry = Commit(
        write=tx.write,
        time=now,
        author=tx.author,
        message=tx.message,
        parents=(seen.head, *tx.parents),
        changes=changes,
        reads=tuple(reads),
        isolation=tx.isolation,
        stream=tx.stream,
        token=tx.token,
        reverts=tx.reverts,
        adopts=tx.adopts,
        learnt=tx.learnt,
    )
    return Record(
        format=FORMAT,
        branch=tx.live.line.branch,
        slot=seen.slot + 1,
        write=tx.write,
        previous=seen.write,
        time=now,
        epoch=tx.live.epoch,
        checkpoint=seen.checkpoint,
        commits=(entry,),
    )


def _change(edit: Edit, staged: Staged | None) -> Change | None:
    if not edit.changed:
        return None
    pin: Pin | None = None
    added = removed = 0
    keys: tuple[Any, ...] = ()
    if staged is not None:
        pin, keys, added, removed = staged.pin, staged.keys, staged.added, staged.removed
    elif edit.pin is not None:
        pin = edit.pin
        if edit.base is not None:
            # What plain writers did up to `head` stays accounted for, whatever older state is restored.
            head = max(pin.head, edit.base.pin.head)
            pin = msgspec.structs.replace(pin, counter=edit.base.pin.counter + 1, head=head)
        before = edit.base.pin.rows if edit.base else 0
        added, removed = max(0, pin.rows - before), max(0, before - pin.rows)
    elif not edit.dropped and not edit.renamed and edit.base is not None and edit.info == edit.base.info:
        return None
    info = edit.info if edit.base is None or edit.info != edit.base.info else None
    if edit.dropped and edit.base is not None:
        removed = edit.base.pin.rows
    return Change(
        table=edit.info.id,
        name=edit.info.name,
        ops=tuple(edit.ops),  # type: ignore[arg-type]
        pin=pin,
        info=info,
        keys=keys,
        added=added,
        removed=removed,
    )


def _receipt(tx: Transaction, record: Record, attempt: int, counts: dict[str, int]) -> Receipt:
    entry = record.commits[0]
    versions = {
        c.name: TableReceipt(c.pin.counter if c.pin else None, c.ops, c.added, c.removed) for c in entry.changes
    }
    return Receipt(
        commit=f"{record.slot}.0",
        branch=tx.live.name,
        time=record.time,
        tables=versions,
        attempts=attempt,
        rebased=counts["rebased"],
        replayed=counts["replayed"],
        cost=tx.meter.to_dict(),
    )
