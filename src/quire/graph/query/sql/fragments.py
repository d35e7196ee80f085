"""Parts of SQL that mean the same in every dialect. Values are bound, never written into the text; names are Quire's.

values = Values()
compared(values.sql, ">", "v1_4", I64, values.add(2.5, F64), F64)      # exact, whatever the types of the two numbers
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from quire.graph.query.sql.dialect import DUCKDB, Dialect
from quire.graph.types import Type

OPERATORS = {"=": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


class Values:
    """The values that one statement binds, by name."""

    def __init__(self, dialect: Dialect = DUCKDB) -> None:
        self.sql = dialect
        self.bound: dict[str, Any] = {}

    def add(self, value: Any, type: Type) -> str:
        """SQL for a value of a type of the graph."""
        return self.cast(value, self.sql.kind(type))

    def cast(self, value: Any, kind: str) -> str:
        """SQL for a value of a type of the dialect."""
        name = f"p{len(self.bound)}"
        self.bound[name], written = self.sql.bound(name, value, kind)
        return written


def all_of(terms: Iterable[str]) -> str:
    """All of the conditions; true when there is none."""
    found = list(terms)
    if not found:
        return "TRUE"
    return found[0] if len(found) == 1 else "(" + " AND ".join(found) + ")"


def any_of(terms: Iterable[str]) -> str:
    """Any of the conditions; false when there is none."""
    found = list(terms)
    return "(" + " OR ".join(found) + ")" if found else "FALSE"


LONG = 200
"""Longer terms are written once, however often they are needed: they would double with every level of nesting."""


def once(sql: Dialect, term: str, write: Callable[[str], str]) -> str:
    """What `write` makes of a term, without repeating a long one."""
    return write(term) if len(term) <= LONG else sql.with_value(term, "v", write("v"))


def finite(sql: Dialect, term: str) -> str:
    """A float as it is; an error where it overflowed."""
    failed = sql.fail("a number overflows F64")
    return once(sql, term, lambda v: f"CASE WHEN {v} IS NULL OR {sql.is_finite(v)} THEN {v} ELSE {failed} END")


def arithmetic(sql: Dialect, operator: str, left: str, right: str, type: Type, *, wide: bool = False) -> str:
    """`left operator right`: whole numbers as I64, everything else as F64. Overflow and division by zero are errors.

    `wide`: a side may be larger than I64; only the result has to fit.
    """
    if type.is_integer and wide:
        return f"CAST((CAST({left} AS {sql.wide}) {operator} CAST({right} AS {sql.wide})) AS BIGINT)"
    if type.is_integer:
        return f"(CAST({left} AS BIGINT) {operator} CAST({right} AS BIGINT))"
    left, right = f"CAST({left} AS DOUBLE)", f"CAST({right} AS DOUBLE)"
    if operator not in "/%":
        return finite(sql, f"({left} {operator} {right})")
    if len(left) + len(right) <= LONG:
        return finite(sql, _divided(sql, operator, left, right))
    return finite(sql, sql.with_value(sql.pair(left, right), "v", _divided(sql, operator, "v.l", "v.r")))


def _divided(sql: Dialect, operator: str, left: str, right: str) -> str:
    """Null divided by zero is null, as everything that is made of null."""
    failed = sql.fail("division by zero")
    divisor = f"CASE WHEN {right} = 0 AND {left} IS NOT NULL THEN {failed} ELSE {right} END"
    return f"({left} {operator} {divisor})"


def compared(sql: Dialect, operator: str, left: str, left_type: Type, right: str, right_type: Type) -> str:
    """A comparison that is exact for numbers of any two types; never true where one side is null."""
    if not (left_type.is_number and right_type.is_number):
        return f"({left} {OPERATORS[operator]} {right})"
    if left_type.is_integer and right_type.is_integer:
        wide = "U64" in (left_type.base, right_type.base) and left_type.base != right_type.base
        if wide:
            left, right = f"CAST({left} AS {sql.wide})", f"CAST({right} AS {sql.wide})"
        return f"({left} {OPERATORS[operator]} {right})"
    if left_type.is_integer:
        return _whole_to_float(sql, operator, left, right)
    if right_type.is_integer:
        return _whole_to_float(sql, MIRRORED[operator], right, left)
    return f"(CAST({left} AS DOUBLE) {OPERATORS[operator]} CAST({right} AS DOUBLE))"


def _whole_to_float(sql: Dialect, operator: str, whole: str, real: str) -> str:
    """Compare as whole numbers: as floats, large ones that differ would be equal."""
    left = f"CAST({whole} AS {sql.wide})"
    low, high = sql.floor_and_ceiling(f"CAST({real} AS DOUBLE)")
    if operator == "=":
        return f"({low} = {high} AND {left} = {low})"
    if operator == "!=":
        return f"({whole} IS NOT NULL AND ({low} <> {high} OR {left} <> {low}))"
    return f"({left} {operator} {high if operator in ('<', '>=') else low})"


def among(sql: Dialect, operand: str, operand_type: Type, options: str, options_type: Type) -> str:
    """Whether a value is in a list, compared as `compared` does."""
    item = Type(options_type.base, values=options_type.values)
    if item.is_number and operand_type.is_number and item.base != operand_type.base:
        return sql.has_such(options, "x", compared(sql, "=", "x", item, operand, operand_type))
    return f"({operand} IS NOT NULL AND {sql.has(options, operand)})"
