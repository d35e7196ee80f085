"""What may grow with a lake, and what may not: rules over the golden file. And the guide shows what the file says."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import pytest
from tests.laboratory.costs import (
    CONDITIONS,
    LARGEST,
    SMALLEST,
    VERBS,
    Bill,
    Condition,
    Golden,
    Verb,
    growth,
    violations,
)
from tests.laboratory.costs.report import on_page

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "costs.md"
DEEP = Condition(depth=1000)


def named(name: str) -> Verb:
    return next(verb for verb in VERBS if verb.name == name)


def test_every_verb_has_a_line_for_every_lake_it_suits(golden: Golden) -> None:
    wanted = {(verb.name, str(c)) for verb in VERBS for c in CONDITIONS if verb.suits(c)}
    assert {(verb, c) for verb, lines in golden.bills.items() for c in lines} == wanted


def test_nothing_grows_beyond_what_is_stated(golden: Golden) -> None:
    assert list(violations(VERBS, golden)) == []


def test_the_growth_that_is_stated_is_the_growth_of_the_lines(golden: Golden) -> None:
    assert golden.growth == growth(VERBS, golden)


@pytest.mark.parametrize("condition", [DEEP, Condition(tables=500), Condition(branches=50), LARGEST], ids=str)
@pytest.mark.parametrize("maintained", [True, False])
@pytest.mark.parametrize("part", ["quire", "lance", "hops", "later_lance"])
def test_one_request_more_on_a_larger_lake_is_noticed(
    golden: Golden, condition: Condition, maintained: bool, part: str
) -> None:
    verb, where = named("append to 2 tables"), replace(condition, maintained=maintained)
    changed = copy.deepcopy(golden)
    bill = changed.bill(verb, where)
    assert bill is not None
    more = {"hops": bill.hops + 1} if part == "hops" else {part: {**getattr(bill, part), "GET": 100}}
    changed.add(verb, where, replace(bill, **more))
    assert any(f"{verb.name} ({where})" in told for told in violations(VERBS, changed))


def test_growth_without_a_reason_is_noticed(golden: Golden) -> None:
    changed = copy.deepcopy(golden)
    verb = named("append to 1 table")
    for condition in CONDITIONS:
        if not condition.maintained and (bill := changed.bill(verb, condition)) is not None:
            changed.add(verb, condition, replace(bill, lance={**bill.lance, "GET": condition.depth}))
    changed.growth = growth(VERBS, changed)
    assert changed.growth == golden.growth
    told = list(violations(VERBS, changed))
    assert len(told) == 3
    assert told[0].startswith("append to 1 table (never maintained, depth 100, 2 tables, 1 branch): 103 requests, 4 on")


def test_growth_with_a_reason_is_held_to_its_rate(golden: Golden) -> None:
    changed = copy.deepcopy(golden)
    verb, where = named("open cold"), Condition(maintained=False, depth=1000)
    bill = changed.bill(verb, where)
    assert bill is not None
    changed.add(verb, where, Bill({"GET": bill.total + 100}, {}, bill.hops))
    assert any(f"{verb.name} ({where})" in told for told in violations(VERBS, changed))
    changed.growth = growth(VERBS, changed)
    assert changed.growth != golden.growth


def test_the_guide_shows_what_the_golden_file_says(golden: Golden) -> None:
    page = GUIDE.read_text()
    assert on_page(page, golden, VERBS) == page, "run `make costs WRITE=1`"


def test_a_lake_names_its_condition() -> None:
    assert str(SMALLEST) == "maintained, depth 1, 2 tables, 1 branch"
    assert len({str(c) for c in CONDITIONS}) == len(CONDITIONS)
