"""The one door: every record of every log is published here, and `Ledger.append` is called nowhere else.

    stage    write what the commits will pin; nothing is visible
    lead     choose the transactions that share the next slot, build its record and publish it
    publish  append the record: committed, lost to another writer, or unknown
    settle   each transaction gets its own outcome; what follows runs later, in the background

Transactions come from the queue of their branch (`group`), closings, claims and floors from `control_records`, and the
first record of a lake from `create`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from quire.errors import CommitUnknown, CorruptRecord, InvalidInput, NotFound, QuireError, Refused, SnapshotExpired
from quire.formats import Linear, Staged, Work
from quire.lake.commit import record_time
from quire.lake.commit.rebase import move, read_tables
from quire.lake.commit.table_change import Edit
from quire.lake.cost_report import spent
from quire.lake.publish.slot_members import Carried, Company, Entry, is_easy
from quire.lake.receipt import Receipt, TableReceipt
from quire.ledger import (
    FORMAT,
    MAX_RECORD,
    Appended,
    Change,
    Commit,
    Ledger,
    NotedKeys,
    Pin,
    Point,
    Read,
    Record,
    State,
    encode,
    fold,
    new_id,
)
from quire.ledger.offers import Offer
from quire.ledger.records import JOINED, MANAGED, PAGED
from quire.ledger.state import MAX_TABLES, grown
from quire.store import Outcome, Store, clock, on_behalf, phase, run_parallel

if TYPE_CHECKING:
    from quire.lake.branch.live import LiveBranch
    from quire.lake.commit.transaction import Transaction
    from quire.lake.publish.group import Member

ROOM = MAX_RECORD - 4096
"""Bytes of commits that a record holds without a side object."""


# -- the door ---------------------------------------------------------------------------------------------------------


def publish(
    live: LiveBranch,
    seen: State,
    record: Record,
    after: State,
    *,
    first: Callable[[Outcome], None] | None = None,
    deadline: float | None = None,
    beside: Callable[[], object] | None = None,
) -> Appended:
    """Append the record that leads from `seen` to `after`, and let the branch know what came of it.

    `first` hears the outcome before other threads of this process can see that there is a newer state.
    """
    began = clock.monotonic()
    appended = live.core.ledger.append(record, deadline=deadline, beside=beside, after=live.line.owner(seen.slot))
    if appended.outcome is not Outcome.UNKNOWN:
        requests = 1 if appended.outcome is Outcome.COMMITTED else 2  # a lost slot is read
        live.offers.took((clock.monotonic() - began) / requests)
    if first is not None:
        first(appended.outcome)
    if appended.outcome is Outcome.COMMITTED:
        live.won(record, after)
    elif appended.outcome is Outcome.CONFLICT:
        live.lost(appended.winner)
    return appended


def begin_log(ledger: Ledger, genesis: Record) -> bool:
    """Append the first record of a log that nobody else knows of; whether it is there."""
    return ledger.append(genesis).outcome is Outcome.COMMITTED


def follow(seen: State, record: Record) -> State:
    """The state after a record that is about to be written: what every reader will make of it."""
    try:
        return fold(seen, record)
    except CorruptRecord as error:
        raise Refused(
            f"Slot {record.slot} would not be readable afterwards: {error.reason}. Nothing was written.",
            next="Report this with the program that caused it.",
            slot=record.slot,
        ) from error


# -- one slot ---------------------------------------------------------------------------------------------------------


def lead(live: LiveBranch, members: list[Member]) -> None:
    """Publish as many members as can share the next slot, and settle all of them."""
    with live.publishing:
        seen = live.state
        ready = [member for member in members if _is_ready(member, seen)]
        began = clock.monotonic()
        entries, carried = _prepared(live, seen, ready, _offered(live, seen, ready))
        if entries:
            _publish(live, seen, entries, carried)
        if carried:
            live.offers.took(clock.monotonic() - began, round=True)
    for member in members:
        if not member.settled:
            member.settle()


def _is_ready(member: Member, seen: State) -> bool:
    """Whether the member stands on the newest state, or can be brought there without asking the store much.

    If anything prevents it, the member's own thread finds that again and reports it.
    """
    tx = member.tx
    if tx.at.slot == seen.slot:
        return True
    if not is_easy(tx, seen):
        return False
    with on_behalf(member.meters):
        try:
            with phase("move"):
                move(tx, seen, member.counts)
        except QuireError:
            return False
        except Exception as error:
            member.settle(error=error)
            return False
    return True


def _offered(live: LiveBranch, seen: State, ready: list[Member]) -> list[tuple[Offer, frozenset[str]]]:
    """What others offer, where others are known to compete: on a quiet branch nobody asks."""
    if not ready or not live.offers.contended:
        return []
    with on_behalf([pair for member in ready for pair in member.meters]), phase("offers"):
        return live.offers.takeable(seen)


def _prepared(
    live: LiveBranch, seen: State, ready: list[Member], offered: Sequence[tuple[Offer, frozenset[str]]]
) -> tuple[list[Entry[Member]], list[Carried]]:
    """Entries for the members that can share a slot, and for offers that can follow them, staged.

    One that fails is left out, and so are its followers.
    """
    useless: list[Offer] = []
    while True:
        company: Company[Member] = Company(live, seen)
        for member in ready:
            if not member.settled and not member.gone:
                company.offer(member, member.tx)
        entries = company.entries
        for offer, again in offered if entries else ():
            if offer not in useless:
                company.carry(offer, again, partial(_told_work, live, seen, offer))
        stagings = [partial(_stage, entry, seen) for entry in entries]
        meters = [pair for entry in entries for pair in entry.member.meters]
        with on_behalf(meters):
            run_parallel([*stagings, *(partial(_stage_carried, live, seen, one) for one in company.carried)])
        broken = [one.offer for one in company.carried if one.commit is None]
        useless += broken
        for offer in broken:
            live.offers.ignore(offer)
        if not broken and not any(entry.member.settled for entry in entries):
            chosen, carried = company.fitting(ROOM)
            if live.group.send([entry.member for entry in chosen]):
                return chosen, carried
        ready = [entry.member for entry in entries if not entry.member.settled]


def _told_work(live: LiveBranch, seen: State, offer: Offer, table: str) -> Work:
    """What an offer adds to a table, on the state that the slot follows."""
    now = seen.tables[table]
    place = live.core.format(now.pin.format)
    return place.adding(now.pin, offer.additions[table], write=offer.commit.write, table=now.info.name)


def _stage_carried(live: LiveBranch, seen: State, one: Carried) -> None:
    """Stage the tables of an offer anew to which others add rows before it. One that fails is left to its writer.

    So is one of a table outside the lake to which this handle, or this copy of the lake, may not write.
    """
    changes = []
    try:
        for change in one.offer.commit.changes:
            live.core.owners.writable(seen.tables[change.table].pin, seen.tables[change.table].info)
            if change.table in one.behind:
                staged = one.works[change.table]().stage([work() for work in one.behind[change.table]])
                if live.core.store.is_local:
                    live.core.store.sync(_paths(live.core.store, staged))
                change = msgspec.structs.replace(change, pin=staged.pin)
            changes.append(change)
    except Exception:
        return
    one.commit = msgspec.structs.replace(one.offer.commit, changes=tuple(changes))


def _stage(entry: Entry[Member], seen: State) -> None:
    """Write what the commit will pin. A failure is its own: the others do not need it, or go without."""
    member = entry.member
    with on_behalf(member.meters):
        try:
            member.tx._check_deadline()
            with phase("stage"):
                entry.commit = _storable(seen, entry_of(member.tx, stage(member.tx, entry.works())))
        except Exception as error:
            # What a cleanup took away, or a newer state explains, is for the member's own thread to find out.
            again = isinstance(error, NotFound | SnapshotExpired)
            member.settle(error=None if again else error)


def _storable(seen: State, commit: Commit) -> Commit:
    """A commit after which the lake can still be stored; else the error."""
    size = grown(seen, commit)
    if size is not None:
        raise InvalidInput(
            f"With this commit the records of all tables take {size} bytes; a branch stores at most {MAX_TABLES}.",
            next="Shorten the rules of tables, or drop tables that are not needed.",
            size=size,
            limit=MAX_TABLES,
        )
    return commit


def _publish(live: LiveBranch, seen: State, entries: list[Entry[Member]], carried: Sequence[Carried] = ()) -> None:
    every: list[Entry[Member] | Carried] = [*entries, *carried]
    record, after = build(live, seen, [e.commit for e in every if e.commit is not None])
    members = [entry.member for entry in entries]
    for member in members:
        member.tx.status, member.tx.slot = "publishing", record.slot
    deadlines = [member.tx.deadline for member in members]
    deadline = None if None in deadlines else max(d for d in deadlines if d is not None)

    def lost(outcome: Outcome) -> None:
        for member in members if outcome is Outcome.CONFLICT else ():
            # Whoever did not wait for the outcome has given up.
            member.tx.status = "open" if member.tx.status == "publishing" else "discarded"

    try:
        with on_behalf([pair for member in members for pair in member.meters]), phase("publish"):
            further = partial(live.look_further, record.slot)
            outcome = publish(live, seen, record, after, first=lost, deadline=deadline, beside=further).outcome
    except Exception as error:
        for member in members:
            refused = isinstance(error, QuireError) and not isinstance(error, CommitUnknown)
            if refused and member.tx.status == "publishing":
                member.tx.status = "discarded"
            member.settle(error=error if member is members[0] else _copy(error))
        return
    if outcome is Outcome.COMMITTED:
        live.published(c.pin for commit in record.commits for c in commit.changes if c.pin is not None)
        live.offers.led = record.slot
        for index, member in enumerate(members):
            member.tx._receipt = receipt(member.tx, record, index, member.attempt, member.counts)
            member.tx.status = "committed"
        tend([member.tx for member in members], record.slot)
    for member in members:
        if outcome is Outcome.COMMITTED:
            member.settle(member.tx.receipt)
        elif outcome is Outcome.CONFLICT:
            member.settle(lost=True)
        else:
            member.tx.status = "unknown"
            member.settle(error=unknown(member.tx))


def _copy(error: Exception) -> Exception:
    """The same error for another thread: a traceback belongs to one."""
    if not isinstance(error, QuireError):
        return error
    build, arguments = error.__reduce__()
    copy: Exception = build(*arguments)
    copy.__cause__ = error.__cause__
    return copy


def build(live: LiveBranch, seen: State, entries: Sequence[Commit]) -> tuple[Record, State]:
    """The record that would extend `seen` by these commits, one after the other, and the state after it."""
    slot, head = seen.slot + 1, seen.head
    time = record_time.after(live.core.store, seen.time)
    commits = []
    for index, commit in enumerate(entries):
        time += timedelta(microseconds=index > 0)
        commits.append(msgspec.structs.replace(commit, time=time, parents=(head, *commit.parents)))
        head = Point(branch=live.line.branch, slot=slot, index=index)
    pages = any(c.learnt is not None and (c.learnt.pages or c.learnt.stream_pages) for c in commits)
    joins = any(c.reaches is not None for c in commits)
    managed = any(c.pin is not None and c.pin.acknowledged for commit in commits for c in commit.changes)
    record = Record(
        format=MANAGED if managed else JOINED if joins else PAGED if pages else FORMAT,
        branch=live.line.branch,
        slot=slot,
        write=commits[0].write if len(commits) == 1 else new_id(),
        previous=seen.write,
        time=time,
        epoch=live.epoch,
        checkpoint=seen.checkpoint,
        commits=tuple(commits),
    )
    return record, follow(seen, record)


# -- the commit of one transaction ------------------------------------------------------------------------------------


def stage(tx: Transaction, behind: Mapping[str, Sequence[Work]] | None = None) -> dict[str, Staged]:
    """Write every touched table's new state, in parallel, and make it durable on a local disk.

    `behind` are others' additions to a table that come before this one's in the same slot.
    """
    before = behind or {}
    marked = [(e.pin, e.info) for e in tx.edits.values() if "register" in e.ops and e.pin is not None]
    # Of two lakes that register one table, one gets its mark.
    run_parallel([partial(tx.live.core.owners.writable, pin, info) for pin, info in marked])
    run_parallel([partial(_again, tx, edit) for edit in tx.edits.values() if edit.pin is not None])
    works = {i: e.work for i, e in tx.edits.items() if e.work is not None and e.work.changed}

    def one(table: str, work: Work) -> Staged:
        staged = work.stage(before.get(table, ()))
        if tx.live.core.store.is_local:
            make_durable(tx, staged)
        return staged

    done = run_parallel([lambda t=t, w=w: one(t, w) for t, w in works.items()])  # type: ignore[misc]
    return dict(zip(works, done, strict=True))


def _again(tx: Transaction, edit: Edit) -> None:
    """Where versions of a table are one line, an earlier state is not pinned again but staged as the next version."""
    assert edit.pin is not None
    place = tx.live.core.format(edit.pin.format)
    if edit.work is None and "restore" in edit.ops and isinstance(place, Linear):
        now = None if edit.base is None else edit.base.pin
        tx.live.core.owners.writable(edit.pin, edit.info)
        edit.work = place.again(now, edit.pin, write=tx.write, table=edit.info.name)


def make_durable(tx: Transaction, staged: Staged) -> None:
    store = tx.live.core.store
    fresh = [p for p in _paths(store, staged) if p not in tx.durable]
    store.sync(fresh)
    tx.durable.update(fresh)


def _paths(store: Store, staged: Staged) -> list[str]:
    """The files of a staged state on a local disk."""
    root = staged.pin.location
    if "://" in root:
        return []  # a registered table in a cloud
    base = root if os.path.isabs(root) else os.path.join(store.uri, root)
    paths: list[str] = []
    for name in staged.files:
        path = os.path.join(base, name)
        if name and not name.endswith("/"):
            paths.append(path)
            continue
        for folder, _, files in os.walk(path):
            paths.extend(os.path.join(folder, f) for f in files)
    return list(dict.fromkeys(paths))


def entry_of(tx: Transaction, staged: Mapping[str, Staged]) -> Commit:
    """One transaction's commit, except for what only its place in the log decides: time and first parent."""
    changes = tuple(c for i, e in tx.edits.items() if (c := _change(e, staged.get(i))) is not None)
    reads = [check.record() for check in tx.checks]
    if tx.isolation == "serializable":
        reads += [Read(kind="table", table=t) for t in sorted(read_tables(tx))]
    made = Commit(
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
        reaches=tx.reaches,
        joining=tx.joining,
        learnt=tx.learnt,
        left_out=dict(tx.left_out),
        cost=None if clock.simulated() else spent(tx.meter),
        metadata=tx.metadata,
    )
    encode(made)  # what cannot be stored is this transaction's own error, not that of those who share its slot
    return made


