"""States of a branch, read from a ledger: cold open, refresh, time travel, the log.

A state is reached from the nearest checkpoint by folding the records after it. Everything that can be read in
parallel is, so that a cold open is bounded at any depth.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from datetime import datetime
from urllib.parse import quote

import msgspec

from quire.errors import CommitNotFound, FormatError, SnapshotExpired, StorageError
from quire.ledger.protocol import Ledger
from quire.ledger.records import Commit, Hint, Point, Record, corrupt, decode, encode
from quire.ledger.refs import Line
from quire.ledger.state import State, commit_at, fold, genesis
from quire.store import Outcome, Store, run_parallel

CHECKPOINT_EVERY = 32
RECENT = 512
AHEAD = 8
"""How many slots beyond a known one are read at once when there is news."""
FAR = 32
"""The same, twice, when there is still more news. Beyond that the head is searched for."""


class History:
    """One branch's line of records."""

    def __init__(self, store: Store, ledger: Ledger, line: Line, checkpoint: Point | None = None) -> None:
        self._store = store
        self._ledger = ledger
        self.line = line
        self._start_checkpoint = checkpoint
        self._recent: OrderedDict[int, Record] = OrderedDict()

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
            return self.at_slot(head)
        return self._follow(state, unread)

    def refresh(self, state: State) -> State:
        """The newest state, from a recent one. No news costs one request."""
        return self._follow(state, {})

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
        while near is not None and self._checkpoint(near) is None:
            [record] = self._ledger.read(self.line.owner(near.slot), [near.slot])
            named = record.checkpoint if record is not None else None
            near = named if self._plausible(named, near.slot - 1) else None
        return near

    def at(self, point: Point) -> State:
        if not self.line.contains(point):
            raise self.no_commit(point.commit)
        return self.at_slot(point.slot, point.index)

    def at_time(self, head: State, when: datetime) -> State:
        """The state at the last commit whose record time is not after `when`."""
        if when >= head.time:
            return head
        low, high = -1, head.slot
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
        reads: list[Callable[[], object]] = [lambda: self._checkpoint(checkpoint), lambda: self._read(wanted)]
        base, found = run_parallel(reads)
        assert isinstance(found, dict)
        if last is not None:
            found[slot] = last
        if checkpoint is not None and base is None:
            return None, {}, None
        state = base if isinstance(base, State) else None
        for number in range(first, slot + 1):
            record = found.get(number)
            if record is None or record.buried:
                return None, {}, record
            limit = upto if number == slot and upto is not None else self.line.limit(number)
            state = genesis(record) if state is None else fold(state, record, upto=limit)
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
            state = fold(state, record)
            self.remember(record)

    def remember(self, record: Record) -> None:
        """Keep a record of this branch's own log, so that comparing with it costs nothing."""
        self._recent[record.slot] = record
        while len(self._recent) > RECENT:
            self._recent.popitem(last=False)

    def between(self, after: int, upto: int) -> list[Record]:
        """Every record after slot `after` up to slot `upto`: what a transaction must be compared with.

        One that was cleaned up is returned as the tombstone that it is.
        """
        slots = list(range(after + 1, upto + 1))
        known = {s: record for s in slots if (record := self._recent.get(s)) is not None}
        missing = [s for s in slots if s not in known]
        if missing:
            known.update(zip(missing, self.records(missing), strict=True))
        return [known[s] for s in slots]

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

    # -- checkpoints and hints --------------------------------------------------------------------------------

    def behind(self, state: State) -> int:
        """How many slots lie after the newest checkpoint."""
        return state.slot - (state.checkpoint.slot if state.checkpoint else -1)

    def write_checkpoint(self, state: State) -> Point | None:
        """Store a state of this branch's own log; None for one that is its parent's or lies inside a group.

        Its bytes follow from its slot alone, so it does not matter who writes it or how often.
        """
        if state.branch != self.line.branch or state.partial:
            return None
        at = Point(branch=state.branch, slot=state.slot)
        body = encode(msgspec.structs.replace(state, checkpoint=None))
        created = self._store.create(checkpoint_key(at), body, mine=lambda found: found == body)
        if created.outcome is Outcome.UNKNOWN:
            raise StorageError(
                f"The store did not say whether {checkpoint_key(at)} was written.",
                next="Nothing depends on it; the next commit tries again.",
                object=checkpoint_key(at),
            )
        return at

    def _checkpoint(self, at: Point | None) -> State | None:
        if at is None:
            return None
        key = checkpoint_key(at)
        body = self._store.get_or_none(key)
        if body is None:
            return None
        state = decode(body, State, key).checked(key)
        if state.slot != at.slot or state.branch != at.branch:
            raise corrupt(key, f"it says it is the state at slot {state.slot} of log {state.branch}")
        return msgspec.structs.replace(state, checkpoint=at)

    # -- the log ----------------------------------------------------------------------------------------------

    def records(self, slots: list[int]) -> list[Record]:
        found = self._read(slots)
        for slot in slots:
            if found[slot] is None:
                raise corrupt(f"log {self.line.branch}", f"slot {slot} is missing")
        return [record for slot in slots if (record := found[slot]) is not None]

    def commit(self, point: Point) -> Commit:
        """One commit; `SnapshotExpired` when it was cleaned up, maybe just now."""
        [record] = self.records([point.slot])
        if record.buried:
            raise self.expired(point.commit)
        found = commit_at(record, point.index)
        if found is None:
            raise self.no_commit(point.commit)
        return found

    def commits(self, head: State, *, after: int = -1) -> Iterator[tuple[Point, Commit]]:
        """Commits from the head backwards, newest first, down to and without slot `after`, or to where cleanup was."""
        newest, size = head.slot, 8
        while newest > after:
            slots = list(range(newest, max(after, newest - size), -1))
            for record in self.records(slots):
                if record.buried:
                    return
                limit = self.line.limit(record.slot) if record.slot < self.line.start else None
                for index in reversed(range(len(record.commits))):
                    if limit is not None and index > limit:
                        continue
                    if record.slot == head.slot and index > head.head.index:
                        continue
                    yield Point(branch=record.branch, slot=record.slot, index=index), record.commits[index]
            newest, size = slots[-1] - 1, min(size * 4, 128)

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


def read_hint(store: Store, name: str) -> Hint | None:
    return parse_hint(store.get_or_none(hint_key(name)), name)


def parse_hint(body: bytes | None, name: str) -> Hint | None:
    """A hint may lie or be garbage: anything unreadable counts as no hint."""
    if body is None:
        return None
    try:
        return decode(body, Hint, hint_key(name))
    except FormatError:
        return None


def write_hint(store: Store, name: str, hint: Hint) -> None:
    store.put(hint_key(name), encode(hint))


def hint_key(name: str) -> str:
    return f"_quire/hint-{quote(name, safe='')}.json"


def checkpoint_key(at: Point) -> str:
    return f"_quire/log/{at.branch}/checkpoint-{at.slot:020d}"
