"""Expressions of a Spark Connect plan, as far as they matter to a scan below them: the names that they mention, and
what they ask of the rows.

What is not known is answered with None, and then a scan reads everything. Names are in small letters, as Spark takes
them; too many of them do no harm.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from quire.errors import QuireError
from quire.filters import Both, Compare, Condition, Either, Flag, In, IsNull, Not, Part, every, read_filter
from quire.spark import sql_text

if TYPE_CHECKING:
    import pyarrow as pa

Names = frozenset[str]
_IDENTIFIER = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")
_UNREADABLE = re.compile(r"[\"\\]|/\*|!(?!=)")
"""What may mean something else to Spark than to Quire."""
_ALL = ("unresolved_star", "unresolved_regex", "subquery_expression", "typed_aggregate_expression", "extension")
_OPERATORS: dict[str, Any] = {"==": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_TURNED: dict[str, Any] = {"=": "=", "<>": "<>", ">": "<", ">=": "<=", "<": ">", "<=": ">="}
_PARTS: dict[str, Any] = {"startswith": "starts_with", "endswith": "ends_with", "contains": "contains"}


# -- names -------------------------------------------------------------------------------------------------------------


def names_of(expressions: Iterable[Any]) -> Names | None:
    """What some expressions mention; None if that may be every column."""
    found: Names = frozenset()
    for expression in expressions:
        some = _names(expression)
        if some is None:
            return None
        found |= some
    return found


def _names(message: Any) -> Names | None:
    """The names in a message, which is an expression or a part of one."""
    kind = _kind(message)
    if kind in _ALL:
        return None
    if kind == "unresolved_attribute":
        return frozenset(identifier(message.unresolved_attribute.unparsed_identifier))
    if kind == "expression_string":
        return names_in(message.expression_string.expression)
    if kind == "unresolved_function" and _counts_rows(message.unresolved_function):
        return frozenset()
    return names_of(parts_of(message))


def _kind(message: Any) -> str:
    return str(message.WhichOneof("expr_type")) if message.DESCRIPTOR.name == "Expression" else ""


def _counts_rows(function: Any) -> bool:
    return function.function_name.lower() == "count" and all(
        _kind(argument) in ("unresolved_star", "literal") for argument in function.arguments
    )


def parts_of(message: Any) -> Iterator[Any]:
    """The messages within a message."""
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        yield from (value,) if hasattr(value, "DESCRIPTOR") else value


def identifier(text: str) -> list[str]:
    """The parts of a name such as t.`a column`, in small letters."""
    return [(m[1].replace("``", "`") if m[2] is None else m[2]).lower() for m in _IDENTIFIER.finditer(text)]


def keeps_name(expression: Any) -> bool:
    """Whether it is a column under its own name, or all of them."""
    if _kind(expression) == "unresolved_star":
        return True
    attribute = expression.unresolved_attribute
    return _kind(expression) == "unresolved_attribute" and len(identifier(attribute.unparsed_identifier)) == 1


def names_in(text: str) -> Names | None:
    """What SQL text mentions; None if a star in it may mean every column."""
    tokens = sql_text.tokens(text)
    for at, token in enumerate(tokens):
        if token.text != "*":
            continue
        before = [one.text.lower() for one in tokens[max(0, at - 2) : at]]
        if before[-1:] == ["("] and before[:1] == ["count"] and [one.text for one in tokens[at + 1 : at + 2]] == [")"]:
            continue
        if not before or before[-1] in ("(", ",", ".", "select", "distinct", "all"):
            return None
    return frozenset(sql_text.names(text)) | {_unquoted(token.text) for token in tokens if token.kind == "string"}


def _unquoted(text: str) -> str:
    """In some sessions a text in double quotes is a name."""
    return text.strip("'\"").lower()


def names_in_query(text: str) -> Names | None:
    """What a whole query mentions; None if it may read columns that it does not name."""
    words = [token.word for token in sql_text.tokens(text)]
    implied = {"NATURAL", "TABLE", "PIVOT", "UNPIVOT", "TRANSFORM", "REDUCE", "MAP"}
    if implied & set(words) or "|>" in text or words.count("FROM") > words.count("SELECT"):
        return None
    return names_in(text)


# -- conditions --------------------------------------------------------------------------------------------------------


def implied(expression: Any, schema: pa.Schema) -> Condition | None:
    """A condition on columns of a table that holds wherever an expression does, or None if nothing is known."""
    if _kind(expression) == "expression_string":
        return _of_text(expression.expression_string.expression, schema)
    name, arguments = _function(expression)
    if name == "and":
        parts = [found for one in arguments if (found := implied(one, schema)) is not None]
        return every(parts) if parts else None
    return _exact(expression, schema)


def _of_text(text: str, schema: pa.Schema) -> Condition | None:
    if _UNREADABLE.search(text):
        return None
    known = []
    for one in _joined_by_and(text):
        try:
            found = read_filter(one, schema).condition
        except QuireError:
            continue
        parts = found.parts if isinstance(found, Both) else (found,)
        known += [part for part in parts if _means_the_same(part, schema)]
    return every(known) if known else None


def _joined_by_and(text: str) -> list[str]:
    """The conditions of a text that must all hold."""
    tokens = sql_text.tokens(text)
    depth, cuts = 0, []
    for token in tokens:
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 and token.word in ("OR", "BETWEEN", "CASE", "||"):
            return [text]
        if depth == 0 and token.word == "AND":
            cuts.append(token)
    starts, ends = [0, *(token.end for token in cuts)], [*(token.start for token in cuts), len(text)]
    return [text[start:end] for start, end in zip(starts, ends, strict=True)]


def _means_the_same(condition: Condition, schema: pa.Schema) -> bool:
    """Whether a condition that was read from text is what Spark reads there too."""
    match condition:
        case Both() | Either():
            return all(_means_the_same(part, schema) for part in condition.parts)
        case Not():
            return _means_the_same(condition.inner, schema)
        case IsNull():
            return True
        case Flag():
            return _fits(True, condition.column, schema)
        case Compare() | Part():
            return _fits(condition.value, condition.column, schema)
        case In():
            return all(_fits(value, condition.column, schema) for value in condition.values)
    return False


def _fits(value: Any, column: str, schema: pa.Schema) -> bool:
    """Whether a value is of the very kind of a column, so that nobody casts one of them."""
    import pyarrow.types as t

    kind = schema.field(column).type
    if isinstance(value, bool):
        return bool(t.is_boolean(kind))
    if isinstance(value, int):
        return bool(t.is_integer(kind)) and _within(value, kind)
    if isinstance(value, float):
        return bool(t.is_float64(kind)) and math.isfinite(value)
    if isinstance(value, str):
        return bool(t.is_string(kind) or t.is_large_string(kind))
    if isinstance(value, dt.datetime):
        return bool(t.is_timestamp(kind)) and bool((kind.tz is None) == (value.tzinfo is None))
    return isinstance(value, dt.date) and bool(t.is_date32(kind))


def _within(value: int, kind: pa.DataType) -> bool:
    import pyarrow.types as t

    bits = int(kind.bit_width)
    return 0 <= value < 1 << bits if t.is_unsigned_integer(kind) else -(1 << bits - 1) <= value < 1 << bits - 1


def _exact(expression: Any, schema: pa.Schema) -> Condition | None:
    """A condition that is true, false and null where an expression is."""
    name, arguments = _function(expression)
    if name in ("and", "or"):
        parts = [found for one in arguments if (found := _exact(one, schema)) is not None]
        if len(parts) < len(arguments):
            return None
        return Both(tuple(parts)) if name == "and" else Either(tuple(parts))
    if name in ("not", "!") and len(arguments) == 1:
        inner = _exact(arguments[0], schema)
        return None if inner is None else Not(inner)
    if name in _OPERATORS and len(arguments) == 2:
        return _compared(arguments, _OPERATORS[name], schema)
    column = _column(arguments[0] if arguments else expression, schema)
    if column is None:
        return None
    if not arguments:
        return Flag(column) if _fits(True, column, schema) else None
    if name in ("isnull", "isnotnull"):
        return IsNull(column) if name == "isnull" else Not(IsNull(column))
    return _with_values(name, column, [_value(one) for one in arguments[1:]], schema)


def _with_values(name: str, column: str, values: list[Any], schema: pa.Schema) -> Condition | None:
    if not values or not all(_fits(value, column, schema) for value in values):
        return None
    if name == "in":
        return In(column, tuple(values))
    if name in _PARTS and isinstance(values[0], str) and values[0]:
        return Part(_PARTS[name], column, values[0])
    return None


def _compared(arguments: list[Any], operator: Any, schema: pa.Schema) -> Condition | None:
    left, right = arguments
    if _kind(left) == "literal":
        left, right, operator = right, left, _TURNED[operator]
    column, value = _column(left, schema), _value(right)
    return Compare(column, operator, value) if column is not None and _fits(value, column, schema) else None


def _function(expression: Any) -> tuple[str, list[Any]]:
    """The name of a function of Spark's own and its arguments."""
    if _kind(expression) != "unresolved_function":
        return "", []
    function = expression.unresolved_function
    own = not function.is_user_defined_function and not function.is_distinct
    return (function.function_name.lower(), list(function.arguments)) if own else ("", [])


def _column(expression: Any, schema: pa.Schema) -> str | None:
    """The column that an expression is, if it can be only one."""
    if _kind(expression) != "unresolved_attribute" or expression.unresolved_attribute.is_metadata_column:
        return None
    said = identifier(expression.unresolved_attribute.unparsed_identifier)
    found = [name for name in schema.names if [name.lower()] == said]
    return found[0] if len(found) == 1 else None


def _value(expression: Any) -> Any:
    """The value of a literal, or None."""
    if _kind(expression) != "literal":
        return None
    literal = expression.literal
    kind = literal.WhichOneof("literal_type")
    read = _LITERALS.get(kind)
    try:
        return None if read is None else read(getattr(literal, kind))
    except OverflowError:  # beyond Python's calendar
        return None


def _same(value: Any) -> Any:
    return value


_LITERALS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("boolean", "byte", "short", "integer", "long", "double", "string"), _same),
    "date": lambda days: dt.date(1970, 1, 1) + dt.timedelta(days),
    "timestamp": lambda us: dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=us),
    "timestamp_ntz": lambda us: dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=us),
}
