"""Expressions of pyarrow as filters: which rows they keep, and which of them are plain conditions.

pyarrow has no way to walk an expression. Its serialized form has: a list of calls, names and literals. What is read
from that is built again with pyarrow's own functions, and counts only if pyarrow calls the two equal.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from quire.filters import ast

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

_ENTRY = re.compile(r"(call|field_ref|literal|options|end): '(.*)'")
_OPERATORS: dict[str, ast.Operator] = {
    "equal": "=",
    "not_equal": "<>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
_MIRRORED: dict[ast.Operator, ast.Operator] = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "<>": "<>"}
_MATCH = 0
"""How pyarrow writes that a null is found in a list that has one."""
Built = tuple["ast.Condition", "pc.Expression"]
"""A condition, and the same as pyarrow builds it."""


def named(filter: pc.Expression, schema: pa.Schema) -> tuple[str, ...]:
    """Columns that hold all that an expression reads, one at least."""
    text = str(filter)
    if "FieldPath(" in text:  # a column by its number, which is one among all columns
        return tuple(schema.names)
    # A name that the text holds may be a column of it; one that it does not hold cannot be.
    return tuple(name for name in schema.names if name in text) or tuple(schema.names[:1])


def mask(filter: pc.Expression, rows: pa.RecordBatch | pa.Table) -> pa.Array:
    """For each row whether pyarrow calls the expression true."""
    import pyarrow as pa
    import pyarrow.dataset as pads

    whole = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
    found = pads.dataset(whole).to_table(columns={"kept": filter}).column(0)
    return found.cast(pa.bool_()).fill_null(False).combine_chunks()


def plain(filter: pc.Expression, schema: pa.Schema) -> ast.Condition | None:
    """The condition that is true, false and null where an expression is; None where only pyarrow can tell.

    Plain are comparisons of a column with a literal, `isin`, tests for null, columns of truth values, and their `&`,
    `|` and `~`, on columns that everybody compares alike.
    """
    import pyarrow as pa

    try:
        found = _Reader(filter, schema).whole()
    except (pa.ArrowException, ValueError, KeyError, IndexError, StopIteration, TypeError, RecursionError):
        return None
    return found[0] if found is not None and found[1].equals(filter) else None


class _Reader:
    def __init__(self, filter: pc.Expression, schema: pa.Schema) -> None:
        import pyarrow as pa

        _, (serialized,) = filter.__reduce__()
        batch = pa.ipc.open_file(serialized).get_batch(0)
        lines = batch.schema.to_string(truncate_metadata=False, show_field_metadata=False).split("\n")
        entries = [_ENTRY.fullmatch(line) for line in lines[lines.index("-- schema metadata --") + 1 :]]
        self.entries = [(str(entry[1]), str(entry[2])) for entry in entries if entry]
        self.complete = all(entries)
        self.values = [column[0] for column in batch.columns]
        self.schema = schema

    def whole(self) -> Built | None:
        if not self.complete:
            return None
        entries = iter(self.entries)
        found = self._condition(next(entries), entries)
        return None if next(entries, None) else found

    def _condition(self, entry: tuple[str, str], entries: Iterator[tuple[str, str]]) -> Built | None:
        import pyarrow.compute as pc

        kind, value = entry
        if kind == "field_ref" and str(self.schema.field(value).type) == "bool":
            return ast.Flag(value), pc.field(value)
        if kind != "call":
            return None
        inner = list(_until_end(entries))
        if value in ("and_kleene", "or_kleene", "invert"):
            return self._joined(value, iter(inner))
        if value in _OPERATORS:
            return self._compared(value, inner)
        if value in ("is_null", "is_valid", "is_in") and inner[0][0] == "field_ref":
            return self._of_a_column(value, self.schema.field(inner[0][1]), inner[1:])
        return None

    def _joined(self, call: str, inner: Iterator[tuple[str, str]]) -> Built | None:
        parts = [self._condition(entry, inner) for entry in inner]
        said = [part for part in parts if part is not None]
        if len(said) != len(parts):
            return None
        if call == "invert":
            [(condition, built)] = said
            return ast.Not(condition), ~built
        [(left, first), (right, second)] = said
        if call == "and_kleene":
            return ast.Both((*_parts(ast.Both, left), *_parts(ast.Both, right))), first & second
        return ast.Either((*_parts(ast.Either, left), *_parts(ast.Either, right))), first | second

    def _compared(self, call: str, inner: list[tuple[str, str]]) -> Built | None:
        import pyarrow.compute as pc

        compare: Callable[..., pc.Expression] = getattr(pc, call)
        operator, (left, right) = _OPERATORS[call], inner
        if left[0] == "literal":
            left, right, operator = right, left, _MIRRORED[operator]
        if (left[0], right[0]) != ("field_ref", "literal"):
            return None
        name, literal = left[1], self.values[int(right[1])]
        column = pc.field(name)
        sides = (column, pc.scalar(literal)) if inner[0] == left else (pc.scalar(literal), column)
        value = _value(literal, self.schema.field(name).type)
        return None if value is None else (ast.Compare(name, operator, value), compare(*sides))

    def _of_a_column(self, call: str, field: pa.Field, options: list[tuple[str, str]]) -> Built | None:
        import pyarrow.compute as pc
        import pyarrow.types as t

        name, column = field.name, pc.field(field.name)
        if call == "is_valid":
            return ast.Not(ast.IsNull(name)), column.is_valid()
        [(_, number)] = options
        if call == "is_null":  # of floats it may mean NaN as well
            return None if t.is_floating(field.type) else (ast.IsNull(name), column.is_null())
        given = self.values[int(number)]
        if given["null_matching_behavior"].as_py() != _MATCH:
            return None
        options_given = given["value_set"].values
        values = [_value(option, field.type) for option in options_given if option.is_valid]
        if any(value is None for value in values):
            return None
        # It is never null: a null is in the list, or it is not.
        found = ast.In(name, tuple(values))
        if options_given.null_count:
            return ast.Either((ast.IsNull(name), found)), column.isin(options_given)
        return ast.Both((ast.Not(ast.IsNull(name)), found)), column.isin(options_given)


def _parts(kind: type[ast.Both] | type[ast.Either], condition: ast.Condition) -> tuple[ast.Condition, ...]:
    """What is joined, in one level: pyarrow joins two at a time."""
    return condition.parts if isinstance(condition, kind) else (condition,)


def _until_end(entries: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """What stands in a call."""
    depth = 1
    for kind, value in entries:
        depth += {"call": 1, "end": -1}.get(kind, 0)
        if not depth:
            return
        yield kind, value


def _value(literal: Any, kind: pa.DataType) -> Any:
    """A literal as a value of a column's type, where pyarrow, DuckDB and Lance compare the two alike."""
    import pyarrow.types as t

    value = literal.as_py()
    if value is None:
        return None
    if t.is_integer(literal.type) and t.is_integer(kind):
        return None if t.is_uint64(kind) or t.is_uint64(literal.type) or not _holds(kind, value) else value
    if t.is_string(literal.type) and (t.is_string(kind) or t.is_large_string(kind)):
        return None if "\0" in value else value
    if literal.type != kind:
        return None
    if t.is_boolean(kind) or t.is_date32(kind):
        return value
    if t.is_timestamp(kind) and kind.unit == "us" and kind.tz in (None, "UTC"):
        return value if kind.tz is None else value.astimezone(dt.UTC)
    return None


def _holds(kind: Any, value: int) -> bool:
    import pyarrow.types as t

    bits = kind.bit_width
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if t.is_signed_integer(kind) else (0, (1 << bits) - 1)
    return bool(low <= value <= high)
