"""Search for a merge that breaks a law: `python -m tests.laboratory.merges --cases 10000`."""

from __future__ import annotations

import argparse
import itertools
import sys
import time
import traceback
from collections.abc import Callable

from tests.laboratory.merges.worlds import Program, Tally, live, program, shrunk

from quire.testing import memory

KINDS = {"keyed": ("keyed", "pair"), "all": ("keyed", "pair", "loose")}


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--cases", type=int, default=10_000, help="merges to look at")
    asked.add_argument("--seed", type=int, default=1, help="of the first life; every life has the next one")
    asked.add_argument("--tables", choices=list(KINDS), default="all")
    asked.add_argument("--columns", type=float, default=0, help="how often columns change; 0: never")
    asked.add_argument("--failures", type=int, default=1, help="stop after so many")
    told = asked.parse_args()
    memory.install()
    tally, failures, began = Tally(), 0, time.monotonic()
    said = began

    def run(steps: Program, counted: Tally | None = None) -> None:
        live(steps, tally=counted, kinds=KINDS[told.tables])

    def fails(steps: Program) -> bool:
        try:
            run(steps)
        except Exception as found:
            return _place(found) == place
        return False

    place: object = None

    for seed in itertools.count(told.seed):
        if tally.cases >= told.cases:
            break
        steps = program(seed, columns=told.columns)
        try:
            run(steps, tally)
        except Exception as error:
            failures, place = failures + 1, _place(error)
            print(f"seed {seed}: {type(error).__name__}: {error}"[:2000])
            least = shrunk(steps, fails)
            print(f"  fails with {least}")
            print(_reason(run, least))
            if failures >= told.failures:
                break
        if time.monotonic() - said > 60:
            said = time.monotonic()
            print(f"{tally.cases} merges in {said - began:.0f} s, {failures} failures", flush=True)
    print(f"{tally.cases} merges, {failures} failures: {dict(tally.found.most_common())}")
    return 1 if failures else 0


def _place(error: Exception) -> object:
    """Where it was raised: a smaller program has to fail there, too."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return type(error), last.filename, last.lineno


def _reason(run: Callable[[Program], None], steps: Program) -> str:
    try:
        run(steps)
    except Exception as error:
        return "".join(traceback.format_exception(error, chain=False))[-4000:]
    return "  it does not fail again"


if __name__ == "__main__":
    sys.exit(main())
