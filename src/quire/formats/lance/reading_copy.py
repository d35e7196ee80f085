"""Copies of manifests on this machine, to read a table in a cloud by.

The list of indexes is not in what a handle is made of: Lance looks for it in the manifest file, with two requests, when
a handle first scans by a filter. And the file of a linear version is looked for even when its bytes are given. So the
file is written to a folder of this machine, with the table's address as the base of all that it names: what Lance reads
of the file it reads here, and rows, deletion vectors and indexes where they are. A deletion vector that this process
has, because it wrote or read it, lies in the folder too.

Such a copy is for reading. A version is staged on a handle that lies where the table lies.
"""

from __future__ import annotations

import contextlib
import os
import queue
import struct
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lance import LanceDataset

from quire.formats.lance import scratch
from quire.formats.lance.manifest_bytes import FOOTER, INDEX_SECTION, corrupt, fields, parse, section
from quire.formats.lance.session import DETACHED, is_remote, manifest_name

_FRAGMENT, _READER_FLAGS, _WRITER_FLAGS, _BASE_PATH, _TRANSACTION = 2, 9, 10, 18, 23
"""Numbers of fields in Lance's `table.proto`: of a manifest,"""
_DATA_FILE, _DELETION_FILE, _PLAIN = 2, 3, frozenset({1, 2, 3, 4, 5, 7, 9})
"""of a fragment (the plain ones name no other file),"""
_BASE_OF_FILE, _BASE_OF_INDEX, _BASE_ID, _IS_ROOT, _PATH, _PATH_OF_FILE = 7, 9, 1, 3, 4, 1
"""of a data file or a deletion vector, of an index, of a base,"""
_NUMBER, _KIND, _READ_VERSION, _VECTOR_ID = 1, 1, 2, 3
"""of a fragment, and of a deletion vector."""
_HAS_BASES = 16
"""The flag of a manifest that has bases."""


Kept = Callable[[str], bytes | None]
"""What is remembered of a small file of a table, by its name below the table's folder."""
Held = Callable[[str], dict[str, bytes]]
"""A file that is on this machine alone, by its name, with those that lie beside it in a folder of that name."""


class Unlike(Exception):
    """A manifest that names a file in a way that is not known here."""


def on_base(
    body: bytes, uri: str, here: Callable[[str], bool] = lambda name: False, *, rows_here: bool = False
) -> bytes:
    """The same manifest file for a folder elsewhere: all that it names lies in the table at `uri`.

    What has a base already, because the table is a clone of another, keeps it; a deletion vector that is `here` lies in
    that folder, and with `rows_here` a data file. `Unlike` if this is not known to be all.
    """
    position, major, minor, magic = FOOTER.unpack_from(body, len(body) - FOOTER.size)
    said = list(fields(section(body, position)))
    bases = [dict((n, v) for n, v, _ in fields(v)).get(_BASE_ID, 0) for n, v, _ in said if n == _BASE_PATH]
    base = 1 + max((found for found in bases if isinstance(found, int)), default=0)
    flags = {_READER_FLAGS: 0, _WRITER_FLAGS: 0}
    indexes = b""
    made = bytearray()
    for number, value, raw in said:
        if number == _FRAGMENT:
            made += _message(_FRAGMENT, _fragment(value, base, here, rows_here=rows_here))
        elif number in flags:
            flags[number] = value
        elif number == INDEX_SECTION:
            indexes = b"".join(
                _message(1, _with_base(one, _BASE_OF_INDEX, base)) if n == 1 else kept
                for n, one, kept in fields(section(body, value))
            )
            made += _number(INDEX_SECTION, 0)
        elif number != _TRANSACTION:  # it lies at another place, or nowhere
            made += raw
    for number, value in flags.items():
        made += _number(number, value | _HAS_BASES)
    made += _message(_BASE_PATH, _number(_BASE_ID, base) + _number(_IS_ROOT, 1) + _message(_PATH, uri.encode()))
    before = struct.pack("<I", len(indexes)) + indexes
    return before + struct.pack("<I", len(made)) + bytes(made) + FOOTER.pack(len(before), major, minor, magic)


