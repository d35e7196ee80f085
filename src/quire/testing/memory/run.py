"""Run one statement on the draft as it is now: which rows it removes, and which it adds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from quire.conversion.fit import fit
from quire.conversion.source import Source
from quire.errors import KeyConflict, SchemaMismatch
from quire.filters import Where
from quire.formats import keys as keylib
from quire.testing.memory import sql
from quire.testing.memory.draft import Draft
from quire.testing.memory.files import Fragment
from quire.testing.memory.net import Address, locate, unnumbered, where_key
from quire.testing.memory.statements import Append, Keyed, Patch, Sought, StagedStatement, Update

if TYPE_CHECKING:
    import pyarrow as pa


def run(draft: Draft, statement: StagedStatement, *, again: bool = False) -> int:
    """Apply a statement to the net effect, whole or not at all; the number of existing rows it matched."""
    draft.check_no_upkeep()
    before = draft.net.copy()
    try:
        matched = _apply(draft, statement)
    except BaseException:
        draft.net = before
        raise
    if not again:
        if isinstance(statement, Keyed | Sought | Patch):
            statement.told = statement.matched
        draft.statements.append(statement)
    draft.staged = None
    return matched


def decoded(fragments: Sequence[str]) -> list[Fragment]:
    return [msgspec.json.decode(text, type=Fragment) for text in fragments]


def _apply(draft: Draft, statement: StagedStatement) -> int:
    if isinstance(statement, Append):
        draft.net.add(statement.fragment)
        return 0
    if isinstance(statement, Keyed):
        return _keyed(draft, statement)
    if isinstance(statement, Sought):
        return _sought(draft, statement)
    if isinstance(statement, Patch):
        return _patch(draft, statement)
    if isinstance(statement, Update):
        return _update(draft, statement)
    addresses, _ = _where(draft, statement.where, (), "condition")
    draft.net.remove(addresses, hard=True)
    return len(addresses)


def _keyed(draft: Draft, statement: Keyed) -> int:
    addresses, positions = _find(draft, statement.on, statement.keys)
    if statement.mode == "insert" and addresses:
        raise keylib.conflict(statement.keys.take(positions).to_pylist(), draft.table)
    draft.net.remove(addresses, hard=False)
    draft.net.add(statement.fragment)
    statement.matched = len(set(positions))
    return statement.matched


def _sought(draft: Draft, statement: Sought) -> int:
    state = draft.rows_so_far()
    place = draft.folder.at(state, draft.properties)
    if statement.build is None:
        found = statement.seek(place, None)
    else:
        built = statement.build(place)
        statement.fragments, found = decoded(built.fragments), built.found
        draft.files.extend(path for f in statement.fragments for path in f.paths)
    if statement.mode == "insert" and found.matched:
        raise keylib.conflict(list(found.examples), draft.table)
    draft.net.remove(unnumbered(state, found), hard=statement.mode == "delete")
    for i, fragment in enumerate(statement.fragments):
        draft.net.add(fragment, statement.without.get(i, ()))
    statement.matched = found.matched
    return found.matched


def _patch(draft: Draft, statement: Patch) -> int:
    """Given values from the input, the others from the row that is there, or null."""
    addresses, positions = _find(draft, statement.on, statement.keys)
    if len(set(positions)) != len(positions):
        raise KeyConflict(
            f"Table {draft.table!r} has several rows for one key, so some columns alone cannot be upserted.",
            next="Supply whole rows, or remove the duplicates first.",
            table=draft.table,
        )
    given = statement.source
    others = [f for f in draft.schema if f.name not in given.schema.names]
    _check_new_rows(draft, others, given.num_rows - len(addresses))
    needed = [*(f.name for f in others), *statement.keep]
    found = locate(draft.folder, draft.rows_so_far(), needed, table=draft.table)
    row_of = {address: row for row, address in enumerate(found.addresses)}
    old: list[int | None] = [None] * given.num_rows
    for address, position in zip(addresses, positions, strict=True):
        old[position] = row_of[address]
    values: dict[int, list[Any]] = {}
    for field in draft.base.fields:
        column = found.columns.get(field.name, [])
        if field.name not in given.schema.names:
            values[field.id] = [None if row is None else column[row] for row in old]
            continue
        mine = given.column(field.name).to_pylist()
        keep = statement.keep.get(field.name, [False] * given.num_rows)
        values[field.id] = [
            column[row] if kept and row is not None else value for value, row, kept in zip(mine, old, keep, strict=True)
        ]
    fragment = draft.keep(draft.folder.write_columns(values, given.num_rows))
    draft.net.remove(addresses, hard=False)
    draft.net.add(fragment)
    statement.matched = len(addresses)
    return len(addresses)


def _update(draft: Draft, statement: Update) -> int:
    import pyarrow as pa

    schema = draft.schema
    addresses, rows = _where(draft, statement.where, schema.names)
    arrays, fields = [], []
    for field in schema:
        if field.name in statement.values:
            column = pa.repeat(statement.values[field.name], len(addresses))
        elif field.name in statement.exprs:
            column = sql.compute(
                statement.exprs[field.name], field.name, schema, rows, len(addresses), table=draft.table
            )
        else:
            column = pa.array(rows[field.name], field.type)
        arrays.append(column)
        fields.append(pa.field(field.name, column.type))
    batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
    table = fit(Source(batch.schema, [batch], True), schema, table=draft.table).table()
    if statement.on:
        statement.keys = table.select(list(statement.on))
        keylib.check_distinct(statement.keys, statement.on, draft.table)
        mine = set(addresses)
        taken = zip(*_find(draft, statement.on, statement.keys), strict=True)
        clash = [position for address, position in taken if address not in mine]
        if clash:
            raise keylib.conflict(statement.keys.take(clash).to_pylist(), draft.table)
    fragment = draft.write(table)
    draft.net.remove(addresses, hard=True)
    draft.net.add(fragment)
    return len(addresses)


def _where(
    draft: Draft, predicate: Where | None, names: Sequence[str], part: str = "where"
) -> tuple[list[Address], dict[str, list[Any]]]:
    """Rows that satisfy a predicate: where they lie, and these columns of them."""
    found = locate(draft.folder, draft.rows_so_far(), draft.schema.names, table=draft.table)
    if predicate is None:
        return found.addresses, found.columns
    chosen = sql.matches(predicate, draft.schema, found.columns, found.rows, table=draft.table, part=part)
    return [found.addresses[i] for i in chosen], {n: [found.columns[n][i] for i in chosen] for n in names}


def _find(draft: Draft, on: Sequence[str], keys: pa.Table) -> tuple[list[Address], list[int]]:
    return where_key(draft.folder, draft.rows_so_far(), on, keys, table=draft.table)


def _check_new_rows(draft: Draft, lacking: list[pa.Field], fresh: int) -> None:
    required = [f.name for f in lacking if not f.nullable]
    if fresh and required:
        raise SchemaMismatch(
            f"{fresh} rows for table {draft.table!r} are new and lack required column {required[0]!r}.",
            next="Supply the column for new rows.",
            table=draft.table,
            missing=required,
        )
