"""Fair turns among writers that keep losing to each other.

After a few losses a writer takes the branch's one *waiting* seat; others that meet contention see it and let it pass.
This is politeness, not a lock: nobody needs it for correctness, it is bounded in time, and an uncontended commit
never looks at it.
"""

from __future__ import annotations

import contextlib
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import msgspec

from quire.errors import QuireError
from quire.store import Store, clock

if TYPE_CHECKING:
    from quire.lake.branch.live import LiveBranch

PATIENCE = 10
"""Losses before a writer asks for its turn."""
SEAT_SECONDS = 3.0
"""How long a seat counts, so that a dead waiter holds nobody up."""
LET_PASS_SECONDS = 1.0
"""How long others stand back for one waiter."""


class Seat(msgspec.Struct, frozen=True):
    write: str
    time: Annotated[datetime, msgspec.Meta(tz=True)]


_seats = msgspec.json.Decoder(Seat)


class Turns:
    """One transaction's turns at a branch. The transactions of one handle share a seat: they can share a slot."""

    patience = PATIENCE

    def __init__(self, live: LiveBranch, write: str) -> None:
        self._live = live
        self._store = live.core.store
        self._key = seat_key(live.line.branch)
        self._write = write
        self._seated = False
        self.losses = 0

    def lost(self, others: int) -> None:
        self.losses += 1
        self._live.met_others()

    def wait(self, deadline: float | None) -> None:
        """Before a new attempt: let a writer that has waited longer go first, and back off a little."""
        if self.losses == 0 and not self._live.crowded:
            return
        with contextlib.suppress(QuireError):
            # Whoever has lost looked at the seat with the winner's record.
            holder = self._holder()
            if self.losses >= self.patience:
                self._seated = self._sit(holder)
            if not self._seated:
                self._let_pass(holder, deadline)
        if self.losses > 1 and not self._seated:
            _sleep(clock.uniform(0, min(0.002 * 2 ** min(self.losses, 6), 0.1)), deadline)

    def _holder(self) -> Seat | None:
        return self._live.waiter if self.losses else self._live.look_at_seat()

    def ended(self, error: Exception, *, tired: bool = False) -> Exception:
        """What an error means: nobody else carries this commit, so what it says."""
        return error

    def interrupted(self) -> None:
        """Nothing of it is left to be committed."""

    def close(self) -> None:
        if self._seated:
            with contextlib.suppress(QuireError):
                holder = holder_of(self._store, self._key)
                if holder is not None and holder.write == self._write:
                    self._store.delete(self._key)

    def _sit(self, holder: Seat | None) -> bool:
        """Take the seat, or renew it: a waiter that is alive keeps it until it has won."""
        if self._is_taken(holder):
            return False
        self._store.put(self._key, msgspec.json.encode(Seat(self._write, clock.now())))
        return True

    def _let_pass(self, holder: Seat | None, deadline: float | None) -> None:
        until = clock.monotonic() + LET_PASS_SECONDS
        while self._is_taken(holder):
            if clock.monotonic() >= until or (deadline is not None and clock.monotonic() >= deadline):
                return
            clock.sleep(clock.uniform(0.005, 0.02))
            holder = self._live.look_at_seat()

    def _is_taken(self, holder: Seat | None) -> bool:
        return holder is not None and holder.write != self._write and _age(holder) < SEAT_SECONDS


class MergeTurns(Turns):
    """The turns of a merge, which is planned again after every loss: it asks for its turn after the first one.

    Nobody can take it along as an offer, so it is faster or it waits for ever, and whoever has lost is the slower one.
    """

    patience = 1

    def _holder(self) -> Seat | None:
        return self._live.look_at_seat()


def seat_key(branch: str) -> str:
    return f"_quire/log/{branch}/waiting"


def call(store: Store, branch: str, write: str) -> None:
    """Take the seat without asking who has it: somebody's commit waits to be taken along."""
    store.put(seat_key(branch), msgspec.json.encode(Seat(write, clock.now())))


def holder_of(store: Store, key: str) -> Seat | None:
    body = store.get_or_none(key)
    try:
        return _seats.decode(body) if body else None
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def somebody_waits(store: Store, branch: str) -> bool:
    """Whether a writer asks for its turn now. A writer that never loses learns it here, off the critical path."""
    holder = holder_of(store, seat_key(branch))
    return holder is not None and _age(holder) < SEAT_SECONDS


def _age(seat: Seat) -> float:
    return abs((clock.now() - seat.time).total_seconds())


def _sleep(seconds: float, deadline: float | None) -> None:
    left = seconds if deadline is None else min(seconds, max(0.0, deadline - clock.monotonic()))
    clock.sleep(left)
