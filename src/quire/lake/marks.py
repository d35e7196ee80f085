"""Records without commits: the last one of a branch, a claim, and the floor that cleanup publishes."""

from __future__ import annotations

from typing import Literal

from quire.errors import CommitUnknown
from quire.lake.core import now_after
from quire.lake.line import LiveBranch
from quire.lake.names import closed
from quire.ledger import FORMAT, Floor, Point, Record, new_id
from quire.store import Outcome


def mark(
    live: LiveBranch,
    kind: Literal["closed", "claim", "floor"],
    floor: Floor | None = None,
    *,
    checkpoint: Point | None = None,
) -> Record:
    """Append a mark after everything that is there. Whoever loses the slot looks again and takes the next."""
    state = live.state
    write = new_id()
    while not state.closed:
        record = Record(
            format=FORMAT,
            branch=live.line.branch,
            slot=state.slot + 1,
            write=write,
            previous=state.write,
            time=now_after(state.time),
            kind=kind,
            epoch=state.epoch + (kind == "claim"),
            checkpoint=_newest(state.checkpoint, checkpoint),
            floor=floor,
        )
        appended = live.core.ledger.append(record)
        if appended.outcome is Outcome.COMMITTED:
            if kind == "claim":
                live.epoch = record.epoch  # before others of this handle can see that the branch was claimed
            live.won(state, record)
            return record
        if appended.outcome is Outcome.UNKNOWN:
            raise CommitUnknown(
                f"The store did not say whether slot {record.slot} of branch {live.name!r} was written ({kind}).",
                next="Do it again; that is safe.",
                branch=live.name,
                log=live.line.branch,
                slot=record.slot,
                write=record.write,
            )
        state = live.lost(appended.winner)
    raise closed(live.name)


def _newest(a: Point | None, b: Point | None) -> Point | None:
    if a is None or b is None:
        return a or b
    return max(a, b, key=lambda p: p.slot)
