"""Functions of values and `case`: what they give, what they take, and where they may stand."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from tests.graph.differential import functions as plain
from tests.graph.query.given import Given, graph

import quire
from quire.errors import InvalidQuery
from quire.graph.language.functions import FUNCTIONS

SCHEMA = """
    node P { name: String @key  age: I32?  d: Date?  m: DateTime?  ls: [String]?  w: U64?  f: F32?  end: I64? }
    edge Knows: P -> P { note: String? }
"""
EARLY = dt.datetime(1969, 12, 31, 23, 5, 7, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def given() -> Given:
    people = [
        {"name": "Ann", "age": 3, "d": dt.date(2020, 2, 29), "m": EARLY, "ls": ["b", "a"], "w": 2**64 - 1, "f": 0.5},
        {"name": "Zoë"},
    ]
    return graph(SCHEMA, P=people, Knows=[{"src": "Ann", "dst": "Zoë", "note": "Old"}])


def test_every_function_is_drawn_by_the_differential_test() -> None:
    assert set(plain.NAMES) == set(FUNCTIONS)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("substring($p.name, 1)", "nn"),
        ("substring($p.name, -3, 2)", "An"),
        ('split(concat($p.name, "-"), "-")', ["Ann", ""]),
        ('join(slice($p.ls, 5), "-")', ""),
        ("weekday($p.d)", 6),
        ("date($p.m)", dt.date(1969, 12, 31)),
        ("concat($p.name, $p.name, lower($p.name))", "AnnAnnann"),
        ("hour($p.m) * 60 + minute($p.m)", 23 * 60 + 5),
        ("add_days($p.m, 1)", EARLY + dt.timedelta(days=1)),
        ("item($p.ls, -1)", None),
        ("coalesce($p.end, $p.age)", 3),
        ("coalesce($p.age, 0.5)", 3.0),
        ("coalesce($p.w, 0)", 2**64 - 1),
        ("case when $p.age != 0 then 6 / $p.age end", 2.0),
        ("case when $p.age = 0 then 1 end", None),
        ("case when $p.d is null then 1 when $p.age > 9 then 2 else 2.5 end", 2.5),
    ],
)
def test_what_they_give(given: Given, written: str, value: Any) -> None:
    [found] = given.ask(f'match {{ $p: P {{ name: "Ann" }} }} return {{ {written} as x }}')
    assert found == value
    assert type(found) is type(value)


def test_only_the_chosen_value_of_a_case_is_computed(given: Given) -> None:
    body = "match { $p: P } return { case when $p.age > 9 then 1 / ($p.age - 3) else 0 end as x }"
    assert given.ask(body) == [0.0, 0.0]


def test_they_stand_in_filters_groups_and_edges(given: Given) -> None:
    assert given.ask('match { $a knows [lower(note) = "old"] $b } return { $b.name }') == ["Zoë"]
    assert given.ask("match { $p: P  not { $p knows $q  length($q.name) = 3 } } return { $p.name }") == ["Zoë"]
    body = "match { $p: P } return { length($p.name) as n, coalesce(sum($p.age), 0) as s }"
    assert given.ask(f"{body} having {{ n + 1 > 3 }} order {{ n }}") == [(3, 3)]


def test_a_property_may_be_called_like_a_word_of_case(given: Given) -> None:
    lake = quire.create("memory://words")
    words = quire.Graph(lake)
    words.apply_schema(SCHEMA)
    words.mutate('query q() { insert P { name: "x" age: 1 end: 2 } }')
    words.mutate('query q() { update P set { end: 3 } where upper(name) = "X" and case when end = 2 then 1 end = 1 }')
    found = words.query("query q() { match { $p: P } return { $p.end as end $p.age as when } order { end, when } }")
    assert found.to_pylist() == [{"end": 3, "when": 1}]
    with pytest.raises(InvalidQuery, match="not allowed"):
        words.mutate('query q() { update P set { end: length(name) } where name = "x" }')


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("lower($p.age)", "column 48: lower\\(…\\) takes a text here, and this is I32"),
        ("lowe($p.name)", "there is no function lowe"),
        ("coalesce($p.name)", "at least 2 arguments, not 1"),
        ("substring($p.name)", "takes 2 or 3 arguments, not 1"),
        ("coalesce($p.name, 1)", "this is I64, and before it is String"),
        ("coalesce($p.w, $p.age)", "this is I32, and before it is U64"),
        ('case when $p.age > 2 then 1 else "a" end', "this is String, and before it is I64"),
        ("case when $p.name > 2 then 1 end", "cannot be compared"),
        ("case when $p.age then 1 end", "nothing to compare"),
        ("case when $p.age > 2 1 end", "expected"),
    ],
)
def test_what_they_do_not_take(given: Given, written: str, said: str) -> None:
    with pytest.raises(InvalidQuery, match=said):
        given.ask(f"match {{ $p: P }} return {{ {written} as x }}")


@pytest.mark.parametrize("written", ['add_days(date("9999-12-31"), 1)', "add_days($p.m, -4000000)"])
def test_a_date_has_four_digits_of_years(given: Given, written: str) -> None:
    with pytest.raises(InvalidQuery, match="outside of the years") as told:
        given.ask(f'match {{ $p: P {{ name: "Ann" }} }} return {{ {written} as x }}')
    assert told.value.fields["reason"]
