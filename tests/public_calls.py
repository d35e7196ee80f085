"""Every public function, and calls of it with arguments that it was not made for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from quire.lake.commit.transaction import TransactionOptions


class Odd:
    """An object that can do nothing."""


class Rude:
    """An object whose every use fails."""

    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        raise ValueError("no comparison")

    def __hash__(self) -> int:
        return 1


ODD_VALUES: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "True": lambda: True,
    "0": lambda: 0,
    "-1": lambda: -1,
    "2**70": lambda: 2**70,
    "1.5": lambda: 1.5,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "empty text": lambda: "",
    "text": lambda: "5",
    "text with a zero": lambda: "a\0b",
    "half a character": lambda: "\ud800",
    "long text": lambda: "x" * 100_000,
    "bytes": lambda: b"bytes",
    "[]": lambda: [],
    "[1]": lambda: [1],
    "[None]": lambda: [None],
    "['text']": lambda: ["text"],
    "[[1, 2], [3]]": lambda: [[1, 2], [3]],
    "(1, 'a')": lambda: (1, "a"),
    "{}": lambda: {},
    "{1: 2}": lambda: {1: 2},
    "{'id': 'text'}": lambda: {"id": "text"},
    "[{'id': []}]": lambda: [{"id": []}],
    "a set": lambda: {1, "a"},
    "an object": Odd,
    "a rude object": Rude,
    "a class": lambda: Odd,
    "a function": lambda: lambda *a, **k: 1,
    "a generator": lambda: (x for x in [1, 2]),
    "a date": lambda: date(2020, 1, 1),
    "a time": lambda: datetime(2020, 1, 1),
    "a length of time": lambda: timedelta(days=-1),
    "a decimal": lambda: Decimal("1.1"),
    "an array": lambda: np.arange(6).reshape(2, 3),
    "an Arrow array": lambda: pa.array([1, 2]),
    "an Arrow table": lambda: pa.table({"other": [1]}),
    "a schema": lambda: pa.schema({"id": pa.int64()}),
    "a path": lambda: Path("/proc/nowhere/at/all"),
}


@dataclass(frozen=True)
class Each:
    """A right value that every call needs anew, such as a name that is free."""

    make: Callable[[], Any]


@dataclass(frozen=True)
class Call:
    """A public function, and arguments that it takes."""

    name: str
    function: Callable[[], Callable[..., Any]]
    right: Mapping[str, Any]
    parameters: tuple[inspect.Parameter, ...]

    def arguments(self, odd: str | None = None, value: Any = None) -> tuple[list[Any], dict[str, Any]]:
        """What must be given, as it should be, and `value` for the parameter `odd`."""
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for parameter in self.parameters:
            given = value if parameter.name == odd else self.right.get(parameter.name, parameter.default)
            if isinstance(given, Each):
                given = given.make()
            if parameter.kind is parameter.VAR_POSITIONAL:
                positional += [value] if parameter.name == odd else [] if given is parameter.empty else given
            elif parameter.kind is parameter.VAR_KEYWORD:
                named |= {"misspelt": value} if parameter.name == odd else {} if given is parameter.empty else given
            elif given is parameter.empty and parameter.name in _options_of(self.parameters):
                continue
            elif given is parameter.empty:
                raise AssertionError(f"{self.name} needs a right value for {parameter.name!r}")
            elif parameter.kind is parameter.KEYWORD_ONLY:
                named[parameter.name] = given
            else:
                positional.append(given)
        return positional, named


def call_of(name: str, function: Any, bound: Callable[[], Callable[..., Any]], right: Mapping[str, Any]) -> Call:
    parameters = tuple(p for p in inspect.signature(function).parameters.values() if p.name != "self")
    return Call(name, bound, right, (*parameters, *_options_of(parameters).values()))


def _options_of(parameters: tuple[inspect.Parameter, ...]) -> dict[str, inspect.Parameter]:
    """The options of a transaction, one by one, where a function takes them all."""
    if not any("TransactionOptions" in str(p.annotation) and p.kind is p.VAR_KEYWORD for p in parameters):
        return {}
    known = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is not p.empty}
    names = [name for name in TransactionOptions.__annotations__ if name not in known]
    return {name: inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names}


def calls_of(
    cls: type, make: Callable[[], Any], right: Mapping[str, Mapping[str, Any]], leave: frozenset[str] = frozenset()
) -> Iterator[Call]:
    """Every public method of a class, also `x[…]` and `… in x`, on an object that is made for each call."""
    for name in dir(cls):
        found = inspect.getattr_static(cls, name)
        public = not name.startswith("_") or name in ("__getitem__", "__contains__")
        if public and name not in leave and inspect.isfunction(found):
            yield call_of(f"{cls.__name__}.{name}", found, lambda name=name: getattr(make(), name), right.get(name, {}))
