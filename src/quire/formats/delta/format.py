"""Delta tables as Quire sees them."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from quire.conversion.fit import fit
from quire.conversion.inputs import source
from quire.conversion.plain_types import plain_schema
from quire.conversion.source import Source, finite, selected
from quire.errors import CorruptRecord, InvalidInput, NotFound, Refused, Unsupported
from quire.formats import Claim, Foreign, Head, OwnedCommit, Promotion, Work
from quire.formats.delta.changes import DeltaChanges, changed_rows, undo
from quire.formats.delta.export import DeltaExport
from quire.formats.delta.files.parquet import check_partition
from quire.formats.delta.files.schema import schema_text
from quire.formats.delta.files.told import Told, file_of, told_of
from quire.formats.delta.folder import Folder, States
from quire.formats.delta.log import dialects
from quire.formats.delta.log.actions import Follows
from quire.formats.delta.log.inspect import LOGGED, NAMED, ROWS, unlike
from quire.formats.delta.log.names import FOLDERS, Name, staged_by_client
from quire.formats.delta.log.plain import PlainLog
from quire.formats.delta.log.published import PublishedLog, log_of, needed_by, operation
from quire.formats.delta.log.state import EMPTY, Metadata, State, check_writable, now
from quire.formats.delta.staging import conversion
from quire.formats.delta.staging.carry_over import (
    carry_over,
    column_ids,
    count_rows,
    holds_files_of,
    share_new_files,
    take_away,
    take_rows,
)
from quire.formats.delta.staging.draft import Draft
from quire.formats.delta.staging.proposal import check_created, propose, take_staged
from quire.formats.delta.staging.schema_change import with_features
from quire.formats.delta.staging.statements import Append
from quire.formats.delta.staging.work import DeltaWork
from quire.formats.delta.view import DeltaView
from quire.formats.key_sets import is_among
from quire.formats.table_files import TableFiles
from quire.ledger import Pin
from quire.store import Store

if TYPE_CHECKING:
    import pyarrow as pa

OPTIONS = ("partition_by", "dialect")
_DATA_FILE = re.compile(r"data/part-[0-9A-Za-z_-]{1,64}\.parquet")


class Addition(msgspec.Struct, frozen=True):
    """Rows that a work adds, and when it began: with that, everybody makes the same commit of them."""

    time: int
    files: tuple[Told, ...]


_told = msgspec.json.Decoder(Addition)


class DeltaFormat:
    """A table format whose tables are ordinary Delta tables.

    A commit is staged as a file of the log that no client looks for, and becomes visible with the slot that names it.
    """

    name = "delta"

    def __init__(self, store: Store, lake: str) -> None:
        self._store = store
        self._lake = lake
        self._files = TableFiles(store)
        self._states = States()

    def location(self, table: str) -> str:
        return f"tables/{table}.delta"

    def create(
        self,
        location: str,
        data: Any,
        *,
        schema: Any,
        write: str,
        stable_row_ids: bool,
        table: str,
    ) -> DeltaWork:
        """A new table at a fresh location. Nothing is written before the work is staged."""
        if stable_row_ids:
            raise Unsupported(
                f"Table {table!r} is a Delta table, which has no stable row ids.",
                next="Leave stable_row_ids out.",
                table=table,
            )
        return self.create_with(location, data, schema=schema, write=write, table=table, options={})

    def create_with(
        self, location: str, data: Any, *, schema: Any, write: str, table: str, options: Mapping[str, Any]
    ) -> DeltaWork:
        dialect, partition = _options(options, table)
        rows = _first_rows(data, schema, table)
        metadata = Metadata(
            str(uuid.uuid4()),
            schema_text(rows.schema, table),
            partition_columns=check_partition(partition, rows.schema, table),
            created_time=now(),
        )
        metadata = dialects.configured(metadata, dialect, self._lake)
        empty = State(-1, with_features(dialects.protocol_of(dialect), metadata), metadata)
        pin = Pin(format=self.name, location=location, version="0", counter=1)
        draft = Draft(
            self._folder(location, table),
            pin,
            EMPTY,
            Follows(),
            base=empty,
            lake=self._lake,
            write=write,
            table=table,
            created=True,
        )
        draft.start_with(empty.change(files=tuple(draft.write(rows))))
        return DeltaWork(draft)

    def register(self, uri: str) -> tuple[Pin, pa.Schema]:
        """A pin of the table that lies at `uri`, as it is now. It stays a plain table until it is converted."""
        folder = self._folder(uri)
        found = PlainLog(folder.files.of(uri), uri)
        if found.newest < 0:
            raise NotFound(f"There is no Delta table at {uri}.", next="Give the folder that holds _delta_log.", uri=uri)
        state = found.state(found.newest)
        if dialects.dialect_of(state) is None:
            name = conversion.noted(folder, state)
        else:
            log = self._log(uri)
            body = log.body(state.version)
            if body is None or log.ours(body, state.version) is None:
                raise conversion.owned_by_another(uri, "")
            name = log.name_at(state.version)
        return conversion.pinned(uri, name, state, counter=1, head=state.version), state.schema

    def open(self, pin: Pin, table: str = "") -> DeltaView:
        folder = self._folder(pin.location, table)
        return DeltaView(folder, folder.state(pin.version), table, pin.version)

    def begin(self, pin: Pin, *, write: str, table: str) -> DeltaWork:
        folder = self._folder(pin.location, table)
        state, follows = folder.known(pin.version)
        check_writable(state, pin.location)
        if dialects.dialect_of(state, table) is None:
            raise _plain(table)
        return DeltaWork(Draft(folder, pin, state, follows, lake=self._lake, write=write, table=table))

    def again(self, now: Pin | None, then: Pin, *, write: str, table: str) -> DeltaWork | None:
        folder = self._folder(then.location, table)
        target = folder.state(then.version)
        if now is None:
            newest = self._log(then.location).newest(Name.parse(then.version).version)
            if newest <= target.version:
                return None
            now = msgspec.structs.replace(then, version=self._log(then.location).name_at(newest).text)
        elif now.location != then.location or now.version == then.version:
            return None
        state = folder.state(now.version)
        if self._log(then.location).descends(Name.parse(then.version), Name.parse(now.version)):
            return None
        work = self.begin(now, write=write, table=table)
        settings = {**target.metadata.configuration, **state.metadata.configuration}
        metadata = msgspec.structs.replace(target.metadata, configuration=settings)
        protocol = with_features(state.protocol, metadata)
        work.draft.go_back(target.change(metadata=metadata, protocol=protocol))
        return work

    def additions(self, work: Work) -> str | None:
        assert isinstance(work, DeltaWork)
        draft = work.draft
        added = [a.file for a in draft.net.added if a.rows]
        if not work.additive or not added:
            return None
        return msgspec.json.encode(Addition(draft.time, tuple(map(told_of, added)))).decode()

    def adding(self, pin: Pin, told: str, *, write: str, table: str) -> DeltaWork:
        work = self.begin(pin, write=write, table=table)
        try:
            addition = _told.decode(told)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise _never_told(str(error)) from None
        partition = work.draft.base.partition
        for one in addition.files:
            if not _DATA_FILE.fullmatch(one.path) or one.rows < 1 or one.size < 1:
                raise _never_told("it names no data file of its table")
            if tuple(name for name, _ in one.partition) != partition:
                raise _never_told("a data file lacks a column of its table")
        if not addition.files:
            raise _never_told("it names no data file of its table")
        work.draft.time = addition.time
        files = [file_of(one) for one in addition.files]
        work.draft.statements.append(Append(files))
        work.draft.net.add(files)
        return work

    def prepare(self, pin: Pin) -> None:
        self._folder(pin.location).known(pin.version)

    # -- the plain HEAD ---------------------------------------------------------------------------------------

    def head(self, pin: Pin) -> Head:
        return self._log(pin.location).head(pin)

    def promote(self, pin: Pin, *, commit: str, table: str) -> Promotion:
        return self._log(pin.location).promote(pin, table=table)

    def foreign(self, pin: Pin, head: Head) -> Foreign:
        if self.dialect(pin) is None:
            base = Name.parse(pin.version).version
            done = self._plain_log(pin).operations(base, head.version)
            return Foreign(base, head.version, tuple(map(operation, done)))
        return self._log(pin.location).trace(pin, head.version)

    def graft(self, pin: Pin, found: Foreign, *, same: bool, key: Sequence[str], write: str, table: str) -> Work:
        if self.dialect(pin) is None:
            folder = self._folder(pin.location, table)
            state, follows = folder.known(pin.version)
            draft = Draft(folder, pin, state, follows, lake=self._lake, write=write, table=table)
            return conversion.Followed(draft, self._plain_log(pin).state(found.head), key)
        raise Unsupported(
            f"Version {found.head} of Delta table {table!r} was written by a client that ignores who owns its commits;"
            " this version of Quire does not adopt such writes.",
            next="Commit its rows through the lake, then remove the file of that version from the log of the table.",
            table=table,
            version=found.head,
        )

    def head_differs(self, pin: Pin) -> str | None:
        return self._log(pin.location).differs(pin)

    def is_at(self, pin: Pin, version: int, commit: str) -> bool:
        return self._log(pin.location).is_at(pin, version)

    # -- whose the commits are --------------------------------------------------------------------------------

    def dialect(self, pin: Pin) -> str | None:
        return dialects.dialect_of(self._folder(pin.location).state(pin.version))

    def own(self, pin: Pin, dialect: str, *, key: Sequence[str], write: str, table: str) -> Pin | None:
        folder, wanted = self._folder(pin.location, table), dialects.chosen(dialect)
        return conversion.own(folder, pin, wanted, lake=self._lake, write=write, key=key, table=table)

    def owned(self, pin: Pin) -> None:
        conversion.forget(self._folder(pin.location), pin.version)

    def release(self, pin: Pin, *, write: str, table: str) -> DeltaWork:
        work = self.begin(pin, write=write, table=table)
        conversion.release(work)
        return work

    # -- commits of clients -----------------------------------------------------------------------------------

    def latest(self, pin: Pin) -> int:
        name, dialect = Name.parse(pin.version), self.dialect(pin)
        ratified = dialect is not None and (name.kind or dialect != "managedCommit")
        return name.version if ratified else -1

    def unpublished(self, pin: Pin) -> Sequence[OwnedCommit]:
        return self._log(pin.location).unpublished(Name.parse(pin.version))

    def publish(self, pin: Pin, version: int, *, table: str) -> Promotion:
        log = self._log(pin.location)
        if log.has(version):
            return Promotion(table, "current", version)
        return log.publish(log.name_of(Name.parse(pin.version), version), pin.head, table=table)

    def proposed(
        self, pin: Pin, actions: Sequence[Mapping[str, Any]], *, key: Sequence[str], write: str, table: str
    ) -> tuple[DeltaWork, str]:
        work = self.begin(pin, write=write, table=table)
        return work, propose(work, actions, key)

    def handed_over(self, pin: Pin, file: str, *, key: Sequence[str], write: str, table: str) -> tuple[DeltaWork, str]:
        work = self.begin(pin, write=write, table=table)
        return work, take_staged(work, file, key)

    def created(self, location: str, table: str) -> Pin:
        folder = self._folder(location, table)
        state = check_created(folder, table)
        return conversion.pinned(location, Name(0), state, counter=1, head=0)

    def is_ratified(self, pin: Pin, file: str) -> bool:
        name, newest = staged_by_client(file), Name.parse(pin.version)
        if name is None or name.version > newest.version:
            return False
        return self._log(pin.location).name_of(newest, name.version) == name

    def described(self, pin: Pin) -> Mapping[str, Any]:
        state = self._folder(pin.location).state(pin.version)
        told = {**state.metadata.action(), **state.protocol.action()}
        return {**told, "version": state.version, "time": state.time, "address": self._address(pin)}

    def make_room(self, pin: Pin) -> None:
        store, folder = self._files.of(pin.location), FOLDERS["u"]
        if store.is_local and not os.path.isdir(os.path.join(self._address(pin), folder)):
            store.put(f"{folder}/.room", b"")
            store.delete(f"{folder}/.room")

    def _address(self, pin: Pin) -> str:
        return self._store.reach.address(pin.location)

    def newest(self, pin: Pin) -> int:
        return Name.parse(pin.version).version

    def ratified(self, pin: Pin, version: int) -> OwnedCommit:
        log = self._log(pin.location)
        return log.owned(log.name_of(Name.parse(pin.version), version))

    # -- files ------------------------------------------------------------------------------------------------

    def files(self, pin: Pin, table: str) -> dict[str, int | None]:
        return needed_by(self._folder(pin.location, table), pin)

    def kept(self, pin: Pin, table: str) -> set[str]:
        """The files of a state, and the commits before it that are not published yet: others wait for them."""
        needed = set(self.files(pin, table))
        log, name = self._log(pin.location), Name.parse(pin.version)
        if name.kind and not log.has(name.version):
            needed |= {one.path for one in log.chain(name, log.newest(name.version))}
        return needed

    def plain_files(self, location: str, since: datetime, known: int = 0) -> set[str]:
        return self._log(location).plain_files(since)

    def claims(self, pin: Pin, table: str, *, deep: bool) -> tuple[dict[str, Claim], str | None]:
        folder = self._folder(pin.location, table)
        state = folder.state(pin.version)
        name = Name.parse(pin.version)
        found: dict[str, Claim] = {path: (LOGGED,) for path in log_of(folder, name)}
        clients = (one for one in map(Name.parse, (*folder.known(name.text)[1].since, name.text)) if one.kind == "u")
        found |= {one.path: NAMED for one in clients}
        if deep:
            found |= {f.path: (ROWS, f.rows) for f in state.files}
        wrong = (
            None if (state.rows, len(state.files)) == (pin.rows, pin.fragments) else "It holds other rows than its pin."
        )
        return found, wrong

    def unlike(self, location: str, path: str, claim: Claim) -> str | None:
        return unlike(self._files.of(location), path, claim)

    def exporting(self, schema: pa.Schema, *, table: str) -> DeltaExport:
        return DeltaExport.of(schema, table)

    # -- differences ------------------------------------------------------------------------------------------

    def undo(self, work: Any, before: Pin, after: Pin, *, key: Sequence[str]) -> bool:
        return undo(work, self.open(before), self.open(after), key)

    def fields(self, pin: Pin) -> Mapping[str, int]:
        return column_ids(self.open(pin).state)

    def holds_files_of(self, pin: Pin, other: Pin, *, moved: bool = True) -> bool:
        here = self.open(pin)
        return holds_files_of(here.folder, here.state, self.open(other).state, moved=moved)

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
        first, last = self.open(before).state, self.open(after).state
        carry_over(work, first, last, key, leave_out, [self.open(pin).state for pin in others], moved=moved)

    def take_away(self, work: Any, key: Sequence[str], keys: pa.Table) -> None:
        take_away(work, key, keys)

    def carry_indexes(self, work: Any, before: Pin, after: Pin) -> bool:
        return False  # there are none

    def whole_rows(self, pin: Pin, keys: pa.Table) -> pa.Table:
        return self.open(pin).scan(filter=is_among(keys)).read_all()

    def take_rows(self, work: Any, rows: pa.Table) -> None:
        take_rows(work, rows)

    def count_rows(self, pin: Pin, rows: pa.Table) -> Sequence[int]:
        view = self.open(pin)
        return count_rows(view.folder, view.state, rows)

    def changed_rows(
        self, before: Pin, after: Pin, columns: Sequence[str] | None = None
    ) -> tuple[pa.RecordBatchReader, pa.RecordBatchReader]:
        gone, come = changed_rows(self.open(before), self.open(after))
        return selected(gone, columns), selected(come, columns)

    def changed(self, before: Pin, after: Pin) -> DeltaChanges:
        return DeltaChanges.of(self.open(before), self.open(after))

    def _folder(self, location: str, table: str = "") -> Folder:
        return Folder(self._store, location, self._files, self._states, table=table)

    def _plain_log(self, pin: Pin) -> PlainLog:
        return PlainLog(self._files.of(pin.location), pin.location)

    def _log(self, location: str) -> PublishedLog:
        return PublishedLog(self._folder(location), self._lake)


def _options(given: Mapping[str, Any], table: str) -> tuple[dialects.Dialect, Sequence[str]]:
    unknown = [name for name in given if name not in OPTIONS]
    if unknown:
        raise InvalidInput(
            f"{unknown[0]!r} is no option of Delta tables.", next=f"Use {' or '.join(OPTIONS)}.", table=table
        )
    partition = given.get("partition_by", ())
    names = [partition] if isinstance(partition, str) else list(partition)
    return dialects.chosen(given.get("dialect", dialects.DIALECTS[0])), names


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


def _plain(table: str) -> Refused:
    return Refused(
        f"Table {table!r} is a plain Delta table, which others may write to without asking the lake.",
        next="Convert it first: quire.delta.convert(lake, table), `quire convert`; newer versions come in by `adopt`.",
        table=table,
    )


def _never_told(reason: str) -> CorruptRecord:
    return CorruptRecord(
        f"Rows of an offer cannot be used: {reason}.", next="Nothing is lost: their writer commits them itself."
    )
