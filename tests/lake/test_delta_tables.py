"""Delta tables in a lake: one commit with Lance tables, branches, history, SQL, upkeep."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import quire
from quire.store import Store


def rows(*ids: int, times: int = 10) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array([times * i for i in ids], pa.int64())})


def content(table: Any) -> dict[int, int]:
    return {row["id"]: row["v"] for row in table.to_pylist()}


@pytest.fixture
def lake(tmp_path: Path) -> quire.Lake:
    lake = quire.create(str(tmp_path / "lake"), backfill=False)
    with lake.transaction("both") as tx:
        tx.create_table("orders", rows(1, 2, 3), key="id", format="delta")
        tx.create_table("people", rows(1, 2), key="id")
    return lake


def log(lake: quire.Lake, table: str) -> tuple[Store, str]:
    entry = lake._live.state.by_name(table)
    assert entry is not None
    return lake._core.store, entry.pin.location


def published(lake: quire.Lake, table: str) -> list[int]:
    store, location = log(lake, table)
    names = (e.key.rsplit("/", 1)[1] for e in store.list(f"{location}/_delta_log") if "_staged" not in e.key)
    return [int(name[:20]) for name in names if name.endswith(".json") and name[0].isdigit()]


def test_both_kinds_of_tables_move_in_one_slot(lake: quire.Lake) -> None:
    before = lake.snapshot()
    with lake.transaction("sale") as tx:
        tx["orders"].upsert(rows(3, 4, times=7), on="id")
        tx["people"].append(rows(9))
    assert [c.id for c in lake.log()][:2] == [tx.receipt.commit, before.commit]
    assert {change.name for change in lake._live.history.commit(lake._live.state.head).changes} == {"orders", "people"}
    now = quire.open(lake.uri, read_only=True).snapshot()
    assert content(now["orders"]) == {1: 10, 2: 20, 3: 21, 4: 28}
    assert content(now["people"]) == {1: 10, 2: 20, 9: 90}
    assert content(before["orders"]) == {1: 10, 2: 20, 3: 30}


def test_a_transaction_that_fails_on_one_table_changes_none(lake: quire.Lake) -> None:
    def both(tx: quire.Transaction) -> None:
        tx["people"].append(rows(8))
        tx["orders"].insert(rows(2))

    with pytest.raises(quire.errors.KeyConflict):
        lake.transact(both)
    now = quire.open(lake.uri).snapshot()
    assert (content(now["orders"]), content(now["people"])) == ({1: 10, 2: 20, 3: 30}, {1: 10, 2: 20})


def test_sql_joins_both_kinds(lake: quire.Lake) -> None:
    found = lake.snapshot().sql("select sum(o.v) as s, count(*) as n from orders o join people p using (id)")
    assert found.to_pylist() == [{"s": 30, "n": 2}]


def test_every_version_is_a_commit_of_delta(lake: quire.Lake) -> None:
    with lake.transaction("more") as tx:
        tx["orders"].append(rows(4))
    with lake.transaction("less") as tx:
        tx["orders"].delete("id = 1")
    assert published(lake, "orders") == [0]
    assert {p.outcome for p in lake.backfill() if p.table == "orders"} == {"promoted"}
    assert published(lake, "orders") == [0, 1, 2]
    store, location = log(lake, "orders")
    first = [json.loads(line) for line in store.get(f"{location}/_delta_log/{0:020d}.json").splitlines()]
    assert next(iter(first[0])) == "commitInfo"
    times = []
    for version in range(3):
        actions = [json.loads(x) for x in store.get(f"{location}/_delta_log/{version:020d}.json").splitlines()]
        info = actions[0]["commitInfo"]
        assert info["txnId"]
        times.append(info["inCommitTimestamp"])
    assert times == sorted(set(times))
    told = next(a["protocol"] for a in first if "protocol" in a)
    assert (told["minReaderVersion"], told["minWriterVersion"]) == (3, 7)
    assert "catalogManaged" in told["readerFeatures"]
    with pytest.raises(Exception, match="[Mm]ax catalog version|catalogManaged"):
        DeltaTable(str(Path(lake.uri) / location)).to_pyarrow_table()


def test_branches_go_their_own_ways_and_come_back(lake: quire.Lake) -> None:
    lake.create_branch("exp")
    exp = lake.branch("exp")
    with exp.transaction("there") as tx:
        tx["orders"].append(rows(7))
    with exp.transaction("there again") as tx:
        tx["orders"].delete("id = 1")
    assert content(lake.snapshot()["orders"]) == {1: 10, 2: 20, 3: 30}
    lake.fast_forward("exp")
    assert content(lake.snapshot()["orders"]) == {2: 20, 3: 30, 7: 70}
    with lake.transaction("on") as tx:
        tx["orders"].append(rows(8))
    lake.backfill()
    assert published(lake, "orders") == [0, 1, 2, 3]
    assert lake.verify(deep=True).ok


def test_branches_are_merged_without_writing_rows_again(lake: quire.Lake) -> None:
    lake.create_branch("exp")
    exp = lake.branch("exp")
    with exp.transaction("there") as tx:
        tx["orders"].upsert(rows(1, 7, times=3), on="id")
    with lake.transaction("here") as tx:
        tx["orders"].delete("id = 2")
        tx["orders"].append(rows(8))
    store, location = log(lake, "orders")
    before = {e.key for e in store.list(location) if "/data/" in e.key}
    lake.merge("exp")
    assert content(lake.snapshot()["orders"]) == {1: 3, 3: 30, 7: 21, 8: 80}
    assert {e.key for e in store.list(location) if "/data/" in e.key} == before
    lake.optimize(["orders"])
    with exp.transaction("there") as tx:
        tx["orders"].update({"v": "0"}, where="id = 3")
    lake.merge("exp")
    assert content(lake.snapshot()["orders"]) == {1: 3, 3: 0, 7: 21, 8: 80}
    lake.backfill()
    assert lake.verify(deep=True).ok


def test_an_earlier_state_comes_back_as_a_new_version(lake: quire.Lake) -> None:
    first = lake.snapshot().commit
    with lake.transaction("a") as tx:
        tx["orders"].append(rows(4))
    with lake.transaction("b") as tx:
        tx["orders"].add_columns({"w": "v + 1"})
    lake.backfill()
    lake.restore(first, tables=["orders"])
    assert content(lake.snapshot()["orders"]) == {1: 10, 2: 20, 3: 30}
    assert lake.snapshot()["orders"].schema.names == ["id", "v"]
    with lake.transaction("c") as tx:
        tx["orders"].append(rows(5))
    assert {p.outcome for p in lake.backfill() if p.table == "orders"} == {"promoted"}
    assert published(lake, "orders") == [0, 1, 2, 3, 4]
    assert content(lake.snapshot()["orders"]) == {1: 10, 2: 20, 3: 30, 5: 50}
    assert lake.verify(deep=True).ok


def test_a_dropped_table_comes_back_where_its_log_ended(lake: quire.Lake) -> None:
    first = lake.snapshot().commit
    with lake.transaction("a") as tx:
        tx["orders"].append(rows(4))
    lake.backfill()
    with lake.transaction("drop") as tx:
        tx.drop_table("orders")
    lake.restore(first, tables=["orders"])
    assert content(lake.snapshot()["orders"]) == {1: 10, 2: 20, 3: 30}
    with lake.transaction("b") as tx:
        tx["orders"].append(rows(5))
    lake.backfill()
    assert published(lake, "orders") == [0, 1, 2, 3]
    assert lake.verify(deep=True).ok


def test_a_commit_is_reverted(lake: quire.Lake) -> None:
    with lake.transaction("wrong") as tx:
        tx["orders"].upsert(rows(1, 9, times=3), on="id")
    wrong = tx.receipt.commit
    with lake.transaction("right") as tx:
        tx["orders"].append(rows(5))
    lake.revert(wrong)
    assert content(lake.snapshot()["orders"]) == {1: 10, 2: 20, 3: 30, 5: 50}


def test_partitions(lake: quire.Lake) -> None:
    schema = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("land", pa.string())])
    days = [{"id": i, "day": dt.date(2026, 1, 1 + i % 2), "land": "é" if i % 3 else None} for i in range(6)]
    typed = pa.Table.from_pylist(days, schema)
    with lake.transaction("days") as tx:
        tx.create_table("days", typed, format="delta", options={"partition_by": ["day", "land"]})
    with lake.transaction("more") as tx:
        tx["days"].update({"land": "'x'"}, where="id = 0")
        tx["days"].delete("id = 5")
    found = quire.open(lake.uri).snapshot()["days"]
    expected = [r for r in typed.to_pylist() if r["id"] != 5]
    expected[0]["land"] = "x"
    assert sorted(found.to_pylist(), key=lambda r: r["id"]) == expected
    assert found.count("land is null") == 1
    for wrong in (["nowhere"], ["id", "day", "land"], ["id", "id"]):
        with pytest.raises(quire.errors.InvalidInput), lake.transaction("no") as tx:
            tx.create_table("no", typed, format="delta", options={"partition_by": wrong})


@pytest.mark.parametrize("options", [{"nothing": 1}, {"dialect": "mine"}])
def test_options_that_there_are_not(lake: quire.Lake, options: dict[str, Any]) -> None:
    with pytest.raises(quire.errors.InvalidInput), lake.transaction("no") as tx:
        tx.create_table("no", rows(1), format="delta", options=options)
    with pytest.raises(quire.errors.InvalidInput), lake.transaction("no") as tx:
        tx.create_table("no", rows(1), options={"partition_by": ["id"]})


def test_a_large_history_is_read_in_two_rounds(lake: quire.Lake) -> None:
    for i in range(40):
        with lake.transaction(f"{i}") as tx:
            tx["orders"].append(rows(100 + i))
    store, location = log(lake, "orders")
    assert len(list(store.list(f"{location}/_quire"))) == 1
    assert quire.open(lake.uri).snapshot()["orders"].count() == 43
    lake.backfill()
    assert published(lake, "orders") == list(range(41))


def test_upkeep(lake: quire.Lake) -> None:
    for i in range(4, 10):
        with lake.transaction(f"{i}") as tx:
            tx["orders"].append(rows(i))
    with lake.transaction("less") as tx:
        tx["orders"].delete("id = 4 or id = 1")
    lake.backfill()
    before = content(lake.snapshot()["orders"])
    lake.optimize()
    assert content(lake.snapshot()["orders"]) == before
    entry = lake._live.state.by_name("orders")
    assert entry is not None
    assert entry.pin.fragments == 1
    lake.backfill()
    lake.cleanup(older_than=0, keep=1)
    again = quire.open(lake.uri)
    assert content(again.snapshot()["orders"]) == before
    assert again.verify(deep=True).ok
    with again.transaction("on") as tx:
        tx["orders"].append(rows(50))
    again.backfill()
    assert content(again.snapshot()["orders"]) == {**before, 50: 500}


def test_damage_is_found(lake: quire.Lake) -> None:
    with lake.transaction("more") as tx:
        tx["orders"].append(rows(4))
    store, location = log(lake, "orders")
    [staged] = [e.key for e in store.list(f"{location}/_delta_log/_staged_commits")]
    store.put(staged, store.get(staged) + b"\n")
    report = lake.verify(deep=True)
    assert not report.ok
    assert "what was staged" in str(report.to_dict())


def test_rivals_are_followed_without_writing_rows_again(lake: quire.Lake) -> None:
    one, two = quire.open(lake.uri, backfill=False), quire.open(lake.uri, backfill=False)
    mine, theirs = one.transaction("mine"), two.transaction("theirs")
    mine["orders"].delete("id = 1")
    mine["people"].upsert(rows(7), on="id")
    theirs["orders"].upsert(rows(3, 6, times=5), on="id")
    theirs.commit()
    assert mine.commit().rebased > 0
    now = quire.open(lake.uri).snapshot()
    assert content(now["orders"]) == {2: 20, 3: 15, 6: 30}
    store, location = log(lake, "orders")
    assert len([e for e in store.list(location) if "/data/" in e.key]) == 2


def test_a_managed_commit_table_is_read_in_its_folder(tmp_path: Path) -> None:
    """The older dialect: a reader of the folder sees what was backfilled, and writers refuse."""
    lake = quire.create(str(tmp_path / "lake"), backfill=False)
    with lake.transaction("create") as tx:
        tx.create_table("orders", rows(1, 2, 3), key="id", format="delta", options={"dialect": "managedCommit"})
    with lake.transaction("change") as tx:
        tx["orders"].delete("id = 2")
        tx["orders"].append(rows(4))
    _, location = log(lake, "orders")
    uri = str(tmp_path / "lake" / location)
    assert content(DeltaTable(uri).to_pyarrow_table()) == {1: 10, 2: 20, 3: 30}
    lake.backfill()
    assert content(DeltaTable(uri).to_pyarrow_table()) == content(lake.snapshot()["orders"]) == {1: 10, 3: 30, 4: 40}
    with pytest.raises(Exception, match="managedCommit"):
        write_deltalake(uri, rows(9), mode="append")
