"""Bugs that can be planted in the protocol, to see that the histories find them.

Each replaces one rule of the protocol by a plausible mistake, for as long as the context lasts and in this process
only. `tests/simulation/test_bugs.py` proves that every one of them is found, and that nothing is found without.

    with planted("no-epoch"):
        run(seed)
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from typing import Any

import msgspec
from tests.laboratory import planted_told_bugs as _more  # noqa: F401  (makes them known)

from quire.errors import CommitUnknown
from quire.lake.commit import attempt, tokens
from quire.lake.commit import rebase as moving
from quire.lake.lake import Lake
from quire.lake.publish import group, publish, slot_members
from quire.lake.upkeep.cleanup import retained as kept_by
from quire.lake.upkeep.cleanup.collector import Collector
from quire.ledger import Appended, History, Line, LogLedger, Point, Record, State, encode, fold
from quire.ledger import history as states
from quire.ledger.log import slot_key
from quire.store import Outcome, clock
from quire.store import store as storing
from quire.store.backend import Failure, Reason
from quire.store.conditional_put import Created
from quire.testing.memory import head as plain
from quire.testing.memory.net import Rebase
from quire.testing.memory.work import MemoryWork
from quire.testing.simulation.planting import BUGS, Patch, bug, planted, swap

__all__ = ["BUGS", "planted"]

# -- the outcome of a publish -----------------------------------------------------------------------------------------


@bug
def _outcome_guessed() -> Patch:
    """A create that failed is taken for not done, without reading back."""

    def settle(put: Any, read: Any, mine: Any, deadline: Any, attempts: int = 5) -> Created:
        try:
            put()
        except Failure as failure:
            if failure.reason is not Reason.EXISTS:
                raise
            found = read()
            return Created(Outcome.COMMITTED) if mine(found) else Created(Outcome.CONFLICT, found)
        return Created(Outcome.COMMITTED)

    return swap(storing, "settle", settle)


@bug
def _own_write_not_known() -> Patch:
    """Every try has a new write id, so a writer takes its own record for another's and commits again."""

    def forgetful(self: LogLedger, record: Record, *, after: str | None = None, **options: Any) -> Appended:
        key = slot_key(record.branch, record.slot)
        created = self._store.create(key, encode(record), mine=lambda found: False, **options)
        winner = self.read(record.branch, [record.slot])[0] if created.outcome is Outcome.CONFLICT else None
        return Appended(created.outcome, winner)

    return swap(LogLedger, "append", forgetful)


@bug
def _unknown_run_again() -> Patch:
    """`transact` runs the work again when the outcome is unknown."""
    transact = Lake.transact

    def again(self: Lake, fn: Any, message: str = "", **options: Any) -> Any:
        try:
            return transact(self, fn, message, **options)
        except CommitUnknown:
            return transact(self, fn, message, **options)

    return swap(Lake, "transact", again)


@bug
def _predecessor_not_read() -> Patch:
    """Whoever loses a slot takes the next one, without reading what won."""
    append = LogLedger.append

    def leap(self: LogLedger, record: Record, **options: Any) -> Any:
        for _ in range(3):
            appended = append(self, record, **options)
            if appended.outcome is not Outcome.CONFLICT or record.kind != "commits":
                return appended
            record = msgspec.structs.replace(record, slot=record.slot + 1)
        return appended

    return swap(LogLedger, "append", leap)


@bug
def _half_published() -> Patch:
    """A commit of several tables leaves one out."""
    append = LogLedger.append

    def half(self: LogLedger, record: Record, **options: Any) -> Appended:
        commits = [
            msgspec.structs.replace(commit, changes=commit.changes[:-1]) if len(commit.changes) > 1 else commit
            for commit in record.commits
        ]
        return append(self, msgspec.structs.replace(record, commits=tuple(commits)), **options)

    return swap(LogLedger, "append", half)


# -- comparing with others --------------------------------------------------------------------------------------------


