"""What a plain Lance client did behind Quire's back, and how it becomes an ordinary commit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from quire.errors import Conflict, DuplicateKeys
from quire.formats.keys import check_distinct
from quire.formats.lance import match
from quire.formats.lance.columns import manifest_name
from quire.formats.lance.net import Added, Net, data_bytes
from quire.formats.lance.promote import head_of
from quire.formats.lance.rebase import files
from quire.formats.lance.session import LanceSession
from quire.formats.lance.statements import Keyed, Staging, done
from quire.formats.lance.work import LanceWork
from quire.formats.marks import NONE, Marks, by_fragment
from quire.formats.protocol import AlreadyAdopted, Foreign, Overlap, Staged, Work
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
        lost = [c for c in key if head.schema.get_field_index(c) < 0]
        if lost:
            raise Conflict(
                f"The foreign write to table {table!r} removed its key column {lost[0]!r}.",
                next="It is kept on a branch of its own; take from there what you need.",
                table=table,
                column=lost[0],
            )
        self.exclusive = not set(ops) <= ROWS_ONLY
        self._moved = False
        if not self.exclusive:
            self.net = difference(base, head)
            if key and self.net.added:
                keys = _keys(head, self.net, key)
                self._check_unique(key, keys)
                self.statements.append(Keyed("insert", Staging(keys.num_rows, done([])), tuple(key), keys))
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
        unknown = Change(table="", name=self.table, ops=("adopt",))
        if self._key_taken(key) or self.rebase(self.pin, [unknown]) is not None:
            raise Conflict(
                f"The foreign write to table {self.table!r} touches rows that the lake has changed since.",
                next="It is kept on a branch of its own; take from there what you need.",
                table=self.table,
            )

    def _key_taken(self, key: Sequence[str]) -> bool:
        """Whether a foreign row has the key of any row that the pin holds and the foreign writer did not remove."""
        for statement in self.statements:
            if isinstance(statement, Keyed):
                pinned = self.session.open(self.pin)
                addresses, _, _ = match.where_key(pinned, key, statement.keys)
                for number, offsets in by_fragment(addresses).items():
                    if not np.isin(offsets, self.net.deleted.get(number, NONE)).all():
                        return True
        return False

    def _check_unique(self, key: Sequence[str], keys: Any) -> None:
        """A plain client knows no keys: what it wrote may break one."""
        try:
            check_distinct(keys, key, self.table)
        except DuplicateKeys as error:
            raise Conflict(error.message, next=error.next, table=self.table) from None
        addresses, _, positions = match.where_key(self.head, key, keys)
        if len(addresses) > keys.num_rows:
            counts = np.bincount(positions.to_numpy(), minlength=keys.num_rows)
            twice = keys.take(np.flatnonzero(counts > 1)).slice(0, 20).to_pylist()
            raise self.key_conflict(twice)

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
            self.pin,
            version=str(head),
            head=head,
            counter=self.pin.counter + 1,
            rows=int(self.head.count_rows()),
            bytes=data_bytes(f.metadata for f in self.head.get_fragments()),
            fragments=len(self.head.fragment_ids()),
        )
        files = [f"data/{file.path}" for a in self.net.added for file in a.fragment.files]
        files.append(f"_versions/{manifest_name(head)}")
        return Staged(pin, (), self.net.rows_added, self.net.rows_removed, tuple(files))


def difference(base: LanceDataset, head: LanceDataset) -> Net:
    """The net effect that leads from one version to another."""
    net = Net()
    old = {int(f.fragment_id): f for f in base.get_fragments()}
    new = {int(f.fragment_id): f for f in head.get_fragments()}
    for number, fragment in old.items():
        before = match.alive(base, number)
        same = number in new and files(new[number]) == files(fragment)
        gone = np.setdiff1d(before, match.alive(head, number)) if same else before
        if len(gone):
            net.deleted[number] = net.hard[number] = Marks.of(gone)
    for number, fragment in new.items():
        if number in old and files(old[number]) == files(fragment):
            continue
        living = match.alive(head, number)
        metadata = fragment.metadata
        everything = np.arange(int(metadata.physical_rows), dtype=np.uint32)
        net.added.append(Added(unnumbered(metadata), Marks.of(np.setdiff1d(everything, living))))
    return net


def unnumbered(metadata: FragmentMetadata) -> FragmentMetadata:
    """The same data files as a fragment that has no number and no deletion vector yet."""
    from lance.fragment import FragmentMetadata

    described: dict[str, Any] = metadata.to_json()
    described.update(id=0, deletion_file=None)
    return FragmentMetadata.from_json(json.dumps(described))


def _keys(head: LanceDataset, net: Net, key: Sequence[str]) -> Any:
    paths = {a.path for a in net.added}
    fragments = [f for f in head.get_fragments() if str(f.metadata.files[0].path) in paths]
    return head.scanner(columns=list(key), fragments=fragments).to_table()
