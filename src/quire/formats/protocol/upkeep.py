"""Upkeep of a table inside a transaction: merge small fragments, let indexes cover all rows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal, Protocol, runtime_checkable

from quire.formats.protocol.distributed import Split
from quire.progress import Progress


@dataclass(frozen=True)
class Upkeep:
    """How a table is to be compacted."""

    target_rows: int = 1 << 20
    """Fragments with fewer rows are merged with their neighbours until they have as many."""
    deleted: float = 0.1
    """Fragments of which more than this share is deleted are written anew."""


@dataclass(frozen=True)
class Compacted:
    """What a compaction did, or would do."""

    fragments_before: int
    fragments_after: int
    rows: int = 0
    """Rows that were written anew."""
    bytes: int = 0
    """Size of the data files that were merged."""

    @property
    def changed(self) -> bool:
        return self.rows > 0 or self.fragments_before != self.fragments_after

    def to_dict(self) -> dict[str, int]:
        return asdict(self)


class UpkeepStatements(Protocol):
    """Upkeep as part of a transaction, which goes with no other statement on the same table."""

    def compact(
        self, how: Upkeep, *, mode: Literal["do", "plan"] = "do", progress: Progress | None = None
    ) -> Compacted:
        """Merge small fragments and leave deleted rows behind; `plan` writes nothing and only tells.

        On a newer base, what cannot follow the rivals is left alone; when nothing is left, the work is unchanged.
        """
        ...

    def extend_indexes(
        self, how: Upkeep, *, mode: Literal["do", "plan"] = "do", progress: Progress | None = None
    ) -> list[str]:
        """Let every index cover all rows, at a cost that follows what is new; the names of those that were extended.

        With `plan`, those that would be after a compaction planned by the same `how`. On a newer base, what no longer
        fits is left for the next time.
        """
        ...


@runtime_checkable
class Spread(Protocol):
    """Upkeep that other processes can do. The same as `compact` and `extend_indexes`, in parts."""

    def compacting(self, how: Upkeep) -> Split[Compacted]: ...
    def extending(self) -> Split[list[str]]: ...
