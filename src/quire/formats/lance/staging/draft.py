"""The table as one transaction has it so far: a base, and the net change that stands on it."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from quire.conversion.source import Source
from quire.errors import Refused
from quire.formats import Staged
from quire.formats.lance.compaction.work import Tidying
from quire.formats.lance.indexes.build import Indexes
from quire.formats.lance.metering import Scan
from quire.formats.lance.session import LanceSession, schema_of
from quire.formats.lance.staging.net_change import Net, data_bytes, numbers
from quire.formats.lance.staging.stager import Stager
from quire.formats.lance.staging.statements import Append, StagedStatement, Staging, Tap, done
from quire.formats.tally import Tally
from quire.ledger import Pin
from quire.store import submit

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset

KEPT_BYTES = 8 << 20
"""Rows that are not larger stay in memory until the end of their transaction."""
COPIED_BYTES = 64 << 20
"""Rows of a caller that are not larger are copied and written in the background; larger ones are written at once."""
WAITING_BYTES = 1 << 20
"""Rows that are not larger, and have no other statement beside them, are written together with their version."""
STANDING = ("pin", "base", "net", "tally")
"""What says on which base a draft stands, and what it does there."""


class Draft:
    """`base` plus `net`. Rows change the net; what changes more than rows becomes the next base, by a staged version.

    The statements that led here are kept, so that they can be run again on another base.
    """

    def __init__(
        self,
        session: LanceSession,
        pin: Pin,
        base: LanceDataset,
        *,
        properties: dict[str, str],
        table: str,
        created: bool = False,
    ) -> None:
        self.session = session
        self.table = table
        self.pin = pin
        self.base = base
        self.created = created
        self.stager = Stager(session, pin.location, properties)
        self.statements: list[StagedStatement] = []
        self.pending: list[Append] = []
        """Appends whose rows are still being written, or wait to be."""
        self.net = Net()
        self.tally = Tally(pin.rows, pin.bytes, added=pin.rows if created else 0, owned=created)
        self._indexes: Indexes | None = None
        self._upkeep: Tidying | None = None
        self.exclusive = False
        self.pinned_to_base = False
        """Whether something in the net means nothing on another base."""
        self.staged: Staged | None = None
        self._view: tuple[LanceDataset, dict[int, int]] | None = None

    @property
    def schema(self) -> pa.Schema:
        return schema_of(self.base)

    # -- beside rows, made when a statement first needs them --------------------------------------------------

    @property
    def indexes(self) -> Indexes:
        if self._indexes is None:
            self._indexes = Indexes()
        return self._indexes

    @property
    def changes_indexes(self) -> bool:
        return self._indexes is not None and self._indexes.changed

    @property
    def upkeep(self) -> Tidying:
        if self._upkeep is None:
            self._upkeep = Tidying(self.stager, self.table)
        return self._upkeep

    @property
    def has_upkeep(self) -> bool:
        return self._upkeep is not None and bool(self._upkeep)

    # -- what is there ----------------------------------------------------------------------------------------

    def current(self) -> tuple[LanceDataset, dict[int, int]]:
        """The base with the net effect so far, to be read, and which of its fragments are this transaction's own."""
        handle, own = self._current()
        return self.readable(handle), own

    def readable(self, handle: LanceDataset) -> LanceDataset:
        """A version that whoever reads it finds in the store."""
        return self.stager.placed(handle) if handle is not self.base or self.base_is_own else handle

    def _current(self) -> tuple[LanceDataset, dict[int, int]]:
        self.absorb()
        if not self.net and not self.upkeep:
            return self.base, {}
        if self._view is None:
            handle = self._apply()
            own = numbers(handle, self.net.added)
            self._view = handle, own
        return self._view

    def final(self) -> LanceDataset:
        """The same as the commit will have it: nobody else's look at the rows is needed, indexes are."""
        handle, _ = self._current() if self._view or self.has_own_deletes() else (self._apply(), {})
        return self.with_indexes(handle)

    def settled(self) -> LanceDataset:
        """The current rows as one staged version, pending indexes included: a schema change goes on from there."""
        self.check_no_upkeep()
        return self.indexes.apply(self.stager, self._current()[0], self.table)

    def with_indexes(self, handle: LanceDataset) -> LanceDataset:
        if self.changes_indexes:
            handle = self.indexes.apply(self.stager, handle, self.table)
        return self.upkeep.indexes(handle, self.indexes.names) if self.has_upkeep else handle

    @property
    def base_is_own(self) -> bool:
        """Whether the base was made by this transaction: nobody else has brought it into the store."""
        return self.created or self.exclusive

    def has_own_deletes(self) -> bool:
        return any(a.rows_deleted for a in self.net.added)

    def _apply(self) -> LanceDataset:
        made = self._apply_waiting()
        if made is not None:
            return made
        self.absorb()
        return self.stager.apply(self.upkeep.rows(self.base) if self.has_upkeep else self.base, self.net)

    def _apply_waiting(self) -> LanceDataset | None:
        """The version with rows that are not written yet, where they are all that there is: both are made at once."""
        if len(self.pending) != 1 or self.net or self.has_upkeep:
            return None
        staging = self.pending[0].staging
        if staging.future is not None or staging.table is None:
            return None
        made = self.stager.append(staging.table, self.base, self.schema)
        if made is None:
            return None
        fragments, handle = made
        staging.future = done(fragments)
        self.net.add(fragments)
        self.pending.pop()
        return handle

    # -- writing rows -----------------------------------------------------------------------------------------

    def append(self, rows: Source) -> int:
        """Take in rows that are added to the others; their number."""
        alone = not self.statements and not self.has_upkeep
        statement = Append(self.write(rows, waits=alone))
        for earlier in self.pending:
            self._begin(earlier.staging)
        self.statements.append(statement)
        self.pending.append(statement)
        self.touch()
        return statement.staging.rows

    def write(self, rows: Source, *, waits: bool = False) -> Staging:
        """Rows in memory are taken from their caller and written in the background. Many rows are written here, before
        the call returns, and so is a stream, by the thread that owns it. Few can wait for whoever needs them first."""
        if not rows.whole or not is_copied(rows):
            tap = Tap(())
            fragments = self.write_stream(tap.through(rows))
            return Staging(tap.rows, done(fragments))
        table = rows.taken().table()
        if table.num_rows == 0:
            return Staging(0, done([]))
        size = table.get_total_buffer_size()
        staging = Staging(table.num_rows, None, table)
        if not (waits and size <= WAITING_BYTES and self.stager.is_apart):
            self._begin(staging)
        if size > KEPT_BYTES:
            staging.table = None
        return staging

    def write_stream(self, rows: Source, scan: Scan | None = None) -> list[Any]:
        """Write batches as they come, perhaps from a scan."""
        return rows.feed(lambda reader: self.stager.write(reader, self.base, self.schema, scan=scan))

    def _begin(self, staging: Staging) -> None:
        """Write rows in the background, unless somebody has begun to."""
        if staging.future is None and staging.table is not None:
            stager, table, base, schema = self.stager, staging.table, self.base, self.schema
            staging.future = submit(lambda: stager.write(table.to_reader(), base, schema))

    def _write_here(self, staging: Staging) -> None:
        """Write rows that have waited; what goes wrong is told to whoever asks for them."""
        if staging.future is None and staging.table is not None:
            staging.future = Future()
            try:
                staging.future.set_result(self.stager.write(staging.table.to_reader(), self.base, self.schema))
            except Exception as error:
                staging.future.set_exception(error)

    # -- what changes it --------------------------------------------------------------------------------------

    def touch(self) -> None:
        """Rows have changed."""
        self._view = None
        self.staged = None

    def absorb(self) -> None:
        """Take the results of background appends into the net effect, in order."""
        while self.pending:
            # A write that failed stays pending, so that nothing later can commit without it.
            staging = self.pending[0].staging
            self._write_here(staging)
            fragments = staging.fragments()
            self.net.add(fragments)
            self.pending.pop(0)

    def take_away(self, addresses: Any) -> None:
        """Remove rows of the base by address, as a statement that cannot be run again elsewhere."""
        self.net.remove(addresses, {}, hard=True)
        self.pinned_to_base = True
        self.touch()

    def chain(self, handle: LanceDataset) -> None:
        """Go on from a staged version that changed more than rows. From here on any rival change is a conflict."""
        # New columns lie in files of their own, beside those of the rows.
        known = data_bytes([f.metadata for f in self.base.get_fragments()]) + self.net.bytes_added
        more = data_bytes([f.metadata for f in handle.get_fragments()]) - known
        self.tally = self.tally.after(self.net).with_bytes(max(0, more))
        self._start_from(handle)

    def replace(self, handle: LanceDataset, fragments: list[Any], rows: int) -> None:
        """Go on from a staged version that holds these fragments alone, all of them new."""
        self.tally = Tally(rows, data_bytes(fragments), added=rows, removed=self.pin.rows, owned=True)
        if not self.created:
            self.stager.forget_rows(fragments)
        self.statements = []
        self._start_from(handle)

    def leave_out(self, deleted: Mapping[int, Any]) -> int:
        """Take rows out of what the draft was just replaced with, by fragment; how many."""
        from lance import LanceOperation

        updated, removed = self.stager.remove_rows(self.base, deleted)
        self.base = self.stager.detach(self.base, LanceOperation.Delete(updated, removed, "quire"))
        count = sum(map(len, deleted.values()))
        self.tally = self.tally.without(count)
        self.touch()
        return count

    def _start_from(self, handle: LanceDataset) -> None:
        self.base, self.net = handle, Net()
        self.exclusive = True
        self._indexes = None
        self.touch()

    def rebind(self, onto: Pin, head: LanceDataset) -> None:
        """Stand on a newer base, with the same net."""
        self.pin, self.base = onto, head
        self.tally = Tally(onto.rows, onto.bytes, owned=self.tally.owned)
        # The manifests and deletion vectors staged on the old base are garbage now; data and index files are kept.
        self.stager.start_again()
        self.touch()

    # -- rows and upkeep do not mix ---------------------------------------------------------------------------

    def check_no_rows_changed(self) -> None:
        if self.created or self.exclusive or self.net or self.pending:
            raise self._apart()

    def check_no_upkeep(self) -> None:
        if self.has_upkeep:
            raise self._apart()

    def _apart(self) -> Refused:
        return Refused(
            f"A transaction that compacts table {self.table!r} or extends its indexes cannot change its rows too.",
            next="Use a transaction for each.",
            table=self.table,
        )


def is_copied(rows: Source) -> bool:
    """Whether rows in memory are our own already, or few enough to be copied."""
    return rows.own or rows.table().nbytes <= COPIED_BYTES
