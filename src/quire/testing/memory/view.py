"""One table at one state, for reading."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from quire.errors import ColumnNotFound, InvalidExpression, InvalidInput, Unsupported
from quire.formats import Cell, Search
from quire.formats.cells import in_memory, no_row
from quire.testing.memory import sql
from quire.testing.memory.files import Fragment, Place, Version
from quire.testing.memory.net import Located, locate, where_key

if TYPE_CHECKING:
    import pyarrow as pa


class MemoryView:
    """Reads the data files it needs when it needs them, and never anything newer."""

    def __init__(self, place: Place, state: Version, table: str) -> None:
        self._place = place
        self.state = state
        self.table = table

    @property
    def schema(self) -> pa.Schema:
        return self.state.schema

    def count(self, filter: Any = None) -> int:
        self._check_filter(filter)
        return self.state.rows if filter is None else self._filtered(filter, []).num_rows

    def scan(
        self,
        *,
        columns: Sequence[str] | None = None,
        filter: Any = None,
        limit: int | None = None,
        offset: int | None = None,
        search: Search | None = None,
        batch_size: int | None = None,
    ) -> pa.RecordBatchReader:
        self._check(columns, limit, offset, batch_size)
        self._check_filter(filter)
        if search is not None:
            raise Unsupported(
                "Memory tables have no vector or text search.", next="Use a Lance table.", table=self.table
            )
        found = self._filtered(filter, self.schema.names if columns is None else list(columns))
        if limit is not None or offset is not None:
            found = found.slice(offset or 0, limit)
        return found.to_reader(max_chunksize=batch_size)

    def _filtered(self, filter: Any, names: list[str]) -> pa.Table:
        """These columns of the rows that pass the filter."""
        import pyarrow as pa

        if filter is None:
            return self._table(names)
        needed = names if isinstance(filter, str) and filter.strip() in ("", "true") else self.schema.names
        if isinstance(filter, str):
            rows = self._located(needed)
            kept = sql.matches(filter, self.schema, rows.columns, rows.rows)
            columns = [pa.array([rows.columns[n][i] for i in kept], self.schema.field(n).type) for n in names]
            return _table(columns, self._schema(names), len(kept))
        try:
            return self._table(self.schema.names).filter(filter).select(names)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InvalidExpression(
                f"{filter} cannot be computed on table {self.table!r}: {str(error).splitlines()[0]}.",
                next="Check the filter against the columns.",
                expression=str(filter),
            ) from None

    def _table(self, names: Sequence[str], fragments: Sequence[Fragment] | None = None) -> pa.Table:
        import pyarrow as pa

        found = self._located(names, fragments)
        columns = [pa.array(found.columns[n], self.schema.field(n).type) for n in names]
        return _table(columns, self._schema(names), found.rows)

    def _located(self, names: Sequence[str], fragments: Sequence[Fragment] | None = None) -> Located:
        return locate(self._place, self.state, names, fragments, self.table)

    def _schema(self, names: Sequence[str]) -> pa.Schema:
        import pyarrow as pa

        return pa.schema([self.schema.field(n) for n in names])

    def of(self, fragments: Sequence[Fragment]) -> pa.Table:
        """The living rows of some fragments, all columns."""
        return self._table(self.schema.names, fragments)

    def _check_filter(self, filter: Any) -> None:
        import pyarrow.compute as pc

        if filter is not None and not isinstance(filter, str | pc.Expression):
            raise InvalidInput(
                f"A filter is SQL text or a pyarrow expression, not a {type(filter).__name__}.",
                next='For example filter="year > 2020".',
            )

    def _check(
        self, columns: Sequence[str] | None, limit: int | None, offset: int | None, batch_size: int | None
    ) -> None:
        if isinstance(columns, str):
            raise InvalidInput("columns takes a list of names.", next=f"Write columns=[{columns!r}].")
        twice = [n for i, n in enumerate(columns or ()) if n in (columns or ())[:i]]
        if twice:
            raise InvalidInput(f"columns names {twice[0]!r} twice.", next="Name each once.", column=twice[0])
        require(self.state, columns or (), self.table)
        for what, value, least in (("limit", limit, 0), ("offset", offset, 0), ("batch_size", batch_size, 1)):
            if value is not None and (not isinstance(value, int) or value < least):
                raise InvalidInput(
                    f"{what} must be a whole number of at least {least}, not {value!r}.", next="Correct it."
                )

    def dataset(self) -> Any:
        return self._table(self.schema.names)

    def indexes(self) -> list[dict[str, Any]]:
        names = {f.id: f.name for f in self.state.fields}
        found = []
        for index in self.state.indexes:
            covered = sum(f.alive for f in self.state.fragments if f.key in index.covers)
            found.append(
                {
                    "name": index.name,
                    "kind": index.kind,
                    "columns": [names[index.field]],
                    "rows_indexed": covered,
                    "rows_unindexed": self.state.rows - covered,
                }
            )
        return found

    def config(self) -> dict[str, str]:
        return dict(self.state.config)

    def cell(self, column: str, on: Sequence[str], key: pa.Table) -> Cell | None:
        require(self.state, [column], self.table)
        [wanted] = key.select(list(on)).to_pylist()
        for row in self._table([*dict.fromkeys([*on, column])]).to_pylist():
            if all(row[name] == wanted[name] for name in on):
                return in_memory(row[column], column, self.table)
        raise no_row(key, self.table)

    def has(self, columns: Sequence[str], values: pa.Table) -> pa.Table:
        import pyarrow as pa

        _, positions = where_key(self._place, self.state, columns, values, table=self.table)
        return values.take(pa.array(sorted(set(positions)), pa.int64()))


def require(state: Version, names: Sequence[str], table: str) -> None:
    for name in names:
        if state.field(name) is None:
            raise ColumnNotFound(
                f"Table {table!r} has no column {name!r}.",
                next=f"Its columns are {', '.join(f.name for f in state.fields)}.",
                table=table,
                column=name,
            )


def _table(columns: list[Any], schema: pa.Schema, rows: int) -> pa.Table:
    """A table that keeps its number of rows even without a column."""
    import pyarrow as pa

    if columns:
        return pa.table(columns, schema=schema)
    return pa.table({"": pa.nulls(rows)}).select([])
