"""`python -m tests.laboratory.costs`: measure what every verb costs, compare with the golden file, print it."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.laboratory.costs import golden, report
from tests.laboratory.costs.flatness import growth, violations
from tests.laboratory.costs.hops import three_ways
from tests.laboratory.costs.laboratory import Laboratory, Verb
from tests.laboratory.costs.lakes import CONDITIONS, Condition
from tests.laboratory.costs.verbs import VERBS

from quire.testing.s3 import SeaweedFS

GOLDEN = Path("tests/costs/golden.toml")
PAGE = Path("docs/guides/costs.md")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.laboratory.costs", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the golden file and the tables of the guide")
    parser.add_argument("--show", action="store_true", help="print the golden file; measure nothing")
    parser.add_argument("--hops", action="store_true", help="compare hops by slope, wire and meter instead")
    parser.add_argument("--only", default="", metavar="TEXT", help="verbs whose name holds this")
    parser.add_argument("--on", default="", metavar="TEXT", help='lakes that are so, such as "depth 1000"')
    parser.add_argument("--golden", type=Path, default=GOLDEN, metavar="FILE", help=f"default: {GOLDEN}")
    given = parser.parse_args(arguments)
    logging.getLogger("quire").setLevel(logging.ERROR)  # on a lake without upkeep, writers are told so
    known = golden.read(given.golden)
    verbs = [verb for verb in VERBS if given.only in verb.name]
    conditions = [c for c in CONDITIONS if given.on in str(c)]
    if given.show:
        wrong = []
    elif given.hops:
        return _compare_hops(verbs)
    else:
        wrong = _measure(verbs, conditions, known, writing=given.write)
    if given.write:
        known.growth = growth(VERBS, known)
        golden.write(given.golden, known, VERBS, CONDITIONS)
        report.into_page(PAGE, known, VERBS)
    wrong += violations(VERBS, known)
    print(report.text(known, verbs))
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


def _measure(
    verbs: Sequence[Verb], conditions: Sequence[Condition], known: golden.Golden, *, writing: bool
) -> list[str]:
    """Measure every verb on every lake: what moved, or, when it is to be written, what was not twice the same."""
    wrong = []
    with SeaweedFS() as s3, Laboratory(s3) as laboratory:
        for condition in (c for c in conditions if any(verb.suits(c) for verb in verbs)):
            _tell(f"{condition}: building")
            laboratory.lake(condition)
            for verb in verbs:
                if not verb.suits(condition):
                    continue
                began = time.monotonic()
                if writing:
                    first, bill = laboratory.twice(verb, condition)
                    wrong += golden.moved(verb, condition, replace(first, hops=bill.hops), bill)
                    known.add(verb, condition, bill)
                else:
                    old = known.bill(verb, condition)
                    wrong += golden.moved(verb, condition, old, laboratory.settled(verb, condition, old))
                _tell(f"{condition}: {verb.name}, {time.monotonic() - began:.1f} s")
    _tell("")
    return wrong


def _compare_hops(verbs: Sequence[Verb]) -> int:
    wrong = 0
    with SeaweedFS() as s3, Laboratory(s3) as laboratory:
        for verb in verbs:
            hops = three_ways(laboratory, verb, next(c for c in CONDITIONS if verb.suits(c)))
            wrong += not hops.agree
            print(hops if hops.agree else f"{hops}: they do not agree", flush=True)
    return 1 if wrong else 0


def _tell(what: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[2K{what}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
