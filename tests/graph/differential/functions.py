"""The functions of values on plain values, and drawing calls of them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.graph.differential.values import Undefined
from tests.graph.differential.world import Pick

FIRST, LAST = dt.date(1, 1, 1), dt.date(9999, 12, 31)


def called(name: str, values: Sequence[Any]) -> Any:
    """What a function gives for values. Null in, null out, but for `coalesce`."""
    if name == "coalesce":
        return next((v for v in values if v is not None), None)
    return None if None in values else VALUES[name](*values)


def _substring(text: str, start: int, count: int | None = None) -> str:
    start = max(start, 0)
    return text[start:] if count is None else text[start : start + max(count, 0)]


def _slice(items: list[Any], start: int, count: int | None = None) -> list[Any]:
    start = max(start, 0)
    return items[start:] if count is None else items[start : start + max(count, 0)]


def _later(start: dt.date, days: int) -> dt.date:
    try:
        return start + dt.timedelta(days=days)
    except OverflowError:
        raise Undefined from None


VALUES: dict[str, Callable[..., Any]] = {
    "lower": str.lower,
    "upper": str.upper,
    "trim": lambda text: text.strip(" "),
    "length": len,
    "substring": _substring,
    "replace": lambda text, old, new: text.replace(old, new) if old else text,
    "concat": lambda *texts: "".join(texts),
    "split": lambda text, at: text.split(at) if at else [text],
    "join": lambda items, between: between.join(items),
    "year": lambda at: at.year,
    "month": lambda at: at.month,
    "day": lambda at: at.day,
    "weekday": lambda at: at.isoweekday(),
    "hour": lambda at: at.hour,
    "minute": lambda at: at.minute,
    "second": lambda at: at.second,
    "date": lambda at: at.date(),
    "add_days": _later,
    "days_between": lambda start, end: (end - start).days,
    "size": len,
    "first": lambda items: items[0] if items else None,
    "last": lambda items: items[-1] if items else None,
    "item": lambda items, at: items[at] if 0 <= at < len(items) else None,
    "slice": _slice,
    "sorted": sorted,
    "reverse": lambda items: items[::-1],
}
NAMES = (*VALUES, "coalesce")


@dataclass(frozen=True)
class Drawn:
    """An expression, what it is in the witness, and its type."""

    text: str
    value: Any
    base: str
    many: bool = False


class Calls:
    """Draws calls over some properties, and over what is written out where there is none of a type."""

    def __init__(self, pick: Pick, given: Sequence[Drawn], literal: Callable[[Any], str]) -> None:
        self.pick, self.given, self.literal = pick, given, literal

    def draw(self, name: str) -> Drawn:
        """A call of a function."""
        if name == "coalesce":
            first = self._source(lambda d: d.base in ("String", "I64", "Date", "F64"), self._text)
            others = [d for d in self.given if (d.base, d.many) == (first.base, first.many)]
            arguments = [first, *([self.pick.one(others)] if others and self.pick.chance(60) else [])]
            written = {"String": ("", "x"), "I64": (0, 7), "F64": (0.5,), "Date": (dt.date(2020, 2, 29),)}[first.base]
            if len(arguments) == 1 and first.many:
                arguments.append(first)
            elif not first.many:
                arguments.append(self._written(self.pick.one(written), first.base))
        else:
            arguments = self._arguments(name)
        shown = f"{name}({', '.join(a.text for a in arguments)})"
        try:
            value = called(name, [a.value for a in arguments])
        except Undefined:
            value = None
        kind = arguments[0]
        base, many = {
            "split": ("String", True),
            "join": ("String", False),
            "date": ("Date", False),
            "add_days": (kind.base, False),
            "first": (kind.base, False),
            "last": (kind.base, False),
            "item": (kind.base, False),
            "coalesce": (kind.base, kind.many),
        }.get(name) or (
            (kind.base, True)
            if name in ("slice", "sorted", "reverse")
            else ("String", False)
            if name in ("lower", "upper", "trim", "substring", "replace", "concat")
            else ("I64", False)
        )
        return Drawn(shown, value, base, many)

    def _arguments(self, name: str) -> list[Drawn]:
        match name:
            case "lower" | "upper" | "trim" | "length":
                return [self._text()]
            case "substring":
                return [self._text(), *self._counts()]
            case "replace":
                return [self._text(), self._part(), self._part()]
            case "concat":
                return [self._text() for _ in range(self.pick.number(2, 3))]
            case "split":
                return [self._text(), self._part()]
            case "join":
                return [self._list("String"), self._part()]
            case "year" | "month" | "day" | "weekday":
                return [self._date() if self.pick.chance(50) else self._time()]
            case "hour" | "minute" | "second" | "date":
                return [self._time()]
            case "add_days":
                days = self.pick.one((1, 31, -400, 0, 4_000_000))
                return [self._date() if self.pick.chance(60) else self._time(), self._written(days, "I64")]
            case "days_between":
                return [self._date(), self._date()]
            case "size" | "first" | "last" | "sorted" | "reverse":
                return [self._list()]
            case "item":
                return [self._list(), self._counts()[0]]
            case _:
                return [self._list(), *self._counts()]

    def _counts(self) -> list[Drawn]:
        values = [self.pick.one((0, 1, 2, -1, 2**62)) for _ in range(self.pick.number(1, 2))]
        return [self._written(v, "I64") for v in values]

    def _part(self) -> Drawn:
        return self._written(self.pick.one(("b", "", " ", "a.", "\\E", "it's")), "String")

    def _written(self, value: Any, base: str) -> Drawn:
        return Drawn(self.literal(value), value, base)

    def _source(self, wanted: Callable[[Drawn], bool], otherwise: Callable[[], Drawn]) -> Drawn:
        found = [d for d in self.given if wanted(d)]
        return self.pick.one(found) if found and self.pick.chance(85) else otherwise()

    def _text(self) -> Drawn:
        return self._source(lambda d: d.base == "String" and not d.many, lambda: self._written(" Ab.b ", "String"))

    def _date(self) -> Drawn:
        return self._source(lambda d: d.base == "Date", lambda: self._written(dt.date(1999, 12, 31), "Date"))

    def _time(self) -> Drawn:
        early = dt.datetime(1901, 2, 3, 4, 5, 6, tzinfo=dt.UTC)
        return self._source(lambda d: d.base == "DateTime", lambda: self._written(early, "DateTime"))

    def _list(self, base: str = "") -> Drawn:
        def split() -> Drawn:
            text = self._text()
            return Drawn(f'split({text.text}, "b")', called("split", [text.value, "b"]), "String", True)

        return self._source(lambda d: d.many and base in ("", d.base), split)
