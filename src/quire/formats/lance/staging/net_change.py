"""The net effect of a transaction on one Lance table, relative to its base.

Whatever the statements were, what remains is: rows of base fragments that are gone, and new fragments (some of whose
rows may be gone again). That is what is staged, once, on the base; and because new rows lie in files of their own,
the same net effect can be moved to another base without rewriting a data file. Only deletion vectors are written
anew, as the union with those of the new base.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from quire.formats.row_bitmap import NONE, Marks, by_fragment

if TYPE_CHECKING:
    from lance import LanceDataset
    from lance.fragment import FragmentMetadata

T = TypeVar("T")
Offsets = NDArray[np.uint32]
Addresses = NDArray[np.uint64]

AT_ONCE = 250_000
"""Rows whose numbers are spelled out at once, to be written to deletion vectors."""


@dataclass
class Added:
    """A staged fragment, and which of its own rows a later statement removed."""

    fragment: FragmentMetadata
    deleted: Marks = NONE

    @property
    def path(self) -> str:
        return str(self.fragment.files[0].path)

    @property
    def rows(self) -> int:
        return int(self.fragment.physical_rows) - self.rows_deleted

    @property
    def rows_deleted(self) -> int:
        return 0 if self.deleted is NONE else len(self.deleted)


@dataclass
class Net:
    deleted: dict[int, Marks] = field(default_factory=dict)
    hard: dict[int, Marks] = field(default_factory=dict)
    """The part of `deleted` that was chosen by a predicate (update, delete) rather than by key."""
    added: list[Added] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.deleted or self.added)

    def copy(self) -> Net:
        """The same effect, so that a statement that fails can be undone."""
        return Net(dict(self.deleted), dict(self.hard), [Added(a.fragment, a.deleted) for a in self.added])

    def add(self, fragments: Sequence[FragmentMetadata], without: Mapping[int, Offsets] | None = None) -> None:
        """Add fragments, without those of their rows that are named by position."""
        left_out = {i: Marks.of(rows) for i, rows in (without or {}).items()}
        self.added.extend(Added(f, left_out.get(i, NONE)) for i, f in enumerate(fragments))

    def remove(self, rows: Addresses | Mapping[int, Marks], own: dict[int, int], *, hard: bool) -> None:
        """Remove rows in a view of base + net, whose fragments `own` are the added ones."""
        for fragment, marks in by_fragment(rows).items():
            if fragment in own:
                added = self.added[own[fragment]]
                added.deleted = added.deleted | marks
                continue
            self.deleted[fragment] = self.deleted.get(fragment, NONE) | marks
            if hard:
                self.hard[fragment] = self.hard.get(fragment, NONE) | marks

    @property
    def rows_added(self) -> int:
        return sum(a.rows for a in self.added)

    @property
    def rows_removed(self) -> int:
        return sum(len(o) for o in self.deleted.values())

    @property
    def bytes_added(self) -> int:
        return data_bytes(a.fragment for a in self.added)


def written(fragments: Iterable[FragmentMetadata], schema: Any) -> list[str]:
    """The files of fragments, below the table's folder. Large blobs lie beside a data file, in a folder of its name."""
    names = [f"data/{file.path}" for fragment in fragments for file in fragment.files]
    if any(_holds_blobs(f.type) for f in schema):
        names += [name.removesuffix(".lance") + "/" for name in names]
    return names


def _holds_blobs(kind: Any) -> bool:
    if str(getattr(kind, "extension_name", "")).startswith("lance.blob"):
        return True
    kind = getattr(kind, "storage_type", kind)
    return any(_holds_blobs(kind.field(i).type) for i in range(kind.num_fields))


def data_bytes(fragments: Iterable[FragmentMetadata]) -> int:
    """Size of the data files, deleted rows included."""
    return sum(int(file.file_size_bytes or 0) for fragment in fragments for file in fragment.files)


def numbers(handle: LanceDataset, added: Sequence[Added]) -> dict[int, int]:
    """Fragment ids that a staged version gave to added fragments: id -> position in `added`."""
    position = {a.path: i for i, a in enumerate(added)}
    return {
        int(f.fragment_id): position[path]
        for f in handle.get_fragments()
        if (path := str(f.metadata.files[0].path)) in position
    }


def deletion_path(number: int, metadata: FragmentMetadata) -> str:
    described = metadata.to_json()["deletion_file"]
    suffix = "arrow" if described["file_type"] == "array" else "bin"
    return f"_deletions/{number}-{described['read_version']}-{described['id']}.{suffix}"
