"""Rows of a type that cannot be loaded because of their ids, found by executors.

Few rows are looked at by one task, with the code that does it in one process; more are shuffled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.formats import Place
from quire.formats.lance import tasks
from quire.formats.lance.apart import view_of
from quire.graph.load.clash import ANOTHER, THERE, TWICE, Mode, by_unique, clashing
from quire.graph.load.lacks import NEEDS
from quire.graph.load.merge import homeless
from quire.spark import jobs
from quire.spark.graph import frames
from quire.spark.graph.rejects import Bad
from quire.spark.graph.written import Written

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Clashes:
    """Who looks, where the table is, and how many rows one task may look at."""

    spark: SparkSession
    at: Place
    mode: Mode
    few: int

    def find(self, one: Written, room: int | None) -> list[Bad]:
        """Rows with an id that is there or comes twice, and then those that are new and lack what is required.

        Each in the order of the rows, and no more than there is room for.
        """
        if not one.pieces:
            return []
        rows = sum(piece.rows for piece in one.pieces)
        return self._shuffled(one, room) if rows > self.few else self._in_one_task(one, room)

    def _in_one_task(self, one: Written, room: int | None) -> list[Bad]:
        at, mode, entity, place, pieces, needy = self.at, self.mode, one.entity, one.place, one.pieces, one.needy
        unique = by_unique(entity, mode, lacking=one.lacking)

        def work(_: int) -> jobs.Answer:
            import pyarrow as pa

            ids = pa.chunked_array([c for p in pieces for c in p.read_ids(place).chunks], pa.string())
            known = np.concatenate([p.read_known(place) for p in pieces])
            found = sorted(clashing(lambda: view_of(at, entity.table), mode, ids, known, unique=unique).items())
            if needy:
                lacks = pa.concat_arrays([p.read_lacks(place) for p in pieces])
                lost = homeless(lambda: view_of(at, entity.table), entity, ids, lacks)
                clashed = {position for position, _ in found}
                found += [(position, "") for position in sorted(lost) if position not in clashed]
            starts = np.cumsum([0, *(p.rows for p in pieces)])
            rows = []
            for position, said in found[:room]:
                piece = int(np.searchsorted(starts, position, side="right")) - 1
                rows.append([piece, position - int(starts[piece]), said])
            return {"rows": rows}, b""

        [(head, _)] = jobs.on_numbers(self.spark, 1, work)
        return [Bad(*row) for row in head["rows"]]

    def _shuffled(self, one: Written, room: int | None) -> list[Bad]:
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        strict, unique = self.mode == "append", by_unique(one.entity, self.mode, lacking=one.lacking)
        order = Window.partitionBy("id").orderBy("piece", "pos")
        rows = self._rows(one).withColumn("later", f.row_number().over(order) > 1)
        if strict or unique or one.needy:
            there = frames.table(self.spark, self.at, tasks.fragments_of(self.at), ["id"], ["there"])
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
        return [Bad(p, n, words[w]) for p, n, w in zip(*(c.to_pylist() for c in found.columns), strict=True)]

    def _rows(self, one: Written) -> DataFrame:
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
            for start, ids in numbered(piece.read_ids(place)):
                yield _batch(schema, number, start, ids, known, lacks)

        return frames.rows(self.spark, len(pieces), schema, read)


def numbered(ids: pa.ChunkedArray) -> Iterator[tuple[int, Any]]:
    """The chunks of a column, each with the position of its first row."""
    start = 0
    for chunk in ids.chunks:
        yield start, chunk
        start += len(chunk)


def _batch(schema: pa.Schema, piece: int, start: int, ids: Any, known: Any, lacks: Any) -> pa.RecordBatch:
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
