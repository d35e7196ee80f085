"""What a load of a graph asks of its staged rows when they are too many for one task: joins of their ids and keys.

clashes     rows with an id that is there or comes twice
identify    the ids that rows have after all, by what is unique
build       rows that keep values of those that are there
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.formats import Place, task_table
from quire.graph.load.merge import NEEDS
from quire.graph.load.row_identity import ANOTHER, THERE, TWICE, Mode, by_unique
from quire.graph.load.staged.merging import Made, write_ids
from quire.graph.load.staged.staged_files import Piece, Written
from quire.lake.engines import Answer
from quire.spark import jobs, shuffled_keys

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def clashes(spark: SparkSession, at: Place, mode: Mode, one: Written, room: int | None) -> list[tuple[int, int, str]]:
    """The piece and the position of rows with an id that is there or comes twice, then of those that lack something."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    strict, unique = mode == "append", by_unique(one.entity, mode, lacking=one.lacking)
    order = Window.partitionBy("id").orderBy("piece", "pos")
    rows = _ids_of(spark, one).withColumn("later", f.row_number().over(order) > 1)
    if strict or unique or one.needy:
        there = shuffled_keys.table(spark, at, task_table(at).parts(), ["id"], ["there"])
        rows = rows.join(there.select("there"), rows["id"] == f.col("there"), "left")
    else:
        rows = rows.withColumn("there", f.lit(None).cast("string"))
    taken = f.col("there").isNotNull() & ~f.col("known") & f.lit(strict or unique)
    said = f.when(taken, f.lit(0)).when(f.col("later"), f.lit(1))
    said = said.when(f.col("needs") & f.col("there").isNull(), f.lit(2))
    bad = rows.withColumn("why", said).where("why is not null").selectExpr("piece", "pos", "why")
    order_of = bad.orderBy(f.expr("why = 2"), "piece", "pos")
    chosen = order_of if room is None else order_of.limit(room)
    words = {0: ANOTHER if unique else THERE, 1: TWICE, 2: ""}
    found = chosen.toArrow()
    return [(p, n, words[w]) for p, n, w in zip(*(c.to_pylist() for c in found.columns), strict=True)]


def identify(spark: SparkSession, one: Written, columns: Sequence[str]) -> dict[int, str]:
    """By piece, the file of the ids that its rows have after all, by what is unique."""
    from pyspark.sql import functions as f

    place, names = one.place, [f"k{i}" for i in range(len(columns))]
    there = shuffled_keys.table(spark, place, task_table(place).parts(), ["id", *columns], ["there", *names])
    rows = _rows_of(spark, place, one.schema, one.pieces, ["id", *columns], ["id", *names])
    both = rows.join(there.drop(shuffled_keys.AT), names, "left")
    # A row with a null in them goes by its id.
    known = " or ".join(["there is not null", *(f"{name} is null" for name in names)])
    ids = both.select("piece", "pos", f.expr("coalesce(there, id) as id"), f.expr(f"({known}) as known"))

    def work(batches: Iterator[pa.RecordBatch]) -> Answer:
        import pyarrow as pa

        paths = {}
        for number, some in _apart(batches):
            mine = (pa.concat_arrays([b.column(i) for b in some]) for i in (2, 3))
            paths[str(number)] = write_ids(place, *mine)
        return {"paths": paths}, b""

    answers = jobs.on_rows(_by_piece(ids, len(one.pieces)), work)
    return {int(number): path for head, _ in answers for number, path in head["paths"].items()}


def build(spark: SparkSession, made: Made, pieces: Sequence[Piece]) -> list[Answer]:
    """Make the rows of pieces on one state of the table, of which it is found by a join what they replace."""
    from pyspark.sql import functions as f

    at = made.at
    there = shuffled_keys.table(spark, at, task_table(at).parts(), ["id"], ["there"])
    rows = _rows_of(spark, made.place, made.schema, pieces, ["id"], ["id"], ids=True)
    both = rows.join(there, rows["id"] == there["there"]).select("piece", "pos", shuffled_keys.AT)
    # A piece of which no row is there is made too.
    every = spark.range(len(pieces)).select(
        f.col("id").cast("int").alias("piece"), f.lit(-1).cast("long").alias("pos"), f.lit(0).cast("long")
    )

    def work(batches: Iterator[pa.RecordBatch]) -> Answer:
        def found() -> Iterator[tuple[Piece, Any, Any]]:
            for number, some in _apart(batches):
                positions, addresses = (np.concatenate([b.column(i).to_numpy() for b in some]) for i in (1, 2))
                real = positions >= 0
                yield pieces[number], positions[real], addresses[real].astype(np.uint64)

        return made.write(found())

    return jobs.on_rows(_by_piece(both.union(every), len(pieces)), work)


