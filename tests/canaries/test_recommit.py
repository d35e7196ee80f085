"""What happens when an operation staged on one base is committed again on the version of a winner.

A detached commit looks for no conflicts, so most of these are accepted and wrong. They are the reason why Quire rebases
by its own rules: the same operation again only for a pure append, or when no fragment it names was touched.

When a test of a wrong result fails, look at what Lance does now. An error is good news: the rules may lean on it as a
second line of defence. A right result is good news too, but the rules stay until every case here is right.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation, Transaction
from lance.commit import CommitConflictError
from lance.fragment import FragmentMetadata
from lance.optimize import Compaction

from .conftest import append, create, delete, fragment_ids, ids, index, overwrite, records, rows, stage, upsert


def test_recommitted_delete_resurrects_the_winners_deleted_row(uri: str) -> None:
    """Deletes of one fragment are rebased by the union of their deletion vectors, never as they are.

    When it fails: see the top of this file; [2] means that Lance makes the union itself.
    """
    base = create(uri, 0, 1, 2)
    mine = delete(base, 0, 1)
    winner = stage(base, delete(base, 0, 0))
    assert ids(winner) == [1, 2]
    assert ids(stage(winner, mine)) == [0, 2]


def test_delete_made_on_the_winner_is_the_union(uri: str) -> None:
    """The right rebase of a delete: offsets do not move, so the same offsets on the winner's fragment give the union.

    When it fails: offsets or deletion vectors changed their meaning; every delete that meets another one must replay.
    """
    base = create(uri, 0, 1, 2)
    winner = stage(base, delete(base, 0, 0))
    assert ids(stage(winner, delete(winner, 0, 1))) == [2]


def test_recommitted_upsert_duplicates_the_winners_key(uri: str) -> None:
    """Upserts that touched one fragment are rebased with merged deletion vectors, or replayed.

    When it fails: see the top of this file; key 0 must be there once, with the winner's value.
    """
    base = create(uri, 0, 1, 2)
    mine = upsert(base, pa.table({"id": [1], "v": [-1]}))
    winner = stage(base, upsert(base, pa.table({"id": [0], "v": [-2]})))
    assert records(winner) == [{"id": 0, "v": -2}, {"id": 1, "v": 10}, {"id": 2, "v": 20}]
    content = [(row["id"], row["v"]) for row in stage(winner, mine).to_table().to_pylist()]
    assert sorted(content) == [(0, -2), (0, 0), (1, -1), (2, 20)]


def test_recommitted_index_over_own_rows_answers_wrong(uri: str) -> None:
    """An index over fragments of the same transaction is rebuilt or dropped: an append is renumbered when rebased.

    When it fails: see the top of this file; the right answers are [50] and [70].
    """
    base = create(uri, 0, 1)
    mine = append(base, 50)
    staged = stage(base, mine)
    indexed = LanceOperation.CreateIndex([index(staged, "id", "BTREE")], [])
    assert ids(stage(staged, indexed), filter="id = 50") == [50]

    winner = stage(base, append(base, 70))
    recommitted = stage(stage(winner, mine), indexed)
    assert ids(recommitted) == [0, 1, 50, 70]
    assert ids(recommitted, filter="id = 50") == [50, 70]
    assert ids(recommitted, filter="id = 70") == []


def test_recommitted_delete_of_own_row_deletes_the_winners_row(uri: str) -> None:
    """A delete that names fragments of its own transaction is rebuilt after renumbering.

    When it fails: see the top of this file; the right answer is [0, 1, 51, 70, 71].
    """
    base = create(uri, 0, 1)
    mine = append(base, 50, 51)
    staged = stage(base, mine)
    of_own_row = delete(staged, 1, 0)
    assert ids(stage(staged, of_own_row)) == [0, 1, 51]

    winner = stage(base, append(base, 70, 71))
    assert records(stage(stage(winner, mine), of_own_row)) == rows(0, 1, 50, 51, 71).to_pylist()


def test_sibling_versions_reuse_a_fragment_id_for_different_rows(uri: str) -> None:
    """Fragment ids identify rows along one line of versions only; comparisons across branches go by data file.

    When it fails: fragment ids became unique, and comparing fragment lists gets simpler.
    """
    base = create(uri, 0)
    mine, theirs = stage(base, append(base, 50)), stage(base, append(base, 70))
    assert fragment_ids(mine) == fragment_ids(theirs) == [0, 1]
    assert mine.get_fragment(1).to_table()["id"].to_pylist() == [50]
    assert theirs.get_fragment(1).to_table()["id"].to_pylist() == [70]


def test_recommitted_delete_is_accepted_over_an_overwrite(uri: str) -> None:
    """Overwrite against anything is a conflict of Quire's own: Lance takes the delete, which then does nothing.

    When it fails with an error: see the top of this file. When rows are missing: it got worse, the rule stays.
    """
    base = create(uri, 0, 1, 2)
    mine = delete(base, 0, 1)
    winner = stage(base, overwrite(base, 7, 8, 9))
    recommitted = stage(winner, mine)
    assert fragment_ids(recommitted) == fragment_ids(winner) == [1]
    assert records(recommitted) == rows(7, 8, 9).to_pylist()


def test_recommitted_upsert_is_accepted_over_an_overwrite(uri: str) -> None:
    """As for the delete, but worse: the rewritten row of the old content joins the new content.

    When it fails: see the top of this file.
    """
    base = create(uri, 0, 1, 2)
    mine = upsert(base, pa.table({"id": [1], "v": [-1]}))
    winner = stage(base, overwrite(base, 7, 8, 9))
    assert records(stage(winner, mine)) == [{"id": 1, "v": -1}, *rows(7, 8, 9).to_pylist()]


def test_recommitted_compaction_is_refused_when_its_fragment_id_is_taken(uri: str) -> None:
    """Fragment ids of a `Rewrite` are reassigned when it is rebased; a forgotten reassignment is at least refused.

    When it fails: two fragments share an id, unnoticed. Check ids before every staged `Rewrite`.
    """
    base = create(uri, 0, 1, 2, 3, rows_per_file=2)
    (task,) = Compaction.plan(base, {"target_rows_per_fragment": 1_000}).tasks
    content = json.loads(task.execute(base).json())

    def rewrite(new_id: int) -> LanceOperation.Rewrite:
        content["new_fragments"][0]["id"] = new_id
        old, new = (
            [FragmentMetadata.from_json(json.dumps(fragment)) for fragment in content[which]]
            for which in ("original_fragments", "new_fragments")
        )
        return LanceOperation.Rewrite(groups=[LanceOperation.RewriteGroup(old, new)], rewritten_indices=[])

    assert records(stage(base, rewrite(2))) == rows(0, 1, 2, 3).to_pylist()
    winner = stage(base, append(base, 70))
    with pytest.raises(OSError, match="fragments with id 2"):
        stage(winner, rewrite(2))
    reassigned = stage(winner, rewrite(3))
    assert sorted(fragment_ids(reassigned)) == [2, 3]
    assert records(reassigned) == rows(0, 1, 2, 3, 70).to_pylist()


WINNERS: dict[str, tuple[Callable[[LanceDataset], LanceOperation.BaseOperation], list[int]]] = {
    "append": (lambda base: append(base, 70), [0, 1, 2, 50, 51, 70]),
    "delete": (lambda base: delete(base, 0, 0), [1, 2, 50, 51]),
    "upsert": (lambda base: upsert(base, pa.table({"id": [1, 3], "v": [10, 30]})), [0, 1, 2, 3, 50, 51]),
    "index": (lambda base: LanceOperation.CreateIndex([index(base, "id", "BTREE")], []), [0, 1, 2, 50, 51]),
}


@pytest.mark.parametrize("winner", WINNERS)
def test_recommitted_append_is_right(uri: str, winner: str) -> None:
    """The rebase that costs no data: a lost race is repaired by one manifest.

    When it fails: appends must be written again after a lost race; take back what the documentation says about cost.
    """
    operation, after = WINNERS[winner]
    base = create(uri, 0, 1, 2)
    mine = append(base, 50, 51)
    recommitted = stage(stage(base, operation(base)), mine)
    assert records(recommitted) == rows(*after).to_pylist()
    assert ids(recommitted, filter="id = 50") == [50]


def test_recommitted_append_is_accepted_over_an_overwrite(uri: str) -> None:
    """Why overwrite against append is a conflict of Quire's own: Lance adds the rows to the new content.

    When it fails with an error: see the top of this file.
    """
    base = create(uri, 0, 1)
    mine = append(base, 50)
    assert ids(stage(stage(base, overwrite(base, 7)), mine)) == [7, 50]


def test_linear_commit_of_a_stale_delete_is_refused(uri: str) -> None:
    """The contrast: an ordinary commit does look for conflicts, so plain writers on a backfilled table are safe.

    When it fails: plain writers beside each other lose deletes; say so in the documentation.
    """
    base = create(uri, 0, 1, 2)
    mine = Transaction(read_version=1, operation=delete(base, 0, 1))
    lance.dataset(uri).delete("id = 0")
    with pytest.raises(CommitConflictError):
        LanceDataset.commit(uri, mine)
    assert ids(lance.dataset(uri)) == [1, 2]
