"""The small protocol every ledger implements. It knows slots and records, no tables and no table format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from quire.ledger.records import Record
from quire.store import Outcome


@dataclass(frozen=True)
class Appended:
    """What became of an append. On a conflict `winner` is the record that holds the slot."""

    outcome: Outcome
    winner: Record | None = None


class Ledger(Protocol):
    """An append-only log of slots per branch, with create-if-absent as its only write."""

    name: str

    def append(self, record: Record, *, deadline: float | None = None) -> Appended:
        """Create slot `record.slot` of `record.branch` if it is absent. The only atomic point of Quire."""
        ...

    def read(self, branch: str, slots: Sequence[int]) -> list[Record | None]:
        """The records in these slots, in order, read in parallel; None where a slot does not exist yet."""
        ...

    def head(self, branch: str, at_least: int, first: int = 0) -> int:
        """The newest slot, given one that is believed to exist.

        Bounded hops at any distance, and right if the belief is wrong.
        """
        ...
