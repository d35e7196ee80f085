"""Records without commits: the last one of a branch, a claim, and the floor that cleanup publishes."""

from __future__ import annotations

from typing import Literal

from quire.errors import CommitUnknown
from quire.lake.branch.live import LiveBranch
from quire.lake.commit import record_time
from quire.lake.names import closed
from quire.lake.publish.publish import follow, publish
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
            time=record_time.after(live.core.store, state.time),
            kind=kind,
            epoch=state.epoch + (kind == "claim"),
            checkpoint=_newest(state.checkpoint, checkpoint),
            floor=floor,
        )

        def first(outcome: Outcome, epoch: int = record.epoch) -> None:
            if outcome is Outcome.COMMITTED and kind == "claim":
                live.claimed(epoch)  # before others of this handle can see that the branch was claimed

        outcome = publish(live, state, record, follow(state, record), first=first).outcome
        if outcome is Outcome.COMMITTED:
            return record
        if outcome is Outcome.UNKNOWN:
            raise CommitUnknown(
                f"The store did not confirm that slot {record.slot} of branch {live.name!r} was written ({kind}).",
                next="Run it again; this is safe.",
                branch=live.name,
                log=live.line.branch,
                slot=record.slot,
                write=record.write,
            )
        state = live.state
    raise closed(live.name)


def claim(live: LiveBranch) -> int:
    """Raise the epoch of a branch, so that only this handle goes on; the new epoch."""
    with live.publishing:
        live.refresh()
        live.checkpoint()
        mark(live, "claim")
    return live.epoch


def _newest(a: Point | None, b: Point | None) -> Point | None:
    if a is None or b is None:
        return a or b
    return max(a, b, key=lambda p: p.slot)
