"""Which data files a condition can choose rows of, by what the log says of their columns. Others are not read."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from quire.filters import Always, Both, Compare, Condition, Either, In, IsNull, Not
from quire.formats.delta.files.parquet import constant
from quire.formats.delta.log.state import DataFile, State

if TYPE_CHECKING:
    import pyarrow as pa

_PLAIN = (int, str, dt.date)
"""Kinds of values whose bounds are compared: whoever wrote them, they mean the same."""


def worth_reading(state: State, condition: Condition | None, files: Sequence[DataFile]) -> Sequence[DataFile]:
    """The files of which a condition may be true for a row."""
    if condition is None:
        return files
    return [file for file in files if _may(condition, _Known(file, state))]


@dataclass
class _Known:
    """What the log says of the values of one file."""

    file: DataFile
    state: State
    _told: Mapping[str, Any] | None = None

    def bounds(self, column: str) -> tuple[Any, Any] | None:
        """The least and the greatest value, or something beyond; None where that is not known."""
        if column in self.state.partition:
            value = self._value(column)
            return None if value is None else (value, value)
        low, high = (self._part(part, column) for part in ("minValues", "maxValues"))
        if isinstance(low, str) and isinstance(high, str) and self._is_date(column):
            low, high = _date(low), _date(high)
        return None if low is None or high is None else (low, high)

    def only_nulls(self, column: str) -> bool:
        if column in self.state.partition:
            return self._value(column) is None
        return bool(self._part("nullCount", column) == self.file.rows)

    def no_null(self, column: str) -> bool:
        if column in self.state.partition:
            return self._value(column) is not None
        return bool(self._part("nullCount", column) == 0)

    def _value(self, column: str) -> Any:
        text = dict(self.file.partition).get(column)
        return constant(text, self._type(column), 1, self.file.path)[0].as_py()

    def _part(self, part: str, column: str) -> Any:
        if self._told is None:
            self._told = msgspec.json.decode(self.file.stats) if self.file.stats else {}
        found = self._told.get(part)
        return found.get(column) if isinstance(found, dict) else None

    def _type(self, column: str) -> pa.DataType:
        return self.state.stored.field(column).type

    def _is_date(self, column: str) -> bool:
        import pyarrow.types as t

        return self.state.stored.get_field_index(column) >= 0 and bool(t.is_date(self._type(column)))


def _date(text: str) -> dt.date | None:
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        return None


def _may(condition: Condition, known: _Known) -> bool:
    """Whether a row can be there for which it is true."""
    match condition:
        case Both(parts):
            return all(_may(part, known) for part in parts)
        case Either(parts):
            return any(_may(part, known) for part in parts)
        case Always(value):
            return value
        case IsNull(column):
            return not known.no_null(column)
        case Not(IsNull(column)):
            return not known.only_nulls(column)
        case In(column, values):
            return any(_may_compare(column, "=", value, known) for value in values)
        case Compare(column, operator, value):
            return _may_compare(column, operator, value, known)
    return True


def _may_compare(column: str, operator: str, value: Any, known: _Known) -> bool:
    if known.only_nulls(column):
        return False
    bounds = known.bounds(column)
    if bounds is None or type(value) not in _PLAIN or any(type(bound) is not type(value) for bound in bounds):
        return True
    low, high = bounds
    told = {
        "=": low <= value <= high,
        "<>": not low == value == high,
        "<": low < value,
        "<=": low <= value,
        ">": high > value,
        ">=": high >= value,
    }
    return bool(told[operator])
