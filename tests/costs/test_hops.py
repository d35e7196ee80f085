"""Hops by slope, by wire and by meter: a request more in the chain is seen by all three, one beside it by none."""

from __future__ import annotations

from typing import Any

import pytest
from tests.laboratory.costs import SMALLEST, Laboratory, Verb, three_ways
from tests.laboratory.costs.hops import slope
from tests.laboratory.costs.verbs import NEW, append, commit, warm

import quire
from quire.store import attached, run_parallel

pytestmark = [pytest.mark.s3, pytest.mark.timeout(900)]

KEY = "_quire/format.json"


def ask(tx: quire.Transaction) -> bytes:
    """A request that the transaction waits for."""
    with attached(tx.meter):
        return tx.live.core.store.get(KEY)


def ask_twice_at_once(tx: quire.Transaction) -> list[bytes]:
    with attached(tx.meter):
        store = tx.live.core.store
        return run_parallel([lambda: store.get(KEY), lambda: store.get(KEY)])


def doing(name: str, *programs: Any) -> Verb:
    return Verb(name, lambda lake: commit(lake, *programs), warm())


@pytest.mark.parametrize(
    ("verb", "hops", "requests"),
    [
        (doing("append", append(2, NEW + 1)), 2, 5),
        (doing("a GET, then append", ask, append(2, NEW + 1)), 3, 6),
        (doing("two GETs side by side, then append", ask_twice_at_once, append(2, NEW + 1)), 3, 7),
        (doing("two GETs in turn, then append", ask, ask, append(2, NEW + 1)), 4, 7),
    ],
    ids=lambda given: given.name if isinstance(given, Verb) else None,
)
def test_a_request_in_the_chain_raises_all_three_by_one(
    laboratory: Laboratory, verb: Verb, hops: int, requests: int
) -> None:
    found = three_ways(laboratory, verb, SMALLEST)
    assert found.agree, str(found)
    assert (found.chain, found.meter, found.receipt) == (hops, hops, hops)
    assert round(found.slope) == hops
    assert found.bill.total == found.counted == requests


def test_a_meter_that_is_wrong_by_one_does_not_agree(laboratory: Laboratory) -> None:
    found = three_ways(laboratory, doing("append", append(2, NEW + 1)), SMALLEST)
    found.meter += 1
    assert not found.agree
    found.meter -= 1
    found.chains = {latency: hops - 1 for latency, hops in found.chains.items()}
    assert not found.agree


def test_the_slope_is_that_of_a_straight_line() -> None:
    assert slope([(0.02, 1.08), (0.12, 1.48)]) == pytest.approx(4)
    assert slope([(0, 1.0), (1, 3.0), (2, 5.0), (3, 7.0)]) == pytest.approx(2)
