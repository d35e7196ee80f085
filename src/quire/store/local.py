"""Objects as files below a directory, durable when a write returns.

The object store library does not fsync, so writes are done here: a temporary file beside the target, fsync, then a
rename (overwrite) or a hard link (create: the kernel lets exactly one link win), then fsync of the directory.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import os
import stat
import threading
import weakref
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import BinaryIO

from quire.store import clock, folders
from quire.store.address import TEMPORARY_SUFFIX, is_temporary
from quire.store.backend import LARGEST, Entry, Failure, Follows, Reason
from quire.store.reach import first_link
from quire.store.threads import run_parallel

_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}
_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR}
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}


class Home:
    """The folder that a root led to when it was opened, held open: nothing else can be taken for it later."""

    def __init__(self, root: str) -> None:
        self._root = root
        self.descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY) if folders.BY_DESCRIPTOR else None
        self._known = os.fstat(self.descriptor) if self.descriptor is not None else os.stat(root)
        if self.descriptor is not None:
            weakref.finalize(self, os.close, self.descriptor)

    def lost(self) -> str | None:
        """What became of it, when the root does not lead to it any more."""
        try:
            now = os.stat(self._root)
        except (FileNotFoundError, NotADirectoryError):
            now = None
        if now is not None and os.path.samestat(self._known, now):
            return None
        return self._where() + (", and another folder is in its place" if now is not None else "")

    def _where(self) -> str:
        if self.descriptor is None:
            return "its folder is gone"
        if os.fstat(self.descriptor).st_nlink == 0:
            return "its folder was deleted"
        try:
            moved = os.readlink(f"/proc/self/fd/{self.descriptor}")
        except OSError:
            moved = ""
        if moved and moved != self._root and os.path.isdir(moved):
            return f"its folder was moved to {moved}"
        return "its folder was moved, or its file system unmounted"


class Mark:
    """A small file that never changes and tells whose folder it lies in."""

    def __init__(self, root: str, key: str, body: bytes) -> None:
        self.key = key
        self._path = os.path.join(root, *key.split("/"))
        self._body = body
        self._seen: tuple[int, ...] = ()

    def lost(self) -> str | None:
        """What became of it, when it does not say any more what it said. Its bytes are read when it was touched."""
        try:
            found = os.stat(self._path)
            touched = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
            if touched != self._seen:
                with open(self._path, "rb") as file:
                    if file.read(len(self._body) + 1) != self._body:
                        return f"{self.key} is not what it was"
                self._seen = touched
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return f"{self.key} is gone"
        return None


class LocalFiles:
    """A `Backend` on a directory. The directory and folders below it are made by the first write.

    Symbolic links below the directory are neither listed nor followed, and listing what is behind one fails. After
    `bind` every request that finds another directory, or none, at the root fails with `Reason.GONE`, and every write
    that does not find the object by which the directory is known.
    """

    attempts = 1
    in_order = False

    def __init__(self, root: str) -> None:
        self._root = root
        # Directories whose whole chain up to the file system's root this process has synced.
        self._durable: set[str] = set()
        self._lock = threading.Lock()
        self._home: Home | None = None
        self._mark: Mark | None = None

    def bind(self, key: str | None = None, body: bytes = b"") -> None:
        """From now on the directory that is at the root must stay there, and so must this object of it, if given."""
        if self._home is None:
            with _failing():
                self._home = Home(self._root)
        if key is not None:
            self._mark = Mark(self._root, key, body)

    def check_home(self) -> None:
        """Fail when the root does not lead to the directory that it led to, or its mark is gone."""
        lost = self._home.lost() if self._home is not None else None
        if lost is None and self._mark is not None:
            with _failing():
                lost = self._mark.lost()
        if lost is not None:
            raise Failure(Reason.GONE, lost)

    def get(self, key: str) -> bytes:
        with self._reading(), open(self._path(key), "rb") as file:
            if os.fstat(file.fileno()).st_size > LARGEST:
                raise Failure(Reason.LARGE, f"the object is larger than {LARGEST} bytes")
            return file.read()

    def get_range(self, key: str, start: int, length: int) -> bytes:
        with self._reading(), open(self._path(key), "rb") as file:
            file.seek(start)
            data = file.read(length)
        if not data:
            raise Failure(Reason.REFUSED, f"the object ends before byte {start}")
        return data

    def head(self, key: str) -> Entry:
        path = self._path(key)
        with self._reading():
            entry = _entry(key, os.stat(path))
            if os.path.isdir(path):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        return entry

    def put(self, key: str, data: bytes) -> None:
        self.check_home()
        path = self._path(key)
        with self._staged(path, data) as temporary, _failing(_Phase.APPLY):
            os.replace(temporary, path)
            _sync(os.path.dirname(path))

    def create(self, key: str, data: bytes) -> None:
        self.check_home()
        path = self._path(key)
        with self._staged(path, data) as temporary:
            try:
                os.link(temporary, path)
                found = False
            except FileExistsError:
                if os.path.isdir(path):
                    raise Failure(Reason.REFUSED, "a folder has this name") from None
                found = True
            except OSError as error:
                raise _link_failure(error) from None
        _confirm(os.path.dirname(path), found)

    def extend(self, key: str, data: bytes, follows: Follows) -> None:
        """Create an object that belongs after another one, in the very folder in which that one was found.

        Nothing that happens to the path meanwhile can make it land anywhere else.
        """
        self.check_home()
        *parts, name = key.split("/")
        *before, last = follows.key.split("/")
        if before != parts:  # the first of a folder, after something in another
            with self._opened(before) as folder:
                _check_follows(folder, last, follows)
            with _failing(_Phase.STAGE):
                self._make_durable(os.path.join(self._root, *parts))
        with self._opened(parts) as folder:
            if before == parts:
                _check_follows(folder, last, follows)
            found = self._link_new(folder, name, data)
            if not found and not _stays(folder, name):
                raise Failure(Reason.UNDURABLE, "the lake was moved or removed during the write")
        _confirm(folder.path, found)

    def precedes(self, follows: Follows) -> None:
        """Fail with `Reason.GONE` unless an object is what it was when it was read."""
        self.check_home()
        *parts, name = follows.key.split("/")
        with self._opened(parts) as folder:
            _check_follows(folder, name, follows)

    def _link_new(self, folder: folders.Folder, name: str, data: bytes) -> bool:
        """Create a file of an open folder; whether there was one already."""
        temporary = f".{clock.token()}{TEMPORARY_SUFFIX}"
        with _failing(_Phase.STAGE):
            self._make_durable(folder.path)
            folder.create(temporary, data)
        try:
            folder.link(temporary, name)
        except FileExistsError:
            return True
        except OSError as error:
            raise _link_failure(error) from None
        finally:
            with contextlib.suppress(OSError):
                folder.unlink(temporary)
        return False

    @contextlib.contextmanager
    def _opened(self, parts: Sequence[str]) -> Iterator[folders.Folder]:
        """A folder of ours that must be there."""
        with contextlib.ExitStack() as stack:
            try:
                at = self._home.descriptor if self._home is not None else None
                folder = stack.enter_context(folders.opened(self._root, parts, at=at))
            except folders.LinkFound as error:
                raise Failure(Reason.REFUSED, f"{error.filename} is a symbolic link") from None
            except (FileNotFoundError, NotADirectoryError):
                raise Failure(Reason.GONE, f"its folder {'/'.join(parts)} is gone") from None
            except OSError as error:
                raise _failure(error, _Phase.STAGE) from None
            yield folder

    def delete(self, key: str) -> None:
        self.check_home()
        *parts, name = key.split("/")
        at = self._home.descriptor if self._home is not None else None
        try:
            with _failing(), folders.opened(self._root, parts, at=at) as folder:
                if stat.S_ISDIR(folder.kind(name)):
                    return
                folder.unlink(name)
        except Failure as failure:
            if failure.reason is not Reason.ABSENT:
                raise

    def pages(self, prefix: str, after: str | None) -> Iterator[Sequence[Entry]]:
        self.check_home()
        link = first_link(self._root, prefix.split("/") if prefix else ())
        if link is not None:  # that there is nothing below would be a lie
            raise Failure(Reason.REFUSED, f"{link} is a symbolic link")
        with _failing():
            found = list(self._walk(prefix))
        yield found

    def links(self) -> list[str]:
        """Symbolic links below the root."""
        self.check_home()
        return sorted(folders.links(self._root))

    def sweep(self, before: datetime) -> None:
        """Remove temporary files that were last written to before a time."""
        self.check_home()
        with _failing():
            for folder, _, names in os.walk(self._root):
                for path in (os.path.join(folder, name) for name in names if is_temporary(name)):
                    with contextlib.suppress(FileNotFoundError):
                        if _entry("", os.lstat(path)).modified < before:
                            os.unlink(path)

    def time(self) -> datetime | None:
        """The time that the file system gives to a file that is written now; None where nothing can be written."""
        path = os.path.join(self._root, f".{clock.token()}{TEMPORARY_SUFFIX}")
        with contextlib.suppress(OSError):
            try:
                with open(path, "xb") as file:
                    return _entry("", os.fstat(file.fileno())).modified
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
        return None

    def sync(self, paths: Sequence[str]) -> None:
        self.check_home()
        files = {os.path.join(self._root, path) for path in paths}
        above: set[str] = set()
        for file in files:
            above.update(self._folders(file))
        run_parallel([partial(self._sync_one, target) for target in (*sorted(files), *sorted(above))])

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
            if item.is_symlink():
                continue
            if item.is_dir(follow_symlinks=False):
                yield from self._walk(key)
            elif not is_temporary(item.name):
                with contextlib.suppress(FileNotFoundError):
                    yield _entry(key, item.stat(follow_symlinks=False))

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
        inside = os.path.relpath(folder, self._root)
        link = first_link(self._root, inside.split(os.sep)) if inside != os.curdir else None
        if link is not None:
            raise Failure(Reason.REFUSED, f"{link} is a symbolic link")
        os.makedirs(folder, exist_ok=True)
        known, above, reached = folder, os.path.dirname(folder), {folder}
        while known not in self._durable and above != known:
            with contextlib.suppress(PermissionError):
                _sync(above)
            reached.add(known)
            known, above = above, os.path.dirname(above)
        with self._lock:
            self._durable |= reached

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Failures of a read. What is missing may be missing with everything else."""
        try:
            with _failing():
                yield
        except Failure as failure:
            if failure.reason is Reason.ABSENT:
                self.check_home()
            raise


def _check_follows(folder: folders.Folder, name: str, follows: Follows) -> None:
    try:
        body = folder.read(name)
    except FileNotFoundError:
        raise Failure(Reason.GONE, f"{follows.key} is missing") from None
    except OSError as error:
        raise _failure(error, _Phase.STAGE) from None
    if not follows.known(body):
        raise Failure(Reason.GONE, f"{follows.key} is not the object that was read")


def _stays(folder: folders.Folder, name: str) -> bool:
    try:
        return folder.is_at_its_path() and folder.kind(name) != 0
    except OSError:
        return False


def _confirm(folder: str, found: bool) -> None:
    """Make durable what a create has made or found: whoever builds on it must find it after a power cut."""
    try:
        _sync(folder)
    except OSError as error:
        raise Failure(Reason.UNDURABLE, f"{type(error).__name__}: {error.strerror}") from None
    if found:
        raise Failure(Reason.EXISTS, "the file exists")


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
    if isinstance(error, folders.LinkFound):
        return Failure(Reason.REFUSED, f"{error.filename} is a symbolic link")
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
