"""The one way in which Quire touches storage: objects below a root, on disk, in memory or in a cloud.

store = Store.open("s3://bucket/lake", {"aws_region": "eu-central-1"})
store.create("log/1", b"…", mine=lambda found: found == b"…").outcome
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from quire import errors
from quire.store import clock, meter
from quire.store.address import Address, accept, check_key, check_prefix, parse
from quire.store.backend import LARGEST, Backend, Entry, Extending, Failure, Follows, Reason
from quire.store.conditional_put import Created, pause, settle
from quire.store.local import LocalFiles
from quire.store.prefixed import Prefixed
from quire.store.reach import Reach
from quire.store.threads import run_parallel

T = TypeVar("T")

LOOK_AGAIN = 600.0
"""Seconds after which the clock of a file system is looked at again."""

_REMOTE = ("s3", "gs", "az")
_schemes: dict[str, Callable[[Address, Mapping[str, str]], Backend]] = {}


def register_scheme(scheme: str, backend: Callable[[Address, Mapping[str, str]], Backend]) -> None:
    """Let `scheme://container/path` open a backend of one's own, in this process: for tests and simulations."""
    accept(scheme)
    _schemes[scheme] = backend


class Store:
    """Objects below one root. Safe to share between threads; every request is metered.

    Keys are names joined by '/', relative to the root. Reads, overwrites, deletes and listings are repeated when the
    store fails in a way that may pass. What cannot be done raises a `QuireError` that names the root and, where there
    is one, the key; no error and no `repr` holds a storage option.
    """

    def __init__(self, address: Address, options: Mapping[str, str], backend: Backend) -> None:
        self.uri = address.uri
        self.scheme = address.scheme
        self.options = dict(options)
        self._backend = backend
        self.reach = Reach(address)
        """Where locations in records may lead to."""
        self._seen: tuple[float, datetime] | None = None
        """What time it was for the store when something had just been written, and our own steady clock then."""

    @staticmethod
    def open(uri: str | os.PathLike[str], options: Mapping[str, str] | None = None) -> Store:
        """Open a root without touching it.

        `options` are the storage options that Lance takes too (`aws_access_key_id`, `aws_endpoint`, `allow_http`, …),
        on top of the environment. `memory://name` is one store per name and process.
        """
        address = parse(uri)
        given = {key: str(value) for key, value in (options or {}).items()}
        backend: Backend
        if address.scheme in _schemes:
            backend = _schemes[address.scheme](address, given)
        elif address.scheme == "file":
            backend = LocalFiles(address.path)
        else:
            from quire.store.remote import RemoteObjects

            backend = RemoteObjects(address, given)
        return Store(address, given, backend)

    def below(self, location: str) -> Store:
        """What lies at a location of a record, as a store; below a remote root it shares the connections."""
        uri = self.reach.address(location)
        if self.scheme == "memory" and uri.startswith(f"{self.uri}/"):
            return Store(parse(self.uri), self.options, Prefixed(self._backend, uri[len(self.uri) + 1 :]))
        if self.scheme not in _REMOTE or not uri.startswith(f"{self.uri}/"):
            return Store.open(uri, self.options)
        return Store(parse(uri), self.options, Prefixed(self._backend, uri[len(self.uri) + 1 :]))

    @property
    def is_local(self) -> bool:
        return self.scheme == "file"

    def saw(self, modified: datetime) -> None:
        """Remember the time that the store gave to an object which was written a moment ago."""
        self._seen = clock.monotonic(), modified

    def known_time(self, *, fresh: bool = False) -> datetime | None:
        """What time it is for the store, as far as that can be told without a request; with `fresh` by a new look."""
        old = self._seen is None or clock.monotonic() - self._seen[0] > LOOK_AGAIN
        if isinstance(self._backend, LocalFiles) and (fresh or old):
            modified = self._backend.time()
            if modified is not None:
                self.saw(modified)
        elif fresh:
            return None
        if self._seen is None:
            return None
        then, modified = self._seen
        return modified + timedelta(seconds=clock.monotonic() - then)

    def child_uri(self, key: str) -> str:
        """The URI of something below the root, as Lance wants it."""
        check_key(key)
        return os.path.join(self.uri, *key.split("/")) if self.is_local else f"{self.uri}/{key}"

    def get(self, key: str) -> bytes:
        """The object's bytes; raises `NotFound`."""
        check_key(key)
        return self._ask("get", key, partial(self._backend.get, key))

    def get_or_none(self, key: str) -> bytes | None:
        """The object's bytes, or None where there is no object."""
        try:
            return self.get(key)
        except errors.NotFound:
            return None

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """All these objects, read in parallel, in the order of the keys; None where there is no object."""
        return run_parallel([partial(self.get_or_none, key) for key in keys])

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Bytes from `start`, which must lie inside the object; fewer than `length` if the object ends before."""
        check_key(key)
        if start < 0 or length < 0:
            raise errors.InvalidInput(f"{length} bytes from byte {start} is not a valid range.", key=key)
        if length == 0:
            return b""
        return self._ask("get", key, partial(self._backend.get_range, key, start, length))

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Several (start, length) ranges of one object, read in parallel with one request each."""
        return run_parallel([partial(self.get_range, key, start, length) for start, length in ranges])

    def stat(self, key: str) -> Entry | None:
        """Size and time of an object, or None where there is no object."""
        check_key(key)
        try:
            return self._ask("head", key, partial(self._backend.head, key))
        except errors.NotFound:
            return None

    def put(self, key: str, data: bytes) -> None:
        """Write an object whether or not it exists. Readers see all of the old bytes or all of the new ones."""
        check_key(key)
        self._ask("put", key, partial(self._backend.put, key, data), bytes_out=len(data))

    def create(
        self,
        key: str,
        data: bytes,
        *,
        mine: Callable[[bytes], bool],
        deadline: float | None = None,
        beside: Callable[[], object] | None = None,
        follows: Follows | None = None,
    ) -> Created:
        """Write an object only if the key is free, and say who owns it now.

        On a local disk `follows` must be there and be what it was, or nothing is written and `LakeLost` says so; no
        object store can be asked that without another request.

        After any failure the key is read: `mine` must tell, without raising, whether bytes found there are this very
        write, so `data` should hold a unique id. `UNKNOWN` means that the write may have happened or may still happen;
        reading the key later settles it. An error means that nothing was written. No attempt starts after `deadline`
        (a `clock.monotonic()` value), but a write that was sent is always followed up by one read. `beside` is called
        side by side with that read; what it raises is nobody's concern.
        """
        check_key(key)
        write = partial(self._backend.create, key, data)
        if follows is not None and self.scheme not in _REMOTE and isinstance(self._backend, Extending):
            write = partial(self._backend.extend, key, data, follows)
        put = partial(self._send, "create", write, len(data))
        get: Callable[[], bytes] = partial(self._send, "get", partial(self._backend.get, key))
        read = get if beside is None else partial(_both, get, beside)
        try:
            return settle(put, read, mine, deadline)
        except Failure as caught:
            failure = caught
        raise self._error("create", key, failure)

    def bind(self, key: str | None = None, body: bytes = b"") -> None:
        """Hold on to the directory that is at the root now: on a local disk every request that finds another one there,
        or none, raises `LakeLost`. So does every write after the object `key` has gone or holds anything but `body`."""
        if isinstance(self._backend, LocalFiles):
            self._without_request("open", "", partial(self._backend.bind, key, body))

    def confirm(self, known: Follows | None) -> None:
        """On a local disk, raise `LakeLost` unless the root is what it was bound to, and an object what it was.

        It costs no request.
        """
        if self.scheme in _REMOTE:
            return
        if known is not None and isinstance(self._backend, Extending):
            self._without_request("get", known.key, partial(self._backend.precedes, known))
        elif isinstance(self._backend, LocalFiles):
            self._without_request("get", "", self._backend.check_home)

    def links(self) -> list[str]:
        """Keys of symbolic links below the root of a local disk. No listing, write or delete follows them."""
        if isinstance(self._backend, LocalFiles):
            return self._without_request("list", "", self._backend.links)
        return []

    def _without_request(self, verb: str, key: str, call: Callable[[], T]) -> T:
        try:
            return call()
        except Failure as caught:
            failure = caught
        raise self._error(verb, key, failure)

    def delete(self, key: str) -> None:
        """Remove an object; a missing one is fine."""
        check_key(key)
        self._ask("delete", key, partial(self._backend.delete, key))

    def sweep(self, before: datetime) -> None:
        """Remove what processes that are gone had half written on a local disk, and that no listing shows."""
        if isinstance(self._backend, LocalFiles):
            self._ask("sweep", "", partial(self._backend.sweep, before))

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[Entry]:
        """All objects below the folder `prefix`, at any depth, sorted by key; only keys greater than `after`, if given.

        `a` and `a/` are the same folder and do not hold `ab`; the empty prefix is the root.
        """
        folder = check_prefix(prefix)
        if after is not None:
            check_key(after)
        return self._in_order(folder, after) if self._backend.in_order else self._sorted(folder, after)

    def _in_order(self, folder: str, after: str | None) -> Iterator[Entry]:
        attempt = 0
        while True:
            try:
                for page in self._pages(folder, after):
                    yield from page
                    after, attempt = page[-1].key, 0
                return
            except Failure as caught:
                failure = caught
            attempt += 1
            self._give_up_or_pause("list", folder, failure, attempt)

    def _sorted(self, folder: str, after: str | None) -> Iterator[Entry]:
        attempt = 0
        while True:
            try:
                entries = [entry for page in self._pages(folder, None) for entry in page]
                break
            except Failure as caught:
                failure = caught
            attempt += 1
            self._give_up_or_pause("list", folder, failure, attempt)
        yield from sorted((entry for entry in entries if after is None or entry.key > after), key=lambda e: e.key)

    def _pages(self, folder: str, after: str | None) -> Iterator[Sequence[Entry]]:
        """The pages of one listing, each counted as a request."""
        pages = self._backend.pages(folder, after)
        empty = True
        while True:
            start = time.perf_counter()
            page: Sequence[Entry] | None = None
            try:
                page = next(pages, ())
            finally:
                # The end of a listing comes with its last page; only an empty one has a request for it.
                if page is None or page or empty:
                    meter.record("list", start=start, end=time.perf_counter())
            if not page:
                return
            yield page
            empty = False

    def sync(self, paths: Iterable[str]) -> None:
        """On local disk, make these files and the folders that lead to them from the root durable; elsewhere they are.

        For files that others wrote. Paths are keys or absolute.
        """
        wanted = list(dict.fromkeys(paths))
        try:
            self._backend.sync(wanted)
            return
        except Failure as caught:
            failure = caught
        raise self._error("sync", ", ".join(wanted[:3]), failure)

    def __repr__(self) -> str:
        return f"Store({self.uri!r})"

    def _send(self, kind: str, call: Callable[[], T], bytes_out: int = 0) -> T:
        """One request, counted."""
        start = time.perf_counter()
        received = 0
        try:
            result = call()
            received = len(result) if isinstance(result, bytes) else 0
            return result
        finally:
            meter.record(kind, start=start, end=time.perf_counter(), bytes_in=received, bytes_out=bytes_out)

    def _ask(self, kind: str, key: str, call: Callable[[], T], bytes_out: int = 0) -> T:
        """A request that may be repeated."""
        attempt = 0
        while True:
            try:
                return self._send(kind, call, bytes_out)
            except Failure as caught:
                failure = caught
            attempt += 1
            self._give_up_or_pause(kind, key, failure, attempt)

    def _give_up_or_pause(self, verb: str, key: str, failure: Failure, attempt: int) -> None:
        if failure.reason is not Reason.FAILED or attempt >= self._backend.attempts:
            raise self._error(verb, key, failure)
        pause(attempt)
        meter.record_retry()

    def _error(self, verb: str, key: str, failure: Failure) -> errors.QuireError:
        where: dict[str, Any] = {"uri": self.uri, "key": key}
        if failure.reason is Reason.ABSENT and verb in ("get", "head", "sync"):
            return errors.NotFound(f"{key!r} does not exist in {self.uri}.", **where)
        if failure.reason is Reason.GONE:
            return errors.LakeLost(
                f"The lake at {self.uri} is gone since it was opened: {failure.detail}.",
                next="Nothing was committed. Restore or find the lake, open it again, and run the work again.",
                reason=failure.detail,
                **where,
            )
        what = f"{self.uri}: {verb} of {key!r} failed"
        if failure.reason is Reason.DENIED:
            return errors.PermissionDenied(
                f"{what}: permission denied ({failure.detail}).",
                next=failure.advice or "Check that the credentials, or this user, have the permission.",
                **where,
            )
        if failure.reason is Reason.ABSENT:
            place = "directory" if self.is_local else "bucket or container"
            return errors.StorageError(
                f"{what}: the {place} does not exist ({failure.detail}).",
                next=f"Create the {place} first, or correct the address.",
                retryable=False,
                **where,
            )
        if failure.reason is Reason.LATE:
            return errors.DeadlineExceeded(f"{what}: {failure.detail}.", next="Allow more time with timeout=.", **where)
        if failure.reason is Reason.UNSAFE:
            return errors.UnsafeStore(
                f"{what}: {failure.detail}.", next="Keep the lake on another file system or store.", **where
            )
        if failure.reason is Reason.LARGE:
            return errors.StorageError(
                f"{what} ({failure.detail}).",
                next="Quire never writes an object of this size, so this version did not write it.",
                retryable=False,
                larger_than=LARGEST,
                **where,
            )
        if failure.reason is Reason.REFUSED:
            return errors.StorageError(
                f"{what} ({failure.detail}).", next="Correct the cause. Nothing was changed.", retryable=False, **where
            )
        return errors.StorageError(
            f"{what} ({failure.detail}).", next="Check that the store can be reached, and try again.", **where
        )


def _both(read: Callable[[], bytes], beside: Callable[[], object]) -> bytes:
    """The read's result, after both have ended."""

    def quietly() -> bytes:
        with contextlib.suppress(Exception):
            beside()
        return b""

    found: bytes = run_parallel([read, quietly])[0]
    return found
