"""Conditions of Spark's optimized plans as conditions of Quire, as far as both mean the same.

Spark keeps its own filter above the scan. So what is pushed may keep more rows than the filter, and never fewer: a part
that is not understood is left out.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from quire.filters import Both, Compare, Condition, Either, Flag, In, IsNull, Not, Part, every

_EPOCH = dt.datetime(1970, 1, 1)
_OPERATORS: dict[str, Any] = {
    "EqualTo": "=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}
_TURNED: dict[str, Any] = {"=": "=", ">": "<", ">=": "<=", "<": ">", "<=": ">="}
_PARTS: dict[str, Any] = {"StartsWith": "starts_with", "EndsWith": "ends_with", "Contains": "contains"}


def pushed(text: str, columns: Mapping[str, Any]) -> Condition | None:
    """What the JSON of an expression says of these columns (names and Arrow types), or None if it is nothing known."""
    try:
        return _implied(_tree(iter(json.loads(text))), columns)
    except (StopIteration, KeyError, TypeError, ValueError):  # another Spark writes its expressions in another way
        return None


class _Node:
    def __init__(self, said: dict[str, Any], children: list[_Node]) -> None:
        self.said, self.children = said, children
        self.kind = str(said["class"]).rsplit(".", 1)[-1]


def _tree(nodes: Any) -> _Node:
    """The nodes come one after the other, each before its children."""
    said = next(nodes)
    return _Node(said, [_tree(nodes) for _ in range(said["num-children"])])


def _implied(node: _Node, columns: Mapping[str, Any]) -> Condition | None:
    """A condition that is true wherever the expression is."""
    if node.kind == "And":
        parts = [found for child in _flat(node) if (found := _implied(child, columns)) is not None]
        compared = {part.column for part in parts if isinstance(part, Compare | In | Part)}
        parts = [part for part in parts if not _is_there(part, compared)]
        return every(parts) if parts else None
    if node.kind == "Or":
        both = [_implied(child, columns) for child in node.children]
        return None if None in both else Either(tuple(part for part in both if part is not None))
    if node.kind == "EqualNullSafe":
        return _compared(node, "=", columns)
    return _exact(node, columns)


def _flat(node: _Node) -> list[_Node]:
    return [one for child in node.children for one in _flat(child)] if node.kind == "And" else [node]


def _is_there(part: Condition, compared: set[str]) -> bool:
    """Whether it only says that a column is not null, which a comparison of that column says too."""
    return isinstance(part, Not) and isinstance(part.inner, IsNull) and part.inner.column in compared


def _exact(node: _Node, columns: Mapping[str, Any]) -> Condition | None:
    """A condition that is true, false and null where the expression is."""
    if node.kind in ("And", "Or"):
        both = [_exact(child, columns) for child in node.children]
        known = tuple(part for part in both if part is not None)
        return None if len(known) < len(both) else Both(known) if node.kind == "And" else Either(known)
    if node.kind == "Not":
        inner = _exact(node.children[0], columns)
        return None if inner is None else Not(inner)
    if node.kind in _OPERATORS:
        return _compared(node, _OPERATORS[node.kind], columns)
    column = _column(node.children[0], columns) if node.children else None
    if node.kind == "AttributeReference":
        return Flag(node.said["name"]) if _is_column(node, columns) and node.said["dataType"] == "boolean" else None
    if column is None:
        return None
    if node.kind in ("IsNull", "IsNotNull"):
        return IsNull(column) if node.kind == "IsNull" else Not(IsNull(column))
    values = [_value(child, node.children[0], columns) for child in node.children[1:]]
    if None in values:
        return None
    if node.kind == "In" and values:
        return In(column, tuple(values))
    if node.kind in _PARTS and values[0]:
        return Part(_PARTS[node.kind], column, values[0])
    return None


def _compared(node: _Node, operator: Any, columns: Mapping[str, Any]) -> Condition | None:
    left, right = node.children
    if left.kind == "Literal":
        left, right, operator = right, left, _TURNED[operator]
    column, value = _column(left, columns), _value(right, left, columns)
    return None if column is None or value is None else Compare(column, operator, value)


def _is_column(node: _Node, columns: Mapping[str, Any]) -> bool:
    return node.kind == "AttributeReference" and node.said["name"] in columns


def _column(node: _Node, columns: Mapping[str, Any]) -> str | None:
    return str(node.said["name"]) if _is_column(node, columns) else None


def _value(node: _Node, beside: _Node, columns: Mapping[str, Any]) -> Any:
    """The value of a literal that is compared with a column, or None."""
    if node.kind != "Literal" or node.said["value"] is None or not _is_column(beside, columns):
        return None
    kind, given = beside.said["dataType"], node.said["dataType"]
    if kind in ("timestamp", "timestamp_ntz"):
        return _time(node.said["value"], kind) if given == "long" else None
    if not isinstance(kind, str) or kind != given:
        return None
    read = _decimal(columns[beside.said["name"]]) if kind.startswith("decimal") else _READ.get(kind)
    try:
        return None if read is None else read(node.said["value"])
    except (ValueError, OverflowError, InvalidOperation):
        return None


def _time(text: str, kind: str) -> dt.datetime | None:
    try:
        found = _EPOCH + dt.timedelta(microseconds=int(text))
    except OverflowError:  # beyond Python's calendar
        return None
    return found.replace(tzinfo=dt.UTC) if kind == "timestamp" else found


def _decimal(kind: Any) -> Callable[[str], Any] | None:
    import pyarrow.types as t

    return int if t.is_uint64(kind) else Decimal if t.is_decimal128(kind) else None


def _single(text: str) -> float:
    """Java writes as few digits as tell one single from the next."""
    import numpy as np

    return float(np.float32(text))


_READ: dict[str, Callable[[str], Any]] = {
    "byte": int,
    "short": int,
    "integer": int,
    "long": int,
    "string": str,
    "date": dt.date.fromisoformat,
    "double": float,
    "float": _single,
}
