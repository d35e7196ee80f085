"""What a query reads of one variable, as a frame: tasks read, search and rename; Spark joins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quire.filters import Condition
from quire.formats import Place, task_table
from quire.formats.tasks import grouped
from quire.graph.query.pushed_filters import both
from quire.graph.query.scans import Source
from quire.graph.query.search.scores import Made
from quire.lake.engines import Answer
from quire.lake.read.ranking import text_statistics
from quire.spark import jobs, types
from quire.spark.read import TASK_ROWS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from quire.lake import Snapshot, Table


@dataclass(frozen=True)
class Columns:
    """Which columns of a variable are read, which are handed on, and in which types. It is sent to tasks."""

    table: str
    stored: dict[str, str]
    """By the name in the SQL, what is read."""
    shown: pa.Schema
    """What is handed on of those, in types that Spark takes."""
    made: Made

    @classmethod
    def of(cls, source: Source, snapshot: Snapshot, made: Made, wanted: Sequence[str]) -> Columns:
        """Those that the SQL names; `made` may need more to be read."""
        import pyarrow as pa

        names = source.place.columns
        texts = " ".join(made.texts.values())
        stored = {n: c for n, c in names.items() if n in wanted or n in texts} or dict([next(iter(names.items()))])
        schema, table = source.table(snapshot).schema, source.place.entity.table
        fields = [pa.field(n, schema.field(c).type) for n, c in stored.items() if n in wanted or not made.texts]
        shown = types.readable(pa.schema(fields), table)
        return cls(table, stored, shown, made)

    @property
    def schema(self) -> pa.Schema:
        """Of the frame."""
        import pyarrow as pa

        return pa.schema([*self.shown, *self.made.schema()])

    def converted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows under the names of the SQL as the frame has them."""
        import pyarrow as pa

        connection = _connected() if self.made.texts else None
        try:
            for batch in batches:
                [shown] = types.converted([batch], self.shown, self.table)
                more = self.made.of(connection, batch) if connection is not None else []
                yield pa.RecordBatch.from_arrays([*shown.columns, *more], schema=self.schema)
        finally:
            if connection is not None:
                connection.close()


def frame(spark: SparkSession, snapshot: Snapshot, source: Source, columns: Columns) -> DataFrame:
    """What is read of a variable: by tasks, or what was read already because it is little."""
    import pyarrow as pa

    schema = types.spark_schema(columns.schema)
    if source.rows is not None:
        rows = pa.Table.from_batches(columns.converted(_batches(source.rows, columns)), columns.schema)
        return spark.createDataFrame(rows, schema) if rows.num_rows else spark.createDataFrame([], schema)
    table = source.table(snapshot)
    place, parts = table.parts()
    scan = _Scan(place, grouped(parts, TASK_ROWS), columns, both(source.filters), source.limit)
    return sized(spark, len(scan.groups), table.count(), scan, schema)


@dataclass(frozen=True)
class _Scan:
    """Reads one part of a table. It is sent to tasks."""

    place: Place
    groups: list[list[int]]
    columns: Columns
    filter: Condition | None
    limit: int | None

    def __call__(self, number: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        stored = self.columns.stored
        rows = task_table(self.place).read_rows(self.groups[number], list(stored.values()), self.filter)
        if self.limit is not None:
            rows = _first(rows, self.limit)

        def renamed() -> Iterator[pa.RecordBatch]:
            for batch in rows:
                yield pa.RecordBatch.from_arrays([batch.column(c) for c in stored.values()], names=list(stored))

        yield from self.columns.converted(renamed())


def _first(batches: Iterator[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.slice(0, most)
        most -= batch.num_rows
        if most <= 0:
            return


def _batches(rows: pa.Table, columns: Columns) -> Iterator[pa.RecordBatch]:
    yield from rows.select(list(columns.stored)).to_batches()


def _connected() -> Any:
    import duckdb

    return duckdb.connect(config={"enable_external_access": "false", "threads": 1})


def sized(spark: SparkSession, count: int, rows: int, work: Any, schema: Any) -> DataFrame:
    """A frame whose rows `count` tasks make, which Spark takes for one of so many rows.

    Spark guesses the size of what tasks make from the size of what they are given. What it takes for small it sends
    through the driver to everybody; so the numbers of the tasks are chosen from a range as long as the table.
    """
    if count == 0:
        return spark.createDataFrame([], schema)
    step = max(1, rows // count)

    def made(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from work(number // step)

    return jobs.mapped(spark.range(0, count * step, 1, count).where(f"id % {step} = 0"), made, schema)


def asking(spark: SparkSession) -> text_statistics.Ask:
    """Who counts tokens on executors: each task those of its part of the table."""

    def ask(table: Table, column: str, query: str, values: dict[str, str]) -> list[tuple[Any, ...]]:
        import pyarrow as pa

        place, parts = table.parts()
        groups = grouped(parts, TASK_ROWS)
        schema = pa.schema([("c", table.schema.field(column).type)])
        if not groups:
            return text_statistics.answer(schema.empty_table(), query, values)

        def work(number: int) -> Answer:
            read = task_table(place).read_rows(groups[number], [column], None)
            texts = (pa.RecordBatch.from_arrays([batch.column(0)], schema=schema) for batch in read)
            found = text_statistics.answer(pa.RecordBatchReader.from_batches(schema, texts), query, values)
            return {"rows": [[int(v) if not isinstance(v, str) else v for v in row] for row in found]}, b""

        answers = jobs.on_numbers(spark, len(groups), work)
        return [tuple(row) for head, _ in answers for row in head["rows"]]

    return ask
