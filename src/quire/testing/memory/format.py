"""Memory tables as Quire sees them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from quire.conversion.fit import fit
from quire.conversion.inputs import source
from quire.conversion.plain_types import plain_schema
from quire.conversion.source import Source, finite, selected
from quire.errors import CorruptRecord, InvalidInput, NotFound, SnapshotExpired, StorageError, Unsupported
from quire.formats import Foreign, Head, IndexSpec, Promotion, Work
from quire.formats.key_sets import is_among
from quire.ledger import Pin
from quire.store import Outcome, Store
from quire.testing.memory import head as plain
from quire.testing.memory.carry_over import (
    carry_over,
    count_rows,
    holds_files_of,
    share_new_files,
    take_away,
    take_rows,
)
from quire.testing.memory.changes import MemoryChanges, changed_rows, undo
from quire.testing.memory.columns import fields_of
from quire.testing.memory.files import Entry, Folder, Fragment, Version
from quire.testing.memory.graft import Graft
from quire.testing.memory.view import MemoryView
from quire.testing.memory.work import MemoryWork

if TYPE_CHECKING:
    import pyarrow as pa

EVERYTHING = 1 << 30

_DATA_FILE = re.compile(r"data/[0-9A-Za-z_-]{1,64}\.(json|arrow)")
_told_fragments = msgspec.json.Decoder(tuple[Fragment, ...])


class MemoryFormat:
    """A complete table format of a few hundred lines, whose every byte goes through the lake's store.

    `cached` is how many files of a table are remembered between uses. With 0, the default, each transaction and each
    read asks the store again, so that a file which is gone is noticed at once.
    """

    name = "memory"

    def __init__(self, store: Store, lake: str, *, cached: int = 0) -> None:
        self._store = store
        self._lake = lake
        self._cached = cached
        self._folders: dict[str, Folder] = {}

    def location(self, table: str) -> str:
        return f"tables/{table}.rows"

    def create(
        self, location: str, data: Any, *, schema: Any, write: str, stable_row_ids: bool, table: str
    ) -> MemoryWork:
        """A new table at a fresh location. It exists for nobody until a commit pins it."""
        given = _first_rows(data, schema, table)
        fields = fields_of(given.schema, table)
        rows = given.table()
        folder = self._folder(location, EVERYTHING)
        columns = {f.id: c.to_pylist() for f, c in zip(fields, rows.columns, strict=True)}
        fragment = folder.write_columns(columns, rows.num_rows)
        state = Version(fields, () if fragment is None else (fragment,), next_field=len(fields))
        made = folder.write_version(state, self._properties(write))
        first = Entry(made.id, op="create", lake=self._lake, counter=0, write=write)
        if folder.create_entry(1, first) is not Outcome.COMMITTED:
            raise StorageError(
                f"There is already a table at {location}, or the store did not say whether it was created.",
                next="Run the transaction again; nothing was committed.",
                table=table,
            )
        pin = Pin(
            format=self.name,
            location=location,
            version=made.id,
            counter=1,
            rows=made.rows,
            bytes=made.bytes,
            fragments=len(made.fragments),
        )
        work = MemoryWork(folder, pin, made, properties=self._properties(write), table=table, created=True)
        work.draft.files.append("")
        return work

    def register(self, uri: str) -> tuple[Pin, pa.Schema]:
        """A pin of the table that lies at `uri`, as it is now."""
        folder = self._folder(uri, 0)
        try:
            number, entry, head = plain.inspect(folder, self._lake)
        except SnapshotExpired:
            raise NotFound(
                f"There is no memory table at {uri}.", next="Give the folder that holds its versions.", uri=uri
            ) from None
        state = folder.version(entry.version)
        if plain.CLEANS in state.config:
            raise Unsupported(
                f"The table at {uri} deletes its own old versions ({plain.CLEANS}), which would destroy commits.",
                next="Remove this setting, then register it.",
                uri=uri,
            )
        pin = Pin(
            format=self.name,
            location=uri,
            version=state.id,
            counter=(head.counter or 0) + 1,
            rows=state.rows,
            bytes=state.bytes,
            head=number,
            fragments=len(state.fragments),
        )
        return pin, state.schema

    def open(self, pin: Pin, table: str = "") -> MemoryView:
        folder = self._folder(pin.location, 0)
        return MemoryView(folder, folder.version(pin.version, table), table)

    def begin(self, pin: Pin, *, write: str, table: str) -> MemoryWork:
        folder = self._folder(pin.location, EVERYTHING)
        state = folder.version(pin.version, table)
        return MemoryWork(folder, pin, state, properties=self._properties(write), table=table)

    def additions(self, work: Work) -> str | None:
        assert isinstance(work, MemoryWork)
        added = [a for a in work.draft.net.added if a.rows]
        return msgspec.json.encode([a.fragment for a in added]).decode() if work.additive and added else None

    def adding(self, pin: Pin, told: str, *, write: str, table: str) -> MemoryWork:
        work = self.begin(pin, write=write, table=table)
        try:
            fragments = _told_fragments.decode(told)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise _never_told(str(error)) from None
        known = {field.id for field in work.draft.base.fields}
        if not fragments or any(not fragment.files for fragment in fragments):
            raise _never_told("it names no data file of its table")
        for fragment in fragments:
            if fragment.deleted or any(not _DATA_FILE.fullmatch(path) for path in fragment.paths):
                raise _never_told("it names no data file of its table")
            if not {number for file in fragment.files for number in file.fields} >= known:
                raise _never_told("a data file lacks a column of its table")
            work.draft.net.add(fragment)
        return work

    def prepare(self, pin: Pin) -> None:
        """There is nothing that would have to be read."""

    def head(self, pin: Pin) -> Head:
        return plain.inspect(self._folder(pin.location, 0), self._lake)[2]

    def promote(self, pin: Pin, *, commit: str, table: str) -> Promotion:
        return plain.promote(self._folder(pin.location, 0), pin, lake=self._lake, commit=commit, table=table)

    def foreign(self, pin: Pin, head: Head) -> Foreign:
        return plain.trace(self._folder(pin.location, 0), pin, head.version, self._lake)

    def graft(self, pin: Pin, found: Foreign, *, same: bool, key: Sequence[str], write: str, table: str) -> Graft:
        folder = self._folder(pin.location, EVERYTHING)
        return Graft(folder, pin, found, same=same, key=key, properties=self._properties(write), table=table)

    def files(self, pin: Pin, table: str) -> dict[str, int | None]:
        return plain.needed_by(self._folder(pin.location, 0).version(pin.version, table))

    def kept(self, pin: Pin, table: str) -> set[str]:
        return set(self.files(pin, table))

    def plain_files(self, location: str, since: datetime, known: int = 0) -> set[str]:
        return plain.plain_files(self._folder(location, 0), since, self._lake, known)

    def head_differs(self, pin: Pin) -> str | None:
        folder = self._folder(pin.location, 0)
        number, entry, head = plain.inspect(folder, self._lake)
        itself = plain.is_itself(pin, entry)
        if head.counter is None and number > pin.head and not itself:
            return f"Version {number} of the plain table was written by a plain client."
        if not itself and head.counter != pin.counter:
            return None  # not backfilled yet, or further
        return plain.difference_of(folder.version(pin.version), folder.version(entry.version))

    def is_at(self, pin: Pin, version: int, commit: str) -> bool:
        """Whether plain version `version` is exactly the state that this commit pinned."""
        if version < 1:
            return False
        entry = self._folder(pin.location, 0).entry(version)
        head = plain.head_of(version, entry, self._lake)
        return plain.is_itself(pin, entry) or (head.commit == commit and head.counter == pin.counter)

    def undo(self, work: Any, before: Pin, after: Pin, *, key: Sequence[str]) -> bool:
        return undo(work, self.open(before), self.open(after), key)

    def changed_rows(
        self, before: Pin, after: Pin, columns: Sequence[str] | None = None
    ) -> tuple[pa.RecordBatchReader, pa.RecordBatchReader]:
        gone, come = changed_rows(self.open(before), self.open(after))
        return selected(gone, columns), selected(come, columns)

    def changed(self, before: Pin, after: Pin) -> MemoryChanges:
        return MemoryChanges.of(self.open(before), self.open(after))

    def fields(self, pin: Pin) -> dict[str, int]:
        return {field.name: field.id for field in self.open(pin).state.fields}

    def holds_files_of(self, pin: Pin, other: Pin, *, moved: bool = True) -> bool:
        return holds_files_of(self.open(pin).state, self.open(other).state, moved=moved)

    def share_new_files(self, before: Pin, one: Pin, other: Pin) -> bool:
        return share_new_files(*(self.open(pin).state for pin in (before, one, other)))

    def carry_over(
        self,
        work: Any,
        before: Pin,
        after: Pin,
        *,
        key: Sequence[str],
        leave_out: pa.Table | None = None,
        others: Sequence[Pin] = (),
        moved: bool = True,
    ) -> None:
        more = [self.open(pin).state for pin in others]
        carry_over(work, self.open(before).state, self.open(after).state, key, leave_out, more, moved=moved)

    def take_away(self, work: Any, key: Sequence[str], keys: pa.Table) -> None:
        take_away(work, key, keys)

    def carry_indexes(self, work: Any, before: Pin, after: Pin) -> bool:
        old, new = self.open(before).state, self.open(after).state
        known = {index.name for state in (old, work.draft.base) for index in state.indexes}
        columns = {f.id: f.name for f in new.fields}
        carried = [
            i for i in new.indexes if i.name not in known and work.draft.base.field(columns[i.field]) is not None
        ]
        for index in carried:
            work.indexes.create(IndexSpec(columns[index.field], index.kind, index.name), replace=False)
        return bool(carried)

    def whole_rows(self, pin: Pin, keys: pa.Table) -> pa.Table:
        return self.open(pin).scan(filter=is_among(keys)).read_all()

    def take_rows(self, work: Any, rows: pa.Table) -> None:
        take_rows(work, rows)

    def count_rows(self, pin: Pin, rows: pa.Table) -> list[int]:
        view = self.open(pin)
        return count_rows(view.folder, view.state, rows)

    def _folder(self, location: str, cached: int) -> Folder:
        """The folder of a table, shared where files are remembered, with a memory of its own otherwise."""
        if not self._cached:
            return Folder(self._store, location, cached)
        return self._folders.setdefault(location, Folder(self._store, location, self._cached))

    def _properties(self, write: str) -> dict[str, str]:
        return {"lake": self._lake, "write": write}


def _first_rows(data: Any, schema: Any, table: str) -> Source:
    import pyarrow as pa

    if isinstance(data, pa.Schema):
        data, schema = None, data
    if data is None and schema is None:
        raise InvalidInput(f"Table {table!r} needs a schema or data.", next="Pass either.", table=table)
    if schema is not None:
        schema = plain_schema(schema)
    if data is None:
        return Source(schema, [], whole=True)
    rows = source(data, schema, table=table)
    return finite(rows, table) if schema is None else fit(rows, schema, table=table)


def _never_told(reason: str) -> CorruptRecord:
    return CorruptRecord(
        f"Rows of an offer cannot be used: {reason}.", next="Nothing is lost: their writer commits them itself."
    )
