"""Deterministic simulation of a whole lake: several programs, a store that fails on purpose, virtual time, one seed.

Every history runs the real code of `quire.store`, `quire.ledger` and `quire.lake` over the in-memory table format, in a
world in which time, chance, threads and the object store are simulated. One number decides everything that happens:
who runs when, which request is lost, who dies at it. So a failure is found again by its seed.

    python -m quire.testing.simulation --histories 10000          # many histories, on two processes
    python -m quire.testing.simulation --one 4711 --trace         # one of them, request by request

In a test:

    from quire.testing.simulation import run

    assert run(seed=7).violations == []

The world can be had without the histories, to try one thing under one fault:

    from quire.store import clock
    from quire.testing.simulation import Process, SimulatedWorld

    world = SimulatedWorld(seed=7)
    with clock.using(world):
        lake = quire.create("sim://bucket/lake")                   # outside every process: calm, nothing fails
        world.scheduler.spawn(Process("w1"), "main", program)      # inside: requests take time and may fail
        world.scheduler.run()

What a history checks: every acknowledged commit is in the log exactly once, and no refused one is; an unknown outcome
settles to what the log says; every commit did exactly what its statements say, on rows that nobody had changed in
between, also by those before it in its own slot; what statements told its program is true where it stands; what a
serializable one has read is the same when it commits; every snapshot shows what the model shows, inside a group too;
sums over tables hold; no slot is deleted or changed; no commit is published, and no state kept, whose files are gone;
leases, tags and retention keep what they promise; plain HEADs never move back; nothing but `QuireError` escapes, and
nothing hangs. `planting` plants mistakes in the protocol, to prove that
the histories find them.
"""

from __future__ import annotations

from quire.testing.simulation.bucket import Bucket, Fault, Faults, Trace
from quire.testing.simulation.history import History, Result, run
from quire.testing.simulation.scheduler import Crashed, Process, Scheduler, Stuck
from quire.testing.simulation.store import SimulatedStore
from quire.testing.simulation.world import SimulatedWorld

__all__ = [
    "Bucket",
    "Crashed",
    "Fault",
    "Faults",
    "History",
    "Process",
    "Result",
    "Scheduler",
    "SimulatedStore",
    "SimulatedWorld",
    "Stuck",
    "Trace",
    "run",
]
