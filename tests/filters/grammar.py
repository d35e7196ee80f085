"""Random rows and random filters over them, for one table with columns of many types and odd names."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("i8", pa.int8()),
        pa.field("a b", pa.int32()),
        pa.field("Order", pa.int64()),
        pa.field("u8", pa.uint8()),
        pa.field("count_all", pa.uint64()),
        pa.field("f", pa.float64()),
        pa.field("select", pa.float32()),
        pa.field("half", pa.float16()),
        pa.field("s", pa.string()),
        pa.field('x"y', pa.large_string()),
        pa.field("ünï", pa.bool_()),
        pa.field("d", pa.date32()),
        pa.field("ts", pa.timestamp("us")),
        pa.field("tz", pa.timestamp("us", "UTC")),
        pa.field("tms", pa.timestamp("ms")),
        pa.field("there", pa.timestamp("us", "Europe/Berlin")),
        pa.field("dec", pa.decimal128(10, 2)),
        pa.field("bin", pa.binary()),
        pa.field("l", pa.list_(pa.int32())),
        pa.field("st", pa.struct([("a", pa.int64()), ("b", pa.string())])),
        pa.field("v", pa.list_(pa.float32(), 2)),
        pa.field("body", pa.string()),
        pa.field("mark", pa.bool_()),
    ]
)
TEXTS = [
    "",
    "a",
    "A",
    "ab",
    "a%b",
    "%",
    "_",
    "a_b",
    "it's",
    'q"q',
    "\\",
    "a\\%",
    "ü",
    "Ü",
    "é\u0301",
    "x\ny",
    "`t`",
    "1",
]
TICK = "\x01"
"""Stands for a backtick around a name until the filter is drawn."""
MOMENTS = [
    dt.datetime(2020, 1, 1),
    dt.datetime(2020, 1, 1, 12, 30, 15, 250_000),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999_000),
    dt.datetime(1500, 6, 1),
    dt.datetime(2300, 1, 1),
]
VALUES: dict[str, list[Any]] = {
    "i8": [-128, -1, 0, 1, 2, 127],
    "a b": [-(2**31), -7, 0, 1, 2, 3, 2**31 - 1],
    "Order": [-(2**63), -5, 0, 1, 2, 2**53 + 1, 2**63 - 1],
    "u8": [0, 1, 2, 200, 255],
    "count_all": [0, 1, 2, 2**63, 2**64 - 1],
    "f": [0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf, 0.1, 1.5, -2.0, 1e300],
    "select": [0.0, -0.0, math.nan, math.inf, 0.5, 0.1, -2.0],
    "half": [0.0, -0.0, math.nan, 0.5, -2.0],
    "s": TEXTS,
    'x"y': TEXTS,
    "ünï": [True, False],
    "d": [m.date() for m in MOMENTS],
    "ts": MOMENTS,
    "tz": [m.replace(tzinfo=dt.UTC) for m in MOMENTS],
    "tms": MOMENTS,
    "there": [m.replace(tzinfo=dt.UTC) for m in MOMENTS],
    "dec": [Decimal("0.00"), Decimal("1.50"), Decimal("-1.50"), Decimal("99999999.99")],
    "bin": [b"", b"a", b"\x00\xff", b"'"],
    "l": [[], [1], [1, None, 2], [None], [3, 3]],
    "st": [{"a": 1, "b": "x"}, {"a": None, "b": None}, {"a": 2, "b": "it's"}],
}
INTEGERS = ["id", "i8", "a b", "Order", "u8", "count_all"]
FLOATS = ["f", "select", "half"]
TEXT = ["s", 'x"y']
MOMENT = ["d", "ts", "tz", "tms", "there"]
OPERATORS = ["=", "<>", "!=", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]


def rows(random: Random, first: int, count: int) -> pa.Table:
    """Rows with ids from `first` on, a quarter of their values null."""

    def column(field: pa.Field) -> pa.Array:
        if field.name == "id":
            return pa.array(range(first, first + count), field.type)
        if field.name == "v":
            return pa.array([[float(n), 1.0] for n in range(count)], field.type)
        if field.name == "body":
            return pa.array([f"common {n}" for n in range(count)])
        if field.name == "mark":
            return pa.array([False] * count)
        values = [None if random.random() < 0.25 else random.choice(VALUES[field.name]) for _ in range(count)]
        return pa.array(values, field.type)

    return pa.table([column(field) for field in SCHEMA], schema=SCHEMA)


class Filters:
    """Filters by a grammar: every one parses, has a type, and gives a truth value."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def draw(self) -> tuple[str, str]:
        """A filter as a person may write it, and the same without backticks."""
        drawn = self.condition(3)
        return drawn.replace(TICK, "`"), drawn.replace(TICK, '"')

    def condition(self, depth: int) -> str:
        pick = self.random.random()
        if depth == 0 or pick < 0.45:
            return self.plain()
        if pick < 0.75:
            word = self.random.choice([" and ", " or ", " AND ", " OR "])
            return word.join(f"({self.condition(depth - 1)})" for _ in range(self.random.randint(2, 3)))
        if pick < 0.85:
            return f"not ({self.condition(depth - 1)})"
        if pick < 0.9:
            return f"({self.condition(depth - 1)}) is {self.random.choice(['', 'not '])}null"
        if pick < 0.95:
            when, then, other = (self.condition(depth - 1) for _ in range(3))
            return f"case when {when} then {then} else {other} end"
        return f"coalesce({self.condition(depth - 1)}, {self.random.choice(['true', 'false'])})"

    def plain(self) -> str:
        make = self.random.choice(
            [
                *[self.integers] * 4,
                *[self.floats] * 3,
                *[self.texts] * 4,
                *[self.moments] * 3,
                *[self.nulls] * 2,
                *(self.flags, self.decimals, self.bytes, self.nested, self.arithmetic, self.constants),
            ]
        )
        return make()

    def name(self, column: str) -> str:
        """A column as a person writes it: bare where that is allowed, in some case or other."""
        plain = column.isidentifier() and column.isascii() and column.lower() not in ("select", "order")
        choices = ['"' + column.replace('"', '""') + '"']
        if plain:
            choices += [column, column, column.upper()]
        if '"' not in column:
            choices.append(f"{TICK}{column}{TICK}")
        return self.random.choice(choices)

    def integers(self) -> str:
        column = self.random.choice(INTEGERS)
        return self.compared(column, lambda: str(self.integer(column)))

    def integer(self, column: str) -> int | str:
        given = VALUES.get(column, [0, 1, 5, 30])
        text = self.random.choice(list(map(str, given)))
        return self.random.choice([text, text, text, f"'{text}'", "300", "-1", "7", "1.5", "2.0", "1e3"])

    def floats(self) -> str:
        column = self.random.choice(FLOATS)
        numbers = ["0", "-0.0", "0.0", "0.5", "0.1", "1.5", "-2", "1e300", "'nan'::double", "'inf'::double", "3e-5"]
        return self.compared(column, lambda: self.random.choice(numbers))

    def texts(self) -> str:
        column = self.random.choice(TEXT)
        name, text = self.name(column), self.random.choice(TEXTS)
        pick = self.random.random()
        if pick < 0.4:
            return self.compared(column, lambda: quoted(self.random.choice(TEXTS)))
        if pick < 0.7:
            pattern = quoted(self.random.choice([f"{text}%", f"%{text}", f"%{text}%", text, "a_%", "%_b", "a\\%%"]))
            word = self.random.choice(["like", "not like", "ilike", "LIKE"])
            escape = self.random.choice(["", "", " escape '\\'"]) if "\\" not in pattern else ""
            return f"{name} {word} {pattern}{escape}"
        if pick < 0.85:
            function = self.random.choice(["starts_with", "ends_with", "contains", "prefix", "suffix"])
            return f"{function}({name}, {quoted(text)})"
        if pick < 0.95:
            function = self.random.choice(["upper", "lower", "trim", "reverse"])
            return f"{function}({name}) = {quoted(text)}"
        return f"length({name}) {self.operator()} {self.random.randint(0, 3)}"

    def moments(self) -> str:
        column = self.random.choice(MOMENT)

        def constant() -> str:
            moment = self.random.choice(MOMENTS)
            text = moment.date().isoformat() if column == "d" else moment.isoformat(sep=" ")
            plain = [f"'{text}'", f"'{text}'", f"'{moment.date().isoformat()}'"]
            kinds = {"d": "date", "ts": "timestamp", "tms": "timestamp", "tz": "timestamptz", "there": "timestamptz"}
            return self.random.choice([*plain, f"{kinds[column]} '{text}'"])

        if self.random.random() < 0.15:
            return f"year({self.name(column)}) = 2020"
        return self.compared(column, constant)

    def nulls(self) -> str:
        column = self.random.choice([f.name for f in SCHEMA])
        return f"{self.name(column)} is {self.random.choice(['', 'not '])}null"

    def flags(self) -> str:
        name = self.name("ünï")
        return self.random.choice([name, f"not {name}", f"{name} = true", f"{name} is true", f"{name} <> false"])

    def decimals(self) -> str:
        return self.compared("dec", lambda: self.random.choice(["1.5", "0", "-1.50", "1.505", "99999999.99", "'1.5'"]))

    def bytes(self) -> str:
        return self.compared("bin", lambda: self.random.choice(["''::blob", "'a'::blob", "x'00ff'"]))

    def nested(self) -> str:
        return self.random.choice(
            [
                "l[1] = 1",
                "list_contains(l, 2)",
                "len(l) > 1",
                "st.a = 2",
                "st['b'] = 'x'",
                f"{TICK}st{TICK}.b is null",
                "list_filter(l, lambda x: x > 1) <> []",
                "v[1] > 3",
                '"v"[2] = 1',
                "st = {'a': 1, 'b': 'x'}",
            ]
        )

    def arithmetic(self) -> str:
        left, right = self.name(self.random.choice(["i8", "a b", "u8"])), self.random.choice(["2", "3", "7"])
        sign = self.random.choice(["+", "-", "*", "/", "//", "%"])
        return f"{left}::bigint {sign} {right} {self.operator()} {self.random.choice(['0', '1', '2', '1.5'])}"

    def constants(self) -> str:
        return self.random.choice(["true", "false", "null::boolean", "1 = 1", "'a' < 'b'", "2 in (1, 2)"])

    def operator(self) -> str:
        return self.random.choice(OPERATORS)

    def compared(self, column: str, constant: Any) -> str:
        name, pick = self.name(column), self.random.random()
        if pick < 0.6:
            return f"{name} {self.operator()} {constant()}"
        if pick < 0.7:
            return f"{constant()} {self.random.choice(OPERATORS[:7])} {name}"
        if pick < 0.85:
            options = [constant() for _ in range(self.random.randint(1, 4))]
            if self.random.random() < 0.15:
                options.append("null")
            return f"{name} {self.random.choice(['in', 'not in'])} ({', '.join(options)})"
        if pick < 0.95:
            return f"{name} {self.random.choice(['', 'not '])}between {constant()} and {constant()}"
        return f"{name} = {name}"


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
