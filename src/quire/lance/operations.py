"""What the operations of a namespace share: the lake, names, addresses of files, one answer per commit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import lance_namespace as spec

from quire.errors import InvalidInput, Unsupported
from quire.lake.branch import client_versions
from quire.lake.branch.client_versions import follow, managed, newest
from quire.lake.handles import is_governed
from quire.lake.lake import Lake
from quire.lance import identifiers

if TYPE_CHECKING:
    from quire.formats import PlainVersion, StagedVersion
    from quire.lake import Receipt, Snapshot, Transaction
    from quire.ledger import State, TableInfo, TableState

MESSAGE, AUTHOR, EXPECTED = "quire.message", "quire.author", "quire.expected_version"
"""Keys of a request's `context`."""


class Operations:
    """One lake as its clients see it. Safe to share between threads."""

    lake: Lake
    client_options: Callable[[str, bool], Mapping[str, str]] | None = None
    """Settings of the store that clients are told, by the address of a table and whether clients may write it here.

    None for those of the lake itself, in this process.
    """
    takes_versions = True
    """Whether clients may write here at all."""

    def __init__(self) -> None:
        self._locks: dict[str, threading.RLock] = {}
        self._guard = threading.Lock()

    # -- tables -----------------------------------------------------------------------------------------------

    def _table(self, request: Any) -> TableState:
        """The table that a request is about, at the newest commit."""
        check_branch(request)
        return self._newest(identifiers.table(request.id))

    def _newest(self, name: str) -> TableState:
        return newest(self.lake, name)

    def _snapshot(self) -> Snapshot:
        """What there is to be read."""
        return self.lake.snapshot()

    def _follow(self, table: TableState) -> int:
        """The number under which clients find the newest version of a table, once they can find it."""
        return table.pin.counter if is_governed(self.lake) else follow(self.lake, table)

    def _has(self, table: TableState, number: int) -> bool:
        """Whether clients find a version of a table under a number."""
        if is_governed(self.lake):
            return number == table.pin.counter
        return self._managed(table).plain_version(table.pin.location, number) is not None

    def _commit_at(self, table: TableState, number: int) -> str:
        """The commit that a version of a table shows."""
        if is_governed(self.lake):
            raise Unsupported(
                "Older versions are not read by their numbers where a policy holds.",
                next="Read the commit: /at/COMMIT shows all tables as they were.",
                table=table.info.name,
            )
        return client_versions.commit_at(self.lake, table, number)

    def _write(self, tx: Transaction, name: str, staged: Sequence[StagedVersion]) -> None:
        """Make versions that clients have staged part of a transaction."""
        client_versions.write(tx, self.lake, name, staged)

    def _write_first(self, tx: Transaction, info: TableInfo, staged: Sequence[StagedVersion]) -> None:
        """The same of the first versions of a table."""
        client_versions.create(tx, self.lake, info, staged)

    def _settle(self, state: State, tables: Sequence[str]) -> None:
        """Let clients find what was just committed, of tables by id."""
        client_versions.put_in_line(self.lake, state, tables)

    def _plain(self, name: str, location: str, number: int) -> PlainVersion:
        """A version that was just made."""
        found: PlainVersion = self.lake._core.format("lance").plain_version(location, number)  # type: ignore[attr-defined]
        return found

    def _writing(self) -> Lake:
        """The lake, to be written to."""
        return self.lake

    def _uri(self, location: str) -> str:
        return self.lake._core.store.reach.address(location)

    def _options(self, uri: str) -> dict[str, str] | None:
        """What clients are told of the store, to read and write the files of a table."""
        if is_governed(self.lake):
            return None
        if self.client_options is None:
            return dict(self.lake._core.store.options) or None
        return dict(self.client_options(uri, self.takes_versions and not self.lake.read_only)) or None

    def _path(self, location: str, name: str) -> str:
        """A file of a table as clients write it: relative to the bucket, or to the root of the disk."""
        return f"{path_of(self._uri(location))}/{name}"

    def _version(self, location: str, found: PlainVersion, told: Mapping[str, str] | None = None) -> spec.TableVersion:
        return spec.TableVersion(
            version=found.number,
            manifest_path=self._path(location, found.name),
            manifest_size=found.size,
            timestamp_millis=int(found.modified.timestamp() * 1000),
            metadata=dict(told) if told else None,
        )

    @contextmanager
    def _one_at_a_time(self, names: Sequence[str]) -> Iterator[None]:
        """Whoever asks for the next version of a table in this process waits for those who asked before."""
        with ExitStack() as stack:
            for name in sorted(set(names)):
                with self._guard:
                    lock = self._locks.setdefault(name, threading.RLock())
                stack.enter_context(lock)
            yield

    def _managed(self, table: TableState) -> Any:
        return managed(self.lake, table.pin, table.info.name)


def check_branch(request: Any) -> None:
    """Refuse a branch of one table: branches are those of the lake, and have addresses of their own."""
    branch = getattr(request, "branch", None)
    if branch not in (None, "", "main"):
        raise spec.TableBranchNotFoundError(
            f"There is no branch {branch!r} of a single table. Branches of a lake hold all its tables: open the "
            "namespace of that branch."
        )


def path_of(uri: str) -> str:
    """Where clients see a folder: the address without scheme and bucket, or without the first slash."""
    if "://" not in uri:
        return uri.strip("/")
    parts = urlsplit(uri)
    inside = parts.path if parts.scheme not in ("file", "memory") else f"{parts.netloc}{parts.path}"
    return inside.strip("/")


def staged_name(uri: str, path: str) -> str:
    """The name of a file below a table, from the path that a client gives; `InvalidInput` for a file elsewhere."""
    folder = path_of(uri) + "/"
    for given in (path, unquote(path)):
        given = given.lstrip("/")
        if given.startswith(folder):
            return given[len(folder) :]
    raise InvalidInput(
        f"{path[:300]!r} is not a file of the table, whose files lie below {folder!r}.",
        next="Stage the manifest in the folder _versions of the table.",
    )


def transaction_id(receipt: Receipt) -> str | None:
    return receipt.commit


def context(request: Any, key: str) -> str | None:
    found = (getattr(request, "context", None) or {}).get(key)
    return str(found) if found is not None else None
