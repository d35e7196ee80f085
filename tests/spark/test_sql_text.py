"""Statements are cut where they end, whatever stands in them."""

from __future__ import annotations

import pytest

from quire.errors import InvalidInput
from quire.spark.sql_text import Clause, names, parsed


def test_a_merge_is_cut_into_its_clauses() -> None:
    found = parsed(
        """
        MERGE INTO `node:Person` AS t -- a comment; with WHEN
        USING (select *, 'on' as x from s where a in (1, 2)) AS s ON t.id = s.id and (t.a or s.b)
        WHEN MATCHED AND case when s.gone then true else false end THEN DELETE
        WHEN MATCHED THEN UPDATE SET t.name = concat(s.name, ', when'), n = case when s.n > 1 then 1 else 2 end
        WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, coalesce(s.name, ')'))
        WHEN NOT MATCHED BY SOURCE AND t.old THEN UPDATE SET n = 0;
        """
    )
    assert (found.kind, found.table, found.alias, found.source_alias) == ("merge", "node:Person", "t", "s")
    assert found.query == "(select *, 'on' as x from s where a in (1, 2))"
    assert found.condition == "t.id = s.id and (t.a or s.b)"
    assert found.clauses == (
        Clause("matched", "case when s.gone then true else false end", "delete"),
        Clause(
            "matched",
            None,
            "update",
            {"name": "concat(s.name, ', when')", "n": "case when s.n > 1 then 1 else 2 end"},
        ),
        Clause("new", None, "insert", {"id": "s.id", "name": "coalesce(s.name, ')')"}),
        Clause("left", "t.old", "update", {"n": "0"}),
    )
    star = parsed("merge into t using u on t.id = u.id when matched then update set * when not matched then insert *")
    assert (star.alias, star.query, star.source_alias) == ("t", "u", "u")
    assert [clause.values for clause in star.clauses] == [None, None]


def test_other_statements() -> None:
    made = parsed("create table if not exists t (id bigint primary key, d decimal(10,2) not null, primary key (d))")
    assert (made.columns, made.key) == (("id bigint", "d decimal(10,2) not null"), ("id", "d"))
    assert made.says == {"if not exists"}
    assert parsed("create or replace table t using quire as select 1 as a").query == "select 1 as a"
    assert parsed("insert into t (b, `a x`) values (1, ')')").columns == ("b", "a x")
    assert parsed("insert into t (select 1)").query == "(select 1)"
    assert parsed("insert into t replace where day = 1 select * from u").condition == "day = 1"
    assert parsed("update t as x set a = 1, x.b = 'WHERE' where c").values == {"a": "1", "b": "'WHERE'"}
    assert parsed("delete from t").condition is None
    assert parsed("/* a */ with a as (select 1) select * from a ;").kind == "query"
    assert names("select a.`b c` from A") == ["select", "a", "b c", "from", "a"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "grant all on t",
        "insert t values (1)",
        "update t where a",
        "merge into t using s on a",
        "merge into t using s on a when matched then insert *",
        "merge into t using (select 1 on a when matched then delete",
        "create table t",
        "create table t (a int) using parquet",
        "drop table a.b",
        "insert into t (a, b values (1)",
        "merge into t using s on a when not matched then insert (a, b) values (1)",
        "truncate table t where a",
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parsed(text)
    assert caught.value.next
