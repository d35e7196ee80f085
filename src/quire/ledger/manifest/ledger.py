"""The manifest ledger: every slot is a row of one Lance table, `_quire/__manifest.lance`.

For lakes whose log must be open to plain Lance and LanceDB. A slot is taken by inserting its row with Lance's row-level
compare-and-swap on `object_id`, the table's unenforced primary key.

That guard compares a writer with the versions since the one it read, and passes over those that were cleaned up without
a word; a writer that slept meanwhile adds a second row to a taken slot. So the guard keeps the table tidy, but does
not decide. What decides is the order of commits, which the table's stable row ids keep for ever: of several rows for
one slot the first is the slot's and the others are nothing, and an append is acknowledged only when its row is known to
be there and the first.
"""

from __future__ import annotations

import bisect
import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from quire.errors import DeadlineExceeded, InvalidInput, LakeLost, NotFound, PermissionDenied, StorageError
from quire.ledger import repairs
from quire.ledger.manifest.table import ATTEMPTS, KEEP_VERSIONS, KEY, TABLE, ManifestTable, Row, schema
from quire.ledger.protocol import Appended
from quire.ledger.records import Record, corrupt, encode
from quire.store import Outcome, Store, clock
from quire.store.conditional_put import pause

if TYPE_CHECKING:
    import pyarrow as pa


