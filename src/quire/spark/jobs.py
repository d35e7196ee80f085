"""Running work on executors: one answer per task, errors as what they are.

The work is the last operator of its job and is collected once. So the answers are exactly those of the attempts that
succeeded: an attempt that failed, or that lost against a speculative one, may have written files, and nobody hears of
them.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from quire.errors import (
    AlreadyExists,
    Conflict,
    EmbedderError,
    FormatError,
    InvalidInput,
    NotFound,
    PermissionDenied,
    QuireError,
    Refused,
    SnapshotExpired,
    StorageError,
)
from quire.lake import engines
from quire.lake.engines import Answer, rebuilt
from quire.progress import Progress

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


PAUSE = 0.2


@contextmanager
def watched(spark: Any, total: int, progress: Progress | None) -> Iterator[None]:
    """Tell `progress` how many tasks of the jobs that this block runs are done."""
    if progress is None:
        yield
        return
    progress("tasks", 0, total)
    if hasattr(spark, "registerProgressHandler") and not hasattr(spark, "_jsparkSession"):
        with _connected(spark, total, progress):
            yield
    else:
        with _polled(spark.sparkContext, total, progress):
            yield
    progress("tasks", total, total)


@contextmanager
def _polled(context: Any, total: int, progress: Progress) -> Iterator[None]:
    """On a driver: its status tracker knows the jobs of a group."""
    group, stop = f"quire-{uuid.uuid4().hex}", threading.Event()
    before = context.getLocalProperty("spark.jobGroup.id"), context.getLocalProperty("spark.job.description")
    context.setJobGroup(group, before[1] or "quire")

    def poll() -> None:
        tracker = context.statusTracker()
        while not stop.wait(PAUSE):
            with suppress(Exception):  # who is only watching must not fail
                done = 0
                for job in tracker.getJobIdsForGroup(group):
                    info = tracker.getJobInfo(job)
                    for stage in info.stageIds if info else ():
                        known = tracker.getStageInfo(stage)
                        done += known.numCompletedTasks if known else 0
                progress("tasks", min(done, total), total)

    thread = threading.Thread(target=poll, daemon=True, name="quire-progress")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        context.setLocalProperty("spark.jobGroup.id", before[0])
        context.setLocalProperty("spark.job.description", before[1])


@contextmanager
def _connected(spark: Any, total: int, progress: Progress) -> Iterator[None]:
    """Over Connect: the server tells its clients."""

    def told(stages: Any, **_: Any) -> None:
        done = sum(stage.num_completed_tasks for stage in stages or ())
        progress("tasks", min(done, total), total)

    spark.registerProgressHandler(told)
    try:
        yield
    finally:
        spark.removeProgressHandler(told)


@contextmanager
def described(spark: Any, text: str) -> Iterator[None]:
    """Let Spark's UI show what the jobs of this block do, such as `quire: write documents`.

    Whoever has described them already is right. Spark Connect shows its own.
    """
    if not hasattr(spark, "_jsparkSession") or spark.sparkContext.getLocalProperty("spark.job.description"):
        yield
        return
    context = spark.sparkContext
    context.setLocalProperty("spark.job.description", f"quire: {text}")
    try:
        yield
    finally:
        context.setLocalProperty("spark.job.description", None)


def _called(spark: Any) -> AbstractContextManager[None]:
    """The same with the name that whoever asks has for them."""
    name = engines.job_name()
    return described(spark, name) if name is not None else nullcontext()


OnRows = Callable[[Iterator["pa.RecordBatch"]], Answer]
OnNumber = Callable[[int], Answer]
OnPartition = Callable[[Iterator["pa.RecordBatch"], int], Answer]

BATCH = 65_536
"""Rows that a task hands to Spark at once."""
SHAPE = "partition int, head string, body binary, attempt int, seconds double"
LASTING = (
    *(InvalidInput, NotFound, AlreadyExists, Conflict, Refused, SnapshotExpired, FormatError, PermissionDenied),
    EmbedderError,  # it has asked again itself, and another attempt would pay again
)
"""Errors with which every other attempt of a task would end too."""
MARK = "quire-error: "
"""Begins the line by which the driver knows an error again that made a task fail."""


def pickled(given: Any) -> bytes:
    """Something as it is sent to executors."""
    from pyspark import cloudpickle

    found: bytes = cloudpickle.dumps(given)  # type: ignore[no-untyped-call]
    return found


def on_rows(frame: DataFrame, work: OnRows) -> list[Answer]:
    """Let executors consume the rows of a frame, each its partitions."""
    return _collected(mapped(frame, _answering(work), SHAPE))


def on_partitions(frame: DataFrame, work: OnPartition) -> list[Answer]:
    """The same for work that is given the number of its partition."""

    def numbered(batches: Iterator[pa.RecordBatch]) -> Answer:
        from pyspark import TaskContext

        context = TaskContext.get()
        return work(batches, context.partitionId() if context else 0)

    return on_rows(frame, numbered)


def on_numbers(spark: SparkSession, count: int, work: OnNumber, progress: Progress | None = None) -> list[Answer]:
    """Run `count` tasks that need no rows of Spark; each is given its number.

    `progress` hears now and then how many are done.
    """

    def numbered(batches: Iterator[pa.RecordBatch]) -> Answer:
        [number] = [value for batch in batches for value in batch.column(0).to_pylist()]
        return work(number)

    if count == 0:
        return []
    with _called(spark), watched(spark, count, progress):
        return _collected(mapped(spark.range(0, count, 1, count), _answering(numbered), SHAPE))


def source(
    spark: SparkSession,
    count: int,
    work: Callable[[int], Iterable[pa.RecordBatch]],
    schema: Any,
    rows: int = 0,
    *,
    name: str = "",
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
    return mapped(numbers.where(f"id % {each} = 0").selectExpr(f"id div {each} as id"), made, schema, name)


def mapped(frame: DataFrame, work: Any, schema: Any, name: str = "") -> DataFrame:
    """`frame.mapInArrow`, which warns at every call about a pandas that it does not use here.

    Spark's UI and its plans show the name.
    """

    def marked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from work(batches)
        except QuireError as error:
            said = f"{type(error).__name__}: {error}"
            raise RuntimeError(f"{said}\n{MARK}{json.dumps(error.to_dict())}") from error

    marked.__name__ = name or marked.__name__
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

        context, began = TaskContext.get(), time.perf_counter()
        try:
            head, body = work(batches)
        except LASTING as error:
            # Trying again would end the same way, so it is an answer rather than a failure of the task.
            head, body = {"error": error.to_dict()}, b""
        columns = [pa.array([context.partitionId() if context else 0], pa.int32())]
        columns += [pa.array([json.dumps(head)], pa.string()), pa.array([body], pa.binary())]
        columns += [pa.array([context.attemptNumber() if context else 0], pa.int32())]
        columns += [pa.array([time.perf_counter() - began])]
        yield pa.RecordBatch.from_arrays(columns, names=["partition", "head", "body", "attempt", "seconds"])

    return run


def _collected(frame: DataFrame) -> list[Answer]:
    began = time.perf_counter()
    with _called(frame.sparkSession):
        rows = collected(frame)
    engines.job_ran(
        tasks=len(rows),
        attempts=sum(row["attempt"] + 1 for row in rows),
        seconds=time.perf_counter() - began,
        task_seconds=sum(row["seconds"] for row in rows),
    )
    partitions = [row["partition"] for row in rows]
    if len(set(partitions)) != len(partitions):
        raise StorageError(
            "Spark returned two results for one task.",
            next="Nothing was committed; run it again.",
        )
    answers = [(json.loads(row["head"]), bytes(row["body"])) for row in sorted(rows, key=lambda r: r["partition"])]
    for head, _ in answers:
        if "error" in head:
            raise rebuilt(head["error"])
    return answers
