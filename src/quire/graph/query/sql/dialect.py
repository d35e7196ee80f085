"""What SQL engines write differently: types, parameters, lists, errors, and whole numbers beyond 64 bits.

`DUCKDB` is the engine of this process; `SPARK` is Spark SQL with its ANSI rules, which is what Spark 4 has by default.
Everything else of a statement is the same text for both.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Sequence
from typing import Any

from quire.graph.types import Type

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Dialect:
    """DuckDB's way of writing. Another engine overrides what it writes differently."""

    wide = "HUGEINT"
    """Whole numbers of which sums and products of 64-bit ones are."""
    kinds = {
        "String": "VARCHAR",
        "enum": "VARCHAR",
        "Blob": "BLOB",
        "Bool": "BOOLEAN",
        "I32": "INTEGER",
        "I64": "BIGINT",
        "U32": "UINTEGER",
        "U64": "UBIGINT",
        "F32": "FLOAT",
        "F64": "DOUBLE",
        "Date": "DATE",
        "DateTime": "TIMESTAMPTZ",
    }
    starts_with = "starts_with"
    chance = "random()"
    """A number from 0 on that is another one in every row."""
    most_rows = 2**63 - 1
    """A limit and an offset together are at most this."""

    def kind(self, type: Type) -> str:
        """The type that a type of the graph is held in."""
        if type.base == "Vector":
            return f"FLOAT[{type.size}]"
        return self.many(self.kinds[type.base]) if type.many else self.kinds[type.base]

    def many(self, kind: str) -> str:
        """The type of lists of a type."""
        return f"{kind}[]"

    def relation(self, name: str) -> str:
        """A table that is given to the statement."""
        return name

    def bound(self, name: str, value: Any, kind: str) -> tuple[Any, str]:
        """What is bound to a name, and the SQL that makes a value of a type of it."""
        return value, f"CAST(${name} AS {kind})"

    def items(self, terms: Sequence[str]) -> str:
        return f"[{', '.join(terms)}]"

    def with_value(self, term: str, name: str, body: str) -> str:
        """A term in which `name` stands for the value of another, which is computed once."""
        return f"list_transform([{term}], lambda {name}: {body})[1]"

    def pair(self, left: str, right: str) -> str:
        """Two values as one, with the parts `l` and `r`."""
        return f"{{'l': {left}, 'r': {right}}}"

    def collected(self, argument: str, kind: str, value: str) -> str:
        """An aggregate: the list of the values that are there, the smallest first."""
        return f"coalesce(list_sort(list({argument}) FILTER ({value} IS NOT NULL)), CAST([] AS {kind}))"

    def fail(self, message: str) -> str:
        """A term that is never a value: the query fails."""
        return f"error('{message}')"

    def is_finite(self, term: str) -> str:
        return f"isfinite({term})"

    def has(self, items: str, item: str) -> str:
        """Whether a list has an item, by plain equality."""
        return f"list_contains({items}, {item})"

    def has_such(self, items: str, name: str, test: str) -> str:
        """Whether a test holds of an item, which it calls by `name`."""
        return f"(len(list_filter({items}, lambda {name}: {test})) > 0)"

    def floor_and_ceiling(self, real: str) -> tuple[str, str]:
        """A float as the whole numbers next to it, exactly. What is beyond all 64-bit numbers may be any such."""
        far = "1e30"
        near = f"CASE WHEN {real} > {far} THEN {far} WHEN {real} < -{far} THEN -{far} ELSE {real} END"
        return f"CAST(floor({near}) AS {self.wide})", f"CAST(ceil({near}) AS {self.wide})"


