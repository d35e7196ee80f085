"""Rows that differ between two versions, reading only the fragments that do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.formats.lance import match

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset
    from lance.fragment import LanceFragment


def changed_rows(before: LanceDataset, after: LanceDataset) -> tuple[pa.RecordBatchReader, pa.RecordBatchReader]:
    """Rows of `before` that are gone, rows of `after` that are new. A row that was only moved appears in both."""
    old = {int(f.fragment_id): f for f in before.get_fragments()}
    new = {int(f.fragment_id): f for f in after.get_fragments()}
    gone: list[tuple[LanceFragment, Any]] = []
    come: list[tuple[LanceFragment, Any]] = []
    for number, fragment in old.items():
        if number not in new or not same_rows(fragment, new[number]):
            gone.append((fragment, None))
        elif _deletions(fragment) != _deletions(new[number]):
            a, b = match.alive(before, number), match.alive(after, number)
            gone.append((fragment, np.setdiff1d(a, b)))
            come.append((new[number], np.setdiff1d(b, a)))
    for number, fragment in new.items():
        if number not in old or not same_rows(old[number], fragment):
            come.append((fragment, None))
    return _read(before, gone), _read(after, come)


def same_rows(a: LanceFragment, b: LanceFragment) -> bool:
    """Whether two fragments hold the same rows, apart from columns that one of them does not have."""
    first = {str(f.path): tuple(f.fields) for f in a.metadata.files}
    second = {str(f.path): tuple(f.fields) for f in b.metadata.files}
    common = first.keys() & second.keys()
    nested = first.keys() <= second.keys() or second.keys() <= first.keys()
    return bool(common) and nested and all(first[p] == second[p] for p in common)


def _deletions(fragment: LanceFragment) -> Any:
    return fragment.metadata.to_json()["deletion_file"]


def _read(handle: LanceDataset, parts: list[tuple[LanceFragment, Any]]) -> pa.RecordBatchReader:
    import pyarrow as pa

    def batches() -> Iterator[pa.RecordBatch]:
        for fragment, offsets in parts:
            if offsets is None:
                yield from handle.scanner(fragments=[fragment]).to_reader()
            elif len(offsets):
                yield from _some(handle, fragment, offsets)

    return pa.RecordBatchReader.from_batches(handle.schema, batches())


def _some(handle: LanceDataset, fragment: LanceFragment, offsets: Any) -> Iterator[pa.RecordBatch]:
    for batch in handle.scanner(fragments=[fragment], with_row_address=True).to_reader():
        position = batch.schema.get_field_index("_rowaddr")
        low = (batch.column(position).to_numpy() & np.uint64(0xFFFFFFFF)).astype(np.uint32)
        chosen = np.flatnonzero(np.isin(low, offsets))
        if len(chosen):
            yield batch.take(chosen).select(handle.schema.names)
