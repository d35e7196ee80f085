"""Long work in parts, done by the tasks of a session.

A failure of the store is told as an answer, after a second try, so that it reaches the caller as the error that it was,
and only what it belongs to fails. A task that dies is run again by the session.
"""

from __future__ import annotations

import importlib
import pickle
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from quire import errors
from quire.conversion.inputs import source as arrow_source
from quire.errors import InvalidInput, QuireError, StorageError, shown
from quire.formats import Part, Run
from quire.lake.context import Core
from quire.progress import Progress, silent
from quire.store import External, Meter, clock
from quire.store.forwarded_credentials import carried

if TYPE_CHECKING:
    import pyarrow as pa

Engine = Any
"""`"local"`, `"auto"`, a Spark session, or a `TaskEngine`."""
Answer = tuple[dict[str, Any], bytes]
"""What a task tells: something small that is JSON, and bytes."""
Tasks = Callable[[int, Callable[[int], Answer]], list[Answer]]
"""Runs so many tasks, each of which is given its number: their answers, in order. A task may run twice, and only one
answer of it counts. What it is made of is sent to other processes, so it must be picklable (a closure over plain data
is)."""

OnRows = Callable[[Iterator["pa.RecordBatch"], int], Answer]
"""Consumes a part of the rows of a frame; it is given the number of the part."""


@runtime_checkable
class TaskEngine(Protocol):
    """Runs numbered tasks, wherever that is. Nothing else is asked of it: shuffles and frames are Spark's."""

    def run_tasks(self, count: int, work: Callable[[int], Answer], progress: Progress | None) -> list[Answer]: ...


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
    elif _package(engine) is not None or isinstance(engine, TaskEngine):
        return engine
    raise InvalidInput(f"{shown(engine)} is not an engine.", next='Use "local", "auto" or a Spark session.')


def start(master: str) -> Any:
    """A Spark session of this process, on a master, that keeps its log to itself; who started it stops it."""
    return importlib.import_module("quire.spark.session_builder").session(master, settings={"spark.log.level": "OFF"})


def provided(session: Any, module: str) -> Any:
    """A module of the package that goes with a session: `provided(spark, "jobs")` is `quire.spark.jobs`."""
    package = _package(session)
    assert package is not None, session
    return importlib.import_module(f"{package}.{module}")


def shuffles(session: Any | None, module: str) -> Any | None:
    """A module of what goes with a session that can shuffle rows; None where everything is done by numbered tasks."""
    return provided(session, module) if session is not None and _package(session) is not None else None


def tasks_on(session: Any | None, progress: Progress | None = None) -> Tasks:
    """How tasks are run by a session, or in this process, one after the other. `progress` hears how many are done."""
    if session is None:
        return lambda count, work: _here(count, work, progress)
    if isinstance(session, TaskEngine):
        return lambda count, work: session.run_tasks(count, work, progress)
    run = provided(session, "jobs").on_numbers
    return lambda count, work: run(session, count, work, progress)


def pickled(session: Any | None, given: Any) -> bytes:
    """Something as it is sent to the tasks of a session. What cannot be sent raises whatever pickling raises."""
    spark = shuffles(session, "jobs")
    found: bytes = pickle.dumps(given) if spark is None else spark.pickled(given)
    return found


def is_distributed(frame: Any) -> bool:
    """Whether something is a frame of Spark, whose rows are not in this process."""
    return hasattr(frame, "mapInArrow")


def on_frame(session: Any | None, frame: Any, work: OnRows, name: str = "The frame") -> list[Answer]:
    """Let tasks of a session consume the rows of a frame, those of a partition each; rows of this process, here."""
    if is_distributed(frame) != (shuffles(session, "jobs") is not None):
        if is_distributed(frame):
            raise InvalidInput(f"{name} is a Spark DataFrame.", next="Pass its session as engine.")
        raise InvalidInput(
            f"{name} is not a Spark DataFrame.", next="Make one with spark.createDataFrame, or load it locally."
        )
    if not is_distributed(frame):
        return [work(iter(arrow_source(frame).batches), 0)]
    found: list[Answer] = provided(session, "jobs").on_partitions(frame, work)
    return found


_job: ContextVar[tuple[str, Meter] | None] = ContextVar("quire_job", default=None)


