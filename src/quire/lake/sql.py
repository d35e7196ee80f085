"""SQL over one snapshot: DuckDB with every table of the commit as a view, opened only when the query names it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from quire.errors import InvalidExpression, QuireError
from quire.lake.names import no_table
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

    if not isinstance(query, str):
        raise InvalidExpression(f"A query is text, not a {type(query).__name__}.", next="Pass one SELECT.", query=None)
    known = list(names)
    connection = duckdb.connect(config={"enable_external_access": "false"})
    named: set[str] = set()
    opened: list[Any] = []

    def failure() -> QuireError | None:
        """What a table says that reading it stopped with: the query is not to blame then."""
        return next((found for one in opened if (found := getattr(one, "failure", None)) is not None), None)

    try:
        named = _tables(connection, query)
        for name, table in _resolve(named, known).items():
            opened.append(open_table(table))
            connection.register(name, opened[-1])
        connection.execute("set lock_configuration = true").fetchall()
        relation = connection.sql(query, params=params) if params is not None else connection.sql(query)
        return Rows(relation.to_arrow_reader(100_000), keep=connection, failure=failure)
    except duckdb.Error as error:
        connection.close()
        raise failure() or _explain(error, query, known, named) from None
    except BaseException:
        connection.close()
        raise


def _resolve(named: Iterable[str], known: Sequence[str]) -> dict[str, str]:
    """Which table a name in the query means: the one spelt so, else the only one that differs in case alone."""
    found: dict[str, str] = {}
    for name in sorted(named):
        alike = [k for k in known if k.lower() == name.lower()]
        table = name if name in alike else alike[0] if len(alike) == 1 else None
        if table is None and alike:
            raise InvalidExpression(
                f"{name!r} could be any of {', '.join(alike)}.", next="Spell it as the table is spelt.", table=name
            )
        if table is None:
            continue
        other = next((n for n, t in found.items() if n.lower() == name.lower() and t != table), None)
        if other is not None:
            raise InvalidExpression(
                f"SQL does not tell {other!r} and {name!r} apart: they differ in case alone.",
                next="Query them one at a time, or rename one.",
                table=name,
            )
        found[name] = table
    return found


def _tables(connection: duckdb.DuckDBPyConnection, query: str) -> set[str]:
    """Names of the base tables a SELECT reads, from DuckDB's own parser."""
    [[text]] = connection.execute("select json_serialize_sql(?)", [query]).fetchall()
    tree = json.loads(text)
    if tree.get("error"):
        said = str(tree.get("error_message", "it does not parse"))
        raise InvalidExpression(
            "The query is no SELECT." if "Only SELECT" in said else f"The query cannot be run: {said}",
            next="Snapshots are read with SELECT; change tables with a transaction or quire delete.",
            query=query,
        )
    if len(tree.get("statements", [])) != 1:
        raise InvalidExpression("Exactly one SELECT is expected.", next="Run the statements one by one.", query=query)
    found: set[str] = set()

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if node.get("type") == "SHOW_REF" and not node.get("query"):
                raise InvalidExpression(
                    "A query reads tables; it does not list them.", next="lake.tables() lists them.", query=query
                )
            if node.get("type") == "BASE_TABLE" and node.get("table_name"):
                if node.get("schema_name"):
                    raise InvalidExpression(
                        f"There is no schema {node['schema_name']!r}: tables are named alone.",
                        next="lake.tables() lists them; quote a name that holds a dot.",
                        query=query,
                    )
                found.add(node["table_name"])
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(tree["statements"])
    return found


def _explain(error: Exception, query: str, tables: Sequence[str], named: Iterable[str]) -> QuireError:
    import duckdb

    lower = {t.lower() for t in tables}
    unknown = [n for n in sorted(named) if n.lower() not in lower]
    message = re.split(r"\n\s*LINE ", str(error), maxsplit=1)[0].strip().replace("\n", " ")
    if isinstance(error, duckdb.CatalogException):
        for name in unknown:
            if name in message:
                return no_table(name, tables)
    return InvalidExpression(
        f"The query cannot be run: {re.sub(r' ?Did you mean .*', '', message).rstrip('.')}.",
        next=f"Tables of this snapshot: {', '.join(sorted(tables)) if tables else 'none'}.",
        query=query,
    )
