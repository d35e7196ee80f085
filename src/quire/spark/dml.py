"""Statements of SQL on the verbs of a lake: Spark computes the rows, a transaction writes them.

Statements that change rows of a table with a key find them by it, with conditions and expressions of Spark. Without a
key UPDATE and DELETE take the conditions of Quire's filters, as in `tx["t"].delete("…")`, and MERGE is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quire.errors import InvalidInput, KeyConflict, SchemaMismatch, TableExists, Unsupported
from quire.graph.names import nearest
from quire.lake import Receipt
from quire.spark import jobs, types
from quire.spark.column_names import is_case_sensitive, resolved
from quire.spark.sql_text import Clause, SqlStatement, tokens
from quire.spark.write import SparkTable, SparkTransaction

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

TARGET, THERE, GIVEN, CHOSEN = "__quire_target", "__quire_there", "__quire_given", "__quire_clause"


@dataclass
class SqlResult:
    """What a statement did."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    repeated: bool = False
    """Whether its token was used before, so that nothing was done."""
    receipt: Receipt | None = None
    """Of its commit; None if it changed nothing."""


def run(tx: SparkTransaction, said: SqlStatement) -> SqlResult:
    """Run a statement in a transaction in which the session has views of the tables."""
    return _RUN[said.kind](tx, said)


def _insert(tx: SparkTransaction, said: SqlStatement) -> SqlResult:
    table = tx[said.table]
    rows = tx.spark.sql(said.query)
    columns = list(said.columns) or table.table.schema.names
    if "by name" not in said.says:
        if len(rows.columns) != len(columns):
            raise SchemaMismatch(
                f"The statement gives {len(rows.columns)} values for {len(columns)} columns of table {table.name!r}.",
                next="Name the columns: insert into t (a, b) …; those that are left out become null.",
                table=table.name,
            )
        rows = rows.toDF(*columns)
    rows = _assigned(table, table.named(rows))
    missing: Any = "null" if said.columns or "by name" in said.says else "error"
    gone = 0
    if "overwrite" in said.says:
        gone = table.table.count()
        return SqlResult(inserted=table.overwrite(rows), deleted=gone)
    if said.condition is not None:
        gone = _delete(tx, SqlStatement("delete", said.table, said.table, condition=said.condition)).deleted
    return SqlResult(inserted=table.append(rows, missing=missing), deleted=gone)


def _assigned(table: SparkTable, rows: DataFrame) -> DataFrame:
    """Numbers as the columns have them, as Spark does where it stores: 1 is given for a bigint, 1.5 for a double."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import NumericType

    kinds = _kinds(table)
    wrong = [
        field.name
        for field in rows.schema
        if field.name in kinds
        and field.dataType != kinds[field.name]
        and isinstance(field.dataType, NumericType)
        and isinstance(kinds[field.name], NumericType)
    ]
    return rows.withColumns({name: f.col(_quoted(name)).cast(kinds[name]) for name in wrong}) if wrong else rows


def _kinds(table: SparkTable) -> dict[str, Any]:
    """Spark's types of the columns that Spark can read."""
    import pyarrow as pa

    schema = table.table.schema
    lost = types.unreadable(schema, table.name)
    some = pa.schema([field for field in schema if field.name not in lost])
    return {field.name: field.dataType for field in types.spark_schema(types.readable(some, table.name))}


def _delete(tx: SparkTransaction, said: SqlStatement) -> SqlResult:
    table = tx[said.table]
    if said.condition is None:
        return SqlResult(deleted=table.delete("true"))
    if not table.key:
        return SqlResult(deleted=table.delete(_own_filter(said.condition, table)))
    keys = ", ".join(f"{_quoted(said.alias)}.{_quoted(name)}" for name in table.key)
    chosen = tx.spark.sql(f"select {keys} from {_quoted(said.table)} as {_quoted(said.alias)} where {said.condition}")
    return SqlResult(deleted=table.delete(chosen))


def _own_filter(text: str, table: SparkTable) -> str:
    if any(token.word == "SELECT" for token in tokens(text)):
        raise Unsupported(
            f"Table {table.name!r} has no key, so its rows are not found by a subquery.",
            next="Give the table a key, or write the condition without SELECT.",
            table=table.name,
        )
    return text


