"""The conflict table, one test per cell: what I staged, what somebody else committed first, and what is there then.

Every test runs on a table whose touched rows lie in one fragment and on one where they do not. `Race.commit` also
asserts that a rebase writes no data file.
"""

from __future__ import annotations

import contextlib
from typing import Any

import pyarrow as pa
import pytest
from tests.lake.conftest import Race, Statement, after, compact, rows

import quire
from quire.errors import Conflict, KeyConflict, NameConflict

# -- what the rival does ----------------------------------------------------------------------------------------------

CHANGES: dict[str, Statement] = {
    "update": lambda t: t.update({"v": "v + 5"}, where="id = 8"),
    "delete": lambda t: t.delete("id = 8"),
}
"""A rival's update or delete of row 8, by name."""
CHANGED: dict[str, dict[int, int | None]] = {"update": {8: 85}, "delete": {8: None}}

SAME_ROW: dict[str, Statement] = {
    "update": lambda t: t.update({"v": "v + 5"}, where="id = 1"),
    "delete": lambda t: t.delete("id = 1"),
}
"""A rival's update or delete of row 1, which is mine."""

EXCLUSIVE: dict[str, Statement] = {
    "overwrite": lambda t: t.overwrite(rows(1, 8, times=7)),
    "add column": lambda t: t.add_columns({"w": "v * 2"}),
    "drop column": lambda t: t.drop_columns("v"),
    "rename column": lambda t: t.rename_column("v", "w"),
    "alter column": lambda t: t.alter_column("v", type=pa.float64()),
    "drop": lambda t: t._tx.drop_table("t"),
}
UPKEEP = ["compaction", "index"]


