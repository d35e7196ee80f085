"""Folders of a local disk, opened name by name, so that no symbolic link below a root is followed.

What was opened stays the same folder whatever is done to its path: files are made, linked and removed relative to it.
Where the system has no such calls (Windows), every name is looked at just before the path is used.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

BY_DESCRIPTOR = {os.open, os.unlink, os.link, os.stat} <= os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")


class LinkFound(OSError):
    """A symbolic link lies where a folder of ours should."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.ELOOP, "a symbolic link, which is not followed", path)


@dataclass(frozen=True)
class Folder:
    """An open folder. `descriptor` is None where folders cannot be opened; then its path stands for it."""

    path: str
    descriptor: int | None

    def name(self, name: str) -> str:
        """What to call a file of this folder in a call that also gets `at`."""
        return name if self.descriptor is not None else os.path.join(self.path, name)

    def create(self, name: str, data: bytes) -> None:
        """Write a new file and make its bytes durable."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        with open(os.open(self.name(name), flags, 0o666, dir_fd=self.descriptor), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def read(self, name: str) -> bytes:
        with open(
            os.open(self.name(name), os.O_RDONLY | getattr(os, "O_BINARY", 0), dir_fd=self.descriptor), "rb"
        ) as f:
            return f.read()

    def link(self, old: str, new: str) -> None:
        at = self.descriptor
        os.link(self.name(old), self.name(new), src_dir_fd=at, dst_dir_fd=at)

    def unlink(self, name: str) -> None:
        os.unlink(self.name(name), dir_fd=self.descriptor)

    def kind(self, name: str) -> int:
        """The type bits of a name's mode, of a link itself."""
        return stat.S_IFMT(os.stat(self.name(name), dir_fd=self.descriptor, follow_symlinks=False).st_mode)

    def is_at_its_path(self) -> bool:
        """Whether the path still leads to this very folder, and it was not removed."""
        if self.descriptor is None:
            return os.path.isdir(self.path)
        mine = os.fstat(self.descriptor)
        try:
            return mine.st_nlink > 0 and os.path.samestat(mine, os.stat(self.path))
        except (FileNotFoundError, NotADirectoryError):
            return False


@contextlib.contextmanager
def opened(root: str, parts: Sequence[str], *, at: int | None = None) -> Iterator[Folder]:
    """The folder `root`/`parts`; `at` is the root where it is open already. `LinkFound` when a part is a link."""
    path = os.path.join(root, *parts)
    if not BY_DESCRIPTOR:
        for depth in range(1, len(parts) + 1):
            if os.path.islink(os.path.join(root, *parts[:depth])):
                raise LinkFound(os.path.join(root, *parts[:depth]))
        yield Folder(path, None)
        return
    flags = os.O_RDONLY | os.O_DIRECTORY
    current = os.dup(at) if at is not None else os.open(root, flags)
    try:
        for depth, part in enumerate(parts, 1):
            try:
                deeper = os.open(part, flags | os.O_NOFOLLOW, dir_fd=current)
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENOTDIR) and _is_link(part, current):
                    raise LinkFound(os.path.join(root, *parts[:depth])) from None
                raise
            os.close(current)
            current = deeper
        yield Folder(path, current)
    finally:
        os.close(current)


def _is_link(name: str, at: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode)
    except OSError:
        return False


def links(root: str) -> Iterator[str]:
    """Every symbolic link below a root, as a key. None is followed."""
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            if os.path.islink(path):
                yield os.path.relpath(path, root).replace(os.sep, "/")
