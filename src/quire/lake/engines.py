"""Who carries long work out: this process, or an engine that a higher layer provides.

An engine is `"local"`, a Spark session, or `"auto"`: then the session that is running in this process takes what is
larger than `AUTO_BYTES`, and this process does everything else. An engine is known by the package of its class; the
module that goes with it is imported when it is first used.

Most work needs nothing but numbered tasks: `tasks_on(engine)` runs them wherever the engine is, and the code that says
what a task does is the same everywhere.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

from quire.errors import InvalidInput

Engine = Any
"""`"local"`, `"auto"` or a Spark session."""
Answer = tuple[dict[str, Any], bytes]
"""What a task tells: something small that is JSON, and bytes."""
Tasks = Callable[[int, Callable[[int], Answer]], list[Answer]]
"""Runs so many tasks, each of which is given its number: their answers, in order. A task may run twice, and only one
answer of it counts. What it is made of is sent to other processes, so it must be picklable (a closure over plain data
is)."""

Progress = Callable[[int, int], None]
"""Called with how many tasks are done and how many there are."""

AUTO_BYTES = 2 << 30
"""`"auto"` leaves anything smaller to this process: until its disk or its memory is the limit, it is as fast."""

_packages: dict[str, str] = {"pyspark": "quire.spark"}


def chosen(engine: Engine, size: Callable[[], int] | int | None = None) -> Any | None:
    """The session that an engine is, or None for this process. `size` in bytes is asked for under `"auto"` only."""
    if isinstance(engine, str):
        if engine == "local":
            return None
        if engine == "auto":
            running = _running()
            large = running is not None and (size() if callable(size) else size or 0) >= AUTO_BYTES
            return running if large else None
    elif _package(engine) is not None:
        return engine
    raise InvalidInput(f"{engine!r} is no engine.", next='Use "local", "auto" or a Spark session.')


def start(master: str) -> Any:
    """A Spark session of this process, on a master, that keeps its log to itself; who started it stops it."""
    return importlib.import_module("quire.spark.start").session(master, settings={"spark.log.level": "OFF"})


def provided(session: Any, module: str) -> Any:
    """A module of the package that goes with a session: `provided(spark, "graph")` is `quire.spark.graph`."""
    package = _package(session)
    assert package is not None, session
    return importlib.import_module(f"{package}.{module}")


def tasks_on(session: Any | None, progress: Progress | None = None) -> Tasks:
    """How tasks are run by a session, or in this process, one after the other. `progress` hears how many are done."""
    if session is None:
        return lambda count, work: _here(count, work, progress)
    run = provided(session, "jobs").on_numbers
    return lambda count, work: run(session, count, work, progress)


def slots(session: Any | None) -> int:
    """How many tasks run at the same time, as far as that is known."""
    if session is None:
        return 1
    context = getattr(session, "_sc", None)  # over Connect there is none
    return int(context.defaultParallelism) if context is not None else 8


def _here(count: int, work: Callable[[int], Answer], progress: Progress | None) -> list[Answer]:
    told = progress or (lambda done, total: None)
    answers = []
    told(0, count)
    for number in range(count):
        answers.append(work(number))
        told(number + 1, count)
    return answers


def _package(engine: Any) -> str | None:
    return _packages.get(type(engine).__module__.partition(".")[0])


def _running() -> Any | None:
    """The Spark session of this process, if there is one. Nothing is imported to find out."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()
