"""Manifests opened apart from their table.

A manifest is read from the store once. A copy of it, in a folder of this machine, is to Lance a table whose data nobody
asks for: what the version consists of, who made it, and what `Restore` makes of it are found out there without a
request.
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from quire.errors import NotFound
from quire.formats.lance.columns import manifest_name
from quire.formats.lance.session import LanceSession, translate, translating
from quire.store import Store

if TYPE_CHECKING:
    from lance import LanceDataset

CACHE = 1 << 20


def files_of(session: LanceSession, location: str) -> Store:
    """The files of one table."""
    return Store.open(session.uri(location), session.store.options)


def read(files: Store, version: int) -> bytes:
    """A version's manifest as it is stored; `SnapshotExpired` when it is gone."""
    try:
        return files.get(f"_versions/{manifest_name(version)}")
    except NotFound as error:
        raise translate(FileNotFoundError(error.message), f"version {version} of {files.uri}") from error


class Loose:
    """A folder for copies of some of a table's manifests, for as long as the block lasts."""

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="quire-"))
        (self._folder / "_versions").mkdir()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def open(self, version: int, body: bytes) -> LanceDataset:
        """A handle that knows everything the manifest says, and none of the rows."""
        import lance

        self._path(version).write_bytes(body)
        with translating(f"the manifest of version {version}"):
            return lance.dataset(str(self._folder), version=version, session=_session())

    def restore(self, onto: LanceDataset, version: int, properties: dict[str, str]) -> tuple[str, bytes, bytes]:
        """What restoring an opened version on top of another one makes: its transaction's name and bytes, and the
        manifest of the version after `onto`."""
        from lance import LanceDataset, LanceOperation, Transaction

        name = str(uuid.uuid4())
        operation = LanceOperation.Restore(version)
        made = Transaction(onto.version, operation, uuid=name, transaction_properties=properties)
        with translating(f"the restore of version {version}"):
            LanceDataset.commit(onto, made, max_retries=0)
        transaction = f"_transactions/{onto.version}-{name}.txn"
        return transaction, (self._folder / transaction).read_bytes(), self._path(onto.version + 1).read_bytes()

    def _path(self, version: int) -> Path:
        return self._folder / "_versions" / manifest_name(version)


@cache
def _session() -> Any:
    import lance

    return lance.Session(index_cache_size_bytes=CACHE, metadata_cache_size_bytes=CACHE)
