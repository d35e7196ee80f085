"""One branch of a lake, for clients that know of one line of versions of one table.

A branch has no plain line. Its states are numbered by a table's counter, above every plain number, so that what Lance
keeps by number mixes no states, and each is shown as a manifest in a folder of the branch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

import lance_namespace as spec

from quire.errors import CommitNotFound, InvalidInput, TableNotFound, Unsupported
from quire.lake import Lake
from quire.lake.branch import client_versions
from quire.lake.handles import log_of
from quire.lance import identifiers
from quire.lance.answers import answering
from quire.lance.catalog import CatalogOperations
from quire.lance.directory import Directory
from quire.lance.refusals import RefusedOperations
from quire.lance.structure import StructureOperations
from quire.lance.versions import VersionOperations
from quire.lance.views import FIRST
from quire.ledger import TableState

if TYPE_CHECKING:
    from quire.formats import PlainVersion, StagedVersion
    from quire.lake import Transaction
    from quire.ledger import State, TableInfo

LOOKED_AT = 1000
"""Commits that are searched for an older state of a table."""


class BranchNamespace(
    CatalogOperations, VersionOperations, StructureOperations, RefusedOperations, spec.LanceNamespace
):
    """A branch of a lake as a namespace: `Namespace(lake).branch("trial")`. Each write is a commit on that branch."""

    def __init__(self, lake: Lake) -> None:
        super().__init__()
        if lake.branch_name == "main":
            raise InvalidInput("main has a plain line.", next="Use the namespace of the lake itself.")
        self.lake = lake

    def namespace_id(self) -> str:
        """The lake and the branch."""
        return f"quire {{ lake: {self.lake.uri!r}, branch: {log_of(self.lake)!r} }}"

    @answering
    def list_table_versions(self, request: spec.ListTableVersionsRequest) -> spec.ListTableVersionsResponse:
        try:
            table = self._table(request)
        except TableNotFound:
            if identifiers.table(request.id) in Directory.of(self._snapshot()).declared:
                return spec.ListTableVersionsResponse(versions=[])
            raise
        found = self._shown(table, self._follow(table))
        return spec.ListTableVersionsResponse(versions=[self._version(table.pin.location, found, _told(table))])

    @answering
    def describe_table_version(self, request: spec.DescribeTableVersionRequest) -> spec.DescribeTableVersionResponse:
        table = self._table(request)
        wanted = self._follow(table) if request.version is None else request.version
        at = self._at(table, wanted)
        if at is None:
            raise spec.TableVersionNotFoundError(
                f"Table {table.info.name!r} has no version {wanted} on branch {self.lake.branch_name!r}; its newest is "
                f"{self._follow(table)}."
            )
        found = self._shown(at, wanted)
        return spec.DescribeTableVersionResponse(version=self._version(at.pin.location, found, _told(at)))

    # -- numbers ----------------------------------------------------------------------------------------------

    def _follow(self, table: TableState) -> int:
        counter = table.pin.counter
        return counter if self._managed(table).is_marked(table.pin, counter) else self._first(table) + counter

    def _first(self, table: TableState) -> int:
        digest = hashlib.blake2b(self._named(table), digest_size=8).digest()
        return int(FIRST + ((int.from_bytes(digest) & (2**38 - 1)) << 12))

    def _named(self, table: TableState) -> bytes:
        return f"{log_of(self.lake)} {table.info.id}".encode()

    def _at(self, table: TableState, number: int) -> TableState | None:
        """The state of a table that has a number, if it is kept."""
        counter = number if number < FIRST else number - self._first(table)
        if counter == table.pin.counter:
            return table
        if not 0 < counter < table.pin.counter:
            return None
        live = self.lake._live
        for point, entry in islice(live.history.commits(live.state), LOOKED_AT):
            for change in entry.changes:
                if change.table == table.info.id and change.pin is not None and change.pin.counter == counter:
                    return TableState(info=table.info, pin=change.pin, commit=point)
        return None

    def _shown(self, table: TableState, number: int) -> PlainVersion:
        folder = f"_batches/{hashlib.blake2b(self._named(table), digest_size=8).hexdigest()}"
        found: PlainVersion = self._managed(table).shown(table.pin, number, folder, table=table.info.name, exact=False)
        return found

    def _has(self, table: TableState, number: int) -> bool:
        return self._at(table, number) is not None

    def _commit_at(self, table: TableState, number: int) -> str:
        found = self._at(table, number)
        if found is None:
            raise CommitNotFound(
                f"No commit that is kept shows version {number} of table {table.info.name!r}.",
                next="`quire log` shows the commits of the branch.",
                table=table.info.name,
            )
        return found.commit.commit

    # -- writing ----------------------------------------------------------------------------------------------

    def _write(self, tx: Transaction, name: str, staged: Sequence[StagedVersion]) -> None:
        self._check_one(name, staged)
        base = tx.at.tables[tx._names[name]]
        client_versions.write_to_view(tx, self.lake, name, self._follow(base), staged, movable=False)

    def _write_first(self, tx: Transaction, info: TableInfo, staged: Sequence[StagedVersion]) -> None:
        self._check_one(info.name, staged)
        client_versions.create(tx, self.lake, info, staged, marked=True)

    def _check_one(self, name: str, staged: Sequence[StagedVersion]) -> None:
        if len(staged) > 1:
            raise Unsupported(
                f"A commit on a branch takes one version of a table, not {len(staged)} of {name!r}.",
                next="Write in a transaction that began on the branch, which takes any number.",
            )

    def _settle(self, state: State, tables: Sequence[str]) -> None:
        for table in tables:
            if table in state.tables:
                self._shown(state.tables[table], self._follow(state.tables[table]))

    def _plain(self, name: str, location: str, number: int) -> PlainVersion:
        table = self._newest(name)
        at = self._at(table, number)
        assert at is not None
        return self._shown(at, number)


def _told(table: TableState) -> dict[str, str]:
    return {"quire.commit": table.commit.commit, "quire.version": str(table.pin.counter)}