# -- frames of staged rows --------------------------------------------------------------------------------------------


def _ids_of(spark: SparkSession, one: Written) -> DataFrame:
    import pyarrow as pa

    place, pieces, needy = one.place, one.pieces, one.needy
    schema = pa.schema(
        [
            ("piece", pa.int32()),
            ("pos", pa.int64()),
            ("id", pa.string()),
            ("known", pa.bool_()),
            ("needs", pa.bool_()),
        ]
    )

    def read(number: int) -> Iterable[pa.RecordBatch]:
        piece = pieces[number]
        known = piece.read_known(place)
        lacks = piece.read_lacks(place) if needy else None
        for start, ids in _numbered(piece.read_ids(place)):
            yield _ids_batch(schema, number, start, ids, known, lacks)

    return shuffled_keys.rows(spark, len(pieces), schema, read)


def _rows_of(
    spark: SparkSession,
    place: Place,
    kinds_of: pa.Schema,
    pieces: Sequence[Piece],
    columns: Sequence[str],
    names: Sequence[str],
    *,
    ids: bool = False,
) -> DataFrame:
    """Columns of raw rows under other names, with the number of the piece and the position in it."""
    import pyarrow as pa

    kinds = [kinds_of.field(column).type for column in columns]
    named = ((f"c{i}", kind) for i, kind in enumerate(kinds))
    schema = pa.schema([("piece", pa.int32()), ("pos", pa.int64()), *named])

    def read(number: int) -> Iterable[pa.RecordBatch]:
        piece, start = pieces[number], 0
        own = task_table(place).read_files(piece.id_paths(place), ["id"]) if ids else piece.read_rows(place, columns)
        for batch in own:
            rows = batch.num_rows
            where = [pa.array(np.full(rows, number, np.int32)), pa.array(np.arange(start, start + rows))]
            yield pa.RecordBatch.from_arrays([*where, *batch.columns], names=schema.names)
            start += rows

    return shuffled_keys.rows(spark, len(pieces), schema, read).toDF("piece", "pos", *names)


def _by_piece(frame: DataFrame, pieces: int) -> DataFrame:
    return frame.repartition(pieces, "piece").sortWithinPartitions("piece", "pos")


# -- in a task --------------------------------------------------------------------------------------------------------


def _apart(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, list[pa.RecordBatch]]]:
    """Batches that are sorted by piece, the first column, each piece apart."""
    some: list[pa.RecordBatch] = []
    current = -1
    for batch in batches:
        column = batch.column(0).to_numpy()
        edges = [0, *(np.flatnonzero(np.diff(column)) + 1).tolist(), len(column)]
        for low, high in pairwise(edges):
            if low == high:
                continue
            if int(column[low]) != current:
                if some:
                    yield current, some
                current, some = int(column[low]), []
            some.append(batch.slice(low, high - low))
    if some:
        yield current, some


def _numbered(ids: pa.ChunkedArray) -> Iterator[tuple[int, Any]]:
    """The chunks of a column, each with the position of its first row."""
    start = 0
    for chunk in ids.chunks:
        yield start, chunk
        start += len(chunk)


def _ids_batch(schema: pa.Schema, piece: int, start: int, ids: Any, known: Any, lacks: Any) -> pa.RecordBatch:
    import pyarrow as pa
    import pyarrow.compute as pc

    stop = start + len(ids)
    needs: Sequence[bool] | Any = np.zeros(len(ids), bool)
    if lacks is not None:
        needs = pc.starts_with(lacks.slice(start, len(ids)), NEEDS)
    columns = [
        pa.array(np.full(len(ids), piece, np.int32)),
        pa.array(np.arange(start, stop)),
        ids,
        pa.array(known[start:stop]),
        pa.array(needs),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
