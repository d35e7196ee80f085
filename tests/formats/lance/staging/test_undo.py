"""Reverting a commit: by pin where nobody came since, by rows where somebody did, not where rows changed again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.formats.lance.conftest import content, rows
from tests.lake.conftest import compact

import quire
from quire.errors import CommitNotFound, Conflict, InvalidInput, NameConflict

FIRST = [(1, 10), (2, 20), (3, 30)]

COMMITS: dict[str, Callable[[Any], Any]] = {
    "append": lambda t: t.append(rows(4, 5)),
    "delete": lambda t: t.delete("id = 1"),
    "update": lambda t: t.update({"v": "v + 1"}, where="id <= 2"),
    "upsert": lambda t: t.upsert(rows(1, 4, times=7), on="id"),
    "mixed": lambda t: (t.append(rows(4, 5)), t.delete("id in (1, 4)"), t.update({"v": "0"}, where="id = 2")),
}
WHOLE: dict[str, Callable[[Any], Any]] = {
    "overwrite": lambda t: t.overwrite(rows(8)),
    "add column": lambda t: t.add_columns({"w": "v"}),
    "drop column": lambda t: t.drop_columns("v"),
    "index": lambda t: t.create_index("id", "BTREE"),
}


def commit(lake: quire.Lake, statement: Callable[[Any], Any], name: str = "t") -> str:
    with lake.transaction("change") as tx:
        statement(tx[name])
    assert tx.receipt is not None
    assert tx.receipt.commit is not None
    return tx.receipt.commit


@pytest.mark.parametrize("name", ["t", "log"])
@pytest.mark.parametrize("done", [*COMMITS, *WHOLE])
def test_the_newest_commit_is_undone_whatever_it_was(lake: quire.Lake, name: str, done: str) -> None:
    made = commit(lake, {**COMMITS, **WHOLE}[done], name)
    changed = content(lake, name)
    receipt = lake.revert(made)
    assert content(lake, name) == FIRST
    assert lake.snapshot()[name].version == 3
    assert lake.show(str(receipt.commit)).reverts == made
    lake.revert(str(receipt.commit))
    assert content(lake, name) == changed


@pytest.mark.parametrize("name", ["t", "log"])
@pytest.mark.parametrize("done", COMMITS)
def test_rows_are_undone_under_later_commits_that_touched_others(lake: quire.Lake, name: str, done: str) -> None:
    made = commit(lake, COMMITS[done], name)
    commit(lake, lambda t: t.append(rows(50)), name)
    commit(lake, lambda t: t.update({"v": "v + 5"}, where="id = 3"), name)
    lake.revert(made)
    assert content(lake, name) == [(1, 10), (2, 20), (3, 35), (50, 500)]


@pytest.mark.parametrize("done", [*COMMITS, "overwrite"])
def test_what_later_commits_changed_again_is_a_conflict(lake: quire.Lake, done: str) -> None:
    made = commit(lake, {**COMMITS, **WHOLE}[done])
    later = commit(lake, lambda t: t.upsert([{"id": i, "v": 99} for i in (1, 4, 5, 8)]))
    before = content(lake)
    with pytest.raises(Conflict) as caught:
        lake.revert(made)
    assert not caught.value.retryable
    assert caught.value.fields["table"] == "t"
    assert content(lake) == before
    assert lake.head == later


@pytest.mark.parametrize("done", ["append", "update", "upsert"])
def test_a_row_that_was_written_again_as_it_was_has_not_changed(lake: quire.Lake, done: str) -> None:
    made = commit(lake, COMMITS[done])
    commit(lake, lambda t: t.upsert([{"id": 1}]))
    lake.revert(made)
    assert content(lake) == FIRST


def test_an_index_stays_under_later_rows(lake: quire.Lake) -> None:
    made = commit(lake, WHOLE["index"])
    commit(lake, lambda t: t.insert([{"id": 4}], missing="null"))
    with pytest.raises(Conflict, match="changed again"):
        lake.revert(made)


@pytest.mark.parametrize("done", ["add column", "drop column"])
def test_what_became_of_columns_is_undone_under_later_rows(lake: quire.Lake, done: str) -> None:
    schema = lake["t"].schema
    made = commit(lake, WHOLE[done])
    commit(lake, lambda t: t.insert([{"id": 4}], missing="null"))
    later = [*FIRST, (4, None)]
    lake.revert(made)
    assert lake["t"].schema.equals(schema)
    assert sorted((row["id"], row["v"]) for row in lake["t"].to_pylist()) == later


def test_rows_that_upkeep_moved_are_undone_also_under_later_commits(lake: quire.Lake) -> None:
    made = commit(lake, COMMITS["append"])
    compact(lake, "t").commit()
    lake.revert(made)
    assert content(lake) == FIRST
    made = commit(lake, COMMITS["append"])
    compact(lake, "t").commit()
    commit(lake, lambda t: t.delete("id = 1"))
    lake.revert(made)
    assert content(lake) == [(2, 20), (3, 30)]


def test_all_tables_of_a_commit_are_undone_together_or_none(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        tx["t"].append(rows(4))
        tx["log"].append(rows(4))
    commit(lake, lambda t: t.delete("id = 4"), "log")
    with pytest.raises(Conflict) as caught:
        lake.revert("2.0")
    assert caught.value.fields["table"] == "log"
    assert content(lake) == [*FIRST, (4, 40)]
    lake.revert("3.0")
    lake.revert("2.0")
    assert content(lake) == content(lake, "log") == FIRST


def test_created_dropped_and_renamed_tables(lake: quire.Lake) -> None:
    lake.create_table("new", rows(1))
    lake.revert("2.0")
    assert lake.tables() == ["log", "t"]
    with lake.transaction() as tx:
        tx.drop_table("t")
    lake.revert("4.0")
    assert content(lake) == FIRST
    assert lake.snapshot()["t"].key == ("id",)
    with lake.transaction() as tx:
        tx.rename_table("t", "u")
    lake.revert("6.0")
    assert lake.tables() == ["log", "t"]
    commit(lake, COMMITS["append"])
    assert content(lake) == [*FIRST, (4, 40), (5, 50)]


def test_a_created_table_that_was_written_since_is_a_conflict(lake: quire.Lake) -> None:
    lake.create_table("new", rows(1))
    commit(lake, lambda t: t.append(rows(2)), "new")
    with pytest.raises(Conflict):
        lake.revert("2.0")
    assert content(lake, "new") == [(1, 10), (2, 20)]


def test_a_dropped_table_whose_name_was_taken_is_a_name_conflict(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        tx.drop_table("t")
    lake.create_table("t", rows(9))
    with pytest.raises(NameConflict):
        lake.revert("2.0")
    assert content(lake) == [(9, 90)]


def test_an_undone_key_that_was_inserted_again_is_a_conflict(lake: quire.Lake) -> None:
    made = commit(lake, COMMITS["delete"])
    commit(lake, lambda t: t.append(rows(1, times=7)))
    with pytest.raises(Conflict):
        lake.revert(made)
    assert content(lake) == [(1, 7), (2, 20), (3, 30)]


def test_a_commit_under_a_later_rename_is_undone_in_the_renamed_table(lake: quire.Lake) -> None:
    made = commit(lake, COMMITS["append"])
    with lake.transaction() as tx:
        tx.rename_table("t", "u")
    commit(lake, lambda t: t.append(rows(50)), "u")
    lake.revert(made)
    assert lake.tables() == ["log", "u"]
    assert content(lake, "u") == [*FIRST, (50, 500)]


def test_what_cannot_be_reverted_says_so(lake: quire.Lake) -> None:
    with pytest.raises(InvalidInput):
        lake.revert("0.0")
    with pytest.raises(CommitNotFound):
        lake.revert("99.0")


def test_a_commit_is_reverted_once(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    lake.create_table("t", [{"id": 1}, {"id": 2}])
    with lake.transaction() as tx:
        tx["t"].delete("id = 1")
    assert tx.receipt is not None
    gone = str(tx.receipt.commit)
    back = lake.revert(gone).commit
    with pytest.raises(Conflict, match=f"already reverted by commit {back}"):
        lake.revert(gone)
    assert sorted(r["id"] for r in lake["t"].to_pylist()) == [1, 2]

    lake.revert(str(back))
    assert [r["id"] for r in lake["t"].to_pylist()] == [2]
    lake.revert(gone)
    assert sorted(r["id"] for r in lake["t"].to_pylist()) == [1, 2]


@pytest.mark.parametrize("later", ["overwrite", "schema"])
def test_rows_are_not_put_back_into_a_table_that_was_made_anew_since(tmp_path: Path, later: str) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    lake.create_table("t", [{"id": 1, "v": 100}, {"id": 2, "v": 200}])
    with lake.transaction() as tx:
        tx["t"].delete("id = 1")
    assert tx.receipt is not None
    with lake.transaction() as other:
        if later == "overwrite":
            other["t"].overwrite([{"id": 3, "v": 3}])
        else:
            other["t"].drop_columns("v")
            other["t"].add_columns({"v": "id * 2"})
    before = lake["t"].to_pylist()
    with pytest.raises(Conflict):
        lake.revert(str(tx.receipt.commit))
    assert lake["t"].to_pylist() == before
