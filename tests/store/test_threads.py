"""Calls side by side: order, context, errors, nesting."""

from __future__ import annotations

import contextvars
import threading
import time

import pytest

from quire.store import run_parallel
from quire.store.threads import THREADS

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="unset")


def test_results_keep_the_order() -> None:
    def wait(n: int) -> int:
        time.sleep(0.01 * (5 - n))
        return n

    assert run_parallel([lambda n=n: wait(n) for n in range(5)]) == list(range(5))
    assert run_parallel([]) == []


def test_calls_run_at_the_same_time() -> None:
    barrier = threading.Barrier(THREADS)
    assert len(run_parallel([lambda: barrier.wait(10)] * THREADS)) == THREADS


def test_calls_see_the_context_and_cannot_change_it() -> None:
    def read_and_set() -> str:
        seen = VARIABLE.get()
        VARIABLE.set("changed")
        return seen

    VARIABLE.set("mine")
    assert run_parallel([read_and_set] * 50) == ["mine"] * 50
    assert VARIABLE.get() == "mine"


def test_a_single_call_cannot_change_the_context_either() -> None:
    VARIABLE.set("mine")
    run_parallel([lambda: VARIABLE.set("changed")])
    assert VARIABLE.get() == "mine"


def test_the_first_error_is_raised_after_all_are_settled() -> None:
    settled: list[int] = []

    def call(n: int) -> None:
        time.sleep(0.02 * (3 - n) if n < 3 else 0.1)
        settled.append(n)
        if n in (1, 2):
            raise ValueError(n)

    with pytest.raises(ValueError, match="1"):
        run_parallel([lambda n=n: call(n) for n in range(6)])
    assert sorted(settled) == list(range(6))


def test_nesting_far_beyond_the_threads_does_not_block() -> None:
    def fan(depth: int) -> int:
        if depth == 0:
            return 1
        return sum(run_parallel([lambda: fan(depth - 1)] * 12))

    assert fan(3) == 12**3


def test_an_interrupt_starts_no_further_call() -> None:
    started: list[int] = []

    def call(n: int) -> None:
        started.append(n)
        if n == 0:
            raise KeyboardInterrupt
        time.sleep(0.05)

    with pytest.raises(KeyboardInterrupt):
        run_parallel([lambda n=n: call(n) for n in range(500)])
    assert len(started) < 400
