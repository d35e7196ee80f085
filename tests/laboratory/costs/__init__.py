"""The price of every verb, measured on the wire: a laboratory, a golden file, and the rules that keep prices flat.

    from tests.laboratory.costs import LARGEST, VERBS, Laboratory

    with SeaweedFS() as s3, Laboratory(s3) as laboratory:
        for verb in VERBS:
            print(verb.name, laboratory.measure(verb, SMALLEST).bill)

Lakes are prepared in several sizes, maintained or not. A verb runs on one of them behind the counting proxy while
background work is held back; then that is let go and counted apart, and everything is undone. `python -m
tests.laboratory.costs` measures every verb on every lake and compares with `tests/costs/golden.toml`.
"""

from __future__ import annotations

from tests.laboratory.costs.flatness import growth, violations
from tests.laboratory.costs.golden import Golden, moved, read, write
from tests.laboratory.costs.hops import Hops, three_ways
from tests.laboratory.costs.laboratory import Bill, Laboratory, Measured, Verb
from tests.laboratory.costs.lakes import CONDITIONS, LARGEST, LARGEST_GRAPH, SMALLEST, SMALLEST_GRAPH, Condition
from tests.laboratory.costs.verbs import VERBS

__all__ = [
    "CONDITIONS",
    "LARGEST",
    "LARGEST_GRAPH",
    "SMALLEST",
    "SMALLEST_GRAPH",
    "VERBS",
    "Bill",
    "Condition",
    "Golden",
    "Hops",
    "Laboratory",
    "Measured",
    "Verb",
    "growth",
    "moved",
    "read",
    "three_ways",
    "violations",
    "write",
]
