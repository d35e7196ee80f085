"""A number that is written out finds the F32 that was stored from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import quire

ROWS: list[dict[str, Any]] = [
    {"type": "P", "data": {"name": "a", "f": 0.1, "many": [0.1, 0.3]}},
    {"type": "P", "data": {"name": "b", "f": -0.1, "many": []}},
    {"type": "P", "data": {"name": "c", "f": 2}},
    {"type": "P", "data": {"name": "d"}},
    {"edge": "Knows", "from": "a", "to": "b", "data": {"weight": 0.7}},
]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[quire.Graph]:
    with quire.create(str(tmp_path_factory.mktemp("singles") / "lake"), backfill=False) as lake:
        made = quire.Graph(lake)
        made.apply_schema("node P { name: String @key f: F32? many: [F32]? } edge Knows: P -> P { weight: F32? }")
        made.load(ROWS)
        yield made


def names(graph: quire.Graph, match: str, params: str = "", **values: Any) -> str:
    text = f"query q({params}) {{ match {{ {match} }} return {{ $p.name as name }} order {{ name }} }}"
    return "".join(row["name"] for row in graph.query(text, **values).to_pylist())


@pytest.mark.parametrize(
    ("match", "found"),
    [
        ("$p: P { f: 0.1 }", "a"),
        ("$p: P { f: -0.1 }", "b"),
        ("$p: P  0.1 = $p.f", "a"),
        ("$p: P  $p.f != 0.1", "bc"),
        ("$p: P  $p.f <= 0.1", "ab"),
        ("$p: P  $p.f > 0.1", "c"),
        ("$p: P  $p.f < 1e300", "abc"),
        ("$p: P  $p.f in [0.1, 2]", "ac"),
        ("$p: P  $p.f in [-0.1, 1e300]", "b"),
        ("$p: P  $p.f in []", ""),
        ("$p: P  $p.many contains 0.3", "a"),
        ("$p: P  0.3 in $p.many", "a"),
        ("$p: P  $p knows[weight = 0.7] $q", "a"),
        ("$p: P  $p $e:knows $q  $e.weight = 0.7", "a"),
        ("$p: P  not { $p.f = 0.1 }", "bcd"),
    ],
)
def test_a_written_number_is_compared_as_it_is_stored(graph: quire.Graph, match: str, found: str) -> None:
    assert names(graph, match) == found


def test_a_parameter_is_what_it_is_declared_as(graph: quire.Graph) -> None:
    assert names(graph, "$p: P  $p.f = $x", "$x: F32", x=0.1) == "a"
    assert names(graph, "$p: P  $p.f in $x", "$x: [F32]", x=[0.1, 2]) == "ac"
    assert names(graph, "$p: P  $p.f = $x", "$x: F64", x=0.1) == ""


def test_an_aggregate_that_is_f32_is_compared_so_too(graph: quire.Graph) -> None:
    text = "query q() { match { $p: P } return { $p.name as name, max($p.f) as most } having { most = 0.1 } }"
    assert [row["name"] for row in graph.query(text).to_pylist()] == ["a"]


def test_statements_find_the_same_rows(graph: quire.Graph) -> None:
    assert graph.mutate("query q() { update P set { many: [1.0] } where f = 0.1 }").updated == {"P": 1}
    assert graph.mutate("query q() { delete Knows where weight in [0.7, 3] }").deleted == {"Knows": 1}
