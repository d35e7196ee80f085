"""Comparing a transaction with every commit that came between, and moving it onto the newest state.

This runs before every attempt at a slot, whether a race was lost or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from quire.errors import Conflict, ExpectationFailed, KeyConflict, NameConflict, SnapshotExpired
from quire.formats import Work
from quire.lake.commit import tokens, validators
from quire.lake.commit.conflicts import Rival, judge, refuse
from quire.lake.commit.preconditions import check_epoch, check_expected, check_floors
from quire.lake.commit.table_change import AGAIN, Edit
from quire.lake.names import closed
from quire.ledger import Pin, Point, Record, State
from quire.store import run_parallel

if TYPE_CHECKING:
    from quire.lake.commit.transaction import Transaction

UPKEEP = frozenset({"index", "compact"})
MOVES_NO_ROW = UPKEEP | {"rename"}
CHANGES_NO_COLUMN = frozenset({"append", "insert", "upsert", "update", "delete"})


class Taken(Exception):
    """What the transaction had offered is committed: somebody has taken it along into this record."""

    def __init__(self, record: Record, index: int) -> None:
        self.record, self.index = record, index


class Repeated(Exception):
    """The token was committed before."""

    def __init__(self, at: Point | bool) -> None:
        self.at = at


def move(tx: Transaction, seen: State, counts: dict[str, int]) -> None:
    """Bring the transaction onto `seen`, or raise why it cannot be."""
    live = tx.live
    if tx.until > tx.at.slot:
        taken_in(tx, live.history.between(tx.at.slot, seen.slot))
    if seen.closed:
        raise closed(live.name)
    if seen.epoch > tx.epoch:
        check_epoch(live.name, seen, tx.epoch, tx.own_claims)
    if tx.stream is not None or tx.token is not None:
        done = tokens.used(seen, tx.stream, tx.token, live.history.pages)
        if done is not False:
            raise Repeated(done)
    _check_expectations(tx, seen)
    rivals = _rivals(tx, seen)
    _check_names(tx, seen, rivals)
    touched = [edit for edit in tx.edits.values() if edit.info.id in rivals]
    if touched:
        for moved in run_parallel([partial(_move_edit, tx, e, seen, rivals[e.info.id]) for e in touched]):
            for kind, number in moved.items():
                counts[kind] += number
    _check_something_left(tx)
    _check_reads(tx, seen, rivals)
    again = not tx.validated or not rivals.keys().isdisjoint(needs(tx))
    tx.at = seen
    if again and guarded(tx):
        tx.validated = False  # until they have come to a verdict: the next look compares with this state only
        _show_newest(tx, seen, rivals)
        _validate(tx)
    tx.validated = True


def taken_in(tx: Transaction, records: Iterable[Record]) -> None:
    """Raise `Taken` when one of these records holds what the transaction has offered."""
    for record in records:
        if record.wrote(tx.write):
            writes = record.writes if record.buried else tuple(commit.write for commit in record.commits)
            raise Taken(record, writes.index(tx.write) if tx.write in writes else 0)


def _rivals(tx: Transaction, seen: State) -> dict[str, list[Rival]]:
    """Every commit since the transaction's base, by table."""
    found: dict[str, list[Rival]] = {}
    if seen.slot == tx.at.slot and not tx.at.partial:
        return found
    # A base inside a group is compared with the rest of its own slot too.
    after = tx.at.slot - 1 if tx.at.partial else tx.at.slot
    records = tx.live.history.between(after, seen.slot)
    check_floors(tx, records)
    for record in records:
        limit = tx.live.line.limit(record.slot)
        for index, commit in enumerate(record.commits):
            if record.slot == tx.at.slot and index <= tx.at.head.index:
                continue
            if limit is not None and index > limit:
                break  # the branch started before it, inside the group
            for change in commit.changes:
                rival = Rival(f"{record.slot}.{index}", commit.author, change)
                found.setdefault(change.table, []).append(rival)
    return found


def _check_expectations(tx: Transaction, seen: State) -> None:
    if tx.if_head is not None and (seen.head.slot, seen.head.index) != tx.if_head:
        slot, index = tx.if_head
        raise ExpectationFailed(
            f"The head of branch {tx.live.name!r} is {seen.head.commit}, not {slot}.{index}.",
            next="Check what was committed since, and decide anew.",
            branch=tx.live.name,
            expected=f"{slot}.{index}",
            actual=seen.head.commit,
        )
    for expected in tx.expected:
        check_expected(expected, seen)


