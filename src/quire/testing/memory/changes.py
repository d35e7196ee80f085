"""Rows by which two states differ, and taking them back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from quire.testing.memory.files import Fragment
from quire.testing.memory.net import difference
from quire.testing.memory.view import MemoryView
from quire.testing.memory.work import MemoryWork

if TYPE_CHECKING:
    import pyarrow as pa


def changed_rows(before: MemoryView, after: MemoryView) -> tuple[pa.RecordBatchReader, pa.RecordBatchReader]:
    """Rows of `before` that are gone, rows of `after` that are new. A row that was only moved appears in both."""
    gone, come = _less(before, after), _less(after, before)
    return before.of(gone).to_reader(), after.of(come).to_reader()


def _less(one: MemoryView, other: MemoryView) -> list[Fragment]:
    """Fragments of `one` without the rows that `other` has too. A fragment that only got columns is the same."""
    found = []
    for fragment in one.state.fragments:
        there = other.state.by_key.get(fragment.key)
        if there is None or not _nested(fragment, there):
            found.append(fragment)
        elif there.deleted != fragment.deleted:
            found.append(fragment.without(there.living()))
    return [f for f in found if f.alive]


def _nested(a: Fragment, b: Fragment) -> bool:
    first, second = set(a.paths), set(b.paths)
    return first <= second or second <= first


def undo(work: MemoryWork, before: MemoryView, after: MemoryView, key: Sequence[str]) -> bool:
    """Remove what came between `before` and `after`, and put back what went. False when those rows were changed."""
    for added in difference(before.state, after.state).added:
        there = work.base.by_key.get(added.fragment.key)
        mine = set(range(added.fragment.rows)) - added.deleted
        if there is None or mine & set(there.deleted):
            return False
        work.take_away([(there.key, offset) for offset in sorted(mine)])
    rows = changed_rows(before, after)[0].read_all()
    if rows.num_rows and key:
        work.insert(rows, key, missing="error")
    elif rows.num_rows:
        work.append(rows, missing="error")
    return True
