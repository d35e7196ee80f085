"""Data files that other processes wrote, taken over by a transaction. Here the other process is this one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import quire
from quire.errors import Conflict, DuplicateKeys, KeyConflict, SchemaMismatch, TransactionClosed, Unsupported
from quire.formats import Handed, MatchedRows, Place, task_table, tasks

ROWS = [{"id": i, "v": f"old {i}"} for i in range(10)]


@pytest.fixture
def lake(tmp_path: Path) -> quire.Lake:
    lake = quire.create(tmp_path)
    lake.create_table("t", ROWS, key="id")
    lake.create_table("plain", [{"id": 1, "v": "x"}])
    return lake


def written(table: Any, data: list[dict[str, Any]], **options: Any) -> tuple[str, ...]:
    output = tasks.Output(table.target(), table.name, **options)
    fragments, rows = tasks.write_rows(output, pa.Table.from_pylist(data).to_batches(max_chunksize=3))
    assert rows == len(data)
    return tuple(fragments)


def seek_of(ids: Sequence[int], calls: list[int] | None = None) -> Any:
    keys = pa.table({"id": pa.array(ids, pa.int64())})

    def seek(place: Place, fragments: Sequence[int] | None) -> MatchedRows:
        if calls is not None:
            calls.append(place.version)
        addresses, positions = task_table(place).find_keys(fragments, ["id"], keys)
        return MatchedRows(addresses, len(np.unique(positions)), tuple(keys.take(positions).to_pylist()))

    return seek


def rows(lake: quire.Lake, name: str = "t") -> dict[int, str]:
    return {row["id"]: row["v"] for row in lake[name].to_pylist()}


def test_rows_are_appended(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        table = tx["plain"]
        assert table.hand_in(Handed("append", written(table, [{"id": 2, "v": "y"}, {"id": 3, "v": None}]))) == 2
        assert table.count() == 3
    assert tx.receipt is not None
    assert tx.receipt.tables["plain"].added == 2
    assert lake["plain"].to_pylist()[1:] == [{"id": 2, "v": "y"}, {"id": 3, "v": None}]


def test_nothing_is_visible_or_changed_before(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        written(tx["plain"], [{"id": 2, "v": "y"}])
    assert tx.receipt is not None
    assert tx.receipt.commit is None
    assert rows(lake, "plain") == {1: "x"}


def test_an_upsert_replaces_what_is_found(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        table = tx["t"]
        fragments = written(table, [{"id": 3, "v": "new"}, {"id": 30, "v": "new"}])
        assert table.hand_in(Handed("upsert", fragments, ("id",), seek_of([3, 30]))) == 1
    found = rows(lake)
    assert found[3] == found[30] == "new"
    assert len(found) == 11


def test_an_insert_meets_a_row_that_is_there(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        handed = Handed("insert", written(tx["t"], [{"id": 3, "v": "new"}]), ("id",), seek_of([3]))
        with pytest.raises(KeyConflict, match="id=3"):
            tx["t"].hand_in(handed)
    assert rows(lake)[3] == "old 3"


def test_rows_are_deleted_by_key(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        assert tx["t"].hand_in(Handed("delete", (), ("id",), seek_of([1, 2, 99]))) == 2
    assert sorted(rows(lake)) == [0, 3, 4, 5, 6, 7, 8, 9]


def test_all_rows_are_replaced(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        table = tx["t"]
        fragments = written(table, [{"id": 5, "v": "only"}], mode="overwrite")
        assert table.hand_in(Handed("overwrite", fragments)) == 1
    assert rows(lake) == {5: "only"}
    with lake.transaction() as tx:
        tx["t"].overwrite([])
    assert rows(lake) == {}


def test_a_rebase_looks_only_at_what_rivals_wrote(lake: quire.Lake) -> None:
    calls: list[int] = []
    with lake.transaction() as tx:
        table = tx["t"]
        table.hand_in(Handed("upsert", written(table, [{"id": 3, "v": "new"}]), ("id",), seek_of([3], calls)))
        with quire.open(lake.uri).transaction() as rival:
            rival["t"].insert([{"id": 40, "v": "rival"}])
    assert tx.receipt is not None
    assert (tx.receipt.rebased, tx.receipt.replayed) == (1, 0)
    assert len(calls) == 2
    assert rows(lake) == {**{r["id"]: r["v"] for r in ROWS}, 3: "new", 40: "rival"}


def test_a_statement_is_run_again_where_a_rival_wrote_the_same_key(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        table = tx["t"]
        table.hand_in(Handed("upsert", written(table, [{"id": 4, "v": "new"}]), ("id",), seek_of([4])))
        with quire.open(lake.uri).transaction() as rival:
            rival["t"].upsert([{"id": 4, "v": "rival"}])
    assert tx.receipt is not None
    assert tx.receipt.replayed == 1
    assert rows(lake)[4] == "new"
    assert lake["t"].count() == 10


@pytest.mark.parametrize("told", [True, False])
def test_a_statement_that_would_count_otherwise_is_a_conflict_if_its_count_was_told(
    lake: quire.Lake, told: bool
) -> None:
    tx = lake.transaction()
    tx.counts_told = told
    table = tx["t"]
    handed = Handed("upsert", written(table, [{"id": 40, "v": "new"}]), ("id",), seek_of([40]))
    assert table.hand_in(handed) == 0
    with quire.open(lake.uri).transaction() as rival:
        rival["t"].insert([{"id": 40, "v": "rival"}])
    if told:
        with pytest.raises(Conflict, match="count") as caught:
            tx.commit()
        assert caught.value.retryable
    else:
        assert tx.commit().replayed == 1
    assert rows(lake)[40] == ("rival" if told else "new")
    assert lake["t"].count() == 11


def test_a_delete_by_key_takes_the_rows_that_were_there_when_it_ran(lake: quire.Lake) -> None:
    """Beside an upsert that has to run again, and by itself among rows that came since."""
    tx, beside = lake.transaction(), lake.transaction()
    for one in (tx, beside):
        assert one["t"].hand_in(Handed("delete", (), ("id",), seek_of([1, 40]))) == 1
    beside["t"].upsert([{"id": 2, "v": "mine"}])
    with quire.open(lake.uri).transaction() as rival:
        rival["t"].insert([{"id": 40, "v": "rival"}])
        rival["t"].upsert([{"id": 2, "v": "rival"}])
    lake.optimize()
    tx.commit()
    assert {1, 2, 40} & rows(lake).keys() == {2, 40}
    with pytest.raises(Conflict) as caught:
        beside.commit()
    assert caught.value.retryable


def test_rows_that_rest_on_others_are_not_run_again(lake: quire.Lake) -> None:
    tx = lake.transaction()
    table = tx["t"]
    fragments = written(table, [{"id": 3, "v": "old 3!"}])
    table.hand_in(Handed("upsert", fragments, ("id",), seek_of([3]), rests_on_base=True))
    with quire.open(lake.uri).transaction() as rival:
        rival["t"].upsert([{"id": 3, "v": "rival"}])
    with pytest.raises(Conflict) as caught:
        tx.commit()
    assert caught.value.retryable
    assert rows(lake)[3] == "rival"


def test_a_rival_changes_a_row_that_is_deleted_by_key(lake: quire.Lake) -> None:
    tx = lake.transaction()
    tx["t"].hand_in(Handed("delete", (), ("id",), seek_of([3])))
    with quire.open(lake.uri).transaction() as rival:
        rival["t"].upsert([{"id": 3, "v": "rival"}])
    with pytest.raises(Conflict):
        tx.commit()
    assert rows(lake)[3] == "rival"


def test_rivals_see_that_keys_were_written(lake: quire.Lake) -> None:
    """Whoever lost against such a commit looks at its rows, since it lists no keys."""
    tx = lake.transaction()
    tx["t"].insert([{"id": 40, "v": "slow"}])
    with quire.open(lake.uri).transaction() as quick:
        table = quick["t"]
        table.hand_in(Handed("insert", written(table, [{"id": 40, "v": "quick"}]), ("id",), seek_of([40])))
    with pytest.raises(KeyConflict):
        tx.commit()
    assert rows(lake)[40] == "quick"


def test_a_task_refuses_rows_that_do_not_fit(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        with pytest.raises(SchemaMismatch):
            written(tx["plain"], [{"id": "text", "v": "y"}])
        with pytest.raises(DuplicateKeys):
            written(tx["t"], [{"id": None, "v": "y"}], on=("id",))


def test_lists_become_vectors(tmp_path: Path) -> None:
    lake = quire.create(tmp_path)
    lake.create_table("t", schema=pa.schema([("v", pa.list_(pa.float32(), 2))]))
    lists = pa.table({"v": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.float32()))})
    with lake.transaction() as tx:
        for part in (lists, lists.slice(2), lists.slice(0, 1)):
            output = tasks.Output(tx["t"].target(), "t")
            tx["t"].hand_in(Handed("append", tuple(tasks.write_rows(output, part.to_batches())[0])))
    assert [r["v"] for r in lake["t"].to_pylist()] == [[1, 2], None, [3, 4], [3, 4], [1, 2]]
    wrong = pa.table({"v": pa.array([[1, 2, 3]], pa.list_(pa.float32()))})
    with pytest.raises(SchemaMismatch), lake.transaction() as tx:
        tasks.write_rows(tasks.Output(tx["t"].target(), "t"), wrong.to_batches())


def test_keys_alone_are_written_and_read(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        output = tasks.Output(tx["t"].target(), "t", ("id",))
        paths, count = tasks.write_keys(output, pa.table({"id": [5, 6]}).to_batches())
        assert count == 2
        assert tasks.all_keys(output.place, paths, ["id"]).to_pylist() == [{"id": 5}, {"id": 6}]
        assert tasks.write_keys(output, []) == ([], 0)


def test_a_lake_in_memory_has_no_place_for_others() -> None:
    lake = quire.create("memory://no-place")
    lake.create_table("t", [{"id": 1}])
    with pytest.raises(Unsupported, match="memory"), lake.transaction() as tx:
        tx["t"].target()


def test_a_transaction_that_is_over_takes_nothing(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        table = tx["plain"]
        fragments = written(table, [{"id": 2, "v": "y"}])
    with pytest.raises(TransactionClosed):
        table.hand_in(Handed("append", fragments))


def test_decimals_are_taken_wherever_they_lie(tmp_path: Path) -> None:
    from decimal import Decimal

    lake = quire.create(tmp_path)
    column = pa.array([Decimal("1.5"), None, Decimal("-2.25")], pa.decimal128(10, 2))
    raw = column.buffers()[1].to_pybytes()
    padded = [pa.py_buffer(b"\0" * lead + raw).slice(lead) for lead in (0, 4, 8, 12)]
    crooked = next(buffer for buffer in padded if buffer.address % 16)
    moved = pa.Array.from_buffers(column.type, 3, [column.buffers()[0], crooked])
    lake.create_table("t", schema=pa.schema([("d", column.type)]))
    with lake.transaction() as tx:
        batch = pa.RecordBatch.from_arrays([moved], names=["d"])
        fragments, _ = tasks.write_rows(tasks.Output(tx["t"].target(), "t"), [batch])
        tx["t"].hand_in(Handed("append", tuple(fragments)))
    assert lake["t"].to_arrow().column("d").to_pylist() == column.to_pylist()


def test_what_tasks_wrote_in_vain_is_cleaned_up(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        table = tx["plain"]
        output = tasks.Output(table.target(), "plain", ("id",))
        tasks.write_keys(output, pa.table({"id": [5]}).to_batches())
        task_table(output.place).write_beside(pa.table({"line": [1]}).to_batches())
        written(table, [{"id": 8, "v": "of an attempt that lost"}])
        table.hand_in(Handed("append", written(table, [{"id": 9, "v": "kept"}])))
    data = Path(output.place.uri) / "data"
    assert len(list(data.iterdir())) == 5
    for path in Path(lake.uri).rglob("*"):
        os.utime(path, (1_700_000_000, 1_700_000_000))  # long ago
    lake.cleanup(keep=1, older_than=0, grace=0)
    assert len(list(data.iterdir())) == 2
    assert lake.verify().findings == []
    assert rows(lake, "plain") == {1: "x", 9: "kept"}
