"""What clients ask for at once, as one commit: new versions of tables, tables declared, tables given up.

It is looked at on one state of the lake and published as one commit, or not at all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quire.errors import Conflict, InvalidInput, KeyConflict, NotFound, TableExists
from quire.lake.branch import client_versions
from quire.lake.handles import is_governed, names_seen
from quire.lake.names import no_table
from quire.lake.upkeep.cleanup.declared import DECLARED
from quire.lance import directory
from quire.lance.directory import Directory
from quire.lance.operations import Operations, staged_name
from quire.ledger import MAIN, TableInfo, new_id

if TYPE_CHECKING:
    from quire.formats import StagedVersion
    from quire.lake import Receipt, Transaction

LANCE_MESSAGE = "__lance_commit_message"
KEY = "quire.key"
"""A property of a declared table: the columns of its key, with commas between them."""


@dataclass(frozen=True)
class DeclareTable:
    name: str
    properties: Mapping[str, str] = field(default_factory=dict)
    id: str = field(default_factory=new_id)


@dataclass(frozen=True)
class CreateVersion:
    name: str
    number: int
    path: str
    size: int | None = None
    expected: int | None = None


@dataclass(frozen=True)
class DropTable:
    """Its files stay until cleanup."""

    name: str
    expected: int | None = None


Operation = DeclareTable | CreateVersion | DropTable


@dataclass
class Done:
    receipt: Receipt
    locations: dict[str, str]
    """Of every table that the commit is about, by name."""
    properties: dict[str, dict[str, str]]


def commit(
    namespace: Operations, operations: Sequence[Operation], *, message: str | None = None, author: str | None = None
) -> Done:
    """Do all of it in one commit, or raise and do nothing."""
    namespace._writing()
    names = [operation.name for operation in operations]
    with namespace._one_at_a_time(names):
        return _Commit(namespace, operations, message, author).run()


class _Commit:
    def __init__(
        self, namespace: Operations, operations: Sequence[Operation], message: str | None, author: str | None
    ) -> None:
        self._namespace, self._lake = namespace, namespace.lake
        self._operations = operations
        self._message, self._author = message, author
        self._staged: dict[str, list[StagedVersion]] = {}
        self._declared: dict[str, DeclareTable] = {}
        self._locations: dict[str, str] = {}
        self._properties: dict[str, dict[str, str]] = {}

    def run(self) -> Done:
        self._lake._core.check_writable()
        self._lake._live.refresh()
        stored = self._known()
        if self._take_over(stored):
            stored = self._known()
        self._read(stored)
        every = [one for staged in self._staged.values() for one in staged]
        said = self._message or next((m for one in every if (m := one.properties.get(LANCE_MESSAGE))), None)
        transactions = [one.transaction for one in every]
        tx = client_versions.begin(self._lake, said or self._describe(), self._author, transactions)
        try:
            self._apply(tx, stored)
            # What is put into the line before the answer needs nobody else to bring it there.
            tx.backfill = tx.backfill and any(edit.info.name not in self._staged for edit in tx.edits.values())
            receipt = tx.commit()
        except KeyConflict:
            raise
        except Conflict as conflict:
            raise self._told(conflict) from conflict
        finally:
            tx.discard()
        if receipt.repeated:
            name = next(iter(self._staged))
            raise self._told(
                Conflict("This transaction was committed before.", next="Open the table again.", table=name)
            )
        state = self._lake._live.state
        ids = [i for i, table in state.tables.items() if table.info.name in self._staged]
        self._namespace._settle(state, ids)
        return Done(receipt, self._locations, self._properties)

    def _known(self) -> dict[str, DeclareTable]:
        """Tables that are declared, where any of those that are asked for is no table of the lake."""
        names = self._lake._core.narrow(self._lake._live.state).names()
        if all(isinstance(o, CreateVersion | DropTable) and o.name in names for o in self._operations):
            return {}
        found = Directory.of(self._lake.snapshot()).declared
        return {name: DeclareTable(name, told, table) for name, (table, told) in found.items()}

    def _take_over(self, stored: Mapping[str, DeclareTable]) -> bool:
        """Whether the table of a version was begun past the namespace, and is a table of the lake now.

        Some clients declare a table, write its first version where they were told, and ask for the second one.
        """
        if len(self._operations) != 1 or not isinstance(operation := self._operations[0], CreateVersion):
            return False
        declared = stored.get(operation.name)
        if declared is None or operation.number < 2 or self._lake.branch_name != MAIN or is_governed(self._lake):
            return False
        place = self._lake._core.format("lance")
        location = place.location(declared.id)
        line = place.line(location)  # type: ignore[attr-defined]
        if not line or line[0].number != operation.number - 1:
            return False
        info = TableInfo(id=declared.id, name=declared.name, key=key_columns(declared.properties))
        with contextlib.suppress(Conflict, TableExists):  # somebody else was faster: it is a table now
            said = f"create {declared.name} (Lance client)"
            with self._lake.transaction(said, author=self._author, fresh=True) as tx:
                client_versions.take_over(tx, self._lake, info, location)
                if not directory.remove(tx, DECLARED, declared.name):
                    raise TableExists(f"Table {declared.name!r} is not declared any more.", table=declared.name)
        self._lake._live.refresh()
        return True

    def _read(self, stored: Mapping[str, DeclareTable]) -> None:
        """Read what clients have staged."""
        core = self._lake._core
        tables = core.narrow(self._lake._live.state)
        for operation in self._operations:
            if not isinstance(operation, CreateVersion):
                continue
            name, known = operation.name, tables.by_name(operation.name)
            if known is not None:
                location, place = known.pin.location, client_versions.managed(self._lake, known.pin, name)
            elif name in stored:
                place = core.format("lance")  # type: ignore[assignment]
                location = core.format("lance").location(stored[name].id)
            else:
                raise no_table(name, tables.names())
            staged = place.staged_version(location, staged_name(self._namespace._uri(location), operation.path))
            if staged.number != operation.number:
                raise InvalidInput(f"{operation.path[:300]!r} is of version {staged.number}, not {operation.number}.")
            if operation.size is not None and operation.size != len(staged.body):
                raise InvalidInput(
                    f"{operation.path[:300]!r} has {len(staged.body)} bytes instead of {operation.size}.",
                    next="Stage the manifest again.",
                )
            self._staged.setdefault(name, []).append(staged)

    def _apply(self, tx: Transaction, stored: Mapping[str, DeclareTable]) -> None:
        for operation in self._operations:
            if isinstance(operation, DeclareTable):
                self._declare(tx, operation, stored)
            elif isinstance(operation, DropTable):
                self._drop(tx, operation, stored)
            elif operation.expected is not None:
                self._check_expected(tx, operation.name, operation.expected)
        for name, staged in self._staged.items():
            if name in names_seen(tx):
                self._locations[name] = staged[0].location
                self._namespace._write(tx, name, staged)
            else:
                self._create(tx, stored[name], staged)

    def _declare(self, tx: Transaction, operation: DeclareTable, stored: Mapping[str, DeclareTable]) -> None:
        if operation.name in tx or operation.name in stored:
            raise TableExists(
                f"Table {operation.name!r} exists, or is declared.", next="Use that table.", table=operation.name
            )
        key_columns(operation.properties)
        directory.add(tx, DECLARED, operation.name, operation.properties, operation.id)
        self._locations[operation.name] = self._lake._core.format("lance").location(operation.id)
        self._properties[operation.name] = dict(operation.properties)

    def _drop(self, tx: Transaction, operation: DropTable, stored: Mapping[str, DeclareTable]) -> None:
        if operation.name in names_seen(tx):
            if operation.expected is not None:
                self._check_expected(tx, operation.name, operation.expected)
            found = tx.at.tables[names_seen(tx)[operation.name]]
            self._locations[operation.name] = found.pin.location
            tx.drop_table(operation.name)
        elif operation.name in stored:
            self._locations[operation.name] = self._lake._core.format("lance").location(stored[operation.name].id)
            directory.remove(tx, DECLARED, operation.name)
        else:
            raise no_table(operation.name, names_seen(tx))

    def _create(self, tx: Transaction, declared: DeclareTable, staged: Sequence[StagedVersion]) -> None:
        info = TableInfo(id=declared.id, name=declared.name, key=key_columns(declared.properties))
        self._locations[declared.name] = staged[0].location
        self._properties[declared.name] = dict(declared.properties)
        self._namespace._write_first(tx, info, staged)
        if not directory.remove(tx, DECLARED, declared.name):
            raise NotFound(f"Table {declared.name!r} is not declared any more.", next="Declare it again.")

    def _check_expected(self, tx: Transaction, name: str, expected: int) -> None:
        found = tx.at.by_name(name)
        actual = self._namespace._follow(found) if found is not None else 0
        if actual != expected:
            raise Conflict(
                f"Table {name!r} is at version {actual}, not {expected}.",
                next="Open the table again, and decide anew.",
                table=name,
                expected=expected,
                actual=actual,
            )

    def _told(self, conflict: Conflict) -> Conflict:
        """The conflict with table, expected and actual version, once clients find the actual one in the line."""
        if "actual" in conflict.fields:
            return conflict
        name = conflict.fields.get("table")
        if name not in self._staged:
            name = next(iter(self._staged), None)
        if name is None:
            return conflict
        found = self._lake._live.refresh().by_name(name)
        actual = self._namespace._follow(found) if found is not None else 0
        fields: dict[str, Any] = {"expected": self._staged[name][0].number - 1, "actual": actual, "table": name}
        return Conflict(conflict.message, next=conflict.next, **{**conflict.fields, **fields})

    def _describe(self) -> str:
        ops = [f"{', '.join(dict.fromkeys(op for one in s for op in one.ops))} {n}" for n, s in self._staged.items()]
        ops += [f"declare {o.name}" for o in self._operations if isinstance(o, DeclareTable)]
        ops += [f"drop {o.name}" for o in self._operations if isinstance(o, DropTable)]
        return f"{'; '.join(ops)} (Lance client)"[:400]


def key_columns(properties: Mapping[str, str]) -> tuple[str, ...]:
    """The columns of the key that properties of a table name."""
    text = properties.get(KEY, "")
    return tuple(part.strip() for part in text.split(",") if part.strip())