@pytest.fixture(params=CHANGES)
def change(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["overwrite", "add column", "rename column", "drop"])
def exclusive(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=UPKEEP)
def upkeep(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def tidy(race: Race, upkeep: str) -> None:
    """The rival's upkeep: no row changes, but every row may lie elsewhere afterwards."""
    if upkeep == "compaction":
        race.compacted()
    else:
        race.theirs(lambda t: t.create_index("id", "BTREE"))


def append(*ids: int, times: int = 10) -> Statement:
    return lambda t: t.append(rows(*ids, times=times))


def upsert(*ids: int, times: int = 3, on: str | None = None) -> Statement:
    return lambda t: t.upsert(rows(*ids, times=times), on=on)


# -- mine: append to a table without a key ----------------------------------------------------------------------------


def test_append_after_append_keeps_both(unkeyed: Race) -> None:
    unkeyed.mine(append(100))
    unkeyed.theirs(append(200))
    assert unkeyed.commit().rebased == 1
    assert unkeyed.content() == after({}, (100, 1000), (200, 2000))


def test_append_of_equal_rows_after_append_keeps_both_copies(unkeyed: Race) -> None:
    unkeyed.mine(append(1))
    unkeyed.theirs(append(1))
    unkeyed.commit()
    assert unkeyed.content() == after({}, (1, 10), (1, 10))


def test_append_after_upsert_keeps_both(unkeyed: Race) -> None:
    unkeyed.mine(append(100))
    unkeyed.theirs(upsert(8, 200, on="id"))
    assert unkeyed.commit().rebased == 1
    assert unkeyed.content() == after({8: 24}, (100, 1000), (200, 600))


def test_append_after_update_or_delete_keeps_both(unkeyed: Race, change: str) -> None:
    unkeyed.mine(append(100))
    unkeyed.theirs(CHANGES[change])
    assert unkeyed.commit().rebased == 1
    assert unkeyed.content() == after(CHANGED[change], (100, 1000))


def test_append_after_overwrite_schema_change_or_drop_is_a_conflict(unkeyed: Race, exclusive: str) -> None:
    unkeyed.mine(append(100))
    unkeyed.theirs(EXCLUSIVE[exclusive])
    error = unkeyed.refused()
    assert error.retryable is (exclusive != "drop")


def test_append_after_compaction_or_index_keeps_both(unkeyed: Race, upkeep: str) -> None:
    unkeyed.mine(append(100))
    tidy(unkeyed, upkeep)
    assert unkeyed.commit().rebased == 1
    assert unkeyed.content() == after({}, (100, 1000))


def test_append_after_rename_goes_to_the_renamed_table(unkeyed: Race) -> None:
    unkeyed.mine(append(100))
    unkeyed.theirs(lambda t: t._tx.rename_table("t", "u"))
    receipt = unkeyed.commit()
    assert set(receipt.tables) == {"u"}
    assert unkeyed.content("u") == after({}, (100, 1000))
    assert unkeyed.b.tables() == ["u"]


# -- mine: strict insert ----------------------------------------------------------------------------------------------


def test_insert_after_insert_of_another_key_keeps_both(keyed: Race) -> None:
    keyed.mine(append(100))
    keyed.theirs(append(200))
    assert keyed.commit().rebased == 1
    assert keyed.content() == after({}, (100, 1000), (200, 2000))


def test_insert_after_insert_of_the_same_key_is_a_key_conflict(keyed: Race) -> None:
    keyed.mine(append(99, 100))
    receipt = keyed.theirs(append(100, 101, times=7))
    error = keyed.refused(KeyConflict)
    assert not error.retryable
    assert error.fields["keys"] == [{"id": 100}]
    assert error.fields["commit"] == receipt.commit
    assert "theirs" in str(error)


def test_insert_after_upsert_of_another_key_keeps_both(keyed: Race) -> None:
    keyed.mine(append(100))
    keyed.theirs(upsert(8, 200))
    assert keyed.commit().rebased == 1
    assert keyed.content() == after({8: 24}, (100, 1000), (200, 600))


def test_insert_after_upsert_of_the_same_key_is_a_key_conflict(keyed: Race) -> None:
    keyed.mine(append(100))
    keyed.theirs(upsert(8, 100))
    assert keyed.refused(KeyConflict).fields["keys"] == [{"id": 100}]


def test_insert_after_update_or_delete_keeps_both(keyed: Race, change: str) -> None:
    keyed.mine(append(100))
    keyed.theirs(CHANGES[change])
    assert keyed.commit().rebased == 1
    assert keyed.content() == after(CHANGED[change], (100, 1000))


def test_insert_after_an_update_that_took_the_key_is_a_key_conflict(keyed: Race) -> None:
    keyed.mine(append(100))
    keyed.theirs(lambda t: t.update({"id": "100"}, where="id = 8"))
    assert keyed.refused(KeyConflict).fields["keys"] == [{"id": 100}]


def test_insert_after_overwrite_schema_change_or_drop_is_a_conflict(keyed: Race, exclusive: str) -> None:
    keyed.mine(append(100))
    keyed.theirs(EXCLUSIVE[exclusive])
    keyed.refused()


def test_insert_after_compaction_or_index_keeps_both(keyed: Race, upkeep: str) -> None:
    keyed.mine(append(100))
    tidy(keyed, upkeep)
    assert keyed.commit().rebased == 1
    assert keyed.content() == after({}, (100, 1000))


def test_insert_of_a_key_that_a_rival_inserted_before_compacting_is_a_key_conflict(keyed: Race) -> None:
    keyed.mine(append(100))
    keyed.theirs(append(100))
    keyed.compacted()
    keyed.refused(KeyConflict)


# -- mine: upsert -----------------------------------------------------------------------------------------------------


def test_upsert_after_insert_of_another_key_keeps_both(keyed: Race) -> None:
    keyed.mine(upsert(1, 100))
    keyed.theirs(append(200))
    receipt = keyed.commit()
    assert (receipt.rebased, receipt.replayed) == (1, 0)
    assert keyed.content() == after({1: 3}, (100, 300), (200, 2000))


def test_upsert_after_insert_of_the_same_key_has_told_another_count(keyed: Race) -> None:
    assert keyed.mine(upsert(1, 100)) == {"inserted": 1, "updated": 1}
    keyed.theirs(append(100, 200))
    error = keyed.refused()
    assert error.retryable
    assert "count" in str(error)


def test_upsert_after_append_to_a_table_without_a_key(unkeyed: Race) -> None:
    """An append records no keys, so the rows themselves are looked at."""
    unkeyed.mine(upsert(1, 100, on="id"))
    unkeyed.theirs(append(200))
    assert unkeyed.commit().rebased == 1
    assert unkeyed.content() == after({1: 3}, (100, 300), (200, 2000))


def test_upsert_after_append_of_the_same_key_to_a_table_without_a_key_has_told_another_count(unkeyed: Race) -> None:
    unkeyed.mine(upsert(1, 100, on="id"))
    unkeyed.theirs(append(100))
    assert unkeyed.refused().retryable


def test_upsert_after_append_of_a_key_that_has_a_row_runs_again_and_replaces_both(unkeyed: Race) -> None:
    """What it told is how many of its keys had a row, and it still is."""
    unkeyed.mine(upsert(1, on="id"))
    unkeyed.theirs(append(1, times=7))
    assert unkeyed.commit().replayed == 1
    assert unkeyed.content() == after({1: 3})


def test_upsert_after_upsert_of_another_row_keeps_both(keyed: Race) -> None:
    keyed.mine(upsert(1, 100))
    keyed.theirs(upsert(8, 200, times=7))
    receipt = keyed.commit()
    assert (receipt.rebased, receipt.replayed) == (1, 0)
    assert keyed.content() == after({1: 3, 8: 56}, (100, 300), (200, 1400))


def test_upsert_after_upsert_of_the_same_row_runs_again_and_replaces(keyed: Race) -> None:
    keyed.mine(upsert(1, 2, 100))
    keyed.theirs(upsert(2, 8, 200, times=7))
    assert keyed.commit().replayed == 1
    assert keyed.content() == after({1: 3, 2: 6, 8: 56}, (100, 300), (200, 1400))


def test_upsert_is_not_run_again_where_its_name_means_another_table_by_now(keyed: Race) -> None:
    """On the new rows it would stand beside a name that was looked up on the old state: no state has both."""
    keyed.mine(upsert(1, 100))
    keyed.theirs(upsert(1, times=7))
    keyed.theirs(lambda t: t._tx.rename_table("t", "u"))
    keyed.a.refresh()  # it meets both at once
    with pytest.raises(quire.Conflict, match="looked up the name 't'") as caught:
        keyed.commit()
    assert caught.value.retryable
    assert keyed.content("u") == after({1: 7})


def test_upsert_that_was_run_again_follows_a_rename_that_came_later(keyed: Race) -> None:
    """It is as good as begun on the rival's rows, before the name was given away."""
    keyed.mine(upsert(1, 100))
    keyed.theirs(upsert(1, times=7))
    keyed.theirs(lambda t: t._tx.rename_table("t", "u"))
    receipt = keyed.commit()
    assert (receipt.replayed, set(receipt.tables)) == (1, {"u"})
    assert keyed.content("u") == after({1: 3}, (100, 300))


def test_upsert_of_another_row_follows_its_table_to_its_new_name(keyed: Race) -> None:
    keyed.mine(upsert(1, 100))
    keyed.theirs(upsert(8, times=7))
    keyed.theirs(lambda t: t._tx.rename_table("t", "u"))
    receipt = keyed.commit()
    assert (receipt.rebased, receipt.replayed, set(receipt.tables)) == (1, 0, {"u"})
    assert keyed.content("u") == after({1: 3, 8: 56}, (100, 300))


def test_upsert_after_update_or_delete_of_another_row_keeps_both(keyed: Race, change: str) -> None:
    keyed.mine(upsert(1, 100))
    keyed.theirs(CHANGES[change])
    receipt = keyed.commit()
    assert (receipt.rebased, receipt.replayed) == (1, 0)
    assert keyed.content() == after({1: 3, **CHANGED[change]}, (100, 300))


def test_upsert_after_update_of_the_same_row_runs_again(keyed: Race) -> None:
    keyed.mine(upsert(1, 100))
    keyed.theirs(SAME_ROW["update"])
    assert keyed.commit().replayed == 1
    assert keyed.content() == after({1: 3}, (100, 300))


def test_upsert_after_delete_of_the_same_row_has_told_another_count(keyed: Race) -> None:
    keyed.mine(upsert(1, 100))
    keyed.theirs(SAME_ROW["delete"])
    assert keyed.refused().retryable


CONDITIONS: dict[str, Statement] = {
    "delete": lambda t: t.delete("id >= 7"),
    "delete of nothing": lambda t: t.delete("id = 77"),
    "update": lambda t: t.update({"v": "v + 1"}, where="id >= 7"),
    "update of nothing": lambda t: t.update({"v": "v + 1"}, where="id = 77"),
}


@pytest.mark.parametrize("elsewhere", [False, True], ids=["same table", "another table"])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_upsert_beside_a_condition_is_never_run_again(keyed: Race, condition: str, elsewhere: bool) -> None:
    """The condition has chosen rows of the snapshot and told their number; run again it would choose others."""
    keyed.b.create_table("other", rows(*range(1, 9)))
    keyed.a.refresh()
    keyed.tx = keyed.a.transaction()
    keyed.mine(upsert(1))
    CONDITIONS[condition](keyed.tx["other" if elsewhere else "t"])
    keyed.theirs(upsert(1, 77, times=7))
    assert keyed.refused().retryable


def test_upsert_beside_a_condition_follows_rivals_in_other_rows(keyed: Race) -> None:
    keyed.mine(upsert(1, 100))
    assert keyed.mine(lambda t: t.delete("id = 2 or id = 200")) == 1
    keyed.theirs(upsert(8, 200, times=7))
    assert keyed.commit().rebased == 1
    assert keyed.content() == after({1: 3, 2: None, 8: 56}, (100, 300), (200, 1400))


def test_of_two_who_branch_on_a_count_one_is_told_of_the_other(keyed: Race) -> None:
    """One account, two programs that write a letter of welcome when the account is new."""
    keyed.b.create_table("letters", schema=pa.schema([("to", pa.int64()), ("from", pa.string())]))
    keyed.a.refresh()

    def welcome(tx: quire.Transaction) -> None:
        if tx["t"].upsert(rows(100))["inserted"]:
            tx["letters"].append([{"to": 100, "from": tx.author}])

    keyed.tx = keyed.a.transaction()
    welcome(keyed.tx)
    with keyed.b.transaction() as tx:
        welcome(tx)
    keyed.refused()
    keyed.a.transact(welcome)
    assert keyed.content("letters") == [(100, "theirs")]


def test_partial_upsert_after_update_of_the_same_row_takes_their_other_columns(keyed: Race) -> None:
    """The columns that are not given come from the row as the rival left it, not from my snapshot."""
    keyed.theirs(lambda t: t.add_columns({"w": "v + 1"}))
    keyed.a.refresh()
    keyed.tx = keyed.a.transaction()
    keyed.mine(lambda t: t.upsert([{"id": 1, "w": 0}, {"id": 100, "w": 0}]))
    keyed.theirs(SAME_ROW["update"])
    assert keyed.commit().replayed == 1
    assert {r[0]: r[1:] for r in keyed.content()}[1] == (15, 0)
    assert {r[0]: r[1:] for r in keyed.content()}[100] == (None, 0)


def test_upsert_after_overwrite_schema_change_or_drop_is_a_conflict(keyed: Race, exclusive: str) -> None:
    keyed.mine(upsert(1, 100))
    keyed.theirs(EXCLUSIVE[exclusive])
    keyed.refused()


def test_upsert_after_compaction_or_index_keeps_both(keyed: Race, upkeep: str) -> None:
    keyed.mine(upsert(1, 100))
    tidy(keyed, upkeep)
    files = keyed.data_files()
    keyed.commit()
    assert keyed.data_files() == files
    assert keyed.content() == after({1: 3}, (100, 300))


def test_upsert_by_a_program_that_has_read_follows_compaction_all_the_same(keyed: Race, upkeep: str) -> None:
    """Upkeep changes no row, so there is nothing that the program could have read otherwise."""
    assert keyed.mine(lambda t: t.count()) == 8
    keyed.mine(upsert(1, 100))
    tidy(keyed, upkeep)
    keyed.commit()
    assert keyed.content() == after({1: 3}, (100, 300))


# -- mine: update or delete -------------------------------------------------------------------------------------------

MINE: dict[str, Statement] = {
    "update": lambda t: t.update({"v": "v + 1"}, where="id <= 2"),
    "delete": lambda t: t.delete("id <= 2"),
}
DONE: dict[str, dict[int, int | None]] = {"update": {1: 11, 2: 21}, "delete": {1: None, 2: None}}


@pytest.fixture(params=MINE)
def mine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_update_or_delete_after_append_keeps_both(unkeyed: Race, mine: str) -> None:
    """Rows that came since are not looked at, even where the condition would hold for them."""
    unkeyed.mine(MINE[mine])
    unkeyed.theirs(append(0, 200))
    assert unkeyed.commit().rebased == 1
    assert unkeyed.content() == after(DONE[mine], (0, 0), (200, 2000))


def test_update_or_delete_after_insert_keeps_both(keyed: Race, mine: str) -> None:
    keyed.mine(MINE[mine])
    keyed.theirs(append(200))
    assert keyed.commit().rebased == 1
    assert keyed.content() == after(DONE[mine], (200, 2000))


def test_update_or_delete_after_upsert_of_other_rows_keeps_both(keyed: Race, mine: str) -> None:
    keyed.mine(MINE[mine])
    keyed.theirs(upsert(8, 200))
    assert keyed.commit().rebased == 1
    assert keyed.content() == after({**DONE[mine], 8: 24}, (200, 600))


def test_update_or_delete_after_upsert_of_the_same_row_is_a_conflict(keyed: Race, mine: str) -> None:
    keyed.mine(MINE[mine])
    keyed.theirs(upsert(2, 200))
    assert keyed.refused().retryable


def test_update_or_delete_after_update_or_delete_of_other_rows_keeps_both(keyed: Race, mine: str, change: str) -> None:
    keyed.mine(MINE[mine])
    keyed.theirs(CHANGES[change])
    assert keyed.commit().rebased == 1
    assert keyed.content() == after({**DONE[mine], **CHANGED[change]})


def test_update_or_delete_after_update_or_delete_of_the_same_row_is_a_conflict(
    keyed: Race, mine: str, change: str
) -> None:
    keyed.mine(MINE[mine])
    receipt = keyed.theirs(SAME_ROW[change])
    error = keyed.refused()
    assert error.retryable
    assert error.fields["commit"] == receipt.commit


def test_update_or_delete_after_a_delete_of_the_whole_fragment_is_a_conflict(keyed: Race, mine: str) -> None:
    keyed.mine(MINE[mine])
    keyed.theirs(lambda t: t.delete("id <= 4"))
    assert keyed.refused().retryable


def test_update_or_delete_that_matched_nothing_is_never_in_the_way(keyed: Race, change: str) -> None:
    assert keyed.mine(lambda t: t.delete("id = 77")) == 0
    assert keyed.mine(lambda t: t.update({"v": "0"}, where="id = 77")) == 0
    keyed.theirs(SAME_ROW[change])
    keyed.commit()
    assert keyed.content() == after({1: 15 if change == "update" else None})


def test_update_or_delete_after_overwrite_schema_change_or_drop_is_a_conflict(
    keyed: Race, mine: str, exclusive: str
) -> None:
    keyed.mine(MINE[mine])
    keyed.theirs(EXCLUSIVE[exclusive])
    keyed.refused()


def test_update_or_delete_after_compaction_or_index_is_moved_along(keyed: Race, mine: str, upkeep: str) -> None:
    keyed.mine(MINE[mine])
    tidy(keyed, upkeep)
    receipt = keyed.commit()
    assert (receipt.rebased, receipt.replayed) == (1, 0)
    assert keyed.content() == after(DONE[mine])


def test_update_or_delete_by_a_program_that_has_read_follows_rows_that_compaction_moved(keyed: Race, mine: str) -> None:
    """What it read is still so: the rows are the same ones in another place, and no other commit came between."""
    keyed.mine(lambda t: t.count())
    keyed.mine(MINE[mine])
    keyed.compacted()
    assert keyed.commit().replayed == 0
    assert keyed.content() == after(DONE[mine])


def test_update_or_delete_by_a_program_that_has_read_is_a_conflict_when_rows_changed_too(keyed: Race) -> None:
    keyed.mine(lambda t: t.count())
    keyed.mine(lambda t: t.update({"v": "v + 1"}, where="id <= 2"))
    keyed.theirs(lambda t: t.update({"v": "v + 1"}, where="id = 1"))
    keyed.compacted()
    assert keyed.refused().retryable


def test_update_that_takes_a_key_after_an_insert_of_it_is_a_key_conflict(keyed: Race) -> None:
    keyed.mine(lambda t: t.update({"id": "100"}, where="id = 1"))
    keyed.theirs(append(100))
    assert keyed.refused(KeyConflict).fields["keys"] == [{"id": 100}]


def test_update_that_takes_a_key_after_an_insert_of_another_keeps_both(keyed: Race) -> None:
    keyed.mine(lambda t: t.update({"id": "100"}, where="id = 1"))
    keyed.theirs(append(200))
    assert keyed.commit().rebased == 1
    assert keyed.content() == after({1: None}, (100, 10), (200, 2000))


# -- mine: overwrite, schema change, drop, rename ---------------------------------------------------------------------

WHOLE: dict[str, Statement] = {**EXCLUSIVE, "rename": lambda t: t._tx.rename_table("t", "mine")}


@pytest.fixture(params=WHOLE)
def whole(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def refused_whole(race: Race) -> None:
    """The table kept its name and columns, and nothing of mine is there."""
    before = race.content()
    with pytest.raises(Conflict) as caught:
        race.tx.commit()
    assert type(caught.value) is Conflict
    assert race.content() == before
    assert race.b.tables() == ["t"]


def test_overwrite_schema_change_drop_or_rename_after_append_is_a_conflict(unkeyed: Race, whole: str) -> None:
    unkeyed.mine(WHOLE[whole])
    unkeyed.theirs(append(200))
    refused_whole(unkeyed)


def test_overwrite_schema_change_drop_or_rename_after_insert_is_a_conflict(keyed: Race, whole: str) -> None:
    keyed.mine(WHOLE[whole])
    keyed.theirs(append(200))
    refused_whole(keyed)


def test_overwrite_schema_change_drop_or_rename_after_upsert_is_a_conflict(keyed: Race, whole: str) -> None:
    keyed.mine(WHOLE[whole])
    keyed.theirs(upsert(8))
    refused_whole(keyed)


def test_overwrite_schema_change_drop_or_rename_after_update_or_delete_is_a_conflict(
    keyed: Race, whole: str, change: str
) -> None:
    keyed.mine(WHOLE[whole])
    keyed.theirs(CHANGES[change])
    refused_whole(keyed)


@pytest.mark.parametrize("theirs", ["overwrite", "add column"])
def test_overwrite_schema_change_drop_or_rename_after_another_is_a_conflict(
    keyed: Race, whole: str, theirs: str
) -> None:
    keyed.mine(WHOLE[whole])
    keyed.theirs(EXCLUSIVE[theirs])
    refused_whole(keyed)


def test_overwrite_schema_change_drop_or_rename_after_drop_is_a_conflict(keyed: Race, whole: str) -> None:
    keyed.mine(WHOLE[whole])
    keyed.theirs(EXCLUSIVE["drop"])
    with pytest.raises(Conflict, match="dropped") as caught:
        keyed.tx.commit()
    assert not caught.value.retryable
    assert keyed.b.tables() == []


def test_overwrite_schema_change_drop_or_rename_after_rename_is_a_conflict(keyed: Race, whole: str) -> None:
    keyed.mine(WHOLE[whole])
    keyed.theirs(lambda t: t._tx.rename_table("t", "theirs"))
    with pytest.raises(Conflict):
        keyed.tx.commit()
    assert keyed.b.tables() == ["theirs"]
    assert keyed.content("theirs") == after()


def test_overwrite_schema_change_drop_or_rename_after_compaction_or_index_is_a_conflict(
    keyed: Race, whole: str, upkeep: str
) -> None:
    keyed.mine(WHOLE[whole])
    tidy(keyed, upkeep)
    refused_whole(keyed)


# -- mine: compaction or index ----------------------------------------------------------------------------------------

ROW_CHANGES: dict[str, tuple[Statement, list[tuple[int, int]]]] = {
    "insert": (append(200), after({}, (200, 2000))),
    "upsert": (upsert(8, 200), after({8: 24}, (200, 600))),
    "update": (CHANGES["update"], after({8: 85})),
    "delete": (CHANGES["delete"], after({8: None})),
    "delete of a whole fragment": (lambda t: t.delete("id > 4"), after({5: None, 6: None, 7: None, 8: None})),
}


@pytest.mark.parametrize("theirs", ROW_CHANGES)
def test_index_after_a_change_of_rows_answers_by_their_values(keyed: Race, theirs: str) -> None:
    """An index that was built before the race is rebuilt or kept, and every answer equals a scan."""
    statement, expected = ROW_CHANGES[theirs]
    keyed.mine(lambda t: t.create_index("id", "BTREE"))
    keyed.mine(lambda t: t.count("id = 3"))
    keyed.theirs(statement)
    keyed.commit()
    assert keyed.content() == expected
    pinned = keyed.dataset()
    assert "ScalarIndexQuery" in pinned.scanner(filter="id = 3").explain_plan()
    for number in (*range(1, 9), 200):
        found = pinned.to_table(filter=f"id = {number}").to_pylist()
        assert [(r["id"], r["v"]) for r in found] == [r for r in expected if r[0] == number]


@pytest.mark.parametrize("theirs", ROW_CHANGES)
def test_compaction_after_a_change_of_rows_loses_nothing(keyed: Race, theirs: str) -> None:
    """Upkeep never undoes what rows became: it moves what nobody touched, or it gives up."""
    statement, expected = ROW_CHANGES[theirs]
    keyed.tx = compact(keyed.a, "t")
    keyed.theirs(statement)
    with contextlib.suppress(Conflict):
        keyed.tx.commit()
    assert keyed.content() == expected


@pytest.mark.parametrize("mine", UPKEEP)
def test_upkeep_after_overwrite_schema_change_or_drop_gives_up(keyed: Race, mine: str, exclusive: str) -> None:
    if mine == "compaction":
        keyed.tx = compact(keyed.a, "t")
    else:
        keyed.mine(lambda t: t.create_index("id", "BTREE"))
    keyed.theirs(EXCLUSIVE[exclusive])
    keyed.refused()


@pytest.mark.parametrize("mine", UPKEEP)
def test_upkeep_after_upkeep_gives_up(keyed: Race, mine: str, upkeep: str) -> None:
    if mine == "compaction":
        keyed.tx = compact(keyed.a, "t")
    else:
        keyed.mine(lambda t: t.create_index("v", "BTREE"))
    tidy(keyed, upkeep)
    assert keyed.refused().retryable


# -- programs that read, and lake.transact ----------------------------------------------------------------------------


def test_upsert_of_the_same_row_by_a_program_that_has_read_is_a_retryable_conflict(keyed: Race) -> None:
    """What was read may have decided what was written, so the statements alone are not run again."""
    assert keyed.mine(lambda t: t.count()) == 8
    keyed.mine(upsert(1))
    keyed.theirs(upsert(1, times=7))
    error = keyed.refused()
    assert error.retryable
    assert "has read" in str(error)


def test_append_by_a_program_that_has_read_still_follows(unkeyed: Race) -> None:
    assert unkeyed.mine(lambda t: t.count()) == 8
    unkeyed.mine(append(100))
    unkeyed.theirs(CHANGES["delete"])
    unkeyed.commit()
    assert unkeyed.content() == after({8: None}, (100, 1000))


def test_reading_another_table_counts_as_reading(keyed: Race) -> None:
    keyed.b.create_table("other", rows(1))
    keyed.a.refresh()
    keyed.tx = keyed.a.transaction()
    keyed.tx["other"].to_pylist()
    keyed.mine(upsert(1))
    keyed.theirs(upsert(1, times=7))
    assert keyed.refused().retryable


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [
        pytest.param(
            lambda t: t.update({"v": "v + 1"}, where="id = 1"),
            SAME_ROW["update"],
            after({1: 16}),
            id="update of an updated row",
        ),
        pytest.param(lambda t: t.delete("id = 1"), SAME_ROW["update"], after({1: None}), id="delete of an updated row"),
        pytest.param(
            lambda t: t.upsert([{"id": 1, "v": t.scan(filter="id = 1").to_pylist()[0]["v"] + t.count()}]),
            upsert(1, times=7),
            after({1: 15}),
            id="upsert of what was read",
        ),
        pytest.param(
            lambda t: t.append(rows(t.count() + 100)),
            EXCLUSIVE["overwrite"],
            [(1, 7), (8, 56), (102, 1020)],
            id="append",
        ),
        pytest.param(lambda t: t.overwrite(rows(t.count())), lambda t: t.append(rows(100)), [(9, 90)], id="overwrite"),
        pytest.param(
            lambda t: t.create_index("id", "BTREE"),
            lambda t: t.create_index("v", "BTREE"),
            after(),
            id="index after index",
        ),
    ],
)
def test_transact_runs_the_program_again_on_what_the_winner_left(
    keyed: Race, mine: Statement, theirs: Statement, expected: list[tuple[int, int]]
) -> None:
    runs: list[int] = []

    def program(tx: quire.Transaction) -> str:
        found: Any = tx["t"]
        if not runs:
            mine(found)
            keyed.theirs(theirs)
        else:
            mine(found)
        runs.append(1)
        return "done"

    assert keyed.a.transact(program) == "done"
    assert len(runs) == 2
    assert keyed.content() == expected


def test_transact_does_not_repeat_what_cannot_succeed(keyed: Race) -> None:
    """A key that exists will exist the next time too."""
    runs: list[int] = []

    def program(tx: quire.Transaction) -> None:
        runs.append(1)
        tx["t"].append(rows(100))
        if len(runs) == 1:
            keyed.theirs(append(100))

    with pytest.raises(KeyConflict):
        keyed.a.transact(program)
    assert len(runs) == 1


def test_transact_gives_up_after_the_given_number_of_retries(keyed: Race) -> None:
    runs: list[int] = []

    def program(tx: quire.Transaction) -> None:
        runs.append(1)
        tx["t"].update({"v": "v + 1"}, where="id = 1")
        keyed.theirs(SAME_ROW["update"])

    with pytest.raises(Conflict):
        keyed.a.transact(program, retries=2)
    assert len(runs) == 3
    assert keyed.content() == after({1: 10 + 3 * 5})


# -- tables apart, many rivals, many tables ---------------------------------------------------------------------------


def test_writers_of_different_tables_never_conflict(keyed: Race, exclusive: str) -> None:
    keyed.b.create_table("other", rows(1, 8))
    keyed.a.refresh()
    keyed.tx = keyed.a.transaction()
    keyed.mine(MINE["update"])
    with keyed.b.transaction() as theirs:
        if exclusive == "drop":
            theirs.drop_table("other")
        else:
            EXCLUSIVE[exclusive](theirs["other"])
    assert keyed.commit().rebased == 0
    assert keyed.content() == after(DONE["update"])


def test_every_commit_in_between_is_compared_not_only_the_last(keyed: Race) -> None:
    """The row that matters changed in the first of three commits."""
    keyed.mine(MINE["update"])
    keyed.theirs(SAME_ROW["update"])
    keyed.theirs(append(200))
    keyed.theirs(upsert(8))
    assert keyed.refused().retryable


def test_rebase_over_many_rivals_at_once_keeps_them_all(keyed: Race) -> None:
    keyed.mine(MINE["delete"])
    keyed.mine(upsert(3, 100))
    keyed.theirs(append(200))
    keyed.theirs(lambda t: t.delete("id = 4"))
    keyed.theirs(upsert(8, 201))
    keyed.theirs(lambda t: t.update({"v": "v + 1"}, where="id = 5"))
    receipt = keyed.commit()
    # Over the winner of the slot, and then over all that came after it.
    assert (receipt.rebased, receipt.replayed) == (2, 0)
    expected = {1: None, 2: None, 3: 9, 4: None, 5: 51, 8: 24}
    assert keyed.content() == after(expected, (100, 300), (200, 2000), (201, 603))


def test_a_conflict_in_one_table_keeps_the_others_out(keyed: Race) -> None:
    keyed.b.create_table("other", rows(1))
    keyed.a.refresh()
    keyed.tx = keyed.a.transaction()
    keyed.tx["other"].append(rows(2))
    keyed.mine(MINE["update"])
    keyed.theirs(SAME_ROW["update"])
    keyed.refused()
    assert keyed.content("other") == [(1, 10)]


# -- names ------------------------------------------------------------------------------------------------------------


def test_two_creators_of_one_name_cannot_both_win(keyed: Race) -> None:
    keyed.tx.create_table("new", rows(1))
    keyed.b.create_table("new", rows(2))
    with pytest.raises(NameConflict, match="'new'") as caught:
        keyed.tx.commit()
    assert not caught.value.retryable
    assert keyed.content("new") == [(2, 20)]


def test_create_after_a_rename_to_the_name_is_a_name_conflict(keyed: Race) -> None:
    keyed.tx.create_table("new", rows(1))
    keyed.theirs(lambda t: t._tx.rename_table("t", "new"))
    with pytest.raises(NameConflict):
        keyed.tx.commit()
    assert keyed.content("new") == after()


def test_rename_after_a_creation_of_the_name_is_a_name_conflict(keyed: Race) -> None:
    keyed.tx.rename_table("t", "new")
    keyed.b.create_table("new", rows(1))
    with pytest.raises(NameConflict):
        keyed.tx.commit()
    assert keyed.b.tables() == ["new", "t"]


def test_two_renames_to_one_name_cannot_both_win(keyed: Race) -> None:
    keyed.b.create_table("other", rows(1))
    keyed.a.refresh()
    keyed.tx = keyed.a.transaction()
    keyed.tx.rename_table("t", "new")
    with keyed.b.transaction() as theirs:
        theirs.rename_table("other", "new")
    with pytest.raises(NameConflict):
        keyed.tx.commit()
    assert keyed.content("new") == [(1, 10)]


def test_a_name_that_was_taken_and_given_up_again_is_free(keyed: Race) -> None:
    keyed.tx.create_table("new", rows(1))
    keyed.b.create_table("new", rows(2))
    with keyed.b.transaction() as theirs:
        theirs.drop_table("new")
    keyed.tx.commit()
    assert keyed.content("new") == [(1, 10)]


def test_a_write_follows_the_table_and_not_its_name(unkeyed: Race) -> None:
    """The rival renamed my table and made another one under the old name."""
    unkeyed.mine(append(100))
    with unkeyed.b.transaction() as theirs:
        theirs.rename_table("t", "old")
        theirs.create_table("t", rows(1))
    unkeyed.commit()
    assert unkeyed.content("old") == after({}, (100, 1000))
    assert unkeyed.content("t") == [(1, 10)]
