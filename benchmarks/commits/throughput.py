"""How many commits per second many writers make together, each commit to one table.

`apart`: every writer has a table of its own. The systems without a common commit have nothing to share then; Quire and
icechunk still share one line of commits. `shared`: all writers append to one table.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.commits import crew
from benchmarks.commits.fork_server import ForkServer, Remote
from benchmarks.commits.latency import LostRows, Say, Servers
from benchmarks.commits.numbers import in_ms, p50, p99
from benchmarks.commits.places import Ground, Place
from benchmarks.commits.seat import Work
from benchmarks.commits.systems import ROWS, System


@dataclass(frozen=True)
class Condition:
    """So many writers, as threads of one process or as processes, on one table or on one each."""

    writers: int
    kind: str
    shared: bool

    @property
    def tables(self) -> list[str]:
        return ["t0"] if self.shared else [f"t{n}" for n in range(self.writers)]

    @property
    def processes(self) -> list[list[list[str]]]:
        """Per process, per thread: the tables it writes to."""
        each = [[table] for table in (self.tables * self.writers)[: self.writers]]
        return [each] if self.kind == "threads" else [[one] for one in each]

    def __str__(self) -> str:
        if self.writers == 1:
            return "1 writer"
        return f"{self.writers} {self.kind}, {'one table' if self.shared else 'a table each'}"


def conditions(counts: Sequence[int], kinds: Sequence[str]) -> list[Condition]:
    """One writer is the same whatever it is called; more are threads or processes, apart or on one table."""
    alone = [Condition(1, "threads", shared=False)] if 1 in counts else []
    many = [n for n in counts if n > 1]
    return alone + [Condition(n, kind, shared) for kind in kinds for n in many for shared in (False, True)]


def measure(
    ground: Ground,
    servers: Servers,
    systems: Sequence[System],
    wanted: Sequence[Condition],
    *,
    latency: float,
    seconds: float,
    warm_up: float,
    repetitions: int = 1,
    say: Say = lambda _: None,
) -> list[dict[str, Any]]:
    """Every condition for every system, the systems in turn; with repetitions, of each the median."""
    results = []
    for condition in wanted:
        runs: dict[str, list[dict[str, Any]]] = {system.key: [] for system in systems}
        for turn in range(repetitions):
            for system in (*systems[turn % len(systems) :], *systems[: turn % len(systems)]):
                say(f"{ground.name} {latency:g} ms, {condition}: {system.title}")
                server = servers[system.environment.name]
                runs[system.key].append(_once(ground, server, system, condition, latency, seconds, warm_up))
        for one in runs.values():
            results.append(sorted(one, key=lambda run: run.get("commits_per_second", 0.0))[len(one) // 2])
            results[-1]["repetitions"] = [run.get("commits_per_second") for run in one]
    return results


def _once(
    ground: Ground,
    server: ForkServer,
    system: System,
    condition: Condition,
    latency: float,
    seconds: float,
    warm_up: float,
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "system": system.key,
        "atomic": system.atomic,
        "place": ground.name,
        "latency_ms": latency,
        "writers": condition.writers,
        "kind": condition.kind,
        "shared": condition.shared,
    }
    refusal = system.refuses(ground.place, shared=condition.writers > 1)
    if refusal:
        return {**found, "refused": refusal}
    place = ground.place.below(f"throughput-{uuid.uuid4().hex[:12]}")
    keeper = server.start()
    try:
        ground.set_latency(0)
        keeper.call("create", system.key, place, condition.tables)
        ground.set_latency(latency)
        work, before, after = crew.run(
            server,
            system.key,
            place,
            condition.processes,
            warm_up=warm_up,
            seconds=seconds,
            look=lambda: (time.perf_counter(), ground.cpu()),
        )
        ground.set_latency(0)
        if ground.wire:
            ground.wire.settle()
        _check(keeper, system, place, condition, work.acknowledged)
    except (RuntimeError, TimeoutError) as error:
        return {**found, "refused": str(error)[:300]}
    except LostRows as lost:
        if system.key.startswith("quire"):
            raise  # nothing that we measure on it counts
        return {**found, "refused": str(lost), "lost": True}
    finally:
        ground.set_latency(0)
        keeper.kill()
    found |= _rates(work, seconds)
    (began, cpu_before), (ended, cpu_after) = before, after
    cores = {name: (cpu_after[name] - cpu_before[name]) / (ended - began) for name in cpu_after}
    found["cpu_cores"] = {name: round(value, 3) for name, value in {"clients": work.cpu / seconds, **cores}.items()}
    if ground.wire and work.commits:
        found["requests"] = round(ground.wire.count(began, ended) / len(work.commits), 1)
    return found


def _rates(work: Work, seconds: float) -> dict[str, Any]:
    times = [took for _, took in work.commits]
    found: dict[str, Any] = {
        "n": len(times),
        "seconds": seconds,
        "commits_per_second": round(len(times) / seconds, 2),
        "p50_ms": in_ms(p50(times)) if times else None,
        "p99_ms": in_ms(p99(times)) if times else None,
        "per_writer": [min(work.per_writer), p50(work.per_writer), max(work.per_writer)],
        "failed": work.failed,
        "problem": work.problem,
    }
    if times:
        found["client_cpu_ms"] = in_ms(work.cpu / len(times))
        found["cpu_ms_by_thread"] = {
            family: in_ms(taken / len(times)) for family, taken in sorted(work.threads.items()) if taken
        }
    return found


def _check(keeper: Remote, system: System, place: Place, condition: Condition, acknowledged: int) -> None:
    """What was acknowledged is there; what was under way at the end may be, too."""
    keeper.call("open", system.key, place)
    rows = sum(keeper.call("rows", condition.tables))
    keeper.call("close")
    least = ROWS * (len(condition.tables) + acknowledged)
    if rows < least:
        raise LostRows(f"{system.key}, {condition}: {rows} rows where {least} were acknowledged")
