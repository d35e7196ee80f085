"""The Lance table under the manifest ledger: opening, making, reading, changing and tidying it.

The only module below `quire.formats` that touches Lance. It is no table of the lake: no commit pins it, and Lance's own
commits, compaction and cleanup are right here.
"""

from __future__ import annotations

import contextvars
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from quire.errors import LakeLost, NotFound, PermissionDenied, QuireError, StorageError, Unsupported
from quire.ledger.records import corrupt
from quire.store import Store, clock, record_external, submit
from quire.store.conditional_put import pause

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset

TABLE = "_quire/__manifest.lance"
KEY = "object_id"
PRIMARY_KEY = "lance-schema:unenforced-primary-key"

SMALL_FRAGMENTS = 48
"""Every append adds a fragment; when more small ones than this have gathered they are merged in the background."""
ROWS = 4096
"""A fragment of so many rows is not small, and is left alone from then on."""
KEEP_VERSIONS = timedelta(hours=1)
"""Versions of the table younger than this are kept; a reader takes one for the time of a scan."""

ATTEMPTS = 8
READS = 4
LAST_VERSION = 2**64 - 1

Row = dict[str, Any]


def schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema(
        [
            pa.field(KEY, pa.string(), nullable=False, metadata={PRIMARY_KEY: "true"}),
            pa.field("branch", pa.string(), nullable=False),
            pa.field("slot", pa.int64(), nullable=False),
            pa.field("write", pa.string(), nullable=False),
            pa.field("time", pa.timestamp("us", "UTC"), nullable=False),
            pa.field("record", pa.string(), nullable=False),
        ]
    )