def _check_names(tx: Transaction, seen: State, rivals: dict[str, list[Rival]]) -> None:
    for edit in tx.edits.values():
        here, keeps_name = edit.info.id in seen.tables, not edit.created and not edit.renamed
        if (here and (edit.dropped or keeps_name)) or not edit.changed:
            continue
        if not keeps_name:
            holder = seen.names().get(edit.info.name)
            freed = holder is not None and holder in tx.edits and _gives_up(tx.edits[holder], edit.info.name)
            if holder not in (None, edit.info.id) and not freed:
                by = seen.tables[holder].commit.commit if holder else "?"
                raise NameConflict(
                    f"Another writer created table {edit.info.name!r} first, in commit {by}.",
                    next="Choose another name, or write to that table.",
                    table=edit.info.name,
                    commit=by,
                )
        if not edit.created and not here:
            raise Conflict(
                f"Table {edit.info.name!r} was dropped by commit {rivals[edit.info.id][-1].commit}.",
                next="Open a fresh snapshot; lake.revert brings the table back.",
                table=edit.info.name,
                commit=rivals[edit.info.id][-1].commit,
                retryable=False,
            )


def _gives_up(edit: Edit, name: str) -> bool:
    return edit.dropped or edit.info.name != name


def _move_edit(tx: Transaction, edit: Edit, seen: State, rivals: list[Rival]) -> Counter[str]:
    """Rebase the staged work on one table over what the rivals did, replay it, or raise; how often each was done."""
    counts: Counter[str] = Counter()
    if not edit.changed:
        return counts
    judge(edit.info.name, edit.ops, rivals)
    now = seen.tables[edit.info.id]
    if not edit.renamed and now.info.name != edit.info.name:
        edit.info = msgspec.structs.replace(edit.info, name=now.info.name)
    edit.base = now
    work = edit.work
    if edit.pin is not None and work is None:
        raise Conflict(
            f"Table {edit.info.name!r} was changed first, by commit {rivals[-1].commit} ({rivals[-1].author}).",
            next="Read a fresh snapshot, and decide anew.",
            table=edit.info.name,
            commit=rivals[-1].commit,
        )
    if work is not None and work.changed and not work.on(now.pin):
        try:
            _follow(tx, edit.info.name, work, now.pin, rivals, seen, counts)
        except KeyConflict as conflict:
            if edit.leaves_out:
                conflict.retryable, conflict.next = True, AGAIN
            raise
    return counts


def _follow(
    tx: Transaction, table: str, work: Work, onto: Pin, rivals: Sequence[Rival], seen: State, counts: Counter[str]
) -> None:
    """Bring staged work to `onto`, where the rivals led, in the state `seen`."""
    overlap = work.rebase(onto, [r.change for r in rivals])
    if overlap is None:
        counts["rebased"] += 1
        return
    steps = _steps(rivals)
    if len(steps) > 1:
        # Which rows were changed, before or after others were only moved, can be told one step after the other.
        try:
            for step in steps:
                pins = [r.change.pin for r in step if r.change.pin is not None]
                if pins or step is steps[-1]:
                    _follow(tx, table, work, onto if step is steps[-1] else pins[-1], step, seen, counts)
            return
        except SnapshotExpired:
            pass  # a state in between is gone
    if overlap.hard:
        raise refuse(table, overlap, rivals)
    if tx.has_read:
        raise refuse(
            table, overlap, rivals, why="The transaction has read data, so Quire does not run it again by itself."
        )
    name = _renamed(tx, seen)
    if name is not None:
        why = f"The transaction has looked up the name {name!r}, which now means another table, or none, so Quire does"
        raise refuse(table, overlap, rivals, why=f"{why} not run it again by itself.")
    otherwise = work.replay(onto, told=tx.counts_told)
    if otherwise is not None:
        raise refuse(table, otherwise, rivals)
    counts["replayed"] += 1


def _steps(rivals: Sequence[Rival]) -> list[list[Rival]]:
    """The rivals in order, each compaction apart from what came before and after it."""
    steps: list[list[Rival]] = []
    for rival in rivals:
        if "compact" in rival.change.ops or not steps or "compact" in steps[-1][-1].change.ops:
            steps.append([])
        steps[-1].append(rival)
    return steps


