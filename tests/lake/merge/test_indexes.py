"""Indexes that one side has made are there after a merge, whichever side it is built on."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.lake.merge.conftest import Fork, Statement, insert, row, update
from tests.lake.merge.test_columns import SIDES

import quire


def index(column: str, kind: str = "BTREE") -> Statement:
    return lambda tx: tx["t"].create_index(column, kind=kind)


def indexes(lake: quire.Lake) -> dict[str, tuple[int, int]]:
    with quire.open(lake.uri, read_only=True) as fresh:
        found = fresh["t"].indexes()
    return {i["name"]: (i["rows_indexed"], i["rows_unindexed"]) for i in found}


@SIDES
@pytest.mark.parametrize("compacted", ["", "ours", "theirs"])
def test_indexes_of_both_beside_rows_of_both(fork: Fork, who: str, compacted: str) -> None:
    one, other = (fork.ours, fork.theirs) if who == "ours" else (fork.theirs, fork.ours)
    one(insert(row(20)), index("a"), update("id = 2", a=-2))
    other(index("b"), insert(row(30)), update("id = 1", a=-1))
    if compacted:
        (fork.lake if compacted == "ours" else fork.exp).optimize()
    assert not fork.lake.merge("exp", preview=True).conflicts
    fork.lake.merge("exp")
    assert indexes(fork.lake).keys() == {"a_idx", "b_idx"}
    for column, value, ids in (("a", -1, [1]), ("a", -2, [2]), ("a", 30, [3]), ("b", 300, [30]), ("b", 200, [20])):
        assert [r["id"] for r in fork.lake["t"].scan(filter=f"{column} = {value}").to_pylist()] == ids
    assert fork.lake["t"].count("a >= -2") == 10
    fork.lake.optimize()
    assert {unindexed for _, unindexed in indexes(fork.lake).values()} == {0}


@SIDES
@pytest.mark.parametrize("schema", [False, True])
def test_an_index_alone_beside_rows(fork: Fork, who: str, schema: bool) -> None:
    one, other = (fork.ours, fork.theirs) if who == "ours" else (fork.theirs, fork.ours)
    one(index("a"))
    other(update("id = 1", a=-1))
    if schema:
        other(lambda tx: tx["t"].add_columns({"c": "a + 1"}))
    files = fork.data_files()
    assert fork.lake.merge("exp").outcome == "merged"
    assert fork.data_files() == files
    assert indexes(fork.lake).keys() == {"a_idx"}
    assert [r["id"] for r in fork.lake["t"].scan(filter="a = -1").to_pylist()] == [1]
    assert fork.lake.merge("exp").outcome == "up-to-date"


def test_the_index_of_ours_stays_where_both_have_one_of_the_name(fork: Fork) -> None:
    fork.ours(index("a"), update("id = 1", a=-1))
    fork.theirs(lambda tx: tx["t"].create_index("b", name="a_idx"), update("id = 2", a=-2))
    fork.lake.merge("exp")
    [found] = fork.lake["t"].indexes()
    assert found["columns"] == ["a"]


def test_an_index_of_a_side_whose_columns_are_merged(fork: Fork) -> None:
    fork.ours(lambda tx: tx["t"].add_columns({"c": "a + 1"}), index("c"))
    fork.theirs(lambda tx: tx["t"].add_columns(pa.schema({"d": pa.int64()})), index("b"), update("id = 1", a=-1))
    fork.lake.merge("exp")
    assert indexes(fork.lake).keys() == {"b_idx", "c_idx"}
    assert [r["id"] for r in fork.lake["t"].scan(filter="b = 10").to_pylist()] == [1]


def test_events_without_a_key(fork: Fork) -> None:
    fork.lake.transact(lambda tx: tx.create_table("log", [{"v": 1}, {"v": 2}], format=fork.format) and None)
    other = fork.lake.create_branch("other")
    fork.lake.transact(lambda tx: tx["log"].append([{"v": 3}]) and None)
    with other.transaction() as tx:
        tx["log"].append([{"v": 4}])
        tx["log"].create_index("v")
    fork.lake.merge("other")
    assert [i["name"] for i in fork.lake["log"].indexes()] == ["v_idx"]
    assert [fork.lake["log"].count(f"v = {n}") for n in (1, 2, 3, 4, 5)] == [1, 1, 1, 1, 0]


def test_what_is_searched_is_found_before_and_after_optimizing(tmp_path: Any) -> None:
    def rows(low: int, high: int) -> list[dict[str, Any]]:
        return [{"id": i, "s": f"w{i % 7} text", "v": [float(i), 1.0]} for i in range(low, high)]

    schema = pa.schema({"id": pa.int64(), "s": pa.string(), "v": pa.list_(pa.float32(), 2)})
    with quire.create(tmp_path / "lake", backfill=False) as lake:
        lake.create_table("t", pa.Table.from_pylist(rows(0, 600), schema), key="id")
        exp = lake.create_branch("exp")
        with exp.transaction() as tx:
            tx["t"].insert(rows(1000, 1100))
            tx["t"].create_index("s", kind="INVERTED")
            tx["t"].create_index("v", kind="IVF_PQ", num_partitions=2, num_sub_vectors=1)
        lake.transact(lambda tx: tx["t"].insert(rows(2000, 2100)) and None)
        lake.transact(lambda tx: tx["t"].update(values={"s": "w1 other"}, where="id = 8") and None)
        lake.merge("exp")
        for _ in range(2):  # before and after the indexes are extended
            assert indexes(lake).keys() == {"s_idx", "v_idx"}
            found = lake["t"].search(text="w1", text_column="s", limit=1000).to_pylist()
            ids = [*range(600), *range(1000, 1100), *range(2000, 2100)]
            assert sorted(r["id"] for r in found) == [i for i in ids if i % 7 == 1]
            for wanted in (5, 1050, 2050):
                near = lake["t"].search(vector=[float(wanted), 1.0], vector_column="v", limit=3, refine=300).to_pylist()
                assert wanted in [r["id"] for r in near]
            lake.optimize()