@bug
def _last_rival_only() -> Patch:
    """A transaction is compared only with the newest commit, not with every one since its base."""
    rivals = moving._rivals

    def last(tx: Any, seen: Any) -> dict[str, list[Any]]:
        found = {t: [r for r in rs if r.commit == seen.head.commit] for t, rs in rivals(tx, seen).items()}
        return {table: kept for table, kept in found.items() if kept}

    return swap(moving, "_rivals", last)


@bug
def _no_epoch() -> Patch:
    """A writer whose branch was claimed by another goes on, in the new epoch."""
    move = moving.move

    def unfenced(tx: Any, seen: Any, counts: Any) -> None:
        tx.live.epoch = max(tx.live.epoch, seen.epoch)
        tx.epoch = seen.epoch
        move(tx, seen, counts)

    return swap(attempt, "move", unfenced)


@bug
def _no_expectations() -> Patch:
    """`expect=` and `if_head=` are looked at only when the transaction begins."""
    return swap(moving, "_check_expectations", lambda tx, seen: None)


@bug
def _tokens_forgotten() -> Patch:
    """A token that was used counts as fresh."""
    return swap(tokens, "used", lambda state, stream, opaque, pages=None: False)


@bug
def _keys_not_compared() -> Patch:
    """Two inserts of one key are both let through when they race."""
    return swap(Rebase, "_records_prove_disjoint", lambda self, mine: True)


# -- several commits in one slot ---------------------------------------------------------------------------------------


@bug
def _company_not_looked_at() -> Patch:
    """Whoever waits is taken along, whatever the members before it do to the same tables."""
    return swap(slot_members.Company, "_can_follow", lambda self, tx: True)


@bug
def _keys_of_members_not_compared() -> Patch:
    """Two members insert one key, in one slot."""
    return swap(slot_members.Additions, "have_room_for", lambda self, ops, keys: True)


@bug
def _names_of_members_not_compared() -> Patch:
    """Two members give one name to two tables, in one slot."""
    return swap(slot_members, "_names", lambda edit: set())


@bug
def _reads_of_members_not_compared() -> Patch:
    """A serializable member shares a slot with one that changes what it has read."""

    def written(tx: Any) -> set[str]:
        return {table for table, edit in tx.edits.items() if edit.changed}

    return swap(slot_members, "needs", written)


@bug
def _members_before_forgotten() -> Patch:
    """Rows that are added to a table behind those of another member take their place."""
    stage = MemoryWork._stage_behind

    def alone(self: MemoryWork, others: Any) -> Any:
        staged = stage(self, others)
        only = stage(self, ())
        return type(staged)(
            msgspec.structs.replace(only.pin, counter=staged.pin.counter),
            staged.keys,
            staged.added,
            staged.removed,
            staged.files,
        )

    return swap(MemoryWork, "_stage_behind", alone)


@bug
def _failed_member_followed() -> Patch:
    """A member fails when it is staged, and those behind it are published with its rows."""
    stage = publish._stage
    staged: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

    def only_once(entry: Any, seen: Any) -> None:
        if entry.member in staged:
            entry.commit = staged[entry.member]
        else:
            stage(entry, seen)
            staged[entry.member] = entry.commit

    return swap(publish, "_stage", only_once)


@bug
def _withdrawn_published() -> Patch:
    """A member whose time has run out is told so, stays in the queue, and is published."""
    return swap(group.Group, "_withdraw", lambda self, member: True)


@bug
def _nobody_leads() -> Patch:
    """Whoever has published does not tell the next one to lead."""

    def forget(self: group.Group) -> None:
        self._leader = None

    return swap(group.Group, "_pass_on", forget)


@bug
def _lost_group_acknowledged() -> Patch:
    """Members whose slot went to another process are told that they are committed."""
    append = LogLedger.append

    def hopeful(self: LogLedger, record: Record, **options: Any) -> Appended:
        appended = append(self, record, **options)
        lost = appended.outcome is Outcome.CONFLICT and len(record.commits) > 1
        return Appended(Outcome.COMMITTED) if lost else appended

    return swap(LogLedger, "append", hopeful)


