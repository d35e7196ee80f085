"""Which rows of a table have given values: what uniqueness, ends of edges, cardinality and orphans are asked by.

Few values are asked for by a filter, which reads through indexes; many are joined with a scan of their columns. Either
way rows go by as columns and are counted as they pass, so that a value which very many rows have costs no memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from quire.errors import InvalidInput
from quire.filters import Compare, Condition, In, IsNull, Not, every
from quire.filters.ast import Operator
from quire.graph.integrity import lookups
from quire.graph.types import FLOATS, INTEGERS, Type

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.formats import View


TEXT = Type("String")


def compare(name: str, kind: Type, operator: Operator, value: Any) -> Condition:
    return Compare(name, operator, held(kind, value))


def is_in(name: str, kind: Type, values: Sequence[Any]) -> Condition:
    """Whether a column has one of these values; no value at all is false."""
    return In(name, tuple(held(kind, value) for value in values if value is not None))


def is_null(name: str) -> Condition:
    return IsNull(name)


def negated(condition: Condition) -> Condition:
    return Not(condition)


def held(kind: Type, value: Any) -> Any:
    """A value as a column of this type holds it."""
    value = kind.value(value)
    if kind.base in ("String", "enum", "Bool", "Date", "DateTime") or kind.base in INTEGERS or kind.base in FLOATS:
        return value
    raise InvalidInput(f"A value of type {kind} cannot be compared.", next="Compare another property.", type=str(kind))


CHUNK = 2_000
"""So many values go into one filter."""
FEW = 50_000
"""More values than this are joined with a scan, whatever the size of the table."""
SHARE = 10
"""And so are values that are more than one in so many rows."""
MEMORY = "1GB"
"""What a join takes before it goes to disk."""


def distinct(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The distinct values of columns in which nothing is null: null is equal to nothing."""
    import pyarrow as pa

    chosen = _without_null(rows.select(list(columns)))
    if len(columns) == 1:
        return pa.table([chosen.column(0).unique()], schema=chosen.schema)
    return chosen.group_by(list(columns), use_threads=False).aggregate([]).select(list(columns))


def _without_null(rows: pa.Table) -> pa.Table:
    import pyarrow.compute as pc

    for name in rows.schema.names:
        if rows.column(name).null_count:
            rows = rows.filter(pc.is_valid(rows.column(name)))
    return rows


def counts(
    view: View, columns: Sequence[str], kinds: Sequence[Type], wanted: pa.Table, enough: int | None = None
) -> Any:
    """For every row of `wanted`, whose columns stand for `columns`, how many rows of the table have these values.

    A numpy array. `wanted` holds no null and no row twice. Where `enough` rows have a value it is not asked whether
    more do, so numbers may stop there.
    """
    import numpy as np

    rows = wanted.num_rows
    found = np.zeros(rows, np.int64)
    if rows == 0 or (total := view.count()) == 0:
        return found
    if not _are_few(rows, total):
        positions, numbers = _joined(view, columns, wanted, (), counted=True).columns
        found[positions.to_numpy()] = numbers.to_numpy()
        return found
    # One value alone needs no more rows than are enough; of several, those that many rows have may hide the others.
    limit = enough if rows == 1 else None
    for start, positions, _ in _by_filter(view, columns, kinds, wanted, (), limit):
        found += np.bincount(start + positions, minlength=rows)
    return found


def matches(
    view: View, columns: Sequence[str], kinds: Sequence[Type], wanted: pa.Table, take: Sequence[str] = ()
) -> pa.Table:
    """The rows of a table that have the values of a row of `wanted`: its `position` there, and the columns to `take`.

    `wanted` holds no null and no row twice.
    """
    import pyarrow as pa

    rows, total = wanted.num_rows, view.count()
    shape = pa.schema([("position", pa.int64()), *(view.schema.field(n) for n in take)])
    if rows == 0 or total == 0:
        return shape.empty_table()
    if not _are_few(rows, total):
        return _joined(view, columns, wanted, take).rename_columns(shape.names).cast(shape)
    parts = [
        pa.Table.from_arrays([pa.array(start + positions, pa.int64()), *taken], schema=shape)
        for start, positions, taken in _by_filter(view, columns, kinds, wanted, take)
    ]
    return pa.concat_tables([shape.empty_table(), *parts])


def _are_few(rows: int, total: int) -> bool:
    return rows <= CHUNK or (rows <= FEW and rows * SHARE < total)


# -- few --------------------------------------------------------------------------------------------------------------


