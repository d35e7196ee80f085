"""Counting: requests by kind, bytes, and the longest chain."""

from __future__ import annotations

import contextvars
import threading
import time

import pytest
from tests.store.faulty import FaultyS3

from quire.store import (
    Meter,
    Store,
    attached,
    awaited,
    metering,
    record_external,
    run_parallel,
    submit,
    totals,
)


@pytest.fixture
def memory(request: pytest.FixtureRequest) -> Store:
    return Store.open(f"memory://{request.node.name}")


def test_every_kind_is_counted(store: Store) -> None:
    with metering() as m:
        store.put("a", b"12345")
        store.create("b", b"123", mine=lambda _: False)
        store.get("a")
        store.get_or_none("nope")
        store.stat("a")
        list(store.list(""))
        list(store.list("nothing"))
        store.delete("a")
    assert m.requests == {"put": 1, "create": 1, "get": 2, "head": 1, "list": 2, "delete": 1}
    assert m.total == 8
    assert m.hops == 8
    assert (m.bytes_in, m.bytes_out) == (5, 8)


def test_parallel_requests_are_one_hop(store: Store) -> None:
    with metering() as m:
        store.get_many([f"k{n}" for n in range(10)])
        store.get_many([f"k{n}" for n in range(10)])
    assert (m.total, m.hops) == (20, 2)


def test_the_longest_branch_counts(memory: Store) -> None:
    def chain(length: int) -> None:
        for _ in range(length):
            memory.get_or_none("k")

    with metering() as m:
        chain(1)
        run_parallel([lambda: chain(2), lambda: memory.get_many(["a", "b", "c"]), lambda: chain(4)])
        chain(1)
    assert (m.total, m.hops) == (11, 6)


def test_nested_meterings_both_count(memory: Store) -> None:
    with metering() as outer:
        memory.get_or_none("k")
        with metering() as inner:
            memory.get_many(["a", "b"])
        memory.get_or_none("k")
    assert (outer.total, outer.hops) == (4, 3)
    assert (inner.total, inner.hops) == (2, 1)


def test_a_metering_inside_a_parallel_call_counts_its_own(memory: Store) -> None:
    def measured() -> int:
        with metering() as m:
            memory.get_many(["a", "b", "c"])
        return m.total

    with metering() as outer:
        assert run_parallel([measured, measured]) == [3, 3]
    assert (outer.total, outer.hops) == (6, 1)


def test_nothing_is_counted_after_the_block(memory: Store) -> None:
    with metering() as m:
        memory.get_or_none("k")
        later = contextvars.copy_context()
    seconds = m.seconds
    memory.get_or_none("k")
    later.run(memory.get_or_none, "k")
    assert m.total == 1
    assert m.seconds == seconds


def test_a_thread_with_a_copy_of_the_context_counts(memory: Store) -> None:
    with metering() as m:
        thread = threading.Thread(target=contextvars.copy_context().run, args=(memory.get_or_none, "k"))
        thread.start()
        thread.join()
    assert m.total == 1


def test_external_spans_weigh_their_hops(memory: Store) -> None:
    with metering() as m:
        now = time.perf_counter()
        record_external("lance", "append", window=(0, 3), hops=3, start=now + 1, end=now + 2, bytes_in=10, bytes_out=20)
        record_external("lance", "append", window=(3, 8), hops=2, start=now + 1.5, end=now + 3)
        record_external("lance", "open", window=(8, 10), hops=2, start=now + 3, end=now + 4)
        memory.get_or_none("k")
    assert m.external == {"lance": 10}
    assert (m.total, m.requests) == (1, {"get": 1})
    assert m.hops == 1 + 3 + 2
    assert (m.bytes_in, m.bytes_out) == (10, 20)


def test_external_spans_in_parallel_calls_are_parallel(memory: Store) -> None:
    def stage() -> None:
        start = time.perf_counter()
        record_external("lance", "append", window=(0, 12), hops=3, start=start, end=time.perf_counter())

    with metering() as m:
        run_parallel([stage] * 4)
        memory.get_or_none("k")
    assert (m.external, m.hops) == ({"lance": 12}, 4)


def test_a_request_that_two_external_windows_saw_counts_once() -> None:
    with metering() as m:
        for window in ((10, 13), (20, 22), (11, 15), (22, 22), (14, 21)):
            record_external("lance", "append", window=window, hops=1, start=0.0, end=1.0)
    assert m.external == {"lance": 12}


def test_calls_put_aside_together_are_parallel_and_what_follows_waits_for_them(memory: Store) -> None:
    with metering() as m:
        for _ in range(3):
            submit(lambda: memory.get_or_none("k")).result()
        awaited()
        memory.get_or_none("k")
    assert (m.total, m.hops) == (4, 2)


def test_a_meter_that_outlives_its_block_goes_on_counting(memory: Store) -> None:
    meter = Meter()
    with attached(meter):
        memory.get_or_none("k")
    memory.get_or_none("k")
    with attached(meter), attached(meter):
        memory.get_or_none("k")
    assert (meter.total, meter.hops) == (2, 2)


def test_a_failed_attempt_and_its_repetition_are_two(faulty: FaultyS3) -> None:
    faulty.put("k", b"x")
    faulty.fail("GET", 500)
    with metering() as m:
        faulty.store.get("k")
    assert (m.requests, m.hops) == ({"get": 2}, 2)


def test_to_dict_and_totals(memory: Store) -> None:
    before = totals()
    with metering() as m:
        memory.put("k", b"123")
    report = m.to_dict()
    assert report.pop("seconds") > 0
    assert report == {
        "requests": {"put": 1},
        "total": 1,
        "external": {},
        "bytes_in": 0,
        "bytes_out": 3,
        "hops": 1,
    }
    after = totals()
    assert after["total"] == before["total"] + 1
    assert after["requests"]["put"] == before["requests"].get("put", 0) + 1
    assert after["bytes_out"] == before["bytes_out"] + 3
