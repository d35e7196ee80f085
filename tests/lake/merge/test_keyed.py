"""Rows of keyed tables, merged by cell: what is clean, what is a conflict, how it is resolved."""

from __future__ import annotations

from typing import Any

import pytest
from tests.lake.merge.conftest import Fork, delete, insert, row, update

import quire
from quire.errors import InvalidInput, NotFastForward, UnresolvedConflicts

BASE = {i: (10 * i, 10 * i) for i in range(1, 9)}


def changed(**more: Any) -> dict[int, tuple[Any, ...]]:
    found = {**BASE, **{int(k[1:]): v for k, v in more.items()}}
    return {k: v for k, v in sorted(found.items()) if v is not None}


def test_apart_and_together(fork: Fork) -> None:
    fork.ours(update("id = 1", a=-1), delete("id = 2"), insert(row(20)), update("id = 7", a=7))
    fork.theirs(update("id = 3", b=-3), delete("id = 5"), insert(row(30)), update("id = 7", a=7))
    plan = fork.lake.merge("exp", preview=True)
    assert (plan.outcome, plan.bases, len(plan.conflicts)) == ("merged", ["2.0"], 0)
    assert [(t["table"], t["action"]) for t in plan.tables] == [("t", "merge")]
    before, head = fork.data_files(), fork.lake.refresh()
    assert fork.lake.head == head
    receipt = plan.commit()
    assert receipt.outcome == "merged"
    assert fork.data_files() == before, "a clean merge writes no data file"
    assert fork.rows() == changed(
        _1=(-1, 10), _2=None, _3=(30, -3), _5=None, _7=(7, 70), _20=(200, 200), _30=(300, 300)
    )
    assert fork.lake["t"].count() == 8
    [entry] = fork.lake.log(1)
    assert len(entry.parents) == 2
    assert fork.lake.merge("exp").outcome == "up-to-date"
    assert fork.lake.show(entry.id).message == "merge exp at 6.0"


def test_cells_of_one_row_come_from_both(fork: Fork) -> None:
    fork.ours(update("id = 1", a=-1))
    fork.theirs(update("id = 1", b=-2), update("id = 2", a=5))
    assert fork.lake.merge("exp").commit is not None
    assert fork.rows() == changed(_1=(-1, -2), _2=(5, 20))


def test_a_row_that_was_written_again_as_it_was_goes_beside_a_file_that_was_replaced(fork: Fork) -> None:
    fork.ours(update("id >= 5", a=0), update("id = 1", a=10))
    fork.theirs(delete("id = 1"))
    fork.lake.merge("exp")
    assert fork.rows() == changed(_1=None, _5=(0, 50), _6=(0, 60), _7=(0, 70), _8=(0, 80))


@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_conflicts_are_rows_and_a_side_resolves_them(fork: Fork, side: Any) -> None:
    fork.ours(update("id = 1", a=-1, b=-1), delete("id = 2"), insert(row(20, 1)), update("id = 3", a=9), delete("id=4"))
    fork.theirs(update("id = 1", a=-2), update("id = 2", a=3), insert(row(20, 2)), delete("id = 3"), delete("id=4"))
    with pytest.raises(UnresolvedConflicts) as refused:
        fork.lake.merge("exp")
    assert refused.value.counts == {"delete-update": 2, "insert-insert": 1, "update-update": 1}
    assert refused.value.exit_code == 4
    head = fork.lake.refresh()
    plan = fork.lake.merge("exp", preview=True)
    found = {(c.kind, c.key["id"]): c for c in plan.conflicts if c.key}
    one = found["update-update", 1]
    assert (one.columns, one.base, one.ours, one.theirs) == (
        ("a",),
        row(1),
        row(1, -1, -1),
        row(1, -2),
    )
    two = found["delete-update", 2]
    assert (two.ours, two.theirs, two.ours_op, two.theirs_op, two.columns) == (
        None,
        row(2, 3),
        "delete",
        "update",
        ("a",),
    )
    assert found["insert-insert", 20].base is None
    assert found["insert-insert", 20].columns == ("a",)
    assert fork.lake.refresh() == head
    fork.lake.merge("exp", resolve=side)
    if side == "ours":
        assert fork.rows() == changed(_1=(-1, -1), _2=None, _3=(9, 30), _4=None, _20=(1, 200))
    else:
        assert fork.rows() == changed(_1=(-2, -1), _2=(3, 20), _3=None, _4=None, _20=(2, 200))


