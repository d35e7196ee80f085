"""Kinds of Python values: which type holds each, and what values of several kinds become together."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.conversion.rules import Unfit

if TYPE_CHECKING:
    import pyarrow as pa

_KINDS: dict[type, str] = {
    type(None): "null",
    bool: "boolean",
    np.bool_: "boolean",
    int: "integer",
    float: "float64",
    np.float64: "float64",
    np.float32: "float32",
    np.float16: "float16",
    Decimal: "decimal",
    str: "text",
    np.str_: "text",
    bytes: "binary",
    np.bytes_: "binary",
    bytearray: "binary",
    memoryview: "binary",
    dt.datetime: "datetime",
    dt.date: "date",
    dt.time: "time",
    dt.timedelta: "duration",
    np.datetime64: "numpy time",
    np.timedelta64: "numpy duration",
    uuid.UUID: "uuid",
    list: "list",
    tuple: "list",
    np.ndarray: "list",
    dict: "struct",
}
_JOINT = {
    frozenset({"integer", "float64"}): "float64",
    frozenset({"integer", "decimal"}): "decimal",
    frozenset({"float32", "float64"}): "float64",
    frozenset({"float16", "float32"}): "float32",
    frozenset({"float16", "float64"}): "float64",
    frozenset({"integer", "float32"}): "float64",
    frozenset({"datetime", "pandas time"}): "pandas time",
    frozenset({"datetime with zone", "pandas time with zone"}): "pandas time with zone",
    frozenset({"duration", "pandas duration"}): "pandas duration",
}
"""What values of two kinds become where no column says it."""


def grouped(values: Sequence[Any]) -> dict[str, Any]:
    """The kinds of the values that are not null, and where each has its own; None for all of them."""
    types = set(map(type, values))
    kinds = {one: _kind(one) for one in types}
    if len(types) == 1 and (kind := next(iter(kinds.values()))) not in _DIFFERING:
        return {} if kind == "null" else {kind: None}
    found: dict[str, list[int]] = {}
    for i, value in enumerate(values):
        kind = kinds[type(value)]
        if kind in _DIFFERING:
            kind = _exactly(kind, value)
        if kind != "null":
            found.setdefault(kind, []).append(i)
    if len(found) == 1:
        [(kind, places)] = found.items()
        plain = not kind.startswith("numpy") and all(one is type(None) for one, k in kinds.items() if k == "null")
        if plain or len(places) == len(values):
            return {kind: None}
    return {kind: np.array(places, np.int64) for kind, places in found.items()}


_DIFFERING = frozenset({"datetime", "pandas time", "numpy time", "numpy duration", "time"})
"""Kinds that depend on the value: times have a zone or none, and may be no time at all."""


@lru_cache(maxsize=1024)
def _kind(kind: type) -> str:
    found = _KINDS.get(kind)
    if found is not None:
        return found
    pandas = kind.__module__.split(".")[0] == "pandas"
    if pandas and kind.__name__ in ("NAType", "NaTType"):
        return "null"
    if pandas and issubclass(kind, dt.datetime):
        return "pandas time"
    if pandas and issubclass(kind, dt.timedelta):
        return "pandas duration"
    if kind.__module__.startswith("pyarrow.") and kind.__name__.endswith("Scalar"):
        return "arrow"
    if issubclass(kind, np.integer):
        return "integer"
    for base, name in _KINDS.items():
        if issubclass(kind, base) and not issubclass(kind, np.generic | np.void):
            return name
    if issubclass(kind, Mapping):
        return "struct"
    if issubclass(kind, Sequence | set | frozenset) or hasattr(kind, "__array__"):
        return "list" if not issubclass(kind, np.generic) else kind.__name__
    return kind.__name__


def _exactly(kind: str, value: Any) -> str:
    if kind in ("numpy time", "numpy duration"):
        return "null" if np.isnat(value) else kind
    zoned = value.tzinfo is not None and (kind == "time" or value.utcoffset() is not None)
    return f"{kind} with zone" if zoned else kind


def joint(groups: Iterable[str]) -> str | None:
    found: str | None = None
    for kind in groups:
        if found is None or found == kind:
            found = kind
        else:
            found = _JOINT.get(frozenset({found, kind}))
            if found is None:
                return None
    return found


def joint_type(kind: str, values: Sequence[Any], groups: Mapping[str, Any]) -> pa.DataType:
    """The type of values of several kinds, of which one holds the others."""
    import pyarrow as pa

    if kind == "decimal":
        scale, digits = 0, 1
        for value in (values[i] for places in groups.values() for i in places):
            exact = Decimal(int(value) if isinstance(value, np.integer) else value).as_tuple()
            if isinstance(exact.exponent, int):
                scale = max(scale, -exact.exponent)
                digits = max(digits, len(exact.digits) + exact.exponent)
        return pa.decimal128(digits + scale, scale) if digits + scale <= 38 else pa.decimal256(76, min(scale, 76))
    return {
        "float64": pa.float64(),
        "float32": pa.float32(),
        "pandas time": pa.timestamp("ns"),
        "pandas time with zone": pa.timestamp("ns", "UTC"),
        "pandas duration": pa.duration("ns"),
    }[kind]


def mixed(values: Sequence[Any], groups: Mapping[str, Any]) -> Unfit:
    """That values of different kinds have no type in common: the first that is unlike the one before."""
    firsts = sorted((int(places[0]), kind) for kind, places in groups.items())
    at, other = firsts[1][0], firsts[0][1]
    for position, kind in firsts[1:]:
        if joint([other, kind]) is None:
            at = position
            break
    return Unfit(at, values[at], f"but the rows before it hold {_NAMES.get(other, other)}")


_NAMES = {
    "boolean": "true or false",
    "integer": "whole numbers",
    "float64": "floats",
    "float32": "floats",
    "float16": "floats",
    "decimal": "decimals",
    "datetime": "times without a zone",
    "datetime with zone": "times with a zone",
    "pandas time": "times without a zone",
    "pandas time with zone": "times with a zone",
    "date": "dates",
    "time": "times of the day",
    "list": "lists",
    "struct": "structs",
}
