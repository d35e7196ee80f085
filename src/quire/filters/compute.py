"""Expressions over rows in memory: which rows satisfy a condition, and what columns are set to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quire.errors import SchemaMismatch
from quire.filters import duckdb_engine
from quire.filters.bind import Expression, read
from quire.filters.parse import parse

if TYPE_CHECKING:
    import pyarrow as pa


class Computing:
    """Computes expressions over batches, one after the other. It is used as a context manager."""

    def __init__(self) -> None:
        self._connection: Any = None

    def __enter__(self) -> Computing:
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection is not None:
            self._connection.close()

    def mask(self, condition: Expression, rows: pa.RecordBatch | pa.Table) -> pa.BooleanArray:
        """For each row whether the condition is true."""
        import pyarrow as pa

        found = self._computed(condition, rows, [condition.sql]).column(0)
        if pa.types.is_null(found.type):
            found = found.cast(pa.bool_())
        return found.fill_null(False).combine_chunks()

    def value(self, expression: Expression, rows: pa.RecordBatch | pa.Table) -> pa.Array:
        """What the expression is in each row, in the type that it has by itself."""
        return self._computed(expression, rows, [expression.sql]).column(0).combine_chunks()

    def set(self, assignment: Assignment, rows: pa.RecordBatch | pa.Table) -> pa.Array:
        """What a column is set to in each row, in the type of the column."""
        import pyarrow as pa

        outputs = [assignment.sql, *([assignment.lost] if assignment.lost else [])]
        found = self._computed(assignment.expression, rows, outputs)
        if assignment.lost:
            self._check_kept(assignment, rows, found.column(1))
        value = found.column(0).combine_chunks()
        try:
            return value if value.type == assignment.field.type else value.cast(assignment.field.type)
        except pa.ArrowException as error:
            raise assignment.expression.failed(error) from None

    def _check_kept(self, assignment: Assignment, rows: pa.RecordBatch | pa.Table, lost: Any) -> None:
        import pyarrow.compute as pc

        if not pc.any(lost).as_py():
            return
        first = pc.index(lost, True).as_py()
        expression = assignment.expression
        value = self._computed(expression, rows.slice(first, 1), [expression.sql]).column(0)[0].as_py()
        raise assignment.mismatch(f"{value} does not fit", "Round it, or divide whole numbers with //.")

    def _computed(self, about: Expression, rows: Any, outputs: Sequence[str]) -> pa.Table:
        import duckdb
        import pyarrow as pa

        if self._connection is None:
            self._connection = duckdb_engine.connect()
        try:
            given = duckdb_engine.rows(rows, about.columns, about.names)
            return duckdb_engine.computed(self._connection, given, outputs)
        except (duckdb.Error, pa.ArrowException) as error:
            raise about.failed(error) from None


@dataclass(frozen=True)
class Assignment:
    """An expression whose value becomes that of a column."""

    expression: Expression
    field: pa.Field
    sql: str
    """The value in the type of the column, as DuckDB knows it."""
    lost: str = ""
    """Whether something of the value is lost by that; empty where nothing can be."""

    def mismatch(self, what: str, next: str) -> SchemaMismatch:
        """The error for a value that the column does not take."""
        name, kind, said = self.field.name, self.field.type, self.expression
        on = f" of table {said.table!r}" if said.table else ""
        return SchemaMismatch(
            f"The {said.part} is {said.text!r}: {what} column {name!r}{on}, which is {kind}.",
            next=next,
            table=said.table,
            column=name,
            expected=str(kind),
            actual=str(said.type),
            expression=said.text,
        )


def assignment(text: str, field: pa.Field, schema: pa.Schema, *, table: str = "") -> Assignment:
    """What a column is set to. A text in quotes takes the type of the column, and a number must fit it."""
    expression = read(text, schema, part=f"expression for column {field.name!r}", table=table)
    own, target = expression.type, duckdb_engine.shown(field.type)
    if own == target or _family(own) == _family(target) == "text":
        return Assignment(expression, field, expression.sql)
    value = f"({expression.sql}\n)"
    node = parse(text)
    with duckdb_engine.connected() as connection:
        kind = duckdb_engine.type_of(connection, target)
        if _family(own) == "null" or (node["class"] == "CONSTANT" and node["literal"]["kind"] == "STRING"):
            found = Assignment(expression, field, f"cast({value} as {kind})")
        elif _family(own) != _family(target):
            advice = f"Convert it: CAST(… AS {kind})."
            raise Assignment(expression, field, "").mismatch(f"{own} does not fit", advice)
        else:
            cast = f"try_cast({value} as {kind})"
            found = Assignment(
                expression, field, cast, _lost(value, cast, duckdb_engine.type_of(connection, own), target)
            )
    with Computing() as computing:  # there is no row that it could fail on: what it says is of the types
        computing.set(found, _read_by(schema, expression).empty_table())
    return found


def _read_by(schema: pa.Schema, expression: Expression) -> pa.Schema:
    """The columns that an expression reads."""
    import pyarrow as pa

    return pa.schema([schema.field(name) for name in expression.columns])


def _lost(value: str, cast: str, own: str, target: pa.DataType) -> str:
    """Whether a cast loses something: a number may be rounded to a float, and nothing else may change."""
    import pyarrow.types as t

    there = f"{value} is not null and {cast} is null"
    return there if t.is_floating(target) else f"({there} or cast({cast} as {own}) is distinct from {value})"


def _family(kind: pa.DataType) -> str:
    """Types among which a value may become one of another, if it fits."""
    import pyarrow.types as t

    families = {
        "null": (t.is_null,),
        "text": (t.is_string, t.is_large_string),
        "number": (t.is_integer, t.is_floating, t.is_decimal),
        "moment": (t.is_date, t.is_timestamp),
        "bytes": (t.is_binary, t.is_large_binary, t.is_fixed_size_binary),
        "list": (t.is_list, t.is_large_list, t.is_fixed_size_list),
        "struct": (t.is_struct,),
    }
    return next((name for name, tests in families.items() if any(test(kind) for test in tests)), str(kind))
