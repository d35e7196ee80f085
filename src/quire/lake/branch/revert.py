"""Undo a commit by a new one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from quire.errors import Conflict, InvalidInput, Revoked
from quire.formats import TableFormat
from quire.lake.commit.conflicts import KINDS
from quire.lake.commit.rebase import UPKEEP
from quire.lake.commit.table_change import Edit
from quire.lake.commit.transaction import Transaction
from quire.lake.receipt import Receipt
from quire.lake.upkeep.cleanup.leases import SnapshotLease
from quire.lake.upkeep.cleanup.protection import check_kept
from quire.ledger import Change, Commit, History, Line, Pin, Point, Record, State, fold
from quire.store import Meter, attached

if TYPE_CHECKING:
    from quire.lake.lake import Lake


TRIES = 3
LEASE_SECONDS = 300.0
"""Of the lease on a state of another log; it is renewed while the revert lasts."""


def revert(lake: Lake, point: Point, message: str | None, metadata: Mapping[str, str] | None = None) -> Receipt:
    """Undo a commit: by the pins of its tables, and where that cannot be by a merge of what it took away."""
    from quire.lake.merge.plan import Asked, MergePlan

    try:
        return _by_pins(lake, point, message, metadata)
    except Revoked:
        raise
    except Conflict as error:
        if "reverted" in error.fields or error.retryable or not lake._live.line.contains(point):
            raise
        entry = lake._live.history.commit(point)
        if any(change.ops and UPKEEP.issuperset(change.ops) for change in entry.changes):
            raise  # a merge knows what became of rows, and an index or a compaction made none
        word = f"{point.branch}:{point.commit}"
        said = _told(point, entry) if message is None else message
        about = {"metadata": metadata}
        plan = MergePlan(lake, Asked(word, verb="revert", message=said, transaction=about))
        if plan.conflicts.open:
            raise
        return plan.commit()


def _by_pins(lake: Lake, point: Point, message: str | None, metadata: Mapping[str, str] | None) -> Receipt:
    """When a cleanup comes between, look again at what is kept."""
    for _ in range(TRIES - 1):
        with contextlib.suppress(Revoked):
            return _revert(lake, point, message, metadata)
    return _revert(lake, point, message, metadata)


def _revert(lake: Lake, point: Point, message: str | None, metadata: Mapping[str, str] | None) -> Receipt:
    """Tables that nobody touched since go back to their earlier pin; in others the commit's own rows are undone."""
    if point.slot == 0:
        raise InvalidInput("The commit that created the lake cannot be reverted.", next="Choose a later commit.")
    spent = Meter()
    with contextlib.ExitStack() as holding:
        with attached(spent):
            now, since = _look(lake, point)
            before, after, entry = _around(lake._live.history, point, since[0])
            if before.head.branch != lake._live.line.branch:
                # Floors on this log are met before the publish. One on the log that the state lies in may come after
                # the look at it, by a collector that has been at this log before.
                holding.enter_context(SnapshotLease(lake._core, None, lake._live.line, before.head, LEASE_SECONDS))
            later = _later_changes(lake._live.line, since, point)
            tx = lake.transaction(message or _told(point, entry), metadata=metadata)
            tx.at, tx.meter, tx.reverts = now, spent, point
            try:
                for change in entry.changes:
                    since_then = later.get(change.table, [])
                    for at, theirs in since_then:
                        if any(KINDS[op] == "exclusive" for op in theirs.ops):
                            raise _later(change.name, at, point)
                    edit = _undo(tx, change, since_then, before, after, now, point)
                    if edit is not None:
                        tx.edits[change.table] = edit
            except BaseException:
                tx.discard()
                raise
        return tx.commit()


def _told(point: Point, entry: Commit) -> str:
    """The message of a revert: that of the commit in it, as far as there is room."""
    return f"revert {point.commit}: {entry.message[:1000]}"


def _look(lake: Lake, point: Point) -> tuple[State, list[Record]]:
    """The newest state, and every record from the commit's own on."""
    live, line = lake._live, lake._live.line
    earlier = point.slot - 1 if point.index == 0 else point.slot
    owner = line.owner(earlier)
    check_kept(lake._core, live, line, Point(branch=owner, slot=earlier))
    now = live.state if owner == line.branch else live.refresh()
    if not line.contains(point) or point.slot > now.slot:
        raise live.history.no_commit(point.commit)
    return now, live.history.between(point.slot - 1, now.slot)


