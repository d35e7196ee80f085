"""Plain DataFrame code and SQL over views read the columns and rows that they need, and give the rows of Spark."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, InputPartition
from tests.budget import SEED, budget

import quire
import quire.spark
from quire.spark import scan_rule
from quire.spark.pushed_filters import pushed

KINDS = pa.schema(
    [
        ("id", pa.int64()),
        ("small", pa.int8()),
        ("text", pa.string()),
        ("single", pa.float32()),
        ("double", pa.float64()),
        ("flag", pa.bool_()),
        ("day", pa.date32()),
        ("instant", pa.timestamp("us", "UTC")),
        ("wall", pa.timestamp("us")),
        ("money", pa.decimal128(10, 2)),
        ("u32", pa.uint32()),
        ("u64", pa.uint64()),
        ("v", pa.list_(pa.float32(), 2)),
    ]
)
POOL: dict[str, list[Any]] = {
    "small": [-128, 0, 7, 127],
    "text": ["", "a", "ab", "Ab", "é", "\U0001f986", "a'b", "a%b", "b\\"],
    "single": [0.0, -0.0, 0.10000000149011612, 1.5, math.nan, math.inf, -math.inf],
    "double": [0.0, -0.0, 0.1, 1.5, math.nan, math.inf, -math.inf],
    "flag": [True, False],
    "day": [dt.date(1582, 10, 15), dt.date(1970, 1, 1), dt.date(2026, 2, 28)],
    "instant": [dt.datetime(2026, 3, 29, 1, 30, 0, 123456, dt.UTC), dt.datetime(1900, 1, 1, tzinfo=dt.UTC)],
    "wall": [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2026, 3, 29, 2, 30)],
    "money": [Decimal("-1.50"), Decimal("0.00"), Decimal("99999999.99")],
    "u32": [0, 2**32 - 1],
    "u64": [0, 2**63, 2**64 - 1],
}


@pytest.fixture
def table(lake: quire.Lake) -> quire.Lake:
    draw = random.Random(7)
    rows = [
        {"id": i, **{n: draw.choice([*values, None]) for n, values in POOL.items()}, "v": [0.5, i]} for i in range(120)
    ]
    lake.create_table("t", pa.Table.from_pylist(rows, schema=KINDS), key="id")
    return lake


def optimized(frame: Any) -> str:
    return str(frame._jdf.queryExecution().optimizedPlan().toString())


def read(frame: Any) -> list[str]:
    """What the scans of a plan read."""
    lines = [line.split("MapInArrow ", 1)[1] for line in optimized(frame).splitlines() if "MapInArrow" in line]
    return [line.rsplit("(", 1)[0] for line in lines]


@pytest.fixture
def frames(table: quire.Lake, spark: Any) -> dict[str, Any]:
    quire.spark.views(spark, table, prefix="pushed_")
    return {
        "frame": quire.spark.table(spark, table, "t"),
        "view": spark.table("pushed_t"),
        "format": spark.read.format("quire").option("lake", table.uri).load("t"),
    }


@pytest.mark.parametrize("face", ["frame", "view", "format"])
def test_a_query_reads_the_columns_and_rows_that_it_needs(frames: dict[str, Any], face: str) -> None:
    query = frames[face].where("id = 3 and text is not null or id = 4").select("day")
    assert read(query) == [
        'read t [id, text, day] where (("id" = 3) AND (NOT ("text" IS NULL))) OR ("id" = 4)',
    ]
    assert len(query.collect()) == 2
    counted = frames[face].where("small >= 7").groupBy().count()
    assert read(counted) == ['read t [small] where "small" >= 7']
    everything = frames[face].groupBy().count()
    assert read(everything) == ["read t [flag]"]  # any column would do, and this one is the narrowest
    assert everything.collect()[0][0] == 120


def test_it_is_what_the_options_would_have_read(table: quire.Lake, spark: Any) -> None:
    plain = quire.spark.table(spark, table, "t").where("id = 77").select("id")
    options = quire.spark.table(spark, table, "t", columns=["id"], filter='"id" = 77')
    assert read(plain) == ['read t [id] where "id" = 77']
    assert plain.collect() == options.collect()
    assert read(options.where("id > 5")) == ['read t [id] where ("id" = 77) AND ("id" > 5)']
    joined = quire.spark.table(spark, table, "t").alias("a").join(options.alias("b"), "id").select("a.text")
    assert sorted(read(joined)) == [
        'read t [id, text] where NOT ("id" IS NULL)',
        'read t [id] where ("id" = 77) AND (NOT ("id" IS NULL))',
    ]
    assert len(joined.collect()) == 1


def test_sql_subqueries_and_sets_are_narrowed(frames: dict[str, Any], spark: Any) -> None:
    many = ", ".join(str(i) for i in range(40))
    query = spark.sql(f"select count(text) from pushed_t where id in ({many}) and instant < timestamp'2000-01-01'")
    [said] = read(query)
    assert said.startswith("read t [id, text, instant] where (")
    assert "\"instant\" < TIMESTAMPTZ '2000-01-01 00:00:00+00:00'" in said
    assert '"id" IN (' in said
    inner = spark.sql("select id from pushed_t where id = (select max(small) from pushed_t where flag)")
    assert any(line.startswith("read t [small, flag] where") for line in read(inner)) or "Subquery" in optimized(inner)
    assert [row["id"] for row in inner.collect()] in ([7], [])


def test_sparks_ui_names_statements_and_tables(table: quire.Lake, spark: Any) -> None:
    with quire.spark.transaction(spark, table) as tx:
        tx["t"].delete(spark.range(3).selectExpr("id"))
        spark.sparkContext.setLocalProperty("spark.job.description", "mine")
        try:
            tx["t"].delete(spark.range(3, 4).selectExpr("id"))
        finally:
            spark.sparkContext.setLocalProperty("spark.job.description", None)
    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    found = [jobs.apply(i).description() for i in range(min(jobs.size(), 12))]
    said = [one.get() for one in found if one.isDefined()]
    assert "quire: delete t" in said
    assert "mine" in said
    assert spark.sparkContext.getLocalProperty("spark.job.description") is None


def test_it_can_be_turned_off(frames: dict[str, Any], spark: Any) -> None:
    spark.conf.set(scan_rule.SETTING, "false")
    try:
        query = frames["frame"].where("id = 3").select("id")
        assert "read t [" not in optimized(query)
        assert [row["id"] for row in query.collect()] == [3]
    finally:
        spark.conf.unset(scan_rule.SETTING)


def test_a_table_that_has_changed_is_read_as_before(table: quire.Lake, spark: Any) -> None:
    """The format opens its table anew. What the plan was made with may be gone by then."""
    frame = spark.read.format("quire").option("lake", table.uri).load("t").where("id < 2").select("small", "id")
    with table.transaction() as tx:
        tx["t"].append([{**dict.fromkeys(KINDS.names), "id": -1}])
    assert sorted(row["id"] for row in frame.collect()) == [-1, 0, 1]
    with table.transaction() as tx:
        tx["t"].drop_columns(["small"])
    with pytest.raises(Exception, match="SCHEMA_MISMATCH"):
        frame.select("small").collect()


def literal(column: str, value: Any) -> str:
    kind = {"double": "double", "single": "float"}.get(column)
    if kind is not None:
        return f"{kind}('{value!r}')"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, dt.datetime):
        return f"timestamp{'' if value.tzinfo else '_ntz'}'{value.replace(tzinfo=None).isoformat(sep=' ')}'"
    return f"date'{value}'" if isinstance(value, dt.date) else str(value)


def predicate(draw: random.Random, depth: int = 2) -> str:
    if depth and draw.random() < 0.6:
        return draw.choice(["({} and {})", "({} or {})", "not ({})"]).format(
            predicate(draw, depth - 1), predicate(draw, depth - 1)
        )
    column = draw.choice(list(POOL))
    one, two = (literal(column, draw.choice(POOL[column])) for _ in range(2))
    forms = [
        f"{column} {draw.choice(['=', '<>', '<', '<=', '>', '>=', '<=>'])} {one}",
        f"{one} {draw.choice(['=', '<', '>='])} {column}",
        f"{column} in ({one}, {two})",
        f"{column} is {draw.choice(['', 'not '])}null",
        f"{column} between {one} and {two}",
        "id % 3 = 0",
        f"coalesce({column} = {one}, false)",
    ]
    if column == "text":
        forms += [f"text like '{draw.choice(['a', 'A', 'é'])}%'", "text like '%b'", "contains(text, 'b')"]
    return draw.choice(forms)


def test_random_conditions_keep_the_rows_that_spark_keeps(table: quire.Lake, spark: Any) -> None:
    """All conditions of a round in one query: with what is pushed, and without."""
    draw = random.Random(SEED)
    for _ in range(budget(2, full=40)):
        conditions = [predicate(draw) for _ in range(12)]
        parts = [
            quire.spark.table(spark, table, "t").where(text).selectExpr(f"{number} as n", "id")
            for number, text in enumerate(conditions)
        ]
        whole = parts[0]
        for part in parts[1:]:
            whole = whole.unionAll(part)
        assert optimized(whole).count("read t [") >= 6, "hardly anything is pushed"
        found = sorted((row["n"], row["id"]) for row in whole.collect())
        spark.conf.set(scan_rule.SETTING, "false")
        try:
            held = quire.spark.table(spark, table, "t").cache()
            expected = sorted(
                (number, row["id"])
                for row in held.selectExpr("id", *[f"{text} as c{n}" for n, text in enumerate(conditions)]).collect()
                for number in range(len(conditions))
                if row[f"c{number}"]
            )
            held.unpersist()
        finally:
            spark.conf.unset(scan_rule.SETTING)
        wrong = {conditions[n] for n, _ in set(found) ^ set(expected)}
        assert not wrong


def test_what_another_spark_might_write_is_left_to_it() -> None:
    for text in ("[]", '[{"class": "x.And", "num-children": 2}]', '[{"class": "x.EqualTo", "num-children": 0}]'):
        assert pushed(text, {"id": pa.int64()}) is None


# -- why it is done this way -------------------------------------------------------------------------------------------


class _Leaky(DataSource):
    @classmethod
    def name(cls) -> str:
        return "leaky"

    def schema(self) -> str:
        return "a int"

    def reader(self, schema: Any) -> DataSourceReader:
        return _LeakyReader()


class _LeakyReader(DataSourceReader):
    wanted: Any = None

    def pushFilters(self, filters: Any) -> Iterator[Any]:
        for one in filters:
            if isinstance(one, EqualTo):
                self.wanted = one.value
            else:
                yield one

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: Any) -> Iterator[tuple[int]]:
        for value in range(10):
            if self.wanted in (None, value):
                yield (value,)


def test_canary_filters_that_spark_pushes_into_a_source_leak_into_later_queries(spark: Any) -> None:
    """When this fails, Spark has mended it, and `pushFilters` can take the place of the rule on Connect."""
    spark.dataSource.register(_Leaky)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = spark.read.format("leaky").load()
        assert frame.where("a = 3").count() == 1
        assert frame.count() == 1, "it is 10 rows"
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
