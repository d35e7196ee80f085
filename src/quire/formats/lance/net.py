"""The net effect of a transaction on one Lance table, relative to its base.

Whatever the statements were, what remains is: rows of base fragments that are gone, and new fragments (some of whose
rows may be gone again). That is what is staged, once, on the base; and because new rows lie in files of their own,
the same net effect can be moved to another base without rewriting a data file. Only deletion vectors are written
anew, as the union with those of the new base.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quire.formats.lance.session import LanceSession
from quire.store import run_parallel

if TYPE_CHECKING:
    from lance import LanceDataset
    from lance.fragment import FragmentMetadata

Offsets = NDArray[np.uint32]
Addresses = NDArray[np.uint64]

NONE: Offsets = np.empty(0, np.uint32)


@dataclass
class Added:
    """A staged fragment, and which of its own rows a later statement removed."""

    fragment: FragmentMetadata
    deleted: Offsets = field(default_factory=lambda: NONE)

    @property
    def path(self) -> str:
        return str(self.fragment.files[0].path)

    @property
    def rows(self) -> int:
        return int(self.fragment.physical_rows) - len(self.deleted)


@dataclass
class Net:
    deleted: dict[int, Offsets] = field(default_factory=dict)
    hard: dict[int, Offsets] = field(default_factory=dict)
    """The part of `deleted` that was chosen by a predicate (update, delete) rather than by key."""
    added: list[Added] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.deleted or self.added)

    def copy(self) -> Net:
        """The same effect, so that a statement that fails can be undone; arrays are never changed in place."""
        return Net(dict(self.deleted), dict(self.hard), [Added(a.fragment, a.deleted) for a in self.added])

    def add(self, fragments: Sequence[FragmentMetadata]) -> None:
        self.added.extend(Added(f) for f in fragments)

    def remove(self, addresses: Addresses, own: dict[int, int], *, hard: bool) -> None:
        """Remove rows by address in a view of base + net, whose fragments `own` are the added ones."""
        for fragment, offsets in split(addresses).items():
            if fragment in own:
                added = self.added[own[fragment]]
                added.deleted = np.union1d(added.deleted, offsets)
                continue
            self.deleted[fragment] = np.union1d(self.deleted.get(fragment, NONE), offsets)
            if hard:
                self.hard[fragment] = np.union1d(self.hard.get(fragment, NONE), offsets)

    @property
    def rows_added(self) -> int:
        return sum(a.rows for a in self.added)

    @property
    def rows_removed(self) -> int:
        return sum(len(o) for o in self.deleted.values())

    @property
    def bytes_added(self) -> int:
        return data_bytes(a.fragment for a in self.added)


def split(addresses: Addresses) -> dict[int, Offsets]:
    """Row addresses by fragment: the high half names the fragment, the low half the physical row."""
    if len(addresses) == 0:
        return {}
    ordered = np.unique(addresses)
    fragments = (ordered >> np.uint64(32)).astype(np.int64)
    starts = np.flatnonzero(np.r_[True, fragments[1:] != fragments[:-1]])
    offsets = (ordered & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    return {int(fragments[s]): part for s, part in zip(starts, np.split(offsets, starts[1:]), strict=True)}


class Stager:
    """Makes detached commits from pinned handles, and remembers which files they wrote."""

    def __init__(self, session: LanceSession, location: str, properties: dict[str, str]) -> None:
        self.session = session
        self.location = location
        self.properties = properties
        self.files: list[str] = []

    def detach(self, base: LanceDataset, operation: Any) -> LanceDataset:
        """One detached commit. Always from the handle: by URI it would be applied to HEAD."""
        from lance import LanceDataset, Transaction

        transaction = Transaction(
            read_version=base.version,
            operation=operation,
            uuid=str(uuid.uuid4()),
            transaction_properties=self.properties,
        )
        handle = self.session.call(
            "stage",
            lambda: LanceDataset.commit(base, transaction, detached=True),
            hops=2,
            what=f"staging of {self.location}",
        )
        self.files.append(f"_transactions/{base.version}-{transaction.uuid}.txn")
        self.files.append(f"_versions/d{handle.version}.manifest")
        return self.session.remember(self.location, handle)

    def write(self, reader: Any, base: LanceDataset, schema: Any) -> list[FragmentMetadata]:
        """Data files that no manifest names yet."""
        from lance.fragment import write_fragments

        fragments = self.session.call(
            "write",
            lambda: write_fragments(reader, base, schema=schema, mode="append", max_bytes_per_file=1 << 30),
            hops=1,
            what=f"data of {self.location}",
        )
        self.files.extend(f"data/{file.path}" for fragment in fragments for file in fragment.files)
        return list(fragments)

    def apply(self, base: LanceDataset, net: Net) -> LanceDataset:
        """A staged version: `base` with the net effect."""
        from lance import LanceOperation as Op

        if not net:
            return base
        added = [a for a in net.added if a.rows]
        if any(len(a.deleted) for a in added):
            return self._apply_in_two(base, net, added)
        fragments = [a.fragment for a in added]
        if not net.deleted:
            return self.detach(base, Op.Append(fragments))
        updated, removed = self.remove_rows(base, net.deleted)
        if not fragments:
            return self.detach(base, Op.Delete(updated, removed, "quire"))
        return self.detach(
            base,
            Op.Update(
                removed_fragment_ids=removed,
                updated_fragments=updated,
                new_fragments=fragments,
                fields_modified=[],
                fields_for_preserving_frag_bitmap=[],
            ),
        )

    def _apply_in_two(self, base: LanceDataset, net: Net, added: list[Added]) -> LanceDataset:
        """Rows that were added and removed again need their fragment numbered before its deletion vector can be
        named.
        """
        from lance import LanceOperation as Op

        grown = self.detach(base, Op.Append([a.fragment for a in added]))
        own = numbers(grown, added)
        deleted = dict(net.deleted)
        deleted.update({number: added[i].deleted for number, i in own.items() if len(added[i].deleted)})
        updated, removed = self.remove_rows(grown, deleted)
        return self.detach(grown, Op.Delete(updated, removed, "quire"))

    def remove_rows(self, base: LanceDataset, deleted: dict[int, Offsets]) -> tuple[list[FragmentMetadata], list[int]]:
        """Fragments with a larger deletion vector, and the ids of those with no row left."""
        updated: list[FragmentMetadata] = []
        removed: list[int] = []

        def one(number: int, offsets: Offsets) -> FragmentMetadata | None:
            fragment: Any = base.get_fragment(number)
            metadata: FragmentMetadata | None = self.session.call(
                "delete",
                lambda: fragment.delete_rows(offsets.tolist()),
                hops=1,
                what=f"deletion vector of {self.location}",
            )
            return metadata

        numbers_ = sorted(deleted)
        results = run_parallel([lambda n=n: one(n, deleted[n]) for n in numbers_])  # type: ignore[misc]
        for number, metadata in zip(numbers_, results, strict=True):
            if metadata is None:
                removed.append(number)
            else:
                updated.append(metadata)
                self.files.append(deletion_path(number, metadata))
        return updated, removed


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