def _update(tx: SparkTransaction, said: SqlStatement) -> SqlResult:
    table = tx[said.table]
    values = _by_column(table, said.values)
    if not table.key:
        where = None if said.condition is None else _own_filter(said.condition, table)
        return SqlResult(updated=table.table.update(values, where=where))
    _check_key(table, values)
    alias = _quoted(said.alias)
    columns = [
        f"{values[name]} as {_quoted(name)}" if name in values else f"{alias}.{_quoted(name)}" for name in _kinds(table)
    ]
    where = "" if said.condition is None else f" where {said.condition}"
    rows = tx.spark.sql(f"select {', '.join(columns)} from {_quoted(said.table)} as {alias}{where}")
    return SqlResult(updated=table.upsert(_assigned(table, rows))["updated"])


def _by_column(table: SparkTable, values: dict[str, str]) -> dict[str, str]:
    """Assignments by the names of the columns."""
    known = table.table.schema.names
    names = resolved(list(values), known, table.name, case_sensitive=is_case_sensitive(table.spark))
    for name in names:
        if name not in known:
            raise InvalidInput(
                f"Table {table.name!r} has no column {name!r}.",
                next=f"{nearest(name, known)} Its columns are {', '.join(known)}.".strip(),
                table=table.name,
                column=name,
            )
    return dict(zip(names, values.values(), strict=True))


def _check_key(table: SparkTable, values: dict[str, str]) -> None:
    for name in table.key:
        if name in values:
            raise Unsupported(
                f"Column {name!r} is part of the key of table {table.name!r}, which an update keeps.",
                next="Delete the row and insert the new one.",
                table=table.name,
                column=name,
            )


# -- MERGE ------------------------------------------------------------------------------------------------------------


def _merge(tx: SparkTransaction, said: SqlStatement) -> SqlResult:
    table = tx[said.table]
    if not table.key:
        raise Unsupported(
            f"Table {table.name!r} has no key, by which MERGE finds its rows.",
            next="Create it with one, or use DELETE and INSERT.",
            table=table.name,
        )
    chosen = _joined(tx, table, said).persist()
    try:
        return _merged(table, said.clauses, chosen)
    finally:
        chosen.unpersist()
        tx.spark.catalog.dropTempView(TARGET)


def _joined(tx: SparkTransaction, table: SparkTable, said: SqlStatement) -> DataFrame:
    """For every row that a clause chooses: the number of the clause, the key of the row that is there, the new row."""
    spark, kinds = tx.spark, _kinds(table)
    target, source = _quoted(said.alias), said.source_alias or "__quire_source"
    source = source if source.startswith("`") else ".".join(map(_quoted, source.split(".")[-1:]))
    table.frame(columns=list(kinds)).selectExpr("*", f"true as {THERE}").createOrReplaceTempView(TARGET)
    given = spark.sql(f"select * from {said.query}").columns
    tests: list[str] = []
    values: dict[str, list[str]] = {name: [] for name in kinds}
    for number, clause in enumerate(said.clauses):
        there, new = f"{target}.{THERE} is not null", f"{source}.{GIVEN} is not null"
        when = {
            "matched": f"{there} and {new}",
            "new": f"{target}.{THERE} is null",
            "left": f"{source}.{GIVEN} is null",
        }
        also = "" if clause.condition is None else f" and ({clause.condition})"
        tests.append(f"when {when[clause.when]}{also} then {number}")
        if clause.action == "delete":
            continue
        said_of = _values_of(table, clause, given, source)
        if clause.action == "update":
            _check_key(table, {n: v for n, v in said_of.items() if clause.values is not None})
        for name in kinds:
            if name in said_of:
                values[name].append(f"when {number} then {said_of[name]}")
            elif clause.action == "insert":
                values[name].append(f"when {number} then null")
    kind = _join_kind({clause.when for clause in said.clauses})
    clause_of = f"case {' '.join(tests)} end"
    columns = [f"{clause_of} as {CHOSEN}"]
    columns += [f"{target}.{_quoted(name)} as {_quoted(f'__quire_key_{i}')}" for i, name in enumerate(table.key)]
    for name, cases in values.items():
        old = f"{target}.{_quoted(name)}"
        whole = f"case {clause_of} {' '.join(cases)} else {old} end" if cases else old
        columns.append(f"{whole} as {_quoted(name)}")
    query = f"select {', '.join(columns)} from {TARGET} as {target} {kind} join"
    query += f" (select *, true as {GIVEN} from {said.query}) as {source} on {said.condition}"
    return spark.sql(query).where(f"{CHOSEN} is not null")


def _values_of(table: SparkTable, clause: Clause, given: Sequence[str], source: str) -> dict[str, str]:
    if clause.values is not None:
        return _by_column(table, clause.values)
    return _by_column(table, {name: f"{source}.{_quoted(name)}" for name in given})


def _join_kind(whens: set[str]) -> str:
    if {"new", "left"} <= whens:
        return "full outer"
    return "right outer" if "new" in whens else "left outer" if "left" in whens else "inner"


