"""Pinned Lance handles: one session and one cache."""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from quire.errors import CorruptRecord, NotFound, PermissionDenied, QuireError, SnapshotExpired, StorageError
from quire.formats import Place
from quire.formats.lance.lookups.known import Known, Owner, owned
from quire.formats.lance.lookups.stored import KeyObjects
from quire.formats.lance.manifest_bytes import corrupt, parse
from quire.formats.lance.metering import metered, no_request, of_a_table, opened_by, start_counting
from quire.formats.table_files import TableFiles
from quire.formats.tasks import place_of
from quire.ledger import Pin
from quire.store import Store
from quire.store.reach import is_outside

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
_places: weakref.WeakKeyDictionary[LanceDataset, tuple[TableFiles, str]] = weakref.WeakKeyDictionary()
"""The files of the table of a handle that lies where the table lies, in a cloud."""
_schemas: weakref.WeakKeyDictionary[LanceDataset, pa.Schema] = weakref.WeakKeyDictionary()


class LanceSession:
    """Opens pins of the tables of one lake. Code above it cannot ask for "the newest"."""

    def __init__(self, store: Store) -> None:
        load()
        from quire.formats.lance.reading_copy import Copies

        self.store = store
        self.options = dict(store.options) or None
        self.files = TableFiles(store)
        self.is_aside = self.files.is_aside and store.scheme != "memory"
        """Whether what is staged stays on this machine, to be read here alone. What is in memory is there anyway."""
        self._copies = Copies()
        self._session: Any = None
        self._handles: OrderedDict[tuple[str, int], LanceDataset] = OrderedDict()
        self._to_read: OrderedDict[tuple[str, int], LanceDataset] = OrderedDict()
        self._read: set[str] = set()
        self.keys = Known()
        self.noted = KeyObjects(store, self.keys)
        self._owners: dict[tuple[str, bool], Owner] = {}
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
        return self.store.reach.address(location)

    def is_remote(self, location: str) -> bool:
        """Whether versions are made and opened apart from the table: it lies in a cloud, and not on this machine's disk
        or in this process's memory, or nothing may be written to it."""
        return self.is_aside or is_remote(self.uri(location))

    def place(self, handle: LanceDataset) -> Place:
        """A version of a table for other processes."""
        return place_of(self.store, "lance", str(handle.uri), str(handle.version))

    def open(self, pin: Pin, table: str = "") -> LanceDataset:
        return self.open_version(pin.location, version_of(pin), table)

    def open_version(self, location: str, version: int, table: str = "") -> LanceDataset:
        key = (location, version)
        with self._lock:
            handle = self._handles.get(key)
            if handle is not None:
                self._handles.move_to_end(key)
                return handle
        if self.is_remote(location):
            return self.remember_manifest(location, version, self.manifest(location, version, table), table)
        return self.remember(location, self._open(location, version, table))

    def open_to_read(self, pin: Pin, table: str = "") -> LanceDataset:
        """The same for who stages nothing on it: one request at most, whatever the version."""
        location, version = pin.location, version_of(pin)
        if version & DETACHED or self.known(pin) is not None or not self.is_remote(location):
            return to_read(self.open(pin, table))
        key = (location, version)
        with self._lock:
            handle = self._to_read.get(key)
            if handle is not None:
                self._to_read.move_to_end(key)
                return handle
        handle = self._copy(location, version, self.manifest(location, version, table), table)
        if handle is None:
            return self.open(pin, table)
        with self._lock:
            self._to_read[key] = handle
            while len(self._to_read) > CACHED_HANDLES:
                self._to_read.popitem(last=False)
        return handle

    def manifest(self, location: str, version: int, table: str = "", *, now: bool = False) -> bytes:
        """The manifest file of a version as it is stored: with `now` as it is at this moment, whatever is known of it.

        `SnapshotExpired` when it is gone.
        """
        name = f"_versions/{manifest_name(version)}"
        try:
            return self.files.read_now(location, name) if now else self.files.read(location, name)
        except NotFound as error:
            what = f"version {version} of {table or location}"
            raise translate(FileNotFoundError(error.message), what) from error

    def check_stored(self, pin: Pin, table: str = "") -> None:
        """Read the manifest of a pin as it is in the store now; `CorruptRecord` when it is not what is known of it.

        One that is gone is told by whoever looks for the files that the pin needs.
        """
        location, version, handle = pin.location, version_of(pin), self.known(pin)
        if handle is None or not self.is_remote(location):
            return
        what = f"version {version} of {table or location}"
        with suppress(SnapshotExpired):
            body = self.manifest(location, version, table, now=True)
            written = self.files.kept(location, f"_versions/{manifest_name(version)}")
            if written is None:  # Lance of another version may have encoded it otherwise, so both are told by this one
                stored = self._opened(location, version, body, table, shared=False)
                same = _message(stored) == _message(handle)
            else:
                same = written == body
            if not same:
                raise corrupt(what, "it is not the file that was written")

    def private(self, location: str, version: int) -> LanceDataset:
        """A handle of one's own: some verbs borrow it exclusively, and cached ones are shared between threads."""
        return self._open(location, version)

    def remember(self, location: str, handle: LanceDataset) -> LanceDataset:
        self._own(handle, location)
        with self._lock:
            self._handles[(location, handle.version)] = handle
            while len(self._handles) > CACHED_HANDLES:
                self._handles.popitem(last=False)
        return handle

    def remember_manifest(self, location: str, version: int, body: bytes, table: str = "") -> LanceDataset:
        """The handle of a version whose manifest file this process has, because it wrote or read it.

        A staged version is opened without a request; whether it is in the store is not asked.
        """
        return self.remember(location, self._opened(location, version, body, table))

    def here(self, location: str, handle: LanceDataset) -> LanceDataset:
        """A version to be read where files of it may be on this machine alone."""
        return to_read(self.open_version(location, int(handle.version)))

    def known(self, pin: Pin) -> LanceDataset | None:
        """The handle of a pin, if it is open."""
        with self._lock:
            return self._handles.get((pin.location, version_of(pin)))

    def uncached(self, location: str, version: int) -> LanceDataset:
        """A handle that reads what is in the store now, whatever was read before."""
        if self.is_remote(location):
            return self._opened(location, version, self.manifest(location, version, now=True), shared=False)
        return self._open(location, version, shared=False)

    def _open(self, location: str, version: int | None, table: str = "", *, shared: bool = True) -> LanceDataset:
        import lance

        def work() -> LanceDataset:
            session = self.session if shared else None
            return lance.dataset(self.uri(location), version=version, session=session, storage_options=self.options)

        what = f"{'the HEAD' if version is None else f'version {version}'} of {table or location}"
        handle = self.call("open", work, hops=2, what=what, location=location)
        self._own(handle, location)
        return handle

    def _opened(
        self, location: str, version: int, body: bytes, table: str = "", *, shared: bool = True
    ) -> LanceDataset:
        from quire.formats.lance.reading_copy import open_bytes

        what = f"version {version} of {table or location}"
        uri = self.uri(location)
        options: dict[str, Any] = {"storage_options": self.options}
        copied = None
        if shared:
            options["session"] = self.session
            copied = partial(self._copied, location, version, body)
        work = partial(open_bytes, uri, version, body, what, options, copied)
        if version & DETACHED:
            with translating(what):
                handle = work()
            no_request("open")
        else:
            handle = self.call("open", work, hops=1, what=what, location=location)
        if self.is_aside and copied is not None and version & DETACHED:
            handle.copied, handle.is_aside = copied, True
        if not handle.listed:
            _described[handle] = handle.version, []
        self._own(handle, location, by_copy=handle.copied is not None)
        return handle

    def _copy(self, location: str, version: int, body: bytes, table: str) -> LanceDataset | None:
        from quire.formats.lance.reading_copy import Unlike
        from quire.formats.lance.scratch import NoScratch

        what = f"version {version} of {table or location}"
        parse(body, version, what)
        with suppress(Unlike, NoScratch):
            return self._copied(location, version, body)
        return None

    def _copied(self, location: str, version: int, body: bytes) -> LanceDataset:
        handle = self._copies.open(
            body,
            version,
            self.uri(location),
            {"session": self.session, "storage_options": self.options},
            partial(self.files.kept, location),
            partial(self.files.held, location) if self.is_aside else None,
        )
        self._own(handle, location, by_copy=True, copy=True)
        return handle

    def _own(self, handle: LanceDataset, location: str, *, by_copy: bool = False, copy: bool = False) -> None:
        opened_by(handle, self._read, by_copy=by_copy)
        if not copy and self.is_remote(location):
            _places[handle] = self.files, location
        owner = self._owners.get((location, copy))
        if owner is None:
            stored = None if is_outside(location) else self.noted.of(location)
            owner = self._owners[location, copy] = Owner(self.keys, location, stored, copy)
        owned(handle, owner)

    def open_head(self, location: str) -> LanceDataset:
        """The plain HEAD: only for backfill, adoption and registration, which are about what plain clients see."""
        return self._open(location, None)

    def call(self, kind: str, work: Callable[[], T], *, hops: int, what: str, location: str = "") -> T:
        """Run one Lance call that makes its requests in turn, `hops` ordinarily.

        They are counted apart; failures become typed errors.
        """
        with metered(kind, self.uri(location) if location else self.store.uri, steps=hops), translating(what):
            return work()


