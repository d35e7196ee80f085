"""Cherry-pick and revert: the merge of what one commit did, or of what it took away."""

from __future__ import annotations

import pytest
from tests.lake.merge.conftest import Fork, delete, insert, row, update
from tests.lake.merge.test_keyed import changed

from quire.errors import Conflict, InvalidInput, UnresolvedConflicts


def test_one_commit_of_another_branch_is_done_here_too(fork: Fork) -> None:
    fork.theirs(update("id = 1", a=1), update("id = 2", a=2), insert(row(30)))
    fork.ours(update("id = 3", a=3), update("id = 2", b=5))
    receipt = fork.lake.cherry_pick("exp:4.0")
    assert fork.rows() == changed(_2=(2, 5), _3=(3, 30))
    entry = fork.lake.show(str(receipt.commit))
    assert (entry.message, len(entry.parents)) == ("cherry-pick exp:4.0", 1)
    assert fork.lake.cherry_pick("exp:4.0").commit is None
    fork.lake.cherry_pick("exp:5.0", "thirty")
    assert fork.lake.merge("exp").outcome == "merged"
    assert fork.rows() == changed(_1=(1, 10), _2=(2, 5), _3=(3, 30), _30=(300, 300))


def test_a_pick_may_be_in_conflict(fork: Fork) -> None:
    fork.theirs(update("id = 1", a=1))
    fork.ours(update("id = 1", a=3))
    with pytest.raises(UnresolvedConflicts):
        fork.lake.cherry_pick("exp:3.0")
    plan = fork.lake.cherry_pick("exp:3.0", preview=True)
    assert [c.columns for c in plan.conflicts] == [("a",)]
    fork.lake.cherry_pick("exp:3.0", resolve="theirs")
    assert fork.rows() == changed(_1=(1, 10))
    with pytest.raises(InvalidInput, match="1 parent"):
        fork.lake.cherry_pick("exp:3.0", parent=2)
    with pytest.raises(InvalidInput, match="no parent"):
        fork.lake.cherry_pick("0.0")


def test_a_merge_is_reverted_and_the_revert_too(fork: Fork) -> None:
    fork.ours(update("id = 1", a=1), delete("id = 2"))
    fork.theirs(update("id = 1", b=2), update("id = 5", a=5), insert(row(30)), delete("id = 8"))
    before = fork.rows()
    merged = fork.lake.merge("exp")
    after = fork.rows()
    reverted = fork.lake.revert(str(merged.commit))
    assert fork.rows() == before
    assert fork.lake.log()[0].reverts == merged.commit
    assert fork.lake.merge("exp").outcome == "up-to-date"
    fork.ours(update("id = 3", a=3))
    fork.lake.revert(str(reverted.commit))
    assert fork.rows() == {**after, 3: (3, 30)}


def test_the_other_parent_of_a_merge(fork: Fork) -> None:
    fork.ours(update("id = 1", a=1))
    fork.theirs(update("id = 2", a=2))
    merged = fork.lake.merge("exp")
    fork.lake.revert(str(merged.commit), parent=2)
    assert fork.rows() == changed(_2=(2, 20))


def test_revert_works_after_optimize_and_other_changes(fork: Fork) -> None:
    fork.ours(update("id <= 2", a=0))
    mistake = fork.lake.head
    fork.ours(update("id = 5", a=5), insert(row(30)))
    fork.lake.optimize()
    fork.ours(update("id = 6", a=6))
    fork.lake.revert(mistake)
    assert fork.rows() == changed(_5=(5, 50), _6=(6, 60), _30=(300, 300))
    assert fork.lake.log()[0].reverts == mistake
    with pytest.raises(Conflict, match="already reverted"):
        fork.lake.revert(mistake)


def test_rows_that_were_changed_again_are_resolved(fork: Fork) -> None:
    fork.ours(update("id <= 2", a=0))
    mistake = fork.lake.head
    fork.ours(update("id = 1", a=7))
    with pytest.raises(Conflict):
        fork.lake.revert(mistake)
    plan = fork.lake.revert(mistake, preview=True)
    assert [c.key for c in plan.conflicts] == [{"id": 1}]
    fork.lake.revert(mistake, resolve="ours")
    assert fork.rows() == changed(_1=(7, 10))
