"""The values of expressions that need no rows, or but one: what statements assign."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from typing import Any

from quire.errors import InvalidQuery
from quire.graph.language import plan
from quire.graph.types import INTEGERS


def evaluate(
    expression: plan.Expression, values: Mapping[str, Any], now: dt.datetime, row: Mapping[str, Any] | None = None
) -> Any:
    """The value of an expression of constants, parameters (as `bind` gives them) and now(). Null in, null out.

    `row` has the columns of the row that an update sees.
    """
    match expression:
        case plan.Field() if row is not None:
            return row[expression.property.column]
        case plan.System() if row is not None:
            return row[expression.column]
        case plan.Constant():
            return expression.value
        case plan.Parameter():
            return values[expression.name]
        case plan.Now():
            return now
        case plan.ListOf():
            return [evaluate(item, values, now, row) for item in expression.items]
        case plan.Negate():
            operand = evaluate(expression.operand, values, now, row)
            return None if operand is None else _checked(-operand, expression)
        case plan.Arithmetic():
            left = evaluate(expression.left, values, now, row)
            right = evaluate(expression.right, values, now, row)
            return None if left is None or right is None else _computed(expression, left, right)
        case _:
            raise TypeError(f"{type(expression).__name__} has a value only in a row")


def _computed(expression: plan.Arithmetic, left: Any, right: Any) -> Any:
    sign = expression.operator
    if sign in "/%" and right == 0:
        raise InvalidQuery(f"{left} {sign} {right} divides by zero.", next="Give another value.")
    try:
        match sign:
            case "+":
                value = left + right
            case "-":
                value = left - right
            case "*":
                value = left * right
            case "/":
                value = float(left) / float(right)
            case "%":
                # The sign follows the left side, as in SQL.
                value = math.fmod(left, right) if expression.type.base == "F64" else _remainder(left, right)
    except OverflowError:
        value = math.inf
    return _checked(value, expression)


def _remainder(left: int, right: int) -> int:
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


def _checked(value: Any, expression: plan.Arithmetic | plan.Negate) -> Any:
    low, high = INTEGERS["I64"]
    if expression.type.base == "F64":
        value = float(value)
        good = math.isfinite(value)
    else:
        good = low <= value <= high
    if not good:
        raise InvalidQuery(
            f"The result {value} of arithmetic is too large for {expression.type.base}.", next="Give smaller numbers."
        )
    return value
