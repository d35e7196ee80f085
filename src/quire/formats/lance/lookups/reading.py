"""Reading the keys of whole fragments, once, so that they are known from then on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.formats import fingerprints
from quire.formats.lance.lookups import known
from quire.formats.lance.lookups.known import Fields, Piece
from quire.formats.lance.metering import scanned
from quire.formats.lance.session import translating

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset

WITH_DELETED: dict[str, Any] = {
    "with_row_id": True,
    "with_row_address": True,
    "include_deleted_rows": True,
    "scan_in_order": True,
}
"""Rows that are deleted here may be there in another version, so what is known of a file has to include them."""


def learn(handle: LanceDataset, columns: Sequence[str], fields: Fields, pieces: Sequence[Piece]) -> None:
    """Read the keys of some fragments, for nothing but to know them."""
    some = known.fragments_of(handle, {piece.number for piece in pieces})
    with scanned("lookup", handle, some) as scan, translating(f"keys of {handle.uri}"):
        options = {"columns": list(columns), "fragments": some, **WITH_DELETED, **scan.options}
        for _ in noted(handle, handle.scanner(**options).to_reader(), columns, fields, pieces):
            pass


def noted(
    handle: LanceDataset,
    batches: Iterator[pa.RecordBatch] | pa.RecordBatchReader,
    columns: Sequence[str],
    fields: Fields,
    pieces: Sequence[Piece],
) -> Iterator[pa.RecordBatch]:
    """The living rows of a scan `WITH_DELETED` of some fragments, in their order. When it is over, they are known."""
    owner = known.owner_of(handle)
    found: list[Any] = []
    for batch in batches:
        prints = fingerprints.in_order([batch.column(name) for name in columns])
        assert prints is not None
        found.append(prints)
        addresses = batch.column("_rowaddr")
        yield batch.filter(addresses.is_valid()) if addresses.null_count else batch
    prints = np.concatenate(found) if found else np.empty(0, np.uint32)
    if owner is None or len(prints) != sum(piece.rows for piece in pieces):
        return  # not the rows that were expected: better to know nothing
    start = 0
    for piece in pieces:
        if piece.part is not None:
            owner.known.put(piece.part, fingerprints.distinct(prints[start : start + piece.rows]))
        start += piece.rows
