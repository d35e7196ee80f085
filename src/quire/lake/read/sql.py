"""SQL over one snapshot: DuckDB with every table of the commit as a view, opened only when the query names it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quire.errors import InvalidExpression, QuireError
from quire.lake.names import no_table
from quire.lake.read.table import Rows

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class Tables:
    """What a query is asked of."""

    names: Callable[[Collection[str]], Iterable[str]]
    """All tables that there are. It is told what a query calls those that it wants, if there are such."""
    opened: Callable[[Sequence[str]], Sequence[Any]]
    """What DuckDB reads some of them by."""


@dataclass(frozen=True)
class Limits:
    """What a caller bounds a query by: seconds, bytes and rows."""

    timeout: float | None = None
    memory: int | None = None
    max_rows: int | None = None


def run(
    query: str,
    params: Sequence[Any] | dict[str, Any] | None,
    tables: Tables,
    limits: Limits | None = None,
    *,
    explain: bool = False,
) -> Rows:
    """Run one SELECT over the tables that it names, within these limits and those in force (`sql_limits`).

    With `explain` it is not run: the rows say how it would be.

    The connection can reach nothing but the snapshot: no files, no network, no other tables.
    """
    import duckdb

    from quire import duckdb_engines
    from quire.lake.read.sql_limits import Watch, asked

    if not isinstance(query, str):
        raise InvalidExpression(
            f"A query must be text, not a {type(query).__name__}.", next="Pass one SELECT.", query=None
        )
    known: list[str] = []
    limits = limits or Limits()
    with asked(timeout=limits.timeout, memory=limits.memory, max_rows=limits.max_rows):
        watch = Watch()
    connection = duckdb.connect(
        config={"enable_external_access": "false", **duckdb_engines.laptop_limits(), **watch.settings}
    )
    named = _Named()
    opened: list[Any] = []

    def failure() -> QuireError | None:
        """What a table says that reading it stopped with: the query is not to blame then."""
        found = next((found for one in opened if (found := getattr(one, "failure", None)) is not None), None)
        return found or watch.failure

    try:
        named = _names(connection, query)
        known += tables.names(named.tables)
        meant = _resolve(named.tables, known)
        opened += tables.opened(list(meant.values()))
        for (name, table), found in zip(meant.items(), opened, strict=True):
            named.check_apart(found.schema.names, table)
            named.check_masked(getattr(found, "masked", ()), table)
            connection.register(name, found)
        connection.execute("set TimeZone = 'UTC'").fetchall()  # a time means the same wherever the program runs
        connection.execute("set lock_configuration = true").fetchall()

        def begun() -> Any:
            text = f"explain {query}" if explain else query
            relation = connection.sql(text, params=params) if params is not None else connection.sql(text)
            return relation.to_arrow_reader(100_000)

        reader = watch.work(connection, begun)
        return Rows(watch.reader(reader, connection), keep=connection, failure=failure)
    except duckdb.Error as error:
        connection.close()
        raise failure() or _explain(error, query, known, named.tables) from None
    except BaseException:
        connection.close()
        raise


def likely(wanted: Collection[str], known: Sequence[str]) -> list[str]:
    """Those of some tables that a query with these names means, unless one of them could be two."""
    try:
        return list(_resolve(wanted, known).values())
    except InvalidExpression:
        return []


def _resolve(named: Iterable[str], known: Sequence[str]) -> dict[str, str]:
    """Which table a name in the query means: the one spelt so, else the only one that differs in case alone."""
    found: dict[str, str] = {}
    for name in sorted(named):
        alike = [k for k in known if k.lower() == name.lower()]
        table = name if name in alike else alike[0] if len(alike) == 1 else None
        if table is None and alike:
            raise InvalidExpression(
                f"The table name {name!r} is ambiguous: it could be {', '.join(alike)}.",
                next="Write the name exactly as the table has it.",
                table=name,
            )
        if table is None:
            continue
        other = next((n for n, t in found.items() if n.lower() == name.lower() and t != table), None)
        if other is not None:
            raise InvalidExpression(
                f"SQL cannot tell {other!r} and {name!r} apart: they differ only in case.",
                next="Query them one at a time, or rename one of them.",
                table=name,
            )
        found[name] = table
    return found


@dataclass
class _Named:
    """What a query names: its base tables, and columns as far as they are spelt out."""

    tables: set[str] = field(default_factory=set)
    columns: set[str] = field(default_factory=set)
    every: bool = False
    """Whether it takes columns without naming them."""
    used: set[str] = field(default_factory=set)
    """Columns that it does more with than to give them back as they are."""
    natural: bool = False

    def read(self, node: dict[str, Any]) -> None:
        self.every |= node.get("class") == "STAR" or node.get("ref_type") == "NATURAL"
        self.natural |= node.get("ref_type") == "NATURAL"
        for kind in ("column_names", "using_columns"):
            self.columns.update(name.lower() for name in node.get(kind) or () if isinstance(name, str))

    def check_masked(self, masked: Collection[str], table: str) -> None:
        """Refuse a query that finds, sorts, groups or joins rows by a column that is masked for whoever asks."""
        folded = {name.lower(): name for name in masked}
        wrong = sorted(self.used & folded.keys())
        if not wrong and self.natural and folded:
            wrong = sorted(folded)
        if wrong:
            from quire.lake.guard.seen import hidden_by_mask

            raise hidden_by_mask(folded[wrong[0]], table)

    def check_apart(self, columns: Sequence[str], table: str) -> None:
        """Refuse a query that could mean either of two columns: SQL does not tell them apart by case."""
        count = Counter(name.lower() for name in columns)
        whole = self.every or table.lower() in self.columns  # a row as a whole is called by its table
        alike = [n for n in columns if count[n.lower()] > 1 and (whole or n.lower() in self.columns)]
        if alike:
            raise InvalidExpression(
                f"SQL cannot tell the columns {', '.join(map(repr, alike))} of table {table!r} apart: they differ "
                "only in case.",
                next="Use only other columns, read the table with scan(columns=…), or rename one of them.",
                table=table,
            )


def _names(connection: duckdb.DuckDBPyConnection, query: str) -> _Named:
    """The base tables and the columns that a SELECT names, from DuckDB's own parser."""
    [[text]] = connection.execute("select json_serialize_sql(?)", [query]).fetchall()
    tree = json.loads(text)
    if tree.get("error"):
        said = str(tree.get("error_message", "it cannot be parsed"))
        raise InvalidExpression(
            "The query is not a SELECT." if "Only SELECT" in said else f"The query cannot be run: {said}",
            next="Only SELECT is allowed here. Change tables with a transaction, or with quire update and quire "
            "delete.",
            query=query,
            **_place(query, tree.get("position")),
        )
    if len(tree.get("statements", [])) != 1:
        raise InvalidExpression(
            "The text must be exactly one SELECT.", next="Run the statements one at a time.", query=query
        )
    found = _Named()
    given = {id(item) for item in tree["statements"][0].get("node", {}).get("select_list") or ()}

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            found.read(node)
            if id(node) not in given:
                found.used |= {n.lower() for n in _names_in(node)}
            if node.get("type") == "SHOW_REF" and not node.get("query"):
                raise InvalidExpression("A query cannot list tables.", next="lake.tables() lists them.", query=query)
            if node.get("type") == "BASE_TABLE" and node.get("table_name"):
                if node.get("schema_name"):
                    raise InvalidExpression(
                        f"There is no schema {node['schema_name']!r}; table names have no schema.",
                        next="lake.tables() lists them. Quote a name that contains a dot.",
                        query=query,
                    )
                found.tables.add(node["table_name"])
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(tree["statements"])
    return found


def _names_in(node: dict[str, Any]) -> Iterator[str]:
    """What a node itself names as a column, or as the table of a whole row."""
    for kind in ("column_names", "using_columns"):
        yield from (name for name in node.get(kind) or () if isinstance(name, str))


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
        **_marked(str(error)),
    )


def _place(query: str, position: Any) -> dict[str, Any]:
    """Line and column of a place in a query, if DuckDB named one."""
    if not str(position or "").isdecimal():
        return {}
    before = query.encode()[: int(position)].decode("utf-8", "ignore")
    return {"line": before.count("\n") + 1, "column": len(before) - (before.rfind("\n") + 1) + 1}


def _marked(message: str) -> dict[str, Any]:
    """Line and column of the mark that DuckDB draws below a line of the query. It cuts long lines: then the line."""
    found = re.search(r"\n\s*LINE (\d+): (.*)\n( *)\^", message)
    if found is None:
        return {}
    line, said, blank = int(found[1]), found[2], len(found[3])
    column = blank - len(f"LINE {line}: ") + 1
    return {"line": line} if said.startswith("...") or column < 1 else {"line": line, "column": column}
