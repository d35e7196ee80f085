"""Merging on Spark: which rows are there already, and rows that keep values of those.

Rows that came without every property lie in files beside the table. What they become follows from the rows that are
there, so they are made on every base that the commit moves to, as in one process. Few rows are looked up in the table
by the task that makes them; more are joined with it by a shuffle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.formats import Built, Place
from quire.formats import Found as FoundRows
from quire.formats.lance import match, tasks
from quire.formats.lance.apart import view_of
from quire.formats.lance.statements import Patch, patched
from quire.formats.marks import by_fragment, merged, packed, unpacked
from quire.graph.catalog import Entity
from quire.graph.integrity.violations import Found
from quire.graph.load.clash import Ids, incomplete, merged_ids
from quire.graph.load.lacks import NEEDS
from quire.graph.load.merge import kept, missing
from quire.graph.load.write import as_stored
from quire.spark import jobs
from quire.spark.graph import frames
from quire.spark.graph.written import Piece, Written

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Merging:
    """How the raw rows of one type become rows of its table."""

    spark: SparkSession
    entity: Entity
    place: Place
    """Where data files are written."""
    schema: Any
    few: int

    # -- identity ---------------------------------------------------------------------------------------------

    def identify(self, one: Written, columns: Sequence[str]) -> None:
        """Give rows that are there already, by what is unique, the ids that they have there."""
        if not one.pieces:
            return
        rows = sum(piece.rows for piece in one.pieces)
        paths = self._identify_shuffled(one, columns) if rows > self.few else self._identify_in_one_task(one, columns)
        for number, path in paths.items():
            one.pieces[number].ids = path

    def _identify_in_one_task(self, one: Written, columns: Sequence[str]) -> dict[int, str]:
        entity, place, pieces, names = self.entity, self.place, one.pieces, ["id", *columns]

        def work(_: int) -> jobs.Answer:
            import pyarrow as pa

            rows = pa.concat_tables([pa.Table.from_batches(piece.read_rows(place, names)) for piece in pieces])
            found = merged_ids(view_of(place, entity.table), entity, columns, rows)
            return {"paths": [] if found is None else list(_written_ids(place, pieces, found))}, b""

        [(head, _)] = jobs.on_numbers(self.spark, 1, work)
        return dict(enumerate(head["paths"]))

    def _identify_shuffled(self, one: Written, columns: Sequence[str]) -> dict[int, str]:
        from pyspark.sql import functions as f

        place, names = self.place, [f"k{i}" for i in range(len(columns))]
        there = frames.table(self.spark, place, tasks.fragments_of(place), ["id", *columns], ["there", *names])
        rows = self._numbered(one.pieces, ["id", *columns], ["id", *names])
        both = rows.join(there.drop(frames.AT), names, "left")
        # A row with a null in them goes by its id.
        known = " or ".join(["there is not null", *(f"{name} is null" for name in names)])
        ids = both.select("piece", "pos", f.expr("coalesce(there, id) as id"), f.expr(f"({known}) as known"))

        def work(batches: Iterator[pa.RecordBatch]) -> jobs.Answer:
            import pyarrow as pa

            paths = {}
            for number, some in by_piece(batches):
                column = [pa.concat_arrays([b.column(i) for b in some]) for i in (2, 3)]
                paths[str(number)] = tasks.write_columns(place, [_ids_batch(*column)])
            return {"paths": paths}, b""

        answers = jobs.on_rows(_by_piece(ids, len(one.pieces)), work)
        return {int(number): path for head, _ in answers for number, path in head["paths"].items()}

    # -- rows that are what they are --------------------------------------------------------------------------

    def complete(self, pieces: Sequence[Piece], mode: Any = "append") -> None:
        """Write raw rows, which give every property, into the table."""
        raw = [piece for piece in pieces if piece.raw is not None and not piece.fragments]
        entity, place, schema = self.entity, self.place, self.schema
        output = tasks.Output(place, entity.table, ("id",), mode=mode, schema=schema)

        def work(number: int) -> jobs.Answer:
            rows = (as_stored(batch, schema) for _, batch in loaded(place, entity, raw[number]))
            return {"fragments": tasks.write_rows(output, rows)[0]}, b""

        for piece, (head, _) in zip(raw, jobs.on_numbers(self.spark, len(raw), work), strict=True):
            piece.fragments, piece.filtered = head["fragments"], len(piece.left_out) > 0

    # -- rows that keep values of those that are there --------------------------------------------------------

    def build(self, pieces: Sequence[Piece], at: Place) -> Built:
        """Make the rows of pieces on one state of the table."""
        rows = sum(piece.rows for piece in pieces)
        answers = self._build_shuffled(pieces, at) if rows > self.few else self._build_in_tasks(pieces, at)
        replaced = merged(unpacked(body) for _, body in answers)
        fragments = tuple(text for head, _ in answers for text in head["fragments"])
        return Built(fragments, FoundRows(replaced, sum(map(len, replaced.values()))))

    def _build_in_tasks(self, pieces: Sequence[Piece], at: Place) -> list[jobs.Answer]:
        made = Made(self.entity, self.place, self.schema, at)

        def work(number: int) -> jobs.Answer:
            piece = pieces[number]
            ids = tasks.all_keys(made.place, piece.id_paths(), ["id"])
            addresses, positions = tasks.find_keys(at, None, ["id"], ids)
            return made.write([(piece, positions, addresses)])

        return jobs.on_numbers(self.spark, len(pieces), work)

    def _build_shuffled(self, pieces: Sequence[Piece], at: Place) -> list[jobs.Answer]:
        from pyspark.sql import functions as f

        made = Made(self.entity, self.place, self.schema, at)
        there = frames.table(self.spark, at, tasks.fragments_of(at), ["id"], ["there"])
        rows = self._numbered(pieces, ["id"], ["id"], ids=True)
        both = rows.join(there, rows["id"] == there["there"]).select("piece", "pos", frames.AT)
        # A piece of which no row is there is made too.
        every = self.spark.range(len(pieces)).select(
            f.col("id").cast("int").alias("piece"), f.lit(-1).cast("long").alias("pos"), f.lit(0).cast("long")
        )

        def work(batches: Iterator[pa.RecordBatch]) -> jobs.Answer:
            def found() -> Iterator[tuple[Piece, Any, Any]]:
                for number, some in by_piece(batches):
                    positions, addresses = (np.concatenate([b.column(i).to_numpy() for b in some]) for i in (1, 2))
                    real = positions >= 0
                    yield pieces[number], positions[real], addresses[real].astype(np.uint64)

            return made.write(found())

        return jobs.on_rows(_by_piece(both.union(every), len(pieces)), work)

    def _numbered(
        self, pieces: Sequence[Piece], columns: Sequence[str], names: Sequence[str], *, ids: bool = False
    ) -> DataFrame:
        """Columns of raw rows under other names, with the number of the piece and the position in it."""
        import pyarrow as pa

        place = self.place
        kinds = [self.schema.field(column).type for column in columns]
        named = ((f"c{i}", kind) for i, kind in enumerate(kinds))
        schema = pa.schema([("piece", pa.int32()), ("pos", pa.int64()), *named])

        def read(number: int) -> Iterable[pa.RecordBatch]:
            piece, start = pieces[number], 0
            own = tasks.read_keys(place, piece.id_paths(), ["id"]) if ids else piece.read_rows(place, columns)
            for batch in own:
                rows = batch.num_rows
                where = [pa.array(np.full(rows, number, np.int32)), pa.array(np.arange(start, start + rows))]
                yield pa.RecordBatch.from_arrays([*where, *batch.columns], names=schema.names)
                start += rows

        return frames.rows(self.spark, len(pieces), schema, read).toDF("piece", "pos", *names)


# -- in a task --------------------------------------------------------------------------------------------------------


def loaded(place: Place, entity: Entity, piece: Piece) -> Iterator[tuple[Any, pa.RecordBatch]]:
    """The raw rows of a piece that are loaded, under the ids that they have after all, with their positions."""
    import pyarrow as pa

    schema, start = entity.schema(), 0
    ids = piece.read_ids(place).combine_chunks() if piece.ids is not None else None
    keep = np.ones(piece.rows, bool)
    keep[piece.left_out] = False
    for batch in piece.read_rows(place, schema.names):
        stop = start + batch.num_rows
        columns = list(batch.columns)
        if ids is not None:
            columns[0] = ids.slice(start, batch.num_rows)
        rows = pa.RecordBatch.from_arrays(columns, schema=schema).filter(keep[start:stop])
        yield start + np.flatnonzero(keep[start:stop]), rows
        start = stop


@dataclass(frozen=True)
class Made:
    """Makes rows of raw ones and of those that are there."""

    entity: Entity
    place: Place
    schema: Any
    at: Place

    def write(self, pieces: Iterable[tuple[Piece, NDArray[np.int64], NDArray[np.uint64]]]) -> jobs.Answer:
        """Write the rows of pieces; of each it is told at which positions rows are there already, and where."""
        replaced: list[Any] = [np.empty(0, np.uint64)]
        output = tasks.Output(self.place, self.entity.table, ("id",), schema=self.schema)

        def rows() -> Iterator[pa.RecordBatch]:
            for piece, positions, addresses in pieces:
                lacks = piece.read_lacks(self.place)
                for places, batch in loaded(self.place, self.entity, piece):
                    made, gone = self._merged(batch, lacks.take(places), places, positions, addresses)
                    replaced.append(gone)
                    yield from made.to_batches()

        fragments, _ = tasks.write_rows(output, rows())
        return {"fragments": fragments}, packed(by_fragment(np.concatenate(replaced)))

    def _merged(
        self, batch: pa.RecordBatch, lacks: pa.Array, places: Any, positions: Any, addresses: Any
    ) -> tuple[pa.Table, Any]:
        """Whole rows, and the addresses of those that they replace."""
        import pyarrow as pa

        chosen = np.isin(positions, places)
        where, gone = np.searchsorted(places, positions[chosen]), addresses[chosen]
        self._check_complete(batch, lacks, where)
        keep = kept(self.entity, lacks)
        given = pa.Table.from_batches([as_stored(batch, self.schema)])
        old = None
        if len(gone) and keep:
            old = match.rows_at(tasks.open_place(self.at), gone, list(keep))
        return patched(self.schema, Patch(given, ("id",), keep), old, where), gone

    def _check_complete(self, batch: pa.RecordBatch, lacks: pa.Array, there: Any) -> None:
        """Rows that are new have what is required. That was so before; a rival may have removed one since."""
        new = np.setdiff1d(np.arange(batch.num_rows), there)
        found = Found()
        for row in new.tolist():
            text = lacks[row].as_py()
            if text.startswith(NEEDS):
                found.add([incomplete(self.entity, batch.column("id")[row].as_py(), missing(self.entity, text))])
        if found:
            raise found.error()


def by_piece(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, list[pa.RecordBatch]]]:
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


def _by_piece(frame: DataFrame, pieces: int) -> DataFrame:
    return frame.repartition(pieces, "piece").sortWithinPartitions("piece", "pos")


def _written_ids(place: Place, pieces: Sequence[Piece], found: Ids) -> Iterator[str]:
    import pyarrow as pa

    start = 0
    for piece in pieces:
        ids = found.column.slice(start, piece.rows).combine_chunks()
        known = pa.array(found.known[start : start + piece.rows])
        yield tasks.write_columns(place, [_ids_batch(ids, known)])
        start += piece.rows


def _ids_batch(ids: Any, known: Any) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([ids.cast(pa.string()), known], names=["id", "known"])