class ManifestLedger:
    """Slots as rows of `_quire/__manifest.lance`. Safe to share between threads.

    The table is made by the first append. `memory://` and simulated stores are refused: Lance does not see them.
    """

    name = "manifest"

    def __init__(self, store: Store) -> None:
        self._store = store
        self._table = ManifestTable(store)
        self._graves: list[Record] = []
        self._digging = threading.Lock()

    def append(
        self,
        record: Record,
        *,
        deadline: float | None = None,
        beside: Callable[[], object] | None = None,
        after: str | None = None,
    ) -> Appended:
        self._table.check_home()
        row = _rows(record)
        may_land = False
        for attempt in range(ATTEMPTS):
            in_time = pause(attempt, deadline) if attempt else deadline is None or clock.monotonic() < deadline
            if not in_time and may_land:
                return Appended(Outcome.UNKNOWN)
            if not in_time:
                raise self._late(record)
            try:
                table = self._table.open() or (self._table.create() if after is None else self._table.lost())
            except StorageError:
                if may_land:
                    return Appended(Outcome.UNKNOWN)
                raise
            problem = None
            try:
                if self._table.insert(table, row):
                    return Appended(self._durable())
            except StorageError as error:
                problem = error
            # Not proven. Whatever the error was, only what the slot holds can tell.
            try:
                [found] = self.read(record.branch, [record.slot])
            except StorageError:
                return Appended(Outcome.UNKNOWN)
            if found is not None and found.write == record.write:
                return Appended(self._durable())
            if found is not None:
                return Appended(Outcome.CONFLICT, found)
            if isinstance(problem, PermissionDenied) and not may_land:
                raise problem
            may_land = may_land or problem is not None
        return Appended(Outcome.UNKNOWN)

    def read(self, branch: str, slots: Sequence[int]) -> list[Record | None]:
        if not slots:
            return []
        first, last = min(slots), max(slots)
        if last - first < 4 * len(slots):
            which = f"slot >= {first} AND slot <= {last}"
        else:
            which = f"slot IN ({', '.join(str(slot) for slot in sorted(set(slots)))})"
        rows: dict[int, list[Row]] = {}
        for row in self._table.rows([KEY, "slot", "write", "record"], f"branch = {_text(branch)} AND {which}"):
            rows.setdefault(row["slot"], []).append(row)
        records = {slot: self._decode(rows[slot], branch, slot) for slot in set(slots) if slot in rows}
        return [records.get(slot) for slot in slots]

    def head(self, branch: str, at_least: int, first: int = 0) -> int:
        # What lies beyond the belief is mostly a few rows; all of the branch is looked at only if the belief was wrong.
        for beyond in (f" AND slot >= {at_least}", ""):
            found = [row["slot"] for row in self._table.rows(["slot"], f"branch = {_text(branch)}{beyond}")]
            if found:
                return int(max(found))
        return -1

    def confirm(self, branch: str, slot: int, write: str) -> None:
        self._table.check_there()

    def bury(self, tombstone: Record) -> None:
        self._graves.append(tombstone)
        with self._digging:
            # Whoever comes first buries for all that wait: one commit, where many would be in each other's way.
            waiting, self._graves = self._graves, []
            self._bury(tombstone, [other for other in waiting if other.branch == tombstone.branch])

    def _bury(self, tombstone: Record, others: list[Record]) -> None:
        graves = {other.slot: other for other in [*others, tombstone]}
        where = slot_name(tombstone.branch, tombstone.slot)
        problem = self._table.error(OSError(f"other writers always changed {where} first"))
        for attempt in range(ATTEMPTS):
            held = dict(zip(graves, self.read(tombstone.branch, list(graves)), strict=True))
            found = held[tombstone.slot]
            if found is None:
                raise NotFound(
                    f"There is no {where} to replace by a tombstone.",
                    next="Use tombstones only for slots that exist.",
                    object=where,
                )
            if found.write != tombstone.write:
                raise InvalidInput(
                    f"{where} belongs to another write.",
                    next="Give the tombstone the write id of the slot.",
                    object=where,
                )
            if found.buried:
                self._table.sync()
                return
            if attempt:
                pause(attempt)
            try:
                self._table.replace(_rows(*(g for g in graves.values() if (h := held[g.slot]) and h.write == g.write)))
            except StorageError as error:
                problem = error
        raise problem

    def written(self, branch: str) -> dict[int, datetime]:
        """Where the version that wrote a slot is gone, this is the time of the next one that is left."""
        rows = self._table.rows(["slot", "_row_last_updated_at_version"], f"branch = {_text(branch)}")
        times = self._table.versions()  # after the rows: the newest version that they name is in it
        left = sorted(times)
        return {row["slot"]: times[left[bisect.bisect_left(left, row["_row_last_updated_at_version"])]] for row in rows}

    def bodies(self) -> list[tuple[str, bytes]]:
        """Every stored record as it lies there, with what errors call it. For repairs."""
        rows = self._table.rows([KEY, "record"], "slot >= 0")
        return [(f"{TABLE}:{row[KEY]}", row["record"].encode()) for row in rows]

    def compact(self, *, older_than: timedelta | None = KEEP_VERSIONS) -> None:
        """Merge small fragments, then remove versions older than `older_than`; None keeps them all.

        No row is lost and no writer held up. Done by itself, in the background, when there are many small fragments.
        """
        self._table.compact(older_than)

    def _decode(self, rows: list[Row], branch: str, slot: int) -> Record:
        """What a slot holds, from its rows in the order of commits: the first, or the tombstone that replaced it.

        Both are there when a collector that had slept has brought the first back by burying its neighbour.
        """
        where = slot_name(branch, slot)
        found: Record | None = None
        for row in rows:
            if row["write"] != rows[0]["write"]:
                continue
            record = repairs.read(self._store, row["record"].encode(), Record, where)
            if record.branch != branch or record.slot != slot or row[KEY] != object_id(branch, slot):
                raise corrupt(where, f"it says that it is slot {record.slot} of log {record.branch}")
            if found is None or record.buried:
                found = record
        assert found is not None
        return found

    def _durable(self) -> Outcome:
        """A commit that is there but cannot be made durable is not acknowledged."""
        try:
            self._table.sync()
        except (StorageError, LakeLost):
            return Outcome.UNKNOWN
        return Outcome.COMMITTED

    def _late(self, record: Record) -> DeadlineExceeded:
        where = slot_name(record.branch, record.slot)
        return DeadlineExceeded(
            f"The deadline passed before {where} was written. Nothing was written.",
            next="Allow more time with timeout=.",
            object=where,
        )


def object_id(branch: str, slot: int) -> str:
    return f"{branch}/{slot:020d}"


def slot_name(branch: str, slot: int) -> str:
    """What errors call a slot."""
    return f"{TABLE}:{object_id(branch, slot)}"


def _rows(*records: Record) -> pa.Table:
    import pyarrow as pa

    rows = [
        {
            KEY: object_id(record.branch, record.slot),
            "branch": record.branch,
            "slot": record.slot,
            "write": record.write,
            "time": record.time,
            "record": encode(record).decode(),
        }
        for record in records
    ]
    return pa.Table.from_pylist(rows, schema=schema())


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
