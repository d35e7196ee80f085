"""Tables as frames: the same rows and types as in this process, of one commit."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import quire
import quire.spark
from quire.errors import ColumnNotFound, InvalidExpression, InvalidInput, SchemaMismatch, TableNotFound, Unsupported

UTC = dt.UTC

EVERYTHING = pa.schema(
    [
        ("id", pa.int64()),
        ("small", pa.int8()),
        ("half", pa.int16()),
        ("int", pa.int32()),
        ("flag", pa.bool_()),
        ("single", pa.float32()),
        ("double", pa.float64()),
        ("text", pa.string()),
        ("large", pa.large_string()),
        ("bytes", pa.binary()),
        ("day", pa.date32()),
        ("instant", pa.timestamp("us", "UTC")),
        ("wall", pa.timestamp("us")),
        ("seconds", pa.timestamp("s")),
        ("money", pa.decimal128(20, 4)),
        ("vector", pa.list_(pa.float32(), 3)),
        ("tags", pa.list_(pa.string())),
        ("nested", pa.list_(pa.list_(pa.int32()))),
        ("point", pa.struct([("x", pa.float64()), ("y", pa.float64())])),
        ("u8", pa.uint8()),
        ("u32", pa.uint32()),
        ("u64", pa.uint64()),
        ("span", pa.duration("us")),
        ("u16", pa.uint16()),
        ("berlin", pa.timestamp("us", "Europe/Berlin")),
        ("millis", pa.timestamp("ms", "UTC")),
        ("exact", pa.decimal128(38, 10)),
        ("fixed", pa.binary(4)),
        ("blob", pa.large_binary()),
        ("halves", pa.float16()),
        ("doubles", pa.list_(pa.float64(), 2)),
        ("bytes_vector", pa.list_(pa.uint8(), 2)),
        ("long", pa.large_list(pa.int32())),
        ("people", pa.list_(pa.struct([("name", pa.string()), ("age", pa.uint32())]))),
        ("deep", pa.struct([("inner", pa.struct([("xs", pa.list_(pa.int32())), ("at", pa.date32())]))])),
        ("counts", pa.map_(pa.string(), pa.int64())),
    ]
)

FULL: dict[str, Any] = {
    "id": 1,
    "small": -128,
    "half": 32767,
    "int": -(2**31),
    "flag": True,
    "single": 0.5,
    "double": 1e300,
    "text": "grüße 🦆 'quoted'",
    "large": "x" * 1000,
    "bytes": b"\x00\xff",
    "day": dt.date(1582, 10, 15),
    "instant": dt.datetime(2026, 3, 29, 1, 30, 0, 123456, UTC),
    "wall": dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
    "seconds": dt.datetime(2000, 2, 29, 12, 0, 0),
    "money": Decimal("1234567890123456.7891"),
    "vector": [1.0, -2.0, 3.5],
    "tags": ["a", None, ""],
    "nested": [[1, 2], [], None],
    "point": {"x": 1.0, "y": None},
    "u8": 255,
    "u32": 2**32 - 1,
    "u64": 2**64 - 1,
    "span": dt.timedelta(days=-3, microseconds=7),
    "u16": 2**16 - 1,
    "berlin": dt.datetime(2026, 10, 25, 0, 30, tzinfo=UTC),
    "millis": dt.datetime(1900, 1, 1, 0, 0, 0, 7000, UTC),
    "exact": Decimal("-1234567890123456789012345678.0123456789"),
    "fixed": b"\x00abc",
    "blob": b"\xff" * 100,
    "halves": 1.5,
    "doubles": [0.1, -1e300],
    "bytes_vector": [0, 255],
    "long": [1, None, 3],
    "people": [{"name": "Ada", "age": 2**32 - 1}, None, {"name": None, "age": None}],
    "deep": {"inner": {"xs": [1, None], "at": dt.date(2000, 1, 1)}},
    "counts": [("a", 1), ("b", None)],
}
EMPTY = {**dict.fromkeys(FULL), "id": 2}


@pytest.fixture
def everything(lake: quire.Lake) -> quire.Lake:
    lake.create_table("every", pa.Table.from_pylist([FULL, EMPTY], schema=EVERYTHING))
    return lake


def test_every_type_goes_through_spark_and_back(everything: quire.Lake, spark: Any) -> None:
    frame = quire.spark.table(spark, everything, "every")
    assert frame.columns == EVERYTHING.names
    with quire.spark.transaction(spark, everything) as tx:
        tx.create_table("copy", frame, schema=EVERYTHING)
    assert everything["copy"].schema.equals(EVERYTHING)
    copied = everything["copy"].to_arrow().sort_by("id")
    assert copied.equals(everything["every"].to_arrow().sort_by("id"))


def test_a_frame_without_rows_keeps_its_columns(everything: quire.Lake, spark: Any) -> None:
    empty = quire.spark.table(spark, everything, "every").where("id < 0")
    with quire.spark.transaction(spark, everything) as tx:
        tx.create_table("empty", empty, schema=EVERYTHING)
    assert everything["empty"].schema.equals(EVERYTHING)
    found = quire.spark.table(spark, everything, "empty")
    assert found.schema == quire.spark.table(spark, everything, "every").schema
    assert found.collect() == []


def test_values_are_what_spark_says_they_are(everything: quire.Lake, spark: Any) -> None:
    full, empty = quire.spark.table(spark, everything, "every").orderBy("id").collect()
    assert (full["text"], full["u64"], full["money"]) == (FULL["text"], Decimal(2**64 - 1), FULL["money"])
    assert (full["vector"], full["tags"], full["nested"]) == (FULL["vector"], FULL["tags"], FULL["nested"])
    assert (full["day"], full["wall"], full["span"]) == (FULL["day"], FULL["wall"], FULL["span"])
    assert full["point"].asDict() == FULL["point"]
    assert (full["fixed"], full["exact"], full["counts"]) == (FULL["fixed"], FULL["exact"], dict(FULL["counts"]))
    assert [p and p.asDict() for p in full["people"]] == FULL["people"]
    assert full["deep"].asDict(recursive=True) == FULL["deep"]
    assert all(value is None for name, value in empty.asDict().items() if name != "id")


def test_nanoseconds_that_spark_cannot_hold_are_refused(lake: quire.Lake, spark: Any) -> None:
    lake.create_table("t", pa.table({"at": pa.array([1001], pa.timestamp("ns"))}))
    with pytest.raises(Exception, match="cannot hold") as caught:
        quire.spark.table(spark, lake, "t").collect()
    assert SchemaMismatch.__name__ in str(caught.value)


def test_a_type_that_spark_lacks_is_named(lake: quire.Lake, spark: Any) -> None:
    lake.create_table("t", pa.table({"id": [1], "at": pa.array([1], pa.decimal256(50, 0))}))
    with pytest.raises(Unsupported, match="'at'"):
        quire.spark.table(spark, lake, "t")
    assert quire.spark.table(spark, lake, "t", columns=["id"]).count() == 1


# -- what is read ------------------------------------------------------------------------------------------------------


@pytest.fixture
def grown(lake: quire.Lake) -> quire.Lake:
    lake.create_table("t", [{"id": i, "name": f"n{i}"} for i in range(10)], key="id")
    for low in (10, 20, 30):
        with lake.transaction() as tx:
            tx["t"].append([{"id": i, "name": f"n{i}"} for i in range(low, low + 10)])
    with lake.transaction() as tx:
        tx["t"].delete("id % 2 = 1")
    return lake


def test_columns_and_filter_are_read_alone(grown: quire.Lake, spark: Any) -> None:
    frame = quire.spark.table(spark, grown, "t", columns=["name"], filter="id > 30 and name <> 'n34'")
    assert frame.columns == ["name"]
    assert sorted(row["name"] for row in frame.collect()) == ["n32", "n36", "n38"]
    assert quire.spark.table(spark, grown, "t", filter="id < 0").count() == 0


def test_a_frame_shows_one_commit_for_ever(grown: quire.Lake, spark: Any) -> None:
    frame = quire.spark.table(spark, grown, "t")
    with grown.transaction() as tx:
        tx["t"].delete("true")
    assert frame.count() == 20
    assert quire.spark.table(spark, grown, "t").count() == 0
    assert quire.spark.table(spark, grown, "t").schema == frame.schema


@pytest.mark.full
def test_an_earlier_commit_a_tag_and_a_time(grown: quire.Lake, spark: Any) -> None:
    grown.tag("first", at="1.0")
    when = grown.at(commit="2.0").time
    assert quire.spark.table(spark, grown, "t", at="1.0").count() == 10
    assert quire.spark.table(spark, grown.uri, "t", at="first").count() == 10
    assert quire.spark.table(spark, grown, "t", at=when).count() == 20
    assert quire.spark.table(spark, grown, "t", at=when.isoformat()).count() == 20
    assert quire.spark.table(spark, grown.at(commit="3.0"), "t").count() == 30


def test_what_cannot_be_read_is_told_before_a_task_starts(grown: quire.Lake, spark: Any) -> None:
    with pytest.raises(TableNotFound):
        quire.spark.table(spark, grown, "nix")
    with pytest.raises(ColumnNotFound):
        quire.spark.table(spark, grown, "t", columns=["nix"])
    with pytest.raises(InvalidExpression):
        quire.spark.table(spark, grown, "t", filter="nix = 1")
    with pytest.raises(InvalidInput):
        quire.spark.table(spark, grown, "t", columns="id")
    with pytest.raises(InvalidInput):
        quire.spark.table(spark, grown.snapshot(), "t", at="1.0")


def test_views_of_one_snapshot_join_as_one_commit(grown: quire.Lake, spark: Any) -> None:
    with grown.transaction() as tx:
        tx.create_table("node:Person", [{"id": 2, "city": "Ulm"}, {"id": 4, "city": "Bonn"}])
    names = quire.spark.views(spark, grown.snapshot())
    assert names == ["node:Person", "t"]
    with grown.transaction() as tx:
        tx["t"].delete("true")
    found = spark.sql("select name, city from t join `node:Person` using (id) order by name").collect()
    assert [tuple(row) for row in found] == [("n2", "Ulm"), ("n4", "Bonn")]
    assert quire.spark.views(spark, grown, prefix="now_") == ["now_node:Person", "now_t"]
    assert spark.sql("select count(*) as n from now_t").collect()[0]["n"] == 0


# -- by format ---------------------------------------------------------------------------------------------------------


def reader(spark: Any, lake: quire.Lake) -> Any:
    return spark.read.format("quire").option("lake", lake.uri)


def test_the_format_reads_one_table(grown: quire.Lake, spark: Any) -> None:
    frame = reader(spark, grown).load("t")
    assert sorted(row["id"] for row in frame.collect()) == list(range(0, 40, 2))
    assert frame.where("id = 8").count() == 1
    assert frame.count() == 20
    chosen = reader(spark, grown).option("columns", "name, id").option("filter", "id > 30").option("table", "t").load()
    assert chosen.columns == ["name", "id"]
    assert chosen.count() == 4
    assert reader(spark, grown).option("at", "1.0").load("t").count() == 10


@pytest.mark.full
def test_the_format_reads_a_branch(grown: quire.Lake, spark: Any) -> None:
    grown.create_branch("exp")
    with grown.branch("exp").transaction() as tx:
        tx["t"].delete("true")
    assert reader(spark, grown).option("branch", "exp").load("t").count() == 0
    assert reader(spark, grown).load("t").count() == 20


@pytest.mark.full
def test_the_format_reads_every_type(everything: quire.Lake, spark: Any) -> None:
    by_format = reader(spark, everything).load("every").orderBy("id").collect()
    assert by_format == quire.spark.table(spark, everything, "every").orderBy("id").collect()


def test_the_format_says_what_is_wrong(grown: quire.Lake, spark: Any, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="no table 'nix'"):
        reader(spark, grown).load("nix")
    with pytest.raises(Exception, match="no option 'colums'"):
        reader(spark, grown).option("colums", "id").load("t")
    with pytest.raises(Exception, match="needs the option table"):
        reader(spark, grown).load()
    with pytest.raises(Exception, match="There is no lake"):
        spark.read.format("quire").option("lake", str(tmp_path / "nix")).load("t")


def test_the_format_appends_in_one_commit(grown: quire.Lake, spark: Any) -> None:
    more = spark.range(100, 104).selectExpr("id", "concat('n', id) as name").repartition(3)
    more.write.format("quire").option("lake", grown.uri).option("message", "more").mode("append").save("t")
    assert grown.sql("select count(*) as n from t where id >= 100").to_pylist() == [{"n": 4}]
    assert next(iter(grown.log())).message == "more"
    with pytest.raises(Exception, match="already has a row with id="):
        more.write.format("quire").option("lake", grown.uri).mode("append").save("t")
    assert grown["t"].count() == 24


def test_the_format_overwrites(grown: quire.Lake, spark: Any) -> None:
    spark.range(3).selectExpr("id", "'x' as name").write.format("quire").option("lake", grown.uri).mode(
        "overwrite"
    ).save("t")
    assert sorted(grown["t"].to_pylist(), key=lambda r: r["id"]) == [{"id": i, "name": "x"} for i in range(3)]


def writer(frame: Any, lake: quire.Lake) -> Any:
    return frame.write.format("quire").option("lake", lake.uri)


@pytest.mark.full
@pytest.mark.sampled(1)
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_the_format_refuses_a_key_that_comes_twice(grown: quire.Lake, spark: Any, mode: str) -> None:
    before = grown.head
    twice = spark.createDataFrame([(70, "a"), (71, "b"), (70, "c")], "id long, name string").repartition(3)
    with pytest.raises(Exception, match="same key more than once: id=70"):
        writer(twice, grown).mode(mode).save("t")
    assert quire.open(grown.uri).head == before


def test_the_format_leaves_nothing_of_a_write_that_failed(grown: quire.Lake, spark: Any) -> None:
    def broken(batches: Any) -> Any:
        for batch in batches:
            yield batch
            raise RuntimeError("every attempt is over")

    before = grown.head
    rows = spark.range(200, 240, 1, 2).selectExpr("id", "'x' as name").mapInArrow(broken, "id long, name string")
    with pytest.raises(Exception, match="every attempt is over"):
        writer(rows, grown).mode("append").save("t")
    lake = quire.open(grown.uri)
    assert (lake.head, lake["t"].count()) == (before, 20)


def test_where_nobody_registered_the_source_itself_appends_and_overwrites(grown: quire.Lake, spark: Any) -> None:
    """As in the process in which a Connect server runs the function of a stream."""
    rows = spark.range(200, 201).selectExpr("id", "'x' as name")
    save = type(rows.write).save.__wrapped__
    save(writer(rows, grown).mode("append"), "t")
    assert grown["t"].count() == 21
    save(writer(rows, grown).mode("overwrite"), "t")
    assert grown["t"].to_pylist() == [{"id": 200, "name": "x"}]
    for mode in ("error", "ignore"):
        with pytest.raises(Exception, match="(?i)append.*overwrite"):
            save(writer(rows, grown).mode(mode), "t")
    with pytest.raises(Exception, match="filter of the format quire is not for writing"):
        save(writer(rows, grown).option("filter", "id > 1").mode("append"), "t")
    with pytest.raises(Exception, match="no table 'nix'"):
        save(writer(rows, grown).mode("append"), "nix")
    assert grown["t"].count() == 1


def test_a_token_makes_a_write_by_format_happen_once(grown: quire.Lake, spark: Any) -> None:
    grown.create_table("plain", schema=pa.schema([("id", pa.int64())]))
    token = quire.token()
    for _ in range(2):
        writer(spark.range(3), grown).option("token", token).mode("append").save("plain")
    assert grown["plain"].count() == 3


def test_a_large_table_is_not_sent_to_everybody_when_it_is_joined(lake: quire.Lake, spark: Any) -> None:
    """Spark decides by the size that it believes a frame to have."""
    lake.create_table("big", pa.table({"id": pa.array(range(2_000_000))}))
    lake.create_table("small", pa.table({"id": [1, 2, 3]}))
    big, small = (quire.spark.table(spark, lake, name) for name in ("big", "small"))

    def plan(frame: Any) -> str:
        return str(frame._jdf.queryExecution().toString())

    assert "BroadcastHashJoin" not in plan(big.join(big.selectExpr("id + 1 as id"), "id"))
    assert "BroadcastHashJoin" in plan(big.join(small, "id"))
    assert big.join(small, "id").count() == 3


def test_a_large_fragment_is_read_by_several_tasks(
    lake: quire.Lake, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deleted rows and filters count as they do in one process; an index looks through the fragment as a whole."""
    monkeypatch.setattr(quire.spark.read, "TASK_ROWS", 100)
    lake.create_table("t", pa.table({"id": range(1000), "half": [i // 2 for i in range(1000)]}), key="id")
    lake.create_table("few", pa.table({"id": range(30)}))
    with lake.transaction() as tx:
        tx["t"].delete("id % 3 = 0 and id > 500")
    there = quire.open(lake.uri)
    assert [rows for _, rows in there["t"].parts()[1]] == [833]
    frame = quire.spark.table(spark, there, "t")
    assert frame.rdd.getNumPartitions() == 2  # one per core
    assert frame.orderBy("id").toArrow().equals(there["t"].to_arrow().sort_by("id"))
    assert frame.where("half >= 400 and id % 2 = 0").count() == there["t"].count("half >= 400 and id % 2 = 0")
    assert [row["id"] for row in frame.where("half = 251").collect()] == [502, 503]
    assert quire.spark.table(spark, there, "few").rdd.getNumPartitions() == 1
    monkeypatch.setattr(quire.spark.read, "TASK_BYTES", there["t"].bytes // 8)
    assert 7 <= quire.spark.table(spark, there, "t").rdd.getNumPartitions() <= 10
    with lake.transaction() as tx:
        tx["t"].create_index("half")
    sought = quire.spark.table(spark, lake, "t", filter="half = 251")
    assert sought.rdd.getNumPartitions() == 1
    assert sorted(row["id"] for row in sought.collect()) == [502, 503]


def test_spark_expects_the_bytes_that_come(lake: quire.Lake, spark: Any) -> None:
    vectors = pa.array([[0.5] * 768] * 4000, pa.list_(pa.float32(), 768))
    lake.create_table("t", pa.table({"id": range(4000), "v": vectors}))

    def expected(frame: Any) -> int:
        return int(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())

    frame = quire.spark.table(spark, lake, "t")
    assert 8 << 20 < expected(frame) < 24 << 20  # so it is not sent whole to everybody, as a small one is
    assert expected(frame.select("id")) < 1 << 20
    assert expected(quire.spark.table(spark, lake, "t", columns=["id"])) < 1 << 20