def _change(edit: Edit, staged: Staged | None) -> Change | None:
    if not edit.changed:
        return None
    pin: Pin | None = None
    added = removed = 0
    keys: tuple[Any, ...] = ()
    noted: tuple[NotedKeys, ...] = ()
    if staged is not None:
        pin, keys, added, removed, noted = staged.pin, staged.keys, staged.added, staged.removed, staged.noted
    elif edit.pin is not None:
        pin = edit.pin
        if edit.base is not None:
            # What plain writers did up to `head` stays accounted for, whatever older state is restored.
            head = max(pin.head, edit.base.pin.head)
            known = max(pin.acknowledged, edit.base.pin.acknowledged, key=lambda a: a[-1].number if a else 0)
            counter = edit.base.pin.counter + 1
            pin = msgspec.structs.replace(pin, counter=counter, head=head, acknowledged=known)
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
        noted=noted,
    )


# -- its outcome ------------------------------------------------------------------------------------------------------


def receipt(tx: Transaction, record: Record, index: int, attempt: int, counts: Mapping[str, int]) -> Receipt:
    """What the transaction at this place of the slot is told."""
    commit = record.commits[index]
    return Receipt(
        commit=f"{record.slot}.{index}",
        branch=tx.live.name,
        time=commit.time,
        tables=TableReceipt.all_of(commit),
        left_out=dict(commit.left_out),
        attempts=attempt,
        rebased=counts["rebased"],
        replayed=counts["replayed"],
        slowed=tx.slowed,
        cost={**tx.meter.to_dict(), "shared": len(record.commits)},
    )


