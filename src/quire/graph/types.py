"""The types of properties: how they are written, how they are stored, and how their values are read from anywhere.

    Type("I64", many=True, optional=True)       # written as [I64]?
    Type("Vector", size=128).arrow()            # fixed_size_list<float>[128]

A value comes as Python has it (`date(2024, 1, 1)`) or as JSON has it (`"2024-01-01"`); `Type.value` makes one of both,
and says what is wrong with anything else.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import decimal
import json
import math
import re
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from quire.ledger.records import Stored

if TYPE_CHECKING:
    import pyarrow as pa

SCALARS = ("String", "Blob", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "Date", "DateTime")
INTEGERS = {"I32": (-(2**31), 2**31 - 1), "I64": (-(2**63), 2**63 - 1), "U32": (0, 2**32 - 1), "U64": (0, 2**64 - 1)}
FLOATS = ("F32", "F64")
LARGEST_VECTOR = 1 << 16
LARGEST_DIGITS = 40
_F32 = float.fromhex("0x1.fffffep+127")
_FINER = re.compile(r"[.,]\d{6}\d*[1-9]")
"""A fraction of a second that microseconds do not hold."""


class Wrong(ValueError):
    """What is wrong with a value, as the end of a sentence that begins with the name of its property."""


class Type(Stored, frozen=True, omit_defaults=True):
    """The type of a property or parameter."""

    base: str
    """A scalar, `enum` or `Vector`."""
    optional: bool = False
    many: bool = False
    """A list of the base."""
    values: tuple[str, ...] = ()
    """Of an enum, in the order in which they were written."""
    size: int = 0
    """Of a vector."""

    def __str__(self) -> str:
        return self.bare + ("?" if self.optional else "")

    @property
    def bare(self) -> str:
        """As it is written, without the question mark."""
        if self.base == "enum":
            return f"enum({', '.join(self.values)})"
        if self.base == "Vector":
            return f"Vector({self.size})"
        return f"[{self.base}]" if self.many else self.base

    @property
    def required(self) -> Type:
        """The same for a value that is there."""
        return msgspec.structs.replace(self, optional=False)

    @property
    def is_number(self) -> bool:
        return not self.many and (self.base in INTEGERS or self.base in FLOATS)

    @property
    def is_integer(self) -> bool:
        return not self.many and self.base in INTEGERS

    @property
    def is_text(self) -> bool:
        return not self.many and self.base in ("String", "enum")

    @property
    def is_time(self) -> bool:
        return not self.many and self.base in ("Date", "DateTime")

    @property
    def is_scalar(self) -> bool:
        """Whether values can be compared, ordered and used as a key."""
        return not self.many and self.base not in ("Blob", "Vector")

    def arrow(self) -> pa.DataType:
        """How values are stored."""
        import pyarrow as pa

        if self.base == "Vector":
            return pa.list_(pa.float32(), self.size)
        kind = _arrow(self.base)
        return pa.list_(kind) if self.many else kind

    # -- values -----------------------------------------------------------------------------------------------

    def value(self, given: Any) -> Any:
        """The value as Python has it, or `Wrong`. None stays None: whether it may is for the caller to say."""
        if given is None:
            return None
        if self.base == "Vector":
            return self._vector(given)
        if self.many:
            if isinstance(given, str | bytes) or not isinstance(given, Sequence):
                raise Wrong(f"must be a list of {self.base}, not {_shown(given)}")
            items = [self._one(item) for item in given]
            if any(item is None for item in items):
                raise Wrong("must not have a null in its list")
            return items
        return self._one(given)

    def _one(self, given: Any) -> Any:
        if given is None:
            return None
        if self.base in INTEGERS:
            return _integer(self.base, given)
        if self.base in FLOATS:
            return _float(self.base, given)
        if self.base == "enum":
            if not isinstance(given, str) or given not in self.values:
                raise Wrong(f"must be one of {', '.join(self.values)}, not {_shown(given)}")
            return given
        return _READERS[self.base](given)

    def _vector(self, given: Any) -> list[float]:
        if hasattr(given, "tolist"):
            given = given.tolist()
        if isinstance(given, str | bytes) or not isinstance(given, Sequence):
            raise Wrong(f"must be a vector of {self.size} numbers, not {_shown(given)}")
        if len(given) != self.size:
            raise Wrong(f"must have {self.size} dimensions, not {len(given)}")
        return [_float("F32", item) for item in given]

    def text(self, value: Any) -> str:
        """The canonical text of a scalar value: what ids are made of, equal for equal values."""
        return canonical(self.value(value))


def canonical(value: Any) -> str:
    """The text that stands for a scalar value in an id."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).isoformat().removesuffix("+00:00") + "Z"
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, float):
        return repr(value + 0.0)  # minus zero is zero
    return str(value)


def identity(values: Sequence[Any]) -> str:
    """The id of a node from the values of its whole key: one gives its text, several give a JSON array of texts."""
    texts = [canonical(value) for value in values]
    return texts[0] if len(texts) == 1 else json.dumps(texts, ensure_ascii=False, separators=(",", ":"))


