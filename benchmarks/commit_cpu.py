"""How much CPU of the client a commit of one table takes, and in which functions, today and at an older revision.

    python -m benchmarks.commit_cpu --old 6ba6ff78c00f     # milliseconds per commit, side by side, in turns
    python -m benchmarks.commit_cpu --profile              # also the functions that take them

Every writer appends a hundred rows to a table of its own, through one handle of one process, to an S3 server in memory
that is a process of its own. CPU is what the client process took while it committed, backfills and all of Lance's
threads included, divided by the commits of that time. Time on a clock is no part of it, so that a busy machine makes it
only a little larger; compare versions by the ratio of one run.
"""

from __future__ import annotations

import argparse
import contextlib
import cProfile
import json
import multiprocessing
import os
import pstats
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
WARM_UP = 2.0
"""Seconds in which writers commit before anything is measured."""
FUNCTIONS = 25
CONDITIONS = ((1, 0), (64, 50))
"""Threads, and the milliseconds that the server adds to every request."""


# -- the client: a process of one revision -----------------------------------------------------------------------------


def client(endpoint: str, threads: int, seconds: float, warm_up: float, *, profile: bool) -> dict[str, Any]:
    """Commit for a while; what it took."""
    from benchmarks.commits.systems import batch

    profiles: list[tuple[str, cProfile.Profile]] = []
    if profile:
        _profile_threads(profiles)
    import quire

    options = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "aws_region": "us-east-1"}
    lake = quire.create("s3://lake/x", storage_options={**options, "aws_endpoint": endpoint, "allow_http": "true"})
    with lake.transaction("tables") as tx:
        for number in range(threads):
            tx.create_table(f"t{number}", batch())
    lake.flush()
    done, stop = [0] * threads, threading.Event()

    def write(number: int) -> None:
        while not stop.is_set():
            with lake.transaction("append") as tx:
                tx[f"t{number}"].append(batch())
            done[number] += 1

    writers = [threading.Thread(target=write, args=(number,), name=f"writer-{number}") for number in range(threads)]
    for writer in writers:
        writer.start()
    time.sleep(warm_up)
    for _, one in profiles:
        one.clear()
    before, cpu, by_thread, began = sum(done), time.process_time(), _by_thread(), time.monotonic()
    time.sleep(seconds)
    while sum(done) == before:
        time.sleep(0.1)
    commits, took, wall = sum(done) - before, time.process_time() - cpu, time.monotonic() - began
    found = {name: 1000 * used / commits for name, used in (_by_thread() - by_thread).most_common()}
    stop.set()
    for writer in writers:
        writer.join()
    lake.flush()
    for _, one in profiles:
        one.disable()
    return {
        "cpu_ms": 1000 * took / commits,
        "rate": commits / wall,
        "cores": took / wall,
        "by_thread": found,
        "profile": _functions(profiles, sum(done) - before) if profile else "",
    }


def _profile_threads(profiles: list[tuple[str, cProfile.Profile]]) -> None:
    """Profile every thread that begins from now on, by the CPU that it takes itself."""
    run = threading.Thread.run

    def profiled(self: threading.Thread) -> None:
        one = cProfile.Profile(time.thread_time)
        profiles.append((self.name, one))
        with contextlib.suppress(ValueError):
            one.enable()
        try:
            run(self)
        finally:
            one.disable()

    threading.Thread.run = profiled  # type: ignore[method-assign]


def _by_thread() -> Counter[str]:
    """Seconds of CPU by kind of thread so far."""
    named = {thread.native_id: thread.name.rstrip("0123456789-_") for thread in threading.enumerate()}
    found: Counter[str] = Counter()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            about = (task / "stat").read_text()
            name, rest = about[about.index("(") + 1 : about.rindex(")")], about[about.rindex(")") + 2 :].split()
            name = named.get(int(task.name), name.rstrip("0123456789-_"))
            found[name] += (int(rest[11]) + int(rest[12])) / os.sysconf("SC_CLK_TCK")  # type: ignore[assignment]
    return found


