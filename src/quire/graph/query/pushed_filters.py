"""Predicates as filters of a Lance scan: what can be pushed into the scan exactly, and nothing else.

A filter is a condition with typed values. What has no exact form here is left to the SQL above the scan, which takes
everything.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Literal

from quire.filters import Condition, Part, every
from quire.graph.integrity.lookups import TEXT, compare, is_in, is_null, negated
from quire.graph.language import plan
from quire.graph.query.known_values import Known
from quire.graph.query.sql.fragments import MIRRORED, OPERATORS
from quire.graph.types import INTEGERS, Type


def both(filters: Sequence[Condition]) -> Condition | None:
    """All of some filters; None when there is none."""
    return every(filters) if filters else None


class Filters:
    """Filters of the scan of one variable."""

    def __init__(self, variable: str, known: Known) -> None:
        self.variable, self.known = variable, known

    def push(self, term: plan.Condition) -> Condition | None:
        """The filter that says the same as a condition, if there is one."""
        match term:
            case plan.Compare():
                return self._compare(term)
            case plan.In():
                return self._in(term)
            case plan.IsNull() if (column := self._column(term.operand)) is not None:
                found = is_null(column[0])
                return negated(found) if term.negated else found
            case plan.StartsWith():
                return self._text("starts_with", term.left, term.right)
            case plan.Contains(among="text"):
                return self._text("contains", term.left, term.right)
        return None

    def _compare(self, term: plan.Compare) -> Condition | None:
        left, right, operator = term.left, term.right, term.operator
        if self._column(left) is None:
            left, right, operator = right, left, MIRRORED[operator]  # type: ignore[assignment]
        column = self._column(left)
        if column is None or not self.known.holds(right):
            return None
        name, type = column
        value = self.known.value(right)
        if value is None:
            return None
        if type.is_number:
            found = _fitting(operator, value, type)
            if found is None:
                return None
            operator, value = found  # type: ignore[assignment]
        return compare(name, _written(type), OPERATORS[operator], value)  # type: ignore[arg-type]

    def _in(self, term: plan.In) -> Condition | None:
        column = self._column(term.operand)
        if column is None or not self.known.holds(term.options):
            return None
        name, type = column
        values = [v for v in self.known.value(term.options) or () if v is not None]
        if type.is_number:
            values = [found[1] for v in values if (found := _fitting("=", v, type)) is not None]
        return is_in(name, _written(type), values) if values else None

    def _text(
        self, function: Literal["starts_with", "contains"], left: plan.Expression, right: plan.Expression
    ) -> Condition | None:
        column = self._column(left)
        if column is None or not self.known.holds(right):
            return None
        value = self.known.value(right)
        # Not every reader of a filter agrees on what an empty text is part of.
        return Part(function, column[0], value) if value else None

    def _column(self, term: plan.Expression) -> tuple[str, Type] | None:
        if isinstance(term, plan.Field) and term.variable == self.variable and not term.type.many:
            return term.property.column, term.type
        if isinstance(term, plan.System) and term.variable == self.variable:
            return term.column, term.type
        return None


def _written(type: Type) -> Type:
    """The type that values are written as: those that an enum is compared with need not be its own."""
    return TEXT if type.base == "enum" else type


def _fitting(operator: str, value: int | float, type: Type) -> tuple[str, int | float] | None:
    """The same comparison with a value that the column's type holds exactly; None where there is no such value."""
    if type.is_integer:
        if isinstance(value, float) and not value.is_integer():
            if operator in ("=", "!=") or not math.isfinite(value):
                return None
            value = math.ceil(value) if operator in ("<", ">=") else math.floor(value)
        low, high = INTEGERS[type.base]
        return (operator, int(value)) if low <= value <= high else None
    try:
        real = float(value)
    except OverflowError:
        return None
    if real != value or (type.base == "F32" and not _is_single(real)):
        return None
    return operator, real


def _is_single(value: float) -> bool:
    """Whether 32 bits hold it."""
    try:
        return bool(struct.unpack("f", struct.pack("f", value))[0] == value)
    except OverflowError:
        return False
