"""Reading a table at a commit: scans, counts, other libraries' frames, other processes."""

from __future__ import annotations

import json
import multiprocessing
import pickle
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import quire
from quire.errors import ColumnNotFound, InvalidExpression, InvalidInput, QuireError
from quire.store import metering

ROWS = 1000
PEOPLE = pa.table(
    {
        "id": pa.array(range(ROWS)),
        "name": [f"n{i}" for i in range(ROWS)],
        "city": [["Oslo", "Rome", None][i % 3] for i in range(ROWS)],
        "at": pa.array([{"x": i, "y": -i} for i in range(ROWS)]),
    }
)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> quire.Lake:
    """`people` in several fragments with some rows gone again, and `empty`."""
    lake = quire.create(tmp_path_factory.mktemp("reading") / "lake", backfill=False)
    with lake.transaction("first") as tx:
        tx.create_table("people", PEOPLE.slice(0, 400), key="id")
        tx.create_table("empty", schema=PEOPLE.schema)
    with lake.transaction("more") as tx:
        tx["people"].append(PEOPLE.slice(400))
        tx["people"].append([{"id": -1, "name": "gone", "city": None, "at": None}])
    with lake.transaction("less") as tx:
        tx["people"].delete("id < 0")
    return lake


@pytest.fixture
def people(lake: quire.Lake) -> quire.Table:
    return lake.snapshot()["people"]


def ids(rows: quire.Rows | pa.Table) -> list[int]:
    table = rows if isinstance(rows, pa.Table) else rows.to_arrow()
    return table["id"].to_pylist()


# -- scan -------------------------------------------------------------------------------------------------------------


def test_a_scan_gives_every_row_once(people: quire.Table) -> None:
    assert people.scan().to_arrow().equals(PEOPLE)
    assert people.to_arrow().equals(PEOPLE)
    assert people.schema.equals(PEOPLE.schema)


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        ("id >= 998", [998, 999]),
        ("name = 'n7' or id in (3, 5)", [3, 5, 7]),
        ("city is null and id < 6", [2, 5]),
        ("`id` between 10 and 11", [10, 11]),
        ('"at".x = 42', [42]),
        ("name like 'n99_'", list(range(990, 1000))),
        ("false", []),
        (pc.field("id") >= 998, [998, 999]),
        ((pc.field("city") == "Oslo") & (pc.field("id") < 4), [0, 3]),
        (pc.field("name").isin(["n1", "n2", "zzz"]), [1, 2]),
    ],
    ids=str,
)
def test_a_filter_is_sql_text_or_an_arrow_expression(people: quire.Table, filter: Any, expected: list[int]) -> None:
    assert ids(people.scan(filter=filter)) == expected
    assert people.count(filter) == len(expected)


def test_columns_are_chosen_and_ordered(people: quire.Table) -> None:
    assert people.scan(columns=["name", "id"], limit=1).to_pylist() == [{"name": "n0", "id": 0}]
    assert people.scan(columns=("id",), filter="city = 'Rome'", limit=2).to_pylist() == [{"id": 1}, {"id": 4}]
    assert people.scan(columns=["id"]).schema.names == ["id"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"limit": 3}, [0, 1, 2]),
        ({"limit": 0}, []),
        ({"limit": 5000}, list(range(ROWS))),
        ({"offset": 997}, [997, 998, 999]),
        ({"offset": 5000}, []),
        ({"offset": 398, "limit": 4}, [398, 399, 400, 401]),
        ({"offset": 1, "limit": 2, "filter": "city = 'Rome'"}, [4, 7]),
        ({"offset": 0, "limit": 1, "filter": pc.field("id") > 500}, [501]),
    ],
    ids=str,
)
def test_limit_and_offset_apply_after_the_filter(
    people: quire.Table, options: dict[str, Any], expected: list[int]
) -> None:
    assert ids(people.scan(**options)) == expected


def test_batches_come_in_the_size_asked_for(people: quire.Table) -> None:
    sizes = [batch.num_rows for batch in people.scan(batch_size=100)]
    assert max(sizes) <= 100
    assert sum(sizes) == ROWS


