"""Run one statement on the draft as it is now: which rows it removes, and which it adds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.conversion.fit import fit
from quire.conversion.source import Source, whole
from quire.errors import KeyConflict, SchemaMismatch
from quire.filters import Computing, assignment
from quire.formats import keys as keylib
from quire.formats.delta.files.told import decoded
from quire.formats.delta.find_rows import KeyMatches, RowsByFile, chosen_by, count, kept, rows_of, unnumbered, where_key
from quire.formats.delta.staging.draft import Draft
from quire.formats.delta.staging.statements import Append, Keyed, Patch, Sought, StagedStatement, Update
from quire.formats.patch import patched

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


def _apply(draft: Draft, statement: StagedStatement) -> int:
    if isinstance(statement, Append):
        draft.net.add(statement.files)
        return 0
    if isinstance(statement, Keyed):
        return _keyed(draft, statement)
    if isinstance(statement, Sought):
        return _sought(draft, statement)
    if isinstance(statement, Patch):
        return _patch(draft, statement)
    if isinstance(statement, Update):
        return _update(draft, statement)
    found = _where(draft, statement.where, "condition")
    draft.net.remove(found, hard=True)
    return count(found)


def _keyed(draft: Draft, statement: Keyed) -> int:
    found = _find(draft, statement.on, statement.keys)
    if statement.mode == "insert" and len(found):
        raise keylib.conflict(statement.keys.take(found.positions).to_pylist(), draft.table)
    draft.net.remove(found.rows, hard=False)
    draft.net.add(statement.files)
    statement.matched = len(np.unique(found.positions))
    return statement.matched


def _sought(draft: Draft, statement: Sought) -> int:
    place, state = draft.place()
    if statement.build is None:
        found = statement.seek(place, None)
    else:
        built = statement.build(place)
        statement.files, found = decoded(built.fragments), built.found
        draft.files.extend(file.path for file in statement.files)
    if statement.mode == "insert" and found.matched:
        raise keylib.conflict(list(found.examples), draft.table)
    draft.net.remove(unnumbered(state, found), hard=statement.mode == "delete")
    draft.net.add(statement.files, statement.without)
    statement.matched = found.matched
    return found.matched


def _patch(draft: Draft, statement: Patch) -> int:
    """Given values from the input, the others from the row that is there, or null."""
    found = _find(draft, statement.on, statement.keys)
    if len(np.unique(found.positions)) != len(found):
        raise KeyConflict(
            f"Table {draft.table!r} has several rows for one key, so some columns alone cannot be upserted.",
            next="Supply whole rows, or remove the duplicates first.",
            table=draft.table,
        )
    given = statement.source
    lacking = [f for f in draft.schema if f.name not in given.schema.names]
    _check_new_rows(draft, lacking, given.num_rows - len(found))
    needed = [*(f.name for f in lacking), *statement.keep]
    old = rows_at(draft, found, needed) if len(found) and needed else None
    table = patched(draft.schema, given, statement.keep, old, found.positions)
    files = draft.write(whole(table))
    draft.net.remove(found.rows, hard=False)
    draft.net.add(files)
    statement.matched = len(found)
    return len(found)


def rows_at(draft: Draft, found: KeyMatches, names: Sequence[str]) -> pa.Table:
    """Columns of rows that were found, in their order."""
    import pyarrow as pa

    state = draft.rows_so_far()
    wanted = found.rows
    files = [state.by_path[path] for path, _ in found.files]
    parts = []
    for file, offsets, batch in draft.folder.rows(state, names, list({f.path: f for f in files}.values())):
        inside = np.flatnonzero(np.isin(offsets, np.asarray(wanted[file.path])))
        if len(inside):
            parts.append(batch.take(pa.array(inside)))
    schema = pa.schema([state.schema.field(name) for name in names])
    return pa.Table.from_batches(parts, schema=schema)


def _update(draft: Draft, statement: Update) -> int:
    schema, names = draft.schema, draft.schema.names
    state = draft.rows_so_far()
    chosen = chosen_by(statement.where, schema, table=draft.table, part="where")
    said = {n: assignment(text, schema.field(n), schema, table=draft.table) for n, text in statement.exprs.items()}
    files: list[Any] = []
    batches = []
    with Computing() as computing:
        for file, offsets, batch in kept(draft.folder, state, chosen, names):
            files.append((file.path, offsets))
            batches.append(_changed(batch, statement, said, computing))
    found = rows_of(files)
    rows = fit(Source(schema, batches, whole=True), schema, table=draft.table).table()
    if statement.on:
        statement.keys = rows.select(list(statement.on))
        keylib.check_distinct(statement.keys, statement.on, draft.table)
        _check_free(draft, statement.on, statement.keys, found)
    written = draft.write(whole(rows))
    draft.net.remove(found, hard=True)
    draft.net.add(written)
    return count(found)


def _changed(batch: pa.RecordBatch, statement: Update, said: Any, computing: Computing) -> pa.RecordBatch:
    import pyarrow as pa

    columns = []
    for field in batch.schema:
        if field.name in statement.values:
            columns.append(pa.repeat(statement.values[field.name], batch.num_rows))
        elif field.name in said:
            columns.append(computing.set(said[field.name], given(said[field.name].expression, batch)))
        else:
            columns.append(batch.column(field.name))
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def given(about: Any, batch: pa.RecordBatch) -> pa.Table:
    """The columns that an expression reads; for one that reads none, as many rows."""
    import pyarrow as pa

    if not about.columns:
        return pa.table({"": pa.nulls(batch.num_rows)})
    return pa.Table.from_batches([batch.select(list(about.columns))])


def _check_free(draft: Draft, on: Sequence[str], keys: pa.Table, mine: RowsByFile) -> None:
    """Refuse to move rows to keys that others have."""
    met = _find(draft, on, keys)
    at = 0
    for path, offsets in met.files:
        positions = met.positions[at : at + len(offsets)]
        at += len(offsets)
        others = ~np.isin(offsets, np.asarray(mine[path])) if path in mine else np.ones(len(offsets), bool)
        if others.any():
            raise keylib.conflict(keys.take(positions[others]).to_pylist(), draft.table)


def _where(draft: Draft, predicate: Any, part: str) -> RowsByFile:
    """RowsByFile that satisfy a predicate."""
    chosen = chosen_by(predicate, draft.schema, table=draft.table, part=part)
    found = kept(draft.folder, draft.rows_so_far(), chosen, [])
    return rows_of((file.path, offsets) for file, offsets, _ in found)


def _find(draft: Draft, on: Sequence[str], keys: pa.Table) -> KeyMatches:
    return where_key(draft.folder, draft.rows_so_far(), on, keys)


def _check_new_rows(draft: Draft, lacking: list[pa.Field], fresh: int) -> None:
    required = [f.name for f in lacking if not f.nullable]
    if fresh and required:
        raise SchemaMismatch(
            f"{fresh} rows for table {draft.table!r} are new and lack required column {required[0]!r}.",
            next="Supply the column for new rows.",
            table=draft.table,
            missing=required,
        )
