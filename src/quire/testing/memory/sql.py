"""Predicates and expressions over columns of Python values.

The small everyday part of SQL (comparisons, arithmetic, `and`, `or`, `not`, `in`, `is null`, `between`) is compiled to
functions over lists, which is what makes ten thousands of simulated histories cheap. Everything else goes to DuckDB.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from quire.errors import InvalidExpression

if TYPE_CHECKING:
    import pyarrow as pa

Values = list[Any]
Evaluate = Callable[[Mapping[str, Values], int], Values]

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+\.\d+|\d+)|(?P<text>'(?:[^']|'')*')|(?P<name>[A-Za-z_]\w*|`[^`]+`)"
    r"|(?P<op><=|>=|<>|!=|[=<>+\-*/%(),]))"
)
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_WORDS = frozenset({"and", "or", "not", "in", "is", "null", "between", "true", "false"})


class _Beyond(Exception):
    """More than this parser knows."""


@dataclass(frozen=True)
class Node:
    kind: str
    """`int`, `float`, `text`, `bool` or `null`."""
    run: Evaluate


def matches(text: str, schema: pa.Schema, columns: Mapping[str, Values], rows: int) -> list[int]:
    """Positions of the rows for which a predicate is true."""
    node = _compiled(text, _shape(schema))
    if node is None:
        [found] = _in_duckdb([f"({text}\n)"], schema, columns, rows)
        if found.type not in _boolean():
            raise _invalid(text, "it is not a condition")
        return [i for i, value in enumerate(found.to_pylist()) if value]
    if node.kind not in ("bool", "null"):
        raise _invalid(text, "it is not a condition")
    return [i for i, value in enumerate(node.run(columns, rows)) if value]


def compute(text: str, schema: pa.Schema, columns: Mapping[str, Values], rows: int) -> pa.Array:
    """An expression's value for every row."""
    import pyarrow as pa

    node = _compiled(text, _shape(schema))
    if node is None:
        [found] = _in_duckdb([f"({text}\n)"], schema, columns, rows)
        return found
    kinds = {"int": pa.int64(), "float": pa.float64(), "text": pa.string(), "bool": pa.bool_(), "null": pa.null()}
    try:
        return pa.array(node.run(columns, rows), kinds[node.kind])
    except (pa.ArrowException, OverflowError) as error:
        raise _invalid(text, str(error).splitlines()[0]) from None


def quoted_for_duckdb(text: str) -> str:
    """The same text with names in the quotes that DuckDB knows. Quotes inside text stay as they are."""
    parts = re.split(r"('(?:[^']|'')*')", text)
    return "".join(p if i % 2 else re.sub(r"`([^`]+)`", r'"\1"', p) for i, p in enumerate(parts))


def _shape(schema: pa.Schema) -> tuple[tuple[str, str], ...]:
    import pyarrow.types as t

    def kind(type_: pa.DataType) -> str:
        if t.is_boolean(type_):
            return "bool"
        if t.is_integer(type_):
            return "int"
        if t.is_floating(type_):
            return "float"
        return "text" if t.is_string(type_) or t.is_large_string(type_) else "other"

    return tuple((f.name, kind(f.type)) for f in schema)


@lru_cache(maxsize=4096)
def _compiled(text: str, shape: tuple[tuple[str, str], ...]) -> Node | None:
    try:
        return _Parser(text, dict(shape)).whole()
    except _Beyond:
        return None


class _Parser:
    """Precedence climbing by hand: or, and, not, comparison, sum, product, sign."""

    def __init__(self, text: str, kinds: dict[str, str]) -> None:
        self.kinds = kinds
        self.tokens: list[tuple[str, str]] = []
        position, text = 0, text.rstrip()
        while position < len(text):
            found = _TOKEN.match(text, position)
            if found is None or found.lastgroup is None:
                raise _Beyond
            self.tokens.append((found.lastgroup, found.group(found.lastgroup)))
            position = found.end()
        self.at = 0

    def whole(self) -> Node:
        node = self.either()
        if self.at != len(self.tokens):
            raise _Beyond
        return node

    def peek(self) -> str:
        if self.at >= len(self.tokens):
            return ""
        group, value = self.tokens[self.at]
        return value.lower() if group in ("op", "name") else ""

    def take(self, *wanted: str) -> str | None:
        if self.peek() in wanted:
            self.at += 1
            return self.tokens[self.at - 1][1].lower()
        return None

    def need(self, wanted: str) -> None:
        if self.take(wanted) is None:
            raise _Beyond

    def either(self) -> Node:
        node = self.both()
        while self.take("or"):
            node = _logic(node, self.both(), decides=True)
        return node

    def both(self) -> Node:
        node = self.negation()
        while self.take("and"):
            node = _logic(node, self.negation(), decides=False)
        return node

    def negation(self) -> Node:
        if not self.take("not"):
            return self.comparison()
        return _not(self.negation())

    def comparison(self) -> Node:
        left = self.sum()
        symbol = self.take(*_COMPARE)
        if symbol:
            return _binary(left, self.sum(), _COMPARE[symbol], "bool")
        if self.take("is"):
            negative = self.take("not") is not None
            self.need("null")
            return Node("bool", lambda c, n: [(v is None) != negative for v in left.run(c, n)])
        negative = self.take("not") is not None
        if self.take("in"):
            node = self.membership(left)
        elif self.take("between"):
            low = self.sum()
            self.need("and")
            bounds = _binary(left, low, operator.ge, "bool"), _binary(left, self.sum(), operator.le, "bool")
            node = _logic(*bounds, decides=False)
        elif negative:
            raise _Beyond
        else:
            return left
        return _not(node) if negative else node

    def membership(self, left: Node) -> Node:
        self.need("(")
        node = _binary(left, self.sum(), operator.eq, "bool")
        while self.take(","):
            node = _logic(node, _binary(left, self.sum(), operator.eq, "bool"), decides=True)
        self.need(")")
        return node

    def sum(self) -> Node:
        node = self.product()
        while symbol := self.take("+", "-"):
            node = _arithmetic(node, self.product(), operator.add if symbol == "+" else operator.sub)
        return node

    def product(self) -> Node:
        node = self.sign()
        while symbol := self.take("*", "/", "%"):
            node = _arithmetic(node, self.sign(), {"*": operator.mul, "/": _divide, "%": _remainder}[symbol])
        return node

    def sign(self) -> Node:
        if self.take("-"):
            inner = self.sign()
            return _arithmetic(Node("int", lambda _, n: [0] * n), inner, operator.sub)
        return self.primary()

    def primary(self) -> Node:
        if self.take("("):
            node = self.either()
            self.need(")")
            return node
        if self.at >= len(self.tokens):
            raise _Beyond
        group, value = self.tokens[self.at]
        self.at += 1
        if group == "number":
            return _constant(float(value), "float") if "." in value else _constant(int(value), "int")
        if group == "text":
            return _constant(value[1:-1].replace("''", "'"), "text")
        if group == "name":
            return self.name(value)
        raise _Beyond

    def name(self, value: str) -> Node:
        word = value.lower()
        if word in ("true", "false"):
            return _constant(word == "true", "bool")
        if word == "null":
            return _constant(None, "null")
        name = value.strip("`")
        if (word in _WORDS and value == name) or self.kinds.get(name, "other") == "other":
            raise _Beyond
        return Node(self.kinds[name], lambda columns, _: columns[name])


