"""Rows through the namespace itself: a client sends them, and Quire writes and reads them, with Quire's errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import lance_namespace as spec

from quire.errors import InvalidInput, Unsupported
from quire.lake import Rows, Table, Transaction
from quire.lance import identifiers
from quire.lance.answers import answering, unsupported
from quire.lance.catalog import mode_of
from quire.lance.operations import AUTHOR, MESSAGE, Operations, check_branch, context

if TYPE_CHECKING:
    import pyarrow as pa


T = TypeVar("T")
Given = Any
"""Rows as a client sends them: the bytes of an Arrow stream or file; or batches as they arrive, which come once."""


class RowOperations(Operations):
    """Insert, merge, update, delete, count and query."""

    @answering
    def create_table(self, request: spec.CreateTableRequest, request_data: Given) -> spec.CreateTableResponse:
        name, mode = identifiers.table(request.id), mode_of(request.mode, "create", "exist_ok", "overwrite")
        properties = dict(request.properties or {})
        key = tuple(part.strip() for part in properties.get("quire.key", "").split(",") if part.strip())
        rows = read(request_data)
        with self._transaction(request, f"create {name}") as tx:
            there = name in tx
            if there and mode == "exist_ok":
                tx.discard()
            elif there and mode == "overwrite":
                tx[name].overwrite(rows, schema="replace")
            else:
                tx.create_table(name, rows, key=key or None)
        table = self._newest(name)
        uri = self._uri(table.pin.location)
        return spec.CreateTableResponse(
            location=uri,
            version=self._follow(table),
            storage_options=self._options(uri),
            properties=properties or None,
        )

    @answering
    def insert_into_table(
        self, request: spec.InsertIntoTableRequest, request_data: Given
    ) -> spec.InsertIntoTableResponse:
        mode, rows = mode_of(request.mode, "append", "overwrite"), read(request_data)

        def insert(tx: Transaction, name: str) -> int:
            table = tx[name]
            return table.append(rows, missing="null") if mode == "append" else table.overwrite(rows)

        count, told = self._changed(request, "insert into", insert, once=not isinstance(request_data, bytes))
        return spec.InsertIntoTableResponse(num_inserted_rows=count, **told)

    @answering
    def merge_insert_into_table(
        self, request: spec.MergeInsertIntoTableRequest, request_data: Given
    ) -> spec.MergeInsertIntoTableResponse:
        conditions = (
            request.when_matched_update_all_filt,
            request.when_not_matched_by_source_delete,
            request.when_not_matched_by_source_delete_filt,
        )
        if any(conditions):
            raise unsupported("merges with conditions, or that delete", "Merge, then update or delete by a predicate.")
        if not request.on:
            raise InvalidInput("A merge needs the columns by which rows match.", next="Pass them as `on`.")
        rows, on = read(request_data), list(request.on)

        def merge(tx: Transaction, name: str) -> dict[str, int]:
            table = tx[name]
            if request.when_matched_update_all and request.when_not_matched_insert_all:
                return table.upsert(rows, on=on)
            if request.when_not_matched_insert_all:
                return table.insert(rows, on=on, exists="ignore")
            if request.when_matched_update_all:
                raise Unsupported(
                    "A lake does not merge rows that must exist already.", next="Use update with a predicate."
                )
            raise InvalidInput("The merge says neither to update nor to insert.", next="Ask for one, or both.")

        counts, told = self._changed(request, "merge into", merge, once=not isinstance(request_data, bytes))
        return spec.MergeInsertIntoTableResponse(
            num_updated_rows=counts.get("updated", 0),
            num_inserted_rows=counts.get("inserted", 0),
            num_deleted_rows=0,
            **told,
        )

    @answering
    def update_table(self, request: spec.UpdateTableRequest) -> spec.UpdateTableResponse:
        columns = {column: expression for column, expression in request.updates}
        where = request.predicate or "true"
        count, told = self._changed(request, "update", lambda tx, name: tx[name].update(columns, where=where))
        return spec.UpdateTableResponse(updated_rows=count, **told)

    @answering
    def delete_from_table(self, request: spec.DeleteFromTableRequest) -> spec.DeleteFromTableResponse:
        _, told = self._changed(request, "delete from", lambda tx, name: tx[name].delete(request.predicate))
        return spec.DeleteFromTableResponse(**told)

    @answering
    def count_table_rows(self, request: spec.CountTableRowsRequest) -> spec.CountTableRowsResponse:
        return spec.CountTableRowsResponse(count=self._seen(request).count(request.predicate))

    @answering
    def query_table(self, request: spec.QueryTableRequest) -> spec.QueryTableResponse:
        return spec.QueryTableResponse(data=written(self.found_rows(request)))

    def found_rows(self, request: spec.QueryTableRequest) -> Rows | pa.Table:
        """What a query finds, read as it is taken where it is a scan."""
        return query(self._seen(request), request)

    @answering
    def explain_table_query_plan(self, request: spec.ExplainTableQueryPlanRequest) -> str:
        raise unsupported("plans of queries", "Open the table with Lance, and ask its scanner.")

    @answering
    def analyze_table_query_plan(self, request: spec.AnalyzeTableQueryPlanRequest) -> str:
        raise unsupported("plans of queries", "Open the table with Lance, and ask its scanner.")

    @answering
    def restore_table(self, request: spec.RestoreTableRequest) -> spec.RestoreTableResponse:
        table = self._table(request)
        at = self._commit_at(table, request.version)
        done = self._writing().restore(at, tables=[table.info.name], message=context(request, MESSAGE))
        return spec.RestoreTableResponse(transaction_id=done.commit)

    # -- how ---------------------------------------------------------------------------------------------------

    def _transaction(self, request: Any, what: str) -> Transaction:
        check_branch(request)
        said = context(request, MESSAGE) or f"{what} (Lance client)"
        return self._writing().transaction(said, author=context(request, AUTHOR), fresh=True)

    def _changed(
        self, request: Any, what: str, change: Callable[[Transaction, str], T], *, once: bool = False
    ) -> tuple[T, dict[str, Any]]:
        """Run a statement in a transaction, again after a conflict that allows it.

        `once` where its rows are sent once.
        """
        check_branch(request)
        name = identifiers.table(request.id)
        said = context(request, MESSAGE) or f"{what} {name} (Lance client)"
        lake, author = self._writing(), context(request, AUTHOR)
        if once:
            with lake.transaction(said, author=author, fresh=True) as tx:
                result = change(tx, name)
        else:
            done = lake.transact(lambda tx: change(tx, name), said, author=author, fresh=True)
            assert done is not None
            result = done
        table = self._newest(name)
        return result, {"transaction_id": table.commit.commit, "version": self._follow(table)}

    def _seen(self, request: Any) -> Table:
        """The table as a request wants to see it."""
        found = self._table(request)
        if request.version is None or request.version == self._follow(found):
            return self._snapshot()[found.info.name]
        return self.lake.at(commit=self._commit_at(found, request.version))[found.info.name]


def read(data: Given) -> pa.Table | pa.RecordBatchReader:
    """The rows of an Arrow stream, or of an Arrow file."""
    import pyarrow as pa

    if not isinstance(data, bytes):
        return data
    try:
        if data[:6] == b"ARROW1":
            return pa.ipc.open_file(pa.py_buffer(data)).read_all()
        return pa.ipc.open_stream(pa.py_buffer(data)).read_all()
    except (pa.ArrowException, OSError, TypeError, ValueError) as error:
        raise InvalidInput(f"The rows are no Arrow stream: {error}.", next="Send an Arrow IPC stream.") from None


def batches_of(rows: Rows | pa.Table) -> Iterator[pa.RecordBatch]:
    """Rows one batch after the other."""
    return iter(rows.to_batches()) if hasattr(rows, "to_batches") else iter(rows)


def written(rows: Rows | pa.Table) -> bytes:
    """Rows as an Arrow file."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, rows.schema) as out:
        for batch in batches_of(rows):
            out.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def query(table: Table, request: Any) -> Rows | pa.Table:
    """What a query asks of a table."""
    if request.with_row_id:
        raise unsupported("ids of rows in a query", "Ask for the columns of the key.")
    if request.lower_bound is not None or request.upper_bound is not None:
        raise unsupported("bounds of a distance", "Filter what the query returns by `_distance`.")
    columns = _columns(request.columns)
    vector = _vector(request.vector)
    text, where = _text(request.full_text_query)
    offset = request.offset or 0
    if vector is None and text is None:
        return table.scan(columns=columns, filter=request.filter, limit=request.k or None, offset=offset)
    asked: dict[str, Any] = {"filter": request.filter, "columns": columns, "limit": max(1, request.k + offset)}
    if text is None or vector is None:
        asked["column"] = request.vector_column if text is None else where
    else:
        asked |= {"vector_column": request.vector_column, "text_column": where}
    if vector is not None:
        asked["metric"] = request.distance_type
        if text is None:
            asked |= {"nprobes": request.nprobes or None, "refine": request.refine_factor}
    found = table.search(vector=vector, text=text, **asked).to_arrow()
    return found.slice(offset, request.k) if request.k else found.slice(offset)


def _columns(given: Any) -> Sequence[str] | None:
    if given is None:
        return None
    if given.column_aliases:
        raise unsupported("computed columns in a query", "Ask for columns by name, and compute from the answer.")
    return list(given.column_names) if given.column_names else None


def _vector(given: Any) -> list[float] | None:
    if given is None:
        return None
    if given.multi_vector:
        if len(given.multi_vector) > 1:
            raise unsupported("several vectors in one query", "Send a query for each.")
        return [float(value) for value in given.multi_vector[0]]
    return [float(value) for value in given.single_vector] if given.single_vector else None


def _text(given: Any) -> tuple[str | None, str | None]:
    if given is None:
        return None, None
    if given.string_query is None:
        raise unsupported("structured full-text queries", "Send the words as a string query.")
    columns = given.string_query.columns or []
    if len(columns) > 1:
        raise unsupported("text in several columns at once", "Send a query for each column.")
    return given.string_query.query, columns[0] if columns else None
