"""The plan of a cleanup: made by reading alone, and what a run goes by."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from tests.lake.upkeep.cleanup.test_cleanup import NOW, age, files, write

import quire
from quire.lake.upkeep.cleanup.plan import Plan, Planner, folder_of
from quire.lake.upkeep.cleanup.retained import Retention
from quire.store import clock

ZERO = timedelta(0)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[quire.Lake]:
    with quire.create(tmp_path / "lake") as lake:
        lake.create_table("t", [{"id": 0, "v": 0}], key="id")
        for i in range(1, 6):
            write(lake, i, 0)
        lake.tag("kept", at="2.0")
        lake.flush()
        lake.close()
        age(lake.uri)
    with quire.open(tmp_path / "lake") as lake:
        yield lake


def planned(lake: quire.Lake, keep: int = 1) -> tuple[Planner, Plan]:
    planner = Planner(lake, Retention(keep, ZERO, ZERO), lambda what, done, total: None)
    return planner, planner.first(clock.now())


def test_a_plan_names_what_a_run_deletes_and_changes_nothing(lake: quire.Lake) -> None:
    before = files(lake.uri, ".")
    _, plan = planned(lake)
    assert files(lake.uri, ".") == before
    assert list(plan.floors.values()) == [6]
    assert plan.kept.states == 2
    assert plan.needs_floors
    done = lake.cleanup(**NOW)
    assert {entry.key for entry in plan.files} == files(lake.uri).keys() ^ {n for n in before if n.startswith("tables")}
    assert sum(entry.size for entry in plan.files) == done.bytes > 0
    assert done.floors == {"main": 6}


def test_a_tag_that_was_removed_lately_still_counts(lake: quire.Lake) -> None:
    _, plan = planned(lake)
    lake.delete_tag("kept")
    _, later = planned(lake)
    # A tag that was removed lately counts as still there.
    assert [e.key for e in later.files] == [e.key for e in plan.files]


def test_the_second_plan_spares_what_was_protected_after_the_first(lake: quire.Lake) -> None:
    planner, plan = planned(lake)
    with lake.at(commit="4.0").lease():
        second = planner.with_files(planner.second(plan))
        assert {e.key for e in second.files} < {e.key for e in plan.files}
        assert second.kept.states == plan.kept.states + 1
        assert second.floors == plan.floors


def test_a_table_that_is_left_alone_keeps_its_files(lake: quire.Lake) -> None:
    _, plan = planned(lake)
    [folder] = {folder_of(entry) for entry in plan.files}
    spared = plan.sparing({folder: ("t", "its plain HEAD is behind")})
    assert spared.files == []
    assert spared.skipped == {"t": "its plain HEAD is behind"}


def test_a_lake_from_which_nothing_goes_needs_no_floor(lake: quire.Lake) -> None:
    _, plan = planned(lake, keep=100)
    assert not plan.files
    assert not plan.needs_floors
