"""What a racing process does; it lives here because a spawned process imports it by name."""

from __future__ import annotations

import os
from multiprocessing.synchronize import Barrier

from quire.store import Outcome, Store


def race(root: str, rounds: int, barrier: Barrier) -> list[tuple[int, bytes | None]]:
    """Create the same keys as everybody else; the rounds won, and for the lost ones what was found."""
    store = Store.open(root)
    body = f"racer {os.getpid()}".encode()
    results: list[tuple[int, bytes | None]] = []
    for number in range(rounds):
        barrier.wait(60)
        created = store.create(f"log/{number:04}", body, mine=lambda found: found == body)
        assert created.outcome is not Outcome.UNKNOWN
        results.append((number, created.found))
    return results
