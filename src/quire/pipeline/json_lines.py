"""Lines of JSON as columns, whatever they hold. Text stays text; numbers keep their value.

The types are those of the first lines. A block in which they do not hold, or a name is new, is looked through whole,
and what it taught is used from there on. So a value is never forced into a type that others had. Numbers for columns of
whole numbers or decimals are taken digit by digit: as doubles, large ones would change.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.errors import InvalidInput
from quire.pipeline import exact

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLE = 2_000
"""Lines that the types are taken from first."""
WIDE = re.compile(rb"[:,\[\s]-?\d{19}")

WHOLE = frozenset({"UBIGINT", "BIGINT", "HUGEINT"})
NUMBERS = WHOLE | {"DOUBLE"}

_VALID = "json_type(try_cast(l AS JSON)) = 'OBJECT'"


@dataclass
class JsonLines:
    """The lines of one piece of a file, block by block."""

    tell: Callable[[int, str, str, Any], None]
    known: dict[str, Any] = field(default_factory=dict)
    """The columns that were seen so far, with their types as DuckDB writes them."""
    exact: Mapping[str, pa.DataType] = field(default_factory=dict)
    """Columns whose numbers must not change, with the types that they become."""
    _lines: int = 0
    """Lines of the blocks before."""

    def of(self, block: bytes) -> Iterator[tuple[pa.RecordBatch, Any]]:
        """The rows of some whole lines, and the line of each, counted from the first block."""
        if not self._lines and block.startswith(b"\xef\xbb\xbf"):
            block = block[3:]
        lines = _Lines(block)
        if not self.known:
            self._learn(lines.some(SAMPLE))
        table = self._quick(block, len(lines.filled)) if self.known else None
        filled = lines.filled
        if table is None:
            table, filled = self._thorough(lines)
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
        if schema is None:
            return None
        try:
            table = pj.read_json(
                io.BytesIO(block),
                read_options=pj.ReadOptions(block_size=len(block) + 1),
                parse_options=pj.ParseOptions(explicit_schema=schema, newlines_in_values=False),
            )
            for name in set(table.schema.names) & set(self.exact):
                place = table.schema.get_field_index(name)
                table = table.set_column(place, name, exact.settled(table.column(place), self.exact[name]))
        except pa.ArrowException:
            return None
        return table if table.num_rows == rows and set(table.schema.names) <= set(self.known) else None

    def _thorough(self, lines: _Lines) -> tuple[pa.Table, Any]:
        """By the types of these very lines; those that are no JSON are told of."""
        import duckdb
        import pyarrow as pa

        table = pa.table({"l": lines.texts(), "n": pa.array(np.arange(lines.count))})
        with duckdb.connect(config={"enable_external_access": "false"}) as connection:
            connection.register("lines", table)
            written = "trim(l, ' ' || chr(9) || chr(10) || chr(13)) <> ''"
            wrong = connection.sql(
                f"SELECT n, l FROM lines WHERE {written} AND NOT coalesce({_VALID}, false) ORDER BY n"
            )
            for number, text in wrong.fetchall():
                said = "This is no line of JSON that holds an object."
                self.tell(int(number) + 1 + self._lines, "json", said, text.rstrip("\r\n"))
            self._learn(table.column("l").take(lines.filled).to_pylist())
            if not self.known:
                return pa.table({}), np.empty(0, np.int64)
            wide = WIDE.search(lines.block) is not None
            shape = json.dumps(_plain(self.known, wide=wide))
            parsed = f"SELECT n, from_json(try_cast(l AS JSON), $s) AS r FROM lines WHERE {_VALID}"
            found = connection.sql(
                f"SELECT n AS __n, r.* FROM ({parsed}) ORDER BY n", params={"s": shape}
            ).to_arrow_table()
        numbers = found.column("__n").to_numpy()
        return self._exactly(found.drop_columns(["__n"]), table.column("l"), numbers, wide), numbers

    def _exactly(self, found: pa.Table, texts: Any, numbers: Any, wide: bool) -> pa.Table:
        """With the numbers that DuckDB may have changed, or has no type for, as they are written."""
        shapes = {n: self.known[n] for n in found.schema.names if n in self.exact and _is_changed(self.known[n], wide)}
        if not shapes:
            return found
        read = exact.read_lines(texts.take(numbers).to_pylist(), shapes)
        for name, column in read.items():
            found = found.set_column(found.schema.get_field_index(name), name, column)
        return found

    def _learn(self, texts: list[str]) -> None:
        """Take in the names and types of some lines."""
        import duckdb
        import pyarrow as pa

        with duckdb.connect(config={"enable_external_access": "false"}) as connection:
            connection.register("lines", pa.table({"l": pa.array(texts, pa.string())}))
            [[shape]] = connection.sql(
                f"SELECT json_group_structure(try_cast(l AS JSON))::VARCHAR FROM lines WHERE {_VALID}"
            ).fetchall()
        found = json.loads(shape) if shape is not None else {}
        self.known = _merged(self.known, found if isinstance(found, dict) else {})
        twice = [name for name in self.known if any(o != name and o.lower() == name.lower() for o in self.known)]
        if twice:
            raise InvalidInput(
                f"Names that differ in case only stand for two columns here: {', '.join(sorted(twice))}.",
                next="Rename one of them in the file.",
                columns=sorted(twice),
            )

    def _with_all(self, table: pa.Table) -> pa.Table:
        """With a column of nulls for every name that was seen before and is not among these lines."""
        import pyarrow as pa

        for name in self.known:
            if name not in table.schema.names:
                table = table.append_column(name, pa.nulls(table.num_rows, pa.string()))
        return table


class _Lines:
    """Where lines begin in a block, and which of them have anything written in them."""

    def __init__(self, block: bytes) -> None:
        data = np.frombuffer(block, np.uint8)
        ends = np.flatnonzero(data == 10) + 1
        if len(data) and (not len(ends) or ends[-1] != len(data)):
            ends = np.append(ends, len(data))
        self.block, self.ends = block, ends
        self.starts = np.concatenate([[0], ends[:-1]]).astype(np.int64) if len(ends) else np.empty(0, np.int64)
        self.count = len(ends)
        odd = np.flatnonzero(data[self.starts] <= 32) if len(ends) else ()
        blank = [n for n in odd if not block[self.starts[n] : ends[n]].strip()]
        self.filled = np.delete(np.arange(self.count), blank) if blank else np.arange(self.count)

    def texts(self) -> pa.Array:
        """The lines as text; bytes that are none become marks of that."""
        import pyarrow as pa

        return pa.array(self.some(self.count), pa.string())

    def some(self, most: int) -> list[str]:
        pairs = zip(self.starts[:most], self.ends[:most], strict=True)
        return [self.block[start:end].decode("utf-8", "replace") for start, end in pairs]


def _merged(one: Any, other: Any) -> Any:
    """A type that holds the values of both; text for what has nothing in common."""
    if one == other or other in ("NULL", None):
        return one
    if one in ("NULL", None) or one == {}:
        return other
    if isinstance(one, dict) and isinstance(other, dict):
        return {k: _merged(one.get(k), other.get(k)) for k in dict.fromkeys([*one, *other])}
    if isinstance(one, list) and isinstance(other, list):
        return [_merged(one[0], other[0])]
    if isinstance(one, str) and isinstance(other, str):
        for together, wider in ((WHOLE, "HUGEINT"), (NUMBERS, "DOUBLE")):
            if {one, other} <= together:
                return wider
    return "JSON"


def _plain(shape: Any, *, wide: bool) -> Any:
    """The same with text where anything may stand, and for numbers of either sign that may be very large."""
    if isinstance(shape, dict):
        return {k: _plain(v, wide=wide) for k, v in shape.items()} or "VARCHAR"
    if isinstance(shape, list):
        return [_plain(shape[0], wide=wide)]
    if shape == "HUGEINT":
        return "VARCHAR" if wide else "BIGINT"
    return "VARCHAR" if shape in ("JSON", "NULL", None) else shape


def _is_changed(shape: Any, wide: bool) -> bool:
    """Whether values of such a shape may not come back as they were written."""
    if isinstance(shape, dict):
        return any(_is_changed(one, wide) for one in shape.values())
    if isinstance(shape, list):
        return _is_changed(shape[0], wide)
    return shape in ("DOUBLE", "JSON") or (wide and shape in WHOLE)


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
        inner = {name: _arrow(one, exact.within(want, name)) for name, one in kind.items()}
        known = inner and all(one is not None for one in inner.values())
        return pa.struct(list(inner.items())) if known else None
    if isinstance(kind, list):
        item = _arrow(kind[0], exact.within(want))
        return None if item is None else pa.list_(item)
    if want is not None and _is_read_exactly(kind, want):
        return exact.number_type(want)
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
