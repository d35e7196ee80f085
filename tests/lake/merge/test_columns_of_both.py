"""Both sides change columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.lake.merge.conftest import Fork, Statement, delete, insert, row, update
from tests.lake.merge.test_columns import SIDES, rows

import quire


def add(**columns: Any) -> Statement:
    return lambda tx: tx["t"].add_columns(columns)


def conflicts(fork: Fork) -> list[tuple[str, Any, tuple[str, ...]]]:
    return [(c.kind, c.key and c.key["id"], c.columns) for c in fork.lake.merge("exp", preview=True).conflicts]


@SIDES
@pytest.mark.parametrize("compacted", [False, True])
def test_columns_of_both_and_what_both_did_to_rows(fork: Fork, who: str, compacted: bool) -> None:
    one, other = (fork.ours, fork.theirs) if who == "ours" else (fork.theirs, fork.ours)
    one(add(c="a + 1"), update("id = 1", a=-1), delete("id = 5"), insert({**row(20), "c": 7}))
    other(add(d=pa.string()), update("id = 1", b=-1), update("id = 2", d="x"), insert({**row(30), "d": "y"}))
    other(delete("id = 6"))
    if compacted:
        fork.exp.optimize()
    assert conflicts(fork) == []
    assert fork.lake.merge("exp").outcome == "merged"
    found = rows(fork)
    assert sorted(found) == [1, 2, 3, 4, 7, 8, 20, 30]
    assert found[1] == {"id": 1, "a": -1, "b": -1, "c": 11, "d": None}
    assert found[2] == {"id": 2, "a": 20, "b": 20, "c": 21, "d": "x"}
    assert found[3] == {"id": 3, "a": 30, "b": 30, "c": 31, "d": None}
    assert found[20] == {**row(20), "c": 7, "d": None}
    assert found[30] == {**row(30), "c": None, "d": "y"}
    assert fork.lake.merge("exp").outcome == "up-to-date"
    fork.lake.revert("HEAD")
    assert {n for r in rows(fork).values() for n in r} == {"id", "a", "b", "c" if who == "ours" else "d"}


def test_the_cells_of_a_column_that_both_added_merge(fork: Fork) -> None:
    fork.ours(add(c=pa.int64()), update("id = 1", c=1), update("id = 2", c=2), update("id = 3", c=3))
    fork.theirs(add(c=pa.int64()), update("id = 2", c=-2), update("id = 3", c=3), update("id = 4", c=4))
    fork.ours(insert({**row(20), "c": 5}))
    fork.theirs(insert({**row(20), "c": None}), delete("id = 8"))
    assert conflicts(fork) == [("update-update", 2, ("c",))]
    fork.lake.merge("exp", resolve="theirs")
    assert {i: r["c"] for i, r in rows(fork).items()} == {1: 1, 2: -2, 3: 3, 4: 4, 5: None, 6: None, 7: None, 20: 5}


def test_a_column_of_one_side_is_no_change_of_a_row_that_the_other_removed(fork: Fork) -> None:
    fork.ours(add(c="a + 1"), delete("id = 1"))
    fork.theirs(add(d="a + 2"), delete("id = 2"), update("id = 1", a=0))
    assert conflicts(fork) == [("delete-update", 1, ("a",))]
    fork.lake.merge("exp", resolve="theirs")
    found = rows(fork)
    assert sorted(found) == [1, 3, 4, 5, 6, 7, 8]
    assert found[1] == {"id": 1, "a": 0, "b": 10, "c": None, "d": 12}


@SIDES
def test_a_column_is_dropped_or_renamed_beside_a_new_one(fork: Fork, who: str) -> None:
    one, other = (fork.ours, fork.theirs) if who == "ours" else (fork.theirs, fork.ours)
    one(lambda tx: tx["t"].drop_columns("b"), update("id = 1", a=0))
    other(add(c="a + 1"), lambda tx: tx["t"].rename_column("a", "x"), update("id = 2", x=0))
    assert conflicts(fork) == []
    fork.lake.merge("exp")
    assert [rows(fork)[i] for i in (1, 2, 3)] == [
        {"id": 1, "x": 0, "c": 11},
        {"id": 2, "x": 0, "c": 21},
        {"id": 3, "x": 30, "c": 31},
    ]


def test_names_that_two_columns_have_exchanged(fork: Fork) -> None:
    def exchange(tx: quire.Transaction) -> None:
        for old, new in (("a", "z"), ("b", "a"), ("z", "b")):
            tx["t"].rename_column(old, new)

    fork.ours(update("id = 1", a=-1), add(c="a + 1"))
    fork.theirs(exchange, update("id = 2", a=-2))
    fork.lake.merge("exp")
    assert [rows(fork)[i] for i in (1, 2)] == [
        {"id": 1, "a": 10, "b": -1, "c": 0},
        {"id": 2, "a": -2, "b": 20, "c": 21},
    ]


@pytest.mark.parametrize(
    ("ours", "theirs", "columns"),
    [
        (add(c=pa.int64()), add(c=pa.string()), ("c",)),
        (lambda tx: tx["t"].rename_column("a", "x"), lambda tx: tx["t"].rename_column("a", "y"), ("a",)),
        (lambda tx: tx["t"].rename_column("a", "c"), add(c=pa.int64()), ("c",)),
        (lambda tx: tx["t"].drop_columns("a"), lambda tx: tx["t"].rename_column("a", "y"), ("a",)),
        (lambda tx: (tx["t"].drop_columns("a"), tx["t"].add_columns({"c": "b"})), update("id = 1", a=0), ("a",)),
    ],
    ids=["types", "two new names", "one name for two", "dropped and renamed", "dropped and changed"],
)
def test_what_does_not_merge_is_named(fork: Fork, ours: Any, theirs: Any, columns: tuple[str, ...]) -> None:
    fork.ours(ours)
    fork.theirs(add(d=pa.int64()), theirs)
    before = fork.lake.head
    assert conflicts(fork) == [("schema", None, columns)]
    assert fork.lake.head == before
    fork.lake.merge("exp", resolve={"t": "theirs"})
    assert rows(fork) == {r["id"]: r for r in fork.exp["t"].to_pylist()}


def test_an_overwrite_beside_a_new_column(fork: Fork) -> None:
    fork.ours(lambda tx: tx["t"].overwrite([row(i) for i in (1, 2, 3)] + [row(40)]))
    fork.theirs(add(c="a + 1"), update("id = 1", b=0), insert({**row(20), "c": 1}))
    assert conflicts(fork) == []
    fork.lake.merge("exp")
    found = rows(fork)
    assert found[1] == {"id": 1, "a": 10, "b": 0, "c": 11}
    assert {i: r["c"] for i, r in found.items()} == {1: 11, 2: 21, 3: 31, 20: 1, 40: None}


@SIDES
def test_a_compaction_beside_a_new_column(fork: Fork, who: str) -> None:
    one, other = (fork.ours, fork.theirs) if who == "ours" else (fork.theirs, fork.ours)
    one(add(c="a + 1"), update("id = 1", b=0), update("id = 2", c=0))
    other(update("id = 3", a=0), delete("id = 4"))
    (fork.exp if who == "ours" else fork.lake).optimize()
    assert conflicts(fork) == []
    fork.lake.merge("exp")
    found = rows(fork)
    assert {i: (r["a"], r["b"], r["c"]) for i, r in found.items()} == {
        1: (10, 0, 11),
        2: (20, 20, 0),
        3: (0, 30, 31),
        **{i: (10 * i, 10 * i, 10 * i + 1) for i in range(5, 9)},
    }


def test_events_without_a_key_are_a_conflict_of_columns(fork: Fork) -> None:
    with fork.lake.transaction() as tx:
        tx.create_table("log", [{"v": 1}, {"v": 1}], format=fork.format)
    other = fork.lake.create_branch("other")
    for lake, name in ((fork.lake, "c"), (other, "d")):
        lake.transact(lambda tx, name=name: tx["log"].add_columns({name: "v"}))
    assert [(c.kind, c.table) for c in fork.lake.merge("other", preview=True).conflicts] == [("schema", "log")]


@pytest.mark.parametrize("columns", ["one", "both", "several bases"])
def test_blobs_keep_their_bytes(tmp_path: Path, columns: str) -> None:
    import lance

    schema = pa.schema([pa.field("id", pa.int64()), pa.field("a", pa.int64()), lance.blob_field("data")])
    data = pa.table([[1, 2, 3], [1, 2, 3], lance.blob_array([b"one", b"two", b"three"])], schema=schema)
    with quire.create(tmp_path / "lake", backfill=False) as lake:
        lake.create_table("t", data, key="id")
        exp = lake.create_branch("exp")
        if columns == "several bases":
            before = lake.create_branch("before")
            exp.transact(lambda tx: tx["t"].update(values={"a": 30}, where="id = 3") and None)
            lake.transact(lambda tx: tx["t"].update(values={"a": 10}, where="id = 1") and None)
            before.merge("main")
            lake.merge("exp")
            exp.merge("before")
            lake.transact(lambda tx: tx["t"].update(values={"a": 11}, where="id = 1") and None)
            exp.transact(lambda tx: tx["t"].update(values={"a": 31}, where="id = 3") and None)
        else:
            exp.transact(lambda tx: tx["t"].add_columns({"c": "a + 1"}))
            lake.transact(lambda tx: tx["t"].update(values={"a": 10}, where="id = 1") and None)
        if columns == "both":
            lake.transact(lambda tx: tx["t"].add_columns({"d": "a + 1"}))
        assert not lake.merge("exp", preview=True).conflicts
        lake.merge("exp")
        assert lake["t"].count() == 3
        state = lake._live.state.by_name("t")
        assert state is not None
        view = lake._core.format("lance").open(state.pin)
        for i, said in ((1, b"one"), (2, b"two"), (3, b"three")):
            cell = view.cell("data", ["id"], pa.table({"id": [i]}))
            assert cell is not None
            assert cell.read(0, cell.size) == said
