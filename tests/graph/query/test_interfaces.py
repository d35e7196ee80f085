"""Nodes matched by an interface that their types implement."""

from __future__ import annotations

from typing import Any

import pytest
from tests.graph.query.given import Given, graph

from quire.errors import InvalidQuery
from quire.graph.language import lint

SCHEMA = """
    interface Slugged { slug: String?  rank: I64?  v: Vector(2)? }
    interface Lonely { x: I64? }
    node P implements Slugged { name: String @key  age: I64? }
    node C implements Slugged { name: String @key  size: I64? }
    node T { name: String @key  slug: String? }
    edge Knows: P -> P
    edge At: P -> C { since: I64? }
    edge Of: C -> T
    edge Near: T -> T
"""


@pytest.fixture(scope="module")
def given() -> Given:
    return graph(
        SCHEMA,
        P=[{"name": n, "slug": s, "rank": r} for n, s, r in (("a", "one", 1), ("b", "two", 2), ("c", None, None))],
        C=[{"name": n, "slug": s, "rank": r} for n, s, r in (("a", "one", 7), ("x", "two", 2))],
        T=[{"name": "a", "slug": "one"}],
        Knows=[{"src": s, "dst": t} for s, t in ("ab", "bc", "aa")],
        At=[{"src": "a", "dst": "x", "since": 1}, {"src": "b", "dst": "a", "since": 2}],
        Of=[{"src": "a", "dst": "a"}],
    )


ALL = [("C", "a"), ("C", "x"), ("P", "a"), ("P", "b"), ("P", "c")]


@pytest.mark.parametrize("reduce", [True, False])
@pytest.mark.parametrize(
    ("match", "rows"),
    [
        ("", ALL),
        ('$x: Slugged { slug: "one" }', [("C", "a"), ("P", "a")]),
        ("$x.rank >= 2", [("C", "a"), ("C", "x"), ("P", "b")]),
        ('$x.type = "P"  $x.id in ["a", "b", "x"]', [("P", "a"), ("P", "b")]),
        ("$x.slug is null", [("P", "c")]),
        # An edge leads from nodes of one type, whatever the ids of the others are.
        ("$x at $c", [("P", "a"), ("P", "b")]),
        ("$p at $x", [("C", "a"), ("C", "x")]),
        ("$p $e:at $x  $e.since = 2", [("C", "a")]),
        ("$x of $t", [("C", "a")]),
        ("$x at $y  $y of $t", [("P", "b")]),
        ('$x knows{1,} $q  $q.name = "c"', [("P", "a"), ("P", "b")]),
        ('$x knows{0,2} $q  $q.name = "c"', [("P", "a"), ("P", "b"), ("P", "c")]),
        ("$x <knows> $_", [("P", "a"), ("P", "b"), ("P", "c")]),
        ('$q: P { name: "c" }  $w = shortest($x knows{1,} $q)  $w.length = 2', [("P", "a")]),
        ("not { $x at $_ }", [("C", "a"), ("C", "x"), ("P", "c")]),
        ("exists { $_ at $x }", [("C", "a"), ("C", "x")]),
        ("or { { $x of $_ } { $_ knows $x  $x.rank = 2 } }", [("C", "a"), ("P", "b")]),
        ("$c: C  or { $x at $c  { $p knows $x  $p at $c } }", [("P", "a"), ("P", "b"), ("P", "c")]),
        ("or { { $y: Slugged  $y.id = $x.id  $y != $x } $x of $_ }", [("C", "a"), ("P", "a")]),
        ("count { $x knows $_ } = 2", [("P", "a")]),
        ('$y: Slugged  $x != $y  $x.slug = $y.slug  $y.type = "P"', [("C", "a"), ("C", "x")]),
        ("$p: P  $p.name = $x.id  $p.slug = $x.slug", [("C", "a"), ("P", "a"), ("P", "b")]),
        ('exists { $_: Slugged { id: "c" }  $x knows $_ }', [("P", "a"), ("P", "b")]),
    ],
)
def test_what_is_found(given: Given, match: str, rows: list[Any], reduce: bool) -> None:
    asked = f"match {{ $x: Slugged  {match} }} return distinct {{ $x.type, $x.id }} order {{ $x.type, $x.id }}"
    assert given.ask(asked, reduce=reduce) == rows