def to_read(handle: LanceDataset) -> LanceDataset:
    """The handle by which a version is read."""
    from quire.formats.lance.reading_copy import Indexed

    return handle.to_read() if isinstance(handle, Indexed) else handle


def _message(handle: LanceDataset) -> bytes:
    found: bytes = getattr(handle, "_ds").serialized_manifest()  # noqa: B009
    return found


def manifest_name(version: int) -> str:
    """The file of a version, in the folder `_versions` of its table.

    Staged ones are named by it, linear ones by its complement, so that the newest sorts first.
    """
    return f"d{version}.manifest" if version & DETACHED else f"{2**64 - 1 - version:020d}.manifest"


def is_remote(uri: str) -> bool:
    """Whether a table lies in a cloud: not on this machine's disk, and not in this process's memory."""
    return "://" in uri and not uri.startswith("memory://")


def version_of(pin: Pin) -> int:
    """The version that a pin names. Any other text is damage."""
    text = pin.version
    if not (text.isascii() and text.isdigit() and len(text) <= 20 and int(text) < 2**64):
        raise CorruptRecord(
            f"The pin of the table at {pin.location} names an invalid version, {text[:40]!r}.",
            next="Restore that record from a backup; `quire verify` names it.",
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


def small_file(handle: LanceDataset, name: str) -> bytes | None:
    """A small file of the table of a handle, read by our own store, which remembers it; None where Lance has to."""
    place = _places.get(handle)
    return None if place is None else place[0].read(place[1], name)


def known_indexes(handle: LanceDataset) -> list[Any]:
    """The same as far as it was read before; no request."""
    known, found = _described.get(handle, (None, []))
    return found if known == handle.version else []


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
    except BaseException as error:
        if not is_panic(error):
            raise
        raise translate(error, what) from None


def is_panic(error: BaseException) -> bool:
    """Whether code in Rust gave up: what it raises then is no `Exception`, and would end a program."""
    return type(error).__name__ == "PanicException" and not isinstance(error, Exception)


def translate(error: BaseException, what: str) -> QuireError:
    """A Lance failure as a typed error.

    Lance raises one class for many causes, so a file that is gone can only be told by what it says; no decision about a
    commit ever rests on it.
    """
    text = first_line(error)
    if is_panic(error):
        return StorageError(
            f"Lance gave up on {what}: {text}.",
            next="Nothing was committed. Please report it with the data; other rows or other columns may do.",
            what=what,
            panic=True,
        )
    if is_gone(error):
        return SnapshotExpired(
            f"Cannot read {what}: a file it needs is gone ({text}).",
            next="Open a newer snapshot; if this one should still exist, `quire doctor` looks for the cause.",
            what=what,
        )
    if is_denied(error):
        advice = "Check that the credentials, or this user, have the permission."
        return PermissionDenied(f"No permission for {what}.", next=advice, what=what)
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


def load() -> None:
    """Import Lance so that it counts requests."""
    # A lost promotion race is an outcome here, not news for a terminal.
    os.environ.setdefault("LANCE_LOG", "error")
    start_counting()
