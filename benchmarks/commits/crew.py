"""Writers at work at the same time: threads of one process, or processes.

They run in processes of their own, made from one that has imported the libraries and used none, and are ended when the
time is over: a writer that is caught in a long row of lost races does not hold up what comes next.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait

from benchmarks.commits import systems
from benchmarks.commits.places import Place

PRELOAD = (
    "deltalake",
    "icechunk",
    "lance",
    "lance.namespace",
    "obstore",
    "pyarrow.dataset",
    "quire",
    "quire.formats.lance",
    "zarr",
    "benchmarks.commits.crew",
)
# Lance warns of every fork. It may not be used in both; here it is only imported in the process that forks.
warnings.filterwarnings("ignore", message="lance is not fork-safe")

SECONDS_TO_OPEN = 60.0
SECONDS_TO_REPORT = 5.0


@dataclass
class Work:
    """What was done: commits inside the time as (when it ended, how long it took), and the rest as numbers."""

    commits: list[tuple[float, float]] = field(default_factory=list)
    acknowledged: int = 0
    """Commits at any time, warm-up and all."""
    failed: int = 0
    """Commits that the system gave up on, inside the time."""
    problem: str = ""
    """What the first of them said."""

    def add(self, other: Work) -> None:
        self.commits += other.commits
        self.acknowledged += other.acknowledged
        self.failed += other.failed
        self.problem = self.problem or other.problem


def run(
    system: str,
    place: Place,
    processes: Sequence[Sequence[Sequence[str]]],
    *,
    warm_up: float,
    seconds: float,
    mark: Callable[[], int] = lambda: 0,
) -> tuple[Work, int]:
    """Let writers commit for so many seconds; what they did, and by how much `mark` rose in that time.

    `processes` gives, per process and per thread of it, the tables that one writer writes to. Every writer commits once
    before the time begins, unless that takes longer than `warm_up`.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOAD))
    hosts, pipes = [], []
    try:
        for threads in processes:
            ours, theirs = context.Pipe()
            host = context.Process(target=_host, args=(theirs, system, place, threads, warm_up), daemon=True)
            host.start()
            theirs.close()
            hosts.append(host)
            pipes.append(ours)
        _gather(pipes, SECONDS_TO_OPEN)
        for pipe in pipes:
            pipe.send("warm up")
        _gather(pipes, warm_up + SECONDS_TO_REPORT)
        first, begin = mark(), time.monotonic()
        for pipe in pipes:
            pipe.send((begin, begin + seconds))
        time.sleep(max(0.0, begin + seconds - time.monotonic()))
        passed = mark() - first
        done = Work()
        for part in _gather(pipes, SECONDS_TO_REPORT):
            done.add(part)
        return done, passed
    finally:
        for host in hosts:
            host.kill()
        for host in hosts:
            host.join()
        for pipe in pipes:
            pipe.close()


def _gather(pipes: Sequence[Connection], seconds: float) -> list[Work]:
    """One message from every process."""
    found: dict[Connection, Work] = {}
    until = time.monotonic() + seconds
    while len(found) < len(pipes):
        ready = wait([p for p in pipes if p not in found], max(0.0, until - time.monotonic()))
        if not ready:
            raise TimeoutError(f"{len(pipes) - len(found)} of {len(pipes)} processes did not answer in {seconds:.0f} s")
        for pipe in ready:
            assert isinstance(pipe, Connection)
            message = pipe.recv()
            if isinstance(message, str):
                raise RuntimeError(message)
            found[pipe] = message
    return [found[pipe] for pipe in pipes]


# -- in the other process -------------------------------------------------------------------------------------------


def _host(pipe: Connection, system: str, place: Place, threads: Sequence[Sequence[str]], warm_up: float) -> None:
    """Open, warm up, write until the time is over, report, and end at once."""
    systems.quiet()
    try:
        client = systems.system(system).open(place)
        crew = [_Writer(client.writer(tables)) for tables in threads]
        pipe.send(Work())
        pipe.recv()
        for writer in crew:
            writer.thread.start()
        until = time.monotonic() + warm_up
        for writer in crew:
            writer.warm.wait(max(0.0, until - time.monotonic()))
        pipe.send(Work())
        begin, end = pipe.recv()
        for writer in crew:
            writer.go.set()
        time.sleep(max(0.0, end - time.monotonic()))
        done = Work()
        for writer in crew:
            done.add(writer.report(begin, end))
        pipe.send(done)
    except BaseException as error:
        pipe.send(f"{system}: {type(error).__name__}: {error}")
    finally:
        os._exit(0)  # with whatever is under way


class _Writer:
    """One thread that commits once, waits for the start, and goes on until its process ends."""

    def __init__(self, write: systems.Write) -> None:
        self._write = write
        self._commits: list[tuple[float, float]] = []
        self._failures: list[tuple[float, str]] = []
        self.warm, self.go = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self._work, daemon=True)

    def _work(self) -> None:
        self._commit()
        self.warm.set()
        self.go.wait()
        while True:
            self._commit()

    def _commit(self) -> None:
        began = time.monotonic()
        try:
            self._write()
        except Exception as error:
            self._failures.append((time.monotonic(), f"{type(error).__name__}: {error}"))
        else:
            ended = time.monotonic()
            self._commits.append((ended, ended - began))

    def report(self, begin: float, end: float) -> Work:
        commits, failures = list(self._commits), list(self._failures)
        failed = [text for at, text in failures if begin <= at <= end]
        return Work(
            commits=[commit for commit in commits if begin <= commit[0] <= end],
            acknowledged=len(commits),
            failed=len(failed),
            problem=failed[0][:300] if failed else "",
        )
