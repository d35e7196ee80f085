"""Where rows lie after a compaction that changed none of them.

A compaction copies the living rows of the fragments that it merges in the order of their numbers, and numbers the
fragments that it makes in the same order (`compact`). So the n-th living row of all that went is the n-th living row of
all that came, and rows that a transaction removed, by whatever it chose them, are found again without a look at values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from quire.formats.lance.staging import find_rows
from quire.formats.row_bitmap import Marks

if TYPE_CHECKING:
    from lance import LanceDataset
    from lance.fragment import LanceFragment

    from quire.formats.lance.staging.net_change import Offsets


class Moved:
    """Rows of fragments that are gone from `base`, by their place among the fragments that came into `head`."""

    def __init__(
        self, base: LanceDataset, gone: Sequence[LanceFragment], head: LanceDataset, came: Sequence[LanceFragment]
    ) -> None:
        self._base, self._head = base, head
        self._gone, self._starts = _laid_out(gone)
        self._came, self._ends = _laid_out(came)
        rows = [sum(_living(f) for f in some) for some in (gone, came)]
        self.known = rows[0] == rows[1] and not base.has_stable_row_ids
        """Whether rows can be followed. With stable row ids a compaction may merge fragments in another order."""

    def follow(self, removed: Mapping[int, Marks]) -> dict[int, Marks] | None:
        """The same rows where they lie now, by fragment; None when one of them does not live any more."""
        places = []
        for number, rows in removed.items():
            living = _offsets(self._base, self._gone[number])
            found = np.searchsorted(living, np.asarray(rows))
            if (found >= len(living)).any() or not np.array_equal(living[found], np.asarray(rows)):
                return None
            places.append(found + self._starts[number])
        every = np.sort(np.concatenate(places)) if places else np.empty(0, np.int64)
        return {number: Marks.of(rows) for number, rows in self._spread(every)}

    def _spread(self, places: np.ndarray) -> list[tuple[int, Offsets]]:
        found: list[tuple[int, Offsets]] = []
        for number, fragment in self._came.items():
            start = self._ends[number]
            low, high = np.searchsorted(places, [start, start + _living(fragment)])
            if low < high:
                found.append((number, _offsets(self._head, fragment)[places[low:high] - start]))
        return found


def _laid_out(fragments: Sequence[LanceFragment]) -> tuple[dict[int, LanceFragment], dict[int, int]]:
    """Fragments in the order of their numbers, and which living row of all is the first of each."""
    ordered = {int(f.fragment_id): f for f in sorted(fragments, key=lambda f: int(f.fragment_id))}
    starts, rows = {}, 0
    for number, fragment in ordered.items():
        starts[number] = rows
        rows += _living(fragment)
    return ordered, starts


def _living(fragment: LanceFragment) -> int:
    return int(fragment.metadata.num_rows)


def _offsets(handle: LanceDataset, fragment: LanceFragment) -> Offsets:
    """Where its living rows lie."""
    found: Offsets
    if not fragment.metadata.num_deletions:
        found = np.arange(int(fragment.metadata.physical_rows), dtype=np.uint32)
    else:
        found = np.sort(find_rows.alive(handle, int(fragment.fragment_id)))
    return found