def _merged(table: SparkTable, clauses: Sequence[Clause], chosen: DataFrame) -> SqlResult:
    counts = {row[CHOSEN]: row["count"] for row in jobs.collected(chosen.groupBy(CHOSEN).count())}
    keys = {f"__quire_key_{i}": name for i, name in enumerate(table.key)}
    _check_single(table, clauses, chosen, counts, list(keys))
    done = SqlResult()
    columns = [name for name in chosen.columns if name != CHOSEN and name not in keys]

    def rows(action: str) -> tuple[DataFrame, int]:
        numbers = [n for n, clause in enumerate(clauses) if clause.action == action and counts.get(n)]
        some = chosen.where(f"{CHOSEN} in ({', '.join(map(str, numbers))})") if numbers else chosen.limit(0)
        return some, sum(counts[n] for n in numbers)

    gone, number = rows("delete")
    if number:
        done.deleted = table.delete(gone.select(*map(_quoted, keys)).toDF(*keys.values()))
    changed, number = rows("update")
    if number:
        done.updated = table.upsert(_assigned(table, changed.select(*map(_quoted, columns))))["updated"]
    new, number = rows("insert")
    if number:
        done.inserted = table.insert(_assigned(table, new.select(*map(_quoted, columns))), missing="null")
    return done


def _check_single(
    table: SparkTable, clauses: Sequence[Clause], chosen: DataFrame, counts: dict[int, int], keys: list[str]
) -> None:
    """Refuse a source of which several rows meet one row of the table."""
    numbers = [n for n, clause in enumerate(clauses) if clause.when == "matched" and counts.get(n)]
    if not numbers:
        return
    met = chosen.where(f"{CHOSEN} in ({', '.join(map(str, numbers))})").groupBy(*map(_quoted, keys)).count()
    found = jobs.collected(met.where("count > 1").limit(1))
    if found:
        said = ", ".join(f"{name}={found[0][key]!r}" for name, key in zip(table.key, keys, strict=True))
        raise KeyConflict(
            f"Several rows of the source match the row of table {table.name!r} with {said}.",
            next="Let the source have one row for each, such as by group by or row_number().",
            table=table.name,
        )


# -- tables -----------------------------------------------------------------------------------------------------------


def _create(tx: SparkTransaction, said: SqlStatement) -> SqlResult:
    if said.table in tx:
        if "if not exists" in said.says:
            return SqlResult()
        if "or replace" not in said.says:
            raise TableExists(
                f"The lake already has a table {said.table!r}.",
                next="Choose another name, or say IF NOT EXISTS or OR REPLACE.",
                table=said.table,
            )
    rows = tx.spark.sql(said.query) if said.query else None
    if rows is None:
        schema = _declared(said.columns)
    else:
        import pyarrow as pa

        schema = pa.schema([field.with_nullable(True) for field in types.arrow_schema(rows.schema)])
    if said.table in tx:
        tx.drop_table(said.table)
    made = tx.create_table(said.table, schema=schema, key=said.key or None)
    return SqlResult(inserted=made.append(rows) if rows is not None else 0)


def _declared(columns: Sequence[str]) -> pa.Schema:
    """Columns with their types, as Spark declares them."""
    from pyspark.sql.types import StructType

    declared: Any = StructType.fromDDL(", ".join(columns))
    return types.arrow_schema(declared)


def _drop(tx: SparkTransaction, said: SqlStatement) -> SqlResult:
    if said.table in tx or "if exists" not in said.says:
        tx.drop_table(said.table)
    return SqlResult()


def _truncate(tx: SparkTransaction, said: SqlStatement) -> SqlResult:
    return SqlResult(deleted=tx[said.table].delete("true"))


def _rename(tx: SparkTransaction, said: SqlStatement) -> SqlResult:
    tx.rename_table(said.table, said.alias)
    return SqlResult()


def _alter(tx: SparkTransaction, said: SqlStatement) -> SqlResult:
    table = tx[said.table].table
    if said.kind == "add columns":
        table.add_columns(_declared(said.columns))
    elif said.kind == "drop columns":
        table.drop_columns([token.text.strip("`") for part in said.columns for token in tokens(part)])
    else:
        table.rename_column(*said.columns)
    return SqlResult()


_RUN: dict[str, Callable[[SparkTransaction, SqlStatement], SqlResult]] = {
    "insert": _insert,
    "delete": _delete,
    "update": _update,
    "merge": _merge,
    "create": _create,
    "drop": _drop,
    "truncate": _truncate,
    "rename table": _rename,
    "add columns": _alter,
    "drop columns": _alter,
    "rename column": _alter,
}


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