def _check_something_left(tx: Transaction) -> None:
    """Upkeep that others overtook in every table leaves no commit behind."""
    edits = [e for e in tx.edits.values() if e.ops]
    if edits and all(UPKEEP.issuperset(e.ops) and not e.changed for e in edits):
        raise Conflict(
            f"Other commits changed what was compacted or indexed in {', '.join(repr(e.info.name) for e in edits)}.",
            next="Run it again; no data is lost.",
            table=edits[0].info.name,
        )


def _renamed(tx: Transaction, seen: State) -> str | None:
    """A name that the program has looked up and that means something else on the newest state."""
    then, now = tx.first_names, seen.names()
    asked = then.keys() | now.keys() if tx.listed_names else tx.read_names
    return min((name for name in asked if then.get(name) != now.get(name)), default=None)


def _check_read_names(tx: Transaction, seen: State) -> None:
    """What a serializable transaction was told of names holds on the newest state too."""
    name = _renamed(tx, seen)
    if name is not None:
        holder = next((state for state in seen.tables.values() if state.info.name == name), None)
        raise Conflict(
            f"The name {name!r}, which this serializable transaction looked up, now means another table, or none.",
            next="Run the transaction again on a fresh snapshot; lake.transact does this by itself.",
            table=name,
            commit=seen.head.commit if holder is None else holder.commit.commit,
        )


def _check_read_tables(tx: Transaction, rivals: dict[str, list[Rival]]) -> None:
    """Of a table whose rows were read nothing may have changed, and of one whose columns were, only rows."""
    rows = read_tables(tx)
    for table in sorted(rows | tx.read_columns):
        for rival in rivals.get(table, ()):
            if set(rival.change.ops) - (MOVES_NO_ROW if table in rows else MOVES_NO_ROW | CHANGES_NO_COLUMN):
                raise Conflict(
                    f"Table {rival.change.name!r}, which this serializable transaction read, was changed by commit"
                    f" {rival.commit} ({rival.author}).",
                    next="Run the transaction again on a fresh snapshot; lake.transact does this by itself.",
                    table=rival.change.name,
                    commit=rival.commit,
                )


def _check_reads(tx: Transaction, seen: State, rivals: dict[str, list[Rival]]) -> None:
    if tx.isolation == "serializable":
        _check_read_names(tx, seen)
        _check_read_tables(tx, rivals)
    for check in tx.checks:
        if check.table not in rivals:
            continue
        now, name = seen.tables.get(check.table), rivals[check.table][-1].change.name
        if now is None:
            raise Conflict(
                f"Table {name!r}, which this transaction relied on, was dropped.",
                next="Read a fresh snapshot, and decide anew.",
                table=name,
                retryable=False,
            )
        check.run(now.info.name, tx.live.core.format(now.pin.format).open(now.pin, now.info.name))


def read_tables(tx: Transaction) -> set[str]:
    """Tables whose content a serializable transaction rests on: read by the program, or searched by a statement."""
    searched = {i for i, e in tx.edits.items() if {"update", "delete", "upsert", "insert"} & set(e.ops)}
    return tx.read_tables | searched


def needs(tx: Transaction) -> set[str]:
    """Ids of the tables whose state matters to a transaction: a validator's verdict rests on what it has read."""
    tables = {i for i, edit in tx.edits.items() if edit.changed} | {check.table for check in tx.checks}
    if tx.isolation == "serializable":
        tables |= tx.read_columns
    return tables | read_tables(tx) if tx.isolation == "serializable" or guarded(tx) else tables


def guarded(tx: Transaction) -> dict[str, list[str]]:
    """The changed tables that have a validator, by its name."""
    found: dict[str, list[str]] = {}
    for edit in tx.edits.values():
        if edit.info.validator is not None and edit.changed and not UPKEEP.issuperset(edit.ops or ["?"]):
            found.setdefault(edit.info.validator, []).append(edit.info.name)
    return found


def _show_newest(tx: Transaction, seen: State, rivals: dict[str, list[Rival]]) -> None:
    """Let validators see tables that the transaction does not change as they are on the base it lands on."""
    for table, edit in list(tx.edits.items()):
        if table in rivals and not edit.changed:
            del tx.edits[table]
    names = seen.names()
    for table, edit in tx.edits.items():
        if edit.changed:
            names = {name: holder for name, holder in names.items() if holder != table}
            if not edit.dropped:
                names[edit.info.name] = table
    tx._names = names


def _validate(tx: Transaction) -> None:
    for name, tables in guarded(tx).items():
        validator = validators.get(name)
        if validator is None:
            raise validators.missing(name, tables[0])
        validator(tx, tables)
