"""Lance tables as Quire sees them."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from quire.errors import InvalidInput, NotFound, SnapshotExpired, Unsupported
from quire.formats.arrow import Source, fit, plain_schema, source
from quire.formats.lance.changes import Changes, changed_rows
from quire.formats.lance.columns import check_schema
from quire.formats.lance.foreign import Graft, trace
from quire.formats.lance.keep import kept, plain_files
from quire.formats.lance.metering import metered, sending
from quire.formats.lance.net import data_bytes
from quire.formats.lance.promote import COUNTER, LAKE, WRITE, Heads, cleans_itself, head_of, inspect
from quire.formats.lance.session import LanceSession, described, translating, version_of
from quire.formats.lance.undo import undo
from quire.formats.lance.verify import claims, difference_of, needed, unlike_data, unlike_deletions
from quire.formats.lance.view import LanceView
from quire.formats.lance.work import LanceWork
from quire.formats.protocol import Claim, Foreign, Head, Promotion
from quire.ledger import Pin
from quire.store import Store

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset


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
        import lance

        rows = _first_rows(data, schema, table)
        check_schema(rows.schema, table)
        properties = {LAKE: self._lake, WRITE: write, COUNTER: "0"}
        uri = self._session.uri(location)

        def made_of(reader: pa.RecordBatchReader) -> LanceDataset:
            with metered("create", uri, steps=4) as window, translating(f"creation of table {table!r}"):
                made = lance.write_dataset(
                    reader,
                    uri,
                    schema=rows.schema,
                    mode="create",
                    max_bytes_per_file=1 << 30,
                    enable_stable_row_ids=stable_row_ids,
                    storage_options=self._session.options,
                    session=self._session.session,
                    transaction_properties=properties,
                )
                steps, window.in_turn = sending(file for f in made.get_fragments() for file in f.data_files())
                window.steps = 4 + steps
                return made

        handle = rows.feed(made_of)
        self._session.remember(location, handle)
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
        work.stager.files.append("")
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
        return LanceView(self._session, self._session.open(pin, table), table)

    def begin(self, pin: Pin, *, write: str, table: str) -> LanceWork:
        return self._work(pin, self._session.open(pin, table), write, table)

    def prepare(self, pin: Pin) -> None:
        handle = self._session.known(pin)
        if handle is not None:
            with contextlib.suppress(Exception):  # whoever writes next will find out
                described(handle)  # Lance needs the list of indexes to write to the table, and keeps it

    def head(self, pin: Pin) -> Head:
        return self._heads.now(pin.location)

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

    def files(self, pin: Pin, table: str) -> dict[str, int | None]:
        return needed(self._session.open(pin, table))

    def claims(self, pin: Pin, table: str, *, deep: bool) -> tuple[dict[str, Claim], str | None]:
        return claims(self._session.open(pin, table), pin.rows, deep=deep)

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

    def kept(self, pin: Pin, table: str) -> set[str]:
        return kept(self._session, pin.location, version_of(pin))

    def plain_files(self, location: str, since: datetime) -> set[str]:
        return plain_files(self._session, location, since, self._lake)

    def head_differs(self, pin: Pin) -> str | None:
        handle, head = inspect(self._session, pin.location, self._lake)
        if head.counter is None and head.version > pin.head and str(head.version) != pin.version:
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
        head = self._heads.at(pin.location, version)
        return head.commit == commit and head.counter == pin.counter

    def undo(self, work: Any, before: Pin, after: Pin, *, key: Sequence[str]) -> bool:
        return undo(work, self._session.open(before), self._session.open(after), key)

    def changed_rows(
        self, before: Pin, after: Pin, columns: Sequence[str] | None = None
    ) -> tuple[pa.RecordBatchReader, pa.RecordBatchReader]:
        return changed_rows(self._session.open(before), self._session.open(after), columns)

    def changed(self, before: Pin, after: Pin) -> Changes:
        old, new = self._session.open(before), self._session.open(after)
        return Changes.of(old, new, (self._session.place(old), self._session.place(new)))

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
    return rows if schema is None else fit(rows, schema, table=table)
