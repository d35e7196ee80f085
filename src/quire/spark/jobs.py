"""Running work on executors: one answer per task, errors as what they are.

The work is the last operator of its job and is collected once. So the answers are exactly those of the attempts that
succeeded: an attempt that failed, or that lost against a speculative one, may have written files, and nobody hears of
them.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from quire import errors
from quire.errors import (
    AlreadyExists,
    Conflict,
    FormatError,
    InvalidInput,
    NotFound,
    PermissionDenied,
    QuireError,
    Refused,
    SnapshotExpired,
    StorageError,
)
from quire.lake.engines import Progress
from quire.spark.watching import watched

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Answer = tuple[dict[str, Any], bytes]
"""What a task tells: something small as JSON, and bytes."""
OnRows = Callable[[Iterator["pa.RecordBatch"]], Answer]
OnNumber = Callable[[int], Answer]

BATCH = 65_536
"""Rows that a task hands to Spark at once."""
SHAPE = "partition int, head string, body binary"
LASTING = (InvalidInput, NotFound, AlreadyExists, Conflict, Refused, SnapshotExpired, FormatError, PermissionDenied)
"""Errors with which every other attempt of a task would end too."""
MARK = "quire-error: "
"""Begins the line by which the driver knows an error again that made a task fail."""


def on_rows(frame: DataFrame, work: OnRows) -> list[Answer]:
    """Let executors consume the rows of a frame, each its partitions."""
    return _collected(mapped(frame, _answering(work), SHAPE))


def on_numbers(
    spark: SparkSession | None, count: int, work: OnNumber, progress: Progress | None = None
) -> list[Answer]:
    """Run `count` tasks that need no rows of Spark; each is given its number. Without Spark they run here, in turn.

    `progress` hears now and then how many are done.
    """
    if spark is None:
        return [work(number) for number in range(count)]

    def numbered(batches: Iterator[pa.RecordBatch]) -> Answer:
        [number] = [value for batch in batches for value in batch.column(0).to_pylist()]
        return work(number)

    if count == 0:
        return []
    with watched(spark, count, progress):
        return _collected(mapped(spark.range(0, count, 1, count), _answering(numbered), SHAPE))


def source(
    spark: SparkSession, count: int, work: Callable[[int], Iterable[pa.RecordBatch]], schema: Any, rows: int = 0
) -> DataFrame:
    """A frame whose rows `count` tasks make; about `rows` of them in all.

    Spark thinks that a frame made by functions is as large as what it was made from. Told nothing, it would take any
    table for a few numbers, and send it whole to everybody when it is joined. So the frame begins with as many numbers
    as there will be rows, of which all but one per task are dropped before they cost anything.
    """

    def made(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from work(number)

    if count == 0:
        return spark.createDataFrame([], schema)
    each = max(1, rows // count)
    numbers = spark.range(0, count * each, 1, count)
    return mapped(numbers.where(f"id % {each} = 0").selectExpr(f"id div {each} as id"), made, schema)


def mapped(frame: DataFrame, work: Any, schema: Any) -> DataFrame:
    """`frame.mapInArrow`, which warns at every call about a pandas that it does not use here."""

    def marked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from work(batches)
        except QuireError as error:
            said = f"{type(error).__name__}: {error}"
            raise RuntimeError(f"{said}\n{MARK}{json.dumps(error.to_dict())}") from error

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*pandas", category=FutureWarning)
        return frame.mapInArrow(marked, schema)


def collected(frame: DataFrame) -> list[Any]:
    """The rows of a frame. An error of ours that made a task fail is raised as what it was."""
    try:
        return frame.collect()
    except Exception as error:
        found = _marked(str(error))
        if found is None:
            raise
        raise found from error


def _marked(text: str) -> QuireError | None:
    """The error that the text of one of Spark's tells of, if it does."""
    for line in text.splitlines():
        if line.startswith(MARK):
            try:
                return rebuilt(json.loads(line.removeprefix(MARK)))
            except (ValueError, KeyError):  # cut off on its way
                return None
    return None


def _answering(work: OnRows) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        try:
            head, body = work(batches)
        except LASTING as error:
            # Trying again would end the same way, so it is an answer rather than a failure of the task.
            head, body = {"error": error.to_dict()}, b""
        columns = [pa.array([context.partitionId() if context else 0], pa.int32())]
        columns += [pa.array([json.dumps(head)], pa.string()), pa.array([body], pa.binary())]
        yield pa.RecordBatch.from_arrays(columns, names=["partition", "head", "body"])

    return run


def _collected(frame: DataFrame) -> list[Answer]:
    rows = collected(frame)
    partitions = [row["partition"] for row in rows]
    if len(set(partitions)) != len(partitions):
        raise StorageError(
            "Spark delivered two results of one task; which one counts nobody can tell.",
            next="Nothing was committed; run it again.",
        )
    answers = [(json.loads(row["head"]), bytes(row["body"])) for row in sorted(rows, key=lambda r: r["partition"])]
    for head, _ in answers:
        if "error" in head:
            raise rebuilt(head["error"])
    return answers


def rebuilt(told: dict[str, Any]) -> QuireError:
    """The error that a task told of, as the class it was."""
    known = {one.kind: one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, QuireError)}
    fields = {k: v for k, v in told.items() if k not in ("kind", "message", "next", "retryable")}
    cls = known.get(told["kind"], QuireError)
    return cls(told["message"], next=told["next"], retryable=told["retryable"], **fields)
