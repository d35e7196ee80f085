"""The time of a record: the clock of its writer, held against that of the store.

Times only rise along a log, so a record made by a clock that runs a year ahead would drag everybody along: all later
ones would be a moment after it, and `at(time=now)` would find none of them. So

- a writer whose clock runs ahead of the store's by more than `LIMIT` is refused before it publishes, as soon as it has
  anything to compare with: on a disk at once, on other stores from the time that its notes and probes were given;
- a writer that meets a log which is ahead of its own clock asks the store. If the log is ahead of the store, too, the
  time goes back to what the store says. Readers take such a step for what it is (`History.at_time`).

Neither costs a request where clocks agree.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from quire.errors import ClockSkew
from quire.ledger import new_id
from quire.ledger.notes_and_leases import store_time
from quire.ledger.records import in_calendar
from quire.store import Store, clock

LIMIT = timedelta(hours=1)
"""How far the clock of a writer may run ahead of the store's."""


def now(store: Store) -> datetime:
    """What time it is; `ClockSkew` when this machine cannot be believed."""
    time = clock.now()
    try:
        in_calendar(time)
    except ValueError:
        raise _skewed(time, store.known_time()) from None
    told = store.known_time()
    if told is not None and time > told + LIMIT:
        told = store.known_time(fresh=True) or _ask(store)  # the clock may just have been set right
        if time > told + LIMIT:
            raise _skewed(time, told)
    return time


def after(store: Store, previous: datetime) -> datetime:
    """The time of a record that follows one of this time."""
    time = now(store)
    if previous > time + LIMIT:
        told = _ask(store)
        if previous > told + LIMIT:
            return told
    return max(time, previous + timedelta(microseconds=1))


def _ask(store: Store) -> datetime:
    return store_time(store, f"now-{new_id()}")


def _skewed(time: datetime, told: datetime | None) -> ClockSkew:
    stored = f"the store's clock says {told.isoformat()}" if told is not None else "a lake cannot have this time"
    return ClockSkew(
        f"The clock of this machine says {time.isoformat()}, {stored}. Nothing was committed.",
        next="Set the clock of this machine, and run the work again.",
        clock=time,
        store=told,
    )
