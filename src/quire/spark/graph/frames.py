"""Columns of rows that lie in files, as frames of Spark: what is too much for one task is shuffled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from quire.formats import Place
from quire.formats.alike import hashed
from quire.formats.lance import tasks
from quire.spark import jobs, types
from quire.spark.keys import TASK_ROWS, grouped

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

AT = "_rowaddr"
"""The address of a row, which says where it came in the order of rows."""


def table(
    spark: SparkSession, place: Place, parts: Sequence[tuple[int, int]], columns: Sequence[str], names: Sequence[str]
) -> DataFrame:
    """Columns of fragments of a table under other names, with the address of each row."""
    groups = grouped(parts, TASK_ROWS)
    wanted = list(dict.fromkeys(columns))
    target = types.readable(tasks.key_schema(place, wanted, address=True), "")

    def read(number: int) -> Iterable[pa.RecordBatch]:
        return types.converted(tasks.key_rows(place, groups[number], wanted), target, "")

    # Spark looks columns up without regard to case, so they are taken by their places.
    made = jobs.source(spark, len(groups), read, types.spark_schema(target), sum(rows for _, rows in parts))
    made = made.toDF(*(f"c{i}" for i in range(len(wanted))), AT)
    return made.select(*[made[f"c{wanted.index(c)}"].alias(n) for c, n in zip(columns, names, strict=True)], made[AT])


def distinct(spark: SparkSession, place: Place, parts: Sequence[tuple[int, int]], column: str, name: str) -> DataFrame:
    """The values of a column of fragments, each task's once: `name`."""
    groups = grouped(parts, TASK_ROWS)
    target = types.readable(tasks.key_schema(place, [column]), "")

    def read(number: int) -> Iterable[pa.RecordBatch]:
        import pyarrow as pa

        batches = list(tasks.read_rows(place, groups[number], [column], None))
        values = pa.Table.from_batches(batches).column(0).unique() if batches else pa.array([], target.field(0).type)
        found = (values.slice(start, jobs.BATCH) for start in range(0, len(values), jobs.BATCH))
        rows = (pa.RecordBatch.from_arrays([some], names=[column]) for some in found)
        return types.converted(rows, target, "")

    rows = sum(count for _, count in parts)
    return jobs.source(spark, len(groups), read, types.spark_schema(target), rows).toDF(name)


def hashes(
    spark: SparkSession, place: Place, parts: Sequence[tuple[int, int]], columns: Sequence[str], name: str
) -> DataFrame:
    """For every row of fragments that has no null in some columns, a number: the same for rows that are alike there."""
    groups = grouped(parts, TASK_ROWS)
    wanted = list(dict.fromkeys(columns))

    def read(number: int) -> Iterable[pa.RecordBatch]:
        import pyarrow as pa

        batches = list(tasks.read_rows(place, groups[number], wanted, None))
        if batches:
            found = hashed(pa.Table.from_batches(batches).drop_null(), wanted).view("int64")
            yield from pa.table({name: found}).to_batches(max_chunksize=jobs.BATCH)

    return jobs.source(spark, len(groups), read, f"`{name}` long", sum(rows for _, rows in parts))


def rows(
    spark: SparkSession, count: int, schema: pa.Schema, read: Callable[[int], Iterable[pa.RecordBatch]]
) -> DataFrame:
    """What so many tasks read, in the columns of a schema."""
    target = types.readable(schema, "")
    shown = types.spark_schema(target)
    return jobs.source(spark, count, lambda number: types.converted(read(number), target, ""), shown)


def collected(frame: DataFrame, order: str, most: int) -> tuple[int, Any]:
    """How many rows a frame has, and the first of them in an order as a table. It is computed once."""
    held = frame.persist()
    try:
        count = held.count()
        if not count or not most:
            return count, None
        ordered = held.orderBy(order)
        return count, (ordered.limit(most) if count > most else ordered).toArrow()
    finally:
        held.unpersist()