def _constant(value: Any, kind: str) -> Node:
    return Node(kind, lambda _, n: [value] * n)


def _binary(left: Node, right: Node, act: Callable[[Any, Any], Any], kind: str) -> Node:
    """`act` on both sides, null if either is. Sides that SQL would have to convert go to DuckDB."""
    families = {"int": "number", "float": "number"}
    a, b = families.get(left.kind, left.kind), families.get(right.kind, right.kind)
    if a != b and "null" not in (a, b):
        raise _Beyond

    def run(columns: Mapping[str, Values], rows: int) -> Values:
        pairs = zip(left.run(columns, rows), right.run(columns, rows), strict=True)
        return [None if x is None or y is None else act(x, y) for x, y in pairs]

    return Node(kind, run)


def _arithmetic(left: Node, right: Node, act: Callable[[Any, Any], Any]) -> Node:
    kinds = {left.kind, right.kind}
    if not kinds <= {"int", "float"}:
        raise _Beyond
    return _binary(left, right, act, "float" if "float" in kinds else "int")


def _divide(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int):
        if b == 0:
            raise _invalid(f"{a} / 0", "division by zero")
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    if b == 0:
        return float("nan") if a == 0 or a != a else float("inf") * (1 if a > 0 else -1)
    return a / b


def _remainder(a: Any, b: Any) -> Any:
    if b == 0:
        raise _invalid(f"{a} % 0", "division by zero")
    return abs(a) % abs(b) * (1 if a >= 0 else -1)


def _logic(left: Node, right: Node, *, decides: bool) -> Node:
    """`and` (decided by false) and `or` (decided by true), with SQL's third value."""
    if not {left.kind, right.kind} <= {"bool", "null"}:
        raise _Beyond

    def run(columns: Mapping[str, Values], rows: int) -> Values:
        pairs = zip(left.run(columns, rows), right.run(columns, rows), strict=True)
        return [
            decides if x is decides or y is decides else None if x is None or y is None else not decides
            for x, y in pairs
        ]

    return Node("bool", run)


def _not(inner: Node) -> Node:
    if inner.kind not in ("bool", "null"):
        raise _Beyond
    return Node("bool", lambda c, n: [None if v is None else not v for v in inner.run(c, n)])


def _in_duckdb(texts: list[str], schema: pa.Schema, columns: Mapping[str, Values], rows: int) -> list[pa.Array]:
    import duckdb
    import pyarrow as pa

    table = pa.table([pa.array(columns[f.name], f.type) for f in schema], schema=schema)
    wanted = ", ".join(quoted_for_duckdb(text) for text in texts)
    try:
        with duckdb.connect(config={"enable_external_access": "false", "threads": "1"}) as connection:
            connection.register("rows", table)
            found = connection.sql(f"select {wanted} from rows").to_arrow_table()
    except (duckdb.Error, pa.ArrowException) as error:
        raise _invalid(" / ".join(texts), str(error).splitlines()[0]) from None
    if found.num_columns != len(texts) or found.num_rows != rows:
        raise _invalid(" / ".join(texts), "it is not one value per row")
    return [found.column(i).combine_chunks() for i in range(len(texts))]


def _boolean() -> tuple[Any, ...]:
    import pyarrow as pa

    return (pa.bool_(), pa.null())


def _invalid(text: str, reason: str) -> InvalidExpression:
    return InvalidExpression(
        f"{text!r} is not a valid expression here: {reason}.",
        next="Quote text with '…' and unusual column names with `…`.",
        expression=text,
    )
