"""A branch as this process knows it: its newest known state, and what happens to it off the critical path."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import msgspec

from quire.errors import BranchNotFound, CorruptRecord, ForeignWriter, QuireError, Refused
from quire.formats import Promotion
from quire.lake.commit.fairness import Seat, holder_of, seat_key, somebody_waits
from quire.lake.context import Core
from quire.lake.lake_identity import told
from quire.lake.names import closed
from quire.lake.publish.group import Group
from quire.lake.publish.offered import Offers
from quire.lake.upkeep.background import Background
from quire.ledger import (
    CHECKPOINT_EVERY,
    FORMAT,
    MAIN,
    Hint,
    History,
    Line,
    Pin,
    Point,
    Record,
    Ref,
    State,
    TableState,
    new_id,
    read_hint,
    write_hint,
)
from quire.progress import Count, Progress, silent
from quire.store import clock, run_parallel

HINT_SECONDS = 1.0
BACKFILL_SECONDS = 1.0
"""Commits that follow one another faster than this share a backfill."""
BACKFILL_PAUSES, LONGEST_PAUSE = 2.0, 10.0
"""After a backfill there is a pause of so many times its length, and of so many seconds at most: it is to leave the
machine to those who commit."""
BACKFILL_TRIES = 5
AHEAD = 4
"""Slots that are read when one was lost to a crowd: it may have gone on."""
AT_ONCE = 64
"""Tables that are backfilled side by side."""
ASIDE = 8
"""The same in the background, where the threads belong to those who wait for a commit."""


class LiveBranch:
    """One open branch. Threads share it; they publish one after the other."""

    def __init__(
        self,
        core: Core,
        name: str,
        line: Line,
        checkpoint: Point | None,
        hint: Hint | None,
        state: State | None = None,
    ) -> None:
        self.core = core
        self.name = name
        self.history = History(core.store, core.ledger, line, checkpoint, core.hear)
        self.publishing = clock.rlock()
        self.group = Group(self)
        self.offers = Offers(self)
        self.seat = new_id()
        """Under which the transactions of this handle wait for their turn, when others are faster again and again."""
        self._lock = clock.lock()
        self._state = state or self.history.open(hint)
        if self._state.closed:
            raise closed(name)
        core.known.learn(name, self.history, self._state)
        self.epoch = core.epochs.of(line.branch, self._state.epoch)
        """The epoch in which this handle was opened, or has claimed the branch."""
        self.claims: set[int] = set()
        """Epochs of its own claims: they end nothing that it has begun itself."""
        self.backfilled = self._believed(hint)
        """Up to this slot plain HEADs have followed."""
        self._promoted: dict[str, int] = {}
        """Counters that this process knows to have reached the plain HEAD, by table."""
        self._fresh: dict[str, Pin] = {}
        """States that were just published here, by location."""
        self.stuck: set[str] = set()
        """Tables that cannot be backfilled until somebody looks at them: a plain writer was there, or it is blocked."""
        self.heard = clock.monotonic()
        """When the store was last asked for news."""
        self.looked = self.told_slow = float("-inf")
        self._hinted = 0.0
        self._backfill_due = float("-inf")
        self._crowded_until = 0.0
        self._further: dict[int, Record | None] = {}
        self.waiter: Seat | None = None
        """Who waited for its turn when somebody last looked."""
        self.others = 1
        """Commits in the slot that was lost last."""

    @property
    def line(self) -> Line:
        return self.history.line

    @property
    def state(self) -> State:
        return self._state

    @property
    def is_main(self) -> bool:
        return self.name == MAIN

    @property
    def crowded(self) -> bool:
        """Whether others were seen to compete lately: then even a writer that wins lets a starving one pass."""
        return clock.monotonic() < self._crowded_until

    @property
    def has_company(self) -> bool:
        """Whether others compete, as far as is known: then a writer looks at whose turn it is before it tries."""
        return clock.monotonic() < max(self._crowded_until, self.offers._until)

    def claimed(self, epoch: int) -> None:
        """This handle has claimed the branch."""
        self.claims.add(epoch)
        self.hold(epoch)

    def hold(self, epoch: int) -> None:
        """Count as opened in this epoch."""
        self.core.epochs.hold(self.line.branch, epoch)
        self.epoch = epoch

    def met_others(self) -> None:
        self._crowded_until = clock.monotonic() + HINT_SECONDS

    def refresh(self) -> State:
        """The newest state. No news costs one request."""
        seen = self._state
        try:
            found = self.history.refresh(seen)
            if found.slot == seen.slot:
                self.history.confirm(seen)  # no news, or no lake
        except CorruptRecord as error:
            raise told(self.core, self.line, seen, error) from None
        return self._learn(found)

    def look_at_hint(self) -> None:
        """Learn how far others have backfilled."""
        hint = read_hint(self.core.store, self.name)
        if hint is not None and hint.head > self._state.slot:
            self.refresh()
        self.backfilled = max(self.backfilled, self._believed(hint))

    def _believed(self, hint: Hint | None) -> int:
        """How far a hint says that plain HEADs have followed. One that knows of slots that are not there is of another
        time, as in a lake that was restored from a copy, and is not believed at all.
        """
        if hint is None or hint.branch != self.line.branch or max(hint.head, hint.backfilled) > self._state.slot:
            return 0
        return hint.backfilled

    def look_further(self, slot: int) -> None:
        """See who waits for its turn, and where others were met lately, what comes after a slot that one of them took.

        Where nobody was, the next slot is most likely free, and whoever tries it finds out.
        """
        if not self.crowded:
            if not self.offers.on:
                self.look_at_seat()
            self._further = {slot + 1: None}
            return
        slots = [slot + n for n in range(1, AHEAD)]
        reads: list[Callable[[], Any]] = [partial(self.core.ledger.read, self.line.branch, slots)]
        if not self.offers.on:
            reads.append(self.look_at_seat)
        found = run_parallel(reads)[0]
        self._further = dict(zip(slots, found, strict=True))

    def lost(self, winner: Record | None) -> State:
        """Learn what took the slot we wanted."""
        state, known = self._state, self._further
        self._further = {}
        self.others = max(1, len(winner.commits)) if winner is not None else 1
        if winner is None or winner.slot != state.slot + 1:
            return self.refresh()
        if winner.slot + 1 not in known:
            self.look_further(winner.slot)
            known, self._further = self._further, {}
        try:
            return self._learn(self.history.advance(state, {winner.slot: winner, **known}))
        except CorruptRecord as error:
            raise told(self.core, self.line, state, error) from None

    def look_at_seat(self) -> Seat | None:
        """Who waits for its turn at this branch."""
        with contextlib.suppress(QuireError):
            self.waiter = holder_of(self.core.store, seat_key(self.line.branch))
        return self.waiter

    def won(self, record: Record, after: State) -> State:
        """Take our own published record, and the state after it, in; a reader may have met it before us."""
        self.history.remember(record)
        return self._learn(after)

    def _learn(self, state: State) -> State:
        self.heard = clock.monotonic()
        with self._lock:
            if state.slot > self._state.slot:
                known = self._state.checkpoint
                if known and (state.checkpoint is None or known.slot > state.checkpoint.slot):
                    state = msgspec.structs.replace(state, checkpoint=known)
                self._state = state
            found = self._state
        self.core.known.learn(self.name, self.history, found)
        return found

    # -- off the critical path --------------------------------------------------------------------------------

    def tend(self, background: Background, slot: int, *, backfill: bool, mine: bool = True) -> None:
        """Queue what follows the publish of `slot`: checkpoint, backfill, hint. Each is idempotent and may be skipped.

        One writer in `CHECKPOINT_EVERY` sees to the checkpoint; if it dies, the others do so a little later. Where
        another process has written the slot, it is not `mine` to do.
        """
        if (mine and slot % CHECKPOINT_EVERY == 0) or self._state.behind >= 2 * CHECKPOINT_EVERY:
            background.submit(("checkpoint", self.name), lambda: self.checkpoint(force=True))
        if backfill and self.is_main:
            delay = max(0.0, self._backfill_due - clock.monotonic())
            background.submit(("backfill", self.name), self.backfill_reporting, delay=delay)
        if self._fresh:
            background.submit(("prepare", self.name), self._prepare)
        background.submit(
            ("hint", self.name), self.hint, delay=max(0.0, self._hinted + HINT_SECONDS - clock.monotonic())
        )

    def published(self, pins: Iterable[Pin]) -> None:
        """Note states of tables that this process may write to next."""
        with self._lock:
            self._fresh.update((pin.location, pin) for pin in pins)

    def _prepare(self) -> None:
        with self._lock:
            pins, self._fresh = list(self._fresh.values()), {}
        run_parallel([partial(self.core.format(pin.format).prepare, pin) for pin in pins])

    def checkpoint(self, *, force: bool = False) -> None:
        state = self._merged(self._state)
        if not force and state.behind < CHECKPOINT_EVERY:
            return
        at = self.history.write_checkpoint(state)
        if at is None:
            return
        with self._lock:
            if self._state.checkpoint is None or self._state.checkpoint.slot < at.slot:
                self._state = msgspec.structs.replace(self._state, checkpoint=at)
            written = state.fresh
            if written and self._state.fresh:
                left = {name: page for name, page in self._state.fresh.items() if name not in written}
                self._state = msgspec.structs.replace(self._state, fresh=left)

    def _merged(self, state: State) -> State:
        """The state with pages of streams merged, when there are many."""
        old = state.stream_pages
        pages = self.history.pages.merged(old, state.fresh)
        if pages == old:
            return state
        with self._lock:
            more = tuple(ref for ref in self._state.stream_pages if ref not in old)
            self._state = msgspec.structs.replace(self._state, stream_pages=(*pages, *more))
        return msgspec.structs.replace(state, stream_pages=pages)

    def hint(self) -> None:
        state = self._state
        body = Hint(
            branch=self.line.branch,
            head=state.slot,
            format=FORMAT,
            checkpoint=state.checkpoint,
            backfilled=self.backfilled,
        )
        write_hint(self.core.store, self.name, body)
        self._hinted = clock.monotonic()
        if somebody_waits(self.core.store, self.line.branch):
            self.met_others()
            self.offers.met(1)

    def pending(self, state: State | None = None) -> list[str]:
        """Ids of tables whose plain HEAD may be behind. What is in memory has no plain readers."""
        if self.core.store.scheme == "memory":
            return []
        return [
            t.info.id
            for t in (state or self._state).tables.values()
            if t.commit.slot > self.backfilled and self._promoted.get(t.info.id, 0) < t.pin.counter
        ]

    def backfill(self, *, every: bool = False, progress: Progress = silent, at_once: int = AT_ONCE) -> list[Promotion]:
        """Bring the plain HEAD of tables to their published state: of those that may be behind, or of `every` one.

        Whoever loses a race to another backfill looks again: the winner may have promoted an older state.
        """
        for _ in range(BACKFILL_TRIES - 1):
            seen = self._state
            done = self._promote_all(every, progress, at_once)
            # What looks foreign may be of a client that has committed it through the lake since.
            news = any(p.outcome == "foreign" for p in done) and self.refresh().slot > seen.slot
            if not news and not any(p.outcome == "behind" for p in done):
                return done
            clock.sleep(clock.uniform(0, 0.05))
        return self._promote_all(every, progress, at_once)

    def followed(self, table: str, counter: int) -> None:
        """Know that a table's plain HEAD has reached a state: nobody needs to bring it there any more."""
        self._promoted[table] = max(counter, self._promoted.get(table, 0))
        self.stuck.discard(table)

    def backfill_all(self) -> list[Promotion]:
        """Backfill every table of the newest state, and say in the hint how far that is."""
        if not self.is_main or self.core.store.scheme == "memory":
            return []
        self.refresh()
        done = self.backfill(every=True)
        self.hint()
        return done

    def unbackfilled(self, table: str) -> int:
        """How many versions a table's plain HEAD may be behind; 0 when a plain writer keeps it from following."""
        found = self._state.tables.get(table)
        if found is None or table in self.stuck or not self.is_main or self.core.store.scheme == "memory":
            return 0
        if found.commit.slot <= self.backfilled:
            return 0
        known = self._promoted.get(table, 0)
        return max(0, min(found.pin.counter - known, self._state.slot - self.backfilled))  # at most

    def may_lag(self, tables: Iterable[str]) -> bool:
        """Whether upkeep of one of these tables, or of the branch, may lag behind: `back_pressure` looks closer."""
        bounds, state = self.core.bounds, self._state
        if state.behind > bounds.uncheckpointed:
            return True
        for table in tables:
            found = state.tables.get(table)
            if found is not None and found.pin.fragments > bounds.small_fragments:
                return True
            if self.unbackfilled(table) > bounds.unbackfilled:
                return True
        return False

    def backfill_reporting(self) -> None:
        """Backfill in the background: what is left undone counts as a failure to be seen in `status`."""
        began = clock.monotonic()
        self._backfill_due = began + BACKFILL_SECONDS
        left = [p for p in self.backfill(at_once=ASIDE) if p.outcome in ("behind", "foreign", "blocked")]
        now = clock.monotonic()
        self._backfill_due = max(self._backfill_due, now + min(LONGEST_PAUSE, BACKFILL_PAUSES * (now - began)))
        if left:
            raise ForeignWriter(
                "; ".join(f"table {p.table!r}: {p.detail or p.outcome}" for p in left) + ".",
                next="`quire backfill` tries again; `quire adopt` commits a foreign write.",
            )

    def _promote_all(self, every: bool, progress: Progress, at_once: int) -> list[Promotion]:
        state = self._state
        wanted = list(state.tables.values()) if every else [state.tables[i] for i in self.pending(state)]

        def one(table: TableState) -> Promotion:
            promotion = attempt(table)
            count.add()
            return promotion

        def attempt(table: TableState) -> Promotion:
            place = self.core.format(table.pin.format)
            try:
                self.core.owners.writable(table.pin, table.info)
                return place.promote(table.pin, commit=table.commit.commit, table=table.info.name)
            except (Refused, CorruptRecord) as error:
                return Promotion(table.info.name, "blocked", 0, str(error))
            except QuireError as error:
                return Promotion(table.info.name, "behind", 0, str(error))

        progress("backfill", 0, len(wanted))
        count = Count(progress, "backfill", len(wanted))
        done: list[Promotion] = []
        for low in range(0, len(wanted), at_once):
            done += run_parallel([partial(one, table) for table in wanted[low : low + at_once]])
        for table, promotion in zip(wanted, done, strict=True):
            if promotion.outcome in ("current", "promoted"):
                self._promoted[table.info.id] = max(table.pin.counter, self._promoted.get(table.info.id, 0))
                self.stuck.discard(table.info.id)
            elif promotion.outcome != "behind":
                self.stuck.add(table.info.id)
        if all(p.outcome in ("current", "promoted") for p in done):
            self.backfilled = max(self.backfilled, state.slot)
        return done


def open_branch(core: Core, name: str) -> LiveBranch:
    """Open a branch by name: main is named by the lake itself, others by their ref."""
    core.see_branch(name)
    core = core.base  # what a branch holds is narrowed where it is read
    if name == MAIN:
        return LiveBranch(core, name, Line(branch=core.about.main), None, core.main_hint())
    ref, hint = looked_up(core, name)
    if ref is None or ref.kind == "gone" or ref.line is None:
        raise no_branch(name)
    return LiveBranch(core, name, ref.line, ref.checkpoint, hint)


def looked_up(core: Core, name: str) -> tuple[Ref | None, Hint | None]:
    """What the store has of a branch by its name."""
    reads: list[Callable[[], Any]] = [lambda: core.refs.get("branch", name), lambda: read_hint(core.store, name)]
    (ref, _), hint = run_parallel(reads)
    return ref, hint


def no_branch(name: str) -> BranchNotFound:
    return BranchNotFound(f"There is no branch {name!r}.", next="`quire branch list` shows the branches.", branch=name)
