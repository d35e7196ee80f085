"""All tables of a lake at one commit, for clients that know of one version of one table.

Every table has one version there. It is named by a number that no plain version has: Lance keeps what it has read by
number, and must not mix the states of a table.
"""

from __future__ import annotations

import hashlib
from typing import Any

import lance_namespace as spec

from quire.errors import ReadOnly
from quire.lake import Lake, Snapshot, Table
from quire.lake.names import no_table
from quire.lance import identifiers
from quire.lance.answers import answering
from quire.lance.catalog import CatalogOperations
from quire.lance.operations import check_branch
from quire.lance.refusals import RefusedOperations
from quire.lance.structure import StructureOperations
from quire.lance.versions import VersionOperations
from quire.ledger import TableState

FIRST = 2**40
"""Above every number of a plain version, and with room below 2^53, the largest number that JavaScript keeps."""
DETACHED = 1 << 63


class CommitNamespace(
    CatalogOperations, VersionOperations, StructureOperations, RefusedOperations, spec.LanceNamespace
):
    """One commit of a lake as a namespace: `Namespace(lake).at("12.0")`. Whoever writes to it is refused."""

    takes_versions = False

    def __init__(self, lake: Lake, commit: str) -> None:
        super().__init__()
        self.lake = lake
        self._state = lake.at(commit=commit)

    def namespace_id(self) -> str:
        """The lake and the commit."""
        return f"quire {{ lake: {self.lake.uri!r}, commit: {self._state.commit!r} }}"

    @answering
    def list_table_versions(self, request: spec.ListTableVersionsRequest) -> spec.ListTableVersionsResponse:
        return spec.ListTableVersionsResponse(versions=[self._only(self._table(request))])

    @answering
    def describe_table_version(self, request: spec.DescribeTableVersionRequest) -> spec.DescribeTableVersionResponse:
        table = self._table(request)
        found = self._only(table)
        if request.version not in (None, found.version):
            raise spec.TableVersionNotFoundError(
                f"Table {table.info.name!r} has one version at commit {self._state.commit}, {found.version}."
            )
        return spec.DescribeTableVersionResponse(version=found)

    def _only(self, table: TableState) -> spec.TableVersion:
        told = {"quire.commit": table.commit.commit, "quire.version": str(table.pin.counter)}
        name = self._managed(table).manifest_of(table.pin)
        return spec.TableVersion(
            version=number_of(table.pin.version), manifest_path=self._path(table.pin.location, name), metadata=told
        )

    def _newest(self, name: str) -> TableState:
        if name not in self._state:
            raise no_table(name, self._state.tables(), f"at commit {self._state.commit}")
        return self._state[name]._state

    def _snapshot(self) -> Snapshot:
        return self._state

    def _follow(self, table: TableState) -> int:
        return number_of(table.pin.version)

    def _seen(self, request: Any) -> Table:
        check_branch(request)
        table = self._newest(identifiers.table(request.id))
        if request.version not in (None, number_of(table.pin.version)):
            raise spec.TableVersionNotFoundError(f"Table {table.info.name!r} has no version {request.version} here.")
        return self._state[table.info.name]

    def _writing(self) -> Lake:
        raise ReadOnly(
            f"This is commit {self._state.commit}, which stays as it is.", next="Write to the namespace of the lake."
        )


def number_of(version: str) -> int:
    """The number of a state: that of a plain version, or one that follows from the staged version."""
    number = int(version)
    if not number & DETACHED:
        return number
    digest = hashlib.blake2b(version.encode(), digest_size=5).digest()
    return FIRST + (int.from_bytes(digest) << 12)
