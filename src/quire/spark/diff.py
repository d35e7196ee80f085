"""What changed between two states, found by executors: fragments that differ are read, and rows compared by groups.

Rows travel between executors as Arrow batches, in bytes, so that they are compared in the table's own types and by the
same code as in one process. Rows that have a key in common, or are equal where there is no key, meet in one group.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.errors import ColumnNotFound
from quire.formats.tasks import grouped, picked
from quire.lake.feed.blocks import ADDED
from quire.lake.read.diff import Pair, RowDiff, What, compare
from quire.spark import jobs, types
from quire.spark.read import frame as table_frame

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from quire.lake import Table

TASK_ROWS = 262_144
"""Rows that one task reads, if they lie in several fragments."""
GROUP_ROWS = 200_000
"""Rows that are compared at once, about."""
GROUPS = 4096
HELD = 64 << 20
"""Bytes of rows that a task gathers before it cuts them by group."""
_RAW = "pair int, bucket int, fresh boolean, rows binary"
_COUNTS = "pair int, added long, changed long, removed long"


def counts(spark: SparkSession, pairs: Sequence[Pair]) -> list[tuple[int, int, int]]:
    """How many rows were added, changed and removed, of all these tables by one job."""
    given = tuple(pairs)

    def count(group: pa.Table) -> pa.Table:
        import pyarrow as pa

        number = group.column("pair")[0].as_py()
        numbers = (number, *_compared(given[number], group).counts)
        fields = [("pair", pa.int32()), ("added", pa.int64()), ("changed", pa.int64()), ("removed", pa.int64())]
        return pa.table([pa.array([n], kind) for n, (_, kind) in zip(numbers, fields, strict=True)], pa.schema(fields))

    found = [[0, 0, 0] for _ in given]
    for row in jobs.collected(_shuffled(spark, given, count, _COUNTS)):
        for i, name in enumerate(("added", "changed", "removed")):
            found[row["pair"]][i] += row[name]
    return [(a, c, r) for a, c, r in found]


def some(spark: SparkSession, pair: Pair, most: int) -> RowDiff:
    """At most so many rows of each kind, in the table's own types."""

    def pick(group: pa.Table) -> pa.Table:
        import pyarrow as pa

        found = _compared(pair, group).first(most)
        kinds = (found.added, found.changed_before, found.changed_after, found.removed)
        count = int(any(found.counts))  # a group in which nothing differs says nothing
        columns = [pa.array([_packed(kind)] * count, pa.binary()) for kind in kinds]
        return pa.table(columns, names=["added", "changed_before", "changed_after", "removed"])

    shape = "added binary, changed_before binary, changed_after binary, removed binary"
    rows = jobs.collected(_shuffled(spark, (pair,), pick, shape).limit(max(1, most) * 4))

    def joined(name: str, schema: pa.Schema) -> pa.Table:
        import pyarrow as pa

        tables = [_unpacked(bytes(row[name])) for row in rows]
        return pa.concat_tables([schema.empty_table(), *(t.cast(schema) for t in tables)])

    return RowDiff(
        joined("added", pair.after),
        joined("changed_before", pair.before),
        joined("changed_after", pair.after),
        joined("removed", pair.before),
    ).first(most)


def frame(spark: SparkSession, pair: Pair, what: What, columns: Sequence[str] | None = None) -> DataFrame:
    """The rows of one kind."""
    schema = pair.before if what in ("removed", "changed_before") else pair.after
    names = checked(columns, schema, pair.name)
    target = types.readable(picked(schema, names), pair.name)

    def choose(group: pa.Table) -> pa.Table:
        import pyarrow as pa

        rows: pa.Table = getattr(_compared(pair, group), what).select(names)
        return pa.Table.from_batches(types.converted(rows.to_batches(), target, pair.name), schema=target)

    return _shuffled(spark, (pair,), choose, types.spark_schema(target))


def checked(columns: Sequence[str] | None, schema: pa.Schema, table: str) -> list[str]:
    """Names of columns that are there; all of them, when none are named."""
    for name in columns or ():
        if name not in schema.names:
            raise ColumnNotFound(
                f"Table {table!r} has no column {name!r}.",
                next=f"Its columns are {', '.join(schema.names)}.",
                table=table,
                column=name,
            )
    return list(schema.names if columns is None else columns)


def whole(spark: SparkSession, held: Table, wanted: bool, columns: Sequence[str] | None = None) -> DataFrame:
    """All rows of a table, or none."""
    rows = table_frame(spark, held, columns)
    return rows if wanted else rows.limit(0)


def told(
    spark: SparkSession, schema: pa.Schema, parts: Sequence[tuple[str, DataFrame]], commit: tuple[str, int, datetime]
) -> DataFrame:
    """Rows that changed, with what is told of the change: the kind, and the commit with its number and its time."""
    from pyspark.sql import functions as f

    columns = types.spark_schema(types.readable(schema, "changes"))
    found = spark.createDataFrame([], columns)
    for kind, rows in parts:
        for name, value in zip(ADDED, (kind, *commit), strict=True):
            rows = rows.withColumn(name, f.lit(value).cast(columns[name].dataType))
        found = found.unionByName(rows, allowMissingColumns=True)
    return found


