"""Branches that have merged each other before: several bases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.lake.merge.conftest import Fork, row, update
from tests.lake.merge.test_multiset import Events, append, delete

import quire
from quire.testing import memory


def cross(fork: Fork, table: str = "t") -> None:
    """Merge each branch, as it was before, into the other: from now on both heads have two bases."""
    left = fork.lake.create_branch("left")
    fork.lake.merge("exp", resolve="ours")
    fork.exp.merge("left", resolve="ours")
    assert left.head


def test_what_was_merged_crosswise_is_no_conflict(fork: Fork) -> None:
    fork.ours(update("id = 1", a=1), update("id = 2", a=2))
    fork.theirs(update("id = 3", a=3), update("id = 2", b=2))
    cross(fork)
    fork.ours(update("id = 1", b=5), update("id = 4", a=4))
    fork.theirs(update("id = 3", b=6), lambda tx: tx["t"].insert([row(30)]), lambda tx: tx["t"].delete("id = 8"))
    plan = fork.lake.merge("exp", preview=True)
    assert len(plan.bases) == 2
    assert len(plan.conflicts) == 0
    plan.commit()
    found = fork.rows()
    assert [found[i] for i in (1, 2, 3, 4, 30)] == [(1, 5), (2, 2), (3, 6), (4, 40), (300, 300)]
    assert 8 not in found
    assert fork.lake.merge("exp").outcome == "up-to-date"


def test_a_cell_in_conflict_between_the_bases_has_no_base_value(fork: Fork) -> None:
    fork.ours(update("id = 1", a=1))
    fork.theirs(update("id = 1", a=2), update("id = 2", a=2))
    cross(fork)  # each keeps its own
    fork.ours(update("id = 3", a=3))
    plan = fork.lake.merge("exp", preview=True)
    assert len(plan.bases) == 2
    assert [(c.kind, c.key, c.columns) for c in plan.conflicts] == [("update-update", {"id": 1}, ("a",))]
    plan.resolve("t", 1, choose="theirs")
    plan.commit()
    found = fork.rows()
    assert [found[i][0] for i in (1, 2, 3)] == [2, 2, 3]


@pytest.fixture(params=["lance", "memory"])
def events(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Events]:
    memory.install()
    with quire.create(tmp_path / "lake", backfill=False) as lake:
        yield Events(lake, request.param)


def test_events_are_not_counted_twice(events: Any) -> None:
    events.ours(append("x"), delete("e = 'b'"))
    events.theirs(append("y"), delete("e = 'c'"))
    cross(events)
    events.ours(append("u"), delete("e = 'y'"))
    events.theirs(append("v"))
    assert len(events.lake.merge("exp", preview=True).bases) == 2
    events.lake.merge("exp")
    assert events.text() == "aaduvx"


def test_merging_again_and_again_reads_what_is_new(events: Any) -> None:
    for _ in range(3):
        events.ours(append("x"))
        events.theirs(append("y"))
        before = events.data_files()
        assert events.lake.merge("exp").outcome == "merged"
        assert events.data_files() == before
    assert events.text() == "aabcdxxxyyy"
