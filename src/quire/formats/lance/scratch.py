"""Private folders of this machine, in which Lance works on copies of a table's manifest.

A folder lives as long as the block that uses it. All of one process lie in a root that only this user may enter, and
which the process holds a lock on. When a process is killed its lock goes, and the next process that needs a folder
removes what it left: nothing of a table stays on the machine.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from quire.errors import StorageError

try:
    import fcntl
except ImportError:  # no POSIX system: there nothing tells whether another process is alive
    fcntl = None  # type: ignore[assignment]

PREFIX = "quire-scratch-"
MEMORY = Path("/dev/shm")
"""Files here never touch a disk. Creating and removing a few took a tenth of the time."""
ROOM = 16 << 20
"""Bytes that must stay free there."""


class NoScratch(StorageError):
    """This machine has no folder to work in: it is full, or nothing may be written."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(
            f"No temporary folder can be used on this machine ({type(cause).__name__}: {cause.strerror}).",
            next=f"Make room in {_disk()}, or set TMPDIR to a folder that can be written.",
        )


@dataclass(frozen=True)
class Root:
    path: Path
    lock: int | None
    owner: int
    """The process that made it."""


_lock = threading.Lock()
_roots: dict[Path, Root] = {}
_names = itertools.count()


@contextlib.contextmanager
def folder(size: int = 0) -> Iterator[Path]:
    """An empty folder with room for so many bytes, gone at the end of the block; `NoScratch` where there is none."""
    try:
        made = _made(_place(size))
    except OSError as error:
        raise NoScratch(error) from None
    try:
        yield made
    finally:
        with contextlib.suppress(OSError):
            _remove(str(made))


def _remove(folder: str) -> None:
    """Remove a folder of ours. Nobody else can put a link into it, so this need not be as wary as `shutil.rmtree`."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _remove(entry.path)
            else:
                os.unlink(entry.path)
    os.rmdir(folder)


def _disk() -> Path:
    return Path(tempfile.gettempdir())


def _place(size: int) -> Path:
    with contextlib.suppress(OSError, AttributeError):
        free = os.statvfs(MEMORY)
        if free.f_bavail * free.f_frsize >= 4 * size + ROOM and os.access(MEMORY, os.W_OK | os.X_OK):
            return MEMORY
    return _disk()


def _made(place: Path) -> Path:
    name = str(next(_names))
    try:
        made = _root(place).path / name
        made.mkdir(mode=0o700)
    except FileNotFoundError:  # whoever tidies temporary files took the root away
        made = _root(place, anew=True).path / name
        made.mkdir(mode=0o700)
    return made


def _root(place: Path, *, anew: bool = False) -> Root:
    with _lock:
        found = _roots.get(place)
        if found is None or anew:
            for one in {place, MEMORY, _disk()} if found is None else ():
                sweep(one)
            if found is not None:
                _let_go(found)
            found = _roots[place] = _new_root(place)
        return found


def _new_root(place: Path) -> Root:
    while True:
        path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))  # for this user alone
        lock = _locked(path)
        if lock is not None and not _is_at(lock, path):
            os.close(lock)  # a sweep came between the two
            continue
        return Root(path, lock, os.getpid())


def sweep(place: Path) -> None:
    """Remove what processes of this user left that are gone. Links are not followed, and nobody else's is touched."""
    if fcntl is None:
        return
    with contextlib.suppress(OSError):
        left = [Path(entry.path) for entry in os.scandir(place) if entry.name.startswith(PREFIX)]
        for path in left:
            lock = _locked(path)
            if lock is not None:
                try:
                    if _is_at(lock, path):
                        shutil.rmtree(path, ignore_errors=True)
                finally:
                    os.close(lock)


def _locked(path: Path) -> int | None:
    """Lock a root of this user; None when it is no such folder, or when its process is alive."""
    if fcntl is None:
        return None
    try:
        opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        if os.fstat(opened).st_uid == os.geteuid():
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return opened
    except OSError:
        pass
    os.close(opened)
    return None


def _is_at(opened: int, path: Path) -> bool:
    """Whether an opened folder is the one that has this name."""
    try:
        here = os.lstat(path)
    except OSError:
        return False
    there = os.fstat(opened)
    return stat.S_ISDIR(here.st_mode) and (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


def _let_go(root: Root) -> None:
    if root.owner == os.getpid():
        shutil.rmtree(root.path, ignore_errors=True)
    if root.lock is not None:
        with contextlib.suppress(OSError):
            os.close(root.lock)


@atexit.register
def _leave() -> None:
    with _lock:
        for root in _roots.values():
            _let_go(root)
        _roots.clear()


def _forget() -> None:
    # What the parent holds is the parent's: a forked child closes its copies of the locks, and makes a root of its own.
    global _lock
    _lock = threading.Lock()
    for root in _roots.values():
        if root.lock is not None:
            with contextlib.suppress(OSError):
                os.close(root.lock)
    _roots.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
