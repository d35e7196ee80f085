"""Values as the language means them: exact numbers, nulls that match nothing, errors instead of overflows."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, TypeVar

T = TypeVar("T")
I64 = (-(2**63), 2**63 - 1)
_OPERATORS = {"=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le} | {
    ">": operator.gt,
    ">=": operator.ge,
}


class Undefined(Exception):
    """A value that cannot be computed."""


class Unclear(Undefined):
    """The same in what may be left out before it is computed: the answer may be an error, or go without it."""


def compared(sign: str, left: Any, right: Any) -> bool:
    """Whether a comparison holds. Python compares whole numbers with floats exactly, and texts by their characters."""
    return left is not None and right is not None and bool(_OPERATORS[sign](left, right))


def arithmetic(sign: str, left: Any, right: Any) -> Any:
    if left is None or right is None:
        return None
    if isinstance(left, int) and isinstance(right, int) and sign != "/":
        return _whole(sign, left, right)
    try:
        a, b = float(left), float(right)
        if sign == "%":
            return _finite(math.fmod(a, b))
        found = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}[sign](a, b)
        return _finite(found)
    except (ZeroDivisionError, OverflowError, ValueError):
        raise Undefined from None


def _whole(sign: str, left: int, right: int) -> int:
    if sign == "%":
        if right == 0:
            raise Undefined
        return (
            int(math.copysign(abs(left) % abs(right), left)) if abs(left) < 2**53 else left - right * _cut(left, right)
        )
    return _within({"+": left + right, "-": left - right, "*": left * right}[sign])


def _cut(left: int, right: int) -> int:
    """A quotient without its fraction."""
    found = abs(left) // abs(right)
    return found if (left < 0) == (right < 0) else -found


def _within(value: int) -> int:
    if not I64[0] <= value <= I64[1]:
        raise Undefined
    return value


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise Undefined
    return value + 0.0  # minus zero is zero


def negated(value: Any) -> Any:
    if value is None:
        return None
    return _within(-value) if isinstance(value, int) else -value + 0.0


def aggregate(function: str, values: list[Any], distinct: bool) -> Any:
    """An aggregate of the values that are there."""
    if distinct:
        values = list(dict.fromkeys(values))
    if function == "collect":
        return sorted(values)
    if function == "count":
        return len(values)
    if not values:
        return None
    if function == "avg":
        return _finite(math.fsum(map(float, values)) / len(values))
    if function == "sum":
        return _within(sum(values)) if isinstance(values[0], int) else _finite(math.fsum(values))
    return min(values) if function == "min" else max(values)


def sorted_by(rows: list[T], keys: Sequence[tuple[list[Any], bool]]) -> list[T]:
    """Rows by several columns, each with its direction; null is the smallest value."""
    order = list(range(len(rows)))
    for column, descending in reversed(keys):
        order.sort(key=lambda n: (column[n] is not None, column[n] if column[n] is not None else 0), reverse=descending)
    return [rows[n] for n in order]


def same(one: Any, other: Any) -> bool:
    """Whether two answers are the same value, but for the last digits of a float."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(map(same, one.values(), other.values()))
    return type(one) is type(other) and bool(one == other)


def left_over(some: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """What is in some rows and not in others, each as often as it is there more."""
    left, missing = list(others), []
    for row in some:
        found = next((n for n, other in enumerate(left) if same(row, other)), None)
        if found is None:
            missing.append(row)
        else:
            left.pop(found)
    return missing
