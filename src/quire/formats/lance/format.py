"""Lance tables as Quire sees them."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from quire.conversion.fit import fit
from quire.conversion.inputs import source
from quire.conversion.plain_types import plain_schema
from quire.conversion.source import Source, finite
from quire.errors import InvalidInput, NotFound, SnapshotExpired, Unsupported
from quire.formats import Claim, Foreign, Head, NewTable, PlainVersion, Promotion, StagedVersion, Work
from quire.formats.lance.head import begun_table, client_versions, view_versions
from quire.formats.lance.head.backfill import (
    COUNTER,
    LAKE,
    WRITE,
    Heads,
    cleans_itself,
    head_of,
    inspect,
    is_foreign,
    known_head,
)
from quire.formats.lance.head.foreign import Graft, trace
from quire.formats.lance.indexes.carried import Segments, segments_by_name
from quire.formats.lance.inspect.contents import claims, difference_of, needed, unlike_data, unlike_deletions
from quire.formats.lance.inspect.retained_files import kept, plain_files
from quire.formats.lance.inspect.row_diff import Changes, changed_rows
from quire.formats.lance.lookups import candidates
from quire.formats.lance.lookups.check import contradictions
from quire.formats.lance.lookups.stored import learn
from quire.formats.lance.lookups.written import indexed
from quire.formats.lance.metering import streamed
from quire.formats.lance.session import LanceSession, described, manifest_name, translating, version_of
from quire.formats.lance.staging.carry_over import (
    carry_over,
    count_rows,
    holds_files_of,
    share_new_files,
    take_away,
    take_rows,
    whole_rows,
)
from quire.formats.lance.staging.net_change import data_bytes
from quire.formats.lance.staging.new_table import new_table
from quire.formats.lance.staging.schema_change import check_schema
from quire.formats.lance.staging.undo import undo
from quire.formats.lance.staging.work import LanceWork
from quire.formats.lance.told_rows import net_of, tell
from quire.formats.lance.view import LanceView
from quire.ledger import NotedKeys, Pin
from quire.store import Store
from quire.store.reach import is_outside

if TYPE_CHECKING:
    import pyarrow as pa


class LanceFormat:
    """Stages by detached commits from pinned handles; HEAD moves only in `promote`."""

    name = "lance"

    def __init__(self, store: Store, lake: str) -> None:
        self._lake = lake
        self._session = LanceSession(store)
        self._heads = Heads(self._session, lake)

    def location(self, table: str) -> str:
        return f"tables/{table}.lance"

    def create(
        self, location: str, data: Any, *, schema: Any, write: str, stable_row_ids: bool, table: str
    ) -> LanceWork:
        """A new table at a fresh location. It exists for nobody until a commit pins it."""
        rows = _first_rows(data, schema, table)
        check_schema(rows.schema, table)
        properties = {LAKE: self._lake, WRITE: write, COUNTER: "0"}
        handle, unsent = new_table(
            self._session,
            location,
            rows,
            table,
            enable_stable_row_ids=stable_row_ids,
            transaction_properties=properties,
        )
        size = data_bytes(f.metadata for f in handle.get_fragments())
        pin = Pin(
            format=self.name,
            location=location,
            version=str(handle.version),
            counter=1,
            rows=int(handle.count_rows()),
            bytes=size,
            fragments=len(handle.fragment_ids()),
        )
        work = self._work(pin, handle, write, table, created=True)
        if unsent:
            work.draft.stager.keep(unsent)
            work.draft.stager.unplaced = handle
        work.draft.stager.files.append("")
        return work

    def register(self, uri: str) -> tuple[Pin, pa.Schema]:
        """A pin of the table that lies at `uri`, as it is now."""
        try:
            handle = self._session.open_head(uri)
        except SnapshotExpired:
            raise NotFound(
                f"There is no Lance table at {uri}.", next="Give the folder that holds its _versions.", uri=uri
            ) from None
        cleans = cleans_itself(handle)
        if cleans:
            raise Unsupported(
                f"The table at {uri} deletes its own old versions ({', '.join(cleans)}), which would destroy commits.",
                next="Remove these settings with delete_config_keys, then register it.",
                uri=uri,
            )
        pin = Pin(
            format=self.name,
            location=uri,
            version=str(handle.version),
            counter=(head_of(handle, self._lake).counter or 0) + 1,
            rows=int(handle.count_rows()),
            bytes=data_bytes(f.metadata for f in handle.get_fragments()),
            head=int(handle.version),
            fragments=len(handle.fragment_ids()),
        )
        return pin, handle.schema

    def open(self, pin: Pin, table: str = "") -> LanceView:
        return LanceView(self._session, self._session.open_to_read(pin, table), table)

    def begin(self, pin: Pin, *, write: str, table: str) -> LanceWork:
        return self._work(pin, self._session.open(pin, table), write, table)

    def additions(self, work: Work) -> str | None:
        assert isinstance(work, LanceWork)
        return tell(work.draft.net) if work.additive else None

    def adding(self, pin: Pin, told: str, *, write: str, table: str) -> LanceWork:
        work = self.begin(pin, write=write, table=table)
        work.draft.net = net_of(told, work.draft.base)
        return work

    def prepare(self, pin: Pin) -> None:
        handle = self._session.known(pin)
        if handle is None and pin.counter == 1:
            with contextlib.suppress(Exception):  # a new table, made on this machine: whoever looks at it, has it open
                self._session.open(pin)
        elif handle is not None:
            with contextlib.suppress(Exception):  # whoever writes next will find out
                described(handle)  # Lance needs the list of indexes to write to the table, and keeps it
                for fields in indexed(handle):
                    self._session.keys.ask(pin.location, fields)
                if not is_outside(pin.location):
                    self._session.noted.of(pin.location).write(candidates.worth_storing(handle))

    def learn(self, location: str, noted: Sequence[NotedKeys]) -> None:
        learn(self._session.keys, location, noted)

    def head(self, pin: Pin) -> Head:
        return known_head(pin, self._heads.now(pin.location))

    def promote(self, pin: Pin, *, commit: str, table: str) -> Promotion:
        return self._heads.promote(pin, commit=commit, table=table)

    def foreign(self, pin: Pin, head: Head) -> Foreign:
        return trace(self._session, pin, head.version, self._lake)

    def graft(self, pin: Pin, found: Foreign, *, same: bool, key: Sequence[str], write: str, table: str) -> Graft:
        base = self._session.open_version(pin.location, found.base)
        head = self._session.open_version(pin.location, found.head)
        properties = {LAKE: self._lake, WRITE: write}
        return Graft(
            self._session, pin, base, head, same=same, key=key, ops=found.ops, properties=properties, table=table
        )

    def staged_version(self, location: str, name: str) -> StagedVersion:
        return client_versions.staged_version(self._session, location, name)

    def client_work(
        self, pin: Pin, staged: Sequence[StagedVersion], *, key: Sequence[str], write: str, table: str
    ) -> client_versions.ClientWork:
        properties = {LAKE: self._lake, WRITE: write}
        line = self._heads.manifest(pin.location, staged[0].number - 1)
        return client_versions.ClientWork(self._session, pin, line, staged, key=key, properties=properties, table=table)

    def client_table(self, staged: Sequence[StagedVersion], *, table: str, marked: bool = False) -> NewTable:
        return client_versions.client_table(self._session, staged, table=table, marked=marked)

    def begun_table(self, location: str) -> Pin:
        begun_table.settle(self._session, location)
        return self.register(location)[0]

    def view_work(
        self, pin: Pin, staged: Sequence[StagedVersion], *, key: Sequence[str], write: str, table: str, movable: bool
    ) -> view_versions.ViewWork:
        properties = {LAKE: self._lake, WRITE: write}
        return view_versions.ViewWork(
            self._session, pin, staged, key=key, properties=properties, table=table, movable=movable
        )

    def shown(self, pin: Pin, number: int, folder: str, *, table: str, exact: bool) -> PlainVersion:
        return view_versions.shown(self._session, pin, number, folder, table=table, exact=exact)

    def is_marked(self, pin: Pin, number: int) -> bool:
        return view_versions.is_marked(pin, number)

    def line(self, location: str) -> list[PlainVersion]:
        return client_versions.line(self._session, location)

    def plain_version(self, location: str, number: int) -> PlainVersion | None:
        return client_versions.plain_version(self._session, location, number)

    def manifest_of(self, pin: Pin) -> str:
        return f"_versions/{manifest_name(version_of(pin))}"

    def commit_of(self, location: str, number: int) -> str | None:
        return self._heads.at(location, number).commit

    def files(self, pin: Pin, table: str) -> dict[str, int | None]:
        self._session.check_stored(pin, table)
        return needed(self._session.open(pin, table))

    def claims(self, pin: Pin, table: str, *, deep: bool) -> tuple[dict[str, Claim], str | None]:
        handle = self._session.open(pin, table)
        found, wrong = claims(handle, pin.rows, deep=deep)
        if deep and wrong is None and not is_outside(pin.location):
            wrong = self._session.noted.of(pin.location).contradiction(partial(contradictions, handle)) or None
        return found, wrong

    def unlike(self, location: str, path: str, claim: Claim) -> str | None:
        if path.startswith("data/"):
            rows, columns = claim
            uri = f"{self._session.uri(location)}/{path}"
            return unlike_data(uri, self._session.options, rows, columns)
        version, number, rows = claim
        try:
            handle = self._session.uncached(location, version)
        except SnapshotExpired:
            return None  # the manifest that says it is gone, which is told by itself
        return unlike_deletions(handle, number, rows)

    def row_ids(self, pin: Pin, table: str) -> pa.RecordBatchReader | None:
        handle = self._session.open(pin, table)
        if not handle.has_stable_row_ids:
            return None
        with translating(f"the row ids of table {table!r}"):
            return streamed(handle, {"columns": [], "with_row_id": True})

    def kept(self, pin: Pin, table: str) -> set[str]:
        return kept(self._session, pin.location, version_of(pin))

    def plain_files(self, location: str, since: datetime, known: int = 0) -> set[str]:
        return plain_files(self._session, location, since, self._lake, known)

    def head_differs(self, pin: Pin) -> str | None:
        handle, head = inspect(self._session, pin.location, self._lake)
        head = known_head(pin, head)
        if is_foreign(pin, head):
            return f"Version {head.version} of the plain table was written by a plain Lance client."
        if str(head.version) != pin.version and head.counter != pin.counter:
            return None  # not backfilled yet, or further
        return difference_of(self._session.open(pin), handle)

    def is_at(self, pin: Pin, version: int, commit: str) -> bool:
        """Whether linear version `version` is exactly the state that this commit pinned."""
        if pin.version == str(version):
            return True
        if version < 1:
            return False
        if any(a.number == version and a.version == pin.version for a in pin.acknowledged):
            return True
        head = self._heads.at(pin.location, version)
        return head.commit == commit and head.counter == pin.counter

    def undo(self, work: Any, before: Pin, after: Pin, *, key: Sequence[str]) -> bool:
        return undo(work, self._session.open(before), self._session.open(after), key)

    def changed_rows(
        self, before: Pin, after: Pin, columns: Sequence[str] | None = None
    ) -> tuple[pa.RecordBatchReader, pa.RecordBatchReader]:
        handles = [self._session.open_to_read(pin) for pin in (before, after)]
        return changed_rows(handles[0], handles[1], columns)

    def changed(self, before: Pin, after: Pin) -> Changes:
        old, new = self._session.open(before), self._session.open(after)
        return Changes.of(old, new, (self._session.place(old), self._session.place(new)))

    def fields(self, pin: Pin) -> dict[str, int]:
        schema: Any = self._session.open_to_read(pin).lance_schema
        return {str(field.name()): int(field.id()) for field in schema.fields()}

    def holds_files_of(self, pin: Pin, other: Pin, *, moved: bool = True) -> bool:
        return holds_files_of(self._session.open_to_read(pin), self._session.open_to_read(other), moved=moved)

    def share_new_files(self, before: Pin, one: Pin, other: Pin) -> bool:
        return share_new_files(*(self._session.open_to_read(pin) for pin in (before, one, other)))

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
        more = [self._session.open_to_read(pin) for pin in others]
        carry_over(
            work, self._session.open_to_read(before), self._session.open(after), key, leave_out, more, moved=moved
        )

    def take_away(self, work: Any, key: Sequence[str], keys: pa.Table) -> None:
        take_away(work, key, keys)

    def carry_indexes(self, work: Any, before: Pin, after: Pin) -> bool:
        known = self._indexes(before).keys() | self._indexes(work.draft.pin).keys()
        carried = {name: segments for name, segments in self._indexes(after).items() if name not in known}
        if carried:
            work.draft.indexes.carried.update(carried)
            work.draft.staged = None
        return bool(carried)

    def _indexes(self, pin: Pin) -> dict[str, Segments]:
        if self._session.store.scheme == "memory":
            return {}  # Lance keeps its memory to itself: the list of indexes cannot be read there
        handle = self._session.open_to_read(pin)
        return segments_by_name(handle, self._session.manifest(pin.location, version_of(pin)))

    def whole_rows(self, pin: Pin, keys: pa.Table) -> pa.Table:
        return whole_rows(self._session.open_to_read(pin), keys)

    def take_rows(self, work: Any, rows: pa.Table) -> None:
        take_rows(work, rows)

    def count_rows(self, pin: Pin, rows: pa.Table) -> list[int]:
        return count_rows(self._session.open_to_read(pin), rows)

    def _work(self, pin: Pin, handle: Any, write: str, table: str, *, created: bool = False) -> LanceWork:
        properties = {LAKE: self._lake, WRITE: write}
        return LanceWork(self._session, pin, handle, properties=properties, table=table, created=created)


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
