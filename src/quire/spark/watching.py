"""How far a job of Spark is: asked for now and then, while the caller waits for it."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from quire.lake.engines import Progress

PAUSE = 0.2


@contextmanager
def watched(spark: Any, total: int, progress: Progress | None) -> Iterator[None]:
    """Tell `progress` how many tasks of the jobs that this block runs are done."""
    if progress is None:
        yield
        return
    progress(0, total)
    if hasattr(spark, "registerProgressHandler") and not hasattr(spark, "_jsparkSession"):
        with _connected(spark, total, progress):
            yield
    else:
        with _polled(spark.sparkContext, total, progress):
            yield
    progress(total, total)


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
                progress(min(done, total), total)

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
        progress(min(sum(stage.num_completed_tasks for stage in stages or ()), total), total)

    spark.registerProgressHandler(told)
    try:
        yield
    finally:
        spark.removeProgressHandler(told)
