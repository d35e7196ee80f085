"""Conditions and expressions over columns of Python values.

A condition that is plain is told by functions over lists, which is what makes ten thousands of simulated histories
cheap. Everything else goes to DuckDB.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from quire.errors import InvalidExpression, InvalidInput
from quire.filters import (
    Always,
    Both,
    Compare,
    Computing,
    Condition,
    Either,
    Expression,
    Flag,
    In,
    IsNull,
    Not,
    assignment,
    read,
    read_filter,
)

if TYPE_CHECKING:
    import pyarrow as pa

Values = list[Any]
Tell = Callable[[Mapping[str, Values], int], Values]

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def matches(
    filter: Any, schema: pa.Schema, columns: Mapping[str, Values], rows: int, *, table: str = "", part: str = "filter"
) -> list[int]:
    """Positions of the rows for which a filter holds."""
    import pyarrow.compute as pc

    if isinstance(filter, pc.Expression):
        return _told_by_arrow(filter, schema, columns, table)
    if not isinstance(filter, str | Condition):
        raise InvalidInput(
            f"A {part} is SQL text or a pyarrow expression, not a {type(filter).__name__}.",
            next=f'For example {part}="year > 2020".',
        )
    found = read_filter(filter, schema, part=part, table=table)
    tell = _compiled(found.condition, tuple(zip(schema.names, schema.types, strict=True)))
    if tell is None:
        with Computing() as computing:
            kept = computing.mask(found.whole, given(found.whole, schema, columns, rows)).to_pylist()
    else:
        kept = tell(columns, rows)
    return [position for position, value in enumerate(kept) if value]


def _told_by_arrow(filter: Any, schema: pa.Schema, columns: Mapping[str, Values], table: str) -> list[int]:
    import pyarrow as pa
    import pyarrow.dataset as pads

    whole = pa.table([pa.array(columns[f.name], f.type) for f in schema], schema=schema)
    try:
        kept = pads.dataset(whole).to_table(columns={"kept": filter}).column(0).to_pylist()
    except (pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise InvalidExpression(
            f"{filter} cannot be computed on the rows of table {table!r}: {str(error).splitlines()[0]}.",
            next="Check the filter against the columns.",
            expression=str(filter),
        ) from None
    return [position for position, value in enumerate(kept) if value is True]


def compute(
    text: str, name: str, schema: pa.Schema, columns: Mapping[str, Values], rows: int, *, table: str = ""
) -> pa.Array:
    """What a column is set to in every row."""
    found = assignment(text, schema.field(name), schema, table=table)
    with Computing() as computing:
        return computing.set(found, given(found.expression, schema, columns, rows))


def value(
    text: str, name: str, schema: pa.Schema, columns: Mapping[str, Values], rows: int, *, table: str = ""
) -> pa.Array:
    """What a new column is in every row."""
    found = read(text, schema, part=f"expression for column {name!r}", table=table)
    with Computing() as computing:
        return computing.value(found, given(found, schema, columns, rows))


def given(about: Expression, schema: pa.Schema, columns: Mapping[str, Values], rows: int) -> pa.Table:
    """The columns that an expression reads, as Arrow."""
    import pyarrow as pa

    if not about.columns:
        return pa.table({"": pa.nulls(rows)})
    fields = [schema.field(n) for n in about.columns]
    return pa.table([pa.array(columns[f.name], f.type) for f in fields], schema=pa.schema(fields))


@lru_cache(maxsize=4096)
def _compiled(condition: Condition, kinds: tuple[tuple[str, pa.DataType], ...]) -> Tell | None:
    """The condition as a function over lists, if it is a plain one."""
    try:
        return _tell(condition, dict(kinds))
    except _Beyond:
        return None


class _Beyond(Exception):
    """More than lists of Python values can tell as DuckDB does."""


def _tell(condition: Condition, kinds: Mapping[str, pa.DataType]) -> Tell:
    match condition:
        case Always(value=value):
            return lambda _, n: [value] * n
        case Compare():
            return _compared(condition, kinds)
        case In(column=name, values=values):
            _check(kinds[name])
            return (lambda c, _: [None if v is None else v in values for v in c[name]]) if values else _never
        case IsNull(column=name):
            return lambda c, _: [v is None for v in c[name]]
        case Flag(column=name):
            return lambda c, _: c[name]
        case Not(inner=inner):
            told = _tell(inner, kinds)
            return lambda c, n: [None if v is None else not v for v in told(c, n)]
        case Both(parts=parts):
            return _joined([_tell(part, kinds) for part in parts], decides=False)
        case Either(parts=parts):
            return _joined([_tell(part, kinds) for part in parts], decides=True)
    raise _Beyond


def _never(_: Mapping[str, Values], rows: int) -> Values:
    return [False] * rows


def _compared(condition: Compare, kinds: Mapping[str, pa.DataType]) -> Tell:
    name, act, value = condition.column, _COMPARE[condition.operator], condition.value
    _check(kinds[name])
    return lambda c, _: [None if v is None else act(v, value) for v in c[name]]


def _check(kind: pa.DataType) -> None:
    """Floats have NaN, which is greater than every number to DuckDB and no number to Python; times have zones."""
    import pyarrow.types as t

    if not (t.is_integer(kind) or t.is_string(kind) or t.is_boolean(kind)):
        raise _Beyond


def _joined(parts: list[Tell], *, decides: bool) -> Tell:
    """`and` (decided by false) and `or` (decided by true), with SQL's third value."""

    def run(columns: Mapping[str, Values], rows: int) -> Values:
        told = [part(columns, rows) for part in parts]
        return [_join(values, decides) for values in zip(*told, strict=True)] if told else [not decides] * rows

    return run


def _join(values: tuple[Any, ...], decides: bool) -> bool | None:
    if any(value is decides for value in values):
        return decides
    return None if any(value is None for value in values) else not decides
