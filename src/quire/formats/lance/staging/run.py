"""Run one statement on the draft as it is now: which rows it removes, and which it adds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.conversion import held
from quire.conversion.fit import fit
from quire.conversion.source import Source
from quire.errors import KeyConflict, SchemaMismatch
from quire.filters import assignment
from quire.formats import Built, MatchedRows
from quire.formats import keys as keylib
from quire.formats.lance import blobs
from quire.formats.lance.metering import Scan
from quire.formats.lance.staging import find_rows
from quire.formats.lance.staging.draft import KEPT_BYTES, Draft
from quire.formats.lance.staging.net_change import written
from quire.formats.lance.staging.statements import (
    Append,
    Delete,
    Keyed,
    Patch,
    Sought,
    StagedStatement,
    Staging,
    Tap,
    Update,
    done,
)
from quire.formats.patch import patched

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset


def run(draft: Draft, statement: StagedStatement, *, again: bool = False) -> int:
    """Apply a statement to the net effect, whole or not at all; the number of existing rows it matched."""
    draft.check_no_upkeep()
    draft.absorb()
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
    draft.touch()
    return matched


def _apply(draft: Draft, statement: StagedStatement) -> int:
    if isinstance(statement, Append):
        draft.net.add(statement.staging.fragments())
        return 0
    if isinstance(statement, Keyed):
        return _keyed(draft, statement)
    if isinstance(statement, Sought):
        return _sought(draft, statement)
    if isinstance(statement, Patch):
        return _patch(draft, statement)
    if isinstance(statement, Update):
        return _update(draft, statement)
    return _delete(draft, statement)


def _keyed(draft: Draft, statement: Keyed) -> int:
    handle, own = draft.current()
    addresses, _, positions = find_rows.where_key(handle, statement.on, statement.keys)
    if statement.mode == "insert" and len(addresses):
        there = held.rows(statement.keys.select(list(statement.on)).take(positions))
        raise keylib.conflict(there, draft.table)
    fragments = statement.staging.fragments()
    draft.net.remove(addresses, own, hard=False)
    draft.net.add(fragments)
    statement.matched = len(np.unique(positions.to_numpy()))
    return statement.matched


def _sought(draft: Draft, statement: Sought) -> int:
    handle, own = draft.current()
    place = draft.session.place(handle)
    if statement.build is None:
        found = statement.seek(place, None)
    else:
        found = _taken(draft, statement, statement.build(place))
    if statement.mode == "insert" and found.matched:
        raise keylib.conflict(list(found.examples), draft.table)
    draft.net.remove(found.addresses, own, hard=statement.mode == "delete")
    draft.net.add(statement.staging.fragments(), statement.without)
    statement.matched = found.matched
    return found.matched


def _taken(draft: Draft, statement: Sought, built: Built) -> MatchedRows:
    """Take over the rows that were made for this base."""
    from lance.fragment import FragmentMetadata

    fragments = [FragmentMetadata.from_json(text) for text in built.fragments]
    draft.stager.files.extend(written(fragments, draft.schema))
    statement.staging = Staging(sum(int(f.physical_rows) for f in fragments), done(fragments))
    return built.found


def _patch(draft: Draft, statement: Patch) -> int:
    """Given values from the input, the others from the row that is there, or null."""
    handle, own = draft.current()
    addresses, rowids, positions = find_rows.where_key(handle, statement.on, statement.keys)
    if len(np.unique(positions.to_numpy())) != len(positions):
        raise KeyConflict(
            f"Table {draft.table!r} has several rows for one key, so some columns alone cannot be upserted.",
            next="Supply whole rows, or remove the duplicates first.",
            table=draft.table,
        )
    given = statement.source
    others = [f for f in draft.schema if f.name not in given.schema.names]
    _check_new_rows(draft, others, given.num_rows - len(addresses))
    if not len(addresses) and statement.fresh is not None:
        statement.staging = statement.fresh
    else:
        wanted = [*(f.name for f in others), *statement.keep]
        old = find_rows.rows_at(handle, rowids, wanted) if len(addresses) else None
        merged = patched(draft.schema, given, statement.keep, old, positions.to_numpy())
        fragments = draft.stager.write(merged.to_reader(), draft.base, draft.schema) if merged.num_rows else []
        small = merged.get_total_buffer_size() <= KEPT_BYTES
        statement.staging = Staging(merged.num_rows, done(fragments), merged if small else None)
    draft.net.remove(addresses, own, hard=False)
    draft.net.add(statement.staging.fragments())
    statement.matched = len(addresses)
    return len(addresses)


def _check_new_rows(draft: Draft, lacking: list[pa.Field], fresh: int) -> None:
    required = [f.name for f in lacking if not f.nullable]
    if fresh and required:
        raise SchemaMismatch(
            f"{fresh} rows for table {draft.table!r} are new and lack required column {required[0]!r}.",
            next="Supply the column for new rows.",
            table=draft.table,
            missing=required,
        )


def _update(draft: Draft, statement: Update) -> int:
    handle, own = draft.current()
    tap = Tap(statement.on)
    addresses: list[Any] = []
    scan = Scan(handle)
    flow = Source(draft.schema, _updated(draft, handle, statement, addresses, scan), whole=False)
    rows = tap.through(fit(flow, draft.schema, table=draft.table))
    fragments = draft.write_stream(rows, scan)
    found = np.concatenate(addresses) if addresses else np.empty(0, np.uint64)
    if statement.on:
        statement.keys = tap.table(draft.schema)
        keylib.check_distinct(statement.keys, statement.on, draft.table)
        taken, _, positions = find_rows.where_key(handle, statement.on, statement.keys)
        clash = ~np.isin(taken, found)
        if clash.any():
            there = held.rows(statement.keys.take(positions.to_numpy()[clash]))
            raise keylib.conflict(there, draft.table)
    draft.net.remove(found, own, hard=True)
    draft.net.add(fragments)
    return len(found)


def _updated(
    draft: Draft, handle: LanceDataset, statement: Update, addresses: list[Any], scan: Scan
) -> Iterator[pa.RecordBatch]:
    """The chosen rows with their new values; where they lay is added to `addresses`."""
    import pyarrow as pa

    schema = draft.schema
    given = blobs.given(schema)
    sets = {n: assignment(e, given.field(n), given, table=draft.table) for n, e in statement.exprs.items()}
    for batch in find_rows.computed(handle, sets, statement.values, statement.where, scan, draft.table):
        addresses.append(batch.column(batch.schema.get_field_index("_rowaddr")).to_numpy().astype(np.uint64))
        arrays, fields = [], []
        for field in schema:
            if field.name in statement.values:
                column = pa.repeat(statement.values[field.name], batch.num_rows)
            else:
                column = batch.column(batch.schema.get_field_index(field.name))
            arrays.append(column)
            fields.append(pa.field(field.name, column.type))
        computed = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
        rows = blobs.stored(Source(computed.schema, [computed], True), schema)
        yield from fit(rows, schema, table=draft.table).batches


def _delete(draft: Draft, statement: Delete) -> int:
    handle, own = draft.current()
    addresses = find_rows.where(handle, statement.where, draft.table)
    draft.net.remove(addresses, own, hard=True)
    return len(addresses)
