"""Counting rows and bytes of a table through one transaction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol


class NetChange(Protocol):
    """Rows that are gone from a base, and rows that are new beside it."""

    @property
    def rows_added(self) -> int: ...
    @property
    def rows_removed(self) -> int: ...
    @property
    def bytes_added(self) -> int: ...


@dataclass(frozen=True)
class Tally:
    """Rows and bytes of a state, and how its rows differ from those that the transaction began on."""

    rows: int
    bytes: int
    added: int = 0
    removed: int = 0
    owned: bool = False
    """Whether every row is the transaction's own: one that it removes again was never there."""

    def after(self, net: NetChange) -> Tally:
        taken_back = net.rows_removed if self.owned else 0
        return Tally(
            self.rows + net.rows_added - net.rows_removed,
            self.bytes + net.bytes_added,
            self.added + net.rows_added - taken_back,
            self.removed + net.rows_removed - taken_back,
            self.owned,
        )

    def with_bytes(self, more: int) -> Tally:
        """The same when files came that hold no rows of their own."""
        return replace(self, bytes=self.bytes + more)

    def without(self, own: int) -> Tally:
        """The same when rows that the transaction added are taken out again."""
        return replace(self, rows=self.rows - own, added=self.added - own)
