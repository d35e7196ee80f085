"""Tables of a lake in Spark SQL: views of one commit, and statements that are one commit each."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import quire
import quire.spark
from quire.errors import InvalidInput, KeyConflict, SchemaMismatch, TableExists, Unsupported
from quire.spark import dml


@pytest.fixture
def filled(lake: quire.Lake) -> quire.Lake:
    lake.create_table("people", [{"id": i, "name": f"n{i}", "age": 20 + i} for i in range(6)], key="id")
    lake.create_table("plain", [{"id": i, "name": f"p{i}"} for i in range(3)])
    return lake


def rows(lake: quire.Lake, table: str = "people") -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in quire.open(lake.uri)[table].to_pylist())


def test_attached_tables_are_views_of_one_commit(filled: quire.Lake, spark: Any) -> None:
    demo = quire.spark.attach(spark, filled, "demo")
    assert demo.views == ["demo_people", "demo_plain"]
    query = "select count(*) as n from demo_people p join demo_plain q using (id) where p.age > 20"
    assert spark.sql(query).collect()[0]["n"] == 2
    first = demo.commit
    with filled.transaction() as tx:
        tx["people"].delete("id = 1")
        tx.drop_table("plain")
        tx.create_table("other", [{"id": 1}])
    assert spark.sql(query).collect()[0]["n"] == 2
    assert demo.refresh() == filled.head != first
    assert demo.views == ["demo_other", "demo_people"]
    assert not spark.catalog.tableExists("demo_plain")
    assert demo.travel(first) == first
    assert spark.sql(query).collect()[0]["n"] == 2
    done = demo.sql("delete from people where id = 2")
    assert isinstance(done, quire.spark.SqlResult)
    assert done.deleted == 1
    assert demo.commit == filled.head
    assert demo.sql("select count(*) as n from demo_people").collect()[0]["n"] == 4
    demo.detach()
    assert not spark.catalog.tableExists("demo_people")


def test_statements_are_one_commit_each(filled: quire.Lake, spark: Any) -> None:
    before = len(list(filled.log()))

    def run(statement: str, **options: Any) -> Any:
        return quire.spark.sql(spark, filled, statement, **options)

    assert run("create table ledger (id bigint primary key, name string, v double)", message="made").inserted == 0
    assert filled["ledger"].key == ("id",)
    assert run("insert into ledger values (1, 'a', 1), (2, 'b', 2.5)").inserted == 2
    assert run("insert into ledger (name, id) select name, id + 10 from people where age > 23").inserted == 2
    done = run("update ledger as x set name = upper(x.name), v = coalesce(v, 0) + 1 where id > 1", author="ada")
    assert (done.updated, done.receipt.commit) == (3, filled.head)
    gone = run("delete from ledger where id in (select id + 10 from people where age = 24)")
    assert gone.deleted == 1
    assert rows(filled, "ledger") == [(1, "a", 1.0), (2, "B", 3.5), (15, "N5", 1.0)]
    assert run("insert into ledger replace where id >= 2 values (3, 'c', 0)").deleted == 2
    assert run("insert overwrite ledger select 7L, 'z', double(0)").deleted == 2
    assert run("create or replace table ledger as select id, name from ledger").inserted == 1
    run("alter table ledger add columns (more int)")
    run("alter table ledger rename column more to less")
    run("alter table ledger drop column less")
    run("alter table ledger rename to u")
    assert rows(filled, "u") == [(7, "z")]
    assert run("truncate table u").deleted == 1
    run("drop table u")
    run("drop table if exists u")
    assert "u" not in filled.snapshot().tables()
    assert len(list(filled.log())) == before + 14
    frame = run("select p.name from people p join plain q using (id) where p.id > 1")
    assert [row["name"] for row in frame.collect()] == ["n2"]
    assert not spark.catalog.tableExists("people")


def test_a_merge_updates_deletes_and_inserts_in_one_commit(filled: quire.Lake, spark: Any) -> None:
    before = len(list(filled.log()))
    spark.createDataFrame(
        [(1, "one", None), (2, None, True), (9, "nine", None), (10, "ten", True)], "id long, name string, gone boolean"
    ).createOrReplaceTempView("changes_of_people")
    statement = """
        merge into people p using (select * from changes_of_people) c on p.id = c.id
        when matched and c.gone then delete
        when matched then update set name = c.name, age = p.age + 1
        when not matched and c.gone is null then insert (id, name, age) values (c.id, c.name, 0)
        when not matched by source and p.id > 4 then update set name = 'left'
    """
    done = quire.spark.sql(spark, filled, statement, token=quire.StreamToken("merge", 1))
    assert (done.inserted, done.updated, done.deleted) == (1, 2, 1)
    assert rows(filled) == [
        (0, "n0", 20),
        (1, "one", 22),
        (3, "n3", 23),
        (4, "n4", 24),
        (5, "left", 25),
        (9, "nine", 0),
    ]
    assert len(list(filled.log())) == before + 1
    assert quire.spark.sql(spark, filled, statement, token=quire.StreamToken("merge", 1)).repeated
    spark.catalog.dropTempView("changes_of_people")


def test_a_merge_refuses_a_source_that_meets_a_row_twice(filled: quire.Lake, spark: Any) -> None:
    before = filled.head
    twice = "(values (1, 'a'), (1, 'b'))"
    statement = f"merge into people p using {twice} s on p.id = s.col1 when matched then update set name = s.col2"
    with pytest.raises(KeyConflict, match="match the row of table 'people' with id=1"):
        quire.spark.sql(spark, filled, statement)
    with pytest.raises(Unsupported, match="no key"):
        quire.spark.sql(spark, filled, "merge into plain using people on plain.id = people.id when matched then delete")
    with pytest.raises(Unsupported, match="part of the key"):
        quire.spark.sql(spark, filled, "update people set id = id + 1")
    assert quire.open(filled.uri).head == before


def test_tables_without_a_key_take_the_conditions_of_the_lake(filled: quire.Lake, spark: Any) -> None:
    assert quire.spark.sql(spark, filled, "update plain set name = 'x' where id > 0").updated == 2
    assert quire.spark.sql(spark, filled, "delete from plain where id = 2").deleted == 1
    assert rows(filled, "plain") == [(0, "p0"), (1, "x")]
    with pytest.raises(Unsupported, match="subquery"):
        quire.spark.sql(spark, filled, "delete from plain where id in (select id from people)")


def test_a_statement_that_lost_runs_again_on_what_is_there_now(
    filled: quire.Lake, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rival comes between the rows that were read and the commit. Its change is not lost."""
    update, seen = dml._RUN["update"], []

    def beaten(tx: Any, said: Any) -> Any:
        done = update(tx, said)
        if not seen:
            with quire.open(filled.uri).transaction() as rival:
                rival["people"].update({"age": "age + 100"}, where="id = 1")
        seen.append(done)
        return done

    monkeypatch.setitem(dml._RUN, "update", beaten)
    quire.spark.sql(spark, filled, "update people set age = age * 2 where id = 1")
    assert len(seen) == 2
    assert rows(filled)[1] == (1, "n1", 242)


