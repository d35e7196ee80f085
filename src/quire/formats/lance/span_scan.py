"""Spans of a fragment: rows that are neighbours among those that are there, so that several tasks can read a large one.

Lance counts to a row before it asks a filter only where there is no filter. So with one, the columns that it names are
read first, and the others where it holds: of a few rows by their ids, else by the same span.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.filters import Computing, Condition, Expression, read_filter
from quire.formats import Span
from quire.formats.lance import filtered_scan
from quire.formats.lance.blobs import blob_columns
from quire.formats.lance.metering import streamed
from quire.formats.lance.staging.find_rows import rows_at
from quire.formats.lance.task_handles import BATCH_ROWS

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset

FEW = 256
"""One row of so many that are read is few: they are fetched one by one."""
_ID = "_rowid"


def rows(
    handle: LanceDataset, number: int, span: Span, columns: Sequence[str] | None, filter: str | Condition | None
) -> Iterator[pa.RecordBatch]:
    """Columns of the rows of a span for which a filter holds."""
    first, end = span
    given: dict[str, Any] = {"fragments": [handle.get_fragment(number)], "offset": first, "limit": end - first}
    wanted = list(handle.schema.names if columns is None else columns)
    if filter is None:
        yield from _read(handle, {**given, "columns": wanted}, "")
        return
    told = read_filter(filter, handle.schema).whole
    if set(wanted) <= set(told.columns):
        for batch, mask in _asked(handle, given, told):
            if mask.any():
                yield batch.filter(_array(mask)).select(wanted)
        return
    masks, ids = [], [np.empty(0, np.uint64)]
    for batch, mask in _asked(handle, given, told):
        masks.append(mask)
        ids.append(batch.column(_ID).to_numpy()[mask])
    held = np.concatenate(ids)
    if len(held) * FEW <= end - first and not set(wanted) & set(blob_columns(handle.schema)):
        for start in range(0, len(held), BATCH_ROWS):
            yield from rows_at(handle, held[start : start + BATCH_ROWS], wanted).to_batches()
    else:
        yield from _masked(_read(handle, {**given, "columns": wanted}, told.text), np.concatenate(masks))


def _asked(
    handle: LanceDataset, given: dict[str, Any], told: Expression
) -> Iterator[tuple[pa.RecordBatch, np.ndarray[Any, np.dtype[np.bool_]]]]:
    """What a filter names of the rows, with their ids, and for which of them it holds."""
    read = _read(handle, {**given, "columns": list(told.columns), "with_row_id": True}, told.text)
    with Computing() as computing:
        for batch in read:
            yield batch, computing.mask(told, batch).to_numpy(zero_copy_only=False)


def _masked(batches: Iterator[pa.RecordBatch], mask: Any) -> Iterator[pa.RecordBatch]:
    at = 0
    for batch in batches:
        inside = mask[at : at + batch.num_rows]
        at += batch.num_rows
        if inside.any():
            yield batch.filter(_array(inside))


def _read(handle: LanceDataset, options: dict[str, Any], text: str) -> Iterator[pa.RecordBatch]:
    with filtered_scan.reading(filtered_scan.Split(text), ""):
        yield from streamed(handle, options)


def _array(mask: Any) -> pa.Array:
    import pyarrow as pa

    return pa.array(mask)
