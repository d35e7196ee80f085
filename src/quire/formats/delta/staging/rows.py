"""Statements about rows, as users give them: their input is checked, written and run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from quire.conversion.fit import Missing, fit
from quire.conversion.inputs import scalar, source
from quire.conversion.source import Source, finite
from quire.errors import InvalidInput, SchemaMismatch
from quire.filters import Where
from quire.formats import keys as keylib
from quire.formats.delta.files.parquet import check_partition
from quire.formats.delta.files.schema import require, schema_text
from quire.formats.delta.staging.draft import Draft
from quire.formats.delta.staging.run import run
from quire.formats.delta.staging.schema_change import with_features
from quire.formats.delta.staging.statements import Append, Delete, Keyed, Patch, StagedStatement, Update, upserted

if TYPE_CHECKING:
    import pyarrow as pa


class DeltaRows:
    """Rows of one draft."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    def fitted(self, data: Any, *, missing: Missing) -> Source:
        return self._fit(data, missing=missing)

    def append(self, data: Any, *, missing: Missing) -> int:
        self._draft.check_no_upkeep()
        files = self._draft.write(self._fit(data, missing=missing))
        run(self._draft, Append(files))
        return sum(file.rows for file in files)

    def insert(self, data: Any, on: Sequence[str], *, missing: Missing) -> int:
        statement = self._keyed("insert", self._fit(data, missing=missing), on)
        run(self._draft, statement)
        return statement.rows

    def upsert(self, data: Any, on: Sequence[str], *, keep: Mapping[str, Any] | None = None) -> tuple[int, int]:
        schema, name = self._draft.schema, self._draft.table
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
        statement: StagedStatement
        if len(rows.schema.names) == len(schema.names) and not keep:
            statement = self._keyed("upsert", rows, on)
        else:
            table = rows.table()
            keylib.check_distinct(table.select(list(on)), on, name)
            statement = Patch(table, tuple(on), keylib.masks(keep or {}, table, on, name))
        matched = run(self._draft, statement)
        return statement.rows - matched, matched

    def upserted(self) -> tuple[int, int]:
        return upserted(self._draft.statements)

    def update(self, exprs: dict[str, str], values: dict[str, Any], where: Where | None, key: Sequence[str]) -> int:
        draft = self._draft
        if not exprs and not values:
            raise InvalidInput("An update needs at least one column to set.", next='update({"v": "v + 1"}, where="…").')
        require(draft.schema, [*exprs, *values], draft.table)
        touched = tuple(key) if any(n in key for n in (*exprs, *values)) else ()
        typed = {n: scalar(v, draft.schema.field(n), draft.table) for n, v in values.items()}
        return run(draft, Update(dict(exprs), typed, where, touched))

    def delete(self, where: Where) -> int:
        return run(self._draft, Delete(where))

    def overwrite(self, data: Any, key: Sequence[str], *, schema: Literal["keep", "replace"]) -> int:
        draft = self._draft
        draft.check_no_upkeep()
        rows = source(data, draft.schema, table=draft.table)
        metadata, protocol = draft.base.metadata, draft.base.protocol
        if schema == "keep":
            rows = fit(rows, draft.schema, table=draft.table)
        else:
            check_partition(metadata.partition_columns, rows.schema, draft.table)
            metadata = msgspec.structs.replace(metadata, schema_string=schema_text(rows.schema, draft.table))
            protocol = with_features(protocol, metadata)
        keylib.check_columns(key, rows.schema, draft.table)
        rows = finite(rows, draft.table)
        if key:
            table = rows.table()
            keylib.check_distinct(table.select(list(key)), key, draft.table)
            rows = Source(table.schema, table.to_batches(), whole=True)
        state = draft.base.change(metadata=metadata, protocol=protocol)
        files = draft.write(rows, state)
        if protocol != draft.base.protocol:
            draft.base = draft.base.change(protocol=protocol)
        return draft.replace(metadata, files)

    # -- input ------------------------------------------------------------------------------------------------

    def _fit(self, data: Any, *, missing: Missing = "error", only: bool = False) -> Source:
        schema, table = self._draft.schema, self._draft.table
        rows = source(data, schema, table=table)
        return fit(rows, schema, table=table, missing=missing, only=only).taken()

    def _keyed(self, mode: Literal["insert", "upsert"], rows: Source, on: Sequence[str]) -> Keyed:
        import pyarrow as pa

        draft = self._draft
        keylib.check_columns(on, draft.schema, draft.table)
        if rows.whole:
            keys = rows.table().select(list(on))
            keylib.check_distinct(keys, on, draft.table)
            return Keyed(mode, draft.write(rows), tuple(on), keys)
        seen: list[pa.RecordBatch] = []

        def noted() -> Iterator[pa.RecordBatch]:
            for batch in rows.batches:
                seen.append(batch.select(list(on)))
                yield batch

        files = draft.write(Source(rows.schema, noted(), whole=False))
        keys = pa.Table.from_batches(seen, schema=pa.schema([rows.schema.field(name) for name in on]))
        keylib.check_distinct(keys, on, draft.table)
        return Keyed(mode, files, tuple(on), keys)
