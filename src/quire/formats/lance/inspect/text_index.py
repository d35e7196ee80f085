"""What a text index of Lance counts, for who computes its scores."""

from __future__ import annotations

import weakref
from contextlib import nullcontext
from typing import TYPE_CHECKING

from quire.formats.lance.metering import metered, of_a_table
from quire.formats.lance.session import described
from quire.formats.protocol.view import TextIndex

if TYPE_CHECKING:
    from lance import LanceDataset

_known: weakref.WeakKeyDictionary[LanceDataset, dict[tuple[int, str], TextIndex | None]] = weakref.WeakKeyDictionary()


def text_index(handle: LanceDataset, column: str) -> TextIndex | None:
    """The text index of a column of a pinned handle; None where there is none, or several, or one in several pieces.

    The pieces of one index count apart from each other.
    """
    known = _known.setdefault(handle, {})
    key = handle.version, column
    if key not in known:
        known[key] = _read(handle, column)
    return known[key]


def _read(handle: LanceDataset, column: str) -> TextIndex | None:
    found = [d for d in described(handle) if list(d.field_names) == [column] and d.index_type.upper() == "INVERTED"]
    if len(found) != 1 or len(found[0].segments) != 1:
        return None
    [index] = found
    with metered("indexes", handle.uri, steps=1) if of_a_table(handle) else nullcontext():
        told = handle.stats.index_stats(index.name)
    parts = told["indices"]
    if len(parts) != 1 or "num_docs" not in parts[0]:
        return None
    covered = frozenset(int(number) for number in index.segments[0].fragment_ids)
    return TextIndex(int(parts[0]["num_docs"]), covered, dict(index.details or {}))
