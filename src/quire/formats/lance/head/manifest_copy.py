"""Manifests opened apart from their table.

A manifest is read from the store once. A copy of it, in a folder of this machine, is to Lance a table whose data nobody
asks for: what the version consists of, who made it, and what a commit makes of it are found out there without a
request.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from quire.errors import NotFound
from quire.formats.lance import scratch
from quire.formats.lance.session import LanceSession, manifest_name, translate, translating
from quire.store import Store

if TYPE_CHECKING:
    from lance import LanceDataset

CACHE = 1 << 20


def files_of(session: LanceSession, location: str) -> Store:
    """The files of one table."""
    return session.store.below(location)


def read(files: Store, version: int) -> bytes:
    """A version's manifest as it is stored; `SnapshotExpired` when it is gone."""
    try:
        return files.get(f"_versions/{manifest_name(version)}")
    except NotFound as error:
        raise translate(FileNotFoundError(error.message), f"version {version} of {files.uri}") from error


@dataclass(frozen=True)
class Made:
    """A version that a commit made on this machine."""

    name: str
    """Of its transaction's file, below the table's folder."""
    transaction: bytes
    manifest: bytes


class Loose:
    """A folder for copies of some of a table's manifests, for as long as the block lasts."""

    def __enter__(self) -> Self:
        self._leave = ExitStack()
        self._folder = self._leave.enter_context(scratch.folder())
        (self._folder / "_versions").mkdir()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._leave.close()

    def open(self, version: int, body: bytes) -> LanceDataset:
        """A handle that knows everything the manifest says, and none of the rows."""
        import lance

        self._path(version).write_bytes(body)
        with translating(f"the manifest of version {version}"):
            return lance.dataset(str(self._folder), version=version, session=_session())

    def commit(self, onto: LanceDataset, operation: Any, name: str, properties: dict[str, str]) -> Made:
        """What committing an operation on top of an opened version makes, as the transaction of this name."""
        from lance import LanceDataset, Transaction

        made = Transaction(onto.version, operation, uuid=name, transaction_properties=properties)
        with translating(f"the {type(operation).__name__.lower()} on version {onto.version}"):
            LanceDataset.commit(onto, made, max_retries=0)
        transaction = f"_transactions/{onto.version}-{name}.txn"
        manifest = self._path(onto.version + 1).read_bytes()
        return Made(transaction, (self._folder / transaction).read_bytes(), manifest)

    def add(self, name: str, data: bytes) -> None:
        """Put a file beside the manifests."""
        path = self._folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)

    def _path(self, version: int) -> Path:
        return self._folder / "_versions" / manifest_name(version)


@cache
def _session() -> Any:
    import lance

    return lance.Session(index_cache_size_bytes=CACHE, metadata_cache_size_bytes=CACHE)