def test_what_is_wrong_is_told(filled: quire.Lake, spark: Any) -> None:
    spark.range(1).createOrReplaceTempView("plain")
    try:
        with pytest.raises(InvalidInput, match="'plain' of the lake has the name of a view"):
            quire.spark.sql(spark, filled, "select * from plain")
    finally:
        spark.catalog.dropTempView("plain")
    with pytest.raises(InvalidInput, match="no column 'nam'"):
        quire.spark.sql(spark, filled, "update people set nam = 'x'")
    with pytest.raises(SchemaMismatch, match="2 values for 3 columns"):
        quire.spark.sql(spark, filled, "insert into people values (1, 'a')")
    with pytest.raises(TableExists):
        quire.spark.sql(spark, filled, "create table people (id int)")
    with pytest.raises(InvalidInput, match="attached by a name"):
        quire.spark.attach(spark, filled, "")


def test_vectors_are_kept(lake: quire.Lake, spark: Any) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", pa.list_(pa.float32(), 2)), ("n", pa.int32())])
    lake.create_table(
        "docs", pa.table({"id": [1, 2], "v": [[1.0, 2.0], [3.0, 4.0]], "n": [0, 0]}, schema=schema), key="id"
    )
    quire.spark.sql(spark, lake, "update docs set n = id + 1 where v[0] > 2")
    assert lake.snapshot()["docs"].schema.equals(schema)
    assert rows(lake, "docs") == [(1, [1.0, 2.0], 0), (2, [3.0, 4.0], 3)]
