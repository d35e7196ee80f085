"""An open transaction of a lake as a namespace: what any clients write there is one commit, or nothing.

Clients see the tables as they were when it began, and their own writes: each table has numbers of the transaction's
own, above every plain one, and its states are manifests in a folder of the transaction. Nothing of it is visible to
others until it commits; then it is a transaction like any other, whose rows are moved beside those of rivals by the
usual rules.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import lance_namespace as spec

from quire.errors import Conflict, InvalidInput, TableExists, TransactionClosed, Unsupported
from quire.lake import Lake, Transaction
from quire.lake.branch import client_versions
from quire.lake.handles import names_seen
from quire.lake.names import no_table
from quire.lake.upkeep.cleanup.declared import DECLARED, DIRECTORY
from quire.lance import directory, identifiers
from quire.lance.answers import answering
from quire.lance.catalog import CatalogOperations, mode_of
from quire.lance.commits import LANCE_MESSAGE, key_columns
from quire.lance.directory import Directory
from quire.lance.operations import check_branch, staged_name
from quire.lance.refusals import RefusedOperations
from quire.lance.rows import Given, read
from quire.lance.structure import StructureOperations
from quire.lance.versions import VersionOperations, creation, declaration
from quire.lance.views import FIRST
from quire.ledger import TableInfo, TableState, new_id

if TYPE_CHECKING:
    from quire.formats import PlainVersion, StagedVersion
    from quire.lake import Receipt, Snapshot

T = TypeVar("T")
OUTSIDE = "Do it outside of the transaction: it is a commit of its own."


@dataclass
class Chain:
    """What clients have written to one table in the transaction, and where its numbers begin."""

    first: int
    staged: list[StagedVersion] = field(default_factory=list)
    declared: str | None = None
    """Of a table that the transaction makes: its id."""
    properties: dict[str, str] = field(default_factory=dict)

    @property
    def number(self) -> int:
        return self.first + len(self.staged)


class TransactionNamespace(
    CatalogOperations, VersionOperations, StructureOperations, RefusedOperations, spec.LanceNamespace
):
    """An open transaction as a namespace: `Namespace(lake).transaction("why")`. Leaving its block commits it."""

    def __init__(self, lake: Lake, tx: Transaction, id: str | None = None) -> None:
        super().__init__()
        self.lake, self.tx = lake, tx
        self.id = id or secrets.token_urlsafe(16)
        self._folder = f"_batches/{secrets.token_hex(8)}"
        self._chains: dict[str, Chain] = {}
        """By the id of the table, or by the name of one that is declared and not written yet."""
        self._said = bool(tx.message)

    def namespace_id(self) -> str:
        """The lake and the transaction."""
        return f"quire {{ lake: {self.lake.uri!r}, transaction: {self.id!r} }}"

    def __enter__(self) -> TransactionNamespace:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None and self.tx.status == "open":
            self.commit()
        else:
            self.cancel()

    def commit(self) -> Receipt:
        """Publish everything in one commit. Handles that were opened here are over then."""
        self.settle()
        return self.tx.commit()

    def cancel(self) -> None:
        """Forget it. What was staged is invisible, and cleanup removes it."""
        self.tx.discard()

    def settle(self) -> None:
        """What is left to do before the transaction commits."""
        for name, chain in self._chains.items():
            if chain.declared is not None and not chain.staged:
                directory.add(self.tx, DECLARED, name, chain.properties, chain.declared)
        if not self._said and self.written():
            self.tx.message = f"write {', '.join(sorted(self.written()))} (Lance clients)"[:400]

    def written(self) -> set[str]:
        """The tables that clients have written versions of."""
        names = {id: name for name, id in names_seen(self.tx).items()}
        return {names[id] for id, chain in self._chains.items() if chain.staged and id in names}

    # -- versions ---------------------------------------------------------------------------------------------

    @answering
    def list_table_versions(self, request: spec.ListTableVersionsRequest) -> spec.ListTableVersionsResponse:
        self._check_open()
        check_branch(request)
        name = identifiers.table(request.id)
        if name not in names_seen(self.tx):
            self._declared(name)
            return spec.ListTableVersionsResponse(versions=[])
        return spec.ListTableVersionsResponse(versions=[self._told(name, self._chain(name).number)])

    @answering
    def describe_table_version(self, request: spec.DescribeTableVersionRequest) -> spec.DescribeTableVersionResponse:
        self._check_open()
        check_branch(request)
        name = identifiers.table(request.id)
        chain = self._chain(name)
        wanted = chain.number if request.version is None else request.version
        if not self._shows(chain, wanted):
            raise spec.TableVersionNotFoundError(
                f"Table {name!r} has no version {wanted} in this transaction; its newest is {chain.number}."
            )
        return spec.DescribeTableVersionResponse(version=self._told(name, wanted))

    @answering
    def create_table_version(self, request: spec.CreateTableVersionRequest) -> spec.CreateTableVersionResponse:
        self._take([creation(request)])
        return spec.CreateTableVersionResponse(version=self._told(identifiers.table(request.id), request.version))

    @answering
    def batch_create_table_versions(
        self, request: spec.BatchCreateTableVersionsRequest
    ) -> spec.BatchCreateTableVersionsResponse:
        self._take([creation(entry) for entry in request.entries])
        versions = [self._told(identifiers.table(entry.id), entry.version) for entry in request.entries]
        return spec.BatchCreateTableVersionsResponse(transaction_id=self.id, versions=versions)

    @answering
    def batch_commit_tables(self, request: spec.BatchCommitTablesRequest) -> NoReturn:
        raise spec.UnsupportedOperationError(
            "A transaction is one commit by itself: write to it, and end it. Batches are sent to the lake's namespace."
        )

    def _take(self, versions: Sequence[Any]) -> None:
        self._check_open()
        for wanted in versions:
            self._take_one(wanted)

    def _take_one(self, wanted: Any) -> None:
        name, tx = wanted.name, self.tx
        chain = self._chain(name)
        place = self.lake._core.format("lance")
        location = self._location(name)
        staged = place.staged_version(location, staged_name(self._uri(location), wanted.path))  # type: ignore[attr-defined]
        if staged.number != wanted.number:
            raise InvalidInput(f"{wanted.path[:300]!r} is of version {staged.number}, not {wanted.number}.")
        if wanted.number != chain.number + 1 or any(one.transaction == staged.transaction for one in chain.staged):
            raise Conflict(
                f"Table {name!r} is at version {chain.number} in this transaction, so the next is not {wanted.number}.",
                next="Open the table again, and write again.",
                table=name,
                expected=wanted.number - 1,
                actual=chain.number,
            )
        every = [*chain.staged, staged]
        if chain.declared is None:
            client_versions.write_to_view(tx, self.lake, name, chain.first, every, movable=True)
        else:
            self._make(name, chain, every)
        chain.staged.append(staged)
        message = staged.properties.get(LANCE_MESSAGE)
        if message and not self._said:
            tx.message, self._said = message, True
        if chain.declared is None:
            self._put(name, staged)

    def _make(self, name: str, chain: Chain, every: Sequence[StagedVersion]) -> None:
        """A table that the transaction makes, anew with each version."""
        assert chain.declared is not None
        if name in names_seen(self.tx):
            self.tx.drop_table(name)
        info = TableInfo(id=chain.declared, name=name, key=key_columns(chain.properties))
        client_versions.create(self.tx, self.lake, info, every)
        self._chains[info.id] = chain
        self._chains.pop(name, None)

    def _put(self, name: str, staged: StagedVersion) -> None:
        """A version under the name by which clients find it: what the client has staged, byte for byte."""
        files = self.lake._core.store.below(staged.location)
        files.put(f"{self._folder}/{2**64 - 1 - staged.number:020d}.manifest", staged.body)

    def _told(self, name: str, number: int) -> spec.TableVersion:
        chain, location = self._chain(name), self._location(name)
        if number == chain.first:
            base = self._base(name)
            managed = client_versions.managed(self.lake, base.pin, name)
            found: PlainVersion = managed.shown(base.pin, number, self._folder, table=name, exact=True)
            return self._version(location, found, {"quire.transaction": self.id})
        staged = chain.staged[number - chain.first - 1]
        return spec.TableVersion(
            version=number,
            manifest_path=self._path(location, self._file(chain, staged)),
            manifest_size=len(staged.body),
            metadata={"quire.transaction": self.id},
        )

    def _file(self, chain: Chain, staged: StagedVersion) -> str:
        name = f"{self._folder}/{2**64 - 1 - staged.number:020d}.manifest"
        if chain.declared is not None and self.lake._core.store.below(staged.location).stat(name) is None:
            self.lake._core.store.below(staged.location).put(name, staged.body)
        return name

    # -- tables -----------------------------------------------------------------------------------------------

    def _chain(self, name: str) -> Chain:
        """What clients have written to a table, or may write next."""
        id = names_seen(self.tx).get(name)
        if id is None:
            return self._declared(name)
        chain = self._chains.get(id)
        if chain is None:
            edit = self.tx.edits.get(id)
            if edit is not None and edit.changed and (edit.work is not None or edit.created):
                raise spec.InvalidTableStateError(
                    f"Rows were sent to table {name!r} in this transaction. Read it by queries to the server; "
                    "clients that write versions see it after the commit."
                )
            chain = self._chains[id] = Chain(FIRST + (secrets.randbits(38) << 12))
        return chain

    def _declared(self, name: str) -> Chain:
        chain = self._chains.get(name)
        if chain is None:
            found = Directory.of(self.tx).declared.get(name)
            if found is None:
                raise no_table(name, [n for n in names_seen(self.tx) if n != DIRECTORY])
            raise spec.InvalidTableStateError(
                f"Table {name!r} was declared outside of this transaction, and has no version. "
                "Write its first version there."
            )
        return chain

    def _shows(self, chain: Chain, number: int) -> bool:
        return (chain.first if chain.declared is None else chain.first + 1) <= number <= chain.number

    def _base(self, name: str) -> TableState:
        return self.tx.at.tables[names_seen(self.tx)[name]]

    def _location(self, name: str) -> str:
        id = names_seen(self.tx).get(name)
        if id is not None and id in self.tx.at.tables:
            return self.tx.at.tables[id].pin.location
        return self.lake._core.format("lance").location(id or str(self._declared(name).declared))

    def _newest(self, name: str) -> TableState:
        self._check_open()
        id = names_seen(self.tx).get(name)
        if id is None:
            raise no_table(name, [n for n in names_seen(self.tx) if n != DIRECTORY])
        edit = self.tx.edits.get(id)
        if id in self.tx.at.tables:
            found = self.tx.at.tables[id]
            return found if edit is None else TableState(info=edit.info, pin=found.pin, commit=found.commit)
        assert edit is not None
        if edit.pin is None:
            self._chain(name)
        assert edit.pin is not None
        return TableState(info=edit.info, pin=edit.pin, commit=self.tx.at.head)

    def _follow(self, table: TableState) -> int:
        return self._chain(table.info.name).number

    def _has(self, table: TableState, number: int) -> bool:
        return self._shows(self._chain(table.info.name), number)

    def _snapshot(self) -> Snapshot:
        self._check_open()
        return self.tx  # type: ignore[return-value]  # which has what is asked of a snapshot here

    def _names(self, snapshot: Snapshot, found: Directory, *, declared: bool) -> list[str]:
        mine = [name for name, chain in self._chains.items() if chain.declared is not None and not chain.staged]
        return sorted({*super()._names(snapshot, found, declared=declared), *(mine if declared else ())})

    @answering
    def describe_table(self, request: spec.DescribeTableRequest) -> spec.DescribeTableResponse:
        name = identifiers.table(request.id)
        chain = self._chains.get(name)
        if chain is None or name in names_seen(self.tx):
            found: spec.DescribeTableResponse = super().describe_table(request)
            return found
        uri = self._uri(self._location(name))
        return spec.DescribeTableResponse(
            location=uri,
            storage_options=self._options(uri),
            properties=chain.properties,
            managed_versioning=True,
            is_only_declared=True,
        )

    @answering
    def table_exists(self, request: spec.TableExistsRequest) -> spec.TableExistsResponse:
        if identifiers.table(request.id) in self._chains:
            return spec.TableExistsResponse()
        found: spec.TableExistsResponse = super().table_exists(request)
        return found

    @answering
    def declare_table(self, request: spec.DeclareTableRequest) -> spec.DeclareTableResponse:
        self._check_open()
        wanted = declaration(request)
        self._check_there(identifiers.parts(wanted.name)[:-1], self._namespaces())
        key_columns(wanted.properties)
        taken = wanted.name in names_seen(self.tx) or wanted.name in self._chains
        if taken or wanted.name in Directory.of(self.tx).declared:
            raise TableExists(f"Table {wanted.name!r} exists, or is declared.", next="Use it.", table=wanted.name)
        chain = self._chains[wanted.name] = Chain(0, declared=new_id(), properties=dict(wanted.properties))
        uri = self._uri(self.lake._core.format("lance").location(str(chain.declared)))
        return spec.DeclareTableResponse(
            location=uri,
            storage_options=self._options(uri),
            properties=chain.properties,
            managed_versioning=True,
            transaction_id=self.id,
        )

    def _dropped(self, request: Any) -> dict[str, Any]:
        self._check_open()
        name = identifiers.table(request.id)
        location = self._uri(self._location(name))
        if name in names_seen(self.tx):
            id = names_seen(self.tx)[name]
            self.tx.drop_table(name)
            self._chains.pop(id, None)
        else:
            self._chains.pop(name)
        return {"id": list(request.id), "location": location, "transaction_id": self.id}

    @answering
    def rename_table(self, request: spec.RenameTableRequest) -> spec.RenameTableResponse:
        self._check_open()
        check_branch(request)
        old = identifiers.table(request.id)
        parent = identifiers.parts(old)[:-1] if request.new_namespace_id is None else tuple(request.new_namespace_id)
        self._check_there(identifiers.namespace(parent), self._namespaces())
        new = identifiers.table([*parent, request.new_table_name])
        if new in self._chains or new in Directory.of(self.tx).declared:
            raise TableExists(f"Table {new!r} is declared.", next="Choose another name.", table=new)
        self.tx.rename_table(old, new)
        return spec.RenameTableResponse(transaction_id=self.id)

    # -- rows -------------------------------------------------------------------------------------------------

    @answering
    def create_table(self, request: spec.CreateTableRequest, request_data: Given) -> spec.CreateTableResponse:
        self._check_open()
        name, mode = identifiers.table(request.id), mode_of(request.mode, "create", "exist_ok", "overwrite")
        properties = dict(request.properties or {})
        if name in self._chains:
            raise TableExists(f"Table {name!r} is declared.", next="Write its first version.", table=name)
        if name not in self.tx:
            self.tx.create_table(name, read(request_data), key=key_columns(properties) or None)
        elif mode == "overwrite":
            self._for_rows(name).overwrite(read(request_data), schema="replace")
        elif mode == "create":
            raise TableExists(f"Table {name!r} exists.", next="Write to it.", table=name)
        return spec.CreateTableResponse(location=self._uri(self._location(name)), properties=properties or None)

    def _changed(
        self, request: Any, what: str, change: Callable[[Transaction, str], T], *, once: bool = False
    ) -> tuple[T, dict[str, Any]]:
        self._check_open()
        check_branch(request)
        name = identifiers.table(request.id)
        self._for_rows(name)
        return change(self.tx, name), {"transaction_id": self.id, "version": 1}

    def _for_rows(self, name: str) -> Any:
        """A table that rows may be sent to: one to which no client has written a version here."""
        chain = self._chains.get(names_seen(self.tx).get(name, name))
        if chain is not None and (chain.staged or chain.declared is not None):
            raise spec.InvalidInputError(
                f"A client has written versions of table {name!r} in this transaction, so rows cannot be sent to it. "
                "Write all of it in one way."
            )
        found = self.tx[name]
        self._chains.pop(names_seen(self.tx)[name], None)
        return found

    def _seen(self, request: Any) -> Any:
        self._check_open()
        check_branch(request)
        name = identifiers.table(request.id)
        table = self.tx[name]
        if request.version is not None and request.version != self._chain(name).number:
            raise spec.TableVersionNotFoundError(f"Rows of table {name!r} are read here at its newest version.")
        return table

    def _writing(self) -> Lake:
        raise Unsupported("This does not go into a transaction of clients.", next=OUTSIDE)

    # -- its end ----------------------------------------------------------------------------------------------

    @answering
    def describe_transaction(self, request: spec.DescribeTransactionRequest) -> spec.DescribeTransactionResponse:
        return described(self.tx, self.written())

    @answering
    def alter_transaction(self, request: spec.AlterTransactionRequest) -> spec.AlterTransactionResponse:
        return alter(self.tx, request, self.commit, self.cancel, self)

    def _check_open(self) -> None:
        if self.tx.status != "open":
            raise TransactionClosed(
                f"This transaction is {self.tx.status}, and the handles of its tables are over with it.",
                next="Open the tables again in the namespace of the lake.",
                status=self.tx.status,
            )


def described(tx: Transaction, written: set[str]) -> spec.DescribeTransactionResponse:
    """How a transaction stands."""
    told = {"message": tx.message, "author": tx.author, "tables": ", ".join(sorted(written)), "base": tx.begun.commit}
    status = {"open": "Running", "publishing": "Running", "committed": "Succeeded", "unknown": "Failed"}
    found = status.get(tx.status, "Canceled")
    if found == "Succeeded":
        told["commit"] = str(tx.receipt.commit)
    return spec.DescribeTransactionResponse(status=found, properties=told)


def alter(
    tx: Transaction,
    request: spec.AlterTransactionRequest,
    commit: Callable[[], Any],
    cancel: Callable[[], None],
    view: TransactionNamespace | None = None,
) -> spec.AlterTransactionResponse:
    """Set what a commit says, and end the transaction: `Succeeded` commits, `Canceled` discards."""
    ends: list[str] = []
    for action in request.actions:
        said, ending = action.set_property_action, action.set_status_action
        if said is not None:
            _set(tx, said.key, said.value, view)
        elif action.unset_property_action is not None:
            _set(tx, action.unset_property_action.key, "", view)
        elif ending is not None and ending.status is not None:
            ends.append(mode_of(ending.status, "succeeded", "canceled", "running"))
        else:
            raise InvalidInput(
                "An action is empty: some clients drop what it holds.",
                next='Send {"actions": [{"setStatusAction": {"status": "Succeeded"}}]} by a plain POST.',
            )
    for end in ends:
        if end == "succeeded":
            _committed(tx, commit)
        elif end == "canceled":
            cancel()
    return spec.AlterTransactionResponse(status=described(tx, set()).status)


def _committed(tx: Transaction, commit: Callable[[], Any]) -> None:
    try:
        commit()
    except Conflict as error:
        name = error.fields.get("table")
        base = next((t for t in tx.at.tables.values() if t.info.name == name), None)
        now = tx.live.refresh().by_name(str(name)) if name else None
        fields: dict[str, Any] = {
            "expected": base.pin.counter if base is not None else 0,
            "actual": now.pin.counter if now is not None else 0,
        }
        raise Conflict(error.message, next=error.next, **{**fields, **error.fields}) from error


def _set(tx: Transaction, key: str | None, value: str | None, view: TransactionNamespace | None) -> None:
    from quire.lake.commit import record_values

    if key == "message":
        tx.message = record_values.message(value or "")
        if view is not None:
            view._said = bool(value)
    else:
        raise InvalidInput(f"A transaction has no property {str(key)[:60]!r}.", next="Set `message`.")
