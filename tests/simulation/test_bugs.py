"""Every bug that is planted in the protocol is found by the histories, and nothing is found without one."""

import pytest
from tests.laboratory import planted_bugs as bugs

from quire.testing.simulation import run
from quire.testing.simulation.programs_that_read_results import attentive

SEEDS = range(1, 801)
ATTENTIVE = [seed for seed in range(1, 8_001) if attentive(seed)]
"""Where programs act on what they are told: only they meet mistakes in what a transaction was told."""
SEEN = {
    "branch-takes-the-slot": 15,
    "company-not-looked-at": 6,
    "counts-not-compared": 16,
    "derived-handle-is-new": 17,
    "failed-member-followed": 52,
    "first-token-only": 5,
    "floor-ignored": 57,
    "keys-of-members-not-compared": 1,
    "leases-ignored": 26,
    "lost-group-acknowledged": 8,
    "names-not-read": 2,
    "names-of-members-not-compared": 10,
    "no-epoch": 10,
    "no-expectations": 15,
    "notes-ignored": 20,
    "protectors-first": 8,
    "reads-of-members-not-compared": 53,
    "refusals-not-read": 10,
    "unknown-group-tried-again": 389,
    "unknown-run-again": 28,
    "version-of-any-table": 136,
    "withdrawn-published": 10,
    "work-is-as-old-as-who-commits-it": 59,
}
"""Where bugs that are rarely met were found: tried first. A change of the protocol moves them; then all are tried."""


PLANTED = sorted(name for name, make in bugs.BUGS.items() if make.__module__ != "tests.laboratory.planted_offer_bugs")
"""Those in the rules of offers are met where programs offer: see `test_offers`."""


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str) -> None:
    first = [SEEN[bug]] if bug in SEEN else []
    seeds = ATTENTIVE if bugs.BUGS[bug].__module__ == "tests.laboratory.planted_told_bugs" else SEEDS
    with bugs.planted(bug):
        found = next((seed for seed in (*first, *seeds) if run(seed).violations), None)
    assert found is not None, f"{bug}: {bugs.BUGS[bug].__doc__} Not found in {len(seeds)} histories."
    assert run(found).violations == [], "the same history without the bug"


def test_there_are_enough_bugs_and_each_says_what_is_wrong() -> None:
    assert len(bugs.BUGS) >= 25
    assert all(bug.__doc__ for bug in bugs.BUGS.values())


def test_a_bug_is_gone_afterwards() -> None:
    digest = run(1).digest
    with bugs.planted("half-published"):
        assert run(1).digest != digest
    assert run(1).digest == digest
