"""Over Spark Connect, DataFrame code reads the columns and rows that it needs too, and gives the rows of Spark."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.budget import SEED, budget
from tests.spark.test_pushdown import POOL, predicate, table

import quire
import quire.spark
from quire.spark.connect_expressions import names_in, names_in_query
from quire.spark.connect_scans import SETTING

pytest.importorskip("grpc", reason="Spark Connect needs grpcio: pip install 'quire[spark]'")
__all__ = ["table"]


class _Sent:
    """A hook behind Quire's own, which sees what is sent."""

    def __init__(self) -> None:
        self.read: list[str] = []
        self.options: dict[str, str] = {}

    def on_execute_plan(self, request: Any) -> Any:
        said = str(request).replace('\\"', "'").replace("\\'", "'")
        self.read = re.findall(r'function_name: "(read [^\n]*|quire_scan[^\n]*)"', said)
        self.options = dict(re.findall(r'key: "(columns|[Ff]ilter)"\s+value: "([^\n]*)"', said))
        return request


@pytest.fixture(scope="module")
def remote(spark: Any) -> Iterator[Any]:
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession.builder.remote(
        f"sc://127.0.0.1:{spark.conf.get('spark.connect.grpc.binding.port')}"
    ).create()
    quire.spark.register(session)
    session.client._session_hooks.append(_Sent())
    yield session
    session.stop()


@pytest.fixture
def sent(remote: Any) -> _Sent:
    found: _Sent = remote.client._session_hooks[-1]
    found.read = []
    return found


def values(frame: Any) -> list[str]:
    return sorted(str(tuple(row)) for row in frame.collect())


Make = Callable[[Any, Any], Any]
NEARLY_ALL = "id, small, single, double, flag, day, instant, wall, money, u32, u64"
READ: dict[str, tuple[Make, list[str]]] = {
    "text": (lambda t, f: t.where("id = 3").select("day"), ["read t [id, day] where 'id' = 3"]),
    "columns": (
        lambda t, f: t.where((t.id > 5) & t.flag).select(t.day),
        ["read t [id, flag, day] where ('id' > 5) AND ('flag')"],
    ),
    "below a selection": (
        lambda t, f: t.select("id", "text").where(f.col("text").isin("a", "b")),
        ["read t [id, text] where 'text' IN ('a', 'b')"],
    ),
    "a count": (lambda t, f: t.where("small >= 7").groupBy().count(), ["read t [small] where 'small' >= 7"]),
    "only rows": (lambda t, f: t.groupBy().agg(f.expr("count(*) as n")), ["read t [flag]"]),
    "a product": (lambda t, f: t.selectExpr("small * double as x"), ["read t [small, double]"]),
    "a drop": (lambda t, f: t.drop("v", "text").where("id < 3"), [f"read t [{NEARLY_ALL}] where 'id' < 3"]),
    "behind a limit": (lambda t, f: t.limit(200).where("id = 3").select("id"), ["read t [id]"]),
    "a join": (
        lambda t, f: t.alias("a").join(t.where("id = 7").alias("b"), "id").select("a.text"),
        ["read t [id, text]", "read t [id, text] where 'id' = 7"],
    ),
    "what it does not know": (
        lambda t, f: t.where("text rlike 'a+' and id = 3").select("id"),
        ["read t [id, text] where 'id' = 3"],
    ),
    "other words for it": (lambda t, f: t.where('text = "a"').select("id"), ["read t [id, text]"]),
    "all": (lambda t, f: t.select("*"), ["quire_scan"]),
}


@pytest.mark.parametrize("what", READ)
def test_a_client_sends_narrow_scans(table: quire.Lake, remote: Any, sent: _Sent, what: str) -> None:
    from pyspark.sql.connect import functions as f

    make, expected = READ[what]
    frame = quire.spark.table(remote, table, "t")
    found = values(make(frame, f))
    assert [said.split(":")[0] for said in sent.read] == expected
    remote.conf.set(SETTING, "false")
    try:
        assert values(make(frame, f)) == found
        assert all(said.startswith("quire_scan") for said in sent.read)
    finally:
        remote.conf.unset(SETTING)


def test_the_format_is_told_by_its_options(table: quire.Lake, remote: Any, sent: _Sent) -> None:
    """Whoever runs the plan opens the lake; the client has only asked for the columns."""
    loaded = remote.read.format("quire").option("lake", table.uri).option("Filter", "id < 9").load("t")
    found = loaded.where("id > 5").select("id").collect()
    assert sent.options == {"columns": "id", "Filter": "(id < 9) AND ('id' > 5)"}
    assert sorted(row["id"] for row in found) == [6, 7, 8]


