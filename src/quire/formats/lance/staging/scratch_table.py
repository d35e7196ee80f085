"""What Lance makes of one version of a table, on this machine.

To Lance a folder with nothing but a manifest is a table whose data nobody asks for. Rows are written beside it,
deletion vectors and versions are made on it, and what comes out is taken as bytes, to be sent to the store.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quire.formats.lance import scratch
from quire.formats.lance.manifest_bytes import FOOTER, section
from quire.formats.lance.session import manifest_name

if TYPE_CHECKING:
    from lance import LanceDataset

CACHE = 1 << 20
MADE = ("data", "_deletions", "_versions")
"""Folders whose files belong to a table. What Lance puts elsewhere, it also keeps in the manifest."""


class ScratchTable:
    """A table in a folder, at one version."""

    def __init__(self, folder: Path, given: Collection[str] = (), handle: LanceDataset | None = None) -> None:
        self.uri = str(folder)
        self._given = given
        self._handle = handle

    @property
    def handle(self) -> LanceDataset:
        assert self._handle is not None
        return self._handle

    def made(self) -> dict[str, bytes]:
        """The files that are new, by their names below the table's folder."""
        return {name: self._read(name) for part in MADE for name in self._names(part) if name not in self._given}

    def manifest(self, version: int) -> bytes:
        return self._read(f"_versions/{manifest_name(version)}")

    def _read(self, name: str) -> bytes:
        with open(f"{self.uri}/{name}", "rb") as file:
            return file.read()

    def _names(self, folder: str) -> Iterator[str]:
        if not os.path.isdir(f"{self.uri}/{folder}"):
            return
        with os.scandir(f"{self.uri}/{folder}") as entries:
            for entry in entries:
                name = f"{folder}/{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    yield from self._names(name)
                elif not name.endswith(".json"):  # a hint at the newest version
                    yield name


@contextlib.contextmanager
def at_version_of(
    base: LanceDataset, body: bytes, *, beside: Mapping[str, bytes] | None = None, size: int = 0
) -> Iterator[ScratchTable]:
    """A table at the version of a handle, whose manifest file is `body`, with some of its other files, and with room
    for so many bytes more."""
    from lance import LanceDataset

    given = {f"_versions/{manifest_name(base.version)}": body, **(beside or {})}
    with scratch.folder(size + 2 * sum(map(len, given.values()))) as folder:
        try:
            for part in {name.split("/")[0] for name in given}:
                os.mkdir(f"{folder}/{part}")
            for name, data in given.items():
                with open(f"{folder}/{name}", "wb") as file:
                    file.write(data)
        except OSError as error:
            raise scratch.NoScratch(error) from None
        message = section(body, FOOTER.unpack_from(body, len(body) - FOOTER.size)[0])
        handle = LanceDataset(str(folder), base.version, serialized_manifest=message, session=session())
        yield ScratchTable(folder, given, handle)


@contextlib.contextmanager
def fresh(size: int) -> Iterator[ScratchTable]:
    """No table yet, but a folder to make one in."""
    with scratch.folder(size) as folder:
        yield ScratchTable(folder)


@cache
def session() -> Any:
    """Caches that hold little: a folder is looked into once."""
    import lance

    return lance.Session(index_cache_size_bytes=CACHE, metadata_cache_size_bytes=CACHE)
