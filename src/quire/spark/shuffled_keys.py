"""Keys and other columns as frames, which Spark shuffles: what is too many for one task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.formats import MatchedRows, Place, task_table, tasks
from quire.formats import keys as keylib
from quire.formats.row_bitmap import Marks, by_fragment, merged, packed, unpacked
from quire.formats.row_hashes import hashed
from quire.formats.tasks import grouped
from quire.lake.engines import Answer
from quire.lake.key_files import EXAMPLES, TASK_ROWS, KeyFiles, total
from quire.spark import jobs, types

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
        return types.converted(task_table(place).addressed_rows(groups[number], wanted), target, "")

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

        batches = list(task_table(place).read_rows(groups[number], [column], None))
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

        batches = list(task_table(place).read_rows(groups[number], wanted, None))
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


# -- the keys of one statement ----------------------------------------------------------------------------------------


def twice(keys: KeyFiles) -> list[dict[str, Any]]:
    """Some keys that occur twice."""
    if not _may_be_twice(keys):
        return []
    names = [f"k{i}" for i in range(len(keys.on))]
    counted = _frame(keys).groupBy(*names).count()
    rows = jobs.collected(counted.where("count > 1").limit(5))
    return [{name: keylib.shown(row[f"k{i}"]) for i, name in enumerate(keys.on)} for row in rows]


def seek(keys: KeyFiles, at: Place, parts: list[list[int]], rows: int) -> MatchedRows:
    """Rows of some fragments of a table, `rows` in all, that have one of the keys."""
    on, table = keys.on, keys.table
    target = types.readable(tasks.key_schema(at, on, address=True), table)

    def read(number: int) -> Iterator[pa.RecordBatch]:
        yield from types.converted(task_table(at).addressed_rows(parts[number], on), target, table)

    there = _neutral(jobs.source(_spark(keys), len(parts), read, types.spark_schema(target), rows), on)
    names = [f"k{i}" for i in range(len(on))]
    both = there.join(_frame(keys).distinct(), names)
    # By fragment, so that each is told of by one task, and as a bit for each of its rows at most.
    placed = both.selectExpr("_rowaddr", "shiftright(_rowaddr, 32) as fragment").repartition("fragment")
    answers = jobs.on_rows(placed.select("_rowaddr"), _marked)
    found = merged(unpacked(body) for _, body in answers)
    matched = total(found)
    if not keys.unique and matched:
        matched = both.select(*names).distinct().count()
    return MatchedRows(found, matched, _examples(keys, at, found))


def _spark(keys: KeyFiles) -> Any:
    assert keys.session is not None
    return keys.session


def _frame(keys: KeyFiles) -> DataFrame:
    """The keys as a frame, with columns k0, k1, …"""
    place, paths, on, table = keys.place, keys.paths, keys.on, keys.table
    target = types.readable(tasks.key_schema(place, on), table)

    def read(number: int) -> Iterator[pa.RecordBatch]:
        yield from types.converted(task_table(place).read_files([paths[number]], on), target, table)

    return _neutral(jobs.source(_spark(keys), len(paths), read, types.spark_schema(target), keys.rows), on)


def _may_be_twice(keys: KeyFiles) -> bool:
    """By the hashes of the keys, of which fewer bytes travel: mostly all differ, and that proves it."""
    place, paths, on = keys.place, keys.paths, keys.on

    def read(number: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        found = hashed(tasks.all_keys(place, [paths[number]], on), on).view("int64")
        yield from pa.table({"h": found}).to_batches(max_chunksize=jobs.BATCH)

    frame = jobs.source(_spark(keys), len(paths), read, "h long", keys.rows)
    return bool(frame.groupBy("h").count().where("count > 1").limit(1).count())


def _examples(keys: KeyFiles, at: Place, found: dict[int, Marks]) -> tuple[dict[str, Any], ...]:
    """The keys of some of the rows, looked up by one task."""
    if not found:
        return ()
    on, fragment = keys.on, min(found)
    some = Marks.of(np.asarray(found[fragment])[:EXAMPLES])

    def work(_: int) -> Answer:
        rows = tasks.keys_at(at, fragment, some, on)
        return {"examples": [{k: keylib.shown(v) for k, v in row.items()} for row in rows]}, b""

    [(head, _)] = jobs.on_numbers(_spark(keys), 1, work)
    return tuple(head["examples"])


def _marked(batches: Iterable[pa.RecordBatch]) -> Answer:
    """The rows of a few whole fragments, whose addresses come in any order."""
    return {}, packed(merged(by_fragment(b.column(0).to_numpy().astype(np.uint64)) for b in batches))


def _neutral(frame: DataFrame, on: Sequence[str]) -> DataFrame:
    """The key columns, which come first, under names of their own; all at once, since they may have each other's."""
    names = [f"k{position}" for position in range(len(on))]
    return frame.toDF(*names, *frame.columns[len(on) :])
