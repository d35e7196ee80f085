"""Numbers that are written out and compared with an F32: as that type holds them.

The 0.1 of a row is the number of 32 bits that is nearest to 0.1, and the one of a query would be the nearest of 64
bits, which is another one. So what is written out is made the first. A parameter says its type, and stays what it is.
"""

from __future__ import annotations

from dataclasses import replace

from quire.graph.language import plan
from quire.graph.types import Type, Wrong

SINGLE = Type("F32")


def as_stored(found: plan.Predicate) -> plan.Predicate:
    """The same predicate with its constants as the F32 that they are compared with holds them."""
    match found:
        case plan.Compare():
            return replace(found, left=_beside(found.left, found.right), right=_beside(found.right, found.left))
        case plan.In():
            operand, options = found.operand, found.options
            return plan.In(_beside(operand, options), _beside(options, operand))
        case plan.Contains(among="list"):
            return replace(found, right=_beside(found.right, found.left))
        case _:
            return found


def _beside(side: plan.Expression, other: plan.Expression) -> plan.Expression:
    if other.type is None or other.type.base != "F32":
        return side
    match side:
        case plan.Constant() if side.type.many:
            item = Type(side.type.base)
            return _list([_single(plan.Constant(value, item)) for value in side.value], side)
        case plan.ListOf():
            return _list([_single(item) for item in side.items], side)
        case _:
            return _single(side)


def _list(items: list[plan.Expression], given: plan.Constant | plan.ListOf) -> plan.Expression:
    values = [item.value for item in items if isinstance(item, plan.Constant) and item.type == SINGLE]
    if len(values) == len(items):
        return plan.Constant(values, Type("F32", many=True))
    return plan.ListOf(tuple(items), given.type)


def _single(given: plan.Expression) -> plan.Expression:
    """A number as F32; everything else, and what F32 cannot hold, as it is: that is compared exactly."""
    value = given.operand if isinstance(given, plan.Negate) else given
    if not isinstance(value, plan.Constant) or not value.type.is_number:
        return given
    try:
        return plan.Constant(SINGLE.value(-value.value if value is not given else value.value), SINGLE)
    except Wrong:
        return given
