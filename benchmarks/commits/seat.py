"""What a process that writes can be told: make tables, commit once, let many threads commit for a time."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.commits import systems
from benchmarks.commits.places import Place

FAMILIES = (
    ("writer", "the threads that commit"),
    ("quire-io", "requests of Quire"),
    ("quire-", "Quire, behind the commits"),
    ("lance-cpu", "Lance"),
    ("lance_", "Lance"),
    ("tokio", "Lance and obstore, network"),
)
"""By how the name of a thread begins: whose it is."""


@dataclass
class Work:
    """What was done: commits inside the time as (when it ended, how long it took), and the rest as numbers."""

    commits: list[tuple[float, float]] = field(default_factory=list)
    per_writer: list[int] = field(default_factory=list)
    """How many of them each writer made."""
    acknowledged: int = 0
    """Commits at any time, warm-up and all."""
    failed: int = 0
    """Commits that the system gave up on, inside the time."""
    problem: str = ""
    """What the first of them said."""
    cpu: float = 0.0
    """Seconds of CPU that the processes took in the time."""
    threads: dict[str, float] = field(default_factory=dict)
    """The same by what the threads are for."""

    def add(self, other: Work) -> None:
        self.commits += other.commits
        self.per_writer += other.per_writer
        self.acknowledged += other.acknowledged
        self.failed += other.failed
        self.problem = self.problem or other.problem
        self.cpu += other.cpu
        for family, seconds in other.threads.items():
            self.threads[family] = self.threads.get(family, 0.0) + seconds


@dataclass(frozen=True)
class Commit:
    """One commit of a writer that is alone: when it began and was acknowledged, and its process's CPU meanwhile."""

    began: float
    ended: float
    cpu: float


class Seat:
    """One process of one system."""

    def __init__(self) -> None:
        systems.quiet()
        self._writers: list[systems.Write] = []
        self._crew: list[_Writer] = []

    def create(self, key: str, place: Place, tables: Sequence[str]) -> None:
        systems.system(key).create(place, tables)

    def open(self, key: str, place: Place) -> None:
        self._client = systems.system(key).open(place)

    def rows(self, tables: Sequence[str]) -> list[int]:
        return [self._client.rows(table) for table in tables]

    def close(self) -> None:
        self._client.close()

    # -- one writer ---------------------------------------------------------------------------------------------

    def writer(self, tables: Sequence[str]) -> int:
        """Make a writer for these tables; its number."""
        self._writers.append(self._client.writer(tables))
        return len(self._writers) - 1

    def collect(self) -> None:
        """Let no garbage of earlier turns fall into the next one."""
        gc.collect()

    def commit(self, writer: int) -> Commit:
        """One commit. What goes on behind it is seen to afterwards, outside the times."""
        write = self._writers[writer]
        cpu, began = time.process_time(), time.perf_counter()
        write()
        ended = time.perf_counter()
        done = Commit(began, ended, time.process_time() - cpu)
        self._client.settle()
        return done

    # -- many writers -------------------------------------------------------------------------------------------

    def crew(self, threads: Sequence[Sequence[str]]) -> None:
        """Make one writer per list of tables, each for a thread of its own."""
        self._crew = [_Writer(number, self._client.writer(tables)) for number, tables in enumerate(threads)]

    def warm_up(self, seconds: float) -> None:
        """Let every writer commit once, unless that takes longer."""
        for writer in self._crew:
            writer.thread.start()
        until = time.monotonic() + seconds
        for writer in self._crew:
            writer.warm.wait(max(0.0, until - time.monotonic()))

    def work(self, begin: float, end: float) -> Work:
        """Let them commit again and again from one time to another. Who is at work then is not waited for."""
        time.sleep(max(0.0, begin - time.monotonic()))
        cpu, threads = time.process_time(), cpu_by_family()
        for writer in self._crew:
            writer.go.set()
        time.sleep(max(0.0, end - time.monotonic()))
        done = Work(cpu=time.process_time() - cpu)
        done.threads = {family: seconds - threads.get(family, 0.0) for family, seconds in cpu_by_family().items()}
        for writer in self._crew:
            writer.over = True
        for writer in self._crew:
            done.add(writer.report(begin, end))
        return done


class _Writer:
    """One thread that commits once, waits for the start, and begins commits until the time is over."""

    def __init__(self, number: int, write: systems.Write) -> None:
        self._write = write
        self._commits: list[tuple[float, float]] = []
        self._failures: list[tuple[float, str]] = []
        self.warm, self.go, self.over = threading.Event(), threading.Event(), False
        self.thread = threading.Thread(target=self._work, name=f"writer-{number}", daemon=True)

    def _work(self) -> None:
        self._commit()
        self.warm.set()
        self.go.wait()
        while not self.over:
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
        inside = [commit for commit in commits if begin <= commit[0] <= end]
        return Work(
            commits=inside,
            per_writer=[len(inside)],
            acknowledged=len(commits),
            failed=len(failed),
            problem=failed[0][:300] if failed else "",
        )


def cpu_by_family() -> dict[str, float]:
    """CPU seconds of this process's threads by what they are for; empty where there is no /proc."""
    names = {thread.native_id: thread.name for thread in threading.enumerate()}
    found: dict[str, float] = {}
    tick = os.sysconf("SC_CLK_TCK")
    try:
        tasks = os.listdir("/proc/self/task")
    except OSError:
        return found
    for task in tasks:
        try:
            with open(f"/proc/self/task/{task}/stat") as file:
                name, _, rest = file.read().partition("(")[2].rpartition(")")
        except OSError:
            continue  # the thread has ended
        name = names.get(int(task), name)
        family = next((said for start, said in FAMILIES if name.startswith(start)), "others")
        fields = rest.split()
        found[family] = found.get(family, 0.0) + (int(fields[11]) + int(fields[12])) / tick
    return found