def _fragment(data: bytes, base: int, here: Callable[[str], bool], *, rows_here: bool) -> bytes:
    made = bytearray()
    fragment = 0
    for number, value, raw in fields(data):
        if number not in _PLAIN:
            raise Unlike
        if number == _NUMBER:
            fragment = value
        based = number == _DATA_FILE or (number == _DELETION_FILE and not here(_vector_name(fragment, value)))
        if number == _DATA_FILE and rows_here:
            based = not here(_file_name(value))
        made += _message(number, _with_base(value, _BASE_OF_FILE, base)) if based else raw
    return bytes(made)


def _file_name(data: bytes) -> str:
    """Where a table's own data file lies; one of another table has no name here."""
    said = {number: value for number, value, _ in fields(data)}
    return "" if _BASE_OF_FILE in said else f"data/{bytes(said[_PATH_OF_FILE]).decode()}"


def _vector_name(fragment: int, data: bytes) -> str:
    """Where a table's own deletion vector lies; one of another table has no name here."""
    said = {number: value for number, value, _ in fields(data)}
    if _BASE_OF_FILE in said:
        return ""
    suffix = "bin" if said.get(_KIND, 0) else "arrow"
    return f"_deletions/{fragment}-{said.get(_READ_VERSION, 0)}-{said.get(_VECTOR_ID, 0)}.{suffix}"


def _with_base(data: bytes, field: int, base: int) -> bytes:
    return data if any(n == field for n, _, _ in fields(data)) else data + _number(field, base)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _message(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)


class Copies:
    """A folder for each table, so that what Lance learnt of an index by one version it knows for the next."""

    def __init__(self) -> None:
        self._folders: dict[str, Path] = {}
        self._owner = os.getpid()
        self._vectors: Counter[Path] = Counter()
        """Deletion vectors in the folders, by how many copies need them."""
        self._released: queue.SimpleQueue[frozenset[Path]] = queue.SimpleQueue()
        """Those of copies that are gone: a queue, because a copy may go in the middle of anything."""
        self._alive: weakref.WeakValueDictionary[tuple[str, int], LanceDataset] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()

    def open(
        self,
        body: bytes,
        version: int,
        uri: str,
        options: dict[str, Any],
        kept: Kept = lambda name: None,
        held: Held | None = None,
    ) -> LanceDataset:
        """A handle to read a version by; `Unlike` or `NoScratch` where there can be none.

        What is `held` on this machine alone, data files too, is read here.
        """
        with self._lock:  # threads that need the same copy get the same one
            handle = self._alive.get((uri, version))
            if handle is None:
                handle = self._alive[uri, version] = self._made(body, version, uri, options, kept, held)
            return handle

    def _made(
        self, body: bytes, version: int, uri: str, options: dict[str, Any], kept: Kept, held: Held | None
    ) -> LanceDataset:
        self._forget_vectors()
        folder = self._folder(uri)
        path = folder / "_versions" / manifest_name(version)
        written = path.with_name("new")
        vectors: set[Path] = set()

        def here(name: str) -> bool:
            vector, data = folder / name, kept(name) if name else None
            files = held(name) if name and data is None and held is not None else {} if data is None else {name: data}
            if not files and vector not in self._vectors:
                return False
            if vector not in self._vectors:
                for file, content in files.items():
                    (folder / file).parent.mkdir(parents=True, exist_ok=True)
                    (folder / file).write_bytes(content)
            if vector not in vectors:
                vectors.add(vector)
                self._vectors[vector] += 1
            return True

        try:
            written.write_bytes(on_base(body, uri, here, rows_here=held is not None))
            number = written.stat().st_ino
            written.replace(path)
            handle = LanceDataset(str(folder), version, **options)
        except ValueError as error:
            self._released.put(frozenset(vectors))
            raise Unlike(str(error)) from None
        except OSError as error:
            self._released.put(frozenset(vectors))
            raise scratch.NoScratch(error) from None
        handle._uri = uri  # whom its requests belong to, and what its errors name
        # At exit, `scratch` removes all.
        weakref.finalize(handle, _remove, path, number, os.getpid()).atexit = False
        if vectors:
            weakref.finalize(handle, self._released.put, frozenset(vectors)).atexit = False
        return handle

    def _forget_vectors(self) -> None:
        """Remove the deletion vectors that no copy needs any more."""
        while not self._released.empty():
            for vector in self._released.get_nowait():
                self._vectors[vector] -= 1
                if not self._vectors[vector]:
                    del self._vectors[vector]
                    if os.getpid() == self._owner:
                        vector.unlink(missing_ok=True)

    def _folder(self, uri: str) -> Path:
        found = self._folders.get(uri)
        if found is None or not found.is_dir():
            leave = contextlib.ExitStack()
            found = self._folders[uri] = leave.enter_context(scratch.folder())
            (found / "_versions").mkdir()
            weakref.finalize(self, _leave, leave, os.getpid()).atexit = False
        return found


