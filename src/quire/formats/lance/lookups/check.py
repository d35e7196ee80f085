"""Whether what is stored of keys fits the files: asked when everything is read anyhow."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.formats import fingerprints
from quire.formats.lance.lookups import known, reading
from quire.formats.lance.lookups.known import Fields, Part, Piece
from quire.formats.lance.metering import scanned
from quire.formats.lance.session import translating

if TYPE_CHECKING:
    from lance import LanceDataset

    from quire.formats.fingerprints import Prints


def contradictions(
    handle: LanceDataset, stored: Mapping[Part, Prints], leave: Collection[Part]
) -> tuple[set[Part], set[Part]]:
    """Read the key columns of a version, where something is stored of their files: the parts that were read, and those
    of them that hold a key which is not stored, so that a look-up would pass over its row."""
    read: set[Part] = set()
    wrong: set[Part] = set()
    for fields in {part.fields for part in stored}:
        columns = known.names_of(handle, fields)
        location = next(iter(stored)).location
        pieces = [p for p in known.pieces_of(handle, fields, location) if p.part in stored and p.part not in leave]
        if columns is None or not pieces:
            continue
        start, prints = 0, _read(handle, columns, fields, pieces)
        for piece in pieces:
            assert piece.part is not None
            read.add(piece.part)
            if not np.isin(prints[start : start + piece.rows], stored[piece.part]).all():
                wrong.add(piece.part)
            start += piece.rows
    return read, wrong


def _read(handle: LanceDataset, columns: Sequence[str], fields: Fields, pieces: Sequence[Piece]) -> Any:
    """Fingerprints of all rows that were written to some fragments, in order."""
    some = known.fragments_of(handle, {piece.number for piece in pieces})
    found: list[Any] = [np.empty(0, np.uint32)]
    with scanned("scan", handle, some) as scan, translating(f"keys of {handle.uri}"):
        options = {"columns": columns, **reading.WITH_DELETED, **scan.only(some)}
        for batch in handle.scanner(**options).to_reader():
            prints = fingerprints.in_order([batch.column(name) for name in columns])
            assert prints is not None, fields
            found.append(prints)
    return np.concatenate(found)
