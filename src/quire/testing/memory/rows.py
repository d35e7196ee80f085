"""Statements about rows, as users give them: their input is checked, written and run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from quire.conversion.fit import Missing, fit
from quire.conversion.inputs import scalar, source
from quire.conversion.source import Source, finite
from quire.errors import InvalidInput, SchemaMismatch
from quire.filters import Where
from quire.formats import keys as keylib
from quire.testing.memory import columns
from quire.testing.memory.draft import Draft
from quire.testing.memory.run import run
from quire.testing.memory.statements import Append, Delete, Keyed, Patch, StagedStatement, Update, upserted
from quire.testing.memory.view import require

if TYPE_CHECKING:
    import pyarrow as pa


class MemoryRows:
    """Rows of one draft."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    def fitted(self, data: Any, *, missing: Missing) -> Source:
        return self._fit(data, missing=missing)

    def append(self, data: Any, *, missing: Missing) -> int:
        self._draft.check_no_upkeep()
        rows = self._fit(data, missing=missing).table()
        run(self._draft, Append(self._draft.write(rows)))
        return int(rows.num_rows)

    def insert(self, data: Any, on: Sequence[str], *, missing: Missing) -> int:
        rows = self._fit(data, missing=missing).table()
        run(self._draft, self._keyed("insert", rows, on))
        return int(rows.num_rows)

    def upsert(self, data: Any, on: Sequence[str], *, keep: Mapping[str, Any] | None = None) -> tuple[int, int]:
        schema, name = self._draft.schema, self._draft.table
        keylib.check_columns(on, schema, name)
        rows = self._fit(data, only=True).table()
        absent = [n for n in on if rows.schema.get_field_index(n) < 0]
        if absent:
            raise SchemaMismatch(
                f"The data for table {name!r} lacks key column {absent[0]!r}.",
                next="An upsert needs every key column.",
                table=name,
                missing=absent,
            )
        statement: StagedStatement
        if len(rows.schema.names) == len(schema.names) and not keep:
            statement = self._keyed("upsert", rows, on)
        else:
            keylib.check_distinct(rows.select(list(on)), on, name)
            statement = Patch(rows, tuple(on), keylib.masks(keep or {}, rows, on, name))
        matched = run(self._draft, statement)
        return rows.num_rows - matched, matched

    def upserted(self) -> tuple[int, int]:
        return upserted(self._draft.statements)

    def update(self, exprs: dict[str, str], values: dict[str, Any], where: Where | None, key: Sequence[str]) -> int:
        draft = self._draft
        if not exprs and not values:
            raise InvalidInput("An update needs at least one column to set.", next='update({"v": "v + 1"}, where="…").')
        require(draft.base, [*exprs, *values], draft.table)
        touched = tuple(key) if any(n in key for n in (*exprs, *values)) else ()
        typed = {n: scalar(v, draft.schema.field(n), draft.table) for n, v in values.items()}
        return run(draft, Update(dict(exprs), typed, where, touched))

    def delete(self, where: Where) -> int:
        return run(self._draft, Delete(where))

    def overwrite(self, data: Any, key: Sequence[str], *, schema: Literal["keep", "replace"]) -> int:
        draft = self._draft
        draft.check_no_upkeep()
        rows = source(data, draft.schema, table=draft.table)
        if schema == "keep":
            rows = fit(rows, draft.schema, table=draft.table)
        fields = columns.fields_of(rows.schema, draft.table, first=draft.base.next_field)
        keylib.check_columns(key, rows.schema, draft.table)
        table = finite(rows, draft.table).table()
        if key:
            keylib.check_distinct(table.select(list(key)), key, draft.table)
        fragment = draft.write(table, numbers=[f.id for f in fields])
        return draft.replace(fields, () if fragment is None else (fragment,))

    # -- input ------------------------------------------------------------------------------------------------

    def _fit(self, data: Any, *, missing: Missing = "error", only: bool = False) -> Source:
        schema, table = self._draft.schema, self._draft.table
        rows = source(data, schema, table=table)
        return fit(rows, schema, table=table, missing=missing, only=only).taken()

    def _keyed(self, mode: Literal["insert", "upsert"], rows: pa.Table, on: Sequence[str]) -> Keyed:
        keylib.check_columns(on, self._draft.schema, self._draft.table)
        keys = rows.select(list(on))
        keylib.check_distinct(keys, on, self._draft.table)
        return Keyed(mode, self._draft.write(rows), tuple(on), keys)
