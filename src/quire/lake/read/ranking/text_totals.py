"""How many texts a column has and how many tokens they have, fragment by fragment: an append counts its own rows."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.lake.read.fragments import brought_to, fragment_reader
from quire.lake.read.ranking.text_statistics import LONGEST, TOKEN

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.lake.read.table import Table

KEPT = 64
"""Columns of which totals are kept."""
_WORD = np.zeros(256, np.bool_)
_WORD[[ord(c) for c in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"]] = True


@dataclass(frozen=True)
class Totals:
    """Counts over some texts."""

    rows: int = 0
    """Those that are not null."""
    tokens: int = 0
    plain: bool = True
    """Whether a text index makes the same tokens of all of them. It splits at marks, and leaves out the longest."""

    def __add__(self, other: Totals) -> Totals:
        return Totals(self.rows + other.rows, self.tokens + other.tokens, self.plain and other.plain)


@dataclass
class _Held:
    view: Any = None
    fragments: dict[int, Totals] = field(default_factory=dict)


_lock = threading.Lock()
_kept: OrderedDict[tuple[str, str, str], _Held] = OrderedDict()


def totals(table: Table, column: str) -> dict[int, Totals]:
    """The totals of every fragment of a table that can be read in parts."""
    view: Any = table._view()
    key = table.id, table._state.pin.location, column
    with _lock:
        held = _kept.setdefault(key, _Held())
        _kept.move_to_end(key)
        while len(_kept) > KEPT:
            _kept.popitem(last=False)

    def read(numbers: Sequence[int]) -> dict[int, Totals]:
        reader = fragment_reader(view, [column])
        return {number: summed(counted(batch.column(column)) for batch in reader(number)) for number in numbers}

    found = brought_to(view, held.view, held.fragments, read)
    with _lock:
        _kept[key] = _Held(view, found)
    return found


def summed(parts: Iterable[Totals]) -> Totals:
    """All of them together."""
    found = Totals()
    for part in parts:
        found = found + part
    return found


def tail(found: dict[int, Totals], covered: Collection[int]) -> Totals:
    """The totals of fragments that an index does not cover."""
    return summed(one for number, one in found.items() if number not in covered)


def counted(texts: pa.Array) -> Totals:
    """The totals of some texts, by the tokens of `text_statistics.tokenized`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = texts.drop_null().cast(pa.large_string())
    if not len(texts):
        return Totals()
    lengths = pc.binary_length(texts)
    ascii = pc.equal(lengths, pc.utf8_length(texts))
    plain = (pc.max(lengths).as_py() or 0) <= LONGEST
    others = texts.filter(pc.invert(ascii))
    count = _ascii_tokens(texts.filter(ascii) if len(others) else texts)
    if len(others):
        count += pc.sum(pc.count_substring_regex(others, TOKEN)).as_py()
        plain = plain and not pc.any(pc.match_substring_regex(others, r"\p{M}")).as_py()
    return Totals(len(texts), count, plain)


def _ascii_tokens(texts: pa.Array) -> int:
    """Runs of letters and digits in texts that have nothing but ASCII."""
    if not len(texts):
        return 0
    _, places, bytes = texts.buffers()
    offsets = np.frombuffer(places, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    if bytes is None or offsets[-1] == offsets[0]:
        return 0
    word = _WORD[np.frombuffer(bytes, np.uint8)[offsets[0] : offsets[-1]]]
    starts = word.copy()
    starts[1:] &= ~word[:-1]
    first = offsets[:-1][offsets[:-1] < offsets[-1]] - offsets[0]
    starts[first] = word[first]  # a text does not go on where the one before it ended
    return int(np.count_nonzero(starts))
