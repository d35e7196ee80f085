"""What a plain Lance client did behind Quire's back, and how it becomes an ordinary commit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from quire.conversion import held
from quire.errors import Conflict, DuplicateKeys
from quire.formats import AlreadyAdopted, Foreign, Overlap, Staged, Work
from quire.formats.keys import check_distinct, conflict
from quire.formats.lance.head.backfill import head_of
from quire.formats.lance.inspect.addressed_rows import deleted, deletion_file, read_deleted
from quire.formats.lance.inspect.row_diff import by_path
from quire.formats.lance.metering import scanned
from quire.formats.lance.session import LanceSession, manifest_name, translating
from quire.formats.lance.staging import find_rows
from quire.formats.lance.staging.net_change import Added, Net, data_bytes
from quire.formats.lance.staging.rebase import files
from quire.formats.lance.staging.statements import Keyed, Staging, done
from quire.formats.lance.staging.work import LanceWork
from quire.formats.row_bitmap import NONE, Marks, by_fragment
from quire.ledger import Change, Pin

if TYPE_CHECKING:
    from lance import LanceDataset
    from lance.fragment import FragmentMetadata

OPS = {
    "Append": "append",
    "Update": "update",
    "Delete": "delete",
    "CreateIndex": "index",
    "Rewrite": "compact",
    "BaseOperation": "compact",  # the reservation of fragment numbers that comes before a compaction
    "Merge": "schema",
    "Project": "schema",
    "UpdateConfig": "schema",
    "DataReplacement": "overwrite",
    "DataOverlay": "overwrite",
    "Overwrite": "overwrite",
    "Restore": "overwrite",
}
ROWS_ONLY = frozenset({"append", "update", "delete", "compact", "index"})
"""What can be moved onto a rival's state as rows. An index that covered moved rows is left behind; its rows are not."""


def trace(session: LanceSession, pin: Pin, head: int, lake: str) -> Foreign:
    """The foreign versions up to `head`, back to the newest version that is Quire's own or was adopted."""
    ops: list[str] = []
    details: list[str] = []
    version = head
    while version > 0:
        handle: Any = session.private(pin.location, version)
        if version <= pin.head or str(version) == pin.version or head_of(handle, lake).counter is not None:
            break
        name = type(handle.read_transaction(version).operation).__name__
        ops.append(OPS.get(name, "overwrite"))
        details.append(f"version {version}: {name}")
        version -= 1
    return Foreign(version, head, tuple(reversed(ops)), tuple(reversed(details)))


class Graft(LanceWork):
    """The change from linear version `base` to `head`, as work of a transaction that began at `base`.

    With no rival it pins the foreign version itself. Otherwise its rows are moved onto the rival's state by the same
    rules, and with the same data files, as any other transaction's.
    """

    def __init__(
        self,
        session: LanceSession,
        pin: Pin,
        base: LanceDataset,
        head: LanceDataset,
        *,
        same: bool,
        key: Sequence[str],
        ops: Sequence[str],
        properties: dict[str, str],
        table: str,
    ) -> None:
        super().__init__(session, pin, base, properties=properties, table=table)
        self.head = head
        draft = self.draft
        lost = [c for c in key if head.schema.get_field_index(c) < 0]
        if lost:
            raise Conflict(
                f"The foreign write to table {table!r} removed its key column {lost[0]!r}.",
                next="It is kept on a branch of its own; take from there what you need.",
                table=table,
                column=lost[0],
            )
        draft.exclusive = not set(ops) <= ROWS_ONLY
        self._moved = False
        if not draft.exclusive:
            draft.net = difference(base, head, fresh_ids=True)
            if key and draft.net.added:
                keys = _keys(head, draft.net, key)
                self._check_unique(key, keys)
                draft.statements.append(Keyed("insert", Staging(keys.num_rows, done([])), tuple(key), keys))
        elif key:
            self._check_unique(key, head.scanner(columns=list(key)).to_table())
        if not same:
            self._move(key)

    @property
    def changed(self) -> bool:
        return True

    @property
    def additive(self) -> bool:
        return False  # it also says up to where plain writers were heard

    def _move(self, key: Sequence[str]) -> None:
        """Put the foreign rows on the pin, which holds more than the foreign writer saw."""
        unknown = Change(table="", name=self.draft.table, ops=("adopt",))
        if self._key_taken(key) or self.rebase(self.draft.pin, [unknown]) is not None:
            raise Conflict(
                f"The foreign write to table {self.draft.table!r} touches rows that the lake has changed since.",
                next="It is kept on a branch of its own; take from there what you need.",
                table=self.draft.table,
            )

    def _key_taken(self, key: Sequence[str]) -> bool:
        """Whether a foreign row has the key of any row that the pin holds and the foreign writer did not remove."""
        for statement in self.draft.statements:
            if isinstance(statement, Keyed):
                pinned = self.draft.session.open(self.draft.pin)
                addresses, _, _ = find_rows.where_key(pinned, key, statement.keys)
                for number, offsets in by_fragment(addresses).items():
                    if not np.isin(offsets, self.draft.net.deleted.get(number, NONE)).all():
                        return True
        return False

    def _check_unique(self, key: Sequence[str], keys: Any) -> None:
        """A plain client knows no keys: what it wrote may break one."""
        try:
            check_distinct(keys, key, self.draft.table)
        except DuplicateKeys as error:
            raise Conflict(error.message, next=error.next, table=self.draft.table) from None
        addresses, _, positions = find_rows.where_key(self.head, key, keys)
        if len(addresses) > keys.num_rows:
            counts = np.bincount(positions.to_numpy(), minlength=keys.num_rows)
            twice = held.rows(keys.take(np.flatnonzero(counts > 1)).slice(0, 20))
            raise conflict(twice, self.draft.table)

    def rebase(self, onto: Pin, theirs: Sequence[Change]) -> Overlap | None:
        if any("adopt" in c.ops and c.pin is not None and c.pin.head >= int(self.head.version) for c in theirs):
            raise AlreadyAdopted
        if self.exclusive:
            return Overlap("rows", hard=True)
        overlap = super().rebase(onto, theirs)
        if overlap is not None:
            # There are no statements to run again: what cannot be moved is a conflict.
            overlap = replace(overlap, hard=True)
        self._moved = self._moved or overlap is None
        return overlap

    def stage(self, behind: Sequence[Work] = ()) -> Staged:
        assert not behind
        head = int(self.head.version)
        if self._moved:
            staged = super().stage()
            return replace(staged, pin=msgspec.structs.replace(staged.pin, head=head))
        pin = msgspec.structs.replace(
            self.draft.pin,
            version=str(head),
            head=head,
            counter=self.draft.pin.counter + 1,
            rows=int(self.head.count_rows()),
            bytes=data_bytes(f.metadata for f in self.head.get_fragments()),
            fragments=len(self.head.fragment_ids()),
        )
        files = [f"data/{file.path}" for a in self.draft.net.added for file in a.fragment.files]
        files.append(f"_versions/{manifest_name(head)}")
        return Staged(pin, (), self.draft.net.rows_added, self.draft.net.rows_removed, tuple(files))


