"""What a transaction was asked to do to a table, and how it is done on whatever base."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from quire.errors import KeyConflict, SchemaMismatch
from quire.formats import keys as keylib
from quire.formats.arrow import Source, fit
from quire.testing.memory import sql
from quire.testing.memory.files import Fragment, Place, Version
from quire.testing.memory.net import Address, Net, locate, where_key

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class Append:
    fragment: Fragment | None


@dataclass
class Keyed:
    """Strict insert or upsert of whole rows."""

    mode: Literal["insert", "upsert"]
    fragment: Fragment | None
    on: tuple[str, ...]
    keys: pa.Table
    matched: int = 0
    """How many of the rows replaced another, on the base that it was run on last."""


@dataclass
class Patch:
    """Upsert of some values only: the new rows depend on the old ones, so they are built on each base."""

    source: pa.Table
    on: tuple[str, ...]
    keep: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """By column, a mask of the rows that keep the value of the row that is there."""
    matched: int = 0

    @property
    def keys(self) -> pa.Table:
        return self.source.select(list(self.on))


@dataclass
class Update:
    exprs: dict[str, str]
    values: dict[str, Any]
    where: str | None
    on: tuple[str, ...] = ()
    """Key columns that the update itself writes; the new keys must be free."""
    keys: pa.Table | None = None


@dataclass
class Delete:
    where: str


Statement = Append | Keyed | Patch | Update | Delete


class Running:
    """Runs statements on `base` plus the net effect so far."""

    place: Place
    base: Version
    net: Net
    table: str
    files: list[str]

    @property
    def schema(self) -> pa.Schema:
        return self.base.schema

    def _apply(self, statement: Statement) -> int:
        if isinstance(statement, Append):
            self.net.add(statement.fragment)
            return 0
        if isinstance(statement, Keyed):
            return self._run_keyed(statement)
        if isinstance(statement, Patch):
            return self._run_patch(statement)
        if isinstance(statement, Update):
            return self._run_update(statement)
        addresses, _ = self._where(statement.where, ())
        self.net.remove(addresses, hard=True)
        return len(addresses)

    def _run_keyed(self, statement: Keyed) -> int:
        addresses, positions = self._find(statement.on, statement.keys)
        if statement.mode == "insert" and addresses:
            raise self.key_conflict(statement.keys.take(positions).to_pylist())
        self.net.remove(addresses, hard=False)
        self.net.add(statement.fragment)
        statement.matched = len(set(positions))
        return statement.matched

    def _run_patch(self, statement: Patch) -> int:
        """Given values from the input, the others from the row that is there, or null."""
        addresses, positions = self._find(statement.on, statement.keys)
        if len(set(positions)) != len(positions):
            raise KeyConflict(
                f"Table {self.table!r} has several rows for one key, so some columns alone cannot be upserted.",
                next="Supply whole rows, or remove the duplicates first.",
                table=self.table,
            )
        given = statement.source
        others = [f for f in self.schema if f.name not in given.schema.names]
        fresh = given.num_rows - len(addresses)
        required = [f.name for f in others if not f.nullable]
        if fresh and required:
            raise SchemaMismatch(
                f"{fresh} rows for table {self.table!r} are new and lack required column {required[0]!r}.",
                next="Supply the column for new rows.",
                table=self.table,
                missing=required,
            )
        needed = [*(f.name for f in others), *statement.keep]
        found = locate(self.place, self.net.on(self.base), needed, table=self.table)
        row_of = {address: row for row, address in enumerate(found.addresses)}
        old: list[int | None] = [None] * given.num_rows
        for address, position in zip(addresses, positions, strict=True):
            old[position] = row_of[address]
        values: dict[int, list[Any]] = {}
        for field in self.base.fields:
            column = found.columns.get(field.name, [])
            if field.name not in given.schema.names:
                values[field.id] = [None if row is None else column[row] for row in old]
                continue
            mine = given.column(field.name).to_pylist()
            keep = statement.keep.get(field.name, [False] * given.num_rows)
            values[field.id] = [
                column[row] if kept and row is not None else value
                for value, row, kept in zip(mine, old, keep, strict=True)
            ]
        fragment = self._keep(self.place.write_columns(values, given.num_rows))
        self.net.remove(addresses, hard=False)
        self.net.add(fragment)
        statement.matched = len(addresses)
        return len(addresses)

    def _run_update(self, statement: Update) -> int:
        import pyarrow as pa

        schema = self.schema
        addresses, rows = self._where(statement.where, schema.names)
        arrays, fields = [], []
        for field in schema:
            if field.name in statement.values:
                column = pa.repeat(statement.values[field.name], len(addresses))
            elif field.name in statement.exprs:
                column = sql.compute(statement.exprs[field.name], schema, rows, len(addresses))
            else:
                column = pa.array(rows[field.name], field.type)
            arrays.append(column)
            fields.append(pa.field(field.name, column.type))
        batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
        table = fit(Source(batch.schema, [batch], True), schema, table=self.table).table()
        if statement.on:
            statement.keys = table.select(list(statement.on))
            keylib.check_distinct(statement.keys, statement.on, self.table)
            mine = set(addresses)
            taken = zip(*self._find(statement.on, statement.keys), strict=True)
            clash = [position for address, position in taken if address not in mine]
            if clash:
                raise self.key_conflict(statement.keys.take(clash).to_pylist())
        fragment = self._write(table)
        self.net.remove(addresses, hard=True)
        self.net.add(fragment)
        return len(addresses)

    def _where(self, predicate: str | None, names: Sequence[str]) -> tuple[list[Address], dict[str, list[Any]]]:
        """Rows that satisfy a predicate: where they lie, and these columns of them."""
        found = locate(self.place, self.net.on(self.base), self.schema.names, table=self.table)
        if predicate is None:
            return found.addresses, found.columns
        chosen = sql.matches(predicate, self.schema, found.columns, found.rows)
        return [found.addresses[i] for i in chosen], {n: [found.columns[n][i] for i in chosen] for n in names}

    def _find(self, on: Sequence[str], keys: pa.Table) -> tuple[list[Address], list[int]]:
        return where_key(self.place, self.net.on(self.base), on, keys, table=self.table)

    def _write(self, rows: pa.Table, numbers: Sequence[int] | None = None) -> Fragment | None:
        numbers = [f.id for f in self.base.fields] if numbers is None else numbers
        columns = {number: column.to_pylist() for number, column in zip(numbers, rows.columns, strict=True)}
        return self._keep(self.place.write_columns(columns, rows.num_rows))

    def _keep(self, fragment: Fragment | None) -> Fragment | None:
        self.files.extend(() if fragment is None else fragment.paths)
        return fragment

    def key_conflict(self, found: list[dict[str, Any]]) -> KeyConflict:
        return KeyConflict(
            f"Table {self.table!r} already has a row with {keylib.show(found)}.",
            next="Use upsert to replace it, or leave those rows out.",
            table=self.table,
            keys=found[:20],
        )
