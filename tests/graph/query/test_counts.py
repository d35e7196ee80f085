"""`exists { … }`, `count { … }`, `collect(…)`, and what `having` sees."""

from __future__ import annotations

from typing import Any

import pytest
from tests.graph.query.given import Given, graph

from quire.errors import InvalidQuery
from quire.graph.language import lint


@pytest.fixture(scope="module")
def given() -> Given:
    people = [{"name": n, "age": a} for n, a in (("a", 1), ("b", 2), ("c", None), ("d", 4))]
    knows = [{"src": s, "dst": t} for s, t in ("ab", "ab", "ac", "bc", "dd")]
    schema = "node P { name: String @key  age: I32? } node C { name: String @key } edge Knows: P -> P edge At: P -> C"
    return graph(schema, P=people, C=[{"name": "x"}], Knows=knows, At=[{"src": "a", "dst": "x"}])


@pytest.mark.parametrize(
    ("match", "rest", "rows"),
    [
        ("exists { $p knows $q  $q.age > 1 }", "{ $p.name } order { $p.name }", ["a", "d"]),
        ("count { $p knows $_ } >= 2", "{ $p.name }", ["a"]),
        ("", "{ $p.name, count { $p $e:knows $_ } as n } order { n desc } limit 1", [("a", 3)]),
        ("not { count { $p <knows> $_ } > 1 }", "{ $p.name }", ["d"]),
        ("optional { $p at $c }", "{ count { $x at $c } as n } order { n desc }", [1, 0, 0, 0]),
        ("", "{ avg(count { $p knows $_ }) as mean }", [1.0]),
        ("", "{ collect($p.age) as a, collect(distinct lower($p.name)) as n }", [([1, 2, 4], ["a", "b", "c", "d"])]),
        ('$p.name = "nobody"', "{ collect($p.age) as a }", [[]]),
        ("", "distinct { count { $p knows $_ } as n } order { count { $p knows $_ } }", [0, 1, 2]),
    ],
)
def test_what_is_found(given: Given, match: str, rest: str, rows: list[Any]) -> None:
    assert given.ask(f"match {{ $p: P  {match} }} return {rest}") == rows


@pytest.mark.parametrize(
    ("match", "returned", "said"),
    [
        ("exists { $p knows $q }", "$q.name", "bound inside exists"),
        ("count { $p knows $_ }", "$p.name", "nothing to compare"),
        ("count { $p knows $q  optional { $q at $_ } } > 0", "$p.name", "cannot be counted"),
        ("$p knows [count { $p at $_ } > 0] $_", "$p.name", "not allowed here"),
        ("", "collect($p) as x", "takes a property"),
        ("", "collect($p.name) as x, sum(count { $p knows $q $q.agee > 1 }) as y", "no property 'agee'"),
    ],
)
def test_what_is_refused(given: Given, match: str, returned: str, said: str) -> None:
    with pytest.raises(InvalidQuery, match=said):
        given.ask(f"match {{ $p: P  {match} }} return {{ {returned} }}")


def test_lint_looks_into_what_is_counted(given: Given) -> None:
    found = lint("query q() { match { $p: P count { $p knows $friend } > 1 } return { $p.name } }", given.catalog)
    assert [(f.code, f.column) for f in found] == [("unused-variable", 44)]


def test_edges_may_be_called_count_and_exists() -> None:
    graph_ = graph(
        "node P { name: String @key } edge Count: P -> P edge Exists: P -> P",
        P=[{"name": "a"}, {"name": "b"}],
        Count=[{"src": "a", "dst": "b"}],
        Exists=[{"src": "b", "dst": "a"}],
    )
    match = "$a count{1,2} $b  $b exists{1,2} $c  count { $a count $_ } = 1"
    body = f"match {{ {match} }} return {{ $a.name as count }} order {{ count }}"
    assert graph_.ask(body) == ["a"]


def test_having_chooses_among_rows_that_are_computed(given: Given) -> None:
    """A row that `having` leaves out is computed, and one that is not found is not."""
    fails = 'match { $p: P  $p.age is not null } return { $p.name as n, 1 / ($p.age - 2) as x } having { n != "b" }'
    with pytest.raises(InvalidQuery, match="division by zero"):
        given.ask(fails)
    found = 'match { $p: P  $q: P { name: "d" }  $p knows $q } return { 1 / ($p.age - 2) as x } having { x > 0 }'
    assert given.ask(found) == [0.5]
