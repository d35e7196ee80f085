"""What an actor reads: every way in shows the same rows, columns and tables, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.policy.conftest import SECRETS, As

import quire
from quire.errors import BranchNotFound, ColumnNotFound, Denied, InvalidExpression, TableNotFound, Unsupported

SEEN = [
    {"id": 0, "name": "p0", "dept": "a", "ssn": "****0000"},
    {"id": 3, "name": "p3", "dept": "a", "ssn": "****0003"},
    {"id": 6, "name": "p6", "dept": "a", "ssn": "****0006"},
]

READS: dict[str, Callable[[quire.Lake, Path], Any]] = {
    "tables": lambda lake, _: lake.tables(),
    "names": lambda lake, _: [*lake.snapshot(), "salaries" in lake, len(lake.snapshot())],
    "rows": lambda lake, _: lake["people"].to_pylist(),
    "arrow": lambda lake, _: pa.table(lake["people"]).to_pylist(),
    "pandas": lambda lake, _: lake["people"].to_pandas().to_dict("records"),
    "polars": lambda lake, _: lake["people"].to_polars().to_dicts(),
    "duckdb": lambda lake, _: lake["people"].to_duckdb(duckdb.connect()).fetchall(),
    "head": lambda lake, _: lake["people"].head(100).to_pylist(),
    "filter": lambda lake, _: lake["people"].scan(filter="id >= 0").to_pylist(),
    "function": lambda lake, _: lake["people"].scan(filter="lower(name) like 'p%'", limit=100).to_pylist(),
    "expression": lambda lake, _: lake["people"].scan(filter=pc.field("id") >= 0).to_pylist(),
    "count": lambda lake, _: [lake["people"].count(), len(lake["people"]), lake["people"].count("id > 0")],
    "describe": lambda lake, _: {k: v for k, v in lake["people"].describe().items() if k not in ("id", "location")},
    "schema": lambda lake, _: [str(lake["people"].schema), repr(lake["people"]), lake["people"]._repr_html_()],
    "snapshot": lambda lake, _: lake.snapshot()._repr_html_(),
    "sql": lambda lake, _: lake.sql("select * from people").to_pylist(),
    "sql count": lambda lake, _: lake.snapshot().sql("select count(*), max(id), max(dept) from people").to_pylist(),
    "log": lambda lake, _: [(c.to_dict(), repr(c)) for c in lake.log()],
    "log of all parents": lambda lake, _: [c.to_dict() for c in lake.log(parents="all")],
    "show": lambda lake, _: lake.show("2.0").to_dict(),
    "at": lambda lake, _: lake.at(commit="1.0")["people"].to_pylist(),
    "diff": lambda lake, _: [
        (entry.to_dict(), entry.rows.added.to_pylist(), repr(entry)) for entry in lake.diff("0.0", "HEAD")
    ],
    "feed": lambda lake, _: [
        (block.to_dict(), [t.rows.to_pylist() for t in block.tables.values()]) for block in lake.changes("beginning")
    ],
    "net feed": lambda lake, _: [
        [t.rows.to_pylist() for t in block.tables.values()] for block in lake.changes("beginning", net=True)
    ],
    "baseline": lambda lake, _: [
        [t.rows.to_pylist() for t in block.tables.values()] for block in lake.changes("baseline")
    ],
    "history": lambda lake, _: [v.to_dict() for key in range(9) for v in lake.history("people", key)],
    "blame": lambda lake, _: [lake.history("people", key).blame() for key in range(9)],
    "branches": lambda lake, _: [b.to_dict() for b in lake.branches() if b.name != "trial"],
    "tags": lambda lake, _: lake.tags(),
    "requests": lambda lake, _: lake.requests.list("all"),
    "transaction": lambda lake, _: _in_transaction(lake),
}


def _in_transaction(lake: quire.Lake) -> Any:
    tx = lake.transaction()
    found = [
        tx.tables(),
        tx["people"].to_pylist(),
        tx["people"].count(),
        tx.sql("select * from people").to_pylist(),
        str(tx["people"].schema),
    ]
    tx.discard()
    return found


@pytest.mark.parametrize("read", READS)
def test_no_reader_shows_a_byte_of_what_is_hidden(read: str, act: As, tmp_path: Path) -> None:
    told = repr(READS[read](act("ada", "analyst"), tmp_path))
    assert [secret for secret in SECRETS if secret in told] == []


@pytest.mark.parametrize("read", ["rows", "arrow", "head", "filter", "function", "expression", "sql", "at"])
def test_the_rows_that_are_seen_are_all_there(read: str, act: As, tmp_path: Path) -> None:
    assert READS[read](act("ada", "analyst"), tmp_path) == SEEN


def test_counts_are_of_the_rows_that_are_seen(act: As) -> None:
    lake = act("ada", "analyst")
    assert READS["count"](lake, Path()) == [3, 3, 2]
    assert lake["people"].describe()["rows"] == 3
    assert lake.sql("select count(*) as n from people").to_pylist() == [{"n": 3}]
    assert [entry.added for entry in lake.diff("0.0", "HEAD", tables=["people"])] == [3]


def test_who_may_see_everything_sees_what_is_there(act: As) -> None:
    boss, plain = act("bob", "boss"), act("bob", "boss")["people"]
    assert boss.tables() == ["logs", "people", "salaries"]
    assert plain.count() == 9
    assert plain.bytes > 0
    assert plain.to_pylist()[1]["note"] == "S-note-1"
    assert [entry.message for entry in boss.log(limit=1)] == ["salaries go up"]


@pytest.mark.parametrize(
    "ask",
    [
        lambda lake, name: lake[name],
        lambda lake, name: lake.snapshot()[name],
        lambda lake, name: lake.sql(f"select * from {name}"),
        lambda lake, name: lake.history(name, 1),
        lambda lake, name: lake.transaction()[name],
        lambda lake, name: lake.transaction().drop_table(name),
        lambda lake, name: lake.export("/nowhere", tables=[name]),
    ],
)
def test_a_denied_table_looks_like_one_that_is_not_there(ask: Callable[..., Any], act: As) -> None:
    lake, told = act("ada", "analyst"), []
    for name in ("salaries", "celeries"):
        with pytest.raises(TableNotFound) as refused:
            ask(lake, name)
        told.append(str(refused.value.to_dict()).replace(name, "…"))
    assert told[0] == told[1]


def test_a_denied_branch_looks_like_one_that_is_not_there(act: As) -> None:
    lake, told = act("ada", "analyst"), []
    for name in ("private", "privata"):
        for ask in (lake.branch, lambda n: lake.at(commit=f"{n}:1.0"), lambda n: lake.diff(f"branch:{n}")):
            with pytest.raises(BranchNotFound) as refused:
                ask(name)
            told.append(str(refused.value.to_dict()).replace(name, "…"))
    assert told[:3] == told[3:]
    assert [branch.name for branch in lake.branches()] == ["main", "trial"]


def test_a_denied_column_looks_like_one_that_is_not_there(act: As) -> None:
    people, told = act("ada", "analyst")["people"], []
    for name in ("note", "nota"):
        for error, ask in (
            (ColumnNotFound, lambda n: people.scan(columns=["id", n])),
            (InvalidExpression, lambda n: people.scan(filter=f"{n} = 'x'")),
            (InvalidExpression, lambda n: people.count(f"{n} is null")),
        ):
            with pytest.raises(error) as refused:
                ask(name)
            told.append(str(refused.value.to_dict()).replace(name, "…"))
    assert told[:3] == told[3:]


@pytest.mark.parametrize(
    "query",
    [
        "select name from people where ssn = '123450003'",
        "select name from people order by ssn",
        "select ssn, count(*) from people group by ssn",
        "select a.name from people a join people b on a.ssn = b.ssn",
        "select a.name from people a join people b using (ssn)",
        "select a.name from people a natural join people b",
        "select x from (select ssn as x from people) where x > '1'",
        "select upper(ssn) from people",
        "with t as (select ssn from people) select * from t",
    ],
)
def test_nothing_is_found_sorted_grouped_or_joined_by_a_masked_column(query: str, act: As) -> None:
    with pytest.raises(Denied, match="masked"):
        act("ada", "analyst").sql(query)


@pytest.mark.parametrize("filter", ["ssn = '123450003'", "ssn like '%3'", pc.field("ssn") == "123450003"])
def test_no_filter_takes_a_masked_column(filter: Any, act: As) -> None:
    with pytest.raises(Denied, match="masked"):
        act("ada", "analyst")["people"].scan(filter=filter)


@pytest.mark.parametrize("evil", ["true) or (true", "true -- ", "true or true", "1=1 /* ", "id > 0); select 1"])
def test_a_filter_cannot_lift_the_rule_for_rows(evil: str, act: As) -> None:
    try:
        found = act("ada", "analyst")["people"].scan(filter=evil).to_pylist()
    except InvalidExpression:
        return
    assert found == [row for row in SEEN if row in found]


def test_a_page_of_a_filter_that_only_duckdb_understands(act: As) -> None:
    people = act("ada", "analyst")["people"]
    some = people.scan(filter="lower(name) like 'p%'", columns=["id"], limit=1, offset=1)
    assert some.to_pylist() == [{"id": 3}]


@pytest.mark.parametrize(("mask", "expected"), [("null", [None] * 3), ("last4", ["****0000", "****0003", "****0006"])])
def test_masks(mask: str, expected: list[Any], act: As) -> None:
    boss = act("bob", "boss")
    boss.policy.set(boss.policy.show().text.replace("last4", mask), tags="")
    rows = act("ada", "analyst")["people"].scan(columns=["ssn"]).to_pylist()
    assert [row["ssn"] for row in rows] == expected


def test_hashes_tell_equal_values_and_no_values(act: As) -> None:
    boss = act("bob", "boss")
    boss.policy.set(boss.policy.show().text.replace("last4", "hash"), tags="")
    rows = [[row["ssn"] for row in act("ada", "analyst")["people"].to_pylist()] for _ in range(2)]
    assert rows[0] == rows[1]
    assert len(set(rows[0])) == 3
    assert all(len(value) == 32 and "12345" not in value for value in rows[0])


def test_a_snapshot_of_an_actor_stays_in_this_process(act: As) -> None:
    import pickle

    with pytest.raises(Unsupported):
        pickle.dumps(act("ada", "analyst").snapshot())
    with pytest.raises(Unsupported):
        act("ada", "analyst")["people"].parts()


@pytest.mark.parametrize("how", ["text", "vector", "hybrid"])
def test_a_search_finds_and_ranks_the_rows_that_are_seen(how: str, act: As) -> None:
    boss = act("bob", "boss")
    rows = [{"dept": "a" if i % 2 else "dept-b", "text": f"word{i} common", "v": [float(i), 1.0]} for i in range(8)]
    schema = pa.schema([("dept", pa.string()), ("text", pa.string()), ("v", pa.list_(pa.float32(), 2))])
    boss.create_table("docs", pa.Table.from_pylist(rows, schema))
    with boss.transaction() as tx:
        tx["docs"].create_index("text", "INVERTED")
    rule = 'forbid(principal in Role::"analyst", action == Action::"readRow", resource in Table::"docs")'
    boss.policy.set(f'{boss.policy.show().text}\n{rule} unless {{ resource.dept == "a" }};', tags="")
    docs = act("ada", "analyst")["docs"]
    asked: dict[str, Any] = {"text": "common"} if how != "vector" else {}
    asked |= {"vector": [3.0, 1.0]} if how != "text" else {}
    found = docs.search(**asked, limit=50, **({"text_column": "text"} if how == "hybrid" else {})).to_pylist()
    assert sorted(row["text"] for row in found) == [f"word{i} common" for i in (1, 3, 5, 7)]
    assert how != "vector" or found[0]["text"] == "word3 common"
    assert all(row.get("_score") is None for row in found) or how == "hybrid"


def test_an_export_takes_a_right_of_its_own(act: As, tmp_path: Path) -> None:
    with pytest.raises(Denied, match="'ada' may not export"):
        act("ada", "analyst").export(tmp_path / "out", tables=["people"])
    act("bob", "boss").export(tmp_path / "all")
    assert {p.name for p in (tmp_path / "all").iterdir() if p.is_dir()} == {"logs", "people", "salaries"}