def _arrow(base: str) -> pa.DataType:
    import pyarrow as pa

    kinds = {
        "String": pa.string,
        "enum": pa.string,
        "Blob": pa.large_binary,
        "Bool": pa.bool_,
        "I32": pa.int32,
        "I64": pa.int64,
        "U32": pa.uint32,
        "U64": pa.uint64,
        "F32": pa.float32,
        "F64": pa.float64,
        "Date": pa.date32,
    }
    return pa.timestamp("us", tz="UTC") if base == "DateTime" else kinds[base]()


def _integer(base: str, given: Any) -> int:
    if isinstance(given, float) and given.is_integer():
        given = int(given)
    elif isinstance(given, decimal.Decimal) and given.is_finite() and given == given.to_integral_value():
        given = int(given) if given.adjusted() < LARGEST_DIGITS else given
    if isinstance(given, bool) or not hasattr(given, "__index__"):
        raise Wrong(f"must be a whole number ({base}), not {_shown(given)}")
    value = given.__index__()
    low, high = INTEGERS[base]
    if not low <= value <= high:
        raise Wrong(f"must be between {low} and {high} ({base}), not {_shown(value)}")
    return int(value)


def _float(base: str, given: Any) -> float:
    if isinstance(given, bool) or not (isinstance(given, int | float) or hasattr(given, "__float__")):
        raise Wrong(f"must be a number ({base}), not {_shown(given)}")
    try:
        value = float(given)
    except (OverflowError, ValueError, TypeError):
        raise Wrong(f"must be a number ({base}), not {_shown(given)}") from None
    if not math.isfinite(value) or (base == "F32" and abs(value) > _F32):
        raise Wrong(f"must be a finite number ({base}), not {_shown(given)}")
    value += 0.0  # minus zero is zero: indexes tell them apart, and joins do not
    # As it is stored: an id that is made of it must be the same before and after.
    return float(struct.unpack("f", struct.pack("f", value))[0]) if base == "F32" else value


def _string(given: Any) -> str:
    if not isinstance(given, str):
        raise Wrong(f"must be text, not {_shown(given)}")
    try:
        given.encode()
    except UnicodeEncodeError:
        raise Wrong("is not valid Unicode text") from None
    return given


def _bool(given: Any) -> bool:
    if not isinstance(given, bool) and type(given).__name__ not in ("bool_", "bool"):
        raise Wrong(f"must be true or false, not {_shown(given)}")
    return bool(given)


def _date(given: Any) -> dt.date:
    if isinstance(given, dt.datetime):
        # Frames have no type for dates: midnight is one.
        if given == given and given.time() == dt.time() and not getattr(given, "nanosecond", 0):
            return given.date()
        raise Wrong(f"must be a date without a time of day, not {_shown(given)}")
    if isinstance(given, dt.date):
        return given
    if isinstance(given, str) and re.fullmatch(r"\d{4}-\d{2}-\d{2}", given):
        try:
            return dt.date.fromisoformat(given)
        except ValueError:
            pass
    raise Wrong(f'must be a date like "2024-12-31", not {_shown(given)}')


def _datetime(given: Any) -> dt.datetime:
    if isinstance(given, str):
        if _FINER.search(given):
            raise Wrong(f"must be a time in whole microseconds, not {_shown(given)}")
        try:
            given = dt.datetime.fromisoformat(given)
        except ValueError:
            raise Wrong(f'must be a time like "2024-12-31T12:00:00Z", not {_shown(given)}') from None
    elif hasattr(given, "to_pydatetime"):
        if given != given:  # a time of pandas that is none
            raise Wrong(f'must be a time like "2024-12-31T12:00:00Z", not {_shown(given)}')
        if given.nanosecond:
            raise Wrong(f"must be a time in whole microseconds, not {_shown(given)}")
        given = given.to_pydatetime()
    if not isinstance(given, dt.datetime):
        raise Wrong(f'must be a time like "2024-12-31T12:00:00Z", not {_shown(given)}')
    if given.tzinfo is None:
        given = given.replace(tzinfo=dt.UTC)
    found: dt.datetime = given
    try:
        return found.astimezone(dt.UTC)
    except OverflowError:
        raise Wrong(f"must be a time within the years 1 to 9999, not {_shown(given)}") from None


def _blob(given: Any) -> bytes:
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given)
    if isinstance(given, str) and given.startswith("base64:"):
        try:
            return base64.b64decode(given[7:], validate=True)
        except (binascii.Error, ValueError):
            raise Wrong("is not valid base64 after base64:") from None
    raise Wrong(f'must be a blob, written as "base64:…", not {_shown(given)}')


_READERS = {"String": _string, "Bool": _bool, "Date": _date, "DateTime": _datetime, "Blob": _blob}


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, a list within lists within lists
        text = f"a very long {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}…"
