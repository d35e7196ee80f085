"""What came into a table and what is gone from it between two states, fragment by fragment, for tasks to read.

Which fragments those are follows from the manifests; their rows are read by whoever is told the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.formats import Parts
from quire.formats.lance.inspect.addressed_rows import deleted, rows_at
from quire.formats.lance.inspect.row_diff import same_rows
from quire.formats.lance.session import translating

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset


def parts_of(handle: LanceDataset) -> Parts:
    """All fragments, with their rows."""
    return [(int(f.fragment_id), int(f.metadata.num_rows)) for f in handle.get_fragments()]


def apart(before: LanceDataset, after: LanceDataset) -> tuple[Parts, Parts]:
    """Fragments of `before` of which rows are gone, and fragments of `after` that are new."""
    old = {int(f.fragment_id): f for f in before.get_fragments()}
    new = {int(f.fragment_id): f for f in after.get_fragments()}
    gone: Parts = []
    for number, fragment in old.items():
        rows = int(fragment.metadata.num_rows)
        if number not in new or not same_rows(fragment, new[number]):
            gone.append((number, rows))
        elif rows > (left := int(new[number].metadata.num_rows)):
            gone.append((number, rows - left))
    came = [
        (number, int(fragment.metadata.num_rows))
        for number, fragment in new.items()
        if number not in old or not same_rows(old[number], fragment)
    ]
    return gone, came


def gone_rows(old: LanceDataset, new: LanceDataset, number: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Columns of the rows of one fragment of `old` that `new` has not."""
    fragment: Any = old.get_fragment(number)
    left: Any = new.get_fragment(number)
    with translating(f"rows of {old.uri}"):
        if left is None or not same_rows(fragment, left):
            yield from old.scanner(columns=list(columns), fragments=[fragment]).to_reader()
            return
        went = np.setdiff1d(deleted(new, left), deleted(old, fragment), assume_unique=True)
        yield from rows_at(old, fragment, went, columns)
