"""Versions of tables: clients stage them, and the lake publishes them, alone or several at once."""

from __future__ import annotations

from typing import Any

import lance_namespace as spec

from quire.errors import InvalidInput, NotFound, SnapshotExpired, TableNotFound
from quire.lance import identifiers
from quire.lance.answers import answering, unsupported
from quire.lance.commits import CreateVersion, DeclareTable, Done, DropTable, Operation, commit
from quire.lance.directory import Directory
from quire.lance.operations import AUTHOR, EXPECTED, MESSAGE, Operations, check_branch, context

CLEANUP = (
    "The lake's own cleanup deletes what no commit, tag, branch or lease needs: run `quire cleanup`, and leave "
    "cleanup_old_versions alone."
)


class VersionOperations(Operations):
    """Managed versioning, and commits over many tables."""

    @answering
    def list_table_versions(self, request: spec.ListTableVersionsRequest) -> spec.ListTableVersionsResponse:
        try:
            table = self._table(request)
        except TableNotFound:
            if identifiers.table(request.id) in Directory.of(self._snapshot()).declared:
                return spec.ListTableVersionsResponse(versions=[])  # clients ask before they write the first
            raise
        number = self._follow(table)
        location, place = table.pin.location, self._managed(table)
        told = {"quire.commit": table.commit.commit, "quire.version": str(table.pin.counter)}
        if request.limit == 1 and request.descending and request.page_token is None:
            found = [place.plain_version(location, number)]
        else:
            found = place.line(location)
        if not request.descending:
            found.reverse()
        if request.page_token is not None:
            after = _number(request.page_token)
            found = [v for v in found if (v.number < after if request.descending else v.number > after)]
        more = request.limit is not None and 0 < request.limit < len(found)
        found = found[: request.limit] if more else found
        versions = [self._version(location, v, told if v.number == number else None) for v in found]
        return spec.ListTableVersionsResponse(
            versions=versions, page_token=str(found[-1].number) if more and request.limit != 1 else None
        )

    @answering
    def describe_table_version(self, request: spec.DescribeTableVersionRequest) -> spec.DescribeTableVersionResponse:
        table = self._table(request)
        number = self._follow(table)
        wanted = number if request.version is None else request.version
        found = self._managed(table).plain_version(table.pin.location, wanted)
        if found is None:
            raise spec.TableVersionNotFoundError(
                f"Table {table.info.name!r} has no version {wanted}; its newest is {number}."
            )
        told = {"quire.commit": table.commit.commit, "quire.version": str(table.pin.counter)}
        return spec.DescribeTableVersionResponse(
            version=self._version(table.pin.location, found, told if wanted == number else None)
        )

    @answering
    def create_table_version(self, request: spec.CreateTableVersionRequest) -> spec.CreateTableVersionResponse:
        done = commit(self, [creation(request)], message=context(request, MESSAGE), author=context(request, AUTHOR))
        return self._created(request, done)

    @answering
    def batch_create_table_versions(
        self, request: spec.BatchCreateTableVersionsRequest
    ) -> spec.BatchCreateTableVersionsResponse:
        if not request.entries:
            raise InvalidInput("The batch is empty.", next="Give the versions to create.")
        operations = [creation(entry) for entry in request.entries]
        done = commit(self, operations, message=context(request, MESSAGE), author=context(request, AUTHOR))
        versions = [self._made(entry, done) for entry in request.entries]
        return spec.BatchCreateTableVersionsResponse(transaction_id=done.receipt.commit, versions=versions)

    @answering
    def batch_commit_tables(self, request: spec.BatchCommitTablesRequest) -> spec.BatchCommitTablesResponse:
        if not request.operations:
            raise InvalidInput("The batch is empty.", next="Give its operations.")
        parts = [_part(operation) for operation in request.operations]
        operations = [_operation(kind, part) for kind, part in parts]
        done = commit(self, operations, message=context(request, MESSAGE), author=context(request, AUTHOR))
        results = [self._result(kind, part, done) for kind, part in parts]
        return spec.BatchCommitTablesResponse(transaction_id=done.receipt.commit, results=results)

    @answering
    def batch_delete_table_versions(self, request: spec.BatchDeleteTableVersionsRequest) -> Any:
        raise unsupported("deletion of versions by clients", CLEANUP)

    @answering
    def describe_transaction(self, request: spec.DescribeTransactionRequest) -> spec.DescribeTransactionResponse:
        commit_id = (request.id or [""])[-1]
        try:
            found = self.lake.show(commit_id)
        except (NotFound, InvalidInput, SnapshotExpired) as error:
            raise spec.TransactionNotFoundError(str(error)) from error
        told = {"author": found.author, "message": found.message, "tables": ", ".join(sorted(found.tables))}
        return spec.DescribeTransactionResponse(status="Succeeded", properties=told)

    @answering
    def alter_transaction(self, request: spec.AlterTransactionRequest) -> Any:
        raise unsupported(
            "changes of a transaction, which is published when it has an id",
            "Collect writes with quire.lance.Batch, or send a batch; `lake.revert` takes a commit back.",
        )

    def _created(self, request: Any, done: Done) -> spec.CreateTableVersionResponse:
        version = self._made(request, done)
        return spec.CreateTableVersionResponse(transaction_id=done.receipt.commit, version=version)

    def _made(self, request: Any, done: Done) -> spec.TableVersion:
        location = done.locations[identifiers.table(request.id)]
        found = self._plain(identifiers.table(request.id), location, request.version)
        told = {"quire.commit": str(done.receipt.commit)}
        return self._version(location, found, told)

    def _result(self, kind: str, request: Any, done: Done) -> spec.CommitTableResult:
        if kind == "create_table_version":
            return spec.CommitTableResult(create_table_version=self._created(request, done))
        name = identifiers.table(request.id)
        uri = self._uri(done.locations[name])
        told: dict[str, Any] = {"transaction_id": done.receipt.commit, "location": uri}
        if kind == "declare_table":
            declared = spec.DeclareTableResponse(
                storage_options=self._options(uri), properties=done.properties[name], managed_versioning=True, **told
            )
            return spec.CommitTableResult(declare_table=declared)
        return spec.CommitTableResult(deregister_table=spec.DeregisterTableResponse(id=list(request.id), **told))


