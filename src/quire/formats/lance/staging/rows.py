"""Statements about rows, as users give them: their input is checked, written and run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from quire.conversion.fit import Missing, fit
from quire.conversion.inputs import scalar, source
from quire.conversion.source import Source, copied_table, finite, fitting
from quire.errors import InvalidInput, SchemaMismatch
from quire.filters import Where
from quire.formats import keys as keylib
from quire.formats.lance import blobs
from quire.formats.lance.lookups.written import look_up_by
from quire.formats.lance.staging import schema_change
from quire.formats.lance.staging.draft import KEPT_BYTES, Draft, is_copied
from quire.formats.lance.staging.run import run
from quire.formats.lance.staging.statements import (
    Delete,
    Keyed,
    Patch,
    Staging,
    Tap,
    Update,
    done,
    upserted,
)


class LanceRows:
    """Rows of one draft."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    def fitted(self, data: Any, *, missing: Missing) -> Source:
        return self._fit(data, missing=missing)

    def append(self, data: Any, *, missing: Missing) -> int:
        self._draft.check_no_upkeep()
        return self._draft.append(self._fit(data, missing=missing))

    def insert(self, data: Any, on: Sequence[str], *, missing: Missing) -> int:
        statement = self._keyed("insert", self._fit(data, missing=missing), on)
        run(self._draft, statement)
        return statement.staging.rows

    def upsert(self, data: Any, on: Sequence[str], *, keep: Mapping[str, Any] | None = None) -> tuple[int, int]:
        draft, schema, name = self._draft, self._draft.schema, self._draft.table
        keylib.check_columns(on, schema, name)
        rows = self._fit(data, only=True)
        absent = [n for n in on if rows.schema.get_field_index(n) < 0]
        if absent:
            raise SchemaMismatch(
                f"The data for table {name!r} lacks key column {absent[0]!r}.",
                next="An upsert needs every key column.",
                table=name,
                missing=absent,
            )
        whole = len(rows.schema.names) == len(schema.names)
        if whole and not keep:
            keyed = self._keyed("upsert", rows, on)
            matched = run(draft, keyed)
            return keyed.staging.rows - matched, matched
        table = rows.taken().table()
        keylib.check_distinct(table.select(list(on)), on, name)
        look_up_by(draft.base, on)
        patch = Patch(table, tuple(on), keylib.masks(keep or {}, table, on, name))
        if whole and table.nbytes <= KEPT_BYTES:
            patch.fresh = draft.write(Source(table.schema, table.to_batches(), whole=True, own=True))
        matched = run(draft, patch)
        return table.num_rows - matched, matched

    def upserted(self) -> tuple[int, int]:
        self._draft.absorb()
        return upserted(self._draft.statements)

    def update(self, exprs: dict[str, str], values: dict[str, Any], where: Where | None, key: Sequence[str]) -> int:
        draft = self._draft
        if not exprs and not values:
            raise InvalidInput("An update needs at least one column to set.", next='update({"v": "v + 1"}, where="…").')
        schema_change.require(draft.base, [*exprs, *values], draft.table)
        touched = tuple(key) if any(n in key for n in (*exprs, *values)) else ()
        fields = blobs.given(draft.schema)
        typed = {n: scalar(v, fields.field(n), draft.table) for n, v in values.items()}
        return run(draft, Update(dict(exprs), typed, where, touched))

    def delete(self, where: Where) -> int:
        return run(self._draft, Delete(where))

    def overwrite(self, data: Any, key: Sequence[str], *, schema: Literal["keep", "replace"]) -> int:
        draft = self._draft
        draft.check_no_upkeep()
        rows = source(data, blobs.given(draft.schema), table=draft.table)
        if schema == "keep":
            rows = fit(blobs.stored(rows, draft.schema), draft.schema, table=draft.table)
        schema_change.check_schema(rows.schema, draft.table)
        keylib.check_columns(key, rows.schema, draft.table)
        rows = finite(rows, draft.table)
        tap = Tap(tuple(key))
        flow = tap.through(rows)
        draft.absorb()
        operation = flow.feed(lambda reader: draft.stager.write_anew(reader, draft.base, flow.schema))
        if key:
            keylib.check_distinct(tap.table(rows.schema), key, draft.table)
        draft.replace(draft.stager.detach(draft.base, operation), operation.fragments, tap.rows)
        return tap.rows

    # -- input ------------------------------------------------------------------------------------------------

    def _fit(self, data: Any, *, missing: Missing = "error", only: bool = False) -> Source:
        schema, table = self._draft.schema, self._draft.table
        ready = fitting(data, schema, table)
        if ready is not None:
            return ready
        rows = blobs.stored(source(data, blobs.given(schema), table=table), schema)
        return fit(rows, schema, table=table, missing=missing, only=only)

    def _keyed(self, mode: Literal["insert", "upsert"], rows: Source, on: Sequence[str]) -> Keyed:
        draft = self._draft
        keylib.check_columns(on, draft.schema, draft.table)
        on = tuple(on)
        look_up_by(draft.base, on)
        if rows.whole:
            rows = rows.taken() if is_copied(rows) else rows
            keys = rows.table().select(list(on))
            keys = keys if rows.own else copied_table(keys)
            keylib.check_distinct(keys, on, draft.table)
            return Keyed(mode, draft.write(rows), on, keys)
        tap = Tap(on)
        fragments = draft.write_stream(tap.through(rows))
        keys = tap.table(rows.schema)
        keylib.check_distinct(keys, on, draft.table)
        return Keyed(mode, Staging(tap.rows, done(fragments)), on, keys)
