"""Random expressions of pyarrow over the table of the filter grammar. Each can be computed on every row."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from tests.filters.grammar import SCHEMA, TEXTS, VALUES

COMPARED = ["id", "i8", "a b", "Order", "u8", "f", "select", "s", 'x"y', "ünï", "d", "ts", "tz", "tms", "dec", "bin"]
COMPARE = [pc.equal, pc.not_equal, pc.less, pc.less_equal, pc.greater, pc.greater_equal]
SMALL = ["id", "i8", "a b", "u8"]
TEXT = ["s", 'x"y']


class ArrowFilters:
    """Plain ones and others mixed, so that what Lance takes and what pyarrow tells stand side by side."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def draw(self) -> pc.Expression:
        return self.condition(3)

    def condition(self, depth: int) -> pc.Expression:
        pick = self.random.random()
        if depth == 0 or pick < 0.5:
            return self.plain()
        left, right = self.condition(depth - 1), self.condition(depth - 1)
        if pick < 0.85:
            return self.random.choice([left & right, left | right, ~left])
        return self.random.choice(
            [
                pc.xor(left, right),
                pc.if_else(left, right, self.condition(depth - 1)),
                pc.coalesce(left, pc.scalar(True)),
                left.is_null(),
                pc.and_not_kleene(left, right),
            ]
        )

    def plain(self) -> pc.Expression:
        makes = [self.compared] * 5 + [self.listed] * 3 + [self.nulls] * 2 + [self.texts] * 3
        make = self.random.choice([*makes, self.computed, self.flags, self.moments])
        return make()

    def literal(self, column: str) -> Any:
        """A value of the column's, in its type or in the one that Python gives it."""
        value = self.random.choice(VALUES.get(column, [0, 1, 5, 30, 61]))
        typed = pa.scalar(value, SCHEMA.field(column).type)
        return self.random.choice([typed, pa.scalar(value)]) if column in [*SMALL, "Order", *TEXT, "d", "ts"] else typed

    def compared(self) -> pc.Expression:
        column = self.random.choice(COMPARED)
        sides = [pc.field(column), pc.scalar(self.literal(column))]
        if self.random.random() < 0.2:
            sides.reverse()
        if self.random.random() < 0.1:
            sides[1] = pc.scalar(pa.scalar(None, SCHEMA.field(column).type))
        return self.random.choice(COMPARE)(*sides)

    def listed(self) -> pc.Expression:
        column = self.random.choice([c for c in COMPARED if c not in ("dec",)])
        kind = SCHEMA.field(column).type
        values = [self.random.choice(VALUES.get(column, [0, 1, 5])) for _ in range(self.random.randint(0, 30))]
        if self.random.random() < 0.3:
            values.append(None)
        given = pa.array(values, kind)
        return pc.is_in(pc.field(column), value_set=given, skip_nulls=self.random.random() < 0.3)

    def nulls(self) -> pc.Expression:
        column = pc.field(self.random.choice([f.name for f in SCHEMA]))
        return self.random.choice([column.is_null(), column.is_valid(), ~column.is_null()])

    def flags(self) -> pc.Expression:
        flag = pc.field("ünï")
        return self.random.choice([flag, ~flag, flag == pc.scalar(True), flag | flag.is_null(), pc.scalar(True)])

    def texts(self) -> pc.Expression:
        column, text = pc.field(self.random.choice(TEXT)), self.random.choice(TEXTS)
        fold = self.random.random() < 0.5
        match = self.random.choice([pc.match_substring, pc.starts_with, pc.ends_with])
        return self.random.choice(
            [
                match(column, text, ignore_case=fold),
                pc.match_like(column, f"{text.replace(chr(92), '')}%", ignore_case=fold),
                pc.utf8_length(column) > 1,
                pc.utf8_upper(column) == text,
            ]
        )

    def computed(self) -> pc.Expression:
        column = pc.field(self.random.choice(SMALL)).cast(pa.int64())
        return self.random.choice(
            [
                column + 3 > 4,
                pc.divide(column, 2) == -3,
                pc.power(pc.field("i8").cast(pa.int64()), 2) == 1,
                pc.field("Order").cast(pa.int8(), safe=False) == -1,
                pc.if_else(pc.field("s") == "a", column, pc.scalar(9)) == 9,
                pc.bit_wise_and(column, 1) == 1,
                pc.field("i8") == pc.field("a b"),
            ]
        )

    def moments(self) -> pc.Expression:
        return self.random.choice(
            [pc.year(pc.field("d")) == 2020, pc.hour(pc.field("ts")) == 12, pc.field("ts") < pc.field("tms")]
        )