@pytest.mark.parametrize(
    ("rest", "rows"),
    [
        ("{ $x.slug, count($x) as n, count(distinct $x) as m } having { n > 1 } order { $x.slug }", None),
        ("{ count(distinct $x) as n, count(distinct $x.id) as m }", [(5, 4)]),
        ("{ $x.id, collect($x.type) as types } having { size(types) > 1 }", [("a", ["C", "P"])]),
        ("{ $x } order { $x.rank desc } limit 1", [{"id": "a", "type": "C", "slug": "one", "rank": 7, "v": None}]),
        ("{ $x.id } limit 9", ["a", "a", "b", "c", "x"]),
        ("{ max($x.rank) as most }", [7]),
    ],
)
def test_what_is_returned(given: Given, rest: str, rows: list[Any] | None) -> None:
    found = given.ask(f"match {{ $x: Slugged }} return {rest}")
    assert (found if "order" in rest else sorted(found)) == (rows or [("one", 2, 2), ("two", 2, 2)])


def test_optional_nodes_are_null_as_a_whole(given: Given) -> None:
    found = given.ask("match { $p: P  optional { $p at $x  $x: Slugged } } return { $p.name, $x } order { $p.name }")
    assert [(name, x and (x["type"], x["id"])) for name, x in found] == [
        ("a", ("C", "x")),
        ("b", ("C", "a")),
        ("c", None),
    ]
    asked = "match { $t: T  optional { $x: Slugged { slug: $t.slug } } } return { $x.type, $x.id } order { $x.type }"
    assert given.ask(asked) == [("C", "a"), ("P", "a")]


def test_properties_called_type_and_id_are_the_properties() -> None:
    found = graph(
        "interface I { id: I64  type: String }"
        "node A implements I { n: String @key } node B implements I { m: I32 @key }",
        A=[{"n": "k", "id": 5, "type": "t"}],
        B=[{"m": 3, "id": 6, "type": "u"}],
    )
    asked = "match { $x: I } return { $x, $x.id, $x.type } order { $x.id }"
    assert found.ask(asked) == [
        ({"@id": "k", "@type": "A", "id": 5, "type": "t"}, 5, "t"),
        ({"@id": "3", "@type": "B", "id": 6, "type": "u"}, 6, "u"),
    ]


@pytest.mark.parametrize(
    ("match", "returned", "said"),
    [
        ("$x: Slugged", "$x.name", "Slugged has no property 'name'"),
        ("$x: Lonely", "$x", "no node type implements"),
        ("$x: Sluged", "$x", "Did you mean 'Slugged'"),
        ('$x: Slugged  $x.type = "T"', "$x", "'T' is not one of the values"),
        ("$x: Slugged  $x near $_", "$x", "x is Slugged, but near leads from T to T"),
        ("$x: Slugged  $p: P  $p of $x", "$x", "p is P, but of leads from C to T"),
        ("$x: Slugged  $p: P  $x = $p", "$x", "Compare their id"),
        ('$x: Slugged  search($x.slug, "a")', "$x", r"search\(…\) searches one node type, and Slugged is an interface"),
        ("$x: Slugged", "nearest($x.v, [1.0, 0.0]) as d } order { d", r"nearest\(…\) searches one node type"),
        ("$x: Slugged  $x: P", "$x", "is Slugged already"),
    ],
)
def test_what_is_refused(given: Given, match: str, returned: str, said: str) -> None:
    with pytest.raises(InvalidQuery, match=said):
        given.ask(f"match {{ {match} }} return {{ {returned} }}")


def test_lint_knows_what_is_matched_by_an_interface(given: Given) -> None:
    found = lint("query q() { match { $x: Slugged  $y: Slugged } return { $x.slug } }", given.catalog)
    assert {f.code for f in found} == {"unused-variable", "cross-product"}


def test_explain_names_the_types_and_what_is_asked_of_each(given: Given) -> None:
    shown = given.explained('match { $x: Slugged { slug: "one" } } return { $x.id } limit 3')
    assert shown.tree[0] == "  scan $x: Slugged = C|P (s1, s2)"
    assert [(s.variable, s.table, s.limit) for s in shown.scans] == [("x:C", "node:C", 3), ("x:P", "node:P", 3)]
    assert all("slug" in (s.filter or "") for s in shown.scans)
