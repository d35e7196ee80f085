"""What came into a table and what is gone from it between two states, fragment by fragment, for tasks to read.

Which fragments those are follows from the manifests; their rows are read by whoever is told the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.formats.lance import match
from quire.formats.lance.changes import same_rows
from quire.formats.lance.session import translating
from quire.formats.lance.tasks import open_place
from quire.formats.lance.view import LanceView
from quire.formats.protocol import Place, View

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset

Parts = list[tuple[int, int]]
"""Fragments: the number of each, and how many of its rows are meant."""


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


def gone_rows(before: Place, after: Place, number: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Columns of the rows of one fragment of `before` that `after` has not."""
    old, new = open_place(before), open_place(after)
    fragment: Any = old.get_fragment(number)
    left: Any = new.get_fragment(number)
    stay = match.alive(new, number) if left is not None and same_rows(fragment, left) else None
    with translating(f"rows of {before.uri}"):
        scanner = old.scanner(columns=list(columns), with_row_address=True, fragments=[fragment])
        for batch in scanner.to_reader():
            at = batch.column(batch.schema.get_field_index("_rowaddr")).to_numpy()
            rows = batch.select(list(columns))
            if stay is not None:
                rows = rows.filter(~np.isin((at & np.uint64(0xFFFFFFFF)).astype(np.uint32), stay))
            yield rows


def view_of(place: Place, table: str) -> View:
    """A table at one state, for reading it here."""
    nowhere: Any = None  # a session, which only tells others where the table lies
    return LanceView(nowhere, open_place(place), table)
