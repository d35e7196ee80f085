"""What a head descends from, over branches that were taken over, in lakes of every format."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.lakes import make

import quire
from quire.lake.branch.lineage import merge_bases, vector_of
from quire.ledger import Point
from quire.ledger.version_vector import contains

OLD = ["format-1", "format-2", "format-3"]


def head(lake: quire.Lake) -> Point:
    return lake._live.state.head


def write(lake: quire.Lake, number: int) -> Point:
    with lake.transaction() as tx:
        tx["t"].append([{"id": number}])
    return head(lake)


@pytest.fixture
def lake(tmp_path: Path) -> quire.Lake:
    lake = quire.create(tmp_path / "lake")
    lake.create_table("t", [{"id": 1}])
    return lake


def bases(a: quire.Lake, b: quire.Lake) -> list[Point]:
    a.refresh(), b.refresh()
    return merge_bases(a._core, (a._live.line, a._live.state), (b._live.line, b._live.state))


def test_the_base_of_two_branches_is_where_they_parted(lake: quire.Lake) -> None:
    start = head(lake)
    exp = lake.create_branch("exp")
    nested = exp.create_branch("nested")
    assert bases(lake, exp) == bases(nested, lake) == [start]
    there = write(exp, 2)
    later = exp.create_branch("later")
    write(lake, 3), write(exp, 4), write(later, 5)
    assert bases(lake, exp) == bases(later, lake) == [start]
    assert bases(later, exp) == bases(exp, later) == [there]


def test_a_branch_that_was_taken_over_is_an_ancestor(lake: quire.Lake) -> None:
    exp = lake.create_branch("exp")
    taken = write(exp, 2)
    lake.fast_forward("exp")
    assert bases(lake, exp) == [taken]
    write(lake, 3), write(exp, 4)
    assert bases(exp, lake) == [taken]
    cold = quire.open(lake.uri)
    assert bases(cold, cold.branch("exp")) == [taken]
    other = lake.create_branch("other")
    assert contains(vector_of(other._core, other._live.line, other._live.state), taken)


def test_bases_cost_no_request_where_there_is_one_candidate(lake: quire.Lake) -> None:
    exp = lake.create_branch("exp")
    write(lake, 2), write(exp, 3)
    core = lake._core
    from quire.store import Meter, attached

    meter = Meter()
    with attached(meter):
        assert len(merge_bases(core, (lake._live.line, lake._live.state), (exp._live.line, exp._live.state))) == 1
    assert meter.to_dict()["requests"] == {}


@pytest.mark.parametrize("name", OLD)
def test_older_lakes_are_read_and_told_with_the_next_join(name: str, tmp_path: Path) -> None:
    with tarfile.open(Path(make.__file__).parent / name / "lake.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    lake = quire.open(tmp_path / "lake")
    live = lake._live
    joins = [(at, parent) for at, c in live.history.commits(live.state) for parent in c.parents[1:]]
    assert joins, "the fixture holds a fast-forward"
    vector = vector_of(lake._core, live.line, live.state)
    assert all(contains(vector, parent) for _, parent in joins)

    exp = lake.create_branch("joined-later")
    with exp.transaction() as tx:
        tx.create_table("new", [{"id": 1}])
    lake.fast_forward("joined-later")
    told = live.state.vector
    assert told is not None
    assert contains(told, exp._live.state.head)
    assert told == vector_of(lake._core, live.line, live.state) == {**vector, **told}
    lake.close()
    assert lake.verify().findings == []


def test_a_diff_since_the_base_is_what_one_side_did(lake: quire.Lake) -> None:
    exp = lake.create_branch("exp")
    write(lake, 2), write(exp, 3), write(exp, 4)

    def ids(diff: Any) -> tuple[list[int], ...]:
        rows = diff["t"].rows
        return tuple(sorted(part.column("id").to_pylist()) for part in (rows.added, rows.removed))

    assert ids(lake.diff("main", "exp")) == ([3, 4], [2])
    assert ids(lake.diff("main", "exp", since_base=True)) == ([3, 4], [])
    assert ids(lake.diff("exp", "main", since_base=True)) == ([2], [])
    lake.create_branch("next", at="exp")
    assert list(lake.diff("next", "exp", since_base=True)) == []
