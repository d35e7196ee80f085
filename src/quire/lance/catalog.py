"""Namespaces and tables: listing, describing, declaring, registering, renaming, dropping."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import lance_namespace as spec

from quire.errors import InvalidInput, KeyConflict, TableExists, TableNotFound
from quire.lake import Snapshot
from quire.lake.handles import is_governed
from quire.lake.names import no_table
from quire.lake.upkeep.cleanup.declared import DECLARED, DIRECTORY
from quire.lance import directory, identifiers
from quire.lance.answers import answering
from quire.lance.commits import DropTable, commit
from quire.lance.directory import NAMESPACE, Directory
from quire.lance.identifiers import SEPARATOR, Parts
from quire.lance.operations import AUTHOR, MESSAGE, Operations, check_branch, context
from quire.lance.schemas import json_schema
from quire.lance.versions import declaration, expected_version
from quire.ledger import TableState


class CatalogOperations(Operations):
    """What lies in the lake, by name."""

    # -- namespaces -------------------------------------------------------------------------------------------

    @answering
    def list_namespaces(self, request: spec.ListNamespacesRequest) -> spec.ListNamespacesResponse:
        parent = identifiers.namespace(request.id)
        known = self._namespaces()
        self._check_there(parent, known)
        children = {
            parts[len(parent)] for parts in known if len(parts) > len(parent) and parts[: len(parent)] == parent
        }
        names, token = identifiers.page(children, request.limit, request.page_token)
        return spec.ListNamespacesResponse(namespaces=names, page_token=token)

    @answering
    def describe_namespace(self, request: spec.DescribeNamespaceRequest) -> spec.DescribeNamespaceResponse:
        parts = identifiers.namespace(request.id)
        known = self._namespaces()
        self._check_there(parts, known)
        return spec.DescribeNamespaceResponse(properties=known.get(parts, {}))

    @answering
    def namespace_exists(self, request: spec.NamespaceExistsRequest) -> spec.NamespaceExistsResponse:
        self._check_there(identifiers.namespace(request.id), self._namespaces())
        return spec.NamespaceExistsResponse()

    @answering
    def create_namespace(self, request: spec.CreateNamespaceRequest) -> spec.CreateNamespaceResponse:
        parts, mode = identifiers.namespace(request.id), mode_of(request.mode, "create", "exist_ok", "overwrite")
        known, properties = self._namespaces(), dict(request.properties or {})
        self._check_there(parts[:-1], known)
        if parts in known or not parts:
            if mode == "create" or not parts:
                raise spec.NamespaceAlreadyExistsError(f"Namespace {SEPARATOR.join(parts)!r} exists.")
            if mode == "exist_ok":
                return spec.CreateNamespaceResponse(properties=known[parts])
        try:
            with self._writing().transaction(f"create namespace {SEPARATOR.join(parts)}") as tx:
                if parts in Directory.of(tx).namespaces:
                    directory.replace(tx, SEPARATOR.join(parts), properties)
                else:
                    directory.add(tx, NAMESPACE, SEPARATOR.join(parts), properties)
        except KeyConflict as error:
            raise spec.NamespaceAlreadyExistsError(f"Namespace {SEPARATOR.join(parts)!r} was created first.") from error
        return spec.CreateNamespaceResponse(properties=properties, transaction_id=tx.receipt.commit)

    @answering
    def drop_namespace(self, request: spec.DropNamespaceRequest) -> spec.DropNamespaceResponse:
        parts = identifiers.namespace(request.id)
        mode, behavior = mode_of(request.mode, "fail", "skip"), mode_of(request.behavior, "restrict", "cascade")
        if not parts:
            raise InvalidInput("The lake itself is not dropped.", next="Name a namespace of it.")
        name = SEPARATOR.join(parts)
        with self._writing().transaction(f"drop namespace {name}", fresh=True) as tx:
            found = Directory.of(tx)
            known = _all_namespaces(found, tx.tables())
            if parts not in known:
                if mode == "skip":
                    return spec.DropNamespaceResponse(properties={})
                raise _no_namespace(parts)
            inside = name + SEPARATOR
            spaces = [p for p in found.namespaces if p[: len(parts)] == parts]
            tables = [t for t in tx.tables() if t.startswith(inside)]
            declared = [t for t in found.declared if t.startswith(inside)]
            if behavior == "restrict" and (tables or declared or len(spaces) > 1):
                raise spec.NamespaceNotEmptyError(
                    f"Namespace {name!r} holds {', '.join([*tables, *declared][:5]) or 'namespaces'}. Drop what is in "
                    "it first, or pass the behavior Cascade."
                )
            for table in tables:
                tx.drop_table(table)
            for declaration_ in declared:
                directory.remove(tx, DECLARED, declaration_)
            for space in spaces:
                directory.remove(tx, NAMESPACE, SEPARATOR.join(space))
        dropped = tx.receipt.commit
        return spec.DropNamespaceResponse(
            properties=dict(found.namespaces.get(parts, {})), transaction_id=[dropped] if dropped else None
        )

    # -- tables -----------------------------------------------------------------------------------------------

    @answering
    def list_tables(self, request: spec.ListTablesRequest) -> spec.ListTablesResponse:
        parent = identifiers.namespace(request.id)
        snapshot = self._snapshot()
        found = Directory.of(snapshot)
        self._check_there(parent, _all_namespaces(found, snapshot.tables()))
        names = self._names(snapshot, found, declared=request.include_declared is not False)
        inside = {identifiers.parts(name) for name in names}
        children = {parts[-1] for parts in inside if parts[:-1] == parent}
        shown, token = identifiers.page(children, request.limit, request.page_token)
        return spec.ListTablesResponse(tables=shown, page_token=token)

    @answering
    def list_all_tables(self, request: spec.ListTablesRequest) -> spec.ListTablesResponse:
        snapshot = self._snapshot()
        names = self._names(snapshot, Directory.of(snapshot), declared=request.include_declared is not False)
        shown, token = identifiers.page(names, request.limit, request.page_token)
        return spec.ListTablesResponse(tables=shown, page_token=token)

    @answering
    def table_exists(self, request: spec.TableExistsRequest) -> spec.TableExistsResponse:
        check_branch(request)
        name = identifiers.table(request.id)
        snapshot = self._snapshot()
        if name not in snapshot and name not in Directory.of(snapshot).declared:
            raise no_table(name, [n for n in snapshot.tables() if n != DIRECTORY])
        return spec.TableExistsResponse()

    @answering
    def describe_table(self, request: spec.DescribeTableRequest) -> spec.DescribeTableResponse:
        check_branch(request)
        name = identifiers.table(request.id)
        try:
            table = self._table(request)
        except TableNotFound:
            return self._describe_declared(request, name)
        if is_governed(self.lake) and request.load_detailed_metadata:
            return self._describe_rows(table)
        location = table.pin.location
        parts = identifiers.parts(name)
        properties = {"quire.key": ",".join(table.info.key)} if table.info.key else {}
        answer = spec.DescribeTableResponse(
            location=self._uri(location),
            storage_options=self._options(self._uri(location)),
            managed_versioning=self._is_managed(table),
            table=parts[-1],
            namespace=list(parts[:-1]),
            metadata={"quire.commit": table.commit.commit, "quire.version": str(table.pin.counter)},
            properties=properties,
            is_only_declared=False if request.check_declared else None,
        )
        if request.with_table_uri:
            answer.table_uri = self._uri(location)
        if request.load_detailed_metadata or request.version is not None:
            number = self._follow(table)
            wanted = number if request.version is None else request.version
            if wanted != number and not self._has(table, wanted):
                raise spec.TableVersionNotFoundError(f"Table {name!r} has no version {request.version}.")
            view = self.lake._core.format(table.pin.format).open(table.pin, name)
            answer.version = wanted
            answer.var_schema = json_schema(view.schema)
        return answer

    def _describe_rows(self, table: TableState) -> spec.DescribeTableResponse:
        """A table for clients that ask for rows, where a policy keeps its files from them."""
        name = table.info.name
        view = self.lake._core.format(table.pin.format).open(table.pin, name)
        parts = identifiers.parts(name)
        answer = spec.DescribeTableResponse(
            table=parts[-1],
            namespace=list(parts[:-1]),
            version=table.pin.counter,
            metadata={"quire.commit": table.commit.commit, "quire.version": str(table.pin.counter)},
        )
        answer.var_schema = json_schema(view.schema)
        return answer

    def _describe_declared(self, request: spec.DescribeTableRequest, name: str) -> spec.DescribeTableResponse:
        snapshot = self._snapshot()
        found = Directory.of(snapshot).declared.get(name)
        if found is None:
            raise no_table(name, [n for n in snapshot.tables() if n != DIRECTORY])
        uri = self._uri(self.lake._core.format("lance").location(found[0]))
        return spec.DescribeTableResponse(
            location=uri,
            table_uri=uri if request.with_table_uri else None,
            storage_options=self._options(uri),
            properties=found[1],
            managed_versioning=True,
            is_only_declared=True,
        )

    @answering
    def declare_table(self, request: spec.DeclareTableRequest) -> spec.DeclareTableResponse:
        wanted = declaration(request)
        self._check_there(identifiers.parts(wanted.name)[:-1], self._namespaces())
        try:
            done = commit(self, [wanted], message=context(request, MESSAGE), author=context(request, AUTHOR))
        except KeyConflict as error:
            raise TableExists(f"Table {wanted.name!r} was declared first.", table=wanted.name) from error
        uri = self._uri(done.locations[wanted.name])
        return spec.DeclareTableResponse(
            location=uri,
            storage_options=self._options(uri),
            properties=dict(wanted.properties),
            managed_versioning=True,
            transaction_id=done.receipt.commit,
        )

    @answering
    def register_table(self, request: spec.RegisterTableRequest) -> spec.RegisterTableResponse:
        name, mode = identifiers.table(request.id), mode_of(request.mode, "create", "overwrite")
        self._check_there(identifiers.parts(name)[:-1], self._namespaces())
        key = (request.properties or {}).get("quire.key", "")
        with self._writing().transaction(f"register {name}", fresh=True) as tx:
            if mode == "overwrite" and name in tx:
                tx.drop_table(name)
            tx.register_table(name, request.location, key=tuple(k.strip() for k in key.split(",") if k.strip()) or None)
        return spec.RegisterTableResponse(
            location=request.location, properties=dict(request.properties or {}), transaction_id=tx.receipt.commit
        )

    @answering
    def deregister_table(self, request: spec.DeregisterTableRequest) -> spec.DeregisterTableResponse:
        return spec.DeregisterTableResponse(**self._dropped(request))

    @answering
    def drop_table(self, request: spec.DropTableRequest) -> spec.DropTableResponse:
        return spec.DropTableResponse(**self._dropped(request))

    def _dropped(self, request: Any) -> dict[str, Any]:
        name = identifiers.table(request.id)
        operation = DropTable(name, expected_version(request))
        done = commit(self, [operation], message=context(request, MESSAGE), author=context(request, AUTHOR))
        location = self._uri(done.locations[name])
        return {"id": list(request.id), "location": location, "transaction_id": done.receipt.commit}

    @answering
    def rename_table(self, request: spec.RenameTableRequest) -> spec.RenameTableResponse:
        check_branch(request)
        old = identifiers.table(request.id)
        parent = identifiers.parts(old)[:-1] if request.new_namespace_id is None else tuple(request.new_namespace_id)
        self._check_there(identifiers.namespace(parent), self._namespaces())
        new = identifiers.table([*parent, request.new_table_name])
        with self._writing().transaction(f"rename {old} to {new}", fresh=True) as tx:
            if new in Directory.of(tx).declared:
                raise TableExists(f"Table {new!r} is declared.", next="Choose another name.", table=new)
            tx.rename_table(old, new)
        return spec.RenameTableResponse(transaction_id=tx.receipt.commit)

    # -- what is there ----------------------------------------------------------------------------------------

    def _names(self, snapshot: Snapshot, found: Directory, *, declared: bool) -> list[str]:
        tables = [name for name in snapshot.tables() if name != DIRECTORY]
        return sorted({*tables, *found.declared}) if declared else tables

    def _namespaces(self) -> dict[Parts, dict[str, str]]:
        snapshot = self._snapshot()
        return _all_namespaces(Directory.of(snapshot), snapshot.tables())

    def _check_there(self, parts: Parts, known: Mapping[Parts, Any]) -> None:
        if parts and parts not in known:
            raise _no_namespace(parts)

    def _is_managed(self, table: Any) -> bool:
        from quire.formats import Managed

        return isinstance(self.lake._core.format(table.pin.format), Managed)


def _all_namespaces(found: Directory, tables: list[str]) -> dict[Parts, dict[str, str]]:
    """Those that were created, and those that names of tables imply."""
    implied = {parts for name in (*tables, *found.declared) if name != DIRECTORY for parts in identifiers.parents(name)}
    implied |= {parts[:n] for parts in found.namespaces for n in range(1, len(parts))}
    return {**{parts: {} for parts in implied}, **found.namespaces}


def _no_namespace(parts: Parts) -> Exception:
    name = SEPARATOR.join(parts)
    return spec.NamespaceNotFoundError(f"There is no namespace {name!r}. Create it, or check the name.")


def mode_of(given: str | None, *known: str) -> str:
    """One of the modes that an operation has, however it is written; the first where none is given."""
    plain = {mode.replace("_", ""): mode for mode in known}
    if given is None:
        return known[0]
    found = plain.get(given.lower().replace("_", ""))
    if found is None:
        raise InvalidInput(f"There is no mode {given[:40]!r}.", next=f"Use one of {', '.join(known)}.")
    return found
