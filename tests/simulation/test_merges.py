"""Histories in which programs merge, pick and take merges back, and mistakes in merging that they find."""

import pytest
from tests.budget import SEED, budget
from tests.laboratory.planted_merge_bugs import BUGS

from quire.testing.simulation import run
from quire.testing.simulation.merges import FROM, merging

SEEDS = [seed for seed in range(FROM, FROM + 2_000) if merging(seed)]
FIRST = FROM + 4 * (SEED % 10_000)


def test_histories_with_merges_hold() -> None:
    counts: dict[str, int] = {}
    wanted = [seed for seed in range(FIRST, FIRST + 8_000) if merging(seed)]
    for seed in wanted[: budget(3, full=300)]:
        result = run(seed)
        assert result.violations == [], f"seed {seed}"
        for what, number in result.counts.items():
            counts[what] = counts.get(what, 0) + number
    assert sum(number for what, number in counts.items() if what.startswith("merge: ")) >= 1


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str) -> None:
    with BUGS[bug]():
        found = next((seed for seed in SEEDS if run(seed).violations), None)
    assert found is not None, f"{bug}: {BUGS[bug].__doc__} Not found in {len(SEEDS)} histories."
    assert run(found).violations == [], "the same history without the bug"


def test_histories_of_other_seeds_have_no_merges() -> None:
    assert not any(merging(seed) for seed in range(FROM + 1))
    assert not [what for what in run(1).counts if what.startswith("merge: ")]
