"""The three outcomes of creating an object, and the rules that tell them apart.

A conditional PUT is not idempotent: its answer can be lost, and a repetition then meets the first. So after any failure
the key is read, and what is there decides.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from quire.prompt import Escaped
from quire.store import clock, meter
from quire.store.backend import Failure, Reason

PUTS = 5
READS = 4
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0


class Outcome(Escaped, enum.Enum):
    """How a publish ended: it is committed, another writer was first, or the store's answer was lost."""

    COMMITTED = "committed"
    CONFLICT = "conflict"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Created:
    """How a create ended. `found` holds the other writer's bytes on `CONFLICT`, else None."""

    outcome: Outcome
    found: bytes | None = None


def settle(
    put: Callable[[], None],
    read: Callable[[], bytes],
    mine: Callable[[bytes], bool],
    deadline: float | None,
    attempts: int = PUTS,
) -> Created:
    """Put until it is known who owns the key, or until that cannot be learnt.

    `put` creates if absent and `read` reads the key; both raise `Failure`. A `Failure` raised from here means that
    nothing was created and nothing will be.
    """
    may_land = False
    failure = late = Failure(Reason.LATE, "the deadline passed before the object was created; nothing was created")
    for attempt in range(attempts):
        if not (_in_time(deadline) if attempt == 0 else pause(attempt, deadline)):
            failure = late
            break
        if attempt:
            meter.record_retry()
        problem = _try(put)
        if problem is None:
            return Created(Outcome.COMMITTED)
        failure = problem
        if failure.reason is Reason.GONE and not may_land:
            raise failure  # what lies at the key belongs to something else
        may_land = may_land or failure.reason in (Reason.FAILED, Reason.UNDURABLE)
        seen = _read_back(read, deadline)
        if isinstance(seen, bytes):
            if failure.reason is Reason.UNDURABLE and mine(seen):
                return Created(Outcome.UNKNOWN)  # a power cut decides
            return Created(Outcome.COMMITTED) if mine(seen) else Created(Outcome.CONFLICT, seen)
        if seen.reason is not Reason.ABSENT and not _certain(failure, seen):
            return Created(Outcome.UNKNOWN)
        if failure.reason not in (Reason.EXISTS, Reason.FAILED):
            break
    if may_land:
        return Created(Outcome.UNKNOWN)
    raise failure


def pause(attempt: int, deadline: float | None = None) -> bool:
    """Wait before repetition `attempt` (1, 2, …), longer each time and at random; False if time would run out."""
    seconds = clock.uniform(0.5, 1.0) * min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**attempt)
    if not _in_time(deadline, seconds):
        return False
    clock.sleep(seconds)
    return True


def _certain(put: Failure, seen: Failure) -> bool:
    """Whether a put changed nothing although the key cannot be read: it was never sent, or nothing here is allowed.

    Without the second case wrong credentials would look like an unknown outcome.
    """
    return put.reason in (Reason.REFUSED, Reason.UNSAFE) or put.reason is seen.reason is Reason.DENIED


def _try(put: Callable[[], None]) -> Failure | None:
    try:
        put()
    except Failure as failure:
        return failure
    return None


def _read_back(read: Callable[[], bytes], deadline: float | None) -> bytes | Failure:
    """Read the key, at least once even when time is up: the put was sent, and its outcome is worth one request."""
    attempt = 0
    while True:
        try:
            return read()
        except Failure as failure:
            seen = failure
        attempt += 1
        if seen.reason is not Reason.FAILED or attempt == READS or not pause(attempt, deadline):
            return seen
        meter.record_retry()


def _in_time(deadline: float | None, seconds: float = 0.0) -> bool:
    return deadline is None or clock.monotonic() + seconds < deadline