def _number(token: str) -> int:
    if not token.isdigit() or len(token) > 20:
        raise InvalidInput(f"{token[:40]!r} is no page of versions.", next="Pass the page_token of an answer.")
    return int(token)


def creation(request: Any) -> CreateVersion:
    check_branch(request)
    if request.naming_scheme not in (None, "V2"):
        raise InvalidInput(
            f"The naming scheme {request.naming_scheme!r} has no staged manifests.", next="Use the scheme V2."
        )
    return CreateVersion(
        identifiers.table(request.id),
        request.version,
        request.manifest_path,
        request.manifest_size,
        expected_version(request),
    )


def expected_version(request: Any) -> int | None:
    """The version at which a table is expected, from the context of a request."""
    text = context(request, EXPECTED)
    if text is None:
        return None
    if not text.isdigit() or len(text) > 18:
        raise InvalidInput(f"{EXPECTED} is a version number, not {text[:40]!r}.", next="Pass the number as text.")
    return int(text)


def declaration(request: Any) -> DeclareTable:
    if request.location is not None:
        raise InvalidInput(
            "The lake chooses where a table lies.", next="Leave the location out, and write where the answer says."
        )
    return DeclareTable(identifiers.table(request.id), dict(request.properties or {}))


def _part(operation: Any) -> tuple[str, Any]:
    kinds = ("declare_table", "create_table_version", "delete_table_versions", "deregister_table")
    given = [(kind, part) for kind in kinds if (part := getattr(operation, kind)) is not None]
    if len(given) != 1:
        raise InvalidInput("An operation of a batch does one thing.", next=f"Set one of {', '.join(kinds)}.")
    return given[0]


def _operation(kind: str, request: Any) -> Operation:
    if kind == "declare_table":
        return declaration(request)
    if kind == "create_table_version":
        return creation(request)
    if kind == "deregister_table":
        return DropTable(identifiers.table(request.id), expected_version(request))
    raise unsupported("deletion of versions by clients, so nothing of the batch was done", CLEANUP)
