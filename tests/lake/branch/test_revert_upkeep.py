"""A revert of a commit whose table was optimized or indexed since."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.lake.conftest import rows

import quire
from quire.errors import Conflict

KEYED = pytest.mark.parametrize("key", [None, "id"])


@pytest.fixture
def lake(tmp_path: Path) -> quire.Lake:
    return quire.create(tmp_path / "lake")


def commit(lake: quire.Lake, statement: Callable[[Any], Any]) -> str:
    with lake.transaction() as tx:
        statement(tx["t"])
    assert tx.receipt is not None
    assert tx.receipt.commit is not None
    return tx.receipt.commit


def scattered(lake: quire.Lake, key: str | None) -> None:
    """A table of three fragments with the ids 1 to 6."""
    lake.create_table("t", rows(1, 2), key=key)
    commit(lake, lambda t: t.append(rows(3, 4)))
    commit(lake, lambda t: t.append(rows(5, 6)))


def optimized(lake: quire.Lake) -> str:
    [done] = lake.optimize().commits
    return done


def values(lake: quire.Lake) -> dict[int, int]:
    with quire.open(lake.uri, read_only=True) as fresh:
        return {row["id"]: row["v"] for row in sorted(fresh["t"].to_pylist(), key=lambda row: row["id"])}


@KEYED
def test_added_rows_are_taken_away_after_a_compaction(lake: quire.Lake, key: str | None) -> None:
    scattered(lake, key)
    wrong = commit(lake, lambda t: t.append(rows(7, 8)))
    optimized(lake)

    receipt = lake.revert(wrong)

    assert list(values(lake)) == [1, 2, 3, 4, 5, 6]
    assert lake.show(str(receipt.commit)).reverts == wrong


@KEYED
def test_deleted_and_changed_rows_come_back_after_a_compaction(lake: quire.Lake, key: str | None) -> None:
    scattered(lake, key)
    before = values(lake)

    def change(t: Any) -> None:
        t.delete("id = 1")
        t.update({"v": "-v"}, where="id > 4")

    wrong = commit(lake, change)
    optimized(lake)
    lake.revert(wrong)

    assert values(lake) == before


@KEYED
def test_rows_are_undone_after_an_index_and_the_index_stays(lake: quire.Lake, key: str | None) -> None:
    scattered(lake, key)
    wrong = commit(lake, lambda t: t.append(rows(7)))
    commit(lake, lambda t: t.create_index("v"))

    lake.revert(wrong)

    assert list(values(lake)) == [1, 2, 3, 4, 5, 6]
    assert "v_idx" in [index["name"] for index in lake["t"].indexes()]


def test_a_table_that_was_created_and_indexed_goes(lake: quire.Lake) -> None:
    lake.create_table("t", rows(1, 2))
    created = lake.head
    commit(lake, lambda t: t.create_index("v"))

    lake.revert(created)

    assert lake.tables() == []


def test_an_overwrite_is_undone_after_upkeep(lake: quire.Lake) -> None:
    scattered(lake, None)
    before = values(lake)
    wrong = commit(lake, lambda t: t.overwrite(rows(9)))
    commit(lake, lambda t: t.create_index("v"))
    commit(lake, lambda t: t.drop_index("v_idx"))

    lake.revert(wrong)

    assert values(lake) == before


def test_an_index_made_since_is_not_lost_with_a_compaction(lake: quire.Lake) -> None:
    scattered(lake, None)
    wrong = commit(lake, lambda t: t.append(rows(7)))
    commit(lake, lambda t: t.create_index("v"))
    optimized(lake)

    lake.revert(wrong)

    assert list(values(lake)) == [1, 2, 3, 4, 5, 6]
    assert "v_idx" in [index["name"] for index in lake["t"].indexes()]


@KEYED
def test_rows_are_undone_after_a_compaction_and_other_changes(lake: quire.Lake, key: str | None) -> None:
    scattered(lake, key)
    wrong = commit(lake, lambda t: t.append(rows(7)))
    optimized(lake)
    commit(lake, lambda t: t.append(rows(8)))
    commit(lake, lambda t: t.delete("id = 1"))

    lake.revert(wrong)

    assert list(values(lake)) == [2, 3, 4, 5, 6, 8]


def test_equal_rows_that_were_compacted_are_not_told_apart(lake: quire.Lake) -> None:
    scattered(lake, None)
    wrong = commit(lake, lambda t: t.append(rows(7)))
    done = optimized(lake)
    commit(lake, lambda t: t.append(rows(7)))

    with pytest.raises(Conflict, match=f"was optimized by {done}"):
        lake.revert(wrong)
    lake.revert(wrong, resolve="theirs")
    assert list(values(lake)) == [1, 2, 3, 4, 5, 6]
