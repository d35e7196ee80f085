"""What a parsed filter says, as far as it is plain: comparisons of a column with a constant, and what is made of them.

A constant takes the type of the column that it is compared with, as DuckDB gives it; where that type cannot hold it
exactly, or DuckDB would compare in another type, the comparison stays with DuckDB.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from quire.filters import ast, duckdb_engine
from quire.filters.parse import Problem, nodes, place

if TYPE_CHECKING:
    import pyarrow as pa

Resolve = Callable[..., str]

_OPERATORS: dict[str, ast.Operator] = {
    "COMPARE_EQUAL": "=",
    "COMPARE_NOTEQUAL": "<>",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
}
_MIRRORED: dict[ast.Operator, ast.Operator] = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "<>": "<>"}
_PARTS: dict[str, Any] = {
    "starts_with": "starts_with",
    "prefix": "starts_with",
    "ends_with": "ends_with",
    "suffix": "ends_with",
    "contains": "contains",
}


def condition(node: Any, schema: pa.Schema, resolve: Resolve, text: str) -> ast.Condition:
    """The condition that a parsed expression is; `Other` where only DuckDB can tell."""
    return _Reader(schema, resolve, text).read(node)


class _Reader:
    def __init__(self, schema: pa.Schema, resolve: Resolve, text: str) -> None:
        self.schema, self.resolve, self.text = schema, resolve, text

    def read(self, node: Any) -> ast.Condition:
        kind, type = node["class"], node["type"]
        if kind == "CONJUNCTION":
            parts = tuple(self.read(child) for child in node["children"])
            return ast.every(parts) if type == "CONJUNCTION_AND" else ast.either(parts)
        if kind == "OPERATOR":
            return self._operator(node)
        if kind == "COMPARISON" and type in _OPERATORS:
            return self._comparison(node["left"], _OPERATORS[type], node["right"])
        if kind == "BETWEEN" and type == "COMPARE_BETWEEN":
            if _sort(node["lower"]) != _sort(node["upper"]):
                return ast.Other()  # DuckDB takes one type for all three
            low = self._comparison(node["input"], ">=", node["lower"])
            return ast.Both((low, self._comparison(node["input"], "<=", node["upper"])))
        if kind == "FUNCTION":
            return self._function(node)
        if kind == "CONSTANT" and node["literal"]["kind"] == "BOOLEAN":
            return ast.Always(node["literal"]["text"].lower() == "true")
        field = self._column(node)
        return ast.Flag(field.name) if field is not None and _is("boolean", field) else ast.Other()

    def _operator(self, node: Any) -> ast.Condition:
        type, children = node["type"], node["children"]
        if type == "OPERATOR_NOT":
            return ast.Not(self.read(children[0]))
        if type in ("OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL"):
            field = self._column(children[0])
            if field is None:
                return ast.Other()
            found = ast.IsNull(field.name)
            return found if type == "OPERATOR_IS_NULL" else ast.Not(found)
        if type in ("COMPARE_IN", "COMPARE_NOT_IN"):
            within = self._within(children[0], children[1:])
            return within if type == "COMPARE_IN" or isinstance(within, ast.Other) else ast.Not(within)
        return ast.Other()

    def _within(self, operand: Any, options: list[Any]) -> ast.Condition:
        field = self._column(operand)
        # DuckDB takes one type for all of them, so those of a list must be alike.
        if field is None or len({_sort(option) for option in options}) > 1:
            return ast.Other()
        values = [self._constant(option, field) for option in options]
        return ast.Other() if any(value is None for value in values) else ast.In(field.name, tuple(values))

    def _comparison(self, left: Any, operator: ast.Operator, right: Any) -> ast.Condition:
        field = self._column(left)
        if field is None:
            left, right, operator = right, left, _MIRRORED[operator]
            field = self._column(left)
        if field is None:
            return ast.Other()
        value = self._constant(right, field)
        return ast.Other() if value is None else ast.Compare(field.name, operator, value)

    def _function(self, node: Any) -> ast.Condition:
        name, arguments = node["function_name"].lower(), [a["expression"] for a in node["arguments"]]
        if len(arguments) != 2:
            return ast.Other()
        field, value = self._column(arguments[0]), _text(arguments[1])
        if field is None or value is None or not _is("string", field):
            return ast.Other()
        if name in _PARTS and not (name == "contains" and node.get("is_operator")):
            return ast.Part(_PARTS[name], field.name, value) if value else ast.Other()
        if name in ("~~", "!~~"):
            like = _like(field.name, value)
            return like if name == "~~" or isinstance(like, ast.Other) else ast.Not(like)
        return ast.Other()

    def _column(self, node: Any) -> pa.Field | None:
        if node["class"] != "COLUMN_REF" or len(node["column_names"]) != 1:
            return None
        return self.schema.field(self.resolve(node["column_names"][0], self.schema, place(node, self.text)))

    def _constant(self, node: Any, field: pa.Field) -> Any:
        """A constant as a value of the type of a column; None where it has none that means the same."""
        if node["class"] == "CONSTANT":
            kind, text = node["literal"]["kind"], node["literal"].get("text", "")
            if kind == "STRING":
                return self._typed(text, field, node)
            if kind == "INTEGER":
                return _whole(int(text.replace("_", "")), field)
            if kind == "NUMERIC":
                return _real(text.replace("_", ""), field)
            if kind == "BOOLEAN" and _is("boolean", field):
                return bool(text.lower() == "true")
            return None
        if not _is_constant(node):
            return None
        value, same = self._cast(duckdb_engine.written(node), field, node)
        return value if same else None

    def _typed(self, text: str, field: pa.Field, node: Any) -> Any:
        if _is("string", field):
            return text
        value, _ = self._cast(ast.shown(text), field, node)
        return value

    def _cast(self, sql: str, field: pa.Field, node: Any) -> tuple[Any, bool]:
        import duckdb
        import pyarrow as pa

        try:
            value, same = duckdb_engine.constant(sql, field.type)
        except duckdb.Error as error:
            if node["class"] != "CONSTANT":
                return None, False
            said = str(error).split("\n")[0]
            raise Problem(
                f"{node['literal']['text']!r} does not fit column {field.name!r}, which is {field.type}:"
                f" {said.split('Error: ', 1)[-1]}",
                f"Write a value of type {field.type}.",
                place(node, self.text),
                column=field.name,
            ) from None
        except (pa.ArrowException, ValueError, OverflowError):  # a date that Python has no word for
            return None, False
        return value, same


def _is(kind: str, field: pa.Field) -> bool:
    import pyarrow.types as t

    if kind == "string":
        return bool(t.is_string(field.type) or t.is_large_string(field.type))
    return bool(getattr(t, f"is_{kind}")(field.type))


def _whole(value: int, field: pa.Field) -> Any:
    import pyarrow.types as t

    kind = field.type
    if t.is_integer(kind):
        low = -(1 << (kind.bit_width - 1)) if t.is_signed_integer(kind) else 0
        high = (1 << (kind.bit_width - (1 if t.is_signed_integer(kind) else 0))) - 1
        return value if low <= value <= high else None
    return _real(str(value), field)


def _real(text: str, field: pa.Field) -> Any:
    """A number for a column of floats or decimals, if the column can hold exactly it."""
    import pyarrow.types as t

    kind, exact = field.type, Decimal(text)
    if t.is_float64(kind) or t.is_float32(kind):
        value = float(exact)
        if not math.isfinite(value):
            return None
        if t.is_float64(kind) and Decimal(text).adjusted() < 15 and len(exact.as_tuple().digits) <= 15:
            return value  # the nearest double, whoever reads it
        return value if Decimal(value) == exact and (t.is_float64(kind) or _is_single(value)) else None
    if t.is_decimal128(kind) and "e" not in text.lower() and kind.precision <= 18:
        digits = exact.as_tuple()
        scale = -int(digits.exponent)
        fits = scale <= kind.scale and len(digits.digits) - scale <= kind.precision - kind.scale
        return exact if fits else None
    return None


def _is_single(value: float) -> bool:
    try:
        return bool(struct.unpack("f", struct.pack("f", value))[0] == value)
    except OverflowError:
        return False


def _sort(option: Any) -> str:
    return str(option["literal"]["kind"]) if option["class"] == "CONSTANT" else "CAST"


def _text(node: Any) -> str | None:
    if node["class"] == "CONSTANT" and node["literal"]["kind"] == "STRING":
        return str(node["literal"]["text"])
    return None


def _is_constant(node: Any) -> bool:
    """Whether it is a constant that is cast."""
    return node["class"] == "CAST" and all(n["class"] in ("CONSTANT", "TYPE") for n in nodes(node))


def _like(column: str, pattern: str) -> ast.Condition:
    """A pattern that asks for a start, an end, a part or the whole of a text."""
    body = pattern.strip("%")
    if "_" in body or "%" in body or "\\" in pattern or "_" in pattern or not body:
        return ast.Other()
    start, end = not pattern.startswith("%"), not pattern.endswith("%")
    if start and end:
        return ast.Compare(column, "=", pattern)
    return ast.Part("starts_with" if start else "ends_with" if end else "contains", column, body)