# -- reading, shuffling, comparing -------------------------------------------------------------------------------------


def _shuffled(spark: SparkSession, pairs: Sequence[Pair], work: Any, shape: Any) -> DataFrame:
    """A frame of what `work` makes of the rows of every group."""
    items: list[tuple[int, list[int], int]] = []
    for number, pair in enumerate(pairs):
        sizes = pair.changed.rows
        buckets = min(GROUPS, max(1, -(-sum(sizes) // GROUP_ROWS))) if _hashed(pair) else 1
        items += [(number, group, buckets) for group in grouped(list(enumerate(sizes)), TASK_ROWS)]

    def read(number: int) -> Iterator[pa.RecordBatch]:
        which, group, buckets = items[number]
        yield from _read(which, pairs[which], group, buckets)

    raw = jobs.source(spark, len(items), read, _RAW)
    with warnings.catch_warnings():  # about a pandas that is not used here
        warnings.filterwarnings("ignore", message=".*pandas", category=FutureWarning)
        return raw.groupBy("pair", "bucket").applyInArrow(work, shape)


def _read(number: int, pair: Pair, parts: Sequence[int], buckets: int) -> Iterator[pa.RecordBatch]:
    """The rows of some parts, cut by group."""
    import pyarrow as pa

    waiting: dict[bool, list[pa.RecordBatch]] = {True: [], False: []}

    def cut(fresh: bool) -> Iterator[pa.RecordBatch]:
        batches = waiting[fresh]
        if not batches:
            return
        rows = pa.Table.from_batches(batches)
        waiting[fresh] = []
        for bucket, some_rows in _cut(rows, _hashed(pair), buckets):
            columns = [
                pa.array([number], pa.int32()),
                pa.array([bucket], pa.int32()),
                pa.array([fresh], pa.bool_()),
                pa.array([_packed(some_rows)], pa.binary()),
            ]
            yield pa.RecordBatch.from_arrays(columns, names=["pair", "bucket", "fresh", "rows"])

    for part in parts:
        for fresh, batch in pair.changed.read(part):
            waiting[fresh].append(batch)
            if (
                sum(b.num_rows for b in waiting[fresh]) >= TASK_ROWS
                or sum(b.nbytes for b in waiting[fresh]) >= 64 << 20
            ):
                yield from cut(fresh)
    for fresh in (False, True):
        yield from cut(fresh)


def _hashed(pair: Pair) -> list[str]:
    """Columns by which rows find their group: of the key, or of the whole row, those that are equal byte by byte.

    A group may be found by a part of the key as well: rows that are to meet are equal in every part of it.
    """
    old, new = pair.before, pair.after
    names = pair.key or [n for n in new.names if n in old.names]
    return [n for n in names if _plain(new.field(n).type) and old.field(n).type == new.field(n).type]


def _plain(kind: pa.DataType) -> bool:
    import pyarrow.types as t

    text = t.is_string(kind) or t.is_large_string(kind) or t.is_binary(kind) or t.is_large_binary(kind)
    return bool(text or t.is_integer(kind) or t.is_boolean(kind) or t.is_date(kind) or t.is_timestamp(kind))


def _cut(rows: pa.Table, names: Sequence[str], buckets: int) -> Iterator[tuple[int, pa.Table]]:
    import duckdb
    import pyarrow as pa

    if buckets == 1:
        yield 0, rows
        return
    given = pa.table([rows.column(n) for n in names], names=[f"c{i}" for i in range(len(names))])
    with duckdb.connect() as link:
        link.register("given", given)
        fields = ", ".join(given.column_names)
        found = link.execute(f"select (hash({fields}) % {buckets})::integer as b from given").fetchnumpy()["b"]
    order = np.argsort(found, kind="stable")
    starts = np.searchsorted(found[order], np.arange(buckets + 1))
    ordered = rows.take(pa.array(order))
    for bucket in range(buckets):
        if starts[bucket] < starts[bucket + 1]:
            yield bucket, ordered.slice(starts[bucket], starts[bucket + 1] - starts[bucket])


def _compared(pair: Pair, group: pa.Table) -> RowDiff:
    """The rows of one group, compared as in one process."""
    import pyarrow as pa

    sides: dict[bool, list[pa.Table]] = {False: [], True: []}
    for fresh, rows in zip(group.column("fresh").to_pylist(), group.column("rows"), strict=True):
        sides[fresh].append(_unpacked(rows.as_buffer()))
    gone = pa.concat_tables([picked(pair.before, pair.before.names).empty_table(), *sides[False]])
    come = pa.concat_tables([picked(pair.after, pair.after.names).empty_table(), *sides[True]])
    return compare(gone, come, pair.key)


def _packed(rows: pa.Table) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows.combine_chunks())
    return bytes(sink.getvalue())


def _unpacked(data: Any) -> pa.Table:
    import pyarrow as pa

    return pa.ipc.open_stream(data).read_all()
