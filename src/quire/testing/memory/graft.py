"""What a plain client did behind Quire's back, as the work of an ordinary transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from quire.errors import Conflict, DuplicateKeys
from quire.formats import AlreadyAdopted, Foreign, Overlap, Staged, Work
from quire.formats.keys import check_distinct, conflict
from quire.ledger import Change, Pin
from quire.testing.memory.files import Folder, version_path
from quire.testing.memory.net import difference, locate, where_key
from quire.testing.memory.statements import Keyed
from quire.testing.memory.view import MemoryView
from quire.testing.memory.work import MemoryWork

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_ONLY = frozenset({"append", "update", "delete", "compact", "index"})
"""What can be moved onto a rival's state as rows."""


class Graft(MemoryWork):
    """The change from one plain version to another, as work of a transaction that began at the first.

    With no rival it pins the foreign state itself. Otherwise its rows are moved onto the rival's state by the same
    rules, and with the same data files, as any other transaction's.
    """

    def __init__(
        self,
        folder: Folder,
        pin: Pin,
        found: Foreign,
        *,
        same: bool,
        key: Sequence[str],
        properties: dict[str, str],
        table: str,
    ) -> None:
        base = folder.version(folder.entry(found.base, table).version, table)
        super().__init__(folder, pin, base, properties=properties, table=table)
        self.number = found.head
        self.head = folder.version(folder.entry(found.head, table).version, table)
        lost = [c for c in key if self.head.field(c) is None]
        if lost:
            raise Conflict(
                f"The foreign write to table {table!r} removed its key column {lost[0]!r}.",
                next="It is kept on a branch of its own; take from there what you need.",
                table=table,
                column=lost[0],
            )
        draft = self.draft
        draft.exclusive = not set(found.ops) <= ROWS_ONLY
        self._moved = False
        if not draft.exclusive:
            draft.net = difference(base, self.head)
            if key and draft.net.added:
                keys = self._key_columns(key, {a.fragment.key for a in draft.net.added})
                self._check_unique(key, keys)
                draft.statements.append(Keyed("insert", None, tuple(key), keys))
        elif key:
            self._check_unique(key, self._key_columns(key, None))
        if not same:
            self._move(key)

    @property
    def changed(self) -> bool:
        return True

    @property
    def additive(self) -> bool:
        return False  # it also says up to where plain writers were heard

    def view(self) -> MemoryView:
        return super().view() if self._moved else MemoryView(self.draft.folder, self.head, self.draft.table)

    def _key_columns(self, key: Sequence[str], fragments: set[str] | None) -> pa.Table:
        import pyarrow as pa

        chosen = [f for f in self.head.fragments if fragments is None or f.key in fragments]
        found = locate(self.draft.folder, self.head, key, chosen, self.draft.table)
        schema = pa.schema([self.head.schema.field(n) for n in key])
        return pa.table([pa.array(found.columns[f.name], f.type) for f in schema], schema=schema)

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
        pinned: Any = None
        for statement in self.draft.statements:
            if isinstance(statement, Keyed):
                pinned = pinned or self.draft.folder.version(self.draft.pin.version, self.draft.table)
                addresses, _ = where_key(self.draft.folder, pinned, key, statement.keys, table=self.draft.table)
                if any(offset not in self.draft.net.deleted.get(name, ()) for name, offset in addresses):
                    return True
        return False

    def _check_unique(self, key: Sequence[str], keys: pa.Table) -> None:
        """A plain client knows no keys: what it wrote may break one."""
        try:
            check_distinct(keys, key, self.draft.table)
        except DuplicateKeys as error:
            raise Conflict(error.message, next=error.next, table=self.draft.table) from None
        _, positions = where_key(self.draft.folder, self.head, key, keys, table=self.draft.table)
        twice = sorted({p for p in positions if positions.count(p) > 1})
        if twice:
            raise conflict(keys.take(twice).slice(0, 20).to_pylist(), self.draft.table)

    def rebase(self, onto: Pin, theirs: Sequence[Change]) -> Overlap | None:
        if any("adopt" in c.ops and c.pin is not None and c.pin.head >= self.number for c in theirs):
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
        if self._moved:
            staged = super().stage()
            return replace(staged, pin=msgspec.structs.replace(staged.pin, head=self.number))
        pin = msgspec.structs.replace(
            self.draft.pin,
            version=self.head.id,
            head=self.number,
            counter=self.draft.pin.counter + 1,
            rows=self.head.rows,
            bytes=self.head.bytes,
            fragments=len(self.head.fragments),
        )
        files = [p for a in self.draft.net.added for p in a.fragment.paths]
        files.append(version_path(self.head.id))
        return Staged(pin, (), self.draft.net.rows_added, self.draft.net.rows_removed, tuple(files))