def test_rows_stream_and_are_read_once(people: quire.Table) -> None:
    rows = people.scan(batch_size=10)
    batches = iter(rows)
    assert next(batches).num_rows == 10
    assert sum(batch.num_rows for batch in batches) == ROWS - 10
    for again in (
        rows.to_arrow,
        rows.to_pylist,
        rows.to_pandas,
        rows.to_polars,
        lambda: list(rows),
        lambda: pa.table(rows),
    ):
        with pytest.raises(InvalidInput, match="already"):
            again()


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"columns": ["nme"]}, ColumnNotFound, "'nme'"),
        ({"columns": "name"}, InvalidInput, "Write ['name']."),
        ({"columns": ["id", "id"]}, InvalidInput, "id"),
        ({"limit": -1}, InvalidInput, "limit"),
        ({"offset": -1}, InvalidInput, "offset"),
        ({"limit": 1.5}, InvalidInput, "limit"),
        ({"batch_size": 0}, InvalidInput, "batch_size"),
        ({"filter": "nme = 'x'"}, InvalidExpression, "nme"),
        ({"filter": "id >"}, InvalidExpression, "id >"),
        ({"filter": "id + 1"}, InvalidExpression, "id + 1"),
        ({"filter": "id = 'x' and"}, InvalidExpression, "id = 'x' and"),
        ({"filter": pc.field("nme") == "x"}, InvalidExpression, "nme"),
        ({"filter": "cast(name as int) = 7"}, InvalidExpression, "'n0'"),
        ({"filter": 5}, InvalidInput, "int"),
    ],
    ids=str,
)
def test_a_scan_that_cannot_be_says_why(
    people: quire.Table, options: dict[str, Any], error: type[QuireError], says: str
) -> None:
    with pytest.raises(error) as caught:
        people.scan(**options).to_arrow()
    assert says in caught.value.message + (caught.value.next or "")
    assert "''" not in caught.value.message
    assert ".rs:" not in str(caught.value)
    assert caught.value.retryable is False


@pytest.mark.parametrize("filter", ["nme = 'x'", "id >", "", pc.field("nme") == 1])
def test_a_count_with_a_wrong_filter_says_why(people: quire.Table, filter: Any) -> None:
    with pytest.raises(InvalidExpression) as caught:
        people.count(filter)
    assert caught.value.retryable is False


def test_a_count_without_a_filter_costs_no_request(people: quire.Table) -> None:
    with metering() as meter:
        assert people.count() == ROWS
    assert (meter.total, meter.external) == (0, {})


def test_an_empty_table_has_columns_and_no_rows(lake: quire.Lake) -> None:
    empty = lake["empty"]
    assert empty.count() == empty.count("id > 0") == 0
    assert empty.to_arrow().equals(PEOPLE.schema.empty_table())
    assert empty.to_pylist() == []
    assert list(empty.to_pandas().columns) == PEOPLE.schema.names


# -- other libraries --------------------------------------------------------------------------------------------------


def test_arrow_pandas_polars_and_lists_hold_the_same_rows(people: quire.Table) -> None:
    assert people.to_pylist() == PEOPLE.to_pylist()
    assert pa.Table.from_pandas(people.to_pandas(), schema=PEOPLE.schema, preserve_index=False).equals(PEOPLE)
    assert people.to_polars().to_dicts() == PEOPLE.to_pylist()
    assert people.scan(limit=2).to_polars()["id"].to_list() == [0, 1]
    assert people.scan(limit=2).to_pandas()["id"].tolist() == [0, 1]


def test_anything_that_reads_arrow_streams_takes_a_table_and_rows(people: quire.Table) -> None:
    assert pa.table(people).equals(PEOPLE)
    assert pa.table(people.scan(limit=1)).num_rows == 1
    assert pl.DataFrame(people.scan(columns=["id"]))["id"].sum() == sum(range(ROWS))
    assert pa.RecordBatchReader.from_stream(people).read_all().num_rows == ROWS
    assert people.scan().to_reader().schema.equals(PEOPLE.schema)


def test_a_duckdb_relation_is_lazy_and_joins_in_the_users_connection(people: quire.Table) -> None:
    with duckdb.connect() as connection:
        connection.execute("create table mine as select 5 as id")
        relation = people.to_duckdb(connection)
        assert relation.filter("id > 990").aggregate("count(*)").fetchall() == [(9,)]
        assert (
            relation.set_alias("p").join(connection.table("mine").set_alias("m"), "p.id = m.id").fetchall()[0][1]
            == "n5"
        )
    assert people.to_duckdb().aggregate("max(id)").fetchall() == [(999,)]


# -- what a table says about itself -----------------------------------------------------------------------------------


def test_a_table_tells_its_name_key_version_and_commit(lake: quire.Lake) -> None:
    people, empty = lake["people"], lake["empty"]
    assert (people.name, people.key, people.version, people.commit) == ("people", ("id",), 3, "3.0")
    assert (empty.key, empty.version, empty.commit) == ((), 1, "1.0")
    assert people.id != empty.id
    assert repr(people).startswith("<Table 'people' version 3, 1000 rows>\n")


def test_describe_is_plain_data(lake: quire.Lake) -> None:
    about = json.loads(json.dumps(lake["people"].describe()))
    assert about["name"] == "people"
    assert (about["format"], about["rows"], about["version"], about["key"]) == ("lance", ROWS, 3, ["id"])
    assert about["bytes"] > 0
    assert about["columns"][0] == {"name": "id", "type": "int64", "nullable": True}
    assert about["indexes"] == []
    assert about["location"].startswith(f"tables/{about['id']}.lance")


