"""One Lance table at one pin, for reading."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.errors import ColumnNotFound, InvalidInput
from quire.filters import Condition
from quire.formats import Cell, Parts, Place, Search, TextIndex, View
from quire.formats.blob_cell import in_memory, no_row
from quire.formats.lance import blobs, filter_sql, filtered_scan
from quire.formats.lance.indexes.build import describe
from quire.formats.lance.inspect.fragment_diff import apart, parts_of
from quire.formats.lance.inspect.text_index import text_index
from quire.formats.lance.lookups import candidates
from quire.formats.lance.metering import scanned, streamed
from quire.formats.lance.session import LanceSession, described
from quire.formats.lance.staging import find_rows
from quire.formats.lance.task_handles import Whole
from quire.formats.query_vectors import query_vector

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset


METRICS = ("l2", "cosine", "dot", "hamming")


class LanceView:
    """A thin face over a pinned handle; it never asks storage for anything newer."""

    def __init__(self, session: LanceSession, handle: LanceDataset, table: str) -> None:
        self._session = session
        self.handle = handle
        self.table = table

    @property
    def schema(self) -> pa.Schema:
        return self.handle.schema

    def count(self, filter: Any = None) -> int:
        if filter is None:
            return int(self.handle.count_rows())
        found = self._split(filter)
        if not found.exact:
            return filtered_scan.count(self.handle, found, self.table)
        some = candidates.for_condition(self.handle, found.condition)
        with scanned("scan", self.handle, some), filtered_scan.reading(found, self.table):
            only: dict[str, Any] = {} if some is None else {"fragments": some}
            return int(self.handle.scanner(columns=[], filter=found.lance, with_row_id=True, **only).count_rows())

    def _split(self, filter: Any) -> filtered_scan.Split:
        return filtered_scan.split(filter, self.schema, table=self.table)

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
        found = self._split(filter)
        options: dict[str, Any] = {} if batch_size is None else {"batch_size": batch_size}
        if search is not None:
            return self._found(search, found, columns, limit, options)
        return filtered_scan.scan(self.handle, found, columns, limit=limit, offset=offset, table=self.table, **options)

    def _found(
        self,
        search: Search,
        filter: filtered_scan.Split,
        columns: Sequence[str] | None,
        limit: int | None,
        options: dict[str, Any],
    ) -> pa.RecordBatchReader:
        """The rows that a search finds among those that satisfy a filter."""
        import pyarrow as pa

        def asked(wanted: int | None, read: Sequence[str] | None) -> pa.RecordBatchReader:
            given = {"columns": read, "filter": filter.lance, **options, **self._search(search, wanted, read)}
            if search.vector is None and wanted is not None:
                given["limit"] = wanted
            with filtered_scan.reading(filter, self.table):
                return filtered_scan.checked(streamed(self.handle, given), filter, self.table)

        if filter.exact:
            return asked(limit, None if columns is None else list(columns))
        wide = None if columns is None else list(dict.fromkeys([*columns, *filter.columns]))
        wanted = limit or 10
        schema, batches = filtered_scan.grown(
            lambda n: asked(n, wide), filter, wanted, max(self.handle.count_rows(), 1)
        )
        extra = () if columns is None else [n for n in filter.columns if n not in columns]
        shown = [n for n in schema.names if n not in extra]
        return pa.RecordBatchReader.from_batches(
            pa.schema([schema.field(n) for n in shown]), (batch.select(shown) for batch in batches)
        )

    def _search(self, search: Search, limit: int | None, columns: Sequence[str] | None) -> dict[str, Any]:
        options: dict[str, Any] = {"prefilter": True}
        if search.vector is not None:
            column, query = search.vector
            if search.metric is not None and search.metric.lower() not in METRICS:
                raise InvalidInput(f"There is no metric {search.metric!r}.", next=f"Use one of {', '.join(METRICS)}.")
            vector = query_vector(self.schema, column, query, self.table)
            nearest: dict[str, Any] = {"column": column, "q": vector, "k": limit or 10}
            for name, value in (
                ("metric", search.metric),
                ("nprobes", search.nprobes),
                ("refine_factor", search.refine),
            ):
                if value is not None:
                    nearest[name] = value
            if search.exact:
                nearest["use_index"] = False
            options["nearest"] = nearest
            options["limit"] = None
            options["columns"] = _with(columns, "_distance")
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
            options["columns"] = _with(columns, "_score")
        return options

    def addressed(self, columns: Sequence[str], filter: Any = None) -> pa.RecordBatchReader:
        self._check(columns, None, None, None)
        return filtered_scan.scan(self.handle, self._split(filter), columns, table=self.table, with_row_id=True)

    def take(self, ids: Any, columns: Sequence[str]) -> pa.Table:
        self._check(columns, None, None, None)
        return find_rows.rows_at(self.handle, ids, columns)

    def _text_columns(self) -> list[str]:
        return [c for ix in self.indexes() if ix["kind"].upper() == "INVERTED" for c in ix["columns"]]

    def _check(
        self, columns: Sequence[str] | None, limit: int | None, offset: int | None, batch_size: int | None
    ) -> None:
        if isinstance(columns, str):
            raise InvalidInput("columns takes a list of names.", next=f"Write columns=[{columns!r}].")
        twice = [n for i, n in enumerate(columns or ()) if n in (columns or ())[:i]]
        if twice:
            raise InvalidInput(f"columns names {twice[0]!r} twice.", next="Name each once.", column=twice[0])
        for name in columns or ():
            top = name.split(".")[0]
            if self.schema.get_field_index(top) < 0 and not name.startswith("_"):
                raise ColumnNotFound(
                    f"Table {self.table!r} has no column {name!r}.",
                    next=f"Its columns are {', '.join(self.schema.names)}.",
                    table=self.table,
                    column=name,
                )
        for what, value, least in (("limit", limit, 0), ("offset", offset, 0), ("batch_size", batch_size, 1)):
            if value is not None and (not isinstance(value, int) or value < least):
                raise InvalidInput(
                    f"{what} must be a whole number of at least {least}, not {value!r}.", next="Correct it."
                )

    def dataset(self) -> Any:
        from quire.formats.lance.duckdb_scan import PushDown

        return PushDown(self.handle)

    def place(self) -> Place:
        return self._session.place(self.handle)

    def parts(self) -> Parts:
        return parts_of(self.handle)

    def parts_since(self, before: View) -> tuple[Parts, Parts]:
        assert isinstance(before, LanceView)
        return apart(before.handle, self.handle)

    def whole(self, fragments: Sequence[int], *, here: bool) -> Whole:
        return Whole(None if here else self.place(), tuple(fragments), self.handle if here else None)

    def indexes(self) -> list[dict[str, Any]]:
        return describe(self.handle)

    def used_indexes(self, columns: Sequence[str], filter: Condition) -> list[str]:
        sql, _ = filter_sql.pushed(filter, self.schema)
        text = self.handle.scanner(columns=list(columns), filter=sql).explain_plan()
        return sorted(set(re.findall(r"@(\w+)\(", text)))

    def index_details(self, column: str, kind: str) -> list[dict[str, Any]]:
        found = [d for d in described(self.handle) if list(d.field_names) == [column]]
        return [dict(d.details or {}) for d in found if str(d.index_type).upper().startswith(kind)]

    def text_index(self, column: str) -> TextIndex | None:
        return text_index(self.handle, column)

    def config(self) -> dict[str, str]:
        return dict(self.handle.config())

    def cell(self, column: str, on: Sequence[str], key: pa.Table) -> Cell | None:
        self._check([column], None, None, None)
        addresses, rowids, _ = find_rows.where_key(self.handle, on, key)
        if not len(addresses):
            raise no_row(key, self.table)
        if column in blobs.blob_columns(self.schema):
            return blobs.cell(self.handle, int(addresses[0]), column)
        return in_memory(find_rows.rows_at(self.handle, rowids[:1], [column]).column(0)[0].as_py(), column, self.table)

    def has(self, columns: Sequence[str], values: pa.Table) -> pa.Table:
        _, _, positions = find_rows.where_key(self.handle, columns, values)
        distinct = np.unique(positions.to_numpy()) if len(positions) else np.empty(0, np.int64)
        return values.take(distinct)


def _with(columns: Sequence[str] | None, name: str) -> list[str] | None:
    return None if columns is None else list(dict.fromkeys([*columns, name]))