def _by_filter(
    view: View,
    columns: Sequence[str],
    kinds: Sequence[Type],
    wanted: pa.Table,
    take: Sequence[str],
    limit: int | None = None,
) -> Iterator[tuple[int, Any, list[Any]]]:
    """Rows batch by batch: where a chunk of `wanted` begins, the positions of its values, and the columns to `take`."""
    for start in range(0, wanted.num_rows, CHUNK):
        part = wanted.slice(start, CHUNK)
        # Taken together the conditions let more through than the tuples; which are meant is told below.
        each = [
            lookups.is_in(name, kind, part.column(i).unique().to_pylist())
            for i, (name, kind) in enumerate(zip(columns, kinds, strict=True))
        ]
        places = Places(part)
        scanned = list(dict.fromkeys([*columns, *take]))
        for batch in view.scan(columns=scanned, filter=every(each), limit=limit):
            positions = places.of([batch.column(name) for name in columns])
            chosen = (positions >= 0).nonzero()[0]
            yield start, positions[chosen], [batch.column(name).take(chosen) for name in take]


class Places:
    """Finds tuples of values among distinct ones, a column at a time.

    Places(people).of([names, ages])    # a numpy array: for each row its position in `people`, or -1
    """

    def __init__(self, wanted: pa.Table) -> None:
        import numpy as np

        if wanted.num_columns == 1:  # distinct as they are
            self._values = [_plain(wanted.column(0))]
            return
        self._values = [_plain(column).unique() for column in wanted.columns]
        self._steps: list[Any] = []
        codes = np.zeros(wanted.num_rows, np.int64)
        for column, values in zip(wanted.columns, self._values, strict=True):
            codes = self._combined(codes, _plain(column), values)
            known = np.unique(codes)
            self._steps.append(known)
            codes = np.searchsorted(known, codes)
        self._order = np.unique(codes, return_index=True)[1]  # the first, where minus zero and zero are both wanted

    def of(self, columns: Sequence[Any]) -> Any:
        """The position of each row's tuple, or -1."""
        import numpy as np

        if len(self._values) == 1:
            return _position(_plain(columns[0]), self._values[0])
        codes = np.zeros(len(columns[0]), np.int64)
        there = np.ones(len(columns[0]), bool)
        for column, values, known in zip(columns, self._values, self._steps, strict=True):
            combined = self._combined(codes, _plain(column), values)
            codes = np.minimum(np.searchsorted(known, combined), len(known) - 1)
            there &= known[codes] == combined
        return np.where(there, self._order[codes], -1)

    def _combined(self, codes: Any, column: Any, values: Any) -> Any:
        """One number for what was told so far and the next value; a value that is not among those has none."""
        import numpy as np

        found = _position(column, values)
        return np.where(found < 0, -1, codes * len(values) + found)


def _position(column: Any, values: Any) -> Any:
    """Where each value is among distinct ones, or -1."""
    import pyarrow.compute as pc

    return pc.fill_null(pc.index_in(column, value_set=values), -1).to_numpy(zero_copy_only=False)


def _plain(column: Any) -> Any:
    """A column in one piece, in which minus zero is zero."""
    import pyarrow as pa
    import pyarrow.compute as pc

    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return pc.add(whole, pa.scalar(0, whole.type)) if pa.types.is_floating(whole.type) else whole


# -- many -------------------------------------------------------------------------------------------------------------


def _joined(
    view: View, columns: Sequence[str], wanted: pa.Table, take: Sequence[str], *, counted: bool = False
) -> pa.Table:
    """Rows of a scan that have wanted values, by position; with `counted`, how many there are for each position."""
    import numpy as np
    import pyarrow as pa

    keys = [f"k{i}" for i in range(len(columns))]
    taken = [f"t{i}" for i in range(len(take))]
    asked = wanted.rename_columns(keys).append_column("position", pa.array(np.arange(wanted.num_rows)))
    match = " and ".join(f"s.{n} = w.{n}" for n in keys)
    chosen = "w.position, count(*)" if counted else ", ".join(["w.position", *(f"s.{n}" for n in taken)])
    with joining() as connection:
        connection.register("scanned", _scanned(view, [*columns, *take], [*keys, *taken]))
        connection.register("asked", asked)
        group = " group by w.position" if counted else ""
        found: pa.Table = connection.sql(
            f"select {chosen} from scanned s join asked w on {match}{group}"
        ).to_arrow_table()
    return found


def _scanned(view: View, columns: Sequence[str], names: Sequence[str]) -> pa.RecordBatchReader:
    """A scan of columns under other names; a column may be there twice."""
    import pyarrow as pa

    reader = view.scan(columns=list(dict.fromkeys(columns)))
    order = [reader.schema.get_field_index(name) for name in columns]
    shape = pa.schema([pa.field(n, reader.schema.field(i).type) for n, i in zip(names, order, strict=True)])
    batches = (pa.RecordBatch.from_arrays([b.column(i) for i in order], schema=shape) for b in reader)
    return pa.RecordBatchReader.from_batches(shape, batches)


@contextmanager
def joining() -> Iterator[Any]:
    """DuckDB with little memory, which it goes beyond on disk. Names are neutral there, and nothing is pasted."""
    import tempfile

    import duckdb

    with (
        tempfile.TemporaryDirectory(prefix="quire-join-") as folder,
        duckdb.connect(config={"memory_limit": MEMORY, "temp_directory": folder}) as connection,
    ):
        connection.execute("set preserve_insertion_order = false").fetchall()
        yield connection
