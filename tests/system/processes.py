"""Real processes for tests that begin together."""

from __future__ import annotations

import queue
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from typing import Any

from quire.testing.processes import context

PATIENCE = 280.0
"""Seconds after which a process that has not answered is taken for hung."""


@dataclass(frozen=True)
class Finished:
    """What one process returned, and how long after the common start it had it."""

    result: Any
    seconds: float


class Start:
    """The common start line: everybody has opened the lake before anybody writes."""

    def __init__(self, barrier: Barrier) -> None:
        self._barrier = barrier
        self.at: float | None = None

    def wait(self) -> None:
        self._barrier.wait(PATIENCE)
        self.at = time.monotonic()


def together(target: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Finished]:
    """Run `target(start, *arguments[i])` in one process each; what they returned, in order. An error is raised here."""
    start = context()
    barrier = start.Barrier(len(arguments))
    answers: Queue[Any] = start.Queue()
    processes = [
        start.Process(target=_run, args=(barrier, answers, number, target, given), daemon=True)
        for number, given in enumerate(arguments)
    ]
    for process in processes:
        process.start()
    try:
        found: dict[int, Finished] = {}
        until = time.monotonic() + PATIENCE
        while len(found) < len(processes):
            # Looked at before the answers: a process that has ended has answered before.
            ended = {number: process.exitcode for number, process in enumerate(processes) if not process.is_alive()}
            try:
                number, finished, problem = answers.get(timeout=1)
            except queue.Empty:
                silent = {number: code for number, code in ended.items() if number not in found}
                assert not silent, f"processes ended without an answer (number: exit code): {silent}"
                assert time.monotonic() < until, f"only {sorted(found)} of {len(processes)} processes have answered"
                continue
            assert problem is None, f"process {number} failed:\n{problem}"
            found[number] = finished
        return [found[number] for number in range(len(processes))]
    except BaseException:
        for process in processes:
            process.kill()
        raise
    finally:
        for process in processes:
            process.join(10)
            if process.is_alive():
                process.kill()
                process.join()


def _run(
    barrier: Barrier, answers: Queue[Any], number: int, target: Callable[..., Any], given: tuple[Any, ...]
) -> None:
    start = Start(barrier)
    try:
        result = target(start, *given)
        since = start.at if start.at is not None else time.monotonic()
        answers.put((number, Finished(result, time.monotonic() - since), None))
    except BaseException:
        barrier.abort()
        answers.put((number, None, traceback.format_exc()))