def _remove(path: Path, number: int, owner: int) -> None:
    """Remove a file, unless it is another one by now: a copy may be made again while the last one goes."""
    with contextlib.suppress(OSError):
        if os.getpid() == owner and path.stat().st_ino == number:
            path.unlink()


def _leave(folder: contextlib.ExitStack, owner: int) -> None:
    if os.getpid() == owner:
        folder.close()


class Indexed(LanceDataset):
    """A staged version with indexes, opened from the bytes of its manifest: it reads by a copy, which is made when it
    is first needed."""

    copied: Callable[[], LanceDataset] | None = None
    """Opens the copy, which is kept; None from then on."""
    listed = True
    """Whether the manifest lists indexes."""
    is_aside = False
    """Whether files of it may be on this machine alone: they are read by the copy."""
    _here: LanceDataset | None = None

    def to_read(self) -> LanceDataset:
        """The copy; this very handle where there is none."""
        copied = self.copied
        if copied is not None:
            with contextlib.suppress(Unlike, scratch.NoScratch):
                self._here = copied()
            self.copied = None  # it holds the whole file
        return self if self._here is None else self._here

    def describe_indices(self) -> list[Any]:
        reader = self.to_read()
        return super().describe_indices() if reader is self else reader.describe_indices()

    def _take_rows(self, *args: Any, **options: Any) -> Any:
        reader = self.to_read() if self.is_aside else self
        return super()._take_rows(*args, **options) if reader is self else reader._take_rows(*args, **options)

    def scanner(self, *args: Any, **options: Any) -> Any:
        reader = self.to_read()
        if reader is self:
            return super().scanner(*args, **options)
        some = options.get("fragments")
        if some is not None:
            options["fragments"] = [reader.get_fragment(int(fragment.fragment_id)) for fragment in some]
        return reader.scanner(*args, **options)


def open_bytes(
    uri: str,
    version: int,
    body: bytes,
    what: str,
    options: dict[str, Any],
    copied: Callable[[], LanceDataset] | None = None,
) -> Indexed:
    """A version from its manifest file, without a request if it is a staged one; `CorruptRecord` for other bytes."""
    manifest = parse(body, version, what)
    try:
        handle = Indexed(uri, version, serialized_manifest=manifest.message, **options)
    except (OSError, ValueError) as error:
        if version & DETACHED:  # it asked nobody, so it is the bytes
            raise corrupt(what, f"Lance cannot read it ({str(error).splitlines()[0][:200]})") from error
        raise
    handle.listed = manifest.indexed
    if manifest.indexed and is_remote(uri):
        handle.copied = copied
    return handle