class Spark(Dialect):
    """Spark SQL. Values are bound in types that reach the JVM unchanged, and made what they are by the SQL."""

    wide = "DECIMAL(20, 0)"
    kinds = {
        **Dialect.kinds,
        "String": "STRING",
        "enum": "STRING",
        "Blob": "BINARY",
        "I32": "INT",
        "U32": "BIGINT",
        "U64": "DECIMAL(20, 0)",
        "DateTime": "TIMESTAMP",
    }
    starts_with = "startswith"
    chance = "rand()"
    most_rows = 2**31 - 1

    def kind(self, type: Type) -> str:
        return self.many("FLOAT") if type.base == "Vector" else super().kind(type)

    def many(self, kind: str) -> str:
        return f"ARRAY<{kind}>"

    def relation(self, name: str) -> str:
        return f"{{{name}}}"  # Spark puts a frame there

    def bound(self, name: str, value: Any, kind: str) -> tuple[Any, str]:
        if kind.startswith("ARRAY<"):
            inner = kind.removeprefix("ARRAY<").removesuffix(">")
            # All items of a list that is bound must be of one type, so they are texts.
            texts = None if value is None else [_text(_plain(item)) for item in value]
            if inner in ("DATE", "TIMESTAMP"):
                return texts, f"transform(CAST(:{name} AS ARRAY<BIGINT>), i -> {_made('i', inner)})"
            return texts, f"CAST(:{name} AS {kind})"
        return _plain(value), _made(f":{name}", kind)

    def items(self, terms: Sequence[str]) -> str:
        return f"array({', '.join(terms)})"

    def with_value(self, term: str, name: str, body: str) -> str:
        return f"transform(array({term}), {name} -> {body})[0]"

    def pair(self, left: str, right: str) -> str:
        return f"named_struct('l', {left}, 'r', {right})"

    def collected(self, argument: str, kind: str, value: str) -> str:
        return f"CAST(array_sort(collect_list({argument})) AS {kind})"

    def fail(self, message: str) -> str:
        return f"raise_error('{message}')"

    def is_finite(self, term: str) -> str:
        return f"(abs({term}) <= 1.7976931348623157E308D)"

    def has(self, items: str, item: str) -> str:
        return f"array_contains({items}, {item})"

    def has_such(self, items: str, name: str, test: str) -> str:
        return f"exists({items}, {name} -> {test})"

    def floor_and_ceiling(self, real: str) -> tuple[str, str]:
        # Spark makes decimals of the shortest text of a float, which is not its value. Two halves of 32 bits are exact.
        far, half = "1E20D", "4294967296D"
        near = f"CASE WHEN {real} > {far} THEN {far} WHEN {real} < -{far} THEN -{far} ELSE {real} END"

        def whole(rounded: str) -> str:
            high = f"CAST(CAST(v / {half} AS BIGINT) AS {self.wide}) * 4294967296"
            low = f"CAST(CAST(v % {half} AS BIGINT) AS {self.wide})"
            return self.with_value(near, "v", f"{high} + {low} + {rounded}")

        down = "CASE WHEN v % 1D < 0D THEN -1 ELSE 0 END"
        up = "CASE WHEN v % 1D > 0D THEN 1 ELSE 0 END"
        return whole(down), whole(up)


def _plain(value: Any) -> Any:
    """A value in a type that Spark takes as it is: times as numbers, numbers that may be large as decimals."""
    if isinstance(value, dt.datetime):
        return (value - _EPOCH) // dt.timedelta(microseconds=1)
    if isinstance(value, dt.date):
        return value.toordinal() - _EPOCH.toordinal()
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        return decimal.Decimal(value)
    return value


def _made(term: str, kind: str) -> str:
    """SQL for a value of a type from what `_plain` gave."""
    if kind == "DATE":
        return f"date_from_unix_date(CAST({term} AS INT))"
    return f"timestamp_micros(CAST({term} AS BIGINT))" if kind == "TIMESTAMP" else f"CAST({term} AS {kind})"


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return str(value).lower() if isinstance(value, bool) else repr(value) if isinstance(value, float) else str(value)


DUCKDB = Dialect()
SPARK = Spark()
