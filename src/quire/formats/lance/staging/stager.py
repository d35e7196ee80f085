"""Staged versions of one table, made without moving its HEAD, and the files that they consist of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from quire.errors import NotFound, Refused, StorageError
from quire.formats.lance.lookups.written import Noting
from quire.formats.lance.metering import Scan, Window, deletions, metered, sending
from quire.formats.lance.scratch import NoScratch
from quire.formats.lance.session import LanceSession, manifest_name, same_schema, translating
from quire.formats.lance.staging import scratch_table
from quire.formats.lance.staging.net_change import AT_ONCE, Added, Net, Offsets, deletion_path, numbers, written
from quire.formats.outbox import Outbox
from quire.formats.row_bitmap import Marks
from quire.store import clock, run_parallel

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset
    from lance.fragment import FragmentMetadata

T = TypeVar("T")


class Stager:
    """Makes detached commits from pinned handles, and remembers which files they wrote.

    For a table in a cloud they are made on this machine, from the manifest alone (`scratch_table`), and what comes out
    waits in the `outbox` until somebody needs it. On a local disk and in memory, and wherever this machine has no room,
    Lance writes to the table itself.
    """

    def __init__(self, session: LanceSession, location: str, properties: dict[str, str]) -> None:
        self.session = session
        self.location = location
        self.properties = properties
        self.files: list[str] = []
        self._outbox: Outbox | None = None
        self.unplaced: LanceDataset | None = None
        """The first version of a new table, in a folder that is gone: it knows the manifest, and reads nothing."""
        self.is_apart = session.is_remote(location)
        """Whether versions are made on this machine."""

    @property
    def outbox(self) -> Outbox:
        """What waits to be sent. Where versions are made in the table itself nobody asks for it."""
        if self._outbox is None:
            self._outbox = Outbox(self.session.files, self.location)
        return self._outbox

    def append(
        self, rows: pa.Table, base: LanceDataset, schema: Any
    ) -> tuple[list[FragmentMetadata], LanceDataset] | None:
        """Write few rows, and the version that has them, in one folder of this machine; None where that cannot be."""
        from lance import LanceDataset
        from lance import LanceOperation as Op

        if not self.is_apart or rows.nbytes > self.outbox.room:
            return None
        noting = Noting(base, rows.to_reader())
        try:
            body = self.manifest(base.version)
            with scratch_table.at_version_of(base, body, size=2 * rows.nbytes) as table:
                fragments = self._write_fragments(noting.reader, table.handle, schema)
                with translating(f"staging of {self.location}"):
                    transaction = self._transaction(base, Op.Append(fragments))
                    version = int(LanceDataset.commit(table.handle, transaction, detached=True).version)
                made = table.made()
        except (NotFound, StorageError):
            return None  # whatever it is, one after the other will tell
        self.keep(made)
        self.files.extend(made)
        noting.take(fragments)
        name = f"_versions/{manifest_name(version)}"
        handle = self.session.remember_manifest(self.location, version, made[name])
        same_schema(handle, base)
        return fragments, handle

    def _transaction(self, base: LanceDataset, operation: Any) -> Any:
        from lance import Transaction

        return Transaction(
            read_version=base.version,
            operation=operation,
            uuid=str(clock.uuid4()),
            transaction_properties=self.properties,
        )

    def detach(self, base: LanceDataset, operation: Any) -> LanceDataset:
        """One detached commit. Always from the handle: by URI it would be applied to HEAD."""
        transaction = self._transaction(base, operation)
        handle = self._detached_apart(base, transaction)
        if handle is None:  # one without rows is false
            handle = self._detached(base, transaction)
        self.files.append(f"_versions/{manifest_name(handle.version)}")
        return handle

    def _detached_apart(self, base: LanceDataset, transaction: Any) -> LanceDataset | None:
        """The same on this machine: the manifest is unsent, and opened from its bytes."""
        from lance import LanceDataset

        if not self.is_apart:
            return None
        try:
            body = self.manifest(base.version)
            with scratch_table.at_version_of(base, body) as table, translating(f"staging of {self.location}"):
                version = LanceDataset.commit(table.handle, transaction, detached=True).version
                made = table.manifest(version)
        except (NotFound, NoScratch):
            return None
        self.keep({f"_versions/{manifest_name(version)}": made})
        return self.session.remember_manifest(self.location, version, made)

    def _detached(self, base: LanceDataset, transaction: Any) -> LanceDataset:
        from lance import LanceDataset

        base = self._written_to(base)
        handle = self.session.call(
            "stage",
            lambda: LanceDataset.commit(base, transaction, detached=True),
            hops=2,
            what=f"staging of {self.location}",
            location=self.location,
        )
        self.files.append(f"_transactions/{base.version}-{transaction.uuid}.txn")
        return self.session.remember(self.location, handle)

    def manifest(self, version: int) -> bytes:
        """The manifest file of a version, whether it was sent or not."""
        name = f"_versions/{manifest_name(version)}"
        return self.outbox.data(name) or self.session.files.read(self.location, name)

    def keep(self, made: dict[str, bytes]) -> None:
        """Files that were made on this machine: unsent, and known to whoever stages on top of them."""
        for name, data in made.items():
            if not name.startswith("data/"):
                self.session.files.keep(self.location, name, data)
        self.outbox.add(made)

    def write(
        self, reader: Any, base: LanceDataset, schema: Any, *, scan: Scan | None = None
    ) -> list[FragmentMetadata]:
        """Data files that no manifest names yet. A `scan` of which the rows come belongs to the call."""

        def write_all(batches: Any, like: LanceDataset) -> list[FragmentMetadata]:
            return self._write_fragments(batches, like, schema)

        noting = Noting(base, reader)
        fragments = self._write(noting.reader, base, schema, write_all, lambda fragments: fragments, scan)
        noting.take(fragments)
        return fragments

    def _write_fragments(self, batches: Any, like: LanceDataset, schema: Any) -> list[FragmentMetadata]:
        from lance.fragment import write_fragments

        with translating(f"data of {self.location}"):
            return list(write_fragments(batches, like, schema=schema, mode="append", max_bytes_per_file=1 << 30))

    def write_anew(self, reader: Any, base: LanceDataset, schema: Any) -> Any:
        """Data files of rows that replace all others, whatever their columns: Lance's operation, which names them."""
        from lance.fragment import write_fragments

        def write_all(batches: Any, like: LanceDataset) -> Any:
            with translating(f"data of {self.location}"):
                made: Any = write_fragments(
                    batches, like, schema=schema, mode="overwrite", return_transaction=True, max_bytes_per_file=1 << 30
                )
                return made.operation

        return self._write(reader, base, schema, write_all, lambda operation: operation.fragments, None)

    def _write(
        self,
        reader: Any,
        base: LanceDataset,
        schema: Any,
        write_all: Callable[[Any, LanceDataset], T],
        fragments_of: Callable[[T], list[FragmentMetadata]],
        scan: Scan | None,
    ) -> T:
        if self.is_apart:
            few, reader = self._few(reader, base, scan)
            made = None if few is None else self._written_apart(few, base, write_all)
            if made is not None:
                return made
        base = self._written_to(base)
        with metered("write", base.uri, steps=1) as window:
            done = write_all(reader, base)
            window.steps, window.in_turn = sending(file for f in fragments_of(done) for file in f.files)
            if scan is not None:
                window.steps, window.in_turn = window.steps + scan.steps, False
        self.files.extend(written(fragments_of(done), schema))
        return done

    def _few(self, reader: Any, base: LanceDataset, scan: Scan | None) -> tuple[list[Any] | None, Any]:
        """All the rows of a reader, if they are few enough to be kept; and a reader of all of them."""
        window = None if scan is None else Window("scan", base.uri, steps=0).begin()
        try:
            few, rest = first_rows(reader, self.outbox.room)
        finally:
            if window is not None and scan is not None:
                made = window.stop()
                window.charge(min(made, scan.steps) if made else 0)
        return few, rest

    def _written_apart(self, rows: list[Any], base: LanceDataset, write_all: Callable[[Any, Any], T]) -> T | None:
        import pyarrow as pa

        if not rows:
            return None
        try:
            body = self.manifest(base.version)
            with scratch_table.at_version_of(base, body, size=2 * sum(b.nbytes for b in rows)) as table:
                done = write_all(pa.Table.from_batches(rows), table.handle)
                made = table.made()
        except (NotFound, StorageError):
            return None  # whatever it is, writing to the table itself will tell
        self.keep(made)
        self.files.extend(made)
        return done

    @property
    def sent(self) -> tuple[str, ...]:
        """The files that are in the store, as far as we wrote them."""
        return tuple(name for name in self.files if self._outbox is None or name not in self._outbox)

    # -- what is unsent ---------------------------------------------------------------------------------------

    def send(self, *versions: int) -> None:
        """Bring into the store what these versions are made of, and all other rows, if it is not there yet."""
        if self._outbox is None:
            return
        manifests = {f"_versions/{manifest_name(version)}" for version in versions}
        self._outbox.send(lambda name: not name.startswith("_versions/") or name in manifests)

    def send_rows(self) -> None:
        if self._outbox is not None:
            self._outbox.send(lambda name: name.startswith("data/"))

    def placed(self, handle: LanceDataset) -> LanceDataset:
        """The same version to be read, or written to by Lance itself: the store has what it is made of.

        Where nothing may be written to the store, the same to be read here.
        """
        self.send(handle.version)
        if self.session.is_aside:
            return self.session.here(self.location, handle)
        return handle if handle is not self.unplaced else self.session.open_version(self.location, handle.version)

    def _written_to(self, handle: LanceDataset) -> LanceDataset:
        """A version that Lance itself writes to."""
        if self.session.is_aside:
            raise Refused(
                f"What comes of the table at {self.location} is too much to be held on this machine, and the lake was"
                " opened read-only.",
                next="Open the lake without read_only=True; what is staged there is invisible until it is committed.",
                location=self.location,
            )
        return self.placed(handle)

    def forget_rows(self, kept: Iterable[FragmentMetadata]) -> None:
        """Forget unsent rows, all but those of these fragments: the table does not hold them any more."""
        stems = {stem(f"data/{file.path}") for fragment in kept for file in fragment.files}
        gone = {n for n in self.files if n.startswith("data/") and stem(n) not in stems and n in self.outbox}
        self.outbox.drop(gone)
        self.files = [name for name in self.files if name not in gone]

    def start_again(self) -> None:
        """Forget what was staged on another base. Data and index files are kept: they mean the same on every base."""
        left = [name for name in self.files if name.startswith(("data/", "_indices/"))]
        self.outbox.drop(set(self.files) - set(left))
        self.files = left

    def apply(self, base: LanceDataset, net: Net) -> LanceDataset:
        """A staged version: `base` with the net effect."""
        from lance import LanceOperation as Op

        if not net:
            return base
        added = [a for a in net.added if a.rows]
        if any(a.rows_deleted for a in added):
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
        found = self._removed_apart(base, deleted)
        if found is None:
            found = self._removed(base, deleted)
        updated = [metadata for metadata in found.values() if metadata is not None]
        self.files.extend(deletion_path(int(metadata.id), metadata) for metadata in updated)
        return updated, [number for number, metadata in found.items() if metadata is None]

    def _removed_apart(
        self, base: LanceDataset, deleted: Mapping[int, Marks | Offsets]
    ) -> dict[int, FragmentMetadata | None] | None:
        """The same on this machine, from the vectors that there are; None if they are many, or not this table's."""
        if not self.is_apart:
            return None
        fragments = {number: base.get_fragment(number).metadata for number in sorted(deleted)}  # type: ignore[union-attr]
        size = sum(vector_bytes(metadata, len(deleted[number])) for number, metadata in fragments.items())
        if size > self.outbox.room or any(lies_elsewhere(metadata) for metadata in fragments.values()):
            return None
        try:
            body = self.manifest(base.version)
            vectors = self._vectors(fragments)
            with scratch_table.at_version_of(base, body, beside=vectors, size=size) as table:
                with translating(f"deletion vector of {self.location}"):
                    found = {n: _without(table.handle.get_fragment(n), deleted[n]) for n in fragments}
                self.keep(table.made())
        except (NotFound, NoScratch):
            return None
        return found

    def _vectors(self, fragments: Mapping[int, FragmentMetadata]) -> dict[str, bytes]:
        """The deletion vectors that fragments have, by the names of their files."""
        names = [deletion_path(n, m) for n, m in fragments.items() if m.deletion_file is not None]
        found = run_parallel([partial(self._vector, name) for name in names])
        return dict(zip(names, found, strict=True))

    def _vector(self, name: str) -> bytes:
        return self.outbox.data(name) or self.session.files.read(self.location, name)

    def _removed(
        self, base: LanceDataset, deleted: Mapping[int, Marks | Offsets]
    ) -> dict[int, FragmentMetadata | None]:
        base = self._written_to(base)

        def one(number: int) -> FragmentMetadata | None:
            fragment: Any = base.get_fragment(number)
            steps = 1 + deletions(base, [fragment])
            with metered("delete", base.uri, steps=steps), translating(f"deletion vector of {self.location}"):
                return _without(fragment, deleted[number])

        found: dict[int, FragmentMetadata | None] = {}
        for some in in_turn({number: len(deleted[number]) for number in sorted(deleted)}):
            results = run_parallel([lambda n=n: one(n) for n in some])  # type: ignore[misc]
            found |= zip(some, results, strict=True)
        return found


