"""One side changes columns, the other rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.lake.merge.conftest import Fork, delete, insert, row, update

import quire

SIDES = pytest.mark.parametrize("who", ["ours", "theirs"])


def apart(fork: Fork, who: str, *columns: Any) -> Any:
    """One side runs these statements; the other is returned."""
    one, other = (fork.ours, fork.theirs) if who == "ours" else (fork.theirs, fork.ours)
    one(*columns)
    return one, other


def rows(fork: Fork) -> dict[int, dict[str, Any]]:
    with quire.open(fork.lake.uri, read_only=True) as fresh:
        return {r["id"]: r for r in fresh["t"].to_pylist()}


@SIDES
def test_an_added_column_keeps_its_values(fork: Fork, who: str) -> None:
    one, other = apart(fork, who, lambda tx: tx["t"].add_columns({"c": "a + 1"}))
    one(update("id = 3", b=-3))
    other(update("id = 1", a=-1), update("id = 3", a=-3), insert(row(20)), delete("id = 5"))
    assert fork.lake.merge("exp").outcome == "merged"
    found = rows(fork)
    assert found[1] == {**row(1, -1), "c": 11}
    assert found[2] == {**row(2), "c": 21}
    assert found[3] == {**row(3, -3, -3), "c": 31}
    assert found[20] == {**row(20), "c": None}
    assert 5 not in found
    assert len(found) == 8


@SIDES
def test_a_renamed_column_is_the_same(fork: Fork, who: str) -> None:
    one, other = apart(fork, who, lambda tx: tx["t"].rename_column("a", "x"))
    one(update("id = 2", x=-2))
    other(update("id = 1", a=-1), update("id = 2", b=7))
    assert fork.lake.merge("exp").outcome == "merged"
    found = rows(fork)
    assert found[1] == {"id": 1, "x": -1, "b": 10}
    assert found[2] == {"id": 2, "x": -2, "b": 7}


@SIDES
def test_a_dropped_column_goes_unless_the_other_side_changed_it(fork: Fork, who: str) -> None:
    _, other = apart(fork, who, lambda tx: tx["t"].drop_columns("b"))
    other(update("id = 1", a=-1), insert(row(20)))
    plan = fork.lake.merge("exp", preview=True)
    assert not plan.conflicts
    other(update("id = 2", b=-1))
    plan = fork.lake.merge("exp", preview=True)
    assert [(c.kind, c.columns) for c in plan.conflicts] == [("schema", ("b",))]
    plan.resolve("t", choose=who)  # type: ignore[arg-type]
    plan.commit()
    assert "b" not in fork.lake["t"].schema.names


@SIDES
def test_types_and_changes_of_both_are_conflicts(fork: Fork, who: str) -> None:
    _, other = apart(fork, who, lambda tx: tx["t"].alter_column("a", type=pa.float64()))
    other(update("id = 1", b=-1))
    plan = fork.lake.merge("exp", preview=True)
    assert [(c.kind, c.columns) for c in plan.conflicts] == [("schema", ("a",))]
    other(lambda tx: tx["t"].add_columns({"c": "a + 1"}))
    assert [(c.kind, c.columns) for c in fork.lake.merge("exp", preview=True).conflicts] == [("schema", ("a",))]


def test_a_column_and_nothing_else(fork: Fork) -> None:
    fork.theirs(lambda tx: tx["t"].add_columns({"c": "a + 1"}))
    fork.ours(lambda tx: tx["other"].insert([{"id": 2, "v": 2}]))
    fork.lake.merge("exp")
    assert rows(fork)[1]["c"] == 11


@SIDES
def test_rows_that_were_all_replaced_are_compared_by_key(fork: Fork, who: str) -> None:
    _, other = apart(fork, who, lambda tx: tx["t"].overwrite([row(i) for i in range(1, 5)] + [row(40)]))
    other(update("id = 1", a=-1), insert(row(20)), update("id = 8", a=-8))
    plan = fork.lake.merge("exp", preview=True)
    assert [(c.kind, c.key) for c in plan.conflicts] == [("delete-update", {"id": 8})]
    plan.resolve("t", 8, choose="delete")
    plan.commit()
    assert rows(fork) == {i: row(i, -1 if i == 1 else None) for i in (1, 2, 3, 4, 20, 40)}


@SIDES
def test_a_row_that_was_written_again_as_it_was_stays(fork: Fork, who: str) -> None:
    _, other = apart(fork, who, lambda tx: tx["t"].add_columns(pa.schema({"c": pa.int64()})))
    other(update("id = 4", a=40), update("id = 3", a=1))
    assert fork.lake.merge("exp").outcome == "merged"
    found = rows(fork)
    assert (found[4], found[3]) == ({**row(4), "c": None}, {**row(3, 1), "c": None})
    assert len(found) == 8