class ManifestTable:
    """`_quire/__manifest.lance` of one lake. Every call works on the newest version; failures are `StorageError`s."""

    def __init__(self, store: Store) -> None:
        if store.scheme not in ("file", "s3", "gs", "az"):
            raise Unsupported(
                f"A manifest ledger cannot be kept on {store.scheme}://, because Lance cannot read what is stored "
                "there.",
                next="Use the log ledger, or a directory.",
                uri=store.uri,
            )
        self._store = store
        self.uri = store.child_uri(TABLE)
        self._session: Any = None
        self._lock = threading.Lock()
        self._tidying = threading.Lock()
        self._cleaned = clock.monotonic()
        self._durable: frozenset[str] = frozenset()

    # -- opening ----------------------------------------------------------------------------------------------

    def check_home(self) -> None:
        """Raise `LakeLost` when the lake is not where it was opened."""
        self._store.confirm(None)

    def check_there(self) -> None:
        """Raise `LakeLost` when a local table that was there is gone."""
        self.check_home()
        if self._store.is_local and not os.path.isdir(os.path.join(self.uri, "_versions")):
            self.lost()

    def lost(self) -> NoReturn:
        """The table was there, and is not."""
        raise LakeLost(
            f"The log of the lake at {self._store.uri} is gone: {TABLE} does not exist.",
            next="Nothing was committed. Restore it from a copy, open the lake again, and run the work again.",
            uri=self._store.uri,
            reason=f"{TABLE} is gone",
        )

    def open(self) -> LanceDataset | None:
        """The newest version, or None while there is no table."""
        lance = _load()
        with self._lock:
            if self._session is None:
                self._session = lance.Session(index_cache_size_bytes=1 << 20, metadata_cache_size_bytes=64 << 20)
        table: LanceDataset
        for again in (True, False):
            try:
                with self._lance("open", hops=2):
                    table = lance.dataset(self.uri, session=self._session, storage_options=self._store.options or None)
                break
            except PermissionDenied:
                raise
            except StorageError:
                # Lance raises one class for a table that is not there and for a store that does not answer.
                if next(self._store.list(f"{TABLE}/_versions"), None) is None:
                    return None
                if not again:  # else somebody may have made it between the two looks
                    raise
        key = table.schema.field(KEY) if KEY in table.schema.names else None
        if key is None or PRIMARY_KEY.encode() not in (key.metadata or {}) or not table.has_stable_row_ids:
            raise corrupt(TABLE, f"it has no column {KEY} that is marked as its key, or no stable row ids")
        return table

    def create(self) -> LanceDataset:
        """Make the table, or open the one that another writer made first.

        An empty table is one small file, so creating that if it is absent is the whole race.
        """
        with tempfile.TemporaryDirectory() as folder:
            with self._lance("create", hops=0):
                _load().write_dataset(schema().empty_table(), f"{folder}/t", enable_stable_row_ids=True)
            [path] = Path(folder, "t", "_versions").glob("*.manifest")
            self._store.create(f"{TABLE}/_versions/{path.name}", path.read_bytes(), mine=lambda found: False)
        table = self.open()
        if table is None:
            raise self.error(OSError("it does not exist although it was just created"))
        return table

    # -- reading ----------------------------------------------------------------------------------------------

    def rows(self, columns: list[str], condition: str) -> list[Row]:
        """Rows in the order in which they were committed."""
        attempt = 0
        while True:
            try:
                table = self.open()
                if table is None:
                    return []
                with self._lance("read", hops=2):
                    found = table.to_table(columns=columns, filter=condition, with_row_id=True)
                    return sorted(found.to_pylist(), key=lambda row: row["_rowid"])
            except StorageError as error:
                attempt += 1
                if attempt == READS or not error.retryable:
                    raise
            pause(attempt)

    def versions(self) -> dict[int, datetime]:
        """The versions that are left, with the time the store says they were written."""
        found = {}
        for entry in self._store.list(f"{TABLE}/_versions"):
            name = entry.key.rpartition("/")[2].removesuffix(".manifest")
            if name.isdigit():
                found[LAST_VERSION - int(name)] = entry.modified
        return found

    # -- changing ---------------------------------------------------------------------------------------------

    def insert(self, table: LanceDataset, row: pa.Table) -> bool:
        """Insert a row unless its key is there. Whether it is proven, without a look, that it is the key's first."""
        base = table.version
        with self._lance("append", hops=6):
            # No retries: one would not tell us who was faster. No index: with one Lance drops the guard.
            builder = table.merge_insert(KEY).when_not_matched_insert_all().conflict_retries(0).use_index(False)
            if builder.execute(row)["num_inserted_rows"] == 0:
                return False
            # Nothing came between that the guard could have passed over, and this version was the newest afterwards.
            proven: bool = table.version == base + 1 == table.latest_version
        self._tidy(table)
        return proven

    def replace(self, rows: pa.Table) -> None:
        """Put rows in the place of those with their keys. They keep the row ids."""
        table = self.open()
        if table is not None:
            with self._lance("replace", hops=6):
                builder = table.merge_insert(KEY).when_matched_update_all().conflict_retries(0).use_index(False)
                builder.execute(rows)
            self._tidy(table)

    def sync(self) -> None:
        """On local disk, make the newest version and all its files durable: Lance does not."""
        attempt = 0
        while self._store.is_local and (table := self.open()) is not None:
            files = {f"{TABLE}/_versions/{LAST_VERSION - table.version:020d}.manifest"}
            for fragment in table.get_fragments():
                about = fragment.metadata
                files |= {f"{TABLE}/data/{file.path}" for file in about.files}
                if about.deletion_file is not None:
                    files.add(f"{TABLE}/{about.deletion_file.path(about.id)}")
            try:
                self._store.sync(sorted(files - self._durable))
                self._durable = frozenset(files)
                return
            except NotFound as error:  # compacted and cleaned up meanwhile
                attempt += 1
                if attempt == READS:
                    raise self.error(error) from error

    # -- upkeep -----------------------------------------------------------------------------------------------

    def compact(self, older_than: timedelta | None, attempts: int = ATTEMPTS) -> None:
        """Merge small fragments, then remove versions older than `older_than`; None keeps them all."""
        attempt = 0
        while (table := self.open()) is not None:
            try:
                with self._lance("compact", hops=6):
                    table.optimize.compact_files(target_rows_per_fragment=ROWS)
                break
            except StorageError:  # a slot was buried meanwhile, or somebody else has compacted
                attempt += 1
                if attempt == attempts:
                    raise
                pause(attempt)
        if older_than is not None and table is not None:
            self.sync()
            with self._lance("cleanup", hops=3):
                table.cleanup_old_versions(older_than=older_than, error_if_tagged_old_versions=False)

    def _tidy(self, table: LanceDataset) -> None:
        """Compact in the background if there is need. It belongs to no operation, so no operation's meter counts it."""
        small = sum(fragment.metadata.physical_rows < ROWS for fragment in table.get_fragments())
        if small > SMALL_FRAGMENTS and self._tidying.acquire(blocking=False):
            contextvars.Context().run(submit, self._tidy_now)

    def _tidy_now(self) -> None:
        try:
            now, older_than = clock.monotonic(), None
            if now - self._cleaned > KEEP_VERSIONS.total_seconds() / 4:  # seldom, because it reads every version
                older_than, self._cleaned = KEEP_VERSIONS, now
            self.compact(older_than, attempts=2)
        except QuireError:
            pass  # nothing depends on it, and the next append asks again
        finally:
            self._tidying.release()

    # -- counting and failing ---------------------------------------------------------------------------------

    @contextmanager
    def _lance(self, kind: str, *, hops: int) -> Iterator[None]:
        """Count the requests that Lance makes, and turn its failures into typed errors."""
        before, start = _requests(), time.perf_counter()
        try:
            yield
        except Exception as error:
            raise self.error(error) from error
        finally:
            end = time.perf_counter()
            record_external("lance", kind, window=(before, _requests()), hops=hops, start=start, end=end)

    def error(self, error: Exception) -> StorageError:
        whole = str(error)
        text = (whole.splitlines() or [type(error).__name__])[0].split(", /")[0].strip().rstrip(".")[:400]
        if isinstance(error, PermissionError) or "403 Forbidden" in whole or "Permission denied" in whole:
            return PermissionDenied(
                f"No permission for {self.uri} ({text}).",
                next="Check that the credentials, or this user, have the permission.",
                uri=self.uri,
            )
        return StorageError(
            f"Lance failed on {self.uri}: {text}.",
            next="Check that the store can be reached, and try again.",
            uri=self.uri,
        )


_loading = threading.Lock()
_recording = False


def _load() -> Any:
    """Lance, imported so that it counts requests: only stores opened after its recorder was installed are counted."""
    global _recording
    with _loading:
        # A lost race is an outcome here, not news for a terminal.
        os.environ.setdefault("LANCE_LOG", "error")
        import lance
        import lance.lance as native

        if not _recording:
            native.register_lance_metrics_recorder()
            _recording = True
    return lance


def _requests() -> int:
    metrics = _load().lance.snapshot_lance_metrics()
    return int(sum(metric.value or 0 for metric in metrics if metric.name == "lance_object_store_requests_total"))