def _without(fragment: Any, rows: Marks | Offsets) -> FragmentMetadata | None:
    """A fragment with these rows deleted, or None when none is left.

    `LanceFragment.delete_rows` does the same and makes a Python number of every row first.
    """
    left = fragment._fragment.delete_rows(np.asarray(rows, np.uint32).data)
    return None if left is None else left.metadata()


def first_rows(reader: Any, limit: int) -> tuple[list[Any] | None, Any]:
    """The batches of a reader if they take at most so many bytes; and a reader that still has all of them."""
    import pyarrow as pa

    found, size = [], 0
    for batch in reader:
        found.append(batch)
        size += batch.nbytes
        if size > limit:
            return None, pa.RecordBatchReader.from_batches(reader.schema, chain(found, reader))
    return found, pa.RecordBatchReader.from_batches(reader.schema, found)


def stem(name: str) -> str:
    """A data file's name without its ending: the files beside it lie in a folder of this name."""
    return "/".join(name.split("/")[:2]).removesuffix(".lance")


def vector_bytes(fragment: FragmentMetadata, more: int) -> int:
    """About how long the deletion vector of a fragment is when more rows are deleted."""
    return min(4 * (more + (fragment.num_deletions or 0)), int(fragment.physical_rows) // 8 + 4096)


def lies_elsewhere(fragment: FragmentMetadata) -> bool:
    """Whether a fragment's deletion vector belongs to another table, of which this one is a clone."""
    vector = fragment.to_json()["deletion_file"]
    return vector is not None and vector.get("base_id") is not None


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
