"""Finding the last slot: right for any log and any belief, in few rounds."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import example, given
from hypothesis import strategies as st

from quire.ledger.head_search import last_existing

BILLION = 10**9


class Slots:
    """A log with slots `first` to `head`, which counts how often and for how many slots it is asked."""

    def __init__(self, head: int, first: int = 0) -> None:
        self.head = head
        self.first = first
        self.rounds: list[int] = []

    def __call__(self, slots: Sequence[int]) -> list[bool]:
        assert slots, "a round that asks for nothing"
        assert min(slots) >= 0
        self.rounds.append(len(slots))
        return [self.first <= slot <= self.head for slot in slots]


heads = st.one_of(st.integers(-1, 200), st.integers(-1, BILLION))
beliefs = st.one_of(st.integers(-5, 200), st.integers(-5, BILLION))


@given(heads, beliefs)
@example(BILLION, 0)
@example(BILLION, -1)
@example(BILLION - 1, BILLION)
@example(0, BILLION)
@example(-1, BILLION)
@example(-1, 0)
@example(536_870_912, 0)
@example(536_870_911, 0)
def test_any_head_is_found_from_any_belief_in_few_rounds(head: int, belief: int) -> None:
    slots = Slots(head)
    assert last_existing(slots, belief) == head
    assert len(slots.rounds) <= 8
    assert max(slots.rounds) <= 64


@given(heads, st.integers(-64, 64))
def test_a_belief_that_is_nearly_right_takes_few_rounds(head: int, off: int) -> None:
    slots = Slots(head)
    assert last_existing(slots, max(head, 0) + min(off, 0)) == head
    assert len(slots.rounds) <= 4


@given(heads.filter(lambda head: head >= 0))
def test_a_right_belief_takes_one_round(head: int) -> None:
    slots = Slots(head)
    assert last_existing(slots, head) == head
    assert len(slots.rounds) == 1
    assert slots.rounds[0] <= 8


@given(st.integers(-1, 10_000), st.integers(BILLION, 10**18))
@example(5, 10**18)
def test_a_belief_beyond_reason_is_survived(head: int, belief: int) -> None:
    slots = Slots(head)
    assert last_existing(slots, belief) == head
    assert len(slots.rounds) <= 14


@given(st.integers(0, BILLION), st.integers(0, BILLION), st.integers(-5, 3 * BILLION))
@example(150, 5, 205)
@example(150, 5, 149)
@example(150, 0, 149)
@example(150, 0, 0)
def test_a_log_that_starts_later_is_searched_from_its_start(first: int, length: int, belief: int) -> None:
    slots = Slots(first + length - 1, first)
    assert last_existing(slots, belief, first) == (first + length - 1 if length else -1)
    assert len(slots.rounds) <= 8
