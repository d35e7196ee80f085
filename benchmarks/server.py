"""How many commits per second many clients make: through one server, and by processes that race for the same log.

    python benchmarks/server.py                     10 seconds each, 50 ms between the lake and its store
    python benchmarks/server.py --seconds 3         a quick look

Every client has a table of its own, so nothing conflicts but the slots of the log. The store is an S3-compatible server
behind a proxy that delays every request. Printed are commits per second and the times of a commit, p50 and p99; and,
apart, what the server takes for a request that does nothing.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import quire
from quire.testing.processes import context
from quire.testing.proxy import Proxy
from quire.testing.s3 import SeaweedFS

LIMITS = "[limits]\nwrites_per_actor = 1024\nrequests_per_actor = 1024\n"
WARM = 1.0
"""Seconds at the beginning that do not count."""


def timed(step: Callable[[], None], seconds: float) -> list[float]:
    """How long each step took that ended within the time, after the first moments."""
    found: list[float] = []
    step()  # libraries are loaded and tables opened by the first one
    begin = time.monotonic() + WARM
    while (start := time.monotonic()) < begin + seconds:
        step()
        if start >= begin:
            found.append(time.monotonic() - start)
    return found


def race(uri: str, options: dict[str, str], table: str, seconds: float, offers: bool, told: Any) -> None:
    """One process that commits by itself, or lets others carry its commits when it lost a race."""
    lake = quire.open(uri, storage_options=options, backfill=False, offers=offers)

    def step() -> None:
        def append(tx: quire.Transaction) -> None:
            tx[table].append([{"n": 1}])

        lake.transact(append, retries=1000)

    told.put(timed(step, seconds))


def ask(url: str, tables: list[str], seconds: float, told: Any) -> None:
    """One process with a connection, and a thread, for every table; without tables it asks for nothing."""
    found: list[float] = []
    lock = threading.Lock()

    def client(table: str) -> None:
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
        body = json.dumps({"operations": [{"op": "append", "table": table, "rows": [{"n": 1}]}]})

        def step() -> None:
            if table:
                connection.request("POST", "/v1/lakes/demo/commits", body)
            else:
                connection.request("GET", "/healthz")
            answer = connection.getresponse()
            said = answer.read()
            if answer.status != 200:
                raise SystemExit(f"{answer.status}: {said.decode()}")

        took = timed(step, seconds)
        with lock:
            found.extend(took)

    threads = [threading.Thread(target=client, args=(table,)) for table in tables]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told.put(found)


def together(target: Callable[..., None], calls: list[tuple[Any, ...]]) -> list[float]:
    """The same in processes of their own, at once."""
    told = context().Queue()
    processes = [context().Process(target=target, args=(*call, told)) for call in calls]
    for process in processes:
        process.start()
    found = [took for _ in processes for took in told.get()]
    for process in processes:
        process.join()
    return sorted(found)


def report(what: str, took: list[float], seconds: float) -> float:
    rate = len(took) / seconds
    middle, last = (took[int(len(took) * share)] * 1000 if took else float("nan") for share in (0.5, 0.99))
    print(f"{what:44} {rate:9.1f} /s   p50 {middle:8.1f} ms   p99 {last:8.1f} ms", flush=True)
    return rate


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    arguments.add_argument("--seconds", type=float, default=10.0)
    arguments.add_argument("--latency", type=float, default=50.0, help="milliseconds")
    arguments.add_argument("--processes", type=int, default=8)
    arguments.add_argument("--connections", type=int, default=8, help="of each process")
    given = arguments.parse_args()
    seconds, many = given.seconds, given.processes
    with SeaweedFS() as s3, Proxy(s3.endpoint) as proxy, tempfile.TemporaryDirectory() as folder:
        options = {**s3.options, "aws_endpoint": proxy.endpoint}
        uri = s3.uri(f"server-{time.monotonic_ns()}")
        lake = quire.create(uri, storage_options=options)
        names = [[f"t{p}_{c}" for c in range(given.connections)] for p in range(many)]
        with lake.transaction("tables") as tx:
            for name in (name for mine in names for name in mine):
                tx.create_table(name, [{"n": 0}])
        lake.close()
        (Path(folder) / "server.toml").write_text(LIMITS)
        proxy.latency = given.latency / 1000
        raced, rates = [], {}
        for what, offers in (("each by itself", False), ("that offer", True)):
            took = together(race, [(uri, options, mine[0], seconds, offers) for mine in names])
            raced += took
            rates[what] = report(f"{many} processes race, {what}", took, seconds)
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "quire",
                "serve",
                f"demo={uri}",
                "--port",
                "0",
                "--json",
                "--config",
                str(Path(folder) / "server.toml"),
            ],
            env={**os.environ, "QUIRE_STORAGE_OPTIONS": " ".join(f"{k}={v}" for k, v in options.items())},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert process.stdout is not None
            lines = ""
            while (line := process.stdout.readline()) and line != "}\n":
                lines += line
            url = json.loads(lines + "}")["url"]
            asked = together(ask, [(url, mine, seconds) for mine in names])
            served = report(f"{many} x {given.connections} connections, one server", asked, seconds)
            idle = together(ask, [(url, [""] * given.connections, min(seconds, 3.0)) for _ in names])
            report("requests that do nothing", idle, min(seconds, 3.0))
        finally:
            process.terminate()
            process.wait(60)
        counts = " union all ".join(f"select count(*) as c from {name}" for mine in names for name in mine)
        reading = quire.open(uri, storage_options=options, read_only=True)
        [counted] = reading.sql(f"select sum(c) as n from ({counts})").to_pylist()
        least = len(raced) + len(asked) + many * given.connections
        print(f"rows in the lake: {counted['n']}, at least {least} were acknowledged")
        if counted["n"] < least:
            raise SystemExit("acknowledged commits are not there")
        for what, rate in rates.items():
            print(f"one server makes {served / max(rate, 0.01):.1f} times the commits of processes {what}")


if __name__ == "__main__":
    main()
