"""SQL over one snapshot: DuckDB with every table of the commit as a view, opened only when the query names it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from quire.errors import InvalidExpression
from quire.lake.table import Rows

if TYPE_CHECKING:
    import duckdb


def run(
    query: str,
    params: Sequence[Any] | dict[str, Any] | None,
    names: Iterable[str],
    open_table: Callable[[str], Any],
) -> Rows:
    """Run one SELECT. The connection can reach nothing but the snapshot: no files, no network, no other tables."""
    import duckdb

    known = {name.lower(): name for name in names}
    connection = duckdb.connect(config={"enable_external_access": "false"})
    try:
        for name in _tables(connection, query):
            if name.lower() in known:
                connection.register(name, open_table(known[name.lower()]))
        connection.execute("set lock_configuration = true").fetchall()
        relation = connection.sql(query, params=params) if params is not None else connection.sql(query)
        return Rows(relation.to_arrow_reader(100_000), keep=connection)
    except duckdb.Error as error:
        connection.close()
        raise _explain(error, query, sorted(known.values())) from None
    except BaseException:
        connection.close()
        raise


def _tables(connection: duckdb.DuckDBPyConnection, query: str) -> set[str]:
    """Names of the base tables a SELECT reads, from DuckDB's own parser."""
    [[text]] = connection.execute("select json_serialize_sql(?)", [query]).fetchall()
    tree = json.loads(text)
    if tree.get("error"):
        raise InvalidExpression(
            f"The query cannot be run: {tree.get('error_message', 'it does not parse')}",
            next="Snapshots are read with a single SELECT; change tables with a transaction.",
            query=query,
        )
    if len(tree.get("statements", [])) != 1:
        raise InvalidExpression("Exactly one SELECT is expected.", next="Run the statements one by one.", query=query)
    found: set[str] = set()

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if node.get("type") == "BASE_TABLE" and node.get("table_name"):
                found.add(node["table_name"])
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(tree["statements"])
    return found


def _explain(error: Exception, query: str, tables: list[str]) -> InvalidExpression:
    text = str(error)
    message = re.split(r"\n\s*LINE ", text, maxsplit=1)[0].strip().replace("\n", " ")
    return InvalidExpression(
        f"The query cannot be run: {message}",
        next=f"Tables of this snapshot: {', '.join(tables) if tables else 'none'}.",
        query=query,
    )
