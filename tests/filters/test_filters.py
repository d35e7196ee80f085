"""What a person writes as a filter or an expression: names, literals, what is refused, and what uses an index."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import quire
from quire.errors import InvalidExpression, InvalidInput, QuireError, SchemaMismatch
from quire.formats.lance import filtered_scan
from quire.testing import memory

NUMBERS = itertools.count()
"""Of lakes in memory, so that each has a name of its own."""
USERS = pa.table(
    {
        "id": [1, 2, 3, 4],
        "status": ["active", "gone", None, "a_b"],
        "Order": [1, 2, 3, 4],
        "order": [4, 3, 2, 1],
        "score": [1.5, float("nan"), -0.0, None],
    }
)


@pytest.fixture(params=["lance", "memory"])
def users(request: pytest.FixtureRequest) -> quire.Lake:
    memory.install()
    lake = quire.create(f"memory://filters-{request.param}-{next(NUMBERS)}", backfill=False)
    with lake.transaction() as tx:
        tx.create_table("users", USERS, key="id", format=request.param)
    return lake


def found(lake: quire.Lake, filter: Any) -> list[int]:
    return lake["users"].scan(columns=["id"], filter=filter).to_arrow()["id"].to_pylist()


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        ("\"status\" <> 'active'", [2, 4]),
        ("`status` = 'active'", [1]),
        ("STATUS = 'active'", [1]),
        ('"Order" = 1', [1]),
        ('"order" = 1', [4]),
        ("status = '`'", []),
        ("status like 'a_b'", [4]),
        ("status like '%'", [1, 2, 4]),
        ("score > 1", [1, 2]),
        ("score >= 0", [1, 2, 3]),
        ("score < 0", []),
        ("id / 2 = 1.5", [3]),
        ("id // 2 = 1", [2, 3]),
        ("id in ('1', '2')", [1, 2]),
        ("not (status = 'gone')", [1, 4]),
        ("id = 1 -- a comment", [1]),
        ("length(status) = 4 and id < 10", [2]),
        ("null::boolean", []),
    ],
)
def test_a_filter_finds_what_the_same_text_finds_in_sql(users: quire.Lake, filter: str, expected: list[int]) -> None:
    assert sorted(found(users, filter)) == expected
    assert users["users"].count(filter) == len(expected)
    if "`" not in filter and "order" not in filter.lower():
        by_sql = users.snapshot().sql(f"select id from users where {filter}\n").to_arrow()["id"].to_pylist()
        assert sorted(by_sql) == expected
    with users.transaction() as tx:
        assert tx["users"].update(values={"status": "seen"}, where=filter) == len(expected)
        assert tx["users"].delete("status = 'seen'") == len(expected)


FACES: dict[str, Callable[[Any, str], Any]] = {
    "scan": lambda table, text: table.scan(filter=text).to_arrow(),
    "count": lambda table, text: table.count(text),
    "delete": lambda table, text: table.delete(text),
    "where": lambda table, text: table.update(values={"status": "x"}, where=text),
    "set": lambda table, text: table.update({"status": text}),
    "new column": lambda table, text: table.add_columns({"more": text}),
}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(
    ("text", "fields", "said"),
    [
        ("statsu = 'a'", {"column": "statsu", "suggestion": "status", "position": 0}, "Did you mean status"),
        ('status = "active"', {"column": "active", "position": 9}, "single quotes: 'active'"),
        ('"ORDER" = 1', {"column": "ORDER"}, "could be any of Order, order"),
        ("users.id = 1", {"column": "users"}, "no column 'users'"),
        ("id = ", {"position": 3}, "syntax error"),
        ("id = 1; delete from users", {}, "more than one expression"),
        ("id = 1) or (true", {}, "syntax error"),
        ("id in (select 1)", {}, "subquery"),
        ("exists (select 1)", {}, "subquery"),
        ("count(*) > 1", {}, "aggregate"),
        ("sum(id) over () > 1", {}, "window"),
        ("id = ?", {}, "parameter"),
        ("random() > 0", {"function": "random"}, "does not follow from the row"),
        ("now() is null", {"function": "now"}, "does not follow from the row"),
        ("getvariable('x') is null", {"function": "getvariable"}, "does not follow from the row"),
        ("read_text('/etc/passwd') is null", {"function": "read_text"}, "does not follow from the row"),
        ("lenght(status) = 1", {"function": "lenght"}, "Did you mean length"),
        ("*", {}, "star|syntax"),
        ("not " * 5000 + "true", {}, "levels"),
        ("id = 1" + " " * 1_000_000, {}, "characters"),
        ("status = 'a\0'", {"position": 11}, "zero character"),
        ("[" * 199 + "1" + "]" * 199 + " is null", {}, "levels"),
    ],
    ids=lambda value: value[:24] if isinstance(value, str) else None,
)
def test_what_is_no_expression_is_refused_alike_everywhere(
    users: quire.Lake, face: str, text: str, fields: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidExpression, match=said) as caught, users.transaction() as tx:
        FACES[face](tx["users"], text)
    assert caught.value.expression == text
    assert {name: getattr(caught.value, name) for name in fields} == fields
    assert users["users"].to_arrow().num_rows == USERS.num_rows


def test_an_error_says_which_expression_of_the_call_it_is(users: quire.Lake) -> None:
    with pytest.raises(InvalidExpression) as where, users.transaction() as tx:
        tx["users"].update({"id": "id + 1"}, where="nobody = 1")
    with pytest.raises(InvalidExpression) as value, users.transaction() as tx:
        tx["users"].update({"id": "nothing + 1"}, where="id = 1")
    assert (where.value.part, where.value.expression) == ("where", "nobody = 1")
    assert (value.value.part, value.value.expression) == ("expression for column 'id'", "nothing + 1")
    assert "nothing" not in str(where.value)
    assert "nobody" not in str(value.value)


TYPED = pa.table(
    {
        "id": pa.array([1, 2], pa.int64()),
        "day": pa.array([dt.date(2020, 1, 1), None]),
        "at": pa.array([dt.datetime(2020, 1, 1, 5), None], pa.timestamp("us")),
        "zoned": pa.array([dt.datetime(2020, 1, 1, 5), None], pa.timestamp("ms", "Europe/Berlin")),
        "small": pa.array([7, None], pa.int8()),
        "real": pa.array([0.1, None], pa.float32()),
        "flag": pa.array([True, None]),
        "bytes": pa.array([b"a", None]),
    }
)


@pytest.fixture(scope="module")
def typed() -> quire.Lake:
    lake = quire.create("memory://filters-typed", backfill=False)
    lake.create_table("t", TYPED)
    return lake


@pytest.mark.parametrize(
    "filter",
    [
        *("day = '2020-01-01'", "day >= DATE '2020-01-01'", "\"at\" = '2020-01-01 05:00'", "\"at\" > '2019-12-31'"),
        *(
            "zoned = '2020-01-01 05:00'",
            "zoned = '2020-01-01 06:00+01'",
            "small = '7'",
            "small < 1000",
            "flag = 'true'",
        ),
        *(
            "real = 0.1::float",
            "real between 0 and '0.5'",
            "bytes = 'a'",
            "flag",
            "day in ('2020-01-01', '2021-01-01')",
        ),
    ],
)
def test_a_constant_takes_the_type_of_its_column(typed: quire.Lake, filter: str) -> None:
    assert typed["t"].scan(filter=filter).to_arrow()["id"].to_pylist() == [1]
    assert typed.sql(f"select id from t where {filter}").to_pylist() == [{"id": 1}]


@pytest.mark.parametrize("column", ["day", "at", "zoned", "small", "real", "flag"])
def test_a_text_that_is_no_value_of_the_column_is_refused(typed: quire.Lake, column: str) -> None:
    for filter in (f"\"{column}\" = 'hello'", f"\"{column}\" in ('hello')", f"'hello' > \"{column}\""):
        with pytest.raises(InvalidExpression, match="hello") as caught:
            typed["t"].count(filter)
        assert caught.value.column == column
        assert filter[caught.value.position :].startswith("'hello'")


@pytest.mark.parametrize(
    ("column", "expression", "said"),
    [
        *(
            ("id", "id / 2", "0.5 does not fit"),
            ("small", "id * 1000", "does not fit"),
            ("day", '"at"', "does not fit"),
        ),
        *(("id", "flag", "bool does not fit"), ("small", "bytes", "does not fit"), ("real", "1e300", "does not fit")),
    ],
)
def test_what_does_not_fit_a_column_is_refused_and_nothing_changes(
    typed: quire.Lake, column: str, expression: str, said: str
) -> None:
    with pytest.raises(SchemaMismatch, match=said) as caught, typed.transaction() as tx:
        tx["t"].update({column: expression})
    assert (caught.value.column, caught.value.expression) == (column, expression)
    assert typed["t"].to_arrow().equals(TYPED)


def test_a_column_is_set_to_what_its_type_holds() -> None:
    lake = quire.create("memory://filters-set", backfill=False)
    lake.create_table("t", TYPED)
    given = {"day": "'2021-02-03'", "id": "id + 1.0", "real": "id / 3", "zoned": "'2021-01-01'", "small": "null"}
    with lake.transaction() as tx:
        assert tx["t"].update(given) == 2
    row = lake["t"].to_pylist()[0]
    assert (row["day"], row["id"], row["small"]) == (dt.date(2021, 2, 3), 2, None)
    assert row["zoned"] == dt.datetime(2021, 1, 1, tzinfo=dt.UTC)


def test_a_pyarrow_expression_means_what_pyarrow_says(users: quire.Lake) -> None:
    assert found(users, pc.field("score") >= 0) == [1, 3]  # NaN is no number there
    assert found(users, (pc.field("id") > 1) & pc.field("status").is_valid()) == [2, 4]
    assert users["users"].count(pc.field("score") == 0.0) == 1
    with pytest.raises(InvalidExpression, match="nobody"):
        users["users"].count(pc.field("nobody") == 1)
    with pytest.raises(InvalidInput, match="not a int"):
        users["users"].count(7)


@pytest.fixture(scope="module")
def indexed() -> quire.Lake:
    lake = quire.create("memory://filters-indexed", backfill=False)
    with lake.transaction() as tx:
        tx.create_table("users", USERS)
        for column in ("id", "status", "score"):
            tx["users"].create_index(column)
    return lake


@pytest.mark.parametrize(
    ("filter", "index"),
    [
        *(("id = 7", "id"), ("id in (1, -2)", "id"), ("id >= -3 and id < 5", "id"), ("id between 1 and 2", "id")),
        *(("id is null", "id"), ("not (id = 3)", "id"), ("id = 1 or id = 2", "id"), ("status = 'a'", "status")),
        *(("status like 'ab%'", "status"), ("score = 1.5", "score"), ("id = 1 and length(status) > 1", "id")),
        *(("ID = '7'", "id"), ("`id` = 7", "id")),
    ],
)
def test_plain_conditions_use_an_index(indexed: quire.Lake, filter: str, index: str) -> None:
    handle: Any = indexed["users"]._view().handle  # type: ignore[attr-defined]
    given = filtered_scan.split(filter, handle.schema).lance
    assert f"@{index}_idx" in handle.scanner(filter=given).explain_plan()


ODD = [
    "count_all",
    "position",
    "k0",
    "k1",
    "c0",
    "o0",
    "__0",
    "__rows",
    "given",
    "kept",
    "scanned",
    "wanted",
    "n",
    "r",
    "s",
]


@pytest.mark.parametrize("name", ODD)
def test_a_column_may_have_any_name_that_is_used_within(name: str) -> None:
    lake = quire.create(f"memory://names-{name.strip('_')}-{len(name)}", backfill=False)
    other = "k1" if name == "k0" else "k0"
    lake.create_table("t", pa.table({other: [1, 2], name: [10, 20], "v": ["a", "b"]}), key=[other, name])
    with lake.transaction() as tx:
        assert tx["t"].upsert([{other: 1, name: 10, "v": "c"}, {other: 3, name: 30, "v": "d"}]) == {
            "inserted": 1,
            "updated": 1,
        }
        assert tx["t"].update({"v": f'v || "{name}"'}, where=f'"{name}" + 0 = 20') == 1
        tx["t"].require_keys([(1, 10)])
        with pytest.raises(quire.KeyConflict):
            tx["t"].insert([{other: 1, name: 10, "v": "x"}])
        with pytest.raises(quire.QuireError, match="more than once"):
            tx["t"].upsert([{other: 7, name: 7, "v": "x"}] * 2)
    rows = sorted(lake["t"].to_pylist(), key=lambda row: row[name])
    assert [(row[name], row["v"]) for row in rows] == [(10, "c"), (20, "b20"), (30, "d")]
    assert lake.sql(f'select count(*) as n from t where "{name}" > 10').to_pylist() == [{"n": 2}]
    changes = lake.diff("1.0", "2.0")["t"]
    assert (changes.added, changes.changed, changes.removed) == (1, 2, 0)


EXTREMES: dict[str, pa.Array] = {
    **{
        str(kind): pa.array([0, low, high], kind)
        for kind, low, high in [
            (pa.int8(), -(2**7), 2**7 - 1),
            (pa.int16(), -(2**15), 2**15 - 1),
            (pa.int32(), -(2**31), 2**31 - 1),
            (pa.int64(), -(2**63), 2**63 - 1),
            (pa.uint8(), 1, 2**8 - 1),
            (pa.uint64(), 1, 2**64 - 1),
        ]
    },
    "text": pa.array(["", "\\'`\"%_", "\U0010ffff"]),
    "large text": pa.array(["", "it's\n", "\x01"], pa.large_string()),
    "date": pa.array([dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1970, 1, 1)]),
    "timestamp": pa.array(
        [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999), dt.datetime(1970, 1, 1)]
    ),
    "double": pa.array([5e-324, -1.7976931348623157e308, 0.0]),
    "float": pa.array([1e-45, 3.4028234663852886e38, 0.0], pa.float32()),
    "decimal": pa.array(["0", "-99999999999999999999999999999999999.999", "1"]).cast(pa.decimal128(38, 3)),
    "binary": pa.array([b"", b"\x00\xff", b"'"]),
    "bool": pa.array([True, False, True]).slice(0, 2),
}
BESIDE: dict[str, pa.DataType] = {
    "time64": pa.time64("us"),
    "time32": pa.time32("s"),
    "uint64": pa.uint64(),
    "half": pa.float16(),
    "decimal256": pa.decimal256(50, 2),
    "duration": pa.duration("us"),
    "list of halves": pa.list_(pa.float16(), 2),
    "struct of times": pa.struct([("t", pa.time64("ns"))]),
    "list of unsigned": pa.list_(pa.uint32()),
}


@pytest.mark.sampled
@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("name", EXTREMES)
def test_the_extreme_keys_of_every_type_are_found_beside_columns_of_every_type(name: str, indexed: bool) -> None:
    keys = EXTREMES[name]
    lake = quire.create(f"memory://extremes-{name.replace(' ', '')}-{indexed}", backfill=False)
    with lake.transaction() as tx:
        for number, kind in enumerate(BESIDE.values()):
            rows = pa.table({"key": keys, "beside": pa.nulls(len(keys), kind)})
            tx.create_table(f"t{number}", rows, key="key")
            if indexed:
                tx[f"t{number}"].create_index("key")
    with lake.transaction() as tx:
        for number in range(len(BESIDE)):
            table = tx[f"t{number}"]
            for position in range(len(keys)):
                one = pa.table({"key": keys.slice(position, 1)})
                table.require_keys(one)
                assert table.upsert(one) == {"inserted": 0, "updated": 1}
            assert table.count() == len(keys)


def test_half_floats_are_read_everywhere(tmp_path: Any) -> None:
    lake = quire.create("memory://halves", backfill=False)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array([1.0, 2.0, 3.0, 4.0], pa.float16()), 2)
    halves = pa.array([0.5, None], pa.float16())
    lake.create_table("t", pa.table({"id": [1, 2], "h": halves, "v": vectors, "s": [{"h": 1.0}, None]}), key="id")
    assert lake.sql("select id from t").to_pylist() == [{"id": 1}, {"id": 2}]
    assert lake.sql("select h, v[2] as x from t where h > 0.25").to_pylist() == [{"h": 0.5, "x": 2.0}]
    assert lake["t"].count("h < 1 and v[1] = 1") == 1
    with lake.transaction() as tx:
        assert tx["t"].update({"h": "coalesce(h, 0) * 2", "v": "[1, 2]"}, where="h is not null or id = 2") == 2
        assert tx["t"].delete("h = 0") == 1
    [row] = lake["t"].to_pylist()
    assert (float(row["h"]), [float(x) for x in row["v"]]) == (1.0, [1.0, 2.0])
    changes = lake.diff("1.0", "2.0")["t"]
    assert (changes.changed, changes.removed) == (1, 1)
    lake.snapshot().export(str(tmp_path / "out"), format="parquet")


def test_an_index_of_a_kind_that_a_column_cannot_have_is_refused_with_those_that_it_can() -> None:
    lake = quire.create("memory://index-kinds", backfill=False)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array([1.0, 2.0], pa.float32()), 2)
    lake.create_table("t", pa.table({"v": vectors, "l": [["a"]], "n": [1], "s": ["x"], "d": [{"a": 1}]}))
    for column, kind, fitting in [
        ("v", "BTREE", "IVF_PQ"),
        ("l", "BITMAP", "LABEL_LIST"),
        ("n", "INVERTED", "BTREE"),
        ("s", "LABEL_LIST", "NGRAM"),
        ("d", "BTREE", "ZONEMAP"),
    ]:
        with (
            pytest.raises(InvalidInput, match=f"{column}.* cannot have an? {kind} index") as caught,
            lake.transaction() as tx,
        ):
            tx["t"].create_index(column, kind)
        assert fitting in caught.value.kinds
        assert kind not in caught.value.kinds
        assert caught.value.next == f"Such a column can have {', '.join(caught.value.kinds)}."


def test_a_column_that_cannot_be_converted_says_why_and_what_to_do() -> None:
    lake = quire.create("memory://converted", backfill=False)
    lake.create_table("t", [{"id": 1, "s": "12"}, {"id": 2, "s": "twelve"}])
    with pytest.raises(SchemaMismatch, match="'?twelve") as caught, lake.transaction() as tx:
        tx["t"].alter_column("s", type=pa.int64())
    assert "TRY_CAST" in str(caught.value)
    assert "pyarrow.lib" not in str(caught.value)
    with lake.transaction() as tx:
        tx["t"].add_columns({"n": "try_cast(s as bigint)"})
    assert lake["t"].scan(columns=["n"]).to_pylist() == [{"n": 12}, {"n": None}]


def test_names_that_differ_in_case_alone_are_never_taken_for_each_other() -> None:
    lake = quire.create("memory://two-cases")
    lake.create_table("t", {"id": [1, 2], "A": [1, 2], "a": [2, 1], "é": [1, 2]}, key="id")
    assert lake["t"].scan(filter="a = 1").to_pylist() == [{"id": 2, "A": 2, "a": 1, "é": 2}]
    with pytest.raises(InvalidExpression) as wrong:
        lake["t"].count("É = 1")  # as in DuckDB: only letters of ASCII have two cases
    assert wrong.value.column == "É"


def test_half_of_a_character_is_no_text_of_an_expression_or_a_name() -> None:
    lake = quire.create("memory://half-characters")
    lake.create_table("t", [{"id": 1, "s": "a"}], key="id")
    with pytest.raises(InvalidExpression, match="Unicode") as wrong, lake.transaction() as tx:
        tx["t"].update({"s": "'a\ud800'"})
    assert wrong.value.position == 2
    with pytest.raises(QuireError):
        lake["t"].count("s = '\ud800'")
    with pytest.raises(QuireError, match="half a character"), lake.transaction() as tx:
        tx["t"].add_columns({"\ud800": "1"})


def test_a_column_is_set_once() -> None:
    lake = quire.create("memory://set-once", exist_ok=True)
    with lake.transaction() as tx:
        tx.create_table("t", [{"id": 1, "s": "a"}])
        with pytest.raises(InvalidInput, match="'s' is set twice"):
            tx["t"].update({"s": "'x'"}, values={"s": "y"}, where="id = 1")
        tx.discard()


WIDE = pa.decimal256(50, 2)
WIDE_ROWS = pa.table(
    {
        "id": [1, 2, 3, 4],
        "d": pa.array([Decimal("9.00"), Decimal("10.00"), Decimal("1.10"), None], WIDE),
        "l": pa.array([[Decimal("9.00")], [Decimal("10.00")], [], None], pa.list_(WIDE)),
        "st": pa.array([{"a": 1, "d": Decimal(9)}, {"a": 2, "d": Decimal(10)}, None, None]).cast(
            pa.struct([("a", pa.int64()), ("d", WIDE)])
        ),
    }
)


@pytest.fixture
def wide() -> quire.Lake:
    lake = quire.create(f"memory://filters-wide-{next(NUMBERS)}", backfill=False)
    lake.create_table("t", WIDE_ROWS)
    return lake


@pytest.mark.parametrize(
    "filter",
    [
        *("d = '1.1'", "d > '9.5'", "'9.5' < d", "d < 100", "d in ('10', '9')", "d not in ('9.00')", "not (d < '9.5')"),
        *("d between '2' and '20'", "d is distinct from d", "greatest(d, d) = '9.00'", "coalesce(d, '1') = '1'"),
        *("length(d) > 1", "d like '1%'", "case when id = 1 then d else '1' end is null"),
    ],
)
def test_decimals_that_duckdb_has_no_type_for_are_never_compared_as_texts(wide: quire.Lake, filter: str) -> None:
    for face in (FACES["scan"], FACES["count"], FACES["delete"]):
        with pytest.raises(InvalidExpression, match=r"d::DECIMAL\(38, 2\)") as caught, wide.transaction() as tx:
            face(tx["t"], filter)
        assert caught.value.column == "d"
    with pytest.raises(InvalidExpression), wide.transaction() as tx:
        tx["t"].update({"id": "1"}, where=filter)
    assert wide["t"].count() == 4


def test_such_decimals_are_tested_for_null_cast_and_passed_on(wide: quire.Lake) -> None:
    def found(filter: str) -> list[int]:
        return wide["t"].scan(columns=["id"], filter=filter).to_arrow()["id"].to_pylist()

    assert found("d is null") == [4]
    assert found("d is not null and id > 1") == [2, 3]
    assert found("d::decimal(38, 2) > 9.5") == [2]
    assert found("try_cast(D as double) in (9, 10)") == [1, 2]
    with wide.transaction() as tx:
        assert tx["t"].delete("d::decimal(38, 2) < 9.5") == 2
        assert tx["t"].update({"d": "d"}, where="d is not null") == 1
        assert tx["t"].update({"d": "'1e3'"}, where="d is null") == 1
    assert wide["t"].scan(columns=["id", "d"]).to_pylist() == [
        {"id": 2, "d": Decimal("10.00")},
        {"id": 4, "d": Decimal("1000.00")},
    ]


def test_within_lists_and_structs_they_are_refused_too_and_what_is_beside_them_is_not() -> None:
    lake = quire.create(f"memory://filters-wide-{next(NUMBERS)}", backfill=False)
    lake.create_table("t", WIDE_ROWS)
    for filter in ("l[1] = '9'", "list_contains(l, '9.00')", "st.d = '9'", "ST.D > '9'", "st = {'a': 1, 'd': '9.00'}"):
        with pytest.raises(InvalidExpression, match="38 digits"):
            lake["t"].count(filter)
    for filter, count in [("st.a = 2", 1), ("st.d is null", 2), ("l is null", 1), ("st.d::decimal(38, 2) = 9", 1)]:
        assert lake["t"].count(filter) == count
    assert lake["t"].count("l::decimal(38, 2)[] = [9]") == 1
