"""Counting: requests by kind, retries, bytes, the longest chain, and time by phase."""

from __future__ import annotations

import contextvars
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest
from tests.store.faulty import FaultyS3

from quire.errors import StorageError
from quire.store import (
    Meter,
    Store,
    active_meters,
    attached,
    awaited,
    clock,
    metering,
    on_behalf,
    phase,
    record_external,
    result_of,
    run_parallel,
    submit,
    totals,
)
from quire.testing.processes import context


@pytest.fixture
def memory() -> Store:
    return Store.open(f"memory://{uuid.uuid4().hex}")


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


def test_what_is_done_on_behalf_of_others_counts_once_on_each_of_their_meters(memory: Store) -> None:
    """Two members of a group run under one meter of the program's, and each under its own."""
    first, second = Meter(), Meter()
    with metering() as program:
        members = []
        for member in (first, second):
            with attached(member):
                members += active_meters()
        with metering() as leader:
            with on_behalf(members):
                memory.get_or_none("k")
    assert [m.total for m in (program, first, second, leader)] == [1, 1, 1, 0]


def test_a_failed_attempt_and_its_repetition_are_two(faulty: FaultyS3) -> None:
    faulty.put("k", b"x")
    faulty.fail("GET", 500)
    with metering() as m:
        faulty.store.get("k")
    assert (m.requests, m.hops) == ({"get": 2}, 2)


def test_a_meter_as_a_dict(memory: Store) -> None:
    with metering() as m:
        memory.put("k", b"123")
    report = m.to_dict()
    assert report.pop("seconds") > 0
    assert report == {
        "requests": {"put": 1},
        "total": 1,
        "external": {},
        "retries": 0,
        "bytes_in": 0,
        "bytes_out": 3,
        "hops": 1,
        "phases": {},
    }


def test_the_totals_are_those_of_the_process(faulty: FaultyS3) -> None:
    """Asked of a process of its own: in this one, what other tests left in the background is counted as well."""
    faulty.put("k", b"theirs")
    faulty.fail("GET", "dropped", 503)
    with ProcessPoolExecutor(1, mp_context=context()) as one:
        before, after = one.submit(_totals_around_a_get_and_a_put, faulty.options).result()
    assert (before["total"], after["total"]) == (0, 4)
    assert after["requests"] == {"get": 3, "put": 1}
    assert (after["retries"], after["bytes_in"], after["bytes_out"]) == (2, 6, 3)


