"""What group commit is worth: many threads of one process, each with a table of its own, behind a slow store."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.commits import throughput
from benchmarks.commits.latency import Say, Servers
from benchmarks.commits.places import Ground
from benchmarks.commits.systems import System, system

from quire.store import Store

BODY = b"x" * 2_000


def measure(
    ground: Ground,
    servers: Servers,
    *,
    latency: float,
    writers: int,
    seconds: float,
    warm_up: float,
    repetitions: int,
    say: Say = lambda _: None,
) -> dict[str, Any]:
    """Commits per second with group commit and without, in turn, and what the server alone can carry."""
    both: Sequence[System] = (system("quire-log"), system("quire-log-ungrouped"))
    condition = throughput.Condition(writers, "threads", shared=False)
    found = throughput.measure(
        ground,
        servers,
        both,
        [condition],
        latency=latency,
        seconds=seconds,
        warm_up=warm_up,
        repetitions=repetitions,
        say=say,
    )
    say(f"{ground.name} {latency:g} ms: how many requests the server carries")
    return {"runs": found, "ceiling": ceiling(ground, latency=latency, clients=writers, seconds=seconds)}


def ceiling(ground: Ground, *, latency: float, clients: int, seconds: float) -> dict[str, Any]:
    """Small PUTs per second, from threads that do nothing else."""
    store = Store.open(ground.place.at("ceiling"), ground.place.options)
    ground.set_latency(latency)
    counts = [0] * clients
    until = time.monotonic() + seconds

    def put(me: int) -> None:
        while time.monotonic() < until:
            store.put(f"{me}/{counts[me] % 10}", BODY)
            counts[me] += 1

    threads = [threading.Thread(target=put, args=(me,)) for me in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ground.set_latency(0)
    return {
        "place": ground.name,
        "latency_ms": latency,
        "clients": clients,
        "requests_per_second": round(sum(counts) / seconds, 1),
        "without_queueing": round(clients / (latency / 1000), 1) if latency else None,
    }
