"""A schema change in one commit: tables, columns, rules and indexes of every type that it touches.

    with lake.transaction("schema") as tx:
        applied = apply(tx, text)

Nothing is written before the whole plan is known to hold on the rows that the transaction sees. Every change of a type
is a change of its table's record, and every change of a schema one of `graph:stored`; the lake lets nobody write
beside either, so two schema changes, or a schema change and a load of a type that it touches, end in a `Conflict`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from quire.graph.catalog import (
    FORMAT,
    STORED,
    VALIDATOR,
    Catalog,
    Definition,
    Entity,
    Property,
    Whole,
    field_of,
    stored_schema,
)
from quire.graph.schema import indexes
from quire.graph.schema.data_checks import reads_others
from quire.graph.schema.diff import TypeChange, retyped
from quire.graph.schema.plan import Plan, plan
from quire.graph.schema.resolve import ends
from quire.graph.schema.steps import Step, refused
from quire.lake.receipt import committed_as
from quire.prompt import OneLine, counted

if TYPE_CHECKING:
    from quire.lake.commit.transaction import Transaction
    from quire.lake.commit.transaction_table import TransactionTable
    from quire.lake.receipt import Receipt
    from quire.ledger import TableInfo


@dataclass(frozen=True, repr=False)
class Applied(OneLine):
    """What a schema change did, and the catalog after it. `receipt` is the proof of the commit, once there is one."""

    steps: tuple[Step, ...]
    catalog: Catalog
    receipt: Receipt | None = None

    def _facts(self) -> str:
        return f"{counted(len(self.steps), 'step')}, {committed_as(self.receipt)}" if self.steps else "nothing to do"

    def __bool__(self) -> bool:
        return bool(self.steps)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "commit": self.receipt.commit if self.receipt else None,
            "steps": [s.to_dict() for s in self.steps],
        }


def catalog_in(tx: Transaction) -> Catalog:
    """The catalog as a transaction sees it, its own changes included."""
    return Catalog.of(_infos(tx))


def apply(
    tx: Transaction,
    text: str,
    *,
    file: str = "",
    drop_data: bool = False,
    break_queries: bool = False,
    table_format: str | None = None,
) -> Applied:
    """Bring the graph to a schema, inside a transaction that commits it.

    `SchemaRefused` lists everything that prevents it; the transaction is then as it was before. Applying the
    same text again does nothing.
    """
    old = catalog_in(tx)
    found = plan(old, text, file=file, drop_data=drop_data, break_queries=break_queries, snapshot=tx)
    if found.refusals:
        raise refused(list(found.refusals))
    if not found:
        return Applied((), old)
    if any(reads_others(change) for change in found.changes):
        # The bound holds for the sources that were there: nobody may add one meanwhile.
        tx.isolation = "serializable"
    for change in found.changes:
        if change.new is None:
            tx.drop_table(change.table)
    kind = table_format or next((s.pin.format for s in tx.at.tables.values() if s.info.name == STORED), "lance")
    _write_types(tx, found, kind)
    _write_whole(tx, found, kind)
    return Applied(found.steps, catalog_in(tx))


def _infos(tx: Transaction) -> Iterator[TableInfo]:
    for table, state in tx.at.tables.items():
        if table not in tx.edits:
            yield state.info
    for edit in tx.edits.values():
        if not edit.dropped:
            yield edit.info


def _write_types(tx: Transaction, found: Plan, kind: str) -> None:
    """Node types come before the edge types that need their ids."""
    ids: dict[str, str] = {}
    changes = [c for c in found.changes if c.new is not None]
    for change in sorted(changes, key=lambda c: c.kind != "node"):
        assert change.new is not None
        definition = ends(change.new, lambda end: ids.get(end, end))
        if change.old is None:
            ids[change.name] = _create(tx, change.name, definition, kind)
        else:
            _alter(tx, change, definition)


def _create(tx: Transaction, name: str, definition: Definition, kind: str) -> str:
    entity = Entity("", name, definition)
    rules, schema = _encoded(definition), entity.schema()
    table = tx.create_table(entity.table, schema=schema, key="id", validator=VALIDATOR, rules=rules, format=kind)
    indexes.build(table, entity)
    return table.id


def _alter(tx: Transaction, change: TypeChange, definition: Definition) -> None:
    assert change.old is not None
    entity = Entity(change.old.id, change.name, definition)
    if change.old.name != change.name:
        tx.rename_table(change.old.table, entity.table)
    table = tx[entity.table]
    had = indexes.wanted(change.old)
    _change_columns(table, change)
    table.set_rules(_encoded(definition))
    moved = {new.id for old, new in change.kept() if retyped(old, new)} | {new.id for _, new in change.remade()}
    indexes.follow(table, entity, had, moved)


def _change_columns(table: TransactionTable, change: TypeChange) -> None:
    """Columns that go make room for those that are renamed, and those for new ones."""
    # Vectors of another kind than from now on go as a whole: no row has to be written for that.
    remade = {new.id: new for _, new in change.remade()}
    gone = [p.column for p in change.dropped()] + [old.column for old, _ in change.remade()]
    if gone:
        table.drop_columns(gone)
    for old, new in change.kept():
        if old.column != new.column and new.id not in remade:
            table.rename_column(old.column, new.column)
    for old, new in change.kept():
        if retyped(old, new):
            table.alter_column(new.column, type=new.type.arrow())
    for prop in (*change.added(), *remade.values()):
        _add_column(table, prop)


def _add_column(table: TransactionTable, prop: Property) -> None:
    import pyarrow as pa

    default = prop.annotation("default")
    if default is None or prop.type.optional:
        table.add_columns(field_of(prop))
        return
    table.add_columns({prop.column: pa.scalar(prop.type.value(default.value), prop.type.required.arrow())})
    table.alter_column(prop.column, nullable=True)


def _write_whole(tx: Transaction, found: Plan, kind: str) -> None:
    """Keep what belongs to no type: the interfaces and the text."""
    rules = _encoded(Whole(format=FORMAT, interfaces=found.schema.interfaces, text=found.schema.text))
    if STORED in tx:
        tx[STORED].set_rules(rules)
    else:
        tx.create_table(STORED, schema=stored_schema(), key="name", validator=VALIDATOR, rules=rules, format=kind)


def _encoded(value: Definition | Whole) -> str:
    return msgspec.json.encode(value).decode()
