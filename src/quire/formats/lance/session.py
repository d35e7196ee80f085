"""Pinned Lance handles: one session and one cache."""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

from quire.errors import CorruptRecord, PermissionDenied, QuireError, SnapshotExpired, StorageError, Unsupported
from quire.formats.lance.metering import metered, of_a_table, opened_by, start_counting
from quire.formats.protocol import Place
from quire.ledger import Pin
from quire.store import Store
from quire.store.credentials import carried

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset

T = TypeVar("T")

CACHED_HANDLES = 1024
INDEX_CACHE = 256 << 20
METADATA_CACHE = 128 << 20
DETACHED = 1 << 63
"""A version with this bit set is a staged (detached) one."""

DENIED = ("Permission denied", "AccessDenied", "403 Forbidden")
"""What Lance's one class of errors says when it was refused."""

_sharing = threading.Lock()
_memory_sessions: dict[str, Any] = {}
_described: weakref.WeakKeyDictionary[LanceDataset, tuple[int, list[Any]]] = weakref.WeakKeyDictionary()
_schemas: weakref.WeakKeyDictionary[LanceDataset, pa.Schema] = weakref.WeakKeyDictionary()


class LanceSession:
    """Opens pins of the tables of one lake. Code above it cannot ask for "the newest"."""

    def __init__(self, store: Store) -> None:
        load()
        self.store = store
        self.options = dict(store.options) or None
        self._session: Any = None
        self._handles: OrderedDict[tuple[str, int], LanceDataset] = OrderedDict()
        self._read: set[str] = set()
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

    def place(self, handle: LanceDataset) -> Place:
        """A version of a table for other processes. What is in this one's memory they cannot see."""
        if self.store.scheme == "memory":
            raise Unsupported(
                f"The lake {self.store.uri} is in the memory of this process, where no other can read it.",
                next="Use a directory or a bucket.",
                uri=self.store.uri,
            )
        return Place(str(handle.uri), int(handle.version), carried(self.store.scheme, self.options or {}))

    def open(self, pin: Pin, table: str = "") -> LanceDataset:
        return self.open_version(pin.location, version_of(pin), table)

    def open_version(self, location: str, version: int, table: str = "") -> LanceDataset:
        key = (location, version)
        with self._lock:
            handle = self._handles.get(key)
            if handle is not None:
                self._handles.move_to_end(key)
                return handle
        return self.remember(location, self._open(location, version, table))

    def private(self, location: str, version: int) -> LanceDataset:
        """A handle of one's own: some verbs borrow it exclusively, and cached ones are shared between threads."""
        return self._open(location, version)

    def remember(self, location: str, handle: LanceDataset) -> LanceDataset:
        opened_by(handle, self._read)
        with self._lock:
            self._handles[(location, handle.version)] = handle
            while len(self._handles) > CACHED_HANDLES:
                self._handles.popitem(last=False)
        return handle

    def known(self, pin: Pin) -> LanceDataset | None:
        """The handle of a pin, if it is open."""
        with self._lock:
            return self._handles.get((pin.location, version_of(pin)))

    def uncached(self, location: str, version: int) -> LanceDataset:
        """A handle that reads what is in the store now, whatever was read before."""
        return self._open(location, version, shared=False)

    def _open(self, location: str, version: int | None, table: str = "", *, shared: bool = True) -> LanceDataset:
        import lance

        def work() -> LanceDataset:
            session = self.session if shared else None
            return lance.dataset(self.uri(location), version=version, session=session, storage_options=self.options)

        what = f"{'the HEAD' if version is None else f'version {version}'} of {table or location}"
        handle = self.call("open", work, hops=2, what=what, location=location)
        opened_by(handle, self._read)
        return handle

    def open_head(self, location: str) -> LanceDataset:
        """The plain HEAD: only for backfill, adoption and registration, which are about what plain clients see."""
        return self._open(location, None)

    def call(self, kind: str, work: Callable[[], T], *, hops: int, what: str, location: str = "") -> T:
        """Run one Lance call that makes its requests in turn, `hops` ordinarily.

        They are counted apart; failures become typed errors.
        """
        with metered(kind, self.uri(location) if location else self.store.uri, steps=hops), translating(what):
            return work()


def version_of(pin: Pin) -> int:
    """The version that a pin names. Anything that is none is damage."""
    text = pin.version
    if not (text.isascii() and text.isdigit() and len(text) <= 20 and int(text) < 2**64):
        raise CorruptRecord(
            f"The pin of the table at {pin.location} names version {text[:40]!r}, which is none.",
            next="Restore the record that says so from a backup; `quire verify` names it.",
            location=pin.location,
        )
    return int(text)


def _session() -> Any:
    import lance

    return lance.Session(index_cache_size_bytes=INDEX_CACHE, metadata_cache_size_bytes=METADATA_CACHE)


def _memory_session(uri: str) -> Any:
    """Lance keeps what is in memory per session, so every handle on one memory lake shares one."""
    with _sharing:
        return _memory_sessions.setdefault(uri, _session())


def described(handle: LanceDataset) -> list[Any]:
    """The indexes of a version, as Lance describes them. It reads their list once, and so does this."""
    version = handle.version
    known, found = _described.get(handle, (None, []))
    if known != version:
        with metered("indexes", handle.uri, steps=1) if of_a_table(handle) else nullcontext():
            found = list(handle.describe_indices())
        _described[handle] = version, found
    return found


def schema_of(handle: LanceDataset) -> pa.Schema:
    """The schema of a pinned handle, which Lance makes anew at every call."""
    found = _schemas.get(handle)
    if found is None:
        found = _schemas[handle] = handle.schema
    return found


def same_schema(handle: LanceDataset, base: LanceDataset) -> None:
    """Say that a version has the schema of the one that it was made from."""
    known = _schemas.get(base)
    if known is not None:
        _schemas[handle] = known


@contextmanager
def translating(what: str) -> Iterator[None]:
    """Turn a failure of Lance into a typed error."""
    try:
        yield
    except QuireError:
        raise
    except Exception as error:
        raise translate(error, what) from error


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
    if is_denied(error):
        return PermissionDenied(
            f"No permission for {what}.", next="Check the credentials and the bucket policy.", what=what
        )
    return StorageError(f"Lance failed on {what}: {text}.", next="Nothing was committed; try again.", what=what)


def is_gone(error: BaseException) -> bool:
    return isinstance(error, FileNotFoundError) or "not found" in first_line(error).lower()


def is_denied(error: BaseException) -> bool:
    """Whether the store or the file system refused: to try again is of no use."""
    return isinstance(error, PermissionError) or any(word in str(error) for word in DENIED)


def first_line(error: BaseException) -> str:
    """The first line of an error without the library's source locations."""
    text = (str(error).splitlines() or [type(error).__name__])[0]
    return text.split(", /")[0].split(", rust/")[0].strip().rstrip(".")[:400]


def _absolute(location: str) -> bool:
    return "://" in location or location.startswith("/")


def load() -> None:
    """Import Lance so that it counts requests."""
    # A lost promotion race is an outcome here, not news for a terminal.
    os.environ.setdefault("LANCE_LOG", "error")
    start_counting()
