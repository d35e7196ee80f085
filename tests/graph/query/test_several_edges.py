"""Steps along several edge types."""

from __future__ import annotations

from typing import Any

import pytest
from tests.graph.query.given import Given, graph

from quire.errors import InvalidQuery


@pytest.fixture(scope="module")
def given() -> Given:
    schema = """
        node P { name: String @key } node C { name: String @key }
        edge Knows: P -> P { w: I64? } edge Likes: P -> P { w: I64? } edge At: P -> C
    """
    knows = [{"src": s, "dst": t, "w": n} for n, (s, t) in enumerate(("ab", "ab", "bc"))]
    likes = [{"src": s, "dst": t, "w": n} for n, (s, t) in enumerate(("ab", "cd", "da"))]
    return graph(schema, P=[{"name": n} for n in "abcd"], C=[{"name": "x"}], Knows=knows, Likes=likes)


@pytest.mark.parametrize("reduce", [True, False])
@pytest.mark.parametrize(
    ("match", "rows"),
    [
        ('$a: P { name: "a" } $a knows|likes $b', ["b"]),
        ('$b: P  $b knows|likes $c  $c: P { name: "a" }', ["d"]),
        ('$a: P { name: "a" } $a <knows|likes> $b', ["b", "d"]),
        ('$a: P { name: "a" } $a knows|likes{1,3} $b', ["b", "c", "d"]),
        ('$a: P { name: "a" } $a likes|knows{2,} [w > 0] $b', ["c", "d"]),
        ('$a: P { name: "c" } $a knows|likes [w = 1] $b', ["d"]),
        ('$a: P { name: "a" } $b: P { name: "d" } $w = shortest($a knows|likes{1,} $b)  $w.length = 3', ["d"]),
        ('$a: P { name: "b" } $b: P  not { $a knows|likes $b }', ["a", "b", "d"]),
    ],
)
def test_what_is_found(given: Given, match: str, rows: list[Any], reduce: bool) -> None:
    assert given.ask(f"match {{ {match} }} return {{ $b.name }} order {{ $b.name }}", reduce=reduce) == rows


@pytest.mark.parametrize(
    ("match", "said"),
    [
        ("$a $e:knows|likes $b", "an edge that is bound is of one type"),
        ("$a knows|at $b", "Knows leads from P to P, and At from P to C"),
        ("$a knows|liked $b", "there is no edge type 'liked'"),
        ("$a knows|likes|kNOWS $b", "the edge type kNOWS is written twice"),
        ("$a knows|likes [x > 1] $b", "no property 'x'"),
    ],
)
def test_what_is_refused(given: Given, match: str, said: str) -> None:
    with pytest.raises(InvalidQuery, match=said):
        given.ask(f"match {{ {match} }} return {{ $b }}")


def test_explain_names_them_all(given: Given) -> None:
    assert "-Knows|Likes{1,2}->" in "\n".join(given.explained("match { $a knows|likes{1,2} $b } return { $b }").tree)
