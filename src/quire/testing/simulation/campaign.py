"""Many histories, on several processes, and what they amounted to."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from quire.testing.simulation.history import Result, run
from quire.testing.simulation.planting import planted

CHUNK = 20
NEEDED = ("unknown outcome", "rebase", "cleanup", "group", "fused")
"""What must have happened at least once; else the run has proven nothing."""


@dataclass
class Campaign:
    """The sum of many histories."""

    histories: int = 0
    failures: list[Result] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def add(self, result: Result) -> None:
        self.histories += 1
        self.counts.update(result.counts)
        if result.violations:
            self.failures.append(result)

    @property
    def weak(self) -> list[str]:
        """What did not happen and should have."""
        return [what for what in NEEDED if not self.counts[what]]

    def summary(self) -> str:
        lines = [f"{self.histories} histories in {self.seconds:.0f} s, {len(self.failures)} with violations"]
        lines += [f"{number:>10,} {what}" for what, number in sorted(self.counts.items())]
        return "\n".join(lines)


def campaign(
    seeds: Iterable[int],
    *,
    processes: int = 1,
    bug: str | None = None,
    progress: Callable[[Campaign], None] | None = None,
    stop_at: int = 10,
) -> Campaign:
    """Run a history for every seed; end early after `stop_at` failures."""
    total, started = Campaign(), time.perf_counter()
    chunks = list(_chunks(seeds))
    with _pool(processes) as pool:
        for results in pool(_run_chunk, [(chunk, bug) for chunk in chunks]):
            for result in results:
                total.add(result)
            total.seconds = time.perf_counter() - started
            if progress is not None:
                progress(total)
            if len(total.failures) >= stop_at:
                break
    return total


def _chunks(seeds: Iterable[int]) -> Iterator[list[int]]:
    chunk: list[int] = []
    for seed in seeds:
        chunk.append(seed)
        if len(chunk) == CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _run_chunk(work: tuple[list[int], str | None]) -> list[Result]:
    seeds, bug = work
    with planted(bug):
        return [run(seed) for seed in seeds]


class _pool:  # noqa: N801  (reads as a function)
    """`map` in this process, or over several that are started afresh, each on a processor of its own."""

    def __init__(self, processes: int) -> None:
        self._executor: ProcessPoolExecutor | None = None
        if processes > 1:
            spawn = multiprocessing.get_context("spawn")
            turns = spawn.Value("i", 0)
            self._executor = ProcessPoolExecutor(processes, mp_context=spawn, initializer=_settle, initargs=(turns,))

    def __enter__(self) -> Callable[..., Iterator[list[Result]]]:
        return self._executor.map if self._executor is not None else map

    def __exit__(self, *exc: object) -> None:
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)


def _settle(turns: multiprocessing.sharedctypes.Synchronized[int]) -> None:
    """Tasks take turns, so a second processor only makes handing over slower."""
    with turns.get_lock():
        index, turns.value = turns.value, turns.value + 1
    if hasattr(os, "sched_setaffinity"):
        available = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {available[index % len(available)]})
