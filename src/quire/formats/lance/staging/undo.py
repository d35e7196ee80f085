"""The rows of one commit, taken back on a later version of the table."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from quire.formats.lance.blobs import blob_columns
from quire.formats.lance.head.foreign import difference
from quire.formats.lance.inspect.row_diff import changed_rows
from quire.formats.lance.staging import find_rows
from quire.formats.lance.staging.work import LanceWork

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset


def undo(work: LanceWork, before: LanceDataset, after: LanceDataset, key: Sequence[str]) -> bool:
    """Remove what came between `before` and `after`, and put back what went.

    False when those rows were changed since.
    """
    net = difference(before, after)
    base = work.draft.base
    there = {str(f.metadata.files[0].path): int(f.fragment_id) for f in base.get_fragments()}
    for added in net.added:
        number = there.get(added.path)
        everything = np.arange(int(added.fragment.physical_rows), dtype=np.uint32)
        mine = np.setdiff1d(everything, added.deleted)
        if number is None or not np.isin(mine, find_rows.alive(base, number)).all():
            return False
        addresses = (np.uint64(number) << np.uint64(32)) | mine.astype(np.uint64)
        work.draft.take_away(addresses)
    gone, _ = changed_rows(before, after)
    if blob_columns(before.schema):
        return _put_back(work, _flowing(gone), key)
    rows = gone.read_all()
    return _put_back(work, rows if rows.num_rows else None, key)


def _put_back(work: LanceWork, rows: pa.Table | pa.RecordBatchReader | None, key: Sequence[str]) -> bool:
    if rows is not None and key:
        work.rows.insert(rows, key, missing="error")
    elif rows is not None:
        work.rows.append(rows, missing="error")
    return True


def _flowing(rows: pa.RecordBatchReader) -> pa.RecordBatchReader | None:
    """The same rows, a few at a time as blobs demand; None when there are none."""
    import pyarrow as pa

    first = next(iter(rows), None)
    return None if first is None else pa.RecordBatchReader.from_batches(rows.schema, chain([first], rows))
