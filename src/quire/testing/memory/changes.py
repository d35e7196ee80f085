"""Rows by which two states differ, and taking them back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quire.formats import Place, task_table
from quire.testing.memory.files import Fragment
from quire.testing.memory.net import difference, lost
from quire.testing.memory.view import MemoryView
from quire.testing.memory.work import MemoryWork

if TYPE_CHECKING:
    import pyarrow as pa


def changed_rows(before: MemoryView, after: MemoryView) -> tuple[pa.RecordBatchReader, pa.RecordBatchReader]:
    """Rows of `before` that are gone, rows of `after` that are new. A row that was only moved appears in both."""
    gone, come = _less(before, after), _less(after, before)
    return before.of(gone).to_reader(), after.of(come).to_reader()


def _less(one: MemoryView, other: MemoryView) -> list[Fragment]:
    return [f for fragment in one.state.fragments if (f := lost(fragment, other.state)).alive]


@dataclass(frozen=True)
class MemoryChanges:
    """The same for other processes: every part is a fragment."""

    before: Place
    after: Place
    parts: tuple[tuple[bool, int, int], ...]
    """Whether it is new, its number in its state, and rows."""

    @staticmethod
    def of(before: MemoryView, after: MemoryView) -> MemoryChanges:
        gone, came = after.parts_since(before)
        parts = (*((False, *part) for part in gone), *((True, *part) for part in came))
        return MemoryChanges(before.place(), after.place(), parts)

    @property
    def rows(self) -> Sequence[int]:
        return [rows for _, _, rows in self.parts]

    def read(self, part: int) -> Iterator[tuple[bool, pa.RecordBatch]]:
        fresh, number, _ = self.parts[part]
        mine, other = (self.after, self.before) if fresh else (self.before, self.after)
        held = task_table(mine)
        for batch in held.gone_rows(other, number, held.schema.names):
            yield fresh, batch


def undo(work: MemoryWork, before: MemoryView, after: MemoryView, key: Sequence[str]) -> bool:
    """Remove what came between `before` and `after`, and put back what went. False when those rows were changed."""
    for added in difference(before.state, after.state).added:
        there = work.draft.base.by_key.get(added.fragment.key)
        mine = set(range(added.fragment.rows)) - added.deleted
        if there is None or mine & set(there.deleted):
            return False
        work.draft.take_away([(there.key, offset) for offset in sorted(mine)])
    rows = changed_rows(before, after)[0].read_all()
    if rows.num_rows and key:
        work.rows.insert(rows, key, missing="error")
    elif rows.num_rows:
        work.rows.append(rows, missing="error")
    return True
