"""Rows by which two states differ, and taking them back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from quire.formats import Place, task_table
from quire.formats.delta.log.state import DataFile
from quire.formats.delta.staging.net import difference, lost
from quire.formats.delta.view import DeltaView
from quire.formats.row_bitmap import Marks

if TYPE_CHECKING:
    import pyarrow as pa


def changed_rows(before: DeltaView, after: DeltaView) -> tuple[pa.RecordBatchReader, pa.RecordBatchReader]:
    """Rows of `before` that are gone, rows of `after` that are new. A row that was only moved appears in both."""
    return before.of(_less(before, after)), after.of(_less(after, before))


def _less(one: DeltaView, other: DeltaView) -> list[DataFile]:
    return [f for file in one.state.files if (f := lost(one.folder, file, other.state)).alive]


@dataclass(frozen=True)
class DeltaChanges:
    """The same for other processes: every part is a file."""

    before: Place
    after: Place
    parts: tuple[tuple[bool, int, int], ...]
    """Whether it is new, its number in its state, and rows."""

    @staticmethod
    def of(before: DeltaView, after: DeltaView) -> DeltaChanges:
        gone, came = after.parts_since(before)
        parts = (*((False, *part) for part in gone), *((True, *part) for part in came))
        return DeltaChanges(before.place(), after.place(), parts)

    @property
    def rows(self) -> Sequence[int]:
        return [rows for _, _, rows in self.parts]

    def read(self, part: int) -> Iterator[tuple[bool, pa.RecordBatch]]:
        fresh, number, _ = self.parts[part]
        mine, other = (self.after, self.before) if fresh else (self.before, self.after)
        held = task_table(mine)
        for batch in held.gone_rows(other, number, held.schema.names):
            yield fresh, batch


def undo(work: Any, before: DeltaView, after: DeltaView, key: Sequence[str]) -> bool:
    """Remove what came between `before` and `after`, and put back what went. False when those rows were changed."""
    draft = work.draft
    for added in difference(after.folder, before.state, after.state).added:
        there = draft.base.by_path.get(added.file.path)
        if there is None:
            return False
        mine = Marks.of(after.folder.living(added.file.with_deleted(added.deleted)))
        if len(draft.folder.marks(there) | mine) != len(draft.folder.marks(there)) + len(mine):
            return False
        draft.take_away({there.path: mine})
    rows = changed_rows(before, after)[0].read_all()
    if rows.num_rows:
        put_back = partial(work.rows.insert, on=key) if key else work.rows.append
        put_back(rows, missing="error")
    return True
