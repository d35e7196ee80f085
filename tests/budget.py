"""How much a run of the tests takes in: the default tier, or everything.

`make test` runs the default tier, and `make test-all` sets `QUIRE_TESTS=full`. Every behaviour has its test in both.
The default tier searches less far: fewer random examples, fewer sets of parameters, shorter soaks.

    @settings(max_examples=budget(15, full=200))     # a search
    @pytest.mark.sampled(4)                          # four of its sets of parameters, other ones every day
    @pytest.mark.full                                # no part of the default tier

`QUIRE_TESTS_SEED` decides what is searched and sampled. It is the date unless it is set, so that every day looks
elsewhere; a run prints it, and the same seed repeats the run.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime

FULL = os.environ.get("QUIRE_TESTS") == "full"
"""Whether this run takes in everything."""

# Workers inherit it, so all of them choose the same tests, at midnight too.
SEED = int(os.environ.setdefault("QUIRE_TESTS_SEED", f"{datetime.now(UTC):%Y%m%d}"))


def budget(default: int, *, full: int) -> int:
    """How far a search goes: `default`, or `full` when everything is run."""
    return full if FULL else default
