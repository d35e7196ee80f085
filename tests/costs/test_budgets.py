"""Every verb costs what the golden file says, on small lakes and on larger ones; `make costs` measures all."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.laboratory.costs import (
    CONDITIONS,
    LARGEST,
    LARGEST_GRAPH,
    SMALLEST,
    SMALLEST_GRAPH,
    VERBS,
    Condition,
    Golden,
    Laboratory,
    Verb,
    moved,
)
from tests.laboratory.costs.hops import three_ways
from tests.laboratory.costs.verbs import RACES, ROWS, TABLES

pytestmark = [pytest.mark.s3, pytest.mark.slow, pytest.mark.timeout(900)]

TRANSACTIONS = (*ROWS, *TABLES, *RACES)
CAP = 8


def smallest(verb: Verb) -> Condition:
    """The smallest lake that a verb suits."""
    return next(c for c in CONDITIONS if verb.suits(c))


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_a_verb_costs_what_is_written(laboratory: Laboratory, golden: Golden, verb: Verb) -> None:
    condition = smallest(verb)
    written = golden.bill(verb, condition)
    wrong = moved(verb, condition, written, laboratory.settled(verb, condition, written))
    assert not wrong, "\n".join(wrong)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_the_hops_of_a_verb_are_the_same_three_ways(laboratory: Laboratory, golden: Golden, verb: Verb) -> None:
    condition = smallest(verb)
    hops = three_ways(laboratory, verb, condition)
    wrong = moved(verb, condition, golden.bill(verb, condition), hops.bill)
    if not hops.agree:
        wrong.append(f"{hops}: they should agree; {hops.walls}")
    if verb in TRANSACTIONS and hops.receipt != hops.meter:
        wrong.append(f"{hops}: the receipt should say so too")
    if verb.metered and hops.counted != hops.bill.total:
        wrong.append(f"{hops}: the meter counted {hops.counted} of {hops.bill.total} requests")
    assert not wrong, "\n".join(wrong)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("condition", "cap"),
    [
        (replace(SMALLEST, maintained=False), None),
        (replace(SMALLEST_GRAPH, maintained=False), None),
        (replace(SMALLEST, depth=100), CAP),
        (replace(SMALLEST, tables=50), CAP),
        (replace(SMALLEST_GRAPH, depth=100), CAP),
        pytest.param(LARGEST, CAP, marks=pytest.mark.full),  # a minute to build one
        pytest.param(replace(LARGEST, maintained=False), None, marks=pytest.mark.full),
        pytest.param(LARGEST_GRAPH, CAP, marks=pytest.mark.full),
    ],
    ids=str,
)
def test_a_lake_costs_what_is_written(
    laboratory: Laboratory, golden: Golden, condition: Condition, cap: int | None
) -> None:
    """With a cap on what may be at the server at once, neither a count nor a hop moves."""
    wrong = []
    laboratory.proxy.concurrency = cap
    try:
        for verb in VERBS:
            if verb.suits(condition) and (verb.important or condition.is_smallest):
                written = golden.bill(verb, condition)
                wrong += moved(verb, condition, written, laboratory.settled(verb, condition, written))
    finally:
        laboratory.proxy.concurrency = None
    assert not wrong, "\n".join(wrong)
