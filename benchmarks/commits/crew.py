"""Writers at work at the same time: threads of one process, or processes.

They run in processes of their own and are ended when the time is over: a writer that is caught in a long row of lost
races does not hold up what comes next.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.commits.fork_server import ForkServer, gather
from benchmarks.commits.places import Place
from benchmarks.commits.seat import Work

SECONDS_TO_OPEN = 120.0
SECONDS_TO_REPORT = 30.0
SECONDS_TO_HEAR = 0.2
"""What all processes have to hear when the time begins."""


def run(
    server: ForkServer,
    system: str,
    place: Place,
    processes: Sequence[Sequence[Sequence[str]]],
    *,
    warm_up: float,
    seconds: float,
    look: Callable[[], Any] = lambda: None,
) -> tuple[Work, Any, Any]:
    """Let writers commit for so many seconds; what they did, and what `look` saw before and after.

    `processes` gives, per process and per thread of it, the tables that one writer writes to. Every writer commits once
    before the time begins, unless that takes longer than `warm_up`.
    """
    seats = [server.start() for _ in processes]
    try:
        for seat in seats:
            seat.send("open", system, place)
        gather(seats, SECONDS_TO_OPEN)
        for seat, threads in zip(seats, processes, strict=True):
            seat.send("crew", threads)
        gather(seats, SECONDS_TO_OPEN)
        for seat in seats:
            seat.send("warm_up", warm_up)
        gather(seats, warm_up + SECONDS_TO_REPORT)
        begin = time.monotonic() + SECONDS_TO_HEAR
        for seat in seats:
            seat.send("work", begin, begin + seconds)
        time.sleep(max(0.0, begin - time.monotonic()))
        before = look()
        time.sleep(max(0.0, begin + seconds - time.monotonic()))
        after = look()
        done = Work()
        for part in gather(seats, SECONDS_TO_REPORT):
            done.add(part)
        return done, before, after
    finally:
        for seat in seats:
            seat.kill()