@bug
def _unknown_group_tried_again() -> Patch:
    """When the outcome of a slot is unknown, its first member is told so and the others try again."""
    publish_entries = publish._publish

    def retried(member: Any) -> Callable[..., bool]:
        def settle(receipt: Any = None, error: Any = None, *, lost: bool = False) -> bool:
            if not isinstance(error, CommitUnknown):
                return group.Member.settle(member, receipt, error, lost=lost)
            member.tx.status = "open"
            return group.Member.settle(member, lost=True)

        return settle

    def again(live: Any, seen: Any, entries: Any, carried: Any) -> None:
        for entry in entries[1:]:
            entry.member.settle = retried(entry.member)
        publish_entries(live, seen, entries, carried)

    return swap(publish, "_publish", again)


@bug
def _outcome_by_record() -> Patch:
    """An unknown outcome is settled by the write id of the record, which is not that of its members."""
    return swap(Record, "wrote", lambda self, write: write == self.write)


@bug
def _first_token_only() -> Patch:
    """Of the tokens of a group only the first is remembered."""

    def forgetful(state: State, record: Record, *, upto: int | None = None) -> State:
        commits = [
            commit if index == 0 else msgspec.structs.replace(commit, token=None, stream=None)
            for index, commit in enumerate(record.commits)
        ]
        return fold(state, msgspec.structs.replace(record, commits=tuple(commits)), upto=upto)

    stack = contextlib.ExitStack()
    stack.enter_context(swap(publish, "fold", forgetful))
    stack.enter_context(swap(states, "fold", forgetful))
    return stack


@bug
def _group_read_as_one() -> Patch:
    """Who asks for a commit inside a group is shown all of its slot."""

    def whole(self: History, point: Point) -> State:
        return self.at_slot(point.slot)

    return swap(History, "at", whole)


@bug
def _branch_takes_the_slot() -> Patch:
    """A branch that starts inside a group gets all of its slot."""
    return swap(Line, "limit", lambda self, slot: None)


# -- cleanup ----------------------------------------------------------------------------------------------------------


@bug
def _slots_deleted() -> Patch:
    """Old slots are deleted instead of buried: a stalled writer finds one free."""
    return swap(
        LogLedger, "bury", lambda self, tombstone: self._store.delete(slot_key(tombstone.branch, tombstone.slot))
    )


@bug
def _floor_ignored() -> Patch:
    """A writer that meets a floor goes on as if nothing had been removed."""
    return swap(moving, "check_floors", lambda tx, records: None)


@bug
def _protectors_first() -> Patch:
    """Cleanup lists leases, tags, branches and notes, and publishes its floors afterwards."""
    run, logs, leased = Collector.run, kept_by.logs, kept_by.leased
    first: dict[str, Any] = {}

    def mine(name: str) -> str:
        return f"{name} of {id(clock.world().scheduler.current)}"  # type: ignore[attr-defined]

    def early(name: str, found: Any) -> Any:
        """What the same collector was told when it asked for the first time."""
        return first.setdefault(mine(name), found)

    def fresh(self: Collector) -> Any:
        for name in ("points", "leased"):
            first.pop(mine(name), None)
        return run(self)

    def all_logs(*given: Any) -> Any:
        every, points = logs(*given)
        return every, early("points", points)

    stack = contextlib.ExitStack()
    stack.enter_context(swap(Collector, "run", fresh))
    stack.enter_context(swap(kept_by, "logs", all_logs))
    stack.enter_context(swap(kept_by, "leased", lambda *given: early("leased", leased(*given))))
    stack.enter_context(swap(kept_by, "narrowed", lambda core, times: times))
    return stack


@bug
def _leases_ignored() -> Patch:
    """Cleanup deletes what is leased."""
    return swap(kept_by, "leased", lambda core, now: ([], []))


@bug
def _notes_ignored() -> Patch:
    """Cleanup deletes what writers in flight have staged."""
    return swap(kept_by, "notes", lambda store: iter(()))


@bug
def _older_promoted() -> Patch:
    """Backfill moves a table's plain HEAD back to an older state."""
    inspect = plain.inspect

    def blind(place: Any, lake: str, table: str = "") -> Any:
        number, entry, head = inspect(place, lake, table)
        return number, entry, type(head)(head.version, 0 if head.counter is not None else None, head.commit)

    return swap(plain, "inspect", blind)
