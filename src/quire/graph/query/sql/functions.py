"""The functions of `language.functions` as SQL, in each dialect. A place stands for its argument: `{0}`, `{1}`."""

from __future__ import annotations

from collections.abc import Sequence

from quire.graph.language import plan
from quire.graph.query.sql.dialect import SPARK, Dialect
from quire.graph.query.sql.fragments import LONG, once
from quire.graph.types import Type

_FAR = 1_000_000_000
"""No text and no list has so many places."""
_DAY = 86_400_000_000
"""Microseconds."""
_FIRST, _LAST = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The microseconds of the years 1 and 9999."""


def _place(name: str) -> str:
    """A count that is at least 0 and fits 32 bits."""
    held = f"CASE WHEN {{{name}}} < 0 THEN 0 WHEN {{{name}}} > {_FAR} THEN {_FAR} ELSE {{{name}}} END"
    return f"CAST({held} AS INTEGER)"


def _rest(term: str, size: int) -> str:
    """A remainder that is at least 0."""
    return f"((({term} % {size}) + {size}) % {size})"


_BOTH = {
    "trim": "trim({0})",
    "length": "CAST(length({0}) AS BIGINT)",
    "substring": f"substring({{0}}, {_place('1')} + 1, {_place('2')})",
    "replace": "replace({0}, {1}, {2})",
    "year": "CAST(year({0}) AS BIGINT)",
    "month": "CAST(month({0}) AS BIGINT)",
    "day": "CAST(day({0}) AS BIGINT)",
}
_DUCKDB = {
    **_BOTH,
    "lower": "lower({0})",
    "upper": "upper({0})",
    "split": "CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL WHEN {1} = '' THEN [{0}] ELSE string_split({0}, {1}) END",
    "join": "CASE WHEN len({0}) = 0 AND {1} IS NOT NULL THEN '' ELSE array_to_string({0}, {1}) END",
    "weekday": "CAST(isodow({0}) AS BIGINT)",
    "hour": f"({_rest('epoch_us({0})', _DAY)} // 3600000000)",
    "minute": f"({_rest('epoch_us({0})', 3_600_000_000)} // 60000000)",
    "second": f"({_rest('epoch_us({0})', 60_000_000)} // 1000000)",
    "date": f"(DATE '1970-01-01' + CAST((epoch_us({{0}}) - {_rest('epoch_us({0})', _DAY)}) // {_DAY} AS INTEGER))",
    "days_between": "CAST({1} - {0} AS BIGINT)",
    "size": "CAST(len({0}) AS BIGINT)",
    "first": "({0})[1]",
    "last": "({0})[-1]",
    "item": f"CASE WHEN {{1}} >= 0 THEN ({{0}})[{_place('1')} + 1] END",
    "slice": "CASE WHEN {1} IS NOT NULL AND {2} IS NOT NULL THEN"
    f" ({{0}})[{_place('1')} + 1 : {_place('1')} + {_place('2')}] END",
    "sorted": "list_sort({0})",
    "reverse": "list_reverse({0})",
}
_BACKSLASH = "char(92)"
_GREEK = "".join(chr(c) for c in range(0x1F80, 0x2000) if len(chr(c).upper()) > 1 and len(chr(c).title()) == 1)
"""Letters whose one capital Java does not use."""


def _cased(function: str, some: str, others: str) -> str:
    """Letter by letter, as DuckDB does it: Java makes several of one, and another one at the end of a word."""
    one = f"CASE WHEN length({function}(c)) = 1 THEN {function}(c) ELSE translate(c, '{some}', '{others}') END"
    return f"array_join(transform(regexp_extract_all({{0}}, '(?s).', 0), c -> {one}), '')"


_SPARK = {
    **_BOTH,
    "lower": _cased("lower", "İ", "i"),
    "upper": _cased("upper", "ß" + _GREEK, "ẞ" + "".join(letter.title() for letter in _GREEK)),
    # What the text is split at is written as itself in a regular expression.
    "split": "CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL WHEN {1} = '' THEN array({0}) ELSE split({0}, "
    f"concat({_BACKSLASH}, 'Q', replace({{1}}, concat({_BACKSLASH}, 'E'), concat({_BACKSLASH}, 'E', {_BACKSLASH}, "
    f"{_BACKSLASH}, 'E', {_BACKSLASH}, 'Q')), {_BACKSLASH}, 'E'), -1) END",
    "join": "array_join({0}, {1})",
    "weekday": "CAST(weekday({0}) + 1 AS BIGINT)",
    "hour": f"({_rest('unix_micros({0})', _DAY)} div 3600000000)",
    "minute": f"({_rest('unix_micros({0})', 3_600_000_000)} div 60000000)",
    "second": f"({_rest('unix_micros({0})', 60_000_000)} div 1000000)",
    "date": f"date_from_unix_date(CAST((unix_micros({{0}}) - {_rest('unix_micros({0})', _DAY)}) div {_DAY} AS INT))",
    "days_between": "CAST(datediff({1}, {0}) AS BIGINT)",
    "size": "CAST(array_size({0}) AS BIGINT)",
    "first": "get({0}, 0)",
    "last": "try_element_at({0}, -1)",
    "item": f"CASE WHEN {{1}} >= 0 THEN get({{0}}, {_place('1')}) END",
    "slice": f"slice({{0}}, {_place('1')} + 1, {_place('2')})",
    "sorted": "array_sort({0})",
    "reverse": "reverse({0})",
}
_OF_DATES = ("year", "month", "day", "weekday")


def called(sql: Dialect, term: plan.Function, arguments: Sequence[str], kinds: Sequence[Type]) -> str:
    """SQL for a function of values."""
    texts = _SPARK if sql is SPARK else _DUCKDB
    if term.name == "coalesce":
        return f"coalesce({', '.join(f'CAST({one} AS {sql.kind(term.type)})' for one in arguments)})"
    if term.name == "concat":
        return f"({' || '.join(arguments)})"
    if term.name == "add_days":
        return _later(sql, kinds[0], *arguments)
    first, *rest = arguments
    if term.name in _OF_DATES and kinds[0].base == "DateTime":
        first = _filled(sql, texts["date"], [first])
    if term.name in ("substring", "slice") and len(rest) == 1:
        rest.append(str(_FAR))
    return _filled(sql, texts[term.name], [first, *rest])


def _filled(sql: Dialect, text: str, arguments: Sequence[str]) -> str:
    """A text with its arguments; long ones that it uses often are written once."""
    shown, often = [], []
    for number, argument in enumerate(arguments):
        is_often = len(argument) > LONG and text.count(f"{{{number}}}") > 1
        shown.append(f"a{number}" if is_often else argument)
        often += [number] if is_often else []
    filled = text.format(*shown)
    for number in often:
        filled = sql.with_value(arguments[number], f"a{number}", filled)
    return filled


def _later(sql: Dialect, kind: Type, start: str, days: str) -> str:
    """A date or a time so many days later; an error beyond the years 1 to 9999."""
    failed = sql.fail("a date is outside of the years 1 to 9999")
    most = 4_000_000
    held = _filled(
        sql, f"CASE WHEN {{0}} > {most} THEN {most} WHEN {{0}} < -{most} THEN -{most} ELSE {{0}} END", [days]
    )
    if kind.base == "Date":
        spark = f"date_add({start}, CAST({held} AS INT))"
        found = spark if sql is SPARK else f"({start} + CAST({held} AS INTEGER))"
        low, high = "DATE '0001-01-01'", "DATE '9999-12-31'"
        return once(sql, found, lambda v: f"CASE WHEN {v} < {low} OR {v} > {high} THEN {failed} ELSE {v} END")
    micros = f"({'unix_micros' if sql is SPARK else 'epoch_us'}({start}) + CAST({held} AS BIGINT) * {_DAY})"
    within = once(sql, micros, lambda v: f"CASE WHEN {v} < {_FIRST} OR {v} > {_LAST} THEN {failed} ELSE {v} END")
    return f"timestamp_micros({within})" if sql is SPARK else f"CAST(make_timestamp({within}) AS TIMESTAMPTZ)"


def chosen(sql: Dialect, type: Type, branches: Sequence[tuple[str, str]], otherwise: str | None) -> str:
    """SQL for a `case`: conditions with their values, each as the type of all."""
    kind = sql.kind(type)
    whens = " ".join(f"WHEN {test} THEN CAST({value} AS {kind})" for test, value in branches)
    return f"CASE {whens}{'' if otherwise is None else f' ELSE CAST({otherwise} AS {kind})'} END"
