"""Back-pressure: when upkeep lags behind, writers are slowed and told why. Nobody is refused."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import pytest

import quire
from quire.lake.commit.back_pressure import BOUNDS, LONGEST, Bounds
from quire.lake.receipt import Receipt
from quire.store import clock


class Slept(clock.World):
    """A clock that only moves on when somebody sleeps, or is told to."""

    def __init__(self) -> None:
        self.time = clock.World().monotonic()
        self.naps: list[float] = []

    def monotonic(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.time += seconds


@pytest.fixture
def world() -> Iterator[Slept]:
    with clock.using(Slept()) as world:
        assert isinstance(world, Slept)
        yield world


@pytest.fixture
def lake(tmp_path: Path, world: Slept) -> Iterator[quire.Lake]:
    """A lake with tables `t` and `other`, in one fragment each, all of it backfilled."""
    with quire.create(str(tmp_path / "lake"), backfill=False) as lake:
        lake.create_table("t", [{"id": 0}])
        lake.create_table("other", [{"id": 0}])
        lake.recover()
        yield lake


def bound(lake: quire.Lake, **bounds: int) -> None:
    lake._core.bounds = replace(BOUNDS, **bounds)


def append(lake: quire.Lake, table: str = "t", times: int = 1, **options: Any) -> Receipt:
    for _ in range(times):
        with lake.transaction("append", **options) as tx:
            tx[table].append([{"id": 1}])
    assert tx.receipt is not None
    assert tx.receipt.commit is not None
    return tx.receipt


def reasons(receipt: Receipt) -> tuple[str, ...]:
    assert receipt.slowed is not None
    return receipt.slowed.reasons


# -- the three bounds -------------------------------------------------------------------------------------------------


def test_small_fragments_slow_the_next_commit_and_the_receipt_says_why(lake: quire.Lake, world: Slept) -> None:
    bound(lake, small_fragments=2)
    assert append(lake, times=3).slowed is None  # it met 2 of at most 2
    assert world.naps == []

    receipt = append(lake)

    assert reasons(receipt) == ("3 small fragments of table 't', more than 2: run `quire optimize`",)
    assert receipt.slowed is not None
    assert world.naps == [receipt.slowed.seconds]
    assert 0 < receipt.slowed.seconds < LONGEST
    assert receipt.to_dict()["slowed"] == {"seconds": world.naps[0], "reasons": list(reasons(receipt))}
    assert lake["t"].count() == 5


def test_versions_that_plain_readers_do_not_see_slow_the_next_commit(lake: quire.Lake, world: Slept) -> None:
    bound(lake, unbackfilled=2)
    assert append(lake, times=3).slowed is None
    assert reasons(append(lake)) == ("3 unbackfilled of table 't', more than 2: run `quire recover`",)
    assert len(world.naps) == 1
    lake.recover()
    assert append(lake).slowed is None


def test_commits_without_a_checkpoint_slow_the_next_commit(lake: quire.Lake, world: Slept) -> None:
    behind = lake.status()["uncheckpointed"]
    bound(lake, uncheckpointed=behind)
    assert append(lake).slowed is None
    told = (f"{behind + 1} uncheckpointed of branch 'main', more than {behind}: run `quire optimize`",)
    assert reasons(append(lake)) == told
    lake.optimize()
    assert append(lake).slowed is None


def test_all_reasons_are_told_and_the_commit_waits_once(lake: quire.Lake, world: Slept) -> None:
    bound(lake, small_fragments=1, unbackfilled=1, uncheckpointed=1)
    append(lake, times=2)
    world.naps.clear()
    told = reasons(append(lake))
    assert [reason.split(" of ")[0].split(" ", 1)[1] for reason in told] == [
        "small fragments",
        "unbackfilled",
        "uncheckpointed",
    ]
    assert len(world.naps) == 1


# -- who waits, and how long ------------------------------------------------------------------------------------------


def test_the_delay_grows_with_the_excess_up_to_a_limit(lake: quire.Lake, world: Slept) -> None:
    bound(lake, small_fragments=1)
    append(lake, times=16)
    assert world.naps == sorted(world.naps)
    assert world.naps[0] < world.naps[-1] == LONGEST


def test_only_writers_of_that_table_wait(lake: quire.Lake, world: Slept) -> None:
    bound(lake, small_fragments=2, unbackfilled=2)
    append(lake, times=3)
    assert append(lake, "other").slowed is None
    assert world.naps == []
    with lake.transaction("both") as tx:
        tx["other"].append([{"id": 2}])
        tx["t"].append([{"id": 2}])
    assert tx.receipt is not None
    assert all("'t'" in reason for reason in reasons(tx.receipt))


def test_nothing_to_commit_waits_for_nothing(lake: quire.Lake, world: Slept) -> None:
    bound(lake, small_fragments=2)
    append(lake, times=3)
    with lake.transaction("nothing") as tx:
        tx["t"].delete("id = 99")
    with lake.transaction("reads") as tx:
        tx["t"].count()
    assert world.naps == []


def test_optimize_is_not_slowed_and_ends_the_slowness(lake: quire.Lake, world: Slept) -> None:
    bound(lake, small_fragments=2, uncheckpointed=2)
    append(lake, times=3)
    world.naps.clear()
    assert lake.optimize()["t"].outcome == "optimized"
    assert world.naps == []
    assert append(lake).slowed is None
    assert lake["t"].count() == 5


def test_a_deadline_is_kept(lake: quire.Lake, world: Slept) -> None:
    bound(lake, small_fragments=1)
    append(lake, times=12)
    assert world.naps[-1] == LONGEST
    receipt = append(lake, timeout=0.5)
    assert receipt.slowed is not None
    assert receipt.slowed.seconds == pytest.approx(0.25)


def test_a_table_that_a_plain_writer_blocks_is_nothing_to_wait_for(lake: quire.Lake, world: Slept) -> None:
    """Waiting would not help: no backfill can bring it on until somebody adopts the plain write."""
    location = os.path.join(lake.uri, lake["t"].describe()["location"])
    lance.write_dataset([{"id": 500}], location, mode="append")
    bound(lake, unbackfilled=1)
    append(lake, times=2)
    assert [p.outcome for p in lake.backfill() if p.table == "t"] == ["foreign"]
    assert append(lake).slowed is None


def test_a_branch_is_not_slowed_for_what_only_main_is_backfilled(lake: quire.Lake, world: Slept) -> None:
    bound(lake, unbackfilled=1)
    side = lake.create_branch("side")
    assert append(side, times=4).slowed is None


def test_a_backfill_by_another_process_is_noticed(lake: quire.Lake, world: Slept) -> None:
    """What this process knows of plain heads may be old: it looks before it waits."""
    bound(lake, unbackfilled=2)
    append(lake, times=3)
    with quire.open(lake.uri, backfill=False) as other:
        other.recover()
    assert append(lake).slowed is None
    assert world.naps == []


# -- who is told ------------------------------------------------------------------------------------------------------


def test_the_log_is_told_once_a_minute(lake: quire.Lake, world: Slept, caplog: pytest.LogCaptureFixture) -> None:
    bound(lake, small_fragments=1)
    with caplog.at_level(logging.WARNING, logger="quire"):
        append(lake, times=2)
        assert caplog.messages == []
        append(lake)
        [told] = caplog.messages
        assert "'main'" in told
        assert "small fragments of table 't', more than 1: run `quire optimize`" in told
        append(lake, times=3)
        world.time += 50
        append(lake)
        assert len(caplog.messages) == 1
        world.time += 60
        append(lake)
        assert len(caplog.messages) == 2


def test_the_status_shows_every_bound_and_where_the_load_is(lake: quire.Lake) -> None:
    lake._core.bounds = Bounds(small_fragments=7, unbackfilled=8, uncheckpointed=9)
    append(lake, times=3)
    load = lake.status()["load"]
    assert load["small_fragments"] == {"now": 3, "bound": 7, "table": "t"}
    assert load["unbackfilled"] == {"now": 3, "bound": 8, "table": "t"}
    assert load["uncheckpointed"] == {"now": lake.status()["uncheckpointed"], "bound": 9, "table": None}


def test_the_bounds_are_far_from_ordinary_work() -> None:
    assert BOUNDS.to_dict() == {"small_fragments": 1000, "unbackfilled": 1000, "uncheckpointed": 256}