def difference(base: LanceDataset, head: LanceDataset, *, fresh_ids: bool = False) -> Net:
    """The net effect that leads from one version to another.

    With `fresh_ids`, rows that the base lacks get new stable ids wherever the effect is applied.
    """
    net = Net()
    old, new = by_path(base), by_path(head)
    apart = [path for path, f in old.items() if path in new and deletion_file(f) != deletion_file(new[path])]
    read_deleted(pair for path in apart for pair in ((base, old[path]), (head, new[path])))
    for path, fragment in old.items():
        if path not in new or files(new[path]) != files(fragment):
            gone = find_rows.alive(base, int(fragment.fragment_id))
        elif deletion_file(fragment) == deletion_file(new[path]):
            continue
        else:
            gone = np.setdiff1d(deleted(head, new[path]), deleted(base, fragment), assume_unique=True)
        if len(gone):
            number = int(fragment.fragment_id)
            net.deleted[number] = net.hard[number] = Marks.of(gone)
    for path, fragment in new.items():
        if path in old and files(old[path]) == files(fragment):
            continue
        net.added.append(Added(fragment.metadata, Marks.of(deleted(head, fragment))))
    moved = _ids_of(base, net.deleted) if fresh_ids and head.has_stable_row_ids and net.added else None
    for added in net.added:
        number = int(added.fragment.id)
        # A new row got its id from the plain writer, and the lake may have given the same one to another row since. A
        # row that was there before, and was moved, has its id alone.
        keep = moved is None or bool(np.isin(_ids_of(head, {number: None}), moved).all())
        added.fragment = unnumbered(added.fragment, row_ids=keep)
    return net


def _ids_of(handle: LanceDataset, rows: Mapping[int, Marks | None]) -> NDArray[np.uint64]:
    """Stable ids of some living rows, by fragment; None stands for all."""
    found = [np.empty(0, np.uint64)]
    for number, marks in rows.items():
        fragment: Any = handle.get_fragment(number)
        with scanned("scan", handle, [fragment]) as scan, translating(f"row ids of fragment {number}"):
            options = {"with_row_id": True, "with_row_address": True, "fragments": [fragment], **scan.options}
            table = handle.scanner(columns=[], **options).to_table()
        ids = table.column("_rowid").to_numpy()
        if marks is not None:
            offsets = (table.column("_rowaddr").to_numpy() & np.uint64(0xFFFFFFFF)).astype(np.uint32)
            ids = ids[np.isin(offsets, np.asarray(marks))]
        found.append(ids)
    return np.concatenate(found)


def unnumbered(metadata: FragmentMetadata, *, row_ids: bool = True) -> FragmentMetadata:
    """The same data files as a fragment that has no number and no deletion vector yet.

    Without `row_ids` its rows get new ids where they are committed.
    """
    from lance.fragment import FragmentMetadata

    described: dict[str, Any] = metadata.to_json()
    described.update(id=0, deletion_file=None)
    if not row_ids:
        described.update(row_id_meta=None, created_at_version_meta=None, last_updated_at_version_meta=None)
    return FragmentMetadata.from_json(json.dumps(described))


def _keys(head: LanceDataset, net: Net, key: Sequence[str]) -> Any:
    paths = {a.path for a in net.added}
    fragments = [f for f in head.get_fragments() if str(f.metadata.files[0].path) in paths]
    return head.scanner(columns=list(key), fragments=fragments).to_table()