def _totals_around_a_get_and_a_put(options: dict[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    store = Store.open("s3://bucket/lake", options)
    before = totals()
    assert store.get("k") == b"theirs"
    store.put("l", b"123")
    return before, totals()


# -- external windows --------------------------------------------------------------------------------------------------


def test_windows_beyond_those_kept_apart_still_count(memory: Store) -> None:
    with metering() as m:
        for n in range(1000):  # every second request of the other system is somebody else's
            record_external("lance", "append", window=(2 * n, 2 * n + 1), hops=1, start=0.0, end=1.0)
        record_external("lance", "append", window=(1990, 2000), hops=1, start=0.0, end=1.0)
    assert m.external == {"lance": 1000 + 5}


def test_a_window_that_began_long_ago_counts_nothing_twice() -> None:
    with metering() as m:
        for n in range(100):
            record_external("lance", "append", window=(2 * n, 2 * n + 1), hops=1, start=0.0, end=1.0)
        record_external("lance", "scan", window=(0, 300), hops=1, start=0.0, end=1.0)
    assert 100 + 100 <= m.external["lance"] <= 300


# -- retries -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("faults", [(500,), ("dropped", 503), ("lost",)])
def test_a_request_that_is_sent_again_is_a_retry(faulty: FaultyS3, faults: tuple[str | int, ...]) -> None:
    faulty.put("k", b"x")
    faulty.fail("GET", *faults)
    with metering() as m:
        faulty.store.get("k")
    assert m.retries == m.to_dict()["retries"] == len(faults)
    assert m.requests == {"get": 1 + len(faults)}


def test_an_answer_that_is_no_error_is_not_asked_again(faulty: FaultyS3) -> None:
    with metering() as m:
        faulty.store.get_or_none("nope")
        faulty.put("k", b"theirs")
        faulty.store.create("k", b"mine", mine=lambda found: found == b"mine")
    assert (m.requests, m.retries) == ({"get": 2, "create": 1}, 0)


@pytest.mark.parametrize(
    ("puts", "gets", "retries"),
    [
        ((500,), (), 1),  # answered with an error, not there: put again
        (("lost",), (), 0),  # applied, answer lost: a look is enough
        (("lost",), (500, "dropped"), 2),  # the look itself is repeated
        ((500, 500), (), 2),
    ],
)
def test_a_create_counts_what_is_sent_again(
    faulty: FaultyS3, impatient: None, puts: tuple[str | int, ...], gets: tuple[str | int, ...], retries: int
) -> None:
    faulty.fail("PUT", *puts)
    faulty.fail("GET", *gets)
    with metering() as m:
        faulty.store.create("k", b"mine", mine=lambda found: found == b"mine")
    assert m.retries == retries


def test_giving_up_is_not_a_retry(faulty: FaultyS3, impatient: None) -> None:
    faulty.fail("GET", *[500] * 20)
    with metering() as m, pytest.raises(StorageError):
        faulty.store.get("k")
    assert m.retries == m.total - 1


# -- phases ------------------------------------------------------------------------------------------------------------


class Watch(clock.World):
    """A world whose time moves only when it is told to."""

    time = 100.0

    def monotonic(self) -> float:
        return self.time

    def passes(self, seconds: float) -> None:
        self.time += seconds


@pytest.fixture
def watch() -> Iterator[Watch]:
    with clock.using(Watch()) as world:
        assert isinstance(world, Watch)
        yield world


def test_time_belongs_to_the_phase_it_passes_in(watch: Watch) -> None:
    with metering() as m:
        watch.passes(1)
        with phase("stage"):
            watch.passes(2)
        watch.passes(4)
        with phase("publish"):
            watch.passes(8)
        with phase("stage"):
            watch.passes(16)
    assert m.phases == {"stage": 18.0, "publish": 8.0}
    assert m.seconds == 31.0
    assert m.to_dict()["phases"] == m.phases


def test_time_belongs_to_the_inner_phase(watch: Watch) -> None:
    with metering() as m, phase("outer"):
        watch.passes(1)
        with phase("inner"):
            watch.passes(2)
            with phase("outer"):
                watch.passes(4)
            watch.passes(8)
        watch.passes(16)
    assert m.phases == {"outer": 21.0, "inner": 10.0}


def test_a_phase_that_is_open_counts_up_to_now(watch: Watch) -> None:
    with metering() as m, phase("outer"):
        watch.passes(1)
        with phase("inner"):
            watch.passes(2)
            assert m.phases == {"outer": 1.0, "inner": 2.0}
            watch.passes(4)
            assert m.phases == {"outer": 1.0, "inner": 6.0}


def test_a_phase_that_fails_has_ended(watch: Watch) -> None:
    def fail() -> None:
        with phase("stage"):
            watch.passes(1)
            raise ZeroDivisionError

    with metering() as m:
        with pytest.raises(ZeroDivisionError):
            fail()
        watch.passes(2)
    assert m.phases == {"stage": 1.0}


def test_every_meter_that_counts_here_is_charged_and_no_other(watch: Watch) -> None:
    kept, other = Meter(), Meter()
    with metering() as outer:
        with phase("early"):
            watch.passes(1)
        with metering() as inner, attached(kept), phase("stage"):
            watch.passes(2)
    assert outer.phases == {"early": 1.0, "stage": 2.0}
    assert inner.phases == kept.phases == {"stage": 2.0}
    assert other.phases == {}


def test_calls_side_by_side_are_charged_once(watch: Watch) -> None:
    opened, closed = threading.Barrier(2), threading.Barrier(2)

    def call(name: str) -> None:
        with phase(name):
            opened.wait(30)
            if name == "left":
                watch.passes(8)
            closed.wait(30)

    with metering() as m:
        run_parallel([lambda: call("left"), lambda: call("right")])
    assert sum(m.phases.values()) == 8.0


def test_who_waits_is_charged_for_what_another_thread_does_for_it(watch: Watch) -> None:
    """The member of a group waits in its thread while the leader publishes with the member's meter attached."""
    member = Meter()

    def lead() -> None:
        with attached(member), phase("publish"):
            watch.passes(2)

    with attached(member), phase("wait"):
        watch.passes(1)
        leader = threading.Thread(target=contextvars.Context().run, args=(lambda: _in_world(watch, lead),))
        leader.start()
        leader.join()
        watch.passes(4)
    assert member.phases == {"wait": 5.0, "publish": 2.0}


def _in_world(world: clock.World, call: object) -> None:
    with clock.using(world):
        assert callable(call)
        call()


def test_a_phase_may_end_before_one_that_was_opened_later(watch: Watch) -> None:
    meter = Meter()
    with attached(meter):
        first, second = phase("first"), phase("second")
        first.__enter__()
        second.__enter__()
        watch.passes(1)
        first.__exit__(None, None, None)
        watch.passes(2)
        second.__exit__(None, None, None)
        watch.passes(4)
    assert meter.phases == {"first": 0.0, "second": 3.0}


def test_phases_stay_as_they_are_after_the_block(watch: Watch) -> None:
    with metering() as m:
        later = contextvars.copy_context()
        with phase("stage"):
            watch.passes(1)

    def after() -> None:
        with phase("stage"):
            watch.passes(2)

    later.run(after)
    assert m.phases == {"stage": 1.0}


def test_the_stretches_of_a_phase_are_kept_for_who_asks(watch: Watch) -> None:
    with metering() as m:
        m.stretches = []
        with phase("outer"):
            watch.passes(1)
            with phase("inner"):
                watch.passes(2)
    assert m.stretches == [("outer", 100.0, 101.0), ("inner", 101.0, 103.0), ("outer", 103.0, 103.0)]


def slow(name: str, seconds: float) -> Callable[[], None]:
    """A call that makes one request of so many seconds."""

    def call() -> None:
        start = time.perf_counter()
        time.sleep(seconds)
        record_external("lance", name, window=(0, 0), hops=1, start=start, end=time.perf_counter())

    return call


def test_a_branch_that_waits_for_a_call_put_aside_follows_it() -> None:
    with metering() as m:
        futures = [submit(slow("data", 0.05)) for _ in range(2)]
        run_parallel([lambda f=f: (result_of(f), slow("stage", 0.01)()) for f in futures])  # type: ignore[misc]
        slow("slot", 0.01)()
    assert m.hops == 3


def test_a_call_that_ended_before_the_branches_began_counts_once() -> None:
    with metering() as m:
        futures = [submit(slow("data", 0.01)) for _ in range(2)]
        for future in futures:
            future.result()
        run_parallel([lambda f=f: (result_of(f), slow("stage", 0.01)()) for f in futures])  # type: ignore[misc]
    assert m.hops == 2


def test_calls_put_aside_that_end_before_and_after_the_branches_begin_stay_side_by_side() -> None:
    with metering() as m:
        futures = [submit(slow("data", seconds)) for seconds in (0.01, 0.2)]
        futures[0].result()
        run_parallel([lambda f=f: (result_of(f), slow("stage", 0.01)()) for f in futures])  # type: ignore[misc]
    assert m.hops == 2


def test_what_was_read_beside_a_call_put_aside_counts_when_it_took_longer() -> None:
    with metering() as m:
        future = submit(slow("data", 0.1))
        for _ in range(3):
            slow("read", 0.01)()
        run_parallel([lambda: (result_of(future), slow("stage", 0.01)()), lambda: None])
    assert m.hops == 4
