"""Data files that both sides have, or that number their columns otherwise: rows are neither lost nor misread."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.lake.merge.conftest import Fork, delete, update

import quire


@pytest.mark.parametrize("into", ["main", "trial"])
def test_an_overwrite_that_numbers_the_columns_anew(fork: Fork, into: str) -> None:
    with fork.lake.transaction() as tx:
        tx["t"].add_columns({"c": "id * 100"})
        tx["t"].drop_columns(["a"])
    trial = fork.lake.create_branch("trial")
    with trial.transaction() as tx:
        tx["t"].overwrite([{"id": i, "b": 10 * i, "c": 7} for i in range(2, 4)])
    with fork.lake.transaction() as tx:
        tx["t"].insert([{"id": 20, "b": 200, "c": 2000}])
    target, source = (fork.lake, "trial") if into == "main" else (trial, "main")
    target.merge(source)
    found = sorted((r["id"], r["b"], r["c"]) for r in target["t"].to_pylist())
    assert found == [(2, 20, 7), (3, 30, 7), (20, 200, 2000)]


@pytest.mark.parametrize("optimized", [False, True])
@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_a_file_that_came_to_both_sides(fork: Fork, side: str, optimized: bool) -> None:
    fork.ours(update("id = 8", a=1))
    fork.theirs(update("id <= 2", a=5))
    fork.lake.merge("exp", mode="squash")
    fork.ours(update("id = 1", a=6))
    if optimized:
        fork.lake.optimize()
    fork.theirs(update("id = 3", a=4))
    plan = fork.lake.merge("exp", preview=True, resolve=side)
    assert [(c.kind, c.key) for c in plan.conflicts] == [("update-update", {"id": 1})]
    plan.commit()
    rows = fork.rows()
    assert [rows[i] for i in (1, 2, 3, 8)] == [(6 if side == "ours" else 5, 10), (5, 20), (4, 30), (1, 80)]
    assert len(rows) == 8


@pytest.mark.parametrize("changed", ["ours", "both"])
@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_a_row_that_a_restore_brought_back_at_its_place(fork: Fork, side: str, changed: str) -> None:
    before = fork.lake.head
    fork.ours(delete("id = 1"))
    fork.exp.merge("main", mode="ff-only")
    fork.lake.restore(before)
    if changed == "both":
        fork.ours(update("id = 2", a=0))
    fork.theirs(update("id = 3", a=0))
    target, source = (fork.lake, "exp") if side == "ours" else (fork.exp, "main")
    target.merge(source)
    assert sorted(r["id"] for r in target["t"].to_pylist()) == list(range(1, 9))


def test_an_index_here_and_an_overwrite_or_whole_tables_there(fork: Fork) -> None:
    with fork.lake.transaction() as tx:
        tx["t"].create_index("a")
    fork.theirs(update("id = 1", a=2))
    assert not len(fork.lake.merge("exp", preview=True, granularity="table").conflicts)
    fork.theirs(lambda tx: tx["t"].overwrite([{"id": 1, "a": 2, "b": 3}]))
    fork.lake.merge("exp", granularity="table")
    assert fork.rows() == {1: (2, 3)}


def test_upkeep_after_a_fast_forward_is_no_change(fork: Fork) -> None:
    fork.ours(update("id = 1", a=2))
    fork.exp.merge("main", mode="ff-only")
    fork.exp.optimize()
    with fork.lake.transaction() as tx:
        tx.drop_table("t")
    fork.exp.merge("main")
    assert fork.exp.tables() == ["other"]


def test_a_conflict_about_a_renamed_table_is_resolved_by_its_row(fork: Fork) -> None:
    fork.ours(update("id = 1", a=2))
    fork.theirs(update("id = 1", a=3), lambda tx: tx.rename_table("t", "u"))
    plan = fork.lake.merge("exp", preview=True, granularity="table")
    [told] = [{**c.to_dict(), "resolution": "theirs"} for c in plan.conflicts]
    assert plan.resolve([told]) == 1
    plan.commit()
    assert fork.rows("u")[1] == (3, 10)


def test_a_change_for_tasks_knows_a_file_that_has_another_number_on_the_other_branch(tmp_path: Path) -> None:
    with quire.create(tmp_path / "lake", backfill=False) as lake:
        lake.transact(lambda tx: tx.create_table("t", [{"id": i} for i in range(10)], key="id") and None)
        exp = lake.create_branch("exp")
        lake.transact(lambda tx: tx["t"].insert([{"id": 20}]) and None)
        exp.transact(lambda tx: tx["t"].insert([{"id": 30}]) and None)
        lake.merge("exp")
        states = [branch._live.state.by_name("t") for branch in (exp, lake)]
        pins = [state.pin for state in states if state is not None]
        changed = lake._core.format("lance").changed(*pins)
        told = [(new, batch.to_pylist()) for part in range(len(changed.rows)) for new, batch in changed.read(part)]
        assert told == [(True, [{"id": 20}])]
