"""Many processes append to one table, and some of them are killed.

Every row that was acknowledged is there once, nobody meets a conflict, and nobody starves.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from benchmarks.commits.places import OPTIONS
from benchmarks.commits.wire import Wire
from tests.soak import crowd
from tests.soak.children import Children

from quire.testing.processes import context

LATENCY = 0.05
CROWDS = [
    (6, 2, 3),
    pytest.param(12, 4, 20, marks=pytest.mark.full),
    pytest.param(64, 8, 8, marks=pytest.mark.full),
]
"""How many finish, how many others are killed, and how many commits each makes."""
SLOWEST = 3.0
"""How many times as long as half of them the slowest may take."""
FEW = 6
"""So many are done in a few seconds, in which one that starts late is the slowest whatever its turns are."""


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("writers", "victims", "count"), CROWDS)
def test_of_processes_on_one_table_some_are_killed_and_nothing_is_lost_doubled_or_late(
    tmp_path: Path, writers: int, victims: int, count: int
) -> None:
    with Wire(None) as wire:
        place = crowd.Place("s3://lake/crowd", {**OPTIONS, "aws_endpoint": wire.endpoint}, str(tmp_path))
        crowd.create(place)
        with started(place, writers, victims, count) as (crew, doomed):
            wire.latency = LATENCY
            place.path("go").touch()
            kills = kill_until_done(place, writers, doomed)
            crew.join(60)
        assert crew.failed + doomed.failed == [], "an append met a conflict or another error, or never ended"
        wire.latency = 0
        check(place, writers, victims, count)

    assert kills >= 1
    took = sorted(float(place.path(f"done-{number}").read_text()) for number in range(writers))
    print(f"\n{writers} writers finished after {took[0]:.1f} to {took[-1]:.1f} s, half of them after", end=" ")
    print(f"{statistics.median(took):.1f} s; {kills} processes were killed")
    if writers > FEW:
        assert took[-1] <= SLOWEST * statistics.median(took), took


@contextmanager
def started(place: crowd.Place, writers: int, victims: int, count: int) -> Iterator[tuple[Children, Children]]:
    """Writers that will make so many commits, and others that go on until they are killed. All have opened the lake."""
    start = context("tests.soak.crowd")
    last = range(writers, writers + victims)
    with (
        Children(start, crowd.write, [(place, count)] * writers) as crew,
        Children(start, endless, [(writers, place)] * victims) as doomed,
    ):
        until = time.monotonic() + 300
        while not all(place.path(f"ready-{number}").exists() for number in (*range(writers), *last)):
            assert time.monotonic() < until, "not all of them come to open the lake"
            time.sleep(0.05)
        yield crew, doomed


def endless(number: int, writers: int, place: crowd.Place) -> None:
    """A writer whose number comes after those of the others."""
    crowd.write(writers + number, place, crowd.WITHOUT_END)


def kill_until_done(place: crowd.Place, writers: int, doomed: Children) -> int:
    """Kill and start again, one after the other, until all others have finished; how many were killed."""
    chance, kills = random.Random(), 0
    until = time.monotonic() + 900
    while not all(place.path(f"done-{number}").exists() for number in range(writers)):
        assert time.monotonic() < until, "a writer starves"
        time.sleep(chance.uniform(0.1, 1.0))
        number = chance.randrange(len(doomed))
        if crowd.told(place, writers + number):  # one that has not come to write proves nothing
            kills += doomed.kill(number)
            doomed.start(number)
    return kills


def check(place: crowd.Place, writers: int, victims: int, count: int) -> None:
    """What was acknowledged is there once, under its commit; the rest is of those that could not hear of it."""
    acknowledged = [crowd.told(place, number) for number in range(writers + victims)]
    assert [len(one) for one in acknowledged[:writers]] == [count] * writers
    commits = {marker: commit for one in acknowledged for marker, commit in one.items()}
    with place.open("afterwards") as lake:
        found = lake.snapshot()[crowd.TABLE].to_arrow()["marker"].to_pylist()
        assert len(found) == len(set(found)), "a row was written twice"
        assert commits.keys() <= set(found), "a row is lost"
        assert all(int(marker.partition(".")[0]) >= writers for marker in set(found) - commits.keys())
        messages = {commit.id: commit.message for commit in lake.log()}
        assert all(messages[commit] == marker for marker, commit in commits.items())
        shared = [commit for commit in messages if not commit.endswith(".0")]
        print(f"{len(found)} commits, {len(shared)} of them in the slot of another process")
        few = len(found) / 4 if writers > 6 else 1
        assert len(shared) >= few, "processes took too few of each other's commits along"
        assert lake.verify().ok
