"""The small protocol every ledger implements. It knows slots and records, no tables and no table format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from quire.ledger.records import Record
from quire.store import Outcome


@dataclass(frozen=True)
class Appended:
    """What became of an append. On a conflict `winner` is the record that holds the slot."""

    outcome: Outcome
    winner: Record | None = None


@runtime_checkable
class Compactable(Protocol):
    """A ledger whose own storage is worth tidying now and then."""

    def compact(self) -> None: ...


class Ledger(Protocol):
    """An append-only log of slots per branch, with create-if-absent as its only write."""

    name: str

    def append(
        self,
        record: Record,
        *,
        deadline: float | None = None,
        beside: Callable[[], object] | None = None,
        after: str | None = None,
    ) -> Appended:
        """Create slot `record.slot` of `record.branch` if it is absent. The only atomic point of Quire.

        On a local disk the slot before it must be there, in the log `after`, and be the record that it follows:
        otherwise the lake is another one by now, and `LakeLost` says that nothing was written.

        `beside` may be called side by side with the look at a slot that somebody else has taken, to save a round trip.
        """
        ...

    def read(self, branch: str, slots: Sequence[int]) -> list[Record | None]:
        """The records in these slots, in order, read in parallel; None where a slot does not exist yet."""
        ...

    def head(self, branch: str, at_least: int, first: int = 0) -> int:
        """The newest slot, given one that is believed to exist.

        Bounded hops at any distance, and right if the belief is wrong.
        """
        ...

    def confirm(self, branch: str, slot: int, write: str) -> None:
        """On a local disk, raise `LakeLost` unless a slot that was read is still there. It costs no request."""
        ...

    def bury(self, tombstone: Record) -> None:
        """Overwrite an existing slot, which nobody may need any more, by a tombstone with the same write id.

        The slot never stops to exist. Doing it again changes nothing.
        """
        ...

    def written(self, branch: str) -> dict[int, datetime]:
        """When each slot of a branch was written last, by the clock of the store. For maintenance: it may list."""
        ...


def settled(ledger: Ledger, log: str, slot: int, until: int | None, write: str) -> Outcome:
    """Whether a write is in one of the slots that may hold it. Unknown as long as one of them may still be written."""
    records = ledger.read(log, range(slot, max(slot, until or 0) + 1))
    if any(record is not None and record.wrote(write) for record in records):
        return Outcome.COMMITTED
    return Outcome.CONFLICT if None not in records else Outcome.UNKNOWN
