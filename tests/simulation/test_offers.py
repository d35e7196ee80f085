"""Histories in which programs share slots by offers, and what is found when one of the rules is forgotten."""

import pytest
from tests.budget import FULL, SEED, budget
from tests.laboratory import planted_offer_bugs

from quire.testing.simulation import run
from quire.testing.simulation.history import History
from quire.testing.simulation.planting import BUGS, planted

FIRST = 20_001 if FULL else 1_000 * SEED
PLANTED = sorted(name for name, make in BUGS.items() if make.__module__ == planted_offer_bugs.__name__)
SEEDS = [seed for seed in range(1, 400) if History(seed).rivalry == 0.9]


@pytest.fixture(autouse=True)
def _with_offers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUIRE_OFFERS", "1")


def test_histories_with_offers_hold() -> None:
    counts: dict[str, int] = {}
    for seed in range(FIRST, FIRST + budget(10, full=240)):
        result = run(seed)
        assert result.violations == [], f"seed {seed}"
        for what, number in result.counts.items():
            counts[what] = counts.get(what, 0) + number
    assert counts["carried"] >= 3
    assert counts["carried behind others' rows"] >= 1


def test_nobody_offers_where_offers_are_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUIRE_OFFERS", "0")
    assert "carried" not in {what for what, number in run(1).counts.items() if number}


@pytest.mark.full
@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str) -> None:
    with planted(bug):
        found = next((seed for seed in SEEDS if run(seed).violations), None)
    assert found is not None, f"{bug}: {BUGS[bug].__doc__} Not found in {len(SEEDS)} histories."
    assert run(found).violations == [], "the same history without the bug"


def test_there_is_a_bug_for_each_rule() -> None:
    assert len(PLANTED) == 14
    assert all(BUGS[name].__doc__ for name in PLANTED)
