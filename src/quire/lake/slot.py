"""One slot: what its commits pin, the record that holds them, and what each transaction is told."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from quire.errors import CommitUnknown
from quire.formats import Staged, Work
from quire.lake.core import now_after
from quire.lake.edits import Edit
from quire.lake.move import read_tables
from quire.lake.receipt import Receipt, TableReceipt
from quire.lake.reports import spent
from quire.ledger import FORMAT, Change, Commit, Pin, Point, Read, Record, State, new_id
from quire.store import clock, run_parallel

if TYPE_CHECKING:
    from quire.lake.line import LiveBranch
    from quire.lake.transaction import Transaction


def stage(tx: Transaction, behind: Mapping[str, Sequence[Work]] | None = None) -> dict[str, Staged]:
    """Write every touched table's new state, in parallel, and make it durable on a local disk.

    `behind` are others' additions to a table that come before this one's in the same slot.
    """
    before = behind or {}
    works = {i: e.work for i, e in tx.edits.items() if e.work is not None and e.work.changed}

    def one(table: str, work: Work) -> Staged:
        staged = work.stage(before.get(table, ()))
        if tx.live.core.store.is_local:
            _make_durable(tx, staged)
        return staged

    done = run_parallel([lambda t=t, w=w: one(t, w) for t, w in works.items()])  # type: ignore[misc]
    return dict(zip(works, done, strict=True))


def _make_durable(tx: Transaction, staged: Staged) -> None:
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


def build(live: LiveBranch, seen: State, entries: Sequence[Commit]) -> Record:
    """The record that would extend `seen` by these commits, one after the other."""
    slot, head, time = seen.slot + 1, seen.head, seen.time
    commits = []
    for index, commit in enumerate(entries):
        time = now_after(time)
        commits.append(msgspec.structs.replace(commit, time=time, parents=(head, *commit.parents)))
        head = Point(branch=live.line.branch, slot=slot, index=index)
    return Record(
        format=FORMAT,
        branch=live.line.branch,
        slot=slot,
        write=commits[0].write if len(commits) == 1 else new_id(),
        previous=seen.write,
        time=time,
        epoch=live.epoch,
        checkpoint=seen.checkpoint,
        commits=tuple(commits),
    )


def entry(tx: Transaction, staged: Mapping[str, Staged]) -> Commit:
    """One transaction's commit, except for what only its place in the log decides: time and first parent."""
    changes = tuple(c for i, e in tx.edits.items() if (c := _change(e, staged.get(i))) is not None)
    reads = [check.record() for check in tx.checks]
    if tx.isolation == "serializable":
        reads += [Read(kind="table", table=t) for t in sorted(read_tables(tx))]
    return Commit(
        write=tx.write,
        time=tx.at.time,
        author=tx.author,
        message=tx.message,
        parents=tx.parents,
        changes=changes,
        reads=tuple(reads),
        isolation=tx.isolation,
        stream=tx.stream,
        token=tx.token,
        reverts=tx.reverts,
        adopts=tx.adopts,
        learnt=tx.learnt,
        cost=None if clock.simulated() else spent(tx.meter),
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


def receipt(tx: Transaction, record: Record, index: int, attempt: int, counts: Mapping[str, int]) -> Receipt:
    """What the transaction at this place of the slot is told."""
    commit = record.commits[index]
    versions = {
        c.name: TableReceipt(c.pin.counter if c.pin else None, c.ops, c.added, c.removed) for c in commit.changes
    }
    return Receipt(
        commit=f"{record.slot}.{index}",
        branch=tx.live.name,
        time=commit.time,
        tables=versions,
        attempts=attempt,
        rebased=counts["rebased"],
        replayed=counts["replayed"],
        slowed=tx.slowed,
        cost={**tx.meter.to_dict(), "shared": len(record.commits)},
    )


def tend(txs: Sequence[Transaction], slot: int) -> None:
    """Queue what follows. The commits are done: nothing here may be told to the caller as a failure of them."""
    tx = next((tx for tx in txs if tx.backfill and tx.background is not None), txs[0])
    if tx.background is None:
        return
    try:
        tx.live.tend(tx.background, slot, backfill=tx.backfill)
    except Exception as error:
        tx.background.failures.append(f"{type(error).__name__}: {error}")


def unknown(tx: Transaction) -> CommitUnknown:
    return CommitUnknown(
        f"The store did not say whether slot {tx.slot} of branch {tx.live.name!r} was written.",
        next="Do not run it again; settle it with lake.outcome(error).",
        branch=tx.live.name,
        log=tx.live.line.branch,
        slot=tx.slot,
        write=tx.write,
    )
