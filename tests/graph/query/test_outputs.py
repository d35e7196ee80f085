"""What is returned: names and types, groups, having, distinct, total order, limits."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from tests.graph.query.given import Given, graph, people

from quire.errors import InvalidQuery

EVERYTHING = """
node Thing {
  name: String @key  id: String?  ab: I32?  aB: I64?  u: U32?  w: U64?  f: F32?  g: F64?  b: Bool?
  d: Date?  t: DateTime?  e: enum(low, high)?  l: [I64]?  v: Vector(2)?
}
"""


@pytest.fixture(scope="module")
def given() -> Given:
    return people()


@pytest.fixture(scope="module")
def things() -> Given:
    return graph(
        EVERYTHING,
        Thing=[
            {
                **{
                    "name": "one",
                    "id": "mine",
                    "ab": 1,
                    "aB": 2,
                    "u": 3,
                    "w": 2**64 - 1,
                    "f": 0.5,
                    "g": 0.1,
                    "b": True,
                },
                **{"d": dt.date(2020, 1, 2), "t": dt.datetime(2020, 1, 2, 3, tzinfo=dt.UTC), "e": "low"},
                **{"l": [1, 2], "v": [0.5, 1.5]},
            },
            {"name": "two"},
        ],
    )


def test_columns_have_the_declared_types(things: Given) -> None:
    names = ["id", "ab", "aB", "u", "w", "f", "g", "b", "d", "t", "e", "l", "v"]
    body = "match { $x: Thing } return { " + " ".join(f"$x.{n} as x_{n}{i}" for i, n in enumerate(names)) + " }"
    rows = things.rows(body)
    kinds = {p.name: p.type.arrow() for p in things.catalog.node("Thing").defined.properties}
    assert [f.type for f in rows.schema] == [kinds[n] for n in names]
    assert sorted(rows.to_arrow().column(4).to_pylist(), key=str) == [2**64 - 1, None]


def test_a_whole_node_is_a_struct_of_its_id_and_properties(things: Given) -> None:
    [row] = things.ask('match { $x: Thing { name: "one" } } return { $x }')
    assert row == {
        **{"@id": "one", "name": "one", "id": "mine", "ab": 1, "aB": 2, "u": 3, "w": 2**64 - 1, "f": 0.5},
        **{"g": 0.1, "b": True, "d": dt.date(2020, 1, 2), "t": dt.datetime(2020, 1, 2, 3, tzinfo=dt.UTC)},
        **{"e": "low", "l": [1, 2], "v": [0.5, 1.5]},
    }


@pytest.mark.parametrize(
    "condition",
    [
        '$x.d >= date("2020-01-02")',
        '$x.t = datetime("2020-01-02T03:00:00Z")',
        '$x.t > datetime("1500-01-01T00:00:00Z")',
        '$x.t < datetime("9000-01-01T00:00:00Z")',
        "$x.b = true",
        '$x.e = "low"',
        "$x.f = 0.5",
        "$x.g = 0.1",
        "$x.l contains 2",
        "$x.ab < $x.aB",
        "$x.w > $x.ab",
        "$x.g < $x.f",
        '$x.id = "mine"',
        "$x.u in [3, 4]",
        "$x.aB + $x.u = 5",
    ],
)
def test_every_type_can_be_compared(things: Given, condition: str) -> None:
    assert things.ask(f"match {{ $x: Thing {condition} }} return {{ $x.name }}") == ["one"]


def test_the_largest_numbers_are_found(things: Given) -> None:
    body = "match { $x: Thing $x.w = $n } return { $x.w as w }"
    assert things.ask(body, "$n: U64", n=2**64 - 1) == [2**64 - 1]


def test_results_of_aggregates_have_their_types(given: Given) -> None:
    rows = given.rows(
        "match { $p: Person } return "
        "{ count($p) as n sum($p.age) as s avg($p.age) as m min($p.age) as lo max($p.city) as c }"
    )
    assert [str(f.type) for f in rows.schema] == ["int64", "int64", "double", "int32", "string"]
    assert rows.to_pylist() == [{"n": 5, "s": 103, "m": 25.75, "lo": 7, "c": "Rome"}]


def test_aggregates_group_by_the_other_outputs(given: Given) -> None:
    found = given.ask("match { $p: Person } return { $p.city as city, count($p) as n } order { n desc, city }")
    assert found == [("Rome", 2), (None, 1), ("Bonn", 1), ("Oslo", 1)]


def test_a_group_may_be_a_whole_node(given: Given) -> None:
    found = given.ask("match { $a: Person $a $e:knows $b } return { $a, count($e) as n } order { n desc }")
    assert [(row["name"], row["age"], n) for row, n in found] == [
        ("a", 30, 2),
        ("c", None, 2),
        ("b", 25, 1),
        ("d", 41, 1),
    ]


def test_without_rows_there_is_one_group_only_where_nothing_is_grouped_by(given: Given) -> None:
    assert given.ask("match { $p: Person $p.age > 99 } return { count(*) as n sum($p.age) as s }") == [(0, None)]
    assert given.ask("match { $p: Person $p.age > 99 } return { $p.city count(*) as n }") == []


def test_counts_of_different_values_and_of_what_is_there(given: Given) -> None:
    body = "match { $p: Person optional { $p worksAt $c } } "
    body += "return { count(*) as a count($c) as b count(distinct $c) as d }"
    assert given.ask(body) == [(5, 3, 2)]
    assert given.ask("match { $p: Person } return { count($p.age) as n count(distinct $p.city) as d }") == [(4, 3)]


def test_having_filters_groups(given: Given) -> None:
    found = given.ask("match { $p: Person } return { $p.city as c count($p) as n } having { n > 1 }")
    assert found == [("Rome", 2)]
    found = given.ask("match { $p: Person } return { $p.city as c } having { max($p.age) < 26 } order { c }")
    assert found == ["Bonn", "Oslo"]


def test_order_may_be_by_an_aggregate_that_is_not_returned(given: Given) -> None:
    body = "match { $p: Person } return { $p.city as c, count($p) as n } order { sum($p.age) desc } limit 2"
    assert given.ask(body) == [(None, 1), ("Rome", 2)]


def test_a_sum_beyond_its_type_is_an_error() -> None:
    big = graph("node N { k: I64 @key }", N=[{"k": 2**63 - 1}, {"k": 2**63 - 2}])
    with pytest.raises(InvalidQuery, match="out of range"):
        big.ask("match { $n: N } return { sum($n.k) as s }")
    assert big.ask("match { $n: N } return { max($n.k) as s }") == [2**63 - 1]


def test_distinct_rows(given: Given) -> None:
    assert given.ask("match { $p: Person } return distinct { $p.city as c } order { c desc }") == [
        "Rome",
        "Oslo",
        "Bonn",
        None,
    ]


def test_null_is_the_smallest_and_ties_go_by_id(given: Given) -> None:
    assert given.ask("match { $p: Person } return { $p.name } order { $p.age }") == list("cebad")
    assert given.ask("match { $p: Person } return { $p.name } order { $p.age desc }") == list("dabec")
    assert given.ask("match { $p: Person } return { $p.name } order { $p.city }") == list("debac")


def test_limit_and_offset_cut_the_order(given: Given) -> None:
    assert given.ask("match { $p: Person } return { $p.name } order { $p.name } limit 2 offset 1") == ["b", "c"]
    assert given.ask("match { $p: Person } return { $p.name } order { $p.name desc } limit $n", "$n: I64", n=1) == ["e"]
    assert given.ask("match { $p: Person } return { $p.name } order { $p.name } limit 0") == []
    assert len(given.ask("match { $p: Person } return { $p.name } limit 3")) == 3


def test_pages_without_an_order_do_not_overlap(given: Given) -> None:
    pages = [given.ask(f"match {{ $p: Person }} return {{ $p.name }} limit 2 offset {n}") for n in (1, 3)]
    assert pages == [["b", "c"], ["d", "e"]]


def test_a_negative_limit_is_refused(given: Given) -> None:
    with pytest.raises(InvalidQuery, match="limit"):
        given.ask("match { $p: Person } return { $p.name } limit $n", "$n: I64", n=-1)


def test_names_that_differ_in_case_alone_stay_apart(things: Given) -> None:
    table = things.rows('match { $x: Thing { name: "one" } } return { $x.ab as nn $x.aB as nN }').to_arrow()
    assert table.column_names == ["nn", "nN"]
    assert table.to_pylist() == [{"nn": 1, "nN": 2}]
    assert table.schema.types == [pa.int32(), pa.int64()]


def test_what_is_returned_whole_may_be_asked_for_null(given: Given) -> None:
    body = "match {{ $p: Person optional {{ $p worksAt $c }} }} return {{ $p.name, $c as firm }} having {{ {} }}"
    for condition in ("firm is null", "$c is null"):
        assert sorted(name for name, _ in given.ask(body.format(condition))) == ["d", "e"]
    assert sorted(name for name, _ in given.ask(body.format("firm is not null"))) == ["a", "b", "c"]
    grouped = body.replace("$p.name", "count($p) as n").format("firm is null")
    assert given.ask(grouped) == [(2, None)]