def _functions(profiles: list[tuple[str, cProfile.Profile]], commits: int) -> str:
    """The functions of Quire and its libraries with the most CPU, their callees included."""
    from quire import __file__ as package

    stats = pstats.Stats(*(one for _, one in profiles if one.getstats()))
    source, lines = str(Path(package).parent) + "/", []
    rows = sorted(stats.stats.items(), key=lambda item: -item[1][3])  # type: ignore[attr-defined]
    for (file, _, name), (_, calls, own, whole, _) in rows:
        if file.startswith(source) or "/lance/" in file or "/obstore/" in file:
            where = file.removeprefix(source) if file.startswith(source) else "/".join(file.split("/")[-2:])
            lines.append(
                f"{1000 * whole / commits:>8.3f}{1000 * own / commits:>8.3f}{calls / commits:>8.1f}  {where}: {name}"
            )
    return "\n".join([f"{'all ms':>8}{'own ms':>8}{'calls':>8}  per commit", *lines[:FUNCTIONS]])


# -- the server --------------------------------------------------------------------------------------------------------


def _serve(told: Connection, latency: float) -> None:
    from benchmarks.commits.memory_s3 import MemoryS3

    with MemoryS3() as server:
        server.latency = latency
        told.send(server.endpoint)
        with contextlib.suppress(EOFError):
            told.recv()


@contextlib.contextmanager
def served(latency: float) -> Iterator[str]:
    """The address of a server in a process of its own, which adds so many seconds to every request."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs, latency), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours.recv()
    finally:
        ours.close()
        process.join()


# -- the comparison ----------------------------------------------------------------------------------------------------


def measure(
    source: str | None, threads: int, latency: float, seconds: float, *, profile: bool, warm_up: float = WARM_UP
) -> dict[str, Any]:
    """One run of a revision, whose source lies in this folder; None: of this one."""
    path = os.pathsep.join([*([source] if source else []), str(ROOT)])
    with served(latency) as endpoint:
        command = [sys.executable, "-m", "benchmarks.commit_cpu", "--client", endpoint]
        command += ["--threads", str(threads), "--seconds", str(seconds), "--warm-up", str(warm_up)]
        command += ["--profile"] if profile else []
        environment = {"LANCE_LOG": "error", **os.environ, "PYTHONPATH": path}
        done = subprocess.run(command, env=environment, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.commit_cpu", description="CPU of the client for one commit of one table."
    )
    parser.add_argument("--old", metavar="REVISION", help="measure this revision too, in turns with today's")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each, in turns (3)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each run (5)")
    parser.add_argument("--profile", action="store_true", help="print functions and threads too, from a run of its own")
    parser.add_argument("--client", metavar="ENDPOINT", help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--warm-up", type=float, default=WARM_UP, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.client:
        print(json.dumps(client(given.client, given.threads, given.seconds, given.warm_up, profile=given.profile)))
        return 0
    from benchmarks.commits.older import exported

    with contextlib.ExitStack() as stack:
        revisions: dict[str, str | None] = {}
        if given.old:
            older = stack.enter_context(exported(given.old))
            revisions[f"{older.revision[:7]} of {older.date}"] = older.environment.path[0]
        revisions["this tree"] = None
        print(f"{'':>24}{'revision':>24}{'CPU, ms/commit':>16}{'commits/s':>11}{'cores':>7}   all runs, ms/commit")
        for threads, latency in CONDITIONS:
            found: dict[str, list[dict[str, Any]]] = {name: [] for name in revisions}
            for _ in range(given.rounds):
                for name, source in revisions.items():
                    found[name].append(measure(source, threads, latency / 1000, given.seconds, profile=False))
            for name, runs in found.items():
                middle = {what: statistics.median(run[what] for run in runs) for what in ("cpu_ms", "rate", "cores")}
                line = f"{f'{threads} threads, {latency} ms':>24}{name:>24}{middle['cpu_ms']:>16.2f}"
                line += f"{middle['rate']:>11.1f}{middle['cores']:>7.2f}   "
                print(line + " ".join(f"{run['cpu_ms']:.2f}" for run in runs))
        if given.profile:
            for threads, latency in CONDITIONS:
                run = measure(None, threads, latency / 1000, given.seconds, profile=True)
                print(f"\n{threads} threads, {latency} ms: by thread, ms per commit, with the profiler's own time")
                print("   ".join(f"{name} {used:.2f}" for name, used in run["by_thread"].items() if used >= 0.01))
                print(run["profile"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
