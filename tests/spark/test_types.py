"""Types that Spark has not, and errors that executors raise, come out as in this process."""

from __future__ import annotations

import datetime as dt
import logging
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import quire
import quire.spark
from quire.errors import InvalidInput, KeyConflict, QuireError, StorageError
from quire.spark import jobs, types

TIME = dt.time(12, 13, 14, 123456)


@pytest.fixture
def lake(tmp_path: Path) -> quire.Lake:
    return quire.create(tmp_path / "lake")


def test_rows_are_found_by_key_beside_columns_of_any_type(spark: Any, lake: quire.Lake) -> None:
    beside = {"t": pa.time64("us"), "l": pa.list_(pa.uint64()), "s": pa.struct([("u", pa.uint64())])}
    schema = pa.schema([("id", pa.uint64()), *beside.items(), ("d", pa.duration("us")), ("w", pa.decimal256(50, 0))])
    large = 2**64 - 1
    row = {"t": TIME, "l": [1, large], "s": {"u": large}, "d": dt.timedelta(seconds=1), "w": Decimal(5)}
    lake.create_table("t", pa.Table.from_pylist([{"id": n, **row} for n in (1, 2, large)], schema), key="id")
    shown = quire.spark.table(spark, lake, "t", columns=[n for n in schema.names if n != "w"])
    fresh = shown.where("id = 1").selectExpr("cast(7 as decimal(20,0)) as id", "t", "l", "s", "d")
    with quire.spark.transaction(spark, lake) as tx:
        assert tx["t"].insert(fresh, missing="null") == 1
        again = shown.where("id = 2").selectExpr("*", "cast(6 as decimal(38,0)) as w")
        assert tx["t"].upsert(again) == {"inserted": 0, "updated": 1}
        assert tx["t"].delete(shown.where("id > 7").select("id")) == 1
    found = sorted(lake["t"].to_pylist(), key=lambda r: r["id"])
    assert found == [{"id": 1, **row}, {"id": 2, **row, "w": Decimal(6)}, {"id": 7, **row, "w": None}]
    with pytest.raises(KeyConflict), quire.spark.transaction(spark, lake) as tx:
        tx["t"].insert(fresh, missing="null")


@pytest.mark.skipif(not types._has_times(), reason="this Spark has no times of the day")
def test_times_of_the_day_go_both_ways(spark: Any, lake: quire.Lake) -> None:
    with quire.spark.transaction(spark, lake) as tx:
        tx.create_table("t", spark.sql("select 1L as id, TIME'12:13:14.123456' as c"))
    assert lake["t"].schema.field("c").type == pa.time64("us")
    assert lake["t"].to_pylist() == [{"id": 1, "c": TIME}]
    assert [row["c"] for row in quire.spark.table(spark, lake, "t").collect()] == [TIME]


def test_views_leave_out_what_spark_has_no_type_for(
    spark: Any, lake: quire.Lake, caplog: pytest.LogCaptureFixture
) -> None:
    wide = pa.array([Decimal(1)], pa.decimal256(50, 0))
    lake.create_table("some", pa.table({"id": [1], "w": wide}))
    lake.create_table("none", pa.table({"w": wide}))
    with caplog.at_level(logging.WARNING, "quire.spark"):
        assert quire.spark.views(spark, lake.snapshot(), prefix="v_") == ["v_some"]
    assert [record.args for record in caplog.records] == [("none", "w"), ("some", "w")]
    assert spark.sql("select * from v_some").collect() == [(1,)]


def test_views_that_would_replace_one_another_are_refused(spark: Any, lake: quire.Lake) -> None:
    lake.create_table("Docs", pa.table({"x": [1]}))
    lake.create_table("docs", pa.table({"x": [2]}))
    with pytest.raises(InvalidInput, match="'Docs' and 'docs'"):
        quire.spark.views(spark, lake.snapshot())
    assert quire.spark.views(spark, lake.snapshot(), tables=["docs"]) == ["docs"]
    assert spark.sql("select x from docs").collect() == [(2,)]


@pytest.mark.full
def test_an_upsert_of_some_columns_by_keys_that_are_not_unique_is_refused(spark: Any, lake: quire.Lake) -> None:
    lake.create_table("t", pa.table({"id": [1, 1, 2, 3, 3], "a": [1, 2, 3, 4, 5], "b": [1, 2, 3, 4, 5]}))
    with pytest.raises(KeyConflict) as here, lake.transaction() as local:
        local["t"].upsert(pa.table({"id": [1], "a": [9]}), on="id")
    with pytest.raises(KeyConflict) as there, quire.spark.transaction(spark, lake) as tx:
        tx["t"].upsert(spark.createDataFrame([(1, 9)], "id long, a long"), on="id")
    assert there.value.to_dict() == here.value.to_dict()
    with quire.spark.transaction(spark, lake) as tx:
        counts = tx["t"].upsert(spark.createDataFrame([(2, 9)], "id long, a long"), on="id")
    assert counts == {"inserted": 0, "updated": 1}


@pytest.mark.full
def test_keys_in_errors_are_told_alike(spark: Any, lake: quire.Lake) -> None:
    days = pa.table({"id": pa.array([dt.date(2026, 1, 1)])})
    lake.create_table("t", days, key="id")
    with pytest.raises(KeyConflict) as here, lake.transaction() as local:
        local["t"].insert(days)
    with pytest.raises(KeyConflict) as there, quire.spark.transaction(spark, lake) as tx:
        tx["t"].insert(spark.sql("select date'2026-01-01' as id"))
    assert there.value.to_dict() == here.value.to_dict()
    assert "id='2026-01-01'" in here.value.message


def test_what_a_task_fails_with_is_raised_as_what_it_was(spark: Any) -> None:
    def work(number: int) -> Any:
        raise StorageError("The store is\ndown.", next="Wait.", retryable=True, place="there")

    with pytest.raises(StorageError) as caught:
        jobs.on_numbers(spark, 1, work)
    assert caught.value.to_dict() == {
        "kind": "storage",
        "message": "The store is\ndown.",
        "next": "Wait.",
        "retryable": True,
        "place": "there",
    }
    assert caught.value.__cause__ is not None


@pytest.mark.full
def test_files_that_are_gone_are_told_alike(spark: Any, lake: quire.Lake) -> None:
    lake.create_table("gone", pa.table({"id": [1, 2]}), key="id")
    for file in Path(lake["gone"].parts()[0].uri, "data").iterdir():
        file.unlink()
    with pytest.raises(QuireError) as local, lake.transaction() as tx:
        tx["gone"].insert(pa.table({"id": [5]}))
    with pytest.raises(QuireError) as far, quire.spark.transaction(spark, lake) as other:
        other["gone"].insert(spark.createDataFrame([(5,)], "id long"))
    assert far.value.kind == local.value.kind


@pytest.mark.full
def test_the_token_of_a_write_is_read_as_on_the_command_line(spark: Any, lake: quire.Lake) -> None:
    lake.create_table("t", schema=pa.schema([("id", pa.int64())]), key="id")
    writer = spark.createDataFrame([(1,)], "id long").write.format("quire").option("lake", lake.uri).mode("append")
    for _ in range(2):
        writer.option("token", "job:1").save("t")
    assert lake["t"].count() == 1
    with pytest.raises(Exception, match="'job' is not a token"):
        writer.option("token", "job").save("t")
