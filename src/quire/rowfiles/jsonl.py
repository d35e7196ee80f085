"""Lines of JSON: as objects, one by one, and as columns, block by block.

Text stays text; numbers keep their value. The types of columns are those of the first lines. A block in which they do
not hold, or a name is new, is read line by line, and what it taught is used from there on. So a value is never forced
into a type that others had. Numbers for columns of whole numbers or decimals are taken digit by digit: as doubles,
large ones would change.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from quire.conversion.json_keys import repeated
from quire.errors import InvalidInput
from quire.rowfiles import json_values
from quire.rowfiles.json_values import WHOLE

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLE = 2_000
"""Lines that the types are taken from first."""

_LARGE = re.compile(rb"(?<![\d.])\d{16,}|[eE]\+?\d{3}")
"""Whole numbers that a double may not hold, and numbers that are larger than any."""
_LONG = re.compile(rb"\d[\d.]{15,}|[eE]\+?\d{3}")
"""Numbers with so many digits that a double may not hold them."""
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class NoObject:
    """A line that is no object of JSON."""

    said: str
    text: str


def objects(
    blocks: Iterable[bytes], first: int = 1, of: Any = dict[str, Any], *, exact: bool = False
) -> Iterator[tuple[int, int, Any]]:
    """The number of each line that is not blank, its length, and what it holds: an object, as `of`, or `NoObject`.

    A number that a double does not hold is a decimal: with `exact` any, else a whole one.
    """
    plain = msgspec.json.Decoder(of).decode
    careful = msgspec.json.Decoder(of, float_hook=json_values.number if exact else json_values.whole).decode
    matters = _LONG if exact else _LARGE
    number = first - 1
    for block in blocks:
        decode = careful if matters.search(block) else plain
        for line in io.BytesIO(block):
            number += 1
            if number == 1:
                line = line.removeprefix(_BOM)
            if not line.strip():
                continue
            try:
                row = decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                text = line.decode("utf-8", "replace").rstrip("\r\n")
                yield number, len(line), NoObject(_why(line, error), text)
                continue
            twice = repeated(line, row)
            if twice is not None:
                text = line.decode("utf-8", "replace").rstrip("\r\n")
                row = NoObject(f"This line has the key {twice!r} twice in one object.", text)
            yield number, len(line), row


def _why(line: bytes, error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "This line is not UTF-8 text."
    if isinstance(error, RecursionError):
        return "This line is not a JSON object: it is nested too deeply."
    return f"This line is not a JSON object: {error}."


@dataclass
class JsonLines:
    """The lines of one piece of a file as columns, block by block."""

    tell: Callable[[int, str, str, Any], None]
    known: dict[str, Any] = field(default_factory=dict)
    """The columns that were seen so far, with their types."""
    exact: Mapping[str, pa.DataType] = field(default_factory=dict)
    """Columns whose numbers must not change, with the types that they become."""
    _lines: int = 0
    """Lines of the blocks before."""

    def of(self, block: bytes) -> Iterator[tuple[pa.RecordBatch, Any]]:
        """The rows of some whole lines, and the line of each, counted from the first block."""
        if not self._lines:
            block = block.removeprefix(_BOM)
        lines = _Lines(block)
        if not self.known:
            self._learn([row for _, _, row in objects([lines.head(SAMPLE)]) if not isinstance(row, NoObject)])
        table = self._quick(block, len(lines.filled)) if self.known else None
        filled = lines.filled
        if table is None:
            table, filled = self._thorough(block)
        table = self._with_all(table)
        numbers = filled + 1 + self._lines
        for batch in table.combine_chunks().to_batches():
            if batch.num_rows:
                yield batch, numbers
        self._lines += lines.count

    def _quick(self, block: bytes, rows: int) -> pa.Table | None:
        """By the types that are known; None where they do not hold."""
        import pyarrow as pa
        import pyarrow.json as pj

        schema = _schema(self.known, self.exact)
        if schema is None or not _is_text(block) or ("DOUBLE" in str(self.known) and _LARGE.search(block)):
            return None
        try:
            table = pj.read_json(
                io.BytesIO(block),
                read_options=pj.ReadOptions(block_size=len(block) + 1),
                parse_options=pj.ParseOptions(explicit_schema=schema, newlines_in_values=False),
            )
            for name in set(table.schema.names) & set(self.exact):
                place = table.schema.get_field_index(name)
                table = table.set_column(place, name, json_values.settled(table.column(place), self.exact[name]))
        except pa.ArrowException:
            return None
        return table if table.num_rows == rows and set(table.schema.names) <= set(self.known) else None

    def _thorough(self, block: bytes) -> tuple[pa.Table, Any]:
        """By the types of these very lines; those that are no objects are told of."""
        import pyarrow as pa

        rows, numbers = [], []
        for number, _, row in objects([block], exact=True):
            if isinstance(row, NoObject):
                self.tell(number + self._lines, "json", row.said, row.text)
            else:
                rows.append(row)
                numbers.append(number - 1)
        self._learn(rows)
        columns = {
            name: json_values.built([row.get(name) for row in rows], shape, exact=name in self.exact)
            for name, shape in self.known.items()
        }
        return pa.table(columns), np.array(numbers, np.int64)

    def _learn(self, rows: list[dict[str, Any]]) -> None:
        """Take in the names and types of some lines."""
        for row in rows:
            for name, value in row.items():
                self.known[name] = json_values.merged(self.known.get(name), json_values.shape(value))
        lower: dict[str, str] = {}
        twice = [name for name in self.known if lower.setdefault(name.lower(), name) != name]
        if twice:
            both = sorted({name for name in self.known if name.lower() in {one.lower() for one in twice}})
            raise InvalidInput(
                f"Names that differ in case only stand for two columns here: {', '.join(both)}.",
                next="Rename one of them in the file.",
                columns=both,
            )

    def _with_all(self, table: pa.Table) -> pa.Table:
        """With a column of nulls for every name that was seen before and is not among these lines."""
        import pyarrow as pa

        for name in self.known:
            if name not in table.schema.names:
                table = table.append_column(name, pa.nulls(table.num_rows, pa.string()))
        return table


def _is_text(block: bytes) -> bool:
    """Whether bytes are UTF-8: Arrow takes them as they come."""
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True


class _Lines:
    """Where lines begin in a block, and which of them have anything written in them."""

    def __init__(self, block: bytes) -> None:
        data = np.frombuffer(block, np.uint8)
        ends = np.flatnonzero(data == 10) + 1
        if len(data) and (not len(ends) or ends[-1] != len(data)):
            ends = np.append(ends, len(data))
        self.block, self.ends = block, ends
        self.count = len(ends)
        starts = np.concatenate([[0], ends[:-1]]).astype(np.int64) if len(ends) else np.empty(0, np.int64)
        odd = np.flatnonzero(data[starts] <= 32) if len(ends) else ()
        blank = [n for n in odd if not block[starts[n] : ends[n]].strip()]
        self.filled = np.delete(np.arange(self.count), blank) if blank else np.arange(self.count)

    def head(self, most: int) -> bytes:
        """The first lines."""
        return self.block[: self.ends[min(most, self.count) - 1]] if self.count else b""


def _schema(shape: dict[str, Any], wanted: Mapping[str, pa.DataType]) -> pa.Schema | None:
    """The types for Arrow's reader, which refuses a number that is too large; None if it has none for some."""
    import pyarrow as pa

    kinds = {name: _arrow(kind, wanted.get(name)) for name, kind in shape.items()}
    if any(kind is None for kind in kinds.values()):
        return None
    return pa.schema(list(kinds.items()))


def _arrow(kind: Any, want: pa.DataType | None) -> Any:
    import pyarrow as pa

    if isinstance(kind, dict):
        inner = {name: _arrow(one, json_values.within(want, name)) for name, one in kind.items()}
        known = inner and all(one is not None for one in inner.values())
        return pa.struct(list(inner.items())) if known else None
    if isinstance(kind, list):
        item = _arrow(kind[0], json_values.within(want))
        return None if item is None else pa.list_(item)
    if want is not None and _is_read_exactly(kind, want):
        return json_values.number_type(want)
    if kind in WHOLE:
        return pa.int64()
    return {
        "DOUBLE": pa.float64(),
        "BOOLEAN": pa.bool_(),
        "VARCHAR": pa.string(),
        "NULL": pa.null(),
    }.get(str(kind))


def _is_read_exactly(kind: Any, want: pa.DataType) -> bool:
    """Whether the usual types would not do for these numbers."""
    import pyarrow.types as t

    if not t.is_integer(want) and not t.is_decimal(want):
        return False
    return kind in ("DOUBLE", "HUGEINT") or (kind in WHOLE and (t.is_decimal(want) or t.is_uint64(want)))
