"""One Lance table at one pin, for reading."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.errors import ColumnNotFound, InvalidExpression, InvalidInput
from quire.formats.lance import match
from quire.formats.lance.indexes import describe
from quire.formats.lance.session import LanceSession, metered
from quire.formats.protocol import Search

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset


class LanceView:
    """A thin face over a pinned handle; it never asks storage for anything newer."""

    def __init__(self, session: LanceSession, handle: LanceDataset, table: str) -> None:
        self._session = session
        self.handle = handle
        self.table = table

    @property
    def schema(self) -> pa.Schema:
        return self.handle.schema

    def count(self, filter: str | None = None) -> int:
        with metered("scan", hops=1), match.checking_expression(filter or ""):
            return int(self.handle.count_rows(filter))

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
        self._check(columns, limit, offset)
        options: dict[str, Any] = {"columns": list(columns) if columns is not None else None, "filter": filter}
        if limit is not None:
            options["limit"] = limit
        if offset is not None:
            options["offset"] = offset
        if batch_size is not None:
            options["batch_size"] = batch_size
        if search is not None:
            options.update(self._search(search, limit, columns))
        with metered("scan", hops=1), match.checking_expression(str(filter) if filter is not None else ""):
            return self.handle.scanner(**options).to_reader()

    def _search(self, search: Search, limit: int | None, columns: Sequence[str] | None) -> dict[str, Any]:
        options: dict[str, Any] = {"prefilter": True}
        if search.vector is not None:
            column, query = search.vector
            nearest: dict[str, Any] = {"column": column, "q": self._query(column, query), "k": limit or 10}
            for name, value in (
                ("metric", search.metric),
                ("nprobes", search.nprobes),
                ("refine_factor", search.refine),
            ):
                if value is not None:
                    nearest[name] = value
            options["nearest"] = nearest
            options["limit"] = None
            options["columns"] = [*columns, "_distance"] if columns is not None else None
        if search.text is not None:
            indexed = self._text_columns()
            wanted = list(search.text_columns) or indexed
            lacking = [c for c in wanted if c not in indexed]
            if lacking or not wanted:
                where = f"column {lacking[0]!r}" if lacking else "any column"
                raise InvalidInput(
                    f"Table {self.table!r} has no full-text index on {where}.",
                    next='Build one with create_index("column", "INVERTED").',
                    table=self.table,
                )
            options["full_text_query"] = {"query": search.text, "columns": wanted}
            options["columns"] = [*columns, "_score"] if columns is not None else None
        return options

    def _query(self, column: str, query: Any) -> Any:
        kind = self.schema.field(column).type if self.schema.get_field_index(column) >= 0 else None
        width = getattr(kind, "list_size", None)
        if width is None:
            raise ColumnNotFound(
                f"Table {self.table!r} has no vector column {column!r}.",
                next="A vector column is a fixed-size list of floats.",
                table=self.table,
                column=column,
            )
        vector: Any
        try:
            vector = np.asarray(query, dtype=np.float32)
        except (TypeError, ValueError):
            vector = np.empty(0)
        if vector.shape != (width,):
            raise InvalidInput(
                f"The query for column {column!r} must be one vector of {width} numbers, not of shape {vector.shape}.",
                next="Embed the query with the model that made the column.",
                column=column,
            )
        return vector

    def _text_columns(self) -> list[str]:
        return [c for ix in self.indexes() if ix["kind"].upper() == "INVERTED" for c in ix["columns"]]

    def _check(self, columns: Sequence[str] | None, limit: int | None, offset: int | None) -> None:
        if isinstance(columns, str):
            raise InvalidInput("columns takes a list of names.", next=f"Write columns=[{columns!r}].")
        for name in columns or ():
            top = name.split(".")[0]
            if self.schema.get_field_index(top) < 0 and not name.startswith("_"):
                raise ColumnNotFound(
                    f"Table {self.table!r} has no column {name!r}.",
                    next=f"Its columns are {', '.join(self.schema.names)}.",
                    table=self.table,
                    column=name,
                )
        for what, value in (("limit", limit), ("offset", offset)):
            if value is not None and (not isinstance(value, int) or value < 0):
                raise InvalidExpression(f"{what} must be a whole number of at least 0, not {value!r}.", next="Fix it.")

    def dataset(self) -> Any:
        return self.handle

    def indexes(self) -> list[dict[str, Any]]:
        return describe(self.handle)

    def has(self, columns: Sequence[str], values: pa.Table) -> pa.Table:
        _, _, positions = match.where_key(self.handle, columns, values)
        distinct = np.unique(positions.to_numpy()) if len(positions) else np.empty(0, np.int64)
        return values.take(distinct)
