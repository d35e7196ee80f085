"""A branch as this process knows it: its newest known state, and what happens to it off the critical path."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

from quire.errors import BranchClosed, BranchNotFound, ForeignWriter, QuireError
from quire.formats import Promotion
from quire.lake.background import Background
from quire.lake.core import Core
from quire.lake.turns import somebody_waits
from quire.ledger import CHECKPOINT_EVERY, MAIN, Hint, History, Line, Point, Record, State, fold, read_hint, write_hint
from quire.store import run_parallel

HINT_SECONDS = 1.0
BACKFILL_TRIES = 5


class LiveBranch:
    """One open branch. Threads share it; they publish one after the other."""

    def __init__(self, core: Core, name: str, line: Line, checkpoint: Point | None, hint: Hint | None) -> None:
        self.core = core
        self.name = name
        self.history = History(core.store, core.ledger, line, checkpoint)
        self.publishing = threading.RLock()
        self._lock = threading.Lock()
        self._state = self.history.open(hint)
        if self._state.closed:
            raise closed(name)
        self.epoch = self._state.epoch
        self.backfilled = hint.backfilled if hint and hint.branch == line.branch else 0
        self._promoted: dict[str, int] = {}
        """Counters that this process knows to have reached the plain HEAD, by table."""
        self._hinted = 0.0
        self._crowded_until = 0.0

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
        return time.monotonic() < self._crowded_until

    def met_others(self) -> None:
        self._crowded_until = time.monotonic() + HINT_SECONDS

    def refresh(self) -> State:
        """The newest state. No news costs one request."""
        return self._learn(self.history.refresh(self._state))

    def lost(self, winner: Record | None) -> State:
        """Learn what took the slot we wanted."""
        state = self._state
        if winner is None or winner.slot != state.slot + 1:
            return self.refresh()
        return self._learn(self.history.advance(state, winner))

    def won(self, seen: State, record: Record) -> State:
        """Take our own published record, which extends `seen`, into the state; a reader may have met it before us."""
        self.history.remember(record)
        return self._learn(fold(seen, record))

    def _learn(self, state: State) -> State:
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
            background.submit(("backfill", self.name), self.backfill_reporting)
        background.submit(
            ("hint", self.name), self.hint, delay=max(0.0, self._hinted + HINT_SECONDS - time.monotonic())
        )

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
        body = Hint(branch=self.line.branch, head=state.slot, checkpoint=state.checkpoint, backfilled=self.backfilled)
        write_hint(self.core.store, self.name, body)
        self._hinted = time.monotonic()
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

    def backfill(self, *, every: bool = False) -> list[Promotion]:
        """Bring the plain HEAD of tables to their published state: of those that may be behind, or of `every` one.

        Whoever loses a race to another backfill looks again: the winner may have promoted an older state.
        """
        for _ in range(BACKFILL_TRIES - 1):
            done = self._promote_all(every)
            if not any(p.outcome == "behind" for p in done):
                return done
            time.sleep(random.uniform(0, 0.05))
        return self._promote_all(every)

    def backfill_reporting(self) -> None:
        """Backfill in the background: what is left undone counts as a failure to be seen in `status`."""
        left = [p for p in self.backfill() if p.outcome in ("behind", "foreign", "blocked")]
        if left:
            raise ForeignWriter(
                "; ".join(f"table {p.table!r}: {p.detail or p.outcome}" for p in left) + ".",
                next="`quire backfill` tries again; `quire adopt` takes a foreign write in.",
            )

    def _promote_all(self, every: bool) -> list[Promotion]:
        state = self._state
        wanted = list(state.tables.values()) if every else [state.tables[i] for i in self.pending(state)]

        def one(index: int) -> Promotion:
            table = wanted[index]
            place = self.core.format(table.pin.format)
            try:
                return place.promote(table.pin, commit=table.commit.commit, table=table.info.name)
            except QuireError as error:
                return Promotion(table.info.name, "behind", 0, str(error))

        done = run_parallel([lambda i=i: one(i) for i in range(len(wanted))])  # type: ignore[misc]
        for table, promotion in zip(wanted, done, strict=True):
            if promotion.outcome in ("current", "promoted"):
                self._promoted[table.info.id] = max(table.pin.counter, self._promoted.get(table.info.id, 0))
        if all(p.outcome in ("current", "promoted") for p in done):
            self.backfilled = max(self.backfilled, state.slot)
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


def closed(name: str) -> BranchClosed:
    return BranchClosed(
        f"Branch {name!r} was deleted.", next="Create it again, or write to another branch.", branch=name
    )
