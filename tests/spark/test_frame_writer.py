"""`df.write.format("quire")`: the modes of Spark, new columns, rows that a condition replaces; one commit each."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import quire
import quire.spark
from quire.errors import InvalidExpression, InvalidInput, KeyConflict, SchemaMismatch, TableExists, Unsupported


def people(spark: Any, start: int, end: int, extra: str = "") -> Any:
    return spark.range(start, end).selectExpr("id", "concat('n', id) as name", *([extra] if extra else []))


def to(frame: Any, lake: quire.Lake, **options: Any) -> Any:
    return frame.write.format("quire").option("lake", lake.uri).options(**options)


def rows(lake: quire.Lake, table: str = "t") -> list[dict[str, Any]]:
    return sorted(quire.open(lake.uri)[table].to_pylist(), key=lambda row: row["id"])


def commits(lake: quire.Lake) -> int:
    return len(list(quire.open(lake.uri).log()))


def test_a_frame_makes_a_table_with_its_key_and_indexes_by_one_commit(lake: quire.Lake, spark: Any) -> None:
    before = commits(lake)
    to(people(spark, 0, 50), lake, key="ID", indexes="name, id:BTREE", message="first", author="ada").save("t")
    [last, *_] = list(lake.log())
    assert (commits(lake), last.message, last.author) == (before + 1, "first", "ada")
    made = lake["t"]
    assert (made.key, made.count(), made.schema.names) == (("id",), 50, ["id", "name"])
    assert sorted(index["columns"][0] for index in made.indexes()) == ["id", "name"]
    assert lake.verify().ok


def test_the_modes_are_those_of_spark(lake: quire.Lake, spark: Any) -> None:
    to(people(spark, 0, 3), lake).save("t")  # errorifexists is what Spark takes when nothing is said
    before = commits(lake)
    for mode in ("errorifexists", "error"):
        with pytest.raises(TableExists, match="already has a table 't'"):
            to(people(spark, 3, 5), lake).mode(mode).save("t")
    to(people(spark, 3, 5), lake).mode("ignore").save("t")
    assert (len(rows(lake)), commits(lake)) == (3, before)
    to(people(spark, 3, 5), lake).save("t", mode="append")
    assert [row["id"] for row in rows(lake)] == [0, 1, 2, 3, 4]
    to(people(spark, 7, 9), lake).mode("overwrite").save("t")
    assert [row["id"] for row in rows(lake)] == [7, 8]
    assert commits(lake) == before + 2
    for mode in ("append", "overwrite", "ignore"):
        to(people(spark, 0, 2), lake).mode(mode).option("table", f"new_{mode}").save()
        assert len(rows(lake, f"new_{mode}")) == 2
    assert spark.read.format("quire").option("lake", lake.uri).load("new_ignore").count() == 2


def test_columns_come_with_merge_schema_and_are_replaced_with_overwrite_schema(lake: quire.Lake, spark: Any) -> None:
    to(people(spark, 0, 2), lake, key="id").save("t")
    wider = people(spark, 2, 3, "cast(id as int) as age")
    with pytest.raises(SchemaMismatch, match="age") as caught:
        to(wider, lake).mode("append").save("t")
    assert "mergeSchema" in str(caught.value.next)
    to(wider, lake, mergeSchema=True).mode("append").save("t")
    to(people(spark, 3, 4).drop("name"), lake, mergeSchema="true").mode("append").save("t")
    assert [(row["name"], row["age"]) for row in rows(lake)] == [("n0", None), ("n1", None), ("n2", 2), (None, None)]
    to(people(spark, 9, 10), lake, missing="null").mode("overwrite").save("t")
    assert rows(lake) == [{"id": 9, "name": "n9", "age": None}]
    to(people(spark, 5, 6, "true as new").drop("name"), lake, overwriteSchema="true").mode("overwrite").save("t")
    assert rows(lake) == [{"id": 5, "new": True}]
    assert lake.snapshot()["t"].key == ("id",)


def test_replace_where_replaces_the_rows_of_a_condition_and_no_others(lake: quire.Lake, spark: Any) -> None:
    days = people(spark, 0, 6, "id div 3 as day")
    to(days, lake, key="id").save("t")
    before = commits(lake)
    new = spark.range(10, 12).selectExpr("id as ID", "'new' as name", "1L as day")
    to(new, lake, replaceWhere="day = 1").mode("overwrite").save("t")
    assert [(row["id"], row["day"]) for row in rows(lake)] == [(0, 0), (1, 0), (2, 0), (10, 1), (11, 1)]
    assert commits(lake) == before + 1
    with pytest.raises(InvalidInput, match=r"not among those that replaceWhere replaces \(day = 0\): .*'day': 1"):
        to(new, lake, replaceWhere="day = 0").mode("overwrite").save("t")
    with pytest.raises(KeyConflict, match="id=0"):  # a row with this key stays
        to(days.where("id = 0").withColumn("day", days.day + 1), lake, replaceWhere="day = 1").mode("overwrite").save(
            "t"
        )
    assert (len(rows(lake)), commits(lake)) == (5, before + 1)


def test_names_are_taken_as_the_session_takes_them(lake: quire.Lake, spark: Any) -> None:
    to(people(spark, 0, 1), lake, key="id").save("t")
    upper = people(spark, 1, 2).toDF("ID", "NAME")
    to(upper, lake).mode("append").save("t")
    assert rows(lake)[1] == {"id": 1, "name": "n1"}
    with pytest.raises(SchemaMismatch, match="no column 'ID'"):
        to(upper, lake, caseSensitive=True).mode("append").save("t")


def test_a_token_is_written_once(lake: quire.Lake, spark: Any) -> None:
    for _ in range(2):
        to(people(spark, 0, 3), lake, token="nightly:7").mode("append").save("t")
    assert len(rows(lake)) == 3


WRONG: dict[str, tuple[type[quire.QuireError], str, dict[str, str], str]] = {
    "an option": (InvalidInput, "Did you mean 'mergeSchema'", {"mergeShema": "true"}, "append"),
    "an option of reading": (InvalidInput, "for reading", {"columns": "id"}, "append"),
    "a flag": (InvalidInput, "Use true or false", {"mergeSchema": "maybe"}, "append"),
    "a mode of another": (InvalidInput, "for overwriting", {"replaceWhere": "id = 1"}, "append"),
    "two wishes": (InvalidInput, "or not at all", {"replaceWhere": "id = 1", "overwriteSchema": "true"}, "overwrite"),
    "another key": (InvalidInput, "the key id, not name", {"key": "name"}, "append"),
    "a condition": (InvalidExpression, "nix", {"replaceWhere": "nix = 1"}, "overwrite"),
    "an index": (InvalidInput, "no column 'nam' to index", {"indexes": "nam"}, "append"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_told_and_commits_nothing(lake: quire.Lake, spark: Any, what: str) -> None:
    error, said, options, mode = WRONG[what]
    lake.create_table("t", schema=pa.schema([("id", pa.int64()), ("name", pa.string())]), key="id")
    before = lake.head
    with pytest.raises(error, match=said) as caught:
        to(people(spark, 0, 1), lake, **options).mode(mode).save("t")
    assert caught.value.next
    assert quire.open(lake.uri).head == before


def test_partitions_are_refused_and_other_formats_go_their_way(lake: quire.Lake, spark: Any, tmp_path: Any) -> None:
    with pytest.raises(Unsupported, match="not partitioned"):
        to(people(spark, 0, 1), lake).partitionBy("name").save("t")
    people(spark, 0, 3).write.option("compression", "gzip").partitionBy("name").save(str(tmp_path / "p"), "parquet")
    assert spark.read.parquet(str(tmp_path / "p")).count() == 3