def carried(tx: Transaction, record: Record, index: int, attempt: int, counts: Mapping[str, int]) -> Receipt:
    """The receipt of a transaction whose offer somebody else has taken along."""
    live = tx.live
    tx.status, tx.slot = "committed", record.slot
    if record.buried:
        return Receipt(commit=f"{record.slot}.{index}", branch=live.name, time=record.time, cost=tx.meter.to_dict())
    live.published(c.pin for c in record.commits[index].changes if c.pin is not None)
    live.offers.met(len(record.commits) - 1)
    tend([tx], record.slot, mine=False)
    return receipt(tx, record, index, attempt, counts)


def tend(txs: Sequence[Transaction], slot: int, *, mine: bool = True) -> None:
    """Queue what follows. The commits are done: nothing here may be told to the caller as a failure of them.

    Whoever wrote the slot, if that is `mine`, sees to what one writer in many has to do.
    """
    tx = next((tx for tx in txs if tx.backfill and tx.background is not None), txs[0])
    if tx.background is None:
        return
    try:
        tx.live.tend(tx.background, slot, backfill=tx.backfill, mine=mine)
    except Exception as error:
        tx.background.failures.append(f"{type(error).__name__}: {error}")


def unknown(tx: Transaction) -> CommitUnknown:
    fields: dict[str, Any] = {"until": tx.until} if tx.slot is not None and tx.until > tx.slot else {}
    return CommitUnknown(
        f"The store did not confirm that slot {tx.slot} of branch {tx.live.name!r} was written.",
        next="Do not run it again. Settle it with lake.outcome(error).",
        branch=tx.live.name,
        log=tx.live.line.branch,
        slot=tx.slot,
        write=tx.write,
        **fields,
    )
