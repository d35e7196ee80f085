"""The net effect of a transaction on one Lance table, relative to its base.

Whatever the statements were, what remains is: rows of base fragments that are gone, and new fragments (some of whose
rows may be gone again). That is what is staged, once, on the base; and because new rows lie in files of their own,
the same net effect can be moved to another base without rewriting a data file. Only deletion vectors are written
anew, as the union with those of the new base.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quire.formats.lance.metering import Scan, deletions, metered, sending
from quire.formats.lance.session import LanceSession, same_schema, translating
from quire.formats.marks import NONE, Marks, by_fragment
from quire.store import clock, run_parallel

if TYPE_CHECKING:
    from lance import LanceDataset
    from lance.fragment import FragmentMetadata

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
        return int(self.fragment.physical_rows) - len(self.deleted)


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
            uuid=str(clock.uuid4()),
            transaction_properties=self.properties,
        )
        handle = self.session.call(
            "stage",
            lambda: LanceDataset.commit(base, transaction, detached=True),
            hops=2,
            what=f"staging of {self.location}",
            location=self.location,
        )
        self.files.append(f"_transactions/{base.version}-{transaction.uuid}.txn")
        self.files.append(f"_versions/d{handle.version}.manifest")
        return self.session.remember(self.location, handle)

    def write(
        self, reader: Any, base: LanceDataset, schema: Any, *, scan: Scan | None = None
    ) -> list[FragmentMetadata]:
        """Data files that no manifest names yet. A `scan` of which the rows come belongs to the call."""
        from lance.fragment import write_fragments

        with metered("write", base.uri, steps=1) as window, translating(f"data of {self.location}"):
            fragments = write_fragments(reader, base, schema=schema, mode="append", max_bytes_per_file=1 << 30)
            window.steps, window.in_turn = sending(file for f in fragments for file in f.files)
            if scan is not None:
                window.steps, window.in_turn = window.steps + scan.steps, False
        self.files.extend(written(fragments, schema))
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
            grown = self.detach(base, Op.Append(fragments))
            same_schema(grown, base)
            return grown
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

    def remove_rows(
        self, base: LanceDataset, deleted: Mapping[int, Marks | Offsets]
    ) -> tuple[list[FragmentMetadata], list[int]]:
        """Fragments with a larger deletion vector, and the ids of those with no row left."""
        updated: list[FragmentMetadata] = []
        removed: list[int] = []

        def one(number: int) -> FragmentMetadata | None:
            fragment: Any = base.get_fragment(number)
            steps = 1 + deletions(base, [fragment])
            with metered("delete", base.uri, steps=steps), translating(f"deletion vector of {self.location}"):
                return _without(fragment, deleted[number])

        for some in in_turn({number: len(deleted[number]) for number in sorted(deleted)}):
            results = run_parallel([lambda n=n: one(n) for n in some])  # type: ignore[misc]
            for number, metadata in zip(some, results, strict=True):
                if metadata is None:
                    removed.append(number)
                else:
                    updated.append(metadata)
                    self.files.append(deletion_path(number, metadata))
        return updated, removed


def _without(fragment: Any, rows: Marks | Offsets) -> FragmentMetadata | None:
    """A fragment with these rows deleted, or None when none is left.

    `LanceFragment.delete_rows` does the same and makes a Python number of every row first.
    """
    left = fragment._fragment.delete_rows(np.asarray(rows, np.uint32).data)
    return None if left is None else left.metadata()


def in_turn(sizes: Mapping[int, int], at_once: int = AT_ONCE) -> list[list[int]]:
    """Fragments in groups that hold about so many rows together, and at least one fragment."""
    groups: list[list[int]] = []
    full = 0
    for number, rows in sizes.items():
        if not groups or full + rows > at_once:
            groups.append([])
            full = 0
        groups[-1].append(number)
        full += rows
    return groups


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