@contextmanager
def named_job(name: str, meter: Meter) -> Iterator[None]:
    """Let a session call the jobs of this block so, and a receipt say what they took: `upsert documents`."""
    before = _job.set((name, meter))
    try:
        yield
    finally:
        _job.reset(before)


def job_name() -> str | None:
    """What the jobs of this block are called."""
    current = _job.get()
    return None if current is None else current[0]


def job_ran(*, tasks: int, attempts: int, seconds: float, task_seconds: float) -> None:
    """Tell what one of them took: how many tasks, how often they were begun, the time on the clock and that of all."""
    current = _job.get()
    if current is not None:
        name, meter = current
        meter.ran(name, jobs=1, tasks=tasks, attempts=attempts, seconds=seconds, task_seconds=task_seconds)


def listed(names: Collection[str], most: int = 4) -> str:
    """Some names, for people: `a, b and 22 more`."""
    some = list(names)
    more = f" and {len(some) - most} more" if len(some) > most else ""
    return ", ".join(some[:most]) + more


def slots(session: Any | None) -> int:
    """How many tasks run at the same time, as far as that is known."""
    if session is None:
        return 1
    context = getattr(session, "_sc", None)  # over Connect there is none
    return int(context.defaultParallelism) if context is not None else 8


def _here(count: int, work: Callable[[int], Answer], progress: Progress | None) -> list[Answer]:
    told = progress or silent
    answers = []
    told("tasks", 0, count)
    for number in range(count):
        answers.append(work(number))
        told("tasks", number + 1, count)
    return answers


def _package(engine: Any) -> str | None:
    return _packages.get(type(engine).__module__.partition(".")[0])


def _running() -> Any | None:
    """The Spark session of this process, if there is one. Nothing is imported to find out."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


TRIES = 2


def answers(session: Any, parts: Sequence[Part]) -> list[bytes | QuireError]:
    """What every part answered, or the error that it ended with. One job for all of them."""
    found: list[bytes | QuireError] = []
    for head, body in tasks_on(session)(len(parts), _Tried(tuple(parts))):
        told = head.get("failed")
        found.append(body if told is None else rebuilt(told))
    return found


@dataclass(frozen=True)
class _Tried:
    """Does one of some parts; a failure is an answer."""

    parts: tuple[Part, ...]

    def __call__(self, number: int) -> Answer:
        try:
            return {}, tried(self.parts[number])
        except QuireError as error:
            return {"failed": error.to_dict()}, b""


def rebuilt(told: dict[str, Any]) -> QuireError:
    """The error that a task told of, as the class it was."""
    known = {one.kind: one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, QuireError)}
    fields = {k: v for k, v in told.items() if k not in ("kind", "message", "next", "retryable")}
    cls = known.get(told["kind"], QuireError)
    return cls(told["message"], next=told["next"], retryable=told["retryable"], **fields)


def run_by(session: Any) -> Run:
    """Lets a session do parts; the first error of them is raised."""

    def run(parts: Sequence[Part]) -> list[bytes]:
        return [settled(answer) for answer in answers(session, parts)]

    return run


def settled(answer: bytes | QuireError) -> bytes:
    if isinstance(answer, QuireError):
        raise answer
    return answer


def tried(part: Callable[[], bytes]) -> bytes:
    """A part, done again if the store failed under it."""
    for _ in range(TRIES - 1):
        try:
            return part()
        except StorageError as error:
            if not error.retryable:
                raise
    return part()


@dataclass(frozen=True)
class Whereabouts:
    """A lake as tasks open it. Its options hold credentials: they travel with it and are never shown."""

    uri: str
    options: dict[str, str] = field(default_factory=dict, repr=False)
    external: External = None
    call: str = field(default_factory=clock.token)
    """What it is opened for. A process that outlives this keeps nothing of what it has read for another."""

    @staticmethod
    def of(core: Core) -> Whereabouts:
        store = core.store
        return Whereabouts(store.uri, carried(store.scheme, store.options), store.reach.external)

    def core(self) -> Core:
        """The lake in this process, read-only; it is opened once."""
        external = self.external if self.external is None or isinstance(self.external, str) else tuple(self.external)
        return _opened(self.uri, tuple(sorted(self.options.items())), external, self.call)


@lru_cache(maxsize=1)
def _opened(uri: str, options: tuple[tuple[str, str], ...], external: External, call: str) -> Core:
    return Core.open(uri, dict(options), read_only=True, external=external)
