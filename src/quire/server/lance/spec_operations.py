"""Every operation of the Lance namespace specification, and where it is.

A test holds this against the client that the specification generates: an operation that is missing fails it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Takes = Literal["json", "rows", "nothing"]
Gives = Literal["json", "count", "rows", "text", "tags"]


@dataclass(frozen=True)
class SpecOperation:
    """One operation: its name in `LanceNamespace`, its address below `/v1`, what it takes and gives."""

    name: str
    path: str
    writes: bool = False
    takes: Takes = "json"
    gives: Gives = "json"
    methods: tuple[str, ...] = ("POST",)

    @property
    def model(self) -> str:
        """The type of its request in `lance_namespace`."""
        if self.name == "list_all_tables":
            return "ListTablesRequest"
        if self.name == "create_table_scalar_index":
            return "CreateTableIndexRequest"
        return "".join(word.capitalize() for word in self.name.split("_")) + "Request"

    @property
    def summary(self) -> str:
        words = self.name.split("_")
        return f"{words[0].capitalize()} {' '.join(words[1:])}."


READ: tuple[Literal["GET", "POST"], ...] = ("POST", "GET")
"""Older clients ask for some things with GET."""

NAMESPACES = (
    SpecOperation("create_namespace", "namespace/{id}/create", writes=True),
    SpecOperation("describe_namespace", "namespace/{id}/describe"),
    SpecOperation("drop_namespace", "namespace/{id}/drop", writes=True),
    SpecOperation("namespace_exists", "namespace/{id}/exists"),
    SpecOperation("list_namespaces", "namespace/{id}/list", takes="nothing", methods=("GET",)),
    SpecOperation("list_tables", "namespace/{id}/table/list", takes="nothing", methods=("GET",)),
)
TABLES = (
    SpecOperation("list_all_tables", "table", takes="nothing", methods=("GET",)),
    SpecOperation("declare_table", "table/{id}/declare", writes=True),
    SpecOperation("create_empty_table", "table/{id}/create-empty", writes=True),
    SpecOperation("describe_table", "table/{id}/describe"),
    SpecOperation("table_exists", "table/{id}/exists"),
    SpecOperation("register_table", "table/{id}/register", writes=True),
    SpecOperation("deregister_table", "table/{id}/deregister", writes=True),
    SpecOperation("drop_table", "table/{id}/drop", writes=True),
    SpecOperation("rename_table", "table/{id}/rename", writes=True),
    SpecOperation("restore_table", "table/{id}/restore", writes=True),
    SpecOperation("get_table_stats", "table/{id}/stats", methods=READ),
    SpecOperation("update_table_schema_metadata", "table/{id}/schema_metadata/update", writes=True),
    SpecOperation("update_field_metadata", "table/{id}/update_field_metadata", writes=True),
)
ROWS = (
    SpecOperation("create_table", "table/{id}/create", writes=True, takes="rows"),
    SpecOperation("insert_into_table", "table/{id}/insert", writes=True, takes="rows"),
    SpecOperation("merge_insert_into_table", "table/{id}/merge_insert", writes=True, takes="rows"),
    SpecOperation("update_table", "table/{id}/update", writes=True),
    SpecOperation("delete_from_table", "table/{id}/delete", writes=True),
    SpecOperation("query_table", "table/{id}/query", gives="rows"),
    SpecOperation("count_table_rows", "table/{id}/count_rows", gives="count", methods=READ),
    SpecOperation("explain_table_query_plan", "table/{id}/explain_plan", gives="text"),
    SpecOperation("analyze_table_query_plan", "table/{id}/analyze_plan", gives="text"),
)
COLUMNS = (
    SpecOperation("alter_table_add_columns", "table/{id}/add_columns", writes=True),
    SpecOperation("alter_table_alter_columns", "table/{id}/alter_columns", writes=True),
    SpecOperation("alter_table_drop_columns", "table/{id}/drop_columns", writes=True),
    SpecOperation("alter_table_backfill_columns", "table/{id}/backfill_column", writes=True),
)
INDEXES = (
    SpecOperation("create_table_index", "table/{id}/create_index", writes=True),
    SpecOperation("create_table_scalar_index", "table/{id}/create_scalar_index", writes=True),
    SpecOperation("list_table_indices", "table/{id}/index/list"),
    SpecOperation("describe_table_index_stats", "table/{id}/index/{index_name}/stats", methods=READ),
    SpecOperation("drop_table_index", "table/{id}/index/{index_name}/drop", writes=True, takes="nothing"),
)
TAGS_AND_BRANCHES = (
    SpecOperation("list_table_tags", "table/{id}/tags/list", takes="nothing", gives="tags", methods=READ),
    SpecOperation("get_table_tag_version", "table/{id}/tags/version"),
    SpecOperation("create_table_tag", "table/{id}/tags/create", writes=True),
    SpecOperation("update_table_tag", "table/{id}/tags/update", writes=True),
    SpecOperation("delete_table_tag", "table/{id}/tags/delete", writes=True),
    SpecOperation("list_table_branches", "table/{id}/branches/list", takes="nothing", methods=READ),
    SpecOperation("create_table_branch", "table/{id}/branches/create", writes=True),
    SpecOperation("delete_table_branch", "table/{id}/branches/delete", writes=True),
)
VERSIONS = (
    SpecOperation("list_table_versions", "table/{id}/version/list", takes="nothing", methods=READ),
    SpecOperation("create_table_version", "table/{id}/version/create", writes=True),
    SpecOperation("describe_table_version", "table/{id}/version/describe"),
    SpecOperation("batch_delete_table_versions", "table/{id}/version/delete", writes=True),
    SpecOperation("batch_create_table_versions", "table/version/batch-create", writes=True),
    SpecOperation("batch_commit_tables", "table/batch-commit", writes=True),
)
OTHERS = (
    SpecOperation("describe_transaction", "transaction/{id}/describe"),
    SpecOperation("alter_transaction", "transaction/{id}/alter", writes=True),
    SpecOperation("create_materialized_view", "materialized_view/{id}/create", writes=True),
    SpecOperation("refresh_materialized_view", "materialized_view/{id}/refresh", writes=True),
)
SPEC_OPERATIONS = (*NAMESPACES, *TABLES, *ROWS, *COLUMNS, *INDEXES, *TAGS_AND_BRANCHES, *VERSIONS, *OTHERS)
