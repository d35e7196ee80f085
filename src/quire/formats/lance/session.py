"""Pinned Lance handles: one session, one cache, and Lance's own request counts."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from quire.errors import PermissionDenied, QuireError, SnapshotExpired, StorageError
from quire.ledger import Pin
from quire.store import Store, record_external

if TYPE_CHECKING:
    from lance import LanceDataset

T = TypeVar("T")

CACHED_HANDLES = 1024
INDEX_CACHE = 256 << 20
METADATA_CACHE = 128 << 20
DETACHED = 1 << 63
"""A version with this bit set is a staged (detached) one."""

_recorder = threading.Lock()
_recording = False
_memory_sessions: dict[str, Any] = {}


class LanceSession:
    """Opens pins of the tables of one lake. Code above it cannot ask for "the newest"."""

    def __init__(self, store: Store) -> None:
        load()
        self.store = store
        self.options = dict(store.options) or None
        self._session: Any = None
        self._handles: OrderedDict[tuple[str, int], LanceDataset] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def session(self) -> Any:
        if self._session is None:
            with self._lock:
                if self._session is None:
                    self._session = _memory_session(self.store.uri) if self.store.scheme == "memory" else _session()
        return self._session

    def uri(self, location: str) -> str:
        """Where a table lies: below the lake, or at an address of its own when it was registered."""
        return location if _absolute(location) else self.store.child_uri(location)

    def open(self, pin: Pin, table: str = "") -> LanceDataset:
        return self.open_version(pin.location, int(pin.version), table)

    def open_version(self, location: str, version: int, table: str = "") -> LanceDataset:
        key = (location, version)
        with self._lock:
            handle = self._handles.get(key)
            if handle is not None:
                self._handles.move_to_end(key)
                return handle
        handle = self.call(
            "open", lambda: self._open(location, version), hops=2, what=f"version {version} of {table or location}"
        )
        return self.remember(location, handle)

    def private(self, location: str, version: int) -> LanceDataset:
        """A handle of one's own: some verbs borrow it exclusively, and cached ones are shared between threads."""
        what = f"version {version} of {location}"
        return self.call("open", lambda: self._open(location, version), hops=2, what=what)

    def remember(self, location: str, handle: LanceDataset) -> LanceDataset:
        with self._lock:
            self._handles[(location, handle.version)] = handle
            while len(self._handles) > CACHED_HANDLES:
                self._handles.popitem(last=False)
        return handle

    def _open(self, location: str, version: int) -> LanceDataset:
        import lance

        return lance.dataset(self.uri(location), version=version, session=self.session, storage_options=self.options)

    def open_head(self, location: str) -> LanceDataset:
        """The plain HEAD: only for backfill, adoption and registration, which are about what plain clients see."""
        import lance

        def work() -> LanceDataset:
            return lance.dataset(self.uri(location), session=self.session, storage_options=self.options)

        return self.call("open", work, hops=2, what=f"the HEAD of {location}")

    def call(self, kind: str, work: Callable[[], T], *, hops: int, what: str) -> T:
        """Run one Lance call; count its requests apart; turn its failures into typed errors."""
        with metered(kind, hops=hops):
            try:
                return work()
            except QuireError:
                raise
            except Exception as error:
                raise translate(error, what) from error


def _session() -> Any:
    import lance

    return lance.Session(index_cache_size_bytes=INDEX_CACHE, metadata_cache_size_bytes=METADATA_CACHE)


def _memory_session(uri: str) -> Any:
    """Lance keeps what is in memory per session, so every handle on one memory lake shares one."""
    with _recorder:
        return _memory_sessions.setdefault(uri, _session())


@contextmanager
def metered(kind: str, *, hops: int) -> Iterator[None]:
    before, start = _requests(), time.perf_counter()
    try:
        yield
    finally:
        # Lance counts for the whole process, so side-by-side calls see each other's requests: a meter takes the union.
        record_external("lance", kind, window=(before, _requests()), hops=hops, start=start, end=time.perf_counter())


def translate(error: Exception, what: str) -> QuireError:
    """A Lance failure as a typed error.

    Lance raises one class for many causes, so a file that is gone can only be told by what it says; no decision about a
    commit ever rests on it.
    """
    text = first_line(error)
    if is_gone(error):
        return SnapshotExpired(
            f"Cannot read {what}: a file it needs is gone ({text}).",
            next="Open a newer snapshot; if this one should still exist, `quire doctor` looks for the cause.",
            what=what,
        )
    if isinstance(error, PermissionError):
        return PermissionDenied(
            f"No permission for {what}.", next="Check the credentials and the bucket policy.", what=what
        )
    return StorageError(f"Lance failed on {what}: {text}.", next="Nothing was committed; try again.", what=what)


def is_gone(error: BaseException) -> bool:
    return isinstance(error, FileNotFoundError) or "not found" in first_line(error).lower()


def first_line(error: BaseException) -> str:
    """The first line of an error without the library's source locations."""
    text = (str(error).splitlines() or [type(error).__name__])[0]
    return text.split(", /")[0].split(", rust/")[0].strip().rstrip(".")[:400]


def _absolute(location: str) -> bool:
    return "://" in location or location.startswith("/")


def load() -> None:
    """Import Lance so that it counts requests: only stores opened after its recorder was installed are counted."""
    global _recording
    with _recorder:
        if not _recording:
            # A lost promotion race is an outcome here, not news for a terminal.
            os.environ.setdefault("LANCE_LOG", "error")
            import lance.lance as native

            native.register_lance_metrics_recorder()
            _recording = True


def _requests() -> int:
    if not _recording:
        return 0
    import lance.lance as native

    metrics = native.snapshot_lance_metrics()
    return int(sum(m.value or 0 for m in metrics if m.name == "lance_object_store_requests_total"))