def _around(history: History, point: Point, record: Record) -> tuple[State, State, Commit]:
    """The states before and after a commit, and the commit."""
    if record.buried:
        raise history.expired(point.commit)
    if point.index >= len(record.commits):
        raise history.no_commit(point.commit)
    if point.index:
        before, after = history.at_slot(point.slot, point.index - 1), history.at(point)
    else:
        before = history.at_slot(point.slot - 1)
        after = fold(before, record, upto=0)
    return before, after, record.commits[point.index]


def _later_changes(line: Line, since: list[Record], point: Point) -> dict[str, list[tuple[str, Change]]]:
    """What later commits did, by table. A commit and the one that reverted it count as nothing."""
    found: dict[str, list[tuple[str, Change]]] = {}
    undone: set[Point] = set()
    for at, entry in _newest_first(line, since):
        if at in undone or (at.slot, at.index) <= (point.slot, point.index):
            continue
        if entry.reverts == point:
            raise Conflict(
                f"Commit {point.commit} was already reverted by commit {at.commit}.",
                next=f"To bring it back, revert {at.commit}.",
                commit=at.commit,
                retryable=False,
                reverted=point.commit,
            )
        if entry.reverts is not None:
            undone.add(entry.reverts)
            if (entry.reverts.slot, entry.reverts.index) > (point.slot, point.index):
                continue
        for change in entry.changes:
            found.setdefault(change.table, []).append((at.commit, change))
    return found


def _newest_first(line: Line, records: list[Record]) -> Iterator[tuple[Point, Commit]]:
    for record in reversed(records):
        for index, entry in reversed(list(enumerate(record.commits))):
            at = Point(branch=record.branch, slot=record.slot, index=index)
            if line.contains(at):
                yield at, entry


def _undo(
    tx: Transaction,
    change: Change,
    later: list[tuple[str, Change]],
    before: State,
    after: State,
    now: State,
    point: Point,
) -> Edit | None:
    was, became, present = (s.tables.get(change.table) for s in (before, after, now))
    kept_up = all(KINDS[op] == "upkeep" for _, theirs in later for op in theirs.ops)
    if was is None:  # the commit created the table
        if present is None:
            return None
        if present.commit != point and not kept_up:
            raise _later(change.name, present.commit.commit, point)
        return Edit(present.info, present, ops=["drop"], dropped=True)
    if became is None:  # the commit dropped it
        if present is not None:
            return None
        return Edit(was.info, None, ops=["restore"], pin=was.pin)
    if present is None:
        raise _later(change.name, "a later commit", point)
    renamed = was.info.name != present.info.name
    info = was.info
    if present.commit == point:
        return Edit(info, present, ops=["restore"], pin=was.pin, renamed=renamed)
    format_ = tx.live.core.format(present.pin.format)
    if not any(KINDS[op] in ("exclusive", "upkeep") or op == "rename" for op in change.ops):
        edit = Edit(present.info, present)
        tx.live.core.owners.writable(present.pin, present.info)
        edit.work = format_.begin(present.pin, write=tx.write, table=present.info.name)
        if format_.undo(edit.work, was.pin, became.pin, key=present.info.key):
            edit.did("update")
            return edit
    # Rows cannot be followed to where a compaction moved them. If nothing else came after, the earlier state is what is
    # wanted; what was compacted since is scattered again, but no index may get lost.
    if kept_up and not _names(format_, present.pin) - _names(format_, was.pin):
        return Edit(info, present, ops=["restore"], pin=was.pin, renamed=renamed)
    moved = next((at for at, theirs in later if "compact" in theirs.ops), None)
    raise _later(change.name, present.commit.commit, point) if moved is None else _moved(change.name, moved, point)


def _names(format_: TableFormat, pin: Pin) -> set[str]:
    """The indexes of a state."""
    return {str(index["name"]) for index in format_.open(pin).indexes()}


def _moved(table: str, commit: str, point: Point) -> Conflict:
    return Conflict(
        f"Table {table!r} was optimized by {commit} and also changed by others since, so the rows of commit "
        f"{point.commit} cannot be found there.",
        next=f"Revert the later commits first, including {commit}, or correct the rows in a new transaction.",
        table=table,
        commit=commit,
        retryable=False,
    )


def _later(table: str, commit: str, point: Point) -> Conflict:
    return Conflict(
        f"Table {table!r} was changed again by {commit}, so commit {point.commit} cannot be undone there.",
        next="Revert the later commit first, or correct the rows in a new transaction.",
        table=table,
        commit=commit,
        retryable=False,
    )
