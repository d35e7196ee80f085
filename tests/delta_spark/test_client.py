"""Delta Spark reads and writes tables of a lake through `quire serve`, and is killed where it hurts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.delta_spark.conftest import DeltaSpark, Start
from tests.namespace.serving import served
from tests.server.web import Web

import quire
import quire.delta
from quire.testing.proxy import Proxy, Request

AT = "delta/demo"


def made(folder: Path) -> quire.Lake:
    lake = quire.create(folder, author="ada")
    with lake.transaction("tables") as tx:
        tx.create_table("orders", [{"id": n, "total": 10 * n} for n in (1, 2, 3)], key="id", format="delta")
        tx.create_table("totals", [{"id": 1, "total": 10}], format="delta")
        tx.create_table("people", [{"id": 1}])
    return lake


def content(lake: quire.Lake, table: str) -> dict[Any, Any]:
    lake.refresh()
    return {row["id"]: row["total"] for row in lake[table].to_pylist()}


def sound(lake: quire.Lake) -> None:
    lake.refresh()
    lake.backfill()
    assert lake.verify(deep=True).ok


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> quire.Lake:
    return made(tmp_path_factory.mktemp("delta-spark") / "lake")


@pytest.fixture(scope="module")
def web(lake: quire.Lake) -> Iterator[Web]:
    with served(lake) as web:
        yield web


@pytest.fixture(scope="module")
def spark(start: Start, web: Web) -> DeltaSpark:
    """One session for the tests that leave it whole."""
    return start(f"{web.url}/{AT}")


def test_it_finds_tables_and_reads_them(spark: DeltaSpark, lake: quire.Lake) -> None:
    assert spark.sql("show namespaces in lake") == [["default"]]
    assert [row[1] for row in spark.sql("show tables in lake.default")][:2] == ["orders", "totals"]
    assert "TABLE_OR_VIEW_NOT_FOUND" in spark.fails("select * from lake.default.people")
    assert spark.sql("select * from lake.default.orders order by id") == [[1, 10], [2, 20], [3, 30]]
    with lake.transaction("ours") as tx:
        tx["orders"].upsert([{"id": 4, "total": 40}])
    assert spark.sql("select count(*), sum(total) from lake.default.orders") == [[4, 100]]


def test_every_statement(spark: DeltaSpark, lake: quire.Lake) -> None:
    """INSERT, UPDATE, DELETE and MERGE on a table of the lake's own, with rows of the lake's between them."""
    with lake.transaction("a table") as tx:
        tx.create_table("goods", [{"id": n, "total": 10 * n} for n in (1, 2, 3)], key="id", format="delta")
    spark.sql("insert into lake.default.goods values (5, 50), (6, 60)")
    assert content(lake, "goods") == {1: 10, 2: 20, 3: 30, 5: 50, 6: 60}
    spark.sql("update lake.default.goods set total = total + 1 where id = 5")
    with lake.transaction("ours") as tx:
        tx["goods"].delete("id = 2")
    spark.sql("delete from lake.default.goods where id = 1")
    source = "(select * from values (3, 33), (7, 70) as rows(id, total))"
    spark.sql(
        f"merge into lake.default.goods t using {source} s on t.id = s.id when matched then update set total = s.total"
        " when not matched then insert *"
    )
    assert content(lake, "goods") == {3: 33, 5: 51, 6: 60, 7: 70}
    assert spark.sql("select id from lake.default.goods order by id") == [[3], [5], [6], [7]]
    assert spark.sql("select count(*) from lake.default.goods version as of 0") == [[3]]
    assert spark.sql("select count(*) from lake.default.goods version as of 1") == [[5]]
    assert "exists" in spark.fails("insert into lake.default.goods values (3, 0)"), "the key of the table holds"
    assert spark.sql("select count(*) from lake.default.goods") == [[4]]
    sound(lake)


def test_it_makes_tables(spark: DeltaSpark, lake: quire.Lake) -> None:
    spark.sql("create table lake.default.made (id bigint, total bigint, day string) using delta partitioned by (day)")
    spark.sql("insert into lake.default.made values (1, 10, 'Mon'), (2, 20, 'Tue')")
    spark.sql("alter table lake.default.made add columns (note string)")
    spark.sql("insert into lake.default.made values (3, 30, 'Tue', 'late')")
    assert [row["note"] for row in lake.snapshot()["made"].to_pylist()].count("late") == 1
    with lake.transaction("ours") as tx:
        tx["made"].update({"total": "total * 2"}, where="day = 'Tue'")
    assert spark.sql("select id, total from lake.default.made order by id") == [[1, 10], [2, 40], [3, 60]]
    spark.sql("create table lake.default.chosen using delta as select id, total from lake.default.made where id < 3")
    assert content(lake, "chosen") == {1: 10, 2: 40}
    spark.sql("drop table lake.default.chosen")
    assert "chosen" not in lake.snapshot().tables()
    sound(lake)


def test_streams(spark: DeltaSpark, lake: quire.Lake, tmp_path: Path) -> None:
    """New rows of one table go into another, each once, also of versions that are not published."""
    with lake.transaction("two") as tx:
        tx.create_table("source", [{"id": 1, "total": 10}], format="delta")
        tx.create_table("sink", {"id": [0], "total": [0]}, format="delta")
    step = {"stream": "lake.default.source", "into": "lake.default.sink", "checkpoint": str(tmp_path / "checkpoint")}
    for number in (2, 3):
        assert spark.ask(**step) == {"rows": []}
        with lake.transaction("more") as tx:
            tx["source"].append([{"id": number, "total": 10 * number}])
    assert spark.ask(**step) == {"rows": []}
    assert spark.ask(**step) == {"rows": []}
    lake.refresh()
    assert sorted(row["id"] for row in lake["sink"].to_pylist()) == [0, 1, 2, 3]
    sound(lake)


def test_tables_at_one_commit_and_in_one_transaction(start: Start, web: Web, lake: quire.Lake) -> None:
    """A session of its own each: Spark keeps what it knows of a table by its path."""
    lake.refresh()
    then, count = lake.head, lake["totals"].count()
    begun = web("POST", "/v1/lakes/demo/transactions", {"message": "by Spark"}, status=201).json["id"]
    with start(f"{web.url}/{AT}/txn/{begun}") as inside:
        inside.sql("insert into lake.default.totals values (8, 80)")
        inside.sql("insert into lake.default.orders values (8, 80)")
        assert lake.refresh() == then
        web("POST", f"/v1/lakes/demo/transactions/{begun}/commit")
    lake.refresh()
    assert (lake.log()[0].message, set(lake.log()[0].tables)) == ("by Spark", {"orders", "totals"})
    assert (content(lake, "orders")[8], content(lake, "totals")[8]) == (80, 80)
    with start(f"{web.url}/{AT}/at/{then}", "spark.databricks.delta.v2.enableMode=STRICT") as earlier:
        assert earlier.sql("select count(*) from lake.default.totals") == [[count]]
        earlier.fails("insert into lake.default.totals values (9, 90)")
    sound(lake)


def ratifies(table: str) -> Callable[[Request], bool]:
    return lambda request: request.method == "POST" and request.key.endswith(f"/tables/{table}")


def test_a_session_that_dies_between_staging_and_commit_changed_nothing(start: Start, tmp_path: Path) -> None:
    lake = made(tmp_path / "lake")
    with served(lake) as web, Proxy(web.url) as proxy:
        died = proxy.cut(ratifies("orders"), side="before", then_dead=True)
        with start(f"{proxy.endpoint}/{AT}") as spark:
            spark.tell(sql="insert into lake.default.orders values (9, 90)")
            proxy_met(died)
            spark.kill()
        staged = Path(lake.uri) / lake["orders"].describe()["location"] / "_delta_log" / "_staged_commits"
        assert [file for file in staged.iterdir() if file.name.endswith(".json")], "it had staged its commit"
        assert content(lake, "orders") == {1: 10, 2: 20, 3: 30}
        proxy.dead = False
        proxy.heal()
        with start(f"{proxy.endpoint}/{AT}") as spark:
            spark.sql("insert into lake.default.orders values (9, 91)")
        assert content(lake, "orders") == {1: 10, 2: 20, 3: 30, 9: 91}
        sound(lake)


def test_a_commit_whose_answer_is_lost_is_made_once(start: Start, tmp_path: Path) -> None:
    lake = made(tmp_path / "lake")
    with served(lake) as web, Proxy(web.url) as proxy, start(f"{proxy.endpoint}/{AT}") as spark:
        lost = proxy.cut(ratifies("totals"), side="after")
        spark.sql("insert into lake.default.totals values (9, 90)")
        assert lost.hits
        assert spark.sql("select count(*) from lake.default.totals") == [[2]]
        assert content(lake, "totals") == {1: 10, 9: 90}
        sound(lake)


def test_tables_that_are_read_by_their_folder(spark: DeltaSpark, lake: quire.Lake) -> None:
    """What the other dialect publishes is read without the catalog, and not written; a plain table is everybody's."""
    with lake.transaction("older") as tx:
        tx.create_table("older", [{"id": 1, "total": 10}], format="delta", options={"dialect": "managedCommit"})
    with lake.transaction("more") as tx:
        tx["older"].append([{"id": 2, "total": 20}])
    lake.backfill()
    folder = Path(lake.uri) / lake["older"].describe()["location"]
    assert spark.sql(f"select count(*) from delta.`{folder}`") == [[2]]
    assert "managedCommit" in spark.fails(f"insert into delta.`{folder}` values (3, 30)")
    owned = Path(lake.uri) / lake["orders"].describe()["location"]
    assert "CATALOG_MANAGED" in spark.fails(f"select count(*) from delta.`{owned}`")
    quire.delta.convert(lake, "older", "plain")
    spark.sql(f"insert into delta.`{folder}` values (3, 30)")
    lake.adopt("older")
    assert content(lake, "older") == {1: 10, 2: 20, 3: 30}
    quire.delta.convert(lake, "older")
    spark.sql("insert into lake.default.older values (4, 40)")
    assert content(lake, "older") == {1: 10, 2: 20, 3: 30, 4: 40}
    sound(lake)


def proxy_met(fault: Any, within: float = 300.0) -> None:
    import time

    until = time.monotonic() + within
    while not fault.hits:
        assert time.monotonic() < until, "the session never asked"
        time.sleep(0.05)
