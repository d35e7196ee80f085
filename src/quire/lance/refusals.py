"""What a lake does not do for Lance clients, each with the reason and what to do instead."""

from __future__ import annotations

from typing import Any, NoReturn

import lance_namespace as spec

from quire.lance.answers import answering, unsupported
from quire.lance.operations import Operations

BRANCHES = "Branches of a lake hold all its tables: `lake.branch('exp')`, or `quire branch create`."
TAGS = "A tag of a lake names all tables of a commit: `lake.tag('v1')`, or `quire tag create`."
VIEWS = "Write the rows of the view into a table, in the transaction that changes what it is made of."
DEPRECATED = "Declare the table: DeclareTable does the same."


class RefusedOperations(Operations):
    """Operations of the specification that are answered with a refusal."""

    @answering
    def create_empty_table(self, request: spec.CreateEmptyTableRequest) -> NoReturn:
        raise unsupported("CreateEmptyTable, which the specification has given up", DEPRECATED)

    @answering
    def create_materialized_view(self, request: spec.CreateMaterializedViewRequest) -> NoReturn:
        raise unsupported("materialized views", VIEWS)

    @answering
    def refresh_materialized_view(self, request: spec.RefreshMaterializedViewRequest) -> NoReturn:
        raise unsupported("materialized views", VIEWS)

    @answering
    def alter_table_backfill_columns(self, request: spec.AlterTableBackfillColumnsRequest) -> NoReturn:
        raise unsupported(
            "jobs that fill a column", "Update the column: `UPDATE` through the namespace, or with Quire."
        )

    @answering
    def create_table_branch(self, request: spec.CreateTableBranchRequest) -> NoReturn:
        raise unsupported("branches of one table", BRANCHES)

    @answering
    def delete_table_branch(self, request: spec.DeleteTableBranchRequest) -> NoReturn:
        raise unsupported("branches of one table", BRANCHES)

    @answering
    def list_table_branches(self, request: spec.ListTableBranchesRequest) -> Any:
        self._table(request)
        return spec.ListTableBranchesResponse(branches={})

    @answering
    def create_table_tag(self, request: spec.CreateTableTagRequest) -> NoReturn:
        raise unsupported("tags of one table", TAGS)

    @answering
    def update_table_tag(self, request: spec.UpdateTableTagRequest) -> NoReturn:
        raise unsupported("tags of one table", TAGS)

    @answering
    def delete_table_tag(self, request: spec.DeleteTableTagRequest) -> NoReturn:
        raise unsupported("tags of one table", TAGS)

    @answering
    def list_table_tags(self, request: spec.ListTableTagsRequest) -> Any:
        self._table(request)
        return spec.ListTableTagsResponse(tags={})

    @answering
    def get_table_tag_version(self, request: spec.GetTableTagVersionRequest) -> NoReturn:
        self._table(request)
        raise spec.TableTagNotFoundError(f"The table has no tag {request.tag!r}. {TAGS}")
