"""The addresses of the catalog: each below the lake, below one commit of it, and below an open transaction."""

from __future__ import annotations

from quire.server.delta import handlers
from quire.server.delta.problems import DELTA
from quire.server.routes import Access, Route

LAKE = "/delta/{lake}"
VIEWS = (LAKE, f"{LAKE}/at/{{commit}}", f"{LAKE}/txn/{{txn}}")
BASE = "api/2.1/unity-catalog"
IN_SCHEMA = "delta/v1/catalogs/{catalog}/schemas/{schema}"
TABLE = f"{IN_SCHEMA}/tables/{{table}}"
_Routes = tuple[tuple[str, str, str, str, handlers.Handler, Access], ...]

ROUTES: _Routes = (
    ("GET", "catalogs", "uc-catalogs", "List the catalogs.", handlers.catalogs, "read"),
    ("GET", "catalogs/{catalog}", "uc-catalog", "Show a catalog.", handlers.catalog, "read"),
    ("GET", "metastore_summary", "uc-metastore", "Show the metastore.", handlers.metastore, "read"),
    ("GET", "schemas", "uc-schemas", "List the schemas.", handlers.schemas, "read"),
    ("GET", "schemas/{name}", "uc-schema", "Show a schema.", handlers.schema, "read"),
    ("GET", "tables", "uc-tables", "List the tables.", handlers.tables, "read"),
    ("GET", "tables/{name}", "uc-table", "Show a table.", handlers.table, "read"),
    ("DELETE", "tables/{name}", "uc-drop-table", "Drop a table.", handlers.drop, "write"),
    ("POST", f"{IN_SCHEMA}/staging-tables", "uc-stage-table", "Give a new table a place.", handlers.stage, "write"),
    ("POST", f"{IN_SCHEMA}/tables", "uc-create-table", "Create a table that was staged.", handlers.create, "write"),
    ("GET", TABLE, "uc-load-table", "Load a table, with its ratified versions.", handlers.load, "read"),
    ("POST", TABLE, "uc-update-table", "Ratify a version that a client has staged.", handlers.update, "write"),
    ("POST", f"{TABLE}/metrics", "uc-metrics", "Take what a client has measured.", handlers.metrics, "read"),
    ("GET", f"{TABLE}/credentials", "uc-credentials", "Tell how files are reached.", handlers.credentials, "read"),
)

DELTA_ROUTES = tuple(
    Route(method, f"{view}/{BASE}/{path}", name, summary, handler, access, face=DELTA)
    for view in VIEWS
    for method, path, name, summary, handler, access in ROUTES
)
