"""Frames that a program hands to a pipeline: of Spark on Spark, anything with columns in this process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from quire.errors import InvalidInput
from quire.formats.arrow import source as arrow_source
from quire.pipeline.parts import Batches, IntoTable
from quire.spark import jobs

if TYPE_CHECKING:
    import pyarrow as pa


def on_frame(session: Any | None, frame: Any, into: IntoTable, source: Batches, number: int) -> list[dict[str, Any]]:
    """Write the rows of a frame: what each task tells."""
    if session is None:
        return [into(Batches(source.path, local_batches(frame, source.path)), number)[0]]
    name = source.path

    def work(batches: Iterator[pa.RecordBatch]) -> jobs.Answer:
        from pyspark import TaskContext

        context = TaskContext.get()
        return into(Batches(name, batches), number * 100_000 + (context.partitionId() if context else 0))

    return [head for head, _ in jobs.on_rows(spark_frame(frame, name), work)]


def local_batches(frame: Any, name: str) -> Iterator[pa.RecordBatch]:
    """The rows of a frame in this process."""
    if hasattr(frame, "mapInArrow"):
        raise InvalidInput(f"{name} is one of Spark.", next="Pass its session as engine.")
    yield from arrow_source(frame).batches


def spark_frame(frame: Any, name: str) -> Any:
    """The frame, if it is one of Spark."""
    if not hasattr(frame, "mapInArrow"):
        raise InvalidInput(f"{name} is none of Spark.", next="Make one with spark.createDataFrame, or load it locally.")
    return frame
