"""What edges imply, and what loops join, is what SQL says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from tests.budget import budget
from tests.graph.query.given import PEOPLE, Given, graph
from tests.graph.query.test_semi_join import bodies, graphs

from quire.graph.language.checker.check import bind
from quire.graph.query import direct, implied_nodes
from quire.graph.query.duckdb_run import execute
from quire.graph.query.prepare import Prepared, prepare
from quire.graph.query.semi_join import narrow


@pytest.fixture
def people() -> Given:
    return graph(
        PEOPLE,
        Person=[{"name": n, "age": a, "city": "x"} for n, a in zip("abc", (1, 2, None), strict=True)],
        Company=[{"name": "a", "size": 1}],
        Knows=[{"src": s, "dst": d, "kind": s} for s, d in ("ab", "ab", "bc", "cc", "ca")],
        WorksAt=[{"src": "a", "dst": "a"}, {"src": "b", "dst": "a"}],
    )


def prepared(asked: Given, body: str, *, implied: bool = True, narrowed: bool = True) -> Prepared:
    query = asked.checked(body)
    found = prepare(query, asked.lake.snapshot(), bind(query, {}))
    if implied:
        implied_nodes.imply(found)
    if narrowed:
        narrow(found)
    return found


def rows(found: Prepared) -> list[Any]:
    return sorted((tuple(row.values()) for row in execute(found).to_pylist()), key=repr)


@pytest.mark.parametrize(
    ("match", "returned"),
    [
        ('$p: Person { name: "a" }', "$p"),
        ('$p: Person { name: "a" }  $p knows $f', "$f.name, $f.age, $p.name"),
        ('$p: Person { name: "c" }  $p <knows> $f', "$f.name"),
        ('$p: Person { name: "a" }  $p $e:knows $f', "$e.kind, $f.name"),
        ('$p: Person { name: "c" }  $p $e:<knows> $f', "$e, $f"),
        ('$p: Person { name: "c" }  $p knows $p', "$p.name"),
        ('$p: Person { name: "a" }  $p knows $f  $f knows $g  $g knows $p', "$f.age, $g.name"),
        ('$f: Person { name: "b" }  $p knows $f  $p worksAt $w', "$p.name, $w.name, $w.size"),
        ('$p: Person  $p.name in ["a", "c"]  $p knows $f', "$p.name, $f.age"),
        ('$p: Person { name: "nobody" }  $p knows $f', "$f.name"),
    ],
)
def test_loops_find_what_sql_finds(people: Given, match: str, returned: str) -> None:
    body = f"match {{ {match} }} return {{ {returned} }}"
    found = prepared(people, body)
    assert direct.joined(found) is not None, "answered without SQL"
    assert rows(found) == rows(prepared(people, body, implied=False, narrowed=False))


@pytest.mark.parametrize(
    "body",
    [
        "match { $p: Person  $p knows $f } return { $f.name, count($p) as by }",
        "match { $p: Person  $p <knows> $f } return { $p.name, $f.name }",
        'match { $p: Person  $p knows $f  $f.name starts_with "c" } return { $p.age }',
        "match { $p: Person  not { $p knows $f  $f worksAt $w } } return { $p.name }",
        "match { $p: Person  optional { $p worksAt $w } } return { $p.name, $w.name }",
        'match { $p knows $f  or { $p.name = "a"  { $p knows $g  $g.age > 1 } } } return { $p.name, $f.name }',
        "match { $p knows{1,2} $f  $f worksAt $w } return { $p.name, $w.name }",
        "match { $p knows $f  $f knows $g  $p.name = $g.name } return { $f.name }",
    ],
)
def test_nodes_that_edges_imply_change_no_answer(people: Given, body: str) -> None:
    assert rows(prepared(people, body)) == rows(prepared(people, body, implied=False))


def test_an_implied_node_is_not_read(people: Given) -> None:
    told = people.explained("match { $p: Person  $p knows $f } return { $f.name, count($p) as by }")
    assert [scan.table for scan in told.scans] == ["edge:Knows"]
    assert "not read, its id is" in str(told)


@settings(max_examples=budget(10, full=200), deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs(), bodies())
def test_neither_changes_an_answer(asked: Given, body: str) -> None:
    plain = rows(prepared(asked, body, implied=False, narrowed=False))
    assert rows(prepared(asked, body)) == plain
    assert rows(prepared(asked, body, narrowed=False)) == plain
