"""Lint: everything that is wrong or doubtful, in one go."""

from __future__ import annotations

import pytest
from tests.graph.language.graphs import GRAPH

from quire.graph.language import lint


def codes(text: str) -> list[tuple[str, str, int]]:
    return [(f.severity, f.code, f.line) for f in lint(text, GRAPH)]


def test_a_good_file_has_no_findings() -> None:
    assert lint("query q($n: String) { match { $p: Person { name: $n } } return { $p.age } }", GRAPH) == []


def test_a_broken_query_does_not_hide_the_next_ones() -> None:
    text = """
query a() { match { $p: Person } return { $p.nme } }
query b() { match { $p: Person ( } return { $p.name } }
// query c() { nothing }
query d() { match { $p: Person $p.agee = 1 $p.age = "x" } return { $p.name, $p.foo } }
"""
    found = lint(text, GRAPH, "x.gq")
    assert [(f.query, f.code, f.line) for f in found] == [
        ("a", "type", 2),
        ("b", "parse", 3),
        ("d", "type", 5),
        ("d", "type", 5),
        ("d", "type", 5),
    ]
    assert {f.file for f in found} == {"x.gq"}
    assert found[0].message == "Person has no property 'nme'. Did you mean 'name'?"
    assert found[0].to_dict()["column"] == 43


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("query q() { match { $p: Person $c: Company } return { $p.name, $c.name } }", "cross-product"),
        ("query q($n: I64) { match { $p: Person } return { $p.name } }", "unused-parameter"),
        ("query q() { match { $p: Person $p knows $f } return { $p.name } }", "unused-variable"),
        ("query q() { match { $p: Person } return { $p.name } limit 3 }", "limit-without-order"),
        ('query q() { delete Person where name = "x" }', "mutation-without-parameters"),
        ("query q() { match { $p knows{1,} $f } return { $p.name, $f.name } }", "unbounded-traversal"),
        ("query q() { match { $p: Person not { $c: Company } } return { $p.name } }", "uncorrelated-not"),
        ("query q() { match { $p worksAt{1,3} $c } return { $p.name, $c.name } }", "bounds-without-effect"),
        ("query q() { match { $p worksAt{2,3} $c } return { $p.name, $c.name } }", "never-holds"),
        ("query q($s: enum(x)) { match { $p: Person { status: $s } } return { $p.name } }", "never-holds"),
    ],
)
def test_what_is_doubtful_is_a_warning(text: str, code: str) -> None:
    assert ("warning", code, 1) in codes(text)


@pytest.mark.parametrize(
    "match",
    [
        "$p: Person $c: Company $p.name = $c.name",
        "$p worksAt $c",
        "$p: Person $c: Company or { $p worksAt $c $p.name = $c.name }",
        "$p: Person $c: Company not { $p worksAt $c }",
    ],
)
def test_what_hangs_together_is_no_cross_product(match: str) -> None:
    assert codes(f"query q() {{ match {{ {match} }} return {{ $p.name, $c.name }} }}") == []


def test_two_queries_of_one_name_are_an_error() -> None:
    one = "query q() { match { $p: Person } return { $p.name } }"
    assert codes(f"{one}\n{one}") == [("error", "duplicate-query", 2)]


@pytest.mark.parametrize("text", ["", "// nothing", "rubbish", "query", "query q() {", 'query q() { "query a(" }'])
def test_any_text_can_be_linted(text: str) -> None:
    assert all(f.severity == "error" for f in lint(text, GRAPH))


def test_places_are_those_of_the_whole_text() -> None:
    text = "query a() {\n  broken }  query b() { match { $p: Person } return { $p.nme } }\n"
    text += "query c() { match { $p: Person\n }"
    found = lint(text, GRAPH)
    assert [(f.code, f.line, f.column) for f in found] == [("parse", 2, 3), ("type", 2, 55), ("parse", 4, 3)]
    for finding in found:
        line = text.splitlines()[finding.line - 1]
        assert finding.column <= len(line) + 1


@pytest.mark.parametrize("piece", ["/*", '"\\', '"', "query q( ", "query a() { \n", "query " + " " * 50])
def test_garbage_is_read_once(piece: str) -> None:
    text = (piece * 200_000)[:200_000]
    assert lint(text, GRAPH)
