"""Histories whose programs act on what they are told: enough of it happens, and what is written down is exact."""

from collections import Counter

from quire.testing.simulation import run
from quire.testing.simulation.effects import Effect, _counts
from quire.testing.simulation.programs_that_read_results import TOLD, attentive

SEEN = ("replay", "rebase", "rewrite", "told: conflict", "told: expectation-failed", "told: fenced", "claim")


def test_some_histories_are_full_of_programs_that_act_on_what_they_are_told() -> None:
    """All of it happens within so many of them; which of them is for the dice."""
    counted: Counter[str] = Counter()
    for seed in [seed for seed in range(20_000, 20_400) if attentive(seed)]:
        result = run(seed)
        assert result.violations == [], seed
        counted.update(result.counts)
        if all(counted[what] for what in SEEN):
            return
    raise AssertionError(f"never seen: {[what for what in SEEN if not counted[what]]}")


def test_the_rest_of_the_histories_is_as_before() -> None:
    assert not any(attentive(seed) for seed in range(0, 700, 7))
    assert {operation.__name__ for operation in TOLD} >= {"welcome", "take_jobs", "look_up", "derived", "far_away"}


def test_counts_are_those_of_one_statement_after_the_other() -> None:
    def low(row: dict[str, int]) -> bool:
        return row["v"] < 5

    statements = [
        Effect("t", "upsert", rows=({"id": 1, "v": 1}, {"id": 3, "v": 9})),
        Effect("t", "delete", where=low),
        Effect("t", "upsert", rows=({"id": 1, "v": 2}, {"id": 3, "v": 3})),
        Effect("t", "update", where=low, change=lambda row: {**row, "v": 7}),
    ]
    assert _counts(statements, {1: {"id": 1, "v": 8}, 2: {"id": 2, "v": 4}}) == [1, 2, 1, 2]
