"""Where a load writes the rows that it leaves out: to a file, or to a folder.

Whoever leaves rows out writes a file of JSON lines into a folder: this process one, every task one of its own. What
tasks write for a single file lies in a folder beside it until the end of the load, and is joined then.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from quire.errors import StorageError
from quire.rowfiles.inputs import REJECTS, is_remote
from quire.store import Store


class RejectSink(Protocol):
    """Takes the lines of rejected rows that this process tells of."""

    @property
    def shown(self) -> str:
        """Where they can be read in the end."""

    def write(self, line: bytes) -> None: ...

    def close(self) -> None:
        """Finish what is written so far. More may be written afterwards, and is finished by the next call."""


@dataclass(frozen=True)
class RejectFolder:
    """A folder or an address to which everybody who leaves rows out writes a file. It is sent to tasks."""

    address: str | None
    """None where nobody wants them."""
    load: str
    """Begins every name, so that the rejects of two loads do not mix."""
    options: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def writes(self) -> bool:
        return self.address is not None

    def put(self, name: str, body: bytes) -> None:
        if self.address is not None and body:
            Store.open(self.address, self.options).put(f"{self.load}-{name}{REJECTS}", body)

    def sink(self, name: str) -> FolderSink | None:
        """What one of them writes its lines to."""
        return FolderSink(self, name) if self.writes else None


class FolderSink:
    """Lines for one file in a folder, which is there once they are all known."""

    def __init__(self, folder: RejectFolder, name: str) -> None:
        self._folder, self._name = folder, name
        self._lines = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed with this
        self._written = False

    @property
    def shown(self) -> str:
        return str(self._folder.address)

    def write(self, line: bytes) -> None:
        self._lines.write(line)
        self._written = True

    def close(self) -> None:
        if self._written:
            self._lines.seek(0)
            self._folder.put(self._name, self._lines.read())
            self._written = False


class FileSink:
    """A file in the file system. What an earlier load left there is gone, also when there is nothing to reject."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._file: IO[bytes] | None = None
        self._opened = False

    @property
    def shown(self) -> str:
        return str(self._path)

    def write(self, line: bytes) -> None:
        if self._file is None:
            self._file = self._open()
        self._file.write(line)

    def close(self) -> None:
        if not self._opened and self._path.exists():
            self._file = self._open()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> IO[bytes]:
        try:
            file = self._path.open("ab" if self._opened else "wb")
        except OSError as error:
            raise _unwritable(self._path, error.strerror or str(error)) from None
        self._opened = True
        return file


def _unwritable(path: Path, why: str) -> StorageError:
    return StorageError(
        f"The rejects cannot be written to {str(path)!r}: {why}.",
        next="Give another file.",
        retryable=False,
        file=str(path),
    )


class JoinedSink:
    """A file, or an object in a bucket, that is joined from what everybody wrote to a folder beside it."""

    def __init__(self, place: str, parts: RejectFolder) -> None:
        self.shown = place
        self._parts = parts
        self._own = FolderSink(parts, "others")
        self._file = None if is_remote(place) else FileSink(place)
        folder = Path(place).absolute().parent
        if self._file is not None and not (folder.is_dir() and os.access(folder, os.W_OK)):
            raise _unwritable(Path(place), f"{str(folder)!r} is not a folder that can be written to")

    def write(self, line: bytes) -> None:
        self._own.write(line)

    def close(self) -> None:
        self._own.close()
        bodies = self._bodies()
        if self._file is not None:
            for body in bodies:
                self._file.write(body)
            self._file.close()
            shutil.rmtree(str(self._parts.address), ignore_errors=True)
        elif whole := b"".join(bodies):
            folder, _, name = self.shown.rpartition("/")
            Store.open(folder, self._parts.options).put(name, whole)

    def _bodies(self) -> Iterator[bytes]:
        """The files of the folder in the order of their names, each of which is removed."""
        if self._file is not None and not os.path.isdir(str(self._parts.address)):
            return
        store = Store.open(str(self._parts.address), self._parts.options)
        for key in sorted(entry.key for entry in store.list("")):
            yield store.get(key)
            store.delete(key)


@dataclass(frozen=True)
class RejectsPlace:
    """Where the rejects of one load go: those that this process tells of, and those that tasks do."""

    sink: RejectSink | None
    folder: RejectFolder

    @staticmethod
    def of(given: str | os.PathLike[str] | None, load: str, options: dict[str, str], *, tasks: bool) -> RejectsPlace:
        """A place by its name. `load` begins the names of files in a folder; `options` are those of the store."""
        if given is None:
            return RejectsPlace(None, RejectFolder(None, load))
        place = os.fspath(given)
        mine = options if is_remote(place) else {}
        if names_folder(place):
            folder = RejectFolder(absolute(place.rstrip("/") or place), load, mine)
            return RejectsPlace(FolderSink(folder, "others" if tasks else "rows"), folder)
        if not tasks and not is_remote(place):
            return RejectsPlace(FileSink(place), RejectFolder(None, load))
        parts = RejectFolder(f"{absolute(place)}.{load}", load, mine)
        return RejectsPlace(JoinedSink(place, parts), parts)


def names_folder(place: str) -> bool:
    """Whether rejects go to a folder of this name: one that is there, or a name that has no suffix or ends in `/`."""
    if not is_remote(place) and os.path.exists(place):
        return os.path.isdir(place)
    return place.endswith("/") or not os.path.splitext(place)[1]


def absolute(path: str) -> str:
    """A path that means the same to every process of this machine."""
    return path if "://" in path else os.path.abspath(path)