def test_resolving_by_hand_by_column_and_by_function(fork: Fork) -> None:
    fork.ours(update("id <= 4", a=1, b=1))
    fork.theirs(update("id <= 4", a=2, b=2))
    plan = fork.lake.merge("exp", preview=True)
    assert len(plan.conflicts.open) == 4
    assert plan.resolve("t", 1, choose="theirs") == 1
    assert plan.resolve("t", {"id": 2}, values={"a": 5, "b": 6}) == 1
    assert plan.resolve("t", 3, choose="delete") == 1
    with pytest.raises(InvalidInput, match="in conflict"):
        plan.resolve("t", 4, values={"a": 5})
    with pytest.raises(InvalidInput):
        plan.resolve("t", 4, values={"a": 5, "b": 5, "c": 5})
    with pytest.raises(UnresolvedConflicts):
        plan.commit()
    rows = plan.sql("select key, resolution from conflicts order by key").to_pylist()
    assert rows[0] == {"key": '{"id": 1}', "resolution": "theirs"}
    edited = [c.to_dict() for c in plan.conflicts.open]
    again = fork.lake.merge("exp", preview=True, resolve={"t": {"a": "max", "b": lambda base, o, t: base + o + t}})
    assert not again.conflicts.open
    assert again.conflicts[3].merged == row(4, 2, 43)
    edited[0].update(resolution="values", merged={"id": 4, "a": 7, "b": 8})
    assert plan.resolve(edited) == 1
    assert plan.resolve([{**edited[0], "fingerprint": "x"}]) == 0
    assert len(plan.stale) == 1
    plan.commit("by hand")
    assert fork.rows() == changed(_1=(2, 2), _2=(5, 6), _3=None, _4=(7, 8))
    assert fork.lake.log()[0].message == "by hand"


def test_a_function_of_the_conflict(fork: Fork) -> None:
    fork.ours(update("id <= 4", a=1))
    fork.theirs(update("id <= 4", a=2))

    def decide(conflict: Any) -> Any:
        return {1: "ours", 2: "delete", 3: {"a": 99}, 4: None}[conflict.key["id"]]

    plan = fork.lake.merge("exp", preview=True, resolve={"*": decide})
    assert [c.key for c in plan.conflicts.open if c.key] == [{"id": 4}]
    plan.resolve("t", 4, choose="theirs")
    plan.commit()
    assert fork.rows() == changed(_1=(1, 10), _2=None, _3=(99, 30), _4=(2, 40))


def test_rows_whole_tables_and_groups(fork: Fork) -> None:
    fork.ours(update("id = 1", a=1))
    fork.theirs(update("id = 1", b=2))
    assert len(fork.lake.merge("exp", preview=True).conflicts) == 0
    by_row = fork.lake.merge("exp", preview=True, granularity="row")
    assert by_row.conflicts[0].columns == ("a", "b")
    grouped = fork.lake.merge("exp", preview=True, groups={"t": [("a", "b")]})
    assert grouped.conflicts[0].columns == ("a", "b")
    whole = fork.lake.merge("exp", preview=True, granularity={"t": "table"})
    assert [c.key for c in whole.conflicts] == [None]
    assert whole.resolve("t", choose="theirs") == 1
    whole.commit()
    assert fork.rows() == changed(_1=(10, 2))


def test_a_rival_is_planned_for(fork: Fork) -> None:
    fork.ours(update("id = 1", a=1))
    fork.theirs(update("id = 1", a=2), update("id = 2", a=2))
    plan = fork.lake.merge("exp", preview=True)
    plan.resolve("t", 1, choose="theirs")
    with quire.open(fork.lake.uri) as rival, rival.transaction() as tx:
        tx["other"].insert([{"id": 2, "v": 2}])
        tx["t"].update(values={"a": 3}, where="id = 3")
    plan.commit()
    assert fork.rows() == changed(_1=(2, 10), _2=(2, 20), _3=(3, 30))
    assert set(fork.rows("other")) == {1, 2}


def test_a_resolution_that_does_not_fit_any_more_is_not_applied(fork: Fork) -> None:
    fork.ours(update("id = 1", a=1))
    fork.theirs(update("id = 1", a=2))
    plan = fork.lake.merge("exp", preview=True)
    plan.resolve("t", 1, choose="theirs")
    with quire.open(fork.lake.uri) as rival, rival.transaction() as tx:
        tx["t"].update(values={"a": 3}, where="id = 1")
    with pytest.raises(UnresolvedConflicts):
        plan.commit()
    assert [c.key for c in plan.stale] == [{"id": 1}]
    assert [c.ours for c in plan.conflicts.open] == [row(1, 3)]
    assert fork.rows() == changed(_1=(3, 10))


def test_modes(fork: Fork) -> None:
    fork.theirs(update("id = 1", a=2))
    assert fork.lake.merge("exp", preview=True).outcome == "fast-forward"
    assert fork.lake.merge("exp", mode="ff-only").outcome == "fast-forward"
    assert fork.lake.merge("exp").outcome == "up-to-date"
    assert fork.exp.merge("main").outcome == "up-to-date"
    fork.theirs(update("id = 2", a=2))
    receipt = fork.lake.merge("exp", mode="no-ff")
    assert (receipt.outcome, receipt.adopted) == ("merged", None)
    assert fork.rows() == changed(_1=(2, 10), _2=(2, 20))
    assert fork.exp.merge("main").outcome == "fast-forward"
    fork.ours(update("id = 3", a=2))
    fork.theirs(update("id = 4", a=2))
    with pytest.raises(NotFastForward):
        fork.lake.merge("exp", mode="ff-only")
    squashed = fork.lake.merge("exp", mode="squash", message="one")
    assert squashed.outcome == "merged"
    assert len(fork.lake.log()[0].parents) == 1
    assert fork.lake.merge("exp", preview=True).outcome == "merged"
    assert fork.rows() == changed(_1=(2, 10), _2=(2, 20), _3=(2, 30), _4=(2, 40))


