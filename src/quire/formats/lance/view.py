"""One Lance table at one pin, for reading."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.errors import ColumnNotFound, InvalidExpression, InvalidInput, QuireError
from quire.formats.cells import in_memory, no_row
from quire.formats.lance import blobs, match
from quire.formats.lance.indexes import check_vector, describe
from quire.formats.lance.metering import scanned, streamed
from quire.formats.lance.session import LanceSession, first_line, is_gone, translate
from quire.formats.lance.tasks import Whole
from quire.formats.protocol import Cell, Place, Search

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
        self._check_filter(filter)
        if filter is None:
            return int(self.handle.count_rows())
        with scanned("scan", self.handle), match.checking_expression(str(filter)):
            return int(self.handle.scanner(columns=[], filter=filter, with_row_id=True).count_rows())

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
        options: dict[str, Any] = {"columns": list(columns) if columns is not None else None, "filter": filter}
        if limit is not None:
            options["limit"] = limit
        if offset is not None:
            options["offset"] = offset
        if batch_size is not None:
            options["batch_size"] = batch_size
        if search is not None:
            options.update(self._search(search, limit, columns))
        with match.checking_expression(str(filter) if filter is not None else ""):
            reader = streamed(self.handle, options)
        return self._checked(reader, "" if filter is None else str(filter))

    def _checked(self, reader: pa.RecordBatchReader, filter: str) -> pa.RecordBatchReader:
        """The same rows; what goes wrong while they are read is told as what it is."""
        import pyarrow as pa

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                yield from reader
            except QuireError:
                raise
            except Exception as error:
                if is_gone(error) or not filter or not isinstance(error, ValueError):
                    raise translate(error, f"table {self.table!r}") from None
                raise InvalidExpression(
                    f"{filter!r} cannot be computed on table {self.table!r}: {first_line(error)}.",
                    next="Check the filter against the data.",
                    expression=filter,
                ) from None

        return pa.RecordBatchReader.from_batches(reader.schema, batches())

    def _search(self, search: Search, limit: int | None, columns: Sequence[str] | None) -> dict[str, Any]:
        options: dict[str, Any] = {"prefilter": True}
        if search.vector is not None:
            column, query = search.vector
            if search.metric is not None and search.metric.lower() not in METRICS:
                raise InvalidInput(f"There is no metric {search.metric!r}.", next=f"Use one of {', '.join(METRICS)}.")
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

    def _query(self, column: str, query: Any) -> Any:
        import pyarrow as pa

        kind = self.schema.field(column).type if self.schema.get_field_index(column) >= 0 else None
        width = getattr(kind, "list_size", None)
        if width is None and hasattr(kind, "value_type"):
            check_vector(self.schema.field(column), self.table)
        if width is None or not pa.types.is_floating(getattr(kind, "value_type", None)):
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
        from quire.formats.lance.pushdown import PushDown

        return PushDown(self.handle)

    def place(self) -> Place:
        return self._session.place(self.handle)

    def parts(self) -> list[tuple[int, int]]:
        return [(int(f.fragment_id), int(f.metadata.num_rows)) for f in self.handle.get_fragments()]

    def whole(self, fragments: Sequence[int], *, here: bool) -> Whole:
        return Whole(None if here else self.place(), tuple(fragments), self.handle if here else None)

    def indexes(self) -> list[dict[str, Any]]:
        return describe(self.handle)

    def config(self) -> dict[str, str]:
        return dict(self.handle.config())

    def cell(self, column: str, on: Sequence[str], key: pa.Table) -> Cell | None:
        self._check([column], None, None, None)
        addresses, rowids, _ = match.where_key(self.handle, on, key)
        if not len(addresses):
            raise no_row(key, self.table)
        if column in blobs.blob_columns(self.schema):
            return blobs.cell(self.handle, int(addresses[0]), column)
        return in_memory(match.rows_at(self.handle, rowids[:1], [column]).column(0)[0].as_py(), column, self.table)

    def has(self, columns: Sequence[str], values: pa.Table) -> pa.Table:
        _, _, positions = match.where_key(self.handle, columns, values)
        distinct = np.unique(positions.to_numpy()) if len(positions) else np.empty(0, np.int64)
        return values.take(distinct)


def _with(columns: Sequence[str] | None, name: str) -> list[str] | None:
    return None if columns is None else list(dict.fromkeys([*columns, name]))