def test_html_shows_columns_and_escapes_them(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    with lake.transaction("x") as tx:
        tx.create_table("t", pa.table({"<b>bold</b>": [1]}))
    html = lake["t"]._repr_html_()
    assert "&lt;b&gt;bold&lt;/b&gt;" in html
    assert "<b>bold</b>" not in html
    assert "int64" in html
    assert "not read" in lake["t"].scan()._repr_html_()


# -- staying at a commit ----------------------------------------------------------------------------------------------


def test_a_table_never_sees_anything_newer(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    with lake.transaction("one") as tx:
        tx.create_table("a", [{"v": 1}])
        tx.create_table("b", [{"v": 1}])
    old, table = lake.snapshot(), lake["a"]
    with lake.transaction("two") as tx:
        tx["a"].overwrite([{"v": 2}])
        tx.drop_table("b")
        tx.create_table("c", [{"v": 3}])
    assert (old.commit, old.tables(), old["a"].to_pylist(), old["b"].to_pylist()) == (
        "1.0",
        ["a", "b"],
        [{"v": 1}],
        [{"v": 1}],
    )
    assert table.to_pylist() == [{"v": 1}]
    assert old.sql("select a.v + b.v as s from a, b").to_pylist() == [{"s": 2}]
    assert lake.tables() == ["a", "c"]


def test_a_snapshot_is_a_mapping_of_names(lake: quire.Lake) -> None:
    snap = lake.snapshot()
    assert list(snap) == snap.tables() == ["empty", "people"]
    assert len(snap) == 2
    assert "people" in snap
    assert "peeple" not in snap
    assert 5 not in snap
    assert (snap.branch, snap.commit) == ("main", "3.0")
    assert repr(snap) == "<Snapshot 3.0 of 'main': 2 tables>"


# -- other processes --------------------------------------------------------------------------------------------------


def read_elsewhere(snapshot: quire.Snapshot, table: quire.Table) -> dict[str, Any]:
    return {
        "commit": snapshot.commit,
        "tables": snapshot.tables(),
        "sum": snapshot.sql("select sum(id) as s from people").to_pylist(),
        "rows": table.scan(filter="id >= 998", columns=["id"]).to_pylist(),
        "count": table.count(),
        "version": table.version,
    }


def test_snapshots_and_tables_can_be_sent_to_a_spawned_process(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    lake.create_table("people", PEOPLE)
    snap = lake.snapshot()
    with lake.transaction("later") as tx:
        tx["people"].delete("true")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        seen = pool.apply(read_elsewhere, (snap, snap["people"]))
    assert seen == {
        "commit": "1.0",
        "tables": ["people"],
        "sum": [{"s": sum(range(ROWS))}],
        "rows": [{"id": 998}, {"id": 999}],
        "count": ROWS,
        "version": 1,
    }


def test_a_pickled_snapshot_is_the_same_commit_and_read_only(lake: quire.Lake, tmp_path: Path) -> None:
    root = Path(lake.uri)
    before = sorted(p.relative_to(root) for p in root.rglob("*"))
    snap = pickle.loads(pickle.dumps(lake.snapshot()))
    assert (snap.commit, snap.branch, snap.tables()) == ("3.0", "main", ["empty", "people"])
    assert snap["people"].to_arrow().equals(PEOPLE)
    assert pickle.loads(pickle.dumps(snap["people"])).count() == ROWS
    assert sorted(p.relative_to(root) for p in root.rglob("*")) == before


def test_a_pickled_snapshot_of_a_branch_reads_the_branch(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    lake.create_table("t", [{"v": 1}])
    branch = lake.create_branch("exp")
    with branch.transaction("on the branch") as tx:
        tx["t"].append([{"v": 2}])
    snap = pickle.loads(pickle.dumps(branch.snapshot()))
    assert (snap.branch, snap["t"].to_pylist()) == ("exp", [{"v": 1}, {"v": 2}])
    assert lake["t"].to_pylist() == [{"v": 1}]


def test_what_cannot_be_sent_says_so_when_it_is_packed(lake: quire.Lake) -> None:
    tx = lake.transaction("open")
    for handle in (tx["people"], tx):
        with pytest.raises((QuireError, TypeError)):
            pickle.dumps(handle)
    tx.discard()


# -- inside a transaction ---------------------------------------------------------------------------------------------


def test_a_transaction_reads_its_own_writes_in_every_way(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    lake.create_table("t", [{"id": 1, "v": "a"}])
    with lake.transaction("x") as tx:
        table = tx["t"]
        table.append([{"id": 2, "v": "b"}])
        table.delete("id = 1")
        tx.create_table("u", [{"id": 2, "w": 5}])
        assert table.count() == 1
        assert table.count("id = 2") == 1
        assert table.to_pylist() == table.scan(filter="v = 'b'").to_pylist() == [{"id": 2, "v": "b"}]
        assert pa.table(table).num_rows == table.to_pandas().shape[0] == table.to_polars().height == 1
        assert tx.sql("select w from t join u using (id)").to_pylist() == [{"w": 5}]
        assert tx.tables() == ["t", "u"]
        assert "u" in tx
        assert lake["t"].to_pylist() == [{"id": 1, "v": "a"}]
