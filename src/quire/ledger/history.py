"""States of a branch, read from a ledger: cold open, refresh, time travel, the log.

A state is reached from the nearest checkpoint by folding the records after it. Everything that can be read in
parallel is, so that a cold open is bounded at any depth.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator
from datetime import UTC, datetime, timedelta

from quire.errors import CommitNotFound, SnapshotExpired
from quire.ledger.checkpoints import CHECKPOINT_EVERY, Checkpoints
from quire.ledger.protocol import Ledger
from quire.ledger.records import Commit, Hint, Point, Record, corrupt
from quire.ledger.refs import Line
from quire.ledger.state import State, commit_at, fold, genesis
from quire.store import Store, clock, run_parallel

RECENT = 512
AHEAD = 8
"""How many slots beyond a known one are read at once when there is news."""
AHEAD_OF_US = timedelta(hours=1)
"""A record that is later than this by our own clock was made by a clock that ran ahead."""
FAR = 32
"""The same, twice, when there is still more news. Beyond that the head is searched for."""


class History:
    """One branch's line of records."""

    def __init__(
        self,
        store: Store,
        ledger: Ledger,
        line: Line,
        checkpoint: Point | None = None,
        hear: Callable[[Record], None] | None = None,
    ) -> None:
        self._ledger = ledger
        self._hear = hear
        """Told of every record on the way to a state."""
        self.line = line
        self.checkpoints = Checkpoints(store)
        self.pages = self.checkpoints.pages
        self._start_checkpoint = checkpoint
        self._recent: OrderedDict[int, Record] = OrderedDict()
        self._passed: OrderedDict[int, Record] = OrderedDict()
        """Records that were read on the way to a state. They may have been cleaned up since."""
        self.fork: State | None = None
        """The state that the branch started from, once it was passed on the way to another one."""

    # -- reaching a state -------------------------------------------------------------------------------------

    def open(self, hint: Hint | None = None) -> State:
        """The newest state, from nothing. `hint` may be None, stale or wrong.

        With a hint of the last second, and the checkpoint it names, that is one round of reads. A hint that is older by
        a few commits costs one more. Without one it takes as many rounds as finding the head does, which grow with the
        logarithm of the depth.
        """
        believed = self.line.start - 1
        checkpoint = self._start_checkpoint if self._plausible(self._start_checkpoint, believed) else None
        if hint is not None and hint.branch == self.line.branch and hint.head >= believed:
            believed = hint.head
            if self._plausible(hint.checkpoint, believed):
                checkpoint = hint.checkpoint
        if believed < 0:
            unread = self._read(list(range(AHEAD + 1)))
            first = unread[0]
            state = genesis(first) if first is not None and not first.buried else None
        elif believed - (checkpoint.slot if checkpoint else -1) <= 4 * CHECKPOINT_EVERY:
            state, unread, _ = self._replay(believed, checkpoint, ahead=2)
        else:
            state, unread = None, {}
        if state is None:
            head = max(self._ledger.head(self.line.branch, believed, self.line.start), self.line.start - 1)
            if head < 0:
                raise corrupt(f"log {self.line.branch}", "it has no slot")
            return self.at_slot(head)
        return self._follow(state, unread)

    def refresh(self, state: State) -> State:
        """The newest state, from a recent one. No news costs one request."""
        return self._follow(state, {})

    def confirm(self, state: State) -> None:
        """On a local disk, raise `LakeLost` unless the log that led to a state is still there. It costs no request."""
        if state.slot >= 0:
            self._ledger.confirm(self.line.owner(state.slot), state.slot, state.write)

    def at_slot(self, slot: int, index: int | None = None) -> State:
        """The state after slot `slot`, or after commit `slot`.`index`."""
        if slot < 0:
            raise self.no_commit(f"{slot}")
        [record] = self._ledger.read(self.line.owner(slot), [slot])
        if record is not None and record.buried:
            raise self.expired(f"{slot}.{index or 0}")
        if record is None or (index is not None and commit_at(record, index) is None):
            raise self.no_commit(f"{slot}.{index or 0}")
        limit = self.line.limit(slot)
        if index is not None and limit is not None and index > limit:
            raise self.no_commit(f"{slot}.{index}")
        return self._reach(record, limit if index is None else index)

    def _reach(self, record: Record, upto: int | None) -> State:
        """The state at a slot that is there, from the checkpoint that its record names or from another one.

        Cleanup leaves a checkpoint just before its floor, and just before every slot that it kept below it. So what
        cannot be reached otherwise starts at the last slot that was buried.
        """
        slot = record.slot
        near = record.checkpoint if self._plausible(record.checkpoint, slot - 1) else None
        state, _, buried = self._replay(slot, near, upto=upto, last=record)
        if state is None and buried is None and near is not None:
            [there] = self._ledger.read(near.branch, [near.slot])
            buried = there if there is not None and there.buried else None
            if buried is None:
                state, _, buried = self._replay(slot, self._existing(near), upto=upto)
        if state is None and buried is not None:
            state = self._reach_below_floor(slot, upto)
        if state is None:
            raise corrupt(f"log {self.line.branch}", f"slot {slot} exists but a slot before it is missing")
        return state

    def _reach_below_floor(self, slot: int, upto: int | None) -> State:
        """The state at a slot before which others are buried, or not yet: a cleanup may be at work, or have died."""
        for _ in range(2):  # what one look finds on its way may have been buried behind it
            state = self._try_below_floor(slot, upto)
            if state is not None:
                return state
        raise self.expired(f"{slot}.{upto or 0}")

    def _try_below_floor(self, slot: int, upto: int | None) -> State | None:
        last = self._last_buried(slot)
        before = [s.slot - 1 for s in reversed(self.line.inherited) if s.slot <= slot]
        wanted = [Point(branch=self.line.owner(k), slot=k) for k in (slot - 1, *before) if k >= 0]
        if last is not None:
            wanted = [Point(branch=self.line.owner(last.slot), slot=last.slot), *wanted]
            wanted += [last.checkpoint] if last.checkpoint is not None else []
        for base in dict.fromkeys(wanted):
            if self._plausible(base, slot - 1):
                state, _, _ = self._replay(slot, base, upto=upto)
                if state is not None:
                    return state
        return None

    def _last_buried(self, slot: int) -> Record | None:
        """The last slot before this one of which only a tombstone is left."""
        above, size = slot, AHEAD
        while above > 0:
            slots = list(range(max(0, above - size), above))
            for record in reversed(self.records(slots)):
                if record.buried:
                    return record
            above, size = slots[0], size * 4
        return None

    def _existing(self, near: Point | None) -> Point | None:
        """The newest checkpoint at or before one that was named; None when none is left."""
        while near is not None and self.checkpoints.read(near) is None:
            [record] = self._ledger.read(self.line.owner(near.slot), [near.slot])
            named = record.checkpoint if record is not None else None
            near = named if self._plausible(named, near.slot - 1) else None
        return near

    def at(self, point: Point) -> State:
        if not self.line.contains(point):
            raise self.no_commit(point.commit)
        return self.at_slot(point.slot, point.index)

    def at_time(self, head: State, when: datetime) -> State:
        """The state at the last commit whose record time is not after `when`.

        Where time went back, the records before had run ahead of the store's clock: they count as made before the one
        at which it did. A log that is ahead of our own clock still is told by the times that the store gave its slots.
        """
        if when >= head.time:
            return head
        now = clock.now()
        if head.time > now + AHEAD_OF_US:
            return self._at_store_time(head, when, now)
        return self._at_record_time(head, when)

    def _at_record_time(self, head: State, when: datetime) -> State:
        last = head.slot
        for slot, since in reversed(head.steps):
            if since <= when:
                return self._last_until(slot - 1, last, when, later=last == head.slot)
            last = slot - 1
        return self._last_until(-1, last, when, later=last == head.slot)

    def _last_until(self, low: int, last: int, when: datetime, *, later: bool) -> State:
        """The state at the last commit until `when` after slot `low`, up to `last`: among these, times only rise.

        The last one may be known to be `later`.
        """
        if not later and self.records([last])[0].time <= when:
            return self.at_slot(last)
        high = last
        after: Record | None = None
        while high - low > 1:
            step = max(1, (high - low) // 17)
            slots = list(range(low + step, high, step))[:17]
            for slot, record in zip(slots, self.records(slots), strict=True):
                if record.time <= when:
                    low = max(low, slot)
                else:
                    high, after = slot, record
                    break
        # The first commits of the group after it may be old enough.
        after = after or self.records([high])[0]
        index = sum(commit.time <= when for commit in after.commits) - 1
        if index >= 0 and len(after.commits) > 1:
            limit = self.line.limit(high)
            return self.at_slot(high, index if limit is None else min(index, limit))
        if low < 0:
            raise CommitNotFound(
                f"There is no commit at or before {when.isoformat()}.",
                next="Use a later time; `quire log` shows when each commit was made.",
                time=when.isoformat(),
            )
        return self.at_slot(low)

    def _at_store_time(self, head: State, when: datetime, now: datetime) -> State:
        """The same in a log whose newest records are ahead of us: of those, the times of the store count."""
        try:
            believed = self._at_record_time(head, now).slot
        except CommitNotFound:
            believed = -1
        written = self._ledger.written(self.line.branch)
        earliest = datetime.max.replace(tzinfo=UTC)
        for slot in range(head.slot, max(believed, self.line.start - 1), -1):
            earliest = min(earliest, written.get(slot, earliest))  # what came later was not written earlier
            if earliest <= when:
                return head if slot == head.slot else self.at_slot(slot)
        return self._at_record_time(head, when)

    def _replay(
        self,
        slot: int,
        checkpoint: Point | None,
        *,
        ahead: int = 0,
        upto: int | None = None,
        last: Record | None = None,
    ) -> tuple[State | None, dict[int, Record | None], Record | None]:
        """State after `slot` in one parallel round; None when that slot or one before it is missing or buried.

        The record of `slot` itself may be known as the `last`. Also returns what was read of the `ahead` slots after
        it, and the tombstone that was in the way.
        """
        first = checkpoint.slot + 1 if checkpoint else 0
        slots = list(range(first, slot + 1 + ahead))
        wanted = slots if last is None else [s for s in slots if s != slot]
        reads: list[Callable[[], object]] = [lambda: self.checkpoints.read(checkpoint), lambda: self._read(wanted)]
        base, found = run_parallel(reads)
        assert isinstance(found, dict)
        if last is not None:
            found[slot] = last
        for record in found.values():
            if record is not None and not record.buried:
                self._keep(self._passed, record)
        if checkpoint is not None and base is None:
            return None, {}, None
        state = base if isinstance(base, State) else None
        for number in range(first, slot + 1):
            record = found.get(number)
            if record is None or record.buried:
                return None, {}, record
            limit = upto if number == slot and upto is not None else self.line.limit(number)
            state = genesis(record) if state is None else self._fold(state, record, upto=limit)
            if number == self.line.start - 1:
                self.fork = state
        return state, {n: found[n] for n in slots if n > slot}, None

    def advance(self, state: State, known: dict[int, Record | None]) -> State:
        """The newest state, given what was found in the slots after `state`."""
        return self._follow(state, known)

    def _follow(self, state: State, known: dict[int, Record | None]) -> State:
        """Fold every record after `state`, reading ahead in growing batches; far behind, leap to a checkpoint."""
        batches = iter([size for size in (1, AHEAD, FAR, FAR) if size >= len(known)])
        while True:
            following = state.slot + 1
            if following not in known:
                ahead = next(batches, 0)
                if ahead == 0:
                    head = self._ledger.head(self.line.branch, state.slot, self.line.start)
                    if head - state.slot > 2 * CHECKPOINT_EVERY:
                        state = self.at_slot(head)
                        following = state.slot + 1
                    ahead = max(1, head - state.slot + 1)
                slots = list(range(following, following + ahead))
                known = dict(zip(slots, self._ledger.read(self.line.branch, slots), strict=True))
            record = known[following]
            if record is None:
                return state
            if record.buried:
                # This state is older than what cleanup kept: start again from the head, which it always keeps.
                state = self.at_slot(self._ledger.head(self.line.branch, record.slot, self.line.start))
                continue
            state = self._fold(state, record)
            self.remember(record)

    def _fold(self, state: State, record: Record, *, upto: int | None = None) -> State:
        if self._hear is not None:
            self._hear(record)
        return fold(state, record, upto=upto)

    def remember(self, record: Record) -> None:
        """Keep a record of this branch's own log, so that comparing with it costs nothing."""
        self._keep(self._recent, record)

    def _keep(self, known: OrderedDict[int, Record], record: Record) -> None:
        known[record.slot] = record
        while len(known) > RECENT:
            known.popitem(last=False)

    def between(self, after: int, upto: int, *, recent: bool = False) -> list[Record]:
        """Every record after slot `after` up to slot `upto`: what a transaction must be compared with.

        One that was cleaned up is returned as the tombstone that it is; with `recent`, maybe as what it was before.
        """
        slots = list(range(after + 1, upto + 1))
        known = {s: record for s in slots if (record := self._known(s, recent=recent)) is not None}
        missing = [s for s in slots if s not in known]
        if missing:
            known.update(zip(missing, self.records(missing), strict=True))
        return [known[s] for s in slots]

    def knows(self, after: int, upto: int) -> bool:
        """Whether `between` needs no request for what is `recent`."""
        return all(self._known(slot, recent=True) is not None for slot in range(after + 1, upto + 1))

    def _known(self, slot: int, *, recent: bool) -> Record | None:
        found = self._recent.get(slot)
        return found if found is not None or not recent else self._passed.get(slot)

    def _plausible(self, checkpoint: Point | None, before: int) -> bool:
        """Whether a named checkpoint can be one of this line at or before a slot.

        A fork inside a group has none at its slot.
        """
        if checkpoint is None or not 0 <= checkpoint.slot <= before:
            return False
        return self.line.owner(checkpoint.slot) == checkpoint.branch and self.line.limit(checkpoint.slot) is None

    def _read(self, slots: list[int]) -> dict[int, Record | None]:
        """Slots of the line, each from the log that owns it."""
        by_owner: dict[str, list[int]] = {}
        for slot in slots:
            by_owner.setdefault(self.line.owner(slot), []).append(slot)
        parts = run_parallel([lambda o=o, s=s: self._ledger.read(o, s) for o, s in by_owner.items()])  # type: ignore[misc]
        return {
            slot: record
            for slots_of, records in zip(by_owner.values(), parts, strict=True)
            for slot, record in zip(slots_of, records, strict=True)
        }

    # -- checkpoints ------------------------------------------------------------------------------------------

    def write_checkpoint(self, state: State) -> Point | None:
        """Store a state of this branch's own log; None for one that is its parent's or lies inside a group."""
        if state.branch != self.line.branch or state.partial:
            return None
        return self.checkpoints.write(state)

    # -- the log ----------------------------------------------------------------------------------------------

    def records(self, slots: list[int]) -> list[Record]:
        found = self._read(slots)
        for slot in slots:
            if found[slot] is None:
                raise corrupt(f"log {self.line.branch}", f"slot {slot} is missing")
        return [record for slot in slots if (record := found[slot]) is not None]

    def commit(self, point: Point, *, recent: bool = False) -> Commit:
        """One commit; `SnapshotExpired` when it was cleaned up, maybe just now.

        With `recent`, a record that was read before is not read again.
        """
        [record] = self.between(point.slot - 1, point.slot, recent=True) if recent else self.records([point.slot])
        if record.buried:
            raise self.expired(point.commit)
        found = commit_at(record, point.index)
        if found is None:
            raise self.no_commit(point.commit)
        return found

    def commits(
        self, head: State, *, after: int = -1, recent: bool = False
    ) -> Generator[tuple[Point, Commit], None, bool]:
        """Commits from the head backwards, newest first, down to and without slot `after`, or to where cleanup was.

        With `recent`, records that were read before are not read again, so that a cleanup since then is not noticed.
        Returns whether it came down to slot `after`.
        """
        newest, size = head.slot, 8
        while newest > after:
            known = 0
            while recent and newest - known > after and self._known(newest - known, recent=True) is not None:
                known += 1
            slots = list(range(newest, max(after, newest - (known or size)), -1))
            for record in reversed(self.between(slots[-1] - 1, newest, recent=True)) if recent else self.records(slots):
                if record.buried:
                    return False
                limit = self.line.limit(record.slot) if record.slot < self.line.start else None
                for index in reversed(range(len(record.commits))):
                    if limit is not None and index > limit:
                        continue
                    if record.slot == head.slot and index > head.head.index:
                        continue
                    yield Point(branch=record.branch, slot=record.slot, index=index), record.commits[index]
            newest, size = slots[-1] - 1, size if known else min(size * 4, 128)
        return True

    def no_commit(self, text: str) -> CommitNotFound:
        return CommitNotFound(
            f"There is no commit {text} on this branch.",
            next="`quire log` lists the commits of a branch.",
            commit=text,
        )

    def expired(self, text: str) -> SnapshotExpired:
        return SnapshotExpired(
            f"Commit {text} was cleaned up.",
            next="`quire log` lists the commits that are kept; a tag or a lease keeps one for longer.",
            commit=text,
        )