def test_a_merge_goes_on_from_the_last_one(fork: Fork) -> None:
    for n in range(1, 4):
        fork.ours(update(f"id = {n}", a=n))
        fork.theirs(update(f"id = {n + 4}", a=n))
        fork.lake.merge("exp")
    fork.exp.merge("main")
    fork.theirs(delete("id = 1"))
    fork.lake.merge("exp")
    assert fork.rows() == changed(_1=None, _2=(2, 20), _3=(3, 30), _5=(1, 50), _6=(2, 60), _7=(3, 70))


def test_tokens_come_along(fork: Fork) -> None:
    with fork.exp.transaction(token=quire.StreamToken("feed", 1)) as tx:
        tx["t"].insert([row(9)])
    fork.ours(update("id = 1", a=1))
    fork.lake.merge("exp")
    with fork.lake.transaction(token=quire.StreamToken("feed", 1)) as tx:
        tx["t"].delete("true")
    assert tx.receipt.repeated
    assert len(fork.rows()) == 9


def test_a_merge_is_idempotent_by_token(fork: Fork) -> None:
    fork.ours(update("id = 1", a=1))
    fork.theirs(update("id = 2", a=1))
    first = fork.lake.merge("exp", token=quire.StreamToken("merges", 1))
    fork.theirs(update("id = 3", a=1))
    again = fork.lake.merge("exp", token=quire.StreamToken("merges", 1))
    assert again.repeated
    assert again.commit == first.commit


@pytest.mark.parametrize("who", ["ours", "theirs", "both"])
def test_a_merge_after_optimize_equals_one_without(fork: Fork, who: str) -> None:
    fork.ours(update("id = 1", a=1, b=1), delete("id = 2"), insert(row(20)), update("id = 5", a=3))
    fork.theirs(update("id = 1", a=2), delete("id = 6"), insert(row(30)), update("id = 5", b=4))
    expected = changed(_1=(2, 1), _2=None, _5=(3, 4), _6=None, _20=(200, 200), _30=(300, 300))
    if who in ("ours", "both"):
        fork.lake.optimize()
    if who in ("theirs", "both"):
        fork.exp.optimize()
    plan = fork.lake.merge("exp", preview=True)
    assert [(c.kind, c.key) for c in plan.conflicts] == [("update-update", {"id": 1})]
    plan.resolve("t", choose="theirs")
    plan.commit()
    assert fork.rows() == expected
    fork.ours(update("id = 30", a=0))
    assert fork.rows()[30] == (0, 300)


def test_only_optimized_counts_as_unchanged(fork: Fork) -> None:
    fork.lake.optimize()
    fork.theirs(update("id = 1", a=2))
    assert fork.lake.merge("exp").outcome == "merged"
    assert fork.rows() == changed(_1=(2, 10))


def test_another_branch_is_the_target(fork: Fork) -> None:
    fork.ours(update("id = 1", a=1))
    fork.theirs(update("id = 2", a=1))
    receipt = fork.lake.merge("main", into="exp")
    assert receipt.branch == "exp"
    assert fork.exp["t"].count("a = 1") == 2
    assert fork.lake["t"].count("a = 1") == 1
    with pytest.raises(InvalidInput, match="itself"):
        fork.lake.merge("main")


def test_a_conflict_names_the_commits_that_touched_its_row(fork: Fork) -> None:
    fork.ours(update("id = 1", a=1), update("id in (2, 3)", a=2))
    fork.lake.transact(lambda tx: tx["t"].upsert([row(4, 4)]) and None)
    fork.lake.optimize(target_rows=100)
    fork.ours(delete("id = 5"), insert(row(30)))
    fork.theirs(
        update("id <= 3", a=7), delete("id = 4"), update("id = 2", a=8), update("id = 5", a=9), insert(row(30, 1))
    )
    ours, theirs = ([c.id for c in lake.log()][::-1] for lake in (fork.lake, fork.exp))
    first = ours.index(fork.lake.merge("exp", preview=True).bases[0]) + 1
    mine, its = ours[first:], theirs[first:]
    told = {c.key["id"]: (c.ours_commit, c.theirs_commit) for c in fork.lake.merge("exp", preview=True).conflicts}
    assert told == {
        1: (mine[0], its[0]),
        2: (mine[1], its[2]),
        3: (mine[1], its[0]),
        4: (mine[2], its[1]),
        5: (mine[-2], its[3]),
        30: (mine[-1], its[4]),
    }
