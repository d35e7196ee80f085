"""Row numbers in few bytes.

A set of rows of one fragment is kept as whichever is smaller: their numbers, four bytes each, or a bit for every row up
to the last. So however many rows a statement replaces, they take at most a bit for each row of the table.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_HEAD = np.dtype([("fragment", "<u4"), ("dense", "?"), ("count", "<u4"), ("size", "<u4")])


class Marks:
    """A set of row numbers of one fragment; never changed once it is made. NumPy takes it for their sorted array."""

    __slots__ = ("_bits", "_count", "_numbers")

    def __init__(self, numbers: NDArray[np.uint32] | None, bits: NDArray[np.uint8] | None, count: int) -> None:
        self._numbers, self._bits, self._count = numbers, bits, count

    @classmethod
    def of(cls, numbers: Marks | Iterable[int] | NDArray[Any]) -> Marks:
        """These rows, in any order and any number of times."""
        if isinstance(numbers, Marks):
            return numbers
        given = np.asarray(numbers if isinstance(numbers, np.ndarray) else list(numbers))
        found = np.unique(given.astype(np.uint32))
        if not len(found) or 32 * len(found) <= int(found[-1]):
            return cls(found, None, len(found))
        flags = np.zeros(int(found[-1]) + 1, bool)
        flags[found] = True
        return cls(None, np.packbits(flags), len(found))

    def __len__(self) -> int:
        return self._count

    def __or__(self, other: Marks) -> Marks:
        if not len(other):
            return self
        if not len(self):
            return other
        if self._bits is None or other._bits is None:
            return Marks.of(np.concatenate([np.asarray(self), np.asarray(other)]))
        long, short = sorted((self._bits, other._bits), key=len, reverse=True)
        bits = long.copy()
        bits[: len(short)] |= short
        return Marks(None, bits, int(np.unpackbits(bits).sum()))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        found = self._numbers
        if found is None:
            assert self._bits is not None
            found = np.flatnonzero(np.unpackbits(self._bits)).astype(np.uint32)
        return found if dtype is None else found.astype(dtype)

    def tolist(self) -> list[int]:
        return [int(number) for number in np.asarray(self)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Marks) and np.array_equal(np.asarray(self), np.asarray(other))

    def __hash__(self) -> int:
        return hash(np.asarray(self).tobytes())

    @property
    def nbytes(self) -> int:
        """The memory that the rows take."""
        held = self._bits if self._numbers is None else self._numbers
        assert held is not None
        return int(held.nbytes)

    def __repr__(self) -> str:
        return f"<{self._count} rows>"


NONE = Marks.of(())


def by_fragment(addresses: NDArray[np.uint64] | Mapping[int, Marks]) -> dict[int, Marks]:
    """Row addresses by fragment: the high half names the fragment, the low half the physical row."""
    if isinstance(addresses, Mapping):
        return {fragment: marks for fragment, marks in addresses.items() if len(marks)}
    if len(addresses) == 0:
        return {}
    ordered = np.sort(addresses)
    fragments = ordered >> np.uint64(32)
    starts = np.flatnonzero(np.r_[True, fragments[1:] != fragments[:-1]])
    offsets = (ordered & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    return {int(fragments[s]): Marks.of(part) for s, part in zip(starts, np.split(offsets, starts[1:]), strict=True)}


def merged(parts: Iterable[Mapping[int, Marks]]) -> dict[int, Marks]:
    """What several tell of the same table."""
    found: dict[int, Marks] = {}
    for part in parts:
        for fragment, marks in part.items():
            found[fragment] = found.get(fragment, NONE) | marks
    return found


def packed(rows: Mapping[int, Marks]) -> bytes:
    """Rows by fragment as bytes, for another process."""
    pieces: list[bytes] = []
    for fragment, marks in rows.items():
        dense = marks._bits is not None
        body = (marks._bits if dense else marks._numbers.astype("<u4")).tobytes()  # type: ignore[union-attr]
        pieces += [np.array([(fragment, dense, len(marks), len(body))], _HEAD).tobytes(), body]
    return zlib.compress(b"".join(pieces), 1)


def unpacked(data: bytes) -> dict[int, Marks]:
    raw, at = zlib.decompress(data), 0
    found: dict[int, Marks] = {}
    while at < len(raw):
        head = np.frombuffer(raw, _HEAD, 1, at)[0]
        at += _HEAD.itemsize
        body = raw[at : at + int(head["size"])]
        at += len(body)
        count = int(head["count"])
        if head["dense"]:
            found[int(head["fragment"])] = Marks(None, np.frombuffer(body, np.uint8), count)
        else:
            found[int(head["fragment"])] = Marks(np.frombuffer(body, "<u4").astype(np.uint32), None, count)
    return found
