"""Tasks take turns in virtual time."""

import random

import pytest

from quire.lake.upkeep.background import Background
from quire.store import clock
from quire.testing.simulation import Crashed, Process, Scheduler, SimulatedWorld, Stuck


def test_time_is_virtual_and_tasks_wake_in_its_order() -> None:
    world, woke = SimulatedWorld(1), []

    def sleeper(seconds: float) -> None:
        clock.sleep(seconds)
        woke.append((seconds, clock.monotonic()))

    with clock.using(world):
        for seconds in (3600.0, 1.0, 60.0):
            world.scheduler.spawn(Process("p"), "main", lambda s=seconds: sleeper(s))
        world.scheduler.run()
    assert woke == [(1.0, 1.0), (60.0, 60.0), (3600.0, 3600.0)]


def test_each_process_has_a_clock_of_its_own() -> None:
    world, seen = SimulatedWorld(1), {}
    with clock.using(world):
        for name, skew in (("right", 0.0), ("fast", 90.0)):
            process = Process(name, skew=skew)
            world.scheduler.spawn(process, "main", lambda p=process: seen.update({p.name: clock.now()}))
        world.scheduler.run()
    assert (seen["fast"] - seen["right"]).total_seconds() == 90
    assert world.store_time == seen["right"]


def test_a_frozen_process_stands_still_with_all_its_tasks() -> None:
    world, woke = SimulatedWorld(1), []

    def tick(name: str) -> None:
        for _ in range(2):
            clock.sleep(1)
            woke.append((name, clock.monotonic()))

    with clock.using(world):
        frozen, other = Process("p"), Process("q")
        world.scheduler.spawn(frozen, "a", lambda: tick("a"))
        world.scheduler.spawn(frozen, "b", lambda: tick("b"))
        world.scheduler.spawn(other, "main", lambda: tick("other"))
        world.scheduler.freeze(frozen, 100)
        world.scheduler.run()
    assert [at for name, at in woke if name != "other"] == [101, 101, 102, 102]
    assert [at for name, at in woke if name == "other"] == [1, 2]


def test_tasks_that_wait_for_each_other_are_stuck() -> None:
    world = SimulatedWorld(1)
    with clock.using(world):
        one, two = clock.lock(), clock.lock()
        process = Process("p")

        def take(first: clock.Lock, second: clock.Lock) -> None:
            with first:
                clock.sleep(1)
                with second:
                    pass

        world.scheduler.spawn(process, "a", lambda: take(one, two))
        world.scheduler.spawn(process, "b", lambda: take(two, one))
        with pytest.raises(Stuck, match="everybody waits: p/a, p/b"):
            world.scheduler.run()


def test_a_task_that_goes_on_for_ever_is_stuck() -> None:
    world = SimulatedWorld(1, limit=100)

    def spin() -> None:
        while True:
            clock.sleep(1)

    with clock.using(world):
        world.scheduler.spawn(Process("p"), "main", spin)
        with pytest.raises(Stuck, match="more than 100 steps"):
            world.scheduler.run()


def test_a_lock_keeps_the_other_task_of_the_process_out() -> None:
    world, inside = SimulatedWorld(1), []
    with clock.using(world):
        lock, process = clock.rlock(), Process("p")

        def work(name: str) -> None:
            with lock, lock:
                inside.append(name)
                clock.sleep(5)
                inside.append(name)

        world.scheduler.spawn(process, "a", lambda: work("a"))
        world.scheduler.spawn(process, "b", lambda: work("b"))
        world.scheduler.run()
    assert inside in (["a", "a", "b", "b"], ["b", "b", "a", "a"])


def test_background_work_is_a_task_of_its_process_and_dies_with_it() -> None:
    world, ran = SimulatedWorld(1), []

    def program(*, crash: bool) -> None:
        background = Background()
        background.submit("soon", lambda: ran.append(f"soon {crash}"))
        background.submit("later", lambda: ran.append(f"later {crash}"), delay=10)
        clock.sleep(1)
        if crash:
            world.scheduler.kill(world.scheduler.current.process)  # type: ignore[union-attr]
            raise Crashed
        assert background.drain()

    with clock.using(world):
        world.scheduler.spawn(Process("p"), "main", lambda: program(crash=False))
        world.scheduler.spawn(Process("q"), "main", lambda: program(crash=True))
        world.scheduler.run()
    assert sorted(ran) == ["later False", "soon False", "soon True"]


def test_who_joins_a_task_goes_on_when_it_ends_or_time_is_up() -> None:
    world, seen = SimulatedWorld(1), []
    with clock.using(world):

        def main() -> None:
            thread = clock.start(lambda: clock.sleep(10), "slow")
            thread.join(4)
            seen.append((clock.monotonic(), thread.is_alive()))
            clock.sleep(20)
            seen.append((clock.monotonic(), thread.is_alive()))
            other = clock.start(lambda: clock.sleep(10), "other")
            other.join()
            seen.append((clock.monotonic(), other.is_alive()))

        world.scheduler.spawn(Process("p"), "main", main)
        world.scheduler.run()
    assert seen == [(4, True), (24, False), (34, False)]


def test_an_error_of_a_task_is_kept() -> None:
    world = SimulatedWorld(1)
    with clock.using(world):
        world.scheduler.spawn(Process("p"), "main", lambda: 1 / 0)
        world.scheduler.run()
    [(task, error)] = world.scheduler.errors
    assert task.name == "main"
    assert isinstance(error, ZeroDivisionError)


def test_an_empty_schedule_ends_at_once() -> None:
    Scheduler(random.Random(1)).run()
