"""What a stored manifest says, field by field, without Lance's objects around it.

Two states are the same when their manifests say the same. Lance's objects do not show all of it: which numbers of
fragments and rows were ever used, which fragments an index covers, what a writer must know. The file does.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property

from quire.formats.lance.manifest_bytes import INDEX_SECTION, MAGIC, by_number, section, varint

Value = int | bytes

FIELDS, FRAGMENTS, HIGHEST, NEXT_ROW_ID = 1, 2, 11, 14
ABOUT_THE_VERSION = frozenset({3, 4, 7, 8, 12, 13, 21, 23})
"""Its number, time and tag, who made it by which transaction, and where in the file that is."""
ROW_IDS = frozenset(range(5, 11))
"""Of a fragment."""


@dataclass(frozen=True)
class Fields:
    """One manifest, by the numbers of its fields in Lance's `table.proto`."""

    values: dict[int, list[Value]]
    indexes: list[bytes]

    @cached_property
    def fragments(self) -> dict[int, bytes]:
        """Every fragment as it is stored, by its number."""
        found = self.values.get(FRAGMENTS, [])
        return {number_of(fragment): fragment for fragment in found if isinstance(fragment, bytes)}

    @property
    def highest(self) -> int:
        """The highest number that a fragment of the table ever had; -1 before the first."""
        [found] = self.values.get(HIGHEST, [-1])
        assert isinstance(found, int)
        return found

    def but_row_ids(self) -> dict[int, list[Value]]:
        """The same without the ids of rows, and without the versions in which they came and were changed."""
        left = {n: found for n, found in self.state().items() if n != NEXT_ROW_ID}
        bare = (by_number(fragment) for fragment in self.fragments.values())
        kept = ({n: found for n, found in fragment.items() if n not in ROW_IDS} for fragment in bare)
        return left | {FRAGMENTS: [repr(sorted(fragment.items())).encode() for fragment in kept]}

    def state(self) -> dict[int, list[Value]]:
        """All that holds for the table and not just for this version of it."""
        left = {n: found for n, found in self.values.items() if n not in ABOUT_THE_VERSION and n != HIGHEST}
        columns = [found for found in left.get(FIELDS, []) if isinstance(found, bytes)]
        left[FIELDS] = [repr(_in_any_order(column)).encode() for column in columns]
        left[INDEX_SECTION] = [*self.indexes]
        # Maps have no order of their own. That of fragments and columns counts.
        return {n: found if n in (FIELDS, FRAGMENTS) else sorted(found, key=repr) for n, found in left.items()}


def fields_of(body: bytes) -> Fields:
    """Read a manifest file; `ValueError` if it is laid out in a way that is not known here."""
    try:
        start, magic = struct.unpack("<Q4x4s", body[-16:])
        if magic != MAGIC:
            raise ValueError("no manifest")
        values = by_number(section(body, start))
        [at] = values.get(INDEX_SECTION, [None])
        listed = by_number(section(body, at)).get(1, []) if isinstance(at, int) else []
        return Fields(values, [index for index in listed if isinstance(index, bytes)])
    except (struct.error, IndexError) as error:
        raise ValueError(f"no manifest: {error}") from None


def told_by(manifest: bytes, other: bytes) -> bytes:
    """One manifest with what another says of the transaction that made it; `ValueError` as in `fields_of`.

    Lance keeps the transaction just before the fields.
    """
    at, start = _transaction(manifest)
    first, last = _transaction(other)
    footer = struct.pack("<Q", at + last - first) + manifest[-8:]
    return manifest[:at] + other[first:last] + manifest[start:-16] + footer


def _transaction(body: bytes) -> tuple[int, int]:
    """From where to where in a manifest file its transaction lies."""
    [index] = fields_of(body).values.get(INDEX_SECTION, [None])
    (start,) = struct.unpack("<Q", body[-16:-8])
    at = index + 4 + len(section(body, index)) if isinstance(index, int) else 0
    if at + 4 > start or at + 4 + len(section(body, at)) != start:
        raise ValueError("the transaction does not lie before the fields")
    return at, start


def number_of(fragment: bytes) -> int:
    """Its number is written first, unless it is 0, which is not written."""
    return varint(fragment, 1)[0] if fragment[:1] == b"\x08" else 0


def _in_any_order(message: bytes) -> list[tuple[int, list[Value]]]:
    return sorted((n, sorted(found, key=repr)) for n, found in by_number(message).items())
