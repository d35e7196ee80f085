"""SQL over every table of a commit: what it can, what it refuses, and that it reads only what it needs."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance.lance as native
import pandas as pd
import pyarrow as pa
import pytest

import quire
from quire.errors import InvalidExpression, QuireError, TableNotFound

NOON = dt.datetime(2020, 1, 1, 12)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> quire.Lake:
    lake = quire.create(tmp_path_factory.mktemp("sql") / "lake", backfill=False)
    with lake.transaction("tables") as tx:
        tx.create_table("people", [{"id": n, "name": f"n{n}", "city": n % 3} for n in range(10)], key="id")
        tx.create_table("cities", [{"city": n, "label": f"c{n}"} for n in range(3)], key="city")
        tx.create_table("node:Person", [{"id": n, "age": 20 + n} for n in range(10)])
        tx.create_table("edge:Knows", [{"src": n, "dst": n + 1} for n in range(9)])
        tx.create_table("Mixed.Case-1", [{"Value": 7}])
        tx.create_table("empty", schema=pa.schema([("id", pa.int64())]))
    return lake


@pytest.fixture
def snap(lake: quire.Lake) -> quire.Snapshot:
    return lake.snapshot()


def one(snap: quire.Snapshot, query: str, params: Any = None) -> Any:
    [row] = snap.sql(query, params).to_pylist()
    [value] = row.values()
    return value


# -- what it can ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        "select a from t",
        "select * from t",
        "select t.A from t",
        "select t from t",
        "from t",
        "select id from t order by a",
    ],
)
def test_columns_that_differ_in_case_alone_are_not_taken_for_each_other(query: str) -> None:
    lake = quire.create(f"memory://{uuid.uuid4().hex}")
    lake.create_table("t", {"id": [1, 2], "A": [1, 2], "a": [2, 1]})
    with pytest.raises(InvalidExpression, match="'A', 'a'"):
        lake.sql(query)
    assert lake.sql("select id, count(*) as n from t group by id order by id").to_pylist()[0] == {"id": 1, "n": 1}
    assert lake["t"].scan(columns=["a"]).to_pylist() == [{"a": 2}, {"a": 1}]


def test_joins_span_any_number_of_tables(snap: quire.Snapshot) -> None:
    query = """
        select p.name, c.label, n.age, k.dst
        from people p
        join cities c using (city)
        join "node:Person" n on n.id = p.id
        left join "edge:Knows" k on k.src = p.id
        where p.id >= 8 order by p.id
    """
    assert snap.sql(query).to_pylist() == [
        {"name": "n8", "label": "c2", "age": 28, "dst": 9},
        {"name": "n9", "label": "c0", "age": 29, "dst": None},
    ]


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("select count(*) from people", 10),
        ("SELECT COUNT(*) FROM PEOPLE", 10),
        ('select count(*) from "People"', 10),
        ("select max(ID) from people", 9),
        ('select "Value" from "Mixed.Case-1"', 7),
        ('select value from "mixed.case-1"', 7),
        ('select sum(age) from "node:Person"', 245),
        ("from people select count(*)", 10),
        ("select count(*) from empty", 0),
        ("select count(*) from people where city in (select city from cities where label = 'c1')", 3),
        ('select count(*) from (select id from people union select age from "node:Person")', 20),
        ("select count(*) from people a, people b", 100),
        ("select (select label from cities c where c.city = p.city) from people p where id = 5", "c2"),
        ("select 1 + 1", 2),
        ("values (42)", 42),
        ("select count(*) from people;", 10),
        ("/* note */ select count(*) -- all\n from people", 10),
        ("select count(*) from people, range(3)", 30),
        ("select lower('ÄB')", "äb"),
    ],
)
def test_a_select_finds_its_tables(snap: quire.Snapshot, query: str, value: Any) -> None:
    assert one(snap, query) == value


def test_names_given_in_the_query_shadow_tables(snap: quire.Snapshot) -> None:
    assert one(snap, "with people as (select 42 as x) select x from people") == 42
    assert one(snap, "with p as (select * from people) select count(*) from p") == 10
    assert one(snap, "with people as (select * from cities) select count(*) from people") == 3
    recursive = "with recursive r(n) as (select 1 union all select n + 1 from r where n < 5) select count(*) from r"
    assert one(snap, recursive) == 5
    assert one(snap, "select count(*) from cities as people") == 3


@pytest.mark.parametrize(
    ("query", "params"),
    [
        ("select name from people where id = ? and city = ?", [4, 1]),
        ("select name from people where id = ? and city = ?", (4, 1)),
        ("select name from people where id = $id and city = $city", {"id": 4, "city": 1}),
        ("select name from people where name = $1", ["n4"]),
    ],
)
def test_parameters_are_bound_by_position_and_by_name(snap: quire.Snapshot, query: str, params: Any) -> None:
    assert one(snap, query, params) == "n4"


def test_a_parameter_is_a_value_and_never_sql(snap: quire.Snapshot) -> None:
    evil = "x' or 1=1; drop table people --"
    assert snap.sql("select * from people where name = ?", [evil]).to_pylist() == []
    assert one(snap, "select ?", [evil]) == evil


@pytest.mark.parametrize(("params"), [None, [], [1, 2], {"other": 1}])
def test_parameters_must_match_the_query(snap: quire.Snapshot, params: Any) -> None:
    with pytest.raises(InvalidExpression, match="cannot be run"):
        snap.sql("select name from people where id = ?", params).to_arrow()


FILTERED: dict[str, tuple[pa.Array, Any]] = {
    "bool": (pa.array([True, False, None]), True),
    **{str(k): (pa.array([1, 2, None], k), 1) for k in (pa.int8(), pa.int64(), pa.uint8(), pa.uint32(), pa.uint64())},
    **{str(k): (pa.array([1.5, 2.0, None], k), 1.5) for k in (pa.float16(), pa.float32(), pa.float64())},
    "decimal": (pa.array([Decimal("1.50"), Decimal("2"), None], pa.decimal128(10, 2)), Decimal("1.5")),
    "text": (pa.array(["it's", "", None]), "it's"),
    "large text": (pa.array(["it's", "", None], pa.large_string()), "it's"),
    "binary": (pa.array([b"\xff'", b"", None]), b"\xff'"),
    "large binary": (pa.array([b"\xff'", b"", None], pa.large_binary()), b"\xff'"),
    "fixed binary": (pa.array([b"ab", b"cd", None], pa.binary(2)), b"ab"),
    "date": (pa.array([dt.date(2020, 1, 1), dt.date(1969, 1, 1), None]), dt.date(2020, 1, 1)),
    "date64": (pa.array([dt.date(2020, 1, 1), dt.date(1969, 1, 1), None], pa.date64()), dt.date(2020, 1, 1)),
    "time": (pa.array([dt.time(1, 2, 3), dt.time(0), None], pa.time64("us")), dt.time(1, 2, 3)),
    **{
        f"timestamp {unit}": (pa.array([NOON, NOON + dt.timedelta(1), None], pa.timestamp(unit)), NOON)
        for unit in ("s", "ms", "us", "ns")
    },
    "timestamp with a zone": (
        pa.array(
            [NOON.replace(tzinfo=dt.UTC), NOON.replace(tzinfo=dt.UTC, year=2021), None], pa.timestamp("us", "UTC")
        ),
        NOON.replace(tzinfo=dt.UTC),
    ),
    "duration": (pa.array([dt.timedelta(1), dt.timedelta(2), None], pa.duration("us")), dt.timedelta(1)),
}


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> quire.Lake:
    lake = quire.create(tmp_path_factory.mktemp("typed") / "lake", backfill=False)
    with lake.transaction("tables") as tx:
        for name, (values, _) in FILTERED.items():
            tx.create_table(name.replace(" ", "_"), pa.table({"row": [0, 1, 2], "v": values}))
    return lake


@pytest.mark.parametrize("name", FILTERED)
def test_a_column_of_every_type_can_be_filtered(typed: quire.Lake, name: str) -> None:
    table, (_, first) = f'"{name.replace(" ", "_")}"', FILTERED[name]
    snap = typed.snapshot()

    def rows(where: str, params: Any = None) -> list[int]:
        return snap.sql(f"select row from {table} where {where} order by row", params).to_arrow()["row"].to_pylist()

    assert rows("v = ?", [first]) == [0]
    assert rows("v <> ?", [first]) == [1]
    assert rows("v is null") == [2]
    assert rows("v is not null and row < 5") == [0, 1]
    assert rows(f"v >= (select min(v) from {table})") == [0, 1]
    assert rows(f"v in (select v from {table} where row = 1)") == [1]


def test_tables_whose_names_differ_in_case_are_never_mixed_up(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    lake.create_table("words", [{"w": "lower"}])
    try:
        lake.create_table("Words", [{"w": "upper"}])
    except QuireError:
        assert lake.tables() == ["words"]  # refused when it is made: then nothing can be mixed up
        return
    snap = lake.snapshot()
    for name, word in (("words", "lower"), ("Words", "upper")):
        assert one(snap, f'select w from "{name}"') == word
    with pytest.raises(InvalidExpression, match="[Ww]ords"):
        snap.sql('select a.w, b.w from "words" a, "Words" b').to_arrow()


def test_a_lake_and_a_transaction_take_sql_too(lake: quire.Lake) -> None:
    assert lake.sql("select count(*) n from people").to_pylist() == [{"n": 10}]
    tx = lake.transaction("not committed")
    tx["people"].append([{"id": 99, "name": "new", "city": 0}])
    assert tx.sql("select count(*) n from people where id = ?", [99]).to_pylist() == [{"n": 1}]
    tx.discard()


def test_results_come_as_arrow_pandas_polars_or_a_stream(snap: quire.Snapshot) -> None:
    query = "select id, name from people order by id"
    table = snap.sql(query).to_arrow()
    assert table.schema.names == ["id", "name"]
    assert snap.sql(query).to_pandas()["id"].tolist() == list(range(10))
    assert snap.sql(query).to_polars()["name"].to_list() == [f"n{n}" for n in range(10)]
    assert pa.table(snap.sql(query)).equals(table)
    assert snap.sql(query).schema.equals(table.schema)
    assert sum(batch.num_rows for batch in snap.sql(query)) == 10


# -- what it refuses --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        "insert into people values (1, 'x', 1)",
        "update people set name = 'x'",
        "delete from people",
        "drop view people",
        "create table t as select 1",
        "copy people to '/tmp/quire-out.csv'",
        "attach '/tmp/quire.db' as x",
        "install httpfs",
        "load httpfs",
        "set enable_external_access = true",
        "pragma version",
        "call pragma_version()",
        "begin",
        "explain analyze select 1",
    ],
)
def test_only_a_select_is_run(snap: quire.Snapshot, query: str) -> None:
    with pytest.raises(InvalidExpression, match="SELECT") as caught:
        snap.sql(query)
    assert caught.value.kind == "invalid-expression"
    assert caught.value.fields["query"] == query
    assert "transaction" in str(caught.value)
    assert snap["people"].count() == 10


@pytest.mark.parametrize("query", ["select 1; select 2", "select 1; drop table people", "", "   ", "-- nothing", ";"])
def test_exactly_one_statement_is_expected(snap: quire.Snapshot, query: str) -> None:
    with pytest.raises(InvalidExpression, match="SELECT"):
        snap.sql(query)


@pytest.mark.parametrize("query", [None, 5, b"select 1"])
def test_a_query_is_text(snap: quire.Snapshot, query: Any) -> None:
    with pytest.raises(QuireError):
        snap.sql(query)


@pytest.mark.parametrize(
    "source",
    [
        "read_csv('{secret}')",
        "read_text('{secret}')",
        "read_blob('{secret}')",
        "read_json('{secret}')",
        "read_parquet('{secret}')",
        "'{secret}'",
        "glob('{folder}/*')",
        "query('select * from read_text(''{secret}'')')",
        "read_csv('http://127.0.0.1:9/x.csv')",
        "read_parquet('s3://bucket/x.parquet')",
    ],
)
def test_no_file_and_no_network_can_be_reached(snap: quire.Snapshot, tmp_path: Path, source: str) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("word\nsesame\n")
    query = f"select * from {source.format(secret=secret, folder=tmp_path)}"
    with pytest.raises(InvalidExpression) as caught:
        snap.sql(query).to_arrow()
    assert "sesame" not in str(caught.value)


def test_variables_of_the_program_are_no_tables(snap: quire.Snapshot) -> None:
    frame = pd.DataFrame({"a": [1]})
    assert len(frame) == 1
    for name in ("frame", "snap", "known", "names", "query"):
        with pytest.raises(TableNotFound, match=name):
            snap.sql(f"select * from {name}").to_arrow()


def test_an_unknown_table_is_answered_with_the_nearest_name(snap: quire.Snapshot) -> None:
    with pytest.raises(TableNotFound, match="'poeple'.*Did you mean 'people'") as caught:
        snap.sql("select * from people join poeple using (id)")
    assert caught.value.fields["table"] == "poeple"


@pytest.mark.parametrize(
    "query", ["select * from main.people", "select * from other.people", "select * from a.b.people"]
)
def test_tables_are_named_alone(snap: quire.Snapshot, query: str) -> None:
    with pytest.raises(InvalidExpression, match="schema"):
        snap.sql(query)


def test_an_unknown_column_is_answered_with_the_nearest_name(snap: quire.Snapshot) -> None:
    with pytest.raises(InvalidExpression, match='"nam"') as caught:
        snap.sql("select nam from people")
    assert '"name"' in str(caught.value)


@pytest.mark.parametrize("query", ["selct 1", "select", "select from where", "select ((1)"])
def test_a_query_that_does_not_parse_says_where(snap: quire.Snapshot, query: str) -> None:
    with pytest.raises(InvalidExpression) as caught:
        snap.sql(query)
    assert caught.value.fields["query"] == query
    assert caught.value.next


def test_a_value_that_fails_while_the_rows_stream_is_a_typed_error(lake: quire.Lake, tmp_path: Path) -> None:
    other = quire.create(tmp_path / "lake", backfill=False)
    other.create_table("t", pa.table({"text": ["1"] * 500_000 + ["x"]}))
    with pytest.raises(InvalidExpression, match="'x'"):
        for _ in other.sql("select cast(text as int) from t"):
            pass


# -- that it reads only what it needs ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> quire.Lake:
    """One column that is large and one that is small, in ten fragments."""
    lake = quire.create(tmp_path_factory.mktemp("wide") / "lake", backfill=False)
    lake.create_table("wide", schema=pa.schema([("id", pa.int64()), ("large", pa.binary())]))
    for part in range(10):
        ids = range(part * 1000, (part + 1) * 1000)
        body = [n.to_bytes(8, "big") * 512 for n in ids]
        with lake.transaction(f"part {part}") as tx:
            tx["wide"].append(pa.table({"id": pa.array(ids), "large": body}))
    with lake.transaction("index") as tx:
        tx["wide"].create_index("id", "BTREE")
    return lake


def bytes_read(lake: quire.Lake, query: str) -> int:
    """Bytes that Lance read from storage for a query, on a handle without a warm cache."""
    snap = quire.open(lake.uri, read_only=True).snapshot()
    before = native.bytes_read_counter()
    snap.sql(query).to_arrow()
    return int(native.bytes_read_counter()) - int(before)


def test_a_column_that_is_not_asked_for_is_not_read(wide: quire.Lake) -> None:
    everything = bytes_read(wide, "select sum(octet_length(large)) from wide")
    assert everything > 10_000 * 100, "the large column is stored and read"
    assert bytes_read(wide, "select sum(id) from wide") * 10 < everything
    assert bytes_read(wide, "select count(*) from wide") * 10 < everything


def test_a_filter_reaches_the_scan(wide: quire.Lake) -> None:
    everything = bytes_read(wide, "select large from wide")
    assert bytes_read(wide, "select large from wide where id = 5000") * 5 < everything
    assert bytes_read(wide, "select w.large from wide w where w.id between 10 and 12") * 5 < everything


def test_the_plan_scans_with_the_filter_and_the_columns_only(wide: quire.Lake) -> None:
    relation = wide["wide"].to_duckdb().filter("id = 5").project("id")
    plan = relation.explain()
    scan = plan[plan.upper().rindex("SCAN") :]
    assert "id" in scan
    assert "large" not in scan


def test_rows_arrive_before_the_query_is_done(wide: quire.Lake) -> None:
    endless = wide.snapshot().sql("select a.id from wide a, wide b, wide c")  # 10¹² rows
    assert 0 < next(iter(endless)).num_rows < 1_000_000


def test_only_the_tables_named_are_opened(lake: quire.Lake, tmp_path: Path) -> None:
    other = quire.create(tmp_path / "lake", backfill=False)
    with other.transaction("x") as tx:
        tx.create_table("fine", [{"v": 1}])
        tx.create_table("lost", [{"v": 1}])
    location = other["lost"].describe()["location"]
    for manifest in (Path(other.uri) / location / "_versions").iterdir():
        manifest.unlink()
    snap = quire.open(other.uri, read_only=True).snapshot()
    assert one(snap, "select v from fine") == 1
    with pytest.raises(QuireError, match="lost|version"):
        snap.sql("select v from lost").to_arrow()
