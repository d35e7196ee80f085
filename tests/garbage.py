"""What is alive when the tests have been collected stays alive: the collector of garbage need not look at it again.

A worker holds some fifteen thousand tests and every library. Without this, collections of garbage take up to half of
the time of tests that make many small objects, and more the longer a worker runs.
"""

from __future__ import annotations

import gc

YOUNG, MIDDLE, OLD = 20_000, 50, 50
"""New objects until the youngest generation is looked at, and how often each until the next one is."""


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, OLD)


def pytest_unconfigure() -> None:
    gc.unfreeze()  # libraries report objects of theirs that are never freed
