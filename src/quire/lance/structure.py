"""Columns, indexes and statistics of tables, through Quire's own verbs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import lance_namespace as spec
from lance_namespace_urllib3_client.models.index_content import IndexContent

from quire.lance import identifiers
from quire.lance.answers import answering, unsupported
from quire.lance.rows import RowOperations
from quire.lance.schemas import arrow_type

if TYPE_CHECKING:
    from quire.lake import Transaction

OPTIONS = {
    "num_partitions": "num_partitions",
    "num_sub_vectors": "num_sub_vectors",
    "num_bits": "num_bits",
    "sample_rate": "sample_rate",
    "max_iterations": "max_iters",
    "m": "m",
    "ef_construction": "ef_construction",
    "with_position": "with_position",
    "base_tokenizer": "base_tokenizer",
    "language": "language",
    "max_token_length": "max_token_length",
    "lower_case": "lower_case",
    "stem": "stem",
    "remove_stop_words": "remove_stop_words",
    "ascii_folding": "ascii_folding",
    "distance_type": "metric",
}
"""Of a request, and as Quire calls them."""


class StructureOperations(RowOperations):
    """What a table is made of."""

    # -- columns ----------------------------------------------------------------------------------------------

    @answering
    def alter_table_add_columns(self, request: spec.AlterTableAddColumnsRequest) -> spec.AlterTableAddColumnsResponse:
        columns: dict[str, str] = {}
        for entry in request.new_columns:
            if entry.virtual_column is not None or entry.computed is not None or not entry.expression:
                raise unsupported("columns that functions compute later", "Give an SQL expression, or fill them.")
            columns[entry.name] = entry.expression
        _, told = self._changed(request, "add columns to", lambda tx, name: _done(tx[name].add_columns, columns))
        return spec.AlterTableAddColumnsResponse(version=told["version"])

    @answering
    def alter_table_alter_columns(
        self, request: spec.AlterTableAlterColumnsRequest
    ) -> spec.AlterTableAlterColumnsResponse:
        def alter(tx: Transaction, name: str) -> int:
            for entry in request.alterations:
                if entry.virtual_column is not None:
                    raise unsupported("columns that functions compute later", "Give an SQL expression, or fill them.")
                type_ = arrow_type(entry.data_type) if entry.data_type else None
                if type_ is not None or entry.nullable is not None:
                    tx[name].alter_column(entry.path, type=type_, nullable=entry.nullable)
                if entry.rename is not None:
                    tx[name].rename_column(entry.path, entry.rename)
            return len(request.alterations)

        _, told = self._changed(request, "alter columns of", alter)
        return spec.AlterTableAlterColumnsResponse(version=told["version"])

    @answering
    def alter_table_drop_columns(
        self, request: spec.AlterTableDropColumnsRequest
    ) -> spec.AlterTableDropColumnsResponse:
        wanted = list(request.columns)
        _, told = self._changed(request, "drop columns of", lambda tx, name: _done(tx[name].drop_columns, wanted))
        return spec.AlterTableDropColumnsResponse(**told)

    @answering
    def update_table_schema_metadata(self, request: spec.UpdateTableSchemaMetadataRequest) -> Any:
        raise unsupported("metadata of a schema through the namespace", "Open the table with Lance, and set it there.")

    @answering
    def update_field_metadata(self, request: spec.UpdateFieldMetadataRequest) -> Any:
        raise unsupported("metadata of a column through the namespace", "Open the table with Lance, and set it there.")

    # -- indexes ----------------------------------------------------------------------------------------------

    @answering
    def create_table_index(self, request: spec.CreateTableIndexRequest) -> spec.CreateTableIndexResponse:
        return spec.CreateTableIndexResponse(transaction_id=self._index(request))

    @answering
    def create_table_scalar_index(self, request: spec.CreateTableIndexRequest) -> spec.CreateTableScalarIndexResponse:
        return spec.CreateTableScalarIndexResponse(transaction_id=self._index(request))

    def _index(self, request: Any) -> str:
        kind = request.index_type.upper()
        kind = "INVERTED" if kind == "FTS" else kind
        given = {ours: getattr(request, theirs) for theirs, ours in OPTIONS.items()}
        options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}

        def build(tx: Transaction, name: str) -> str:
            return tx[name].create_index(request.column, kind, name=request.name, **options)

        _, told = self._changed(request, "index", build)
        return str(told["transaction_id"])

    @answering
    def list_table_indices(self, request: spec.ListTableIndicesRequest) -> spec.ListTableIndicesResponse:
        every = {index["name"]: index for index in self._seen(request).indexes()}
        names, token = identifiers.page(every, request.limit, request.page_token)
        found = [_index_content(every[name]) for name in names]
        return spec.ListTableIndicesResponse(indexes=found, page_token=token)

    @answering
    def describe_table_index_stats(
        self, request: spec.DescribeTableIndexStatsRequest
    ) -> spec.DescribeTableIndexStatsResponse:
        for index in self._seen(request).indexes():
            if index["name"] == request.index_name:
                return spec.DescribeTableIndexStatsResponse(
                    index_type=str(index["kind"]),
                    num_indexed_rows=index.get("rows_indexed"),
                    num_unindexed_rows=index.get("rows_unindexed"),
                )
        raise spec.TableIndexNotFoundError(f"The table has no index {request.index_name!r}.")

    @answering
    def drop_table_index(self, request: spec.DropTableIndexRequest) -> spec.DropTableIndexResponse:
        wanted = str(request.index_name)
        name = self._table(request).info.name
        if wanted not in {index["name"] for index in self._snapshot()[name].indexes()}:
            raise spec.TableIndexNotFoundError(f"Table {name!r} has no index {wanted!r}.")
        _, told = self._changed(request, "drop an index of", lambda tx, name: _done(tx[name].drop_index, wanted))
        return spec.DropTableIndexResponse(transaction_id=told["transaction_id"])

    # -- statistics -------------------------------------------------------------------------------------------

    @answering
    def get_table_stats(self, request: spec.GetTableStatsRequest) -> Any:
        raise unsupported("statistics of fragments", "Describe the table, or open it with Lance and ask `stats`.")


def _done(statement: Callable[[Any], None], given: Any) -> bool:
    statement(given)
    return True


def _index_content(index: dict[str, Any]) -> IndexContent:
    return IndexContent(
        index_name=str(index["name"]),
        index_uuid=str(index["name"]),
        columns=list(index["columns"]),
        status="done",
        index_type=str(index["kind"]),
        num_indexed_rows=index.get("rows_indexed"),
        num_unindexed_rows=index.get("rows_unindexed"),
    )
