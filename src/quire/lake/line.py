"""A branch as this process knows it: its newest known state, and what happens to it off the critical path."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import msgspec

from quire.errors import BranchNotFound, ForeignWriter, QuireError
from quire.formats import Promotion
from quire.lake.background import Background
from quire.lake.core import Core
from quire.lake.group import Group
from quire.lake.names import closed
from quire.lake.turns import Seat, holder_of, seat_key, somebody_waits
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
    State,
    fold,
    new_id,
    read_hint,
    write_hint,
)
from quire.store import clock, run_parallel

HINT_SECONDS = 1.0
BACKFILL_SECONDS = 1.0
"""Commits that follow one another faster than this share a backfill."""
BACKFILL_TRIES = 5
AHEAD = 4
"""Slots that are read when one was lost: others may have gone on."""
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
        self.history = History(core.store, core.ledger, line, checkpoint)
        self.publishing = clock.rlock()
        self.group = Group(self)
        self.seat = new_id()
        """Under which the transactions of this handle wait for their turn, when others are faster again and again."""
        self._lock = clock.lock()
        self._state = state or self.history.open(hint)
        if self._state.closed:
            raise closed(name)
        self.epoch = self._state.epoch
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
        self._backfill_began = float("-inf")
        self._crowded_until = 0.0
        self._further: dict[int, Record | None] = {}
        self.waiter: Seat | None = None
        """Who waited for its turn when somebody last looked."""

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

    def met_others(self) -> None:
        self._crowded_until = clock.monotonic() + HINT_SECONDS

    def refresh(self) -> State:
        """The newest state. No news costs one request."""
        return self._learn(self.history.refresh(self._state))

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
        """Read what comes after a slot that somebody else has taken, and who waits for its turn."""
        slots = [slot + n for n in range(1, AHEAD)]
        reads: list[Callable[[], Any]] = [partial(self.core.ledger.read, self.line.branch, slots), self.look_at_seat]
        found, _ = run_parallel(reads)
        self._further = dict(zip(slots, found, strict=True))

    def lost(self, winner: Record | None) -> State:
        """Learn what took the slot we wanted."""
        state, known = self._state, self._further
        self._further = {}
        if winner is None or winner.slot != state.slot + 1:
            return self.refresh()
        if winner.slot + 1 not in known:
            self.look_further(winner.slot)
            known, self._further = self._further, {}
        return self._learn(self.history.advance(state, {winner.slot: winner, **known}))

    def look_at_seat(self) -> Seat | None:
        """Who waits for its turn at this branch."""
        with contextlib.suppress(QuireError):
            self.waiter = holder_of(self.core.store, seat_key(self.line.branch))
        return self.waiter

    def won(self, seen: State, record: Record) -> State:
        """Take our own published record, which extends `seen`, into the state; a reader may have met it before us."""
        self.history.remember(record)
        return self._learn(fold(seen, record))

    def _learn(self, state: State) -> State:
        self.heard = clock.monotonic()
        with self._lock:
            if state.slot > self._state.slot:
                known = self._state.checkpoint
                if known and (state.checkpoint is None or known.slot > state.checkpoint.slot):
                    state = msgspec.structs.replace(state, checkpoint=known)
                self._state = state
            return self._state

    # -- off the critical path --------------------------------------------------------------------------------

    def tend(self, background: Background, slot: int, *, backfill: bool) -> None:
        """Queue what follows the publish of `slot`: checkpoint, backfill, hint. Each is idempotent and may be skipped.

        One writer in `CHECKPOINT_EVERY` sees to the checkpoint; if it dies, the others do so a little later.
        """
        if slot % CHECKPOINT_EVERY == 0 or self.history.behind(self._state) >= 2 * CHECKPOINT_EVERY:
            background.submit(("checkpoint", self.name), lambda: self.checkpoint(force=True))
        if backfill and self.is_main:
            due = self._backfill_began + BACKFILL_SECONDS
            background.submit(("backfill", self.name), self.backfill_reporting, delay=max(0.0, due - clock.monotonic()))
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
        state = self._state
        if not force and self.history.behind(state) < CHECKPOINT_EVERY:
            return
        at = self.history.write_checkpoint(state)
        if at is None:
            return
        with self._lock:
            if self._state.checkpoint is None or self._state.checkpoint.slot < at.slot:
                self._state = msgspec.structs.replace(self._state, checkpoint=at)

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

    def pending(self, state: State | None = None) -> list[str]:
        """Ids of tables whose plain HEAD may be behind. What is in memory has no plain readers."""
        if self.core.store.scheme == "memory":
            return []
        return [
            t.info.id
            for t in (state or self._state).tables.values()
            if t.commit.slot > self.backfilled and self._promoted.get(t.info.id, 0) < t.pin.counter
        ]

    def backfill(
        self, *, every: bool = False, progress: Callable[[int, int], None] | None = None, at_once: int = AT_ONCE
    ) -> list[Promotion]:
        """Bring the plain HEAD of tables to their published state: of those that may be behind, or of `every` one.

        Whoever loses a race to another backfill looks again: the winner may have promoted an older state.
        """
        for _ in range(BACKFILL_TRIES - 1):
            done = self._promote_all(every, progress, at_once)
            if not any(p.outcome == "behind" for p in done):
                return done
            clock.sleep(clock.uniform(0, 0.05))
        return self._promote_all(every, progress, at_once)

    def unbackfilled(self, table: str) -> int:
        """How many versions a table's plain HEAD may be behind; 0 when a plain writer keeps it from following."""
        found = self._state.tables.get(table)
        if found is None or table in self.stuck or not self.is_main or self.core.store.scheme == "memory":
            return 0
        if found.commit.slot <= self.backfilled:
            return 0
        known = self._promoted.get(table, 0)
        return max(0, min(found.pin.counter - known, self._state.slot - self.backfilled))  # at most

    def backfill_reporting(self) -> None:
        """Backfill in the background: what is left undone counts as a failure to be seen in `status`."""
        self._backfill_began = clock.monotonic()
        left = [p for p in self.backfill(at_once=ASIDE) if p.outcome in ("behind", "foreign", "blocked")]
        if left:
            raise ForeignWriter(
                "; ".join(f"table {p.table!r}: {p.detail or p.outcome}" for p in left) + ".",
                next="`quire backfill` tries again; `quire adopt` takes a foreign write in.",
            )

    def _promote_all(self, every: bool, progress: Callable[[int, int], None] | None, at_once: int) -> list[Promotion]:
        state = self._state
        wanted = list(state.tables.values()) if every else [state.tables[i] for i in self.pending(state)]

        def one(index: int) -> Promotion:
            table = wanted[index]
            place = self.core.format(table.pin.format)
            try:
                return place.promote(table.pin, commit=table.commit.commit, table=table.info.name)
            except QuireError as error:
                return Promotion(table.info.name, "behind", 0, str(error))

        tell = _Counted(progress, len(wanted))
        done: list[Promotion] = []
        for low in range(0, len(wanted), at_once):
            part = range(low, min(low + at_once, len(wanted)))
            done += run_parallel([lambda i=i: tell.after(one(i)) for i in part])  # type: ignore[misc]
        for table, promotion in zip(wanted, done, strict=True):
            if promotion.outcome in ("current", "promoted"):
                self._promoted[table.info.id] = max(table.pin.counter, self._promoted.get(table.info.id, 0))
                self.stuck.discard(table.info.id)
            elif promotion.outcome != "behind":
                self.stuck.add(table.info.id)
        if all(p.outcome in ("current", "promoted") for p in done):
            self.backfilled = max(self.backfilled, state.slot)
        return done


class _Counted:
    """Tells how many of a known number are done, from whatever thread."""

    def __init__(self, progress: Callable[[int, int], None] | None, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0
        self._lock = clock.lock()
        if progress is not None:
            progress(0, total)

    def after(self, done: Promotion) -> Promotion:
        if self._progress is not None:
            with self._lock:
                self._done += 1
                self._progress(self._done, self._total)
        return done


def open_branch(core: Core, name: str) -> LiveBranch:
    """Open a branch by name: main is named by the lake itself, others by their ref."""
    if name == MAIN:
        return LiveBranch(core, name, Line(branch=core.about.main), None, core.main_hint())
    reads: list[Callable[[], Any]] = [lambda: core.refs.get("branch", name), lambda: read_hint(core.store, name)]
    (ref, _), hint = run_parallel(reads)
    if ref is None or ref.kind == "gone" or ref.line is None:
        raise no_branch(name)
    return LiveBranch(core, name, ref.line, ref.checkpoint, hint)


def no_branch(name: str) -> BranchNotFound:
    return BranchNotFound(f"There is no branch {name!r}.", next="`quire branch list` shows the branches.", branch=name)