SHAPES: list[Make] = [
    lambda t, f: t.withColumn("id", f.expr("id + 1")).where("id = 3"),
    lambda t, f: t.select(f.expr("small as id"), "text").where("id = 7"),
    lambda t, f: t.orderBy("id").limit(5).where("id > 2"),
    lambda t, f: t.dropDuplicates(["small"]).groupBy().count(),
    lambda t, f: t.select("small").distinct(),
    lambda t, f: t.where("id < 9").union(t.where("id > 110")).select("id"),
    lambda t, f: t.alias("x").where("x.id = 3").select("x.id", f.expr("x.text")),
    lambda t, f: t.join(t.select("id", f.col("small").alias("other")), t.id == f.col("other"), "left").select("other"),
    lambda t, f: t.groupBy("flag").agg(f.sum("small"), f.max(f.struct("id", "text"))),
    lambda t, f: t.withColumnRenamed("id", "key").where("key = 3").select("key"),
    lambda t, f: t.toDF(*[f"c{i}" for i in range(13)]).where("c0 = 3"),
    lambda t, f: t.where("ID = 3").select("TEXT"),
    lambda t, f: t.select("id").where("id in (select max(id) from range(5))"),
    lambda t, f: t.groupBy("flag").pivot("small", [7, 0]).agg(f.count("id")),
    lambda t, f: t.fillna(0, ["small"]).where("small = 0").select("id"),
    lambda t, f: t.selectExpr("struct(*) as s").selectExpr("s.id", "s.text").where("id = 3"),
    lambda t, f: t.where(~(t.id == 3) & (f.lit(100) < t.id)).select(f.count("*")),
    lambda t, f: t.where(t.text.startswith("a") | t.day.isNull()).select("id"),
    lambda t, f: t.where(t.id.between(3, 6)).drop(t.text).sort(f.desc("id")).select("id"),
]


def test_every_shape_of_a_plan_gives_the_same_rows(table: quire.Lake, remote: Any) -> None:
    from pyspark.sql.connect import functions as f

    frame = quire.spark.table(remote, table, "t")
    narrow = [values(make(frame, f)) for make in SHAPES]
    remote.conf.set(SETTING, "false")
    try:
        assert narrow == [values(make(frame, f)) for make in SHAPES]
    finally:
        remote.conf.unset(SETTING)


def test_random_conditions_keep_the_rows_that_spark_keeps(table: quire.Lake, remote: Any, sent: _Sent) -> None:
    draw = random.Random(SEED)
    pushed = 0
    for _ in range(budget(2, full=40)):
        conditions = [predicate(draw) for _ in range(12)]
        frame = quire.spark.table(remote, table, "t")
        parts = [frame.where(text).selectExpr(f"{n} as n", "id") for n, text in enumerate(conditions)]
        whole = parts[0]
        for part in parts[1:]:
            whole = whole.unionAll(part)
        found = sorted((row["n"], row["id"]) for row in whole.collect())
        pushed += sum(" where " in said for said in sent.read)
        told = quire.spark.table(remote, table, "t", columns=["id", *POOL]).selectExpr(
            "id", *[f"{text} as c{n}" for n, text in enumerate(conditions)]
        )
        expected = sorted((n, row["id"]) for row in told.collect() for n in range(12) if row[f"c{n}"])
        assert not {conditions[n] for n, _ in set(found) ^ set(expected)}
    assert pushed, "hardly anything is pushed"


def test_queries_by_text_read_the_columns_that_they_mention(table: quire.Lake, remote: Any, sent: _Sent) -> None:
    """The server reads the text, so a query has views of its own. It shows its commit, whenever it runs."""
    first = quire.spark.sql(remote, table, "select count(text) as n from t where id >= 100")
    assert sent.read == []
    second = quire.spark.sql(remote, table, "select max(id) as top, count(*) as n from t")
    with table.transaction() as tx:
        tx["t"].delete("id >= 110")
    assert second.collect()[0].asDict() == {"top": 119, "n": 120}
    assert (
        first.collect()[0]["n"]
        == quire.spark.table(remote, table, "t", at="1.0").where("id >= 100 and text is not null").count()
    )
    assert not remote.catalog.tableExists("t")


def test_names_that_a_text_mentions() -> None:
    assert names_in("count(*) + a * `b c`") == {"count", "a", "b c"}
    assert names_in("struct(*)") is None
    assert names_in("count(distinct *)") is None
    assert names_in("t.*") is None
    assert names_in_query('select a, "b" from t where c > 1') >= {"a", "b", "c"}  # type: ignore[operator]
    for text in ("select * from t", "from t", "table t", "select a from t natural join u", "select a from (from t)"):
        assert names_in_query(text) is None, text
    assert names_in_query("from t |> where a > 1") is None
    assert names_in_query("select a, count(*) from t group by all") is not None
