"""Objects as files below a directory, durable when a write returns.

The object store library does not fsync, so writes are done here: a temporary file beside the target, fsync, then a
rename (overwrite) or a hard link (create: the kernel lets exactly one link win), then fsync of the directory.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import os
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import BinaryIO

from quire.store import clock
from quire.store.address import TEMPORARY_SUFFIX, is_temporary
from quire.store.backend import LARGEST, Entry, Failure, Reason
from quire.store.parallel import run_parallel

_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}
_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR}
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}


class LocalFiles:
    """A `Backend` on a directory. The directory and folders below it are made by the first write."""

    attempts = 1
    in_order = False

    def __init__(self, root: str) -> None:
        self._root = root
        # Directories whose whole chain up to the file system's root this process has synced.
        self._durable: set[str] = set()
        self._lock = threading.Lock()

    def get(self, key: str) -> bytes:
        with _failing(), open(self._path(key), "rb") as file:
            if os.fstat(file.fileno()).st_size > LARGEST:
                raise Failure(Reason.REFUSED, f"the object is larger than {LARGEST} bytes")
            return file.read()

    def get_range(self, key: str, start: int, length: int) -> bytes:
        with _failing(), open(self._path(key), "rb") as file:
            file.seek(start)
            data = file.read(length)
        if not data:
            raise Failure(Reason.REFUSED, f"the object ends before byte {start}")
        return data

    def head(self, key: str) -> Entry:
        path = self._path(key)
        with _failing():
            entry = _entry(key, os.stat(path))
            if os.path.isdir(path):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        return entry

    def put(self, key: str, data: bytes) -> None:
        path = self._path(key)
        with self._staged(path, data) as temporary, _failing(_Phase.APPLY):
            os.replace(temporary, path)
            _sync(os.path.dirname(path))

    def create(self, key: str, data: bytes) -> None:
        path = self._path(key)
        with self._staged(path, data) as temporary:
            try:
                os.link(temporary, path)
                found = False
            except FileExistsError:
                if os.path.isdir(path):
                    raise Failure(Reason.REFUSED, "a folder has that name") from None
                found = True
            except OSError as error:
                raise _link_failure(error) from None
        try:
            # Also when we lost: whoever builds on what is there must find it after a power cut.
            _sync(os.path.dirname(path))
        except OSError as error:
            raise Failure(Reason.UNDURABLE, f"{type(error).__name__}: {error.strerror}") from None
        if found:
            raise Failure(Reason.EXISTS, "the file exists")

    def delete(self, key: str) -> None:
        path = self._path(key)
        with _failing():
            if os.path.isdir(path):
                return
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                os.unlink(path)

    def pages(self, prefix: str, after: str | None) -> Iterator[Sequence[Entry]]:
        with _failing():
            found = list(self._walk(prefix))
        yield found

    def sweep(self, before: datetime) -> None:
        """Remove temporary files that were last written to before a time."""
        with _failing():
            for folder, _, names in os.walk(self._root):
                for path in (os.path.join(folder, name) for name in names if is_temporary(name)):
                    with contextlib.suppress(FileNotFoundError):
                        if _entry("", os.stat(path)).modified < before:
                            os.unlink(path)

    def sync(self, paths: Sequence[str]) -> None:
        files = {os.path.join(self._root, path) for path in paths}
        folders: set[str] = set()
        for file in files:
            folders.update(self._folders(file))
        run_parallel([partial(self._sync_one, target) for target in (*sorted(files), *sorted(folders))])

    def _sync_one(self, path: str) -> None:
        try:
            with _failing():
                _sync(path)
        except Failure as failure:
            # A folder far above a table that lies elsewhere may be closed to us, and then we did not make it either.
            ours = path == self._root or path.startswith(os.path.join(self._root, ""))
            if ours or failure.reason is not Reason.DENIED or not os.path.isdir(path):
                raise

    def _path(self, key: str) -> str:
        return os.path.join(self._root, *key.split("/"))

    def _walk(self, folder: str) -> Iterator[Entry]:
        try:
            items = list(os.scandir(os.path.join(self._root, *folder.split("/"))))
        except (FileNotFoundError, NotADirectoryError):
            return
        for item in items:
            key = f"{folder}/{item.name}" if folder else item.name
            if item.is_dir():
                yield from self._walk(key)
            elif not is_temporary(item.name):
                with contextlib.suppress(FileNotFoundError):
                    yield _entry(key, item.stat())

    def _folders(self, path: str) -> Iterator[str]:
        """The folders above a path, up to the root; up to the file system's root for one that lies elsewhere."""
        folder = os.path.dirname(os.path.abspath(path))
        while True:
            yield folder
            above = os.path.dirname(folder)
            if folder == self._root or above == folder:
                return
            folder = above

    @contextlib.contextmanager
    def _staged(self, path: str, data: bytes) -> Iterator[str]:
        """A synced temporary file beside `path`, removed afterwards. A failure here has changed nothing."""
        folder = os.path.dirname(path)
        temporary = os.path.join(folder, f".{clock.token()}{TEMPORARY_SUFFIX}")
        try:
            with _failing(_Phase.STAGE), self._fresh_file(folder, temporary) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            yield temporary
        finally:
            with contextlib.suppress(OSError):
                os.unlink(temporary)

    def _fresh_file(self, folder: str, temporary: str) -> BinaryIO:
        self._make_durable(folder)
        try:
            return open(temporary, "xb")
        except FileNotFoundError:
            # The folder was removed after this process had made it.
            with self._lock:
                self._durable.clear()
            self._make_durable(folder)
            return open(temporary, "xb")

    def _make_durable(self, folder: str) -> None:
        """Make the folder and sync what leads to it, once per process: its maker may have crashed before it did."""
        if folder in self._durable:
            return
        os.makedirs(folder, exist_ok=True)
        known, above, reached = folder, os.path.dirname(folder), {folder}
        while known not in self._durable and above != known:
            with contextlib.suppress(PermissionError):
                _sync(above)
            reached.add(known)
            known, above = above, os.path.dirname(above)
        with self._lock:
            self._durable |= reached


def _entry(key: str, status: os.stat_result) -> Entry:
    return Entry(key, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))


def _sync(path: str) -> None:
    if os.name == "nt" and os.path.isdir(path):
        return  # Windows cannot open a directory, and writes its entries through.
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _link_failure(error: OSError) -> Failure:
    # The temporary file could be made in this very folder, so it is not the folder that is forbidden.
    if error.errno in _NO_LINKS:
        return Failure(Reason.UNSAFE, f"{type(error).__name__}: the file system has no hard links")
    return _failure(error, _Phase.APPLY)


class _Phase(enum.Enum):
    READ = "read"
    STAGE = "stage"
    """Before anything can be seen: a failure has changed nothing."""
    APPLY = "apply"
    """While the change becomes visible: a failure leaves it open whether it did."""


def _failure(error: OSError, phase: _Phase) -> Failure:
    detail = f"{type(error).__name__}: {error.strerror}"
    if error.errno in _ABSENT and phase is _Phase.READ:
        return Failure(Reason.ABSENT, detail)
    if error.errno in _DENIED:
        return Failure(Reason.DENIED, detail)
    if phase is _Phase.STAGE or error.errno in (errno.EISDIR, errno.ENOTDIR):
        return Failure(Reason.REFUSED, detail)
    return Failure(Reason.FAILED, detail)


@contextlib.contextmanager
def _failing(phase: _Phase = _Phase.READ) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _failure(error, phase) from None
