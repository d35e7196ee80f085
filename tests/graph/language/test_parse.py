"""Text to tree: every construct, every kind of error with its position, and no other way to fail."""

from __future__ import annotations

import datetime as dt
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget import budget

from quire.errors import InvalidQuery
from quire.graph.language import ast, parse
from quire.graph.types import Type


def body(text: str, parameters: str = "") -> ast.Read:
    found = parse(f"query q({parameters}) {{ match {{ {text} }} return {{ $p }} }}").queries[0].body
    assert isinstance(found, ast.Read)
    return found


def clause(text: str, parameters: str = "") -> ast.Clause:
    [found] = body(text, parameters).match
    return found


def expression(text: str) -> ast.Expression:
    [found] = parse(f"query q() {{ match {{ $p: P }} return {{ {text} }} }}").queries[0].body.projections  # type: ignore[union-attr]
    return found.expression


P, F = ast.Variable("p"), ast.Variable("f")
AGE = ast.Access(P, "age")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$p: Person", ast.Bind(P, "Person")),
        (
            '$p: Person { name: "x", age: 3, }',
            ast.Bind(
                P,
                "Person",
                (
                    ast.Assignment("name", ast.Literal("x", "String")),
                    ast.Assignment("age", ast.Literal(3, "I64")),
                ),
            ),
        ),
        ("$p knows $f", ast.Traverse(P, "knows", F)),
        ("$p <knows> $f", ast.Traverse(P, "knows", F, either=True)),
        ("$p < knows > $f", ast.Traverse(P, "knows", F, either=True)),
        ("$p $e:knows $f", ast.Traverse(P, "knows", F, ast.Variable("e"))),
        ("$p $e: <knows> $f", ast.Traverse(P, "knows", F, ast.Variable("e"), either=True)),
        ("$p knows{1,3} $f", ast.Traverse(P, "knows", F, bounds=ast.Bounds(1, 3))),
        ("$p knows {2,} $f", ast.Traverse(P, "knows", F, bounds=ast.Bounds(2, None))),
        ("$p contains $f", ast.Traverse(P, "contains", F)),
        ("$p contains{1,2} $f", ast.Traverse(P, "contains", F, bounds=ast.Bounds(1, 2))),
        (
            "$p knows{1,2} [since = 1, kind is null] $f",
            ast.Traverse(
                P,
                "knows",
                F,
                bounds=ast.Bounds(1, 2),
                filters=(
                    ast.Compare("=", ast.Name("since"), ast.Literal(1, "I64")),
                    ast.IsNull(ast.Name("kind")),
                ),
            ),
        ),
        ("not { $p knows $_ }", ast.Not((ast.Traverse(P, "knows", ast.Variable("_")),))),
        ("optional { $p knows $f }", ast.Optional((ast.Traverse(P, "knows", F),))),
        (
            "or { $p knows $f { $p.age = 1 $p.age = 2 } }",
            ast.Or(
                (
                    (ast.Traverse(P, "knows", F),),
                    (
                        ast.Compare("=", AGE, ast.Literal(1, "I64")),
                        ast.Compare("=", AGE, ast.Literal(2, "I64")),
                    ),
                )
            ),
        ),
        (
            "$x = shortest($p knows{1,6} $f)",
            ast.Shortest(ast.Variable("x"), ast.Traverse(P, "knows", F, bounds=ast.Bounds(1, 6))),
        ),
        ("$p.age is null", ast.IsNull(AGE)),
        ("$p.age is not null", ast.IsNull(AGE, True)),
        ('search($p.age, "x")', ast.Matches(ast.Call("search", (AGE, ast.Literal("x", "String"))))),
        ("$p.limit = 1", ast.Compare("=", ast.Access(P, "limit"), ast.Literal(1, "I64"))),
        ("$p.in in [1]", ast.Compare("in", ast.Access(P, "in"), ast.ListOf((ast.Literal(1, "I64"),)))),
    ],
)
def test_a_clause_is_read_as_it_is_written(text: str, expected: ast.Clause) -> None:
    assert clause(text) == expected


@pytest.mark.parametrize("sign", [">=", "<=", "!=", ">", "<", "=", "contains", "starts_with", "in"])
def test_every_comparison_is_read(sign: str) -> None:
    assert clause(f"$p.age {sign} 3") == ast.Compare(sign, AGE, ast.Literal(3, "I64"))  # type: ignore[arg-type]


def test_contains_between_a_parameter_and_a_variable_is_a_comparison() -> None:
    assert isinstance(clause("$p contains $f", "$p: [String]"), ast.Compare)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r'"a\"\n\u00e9"', ast.Literal('a"\né', "String")),
        ('"two\nlines"', ast.Literal("two\nlines", "String")),
        ("-5", ast.Literal(-5, "I64")),
        ("2.5e3", ast.Literal(2500.0, "F64")),
        ("true", ast.Literal(True, "Bool")),
        ("false", ast.Literal(False, "Bool")),
        ("[]", ast.ListOf(())),
        ("[1, 2,]", ast.ListOf((ast.Literal(1, "I64"), ast.Literal(2, "I64")))),
        ('date("2024-02-29")', ast.Literal(dt.date(2024, 2, 29), "Date")),
        ('datetime("2024-01-01T00:00:00Z")', ast.Literal(dt.datetime(2024, 1, 1, tzinfo=dt.UTC), "DateTime")),
        ("now()", ast.Call("now", ())),
        ("count(*)", ast.Aggregate("count", None)),
        ("count(distinct $p)", ast.Aggregate("count", P, True)),
        ("sum($p.age)", ast.Aggregate("sum", AGE)),
        ("$p.age + 1 * 2", ast.Binary("+", AGE, ast.Binary("*", ast.Literal(1, "I64"), ast.Literal(2, "I64")))),
        ("($p.age + 1) % 2", ast.Binary("%", ast.Binary("+", AGE, ast.Literal(1, "I64")), ast.Literal(2, "I64"))),
        ("$p.age - 1 / 2", ast.Binary("-", AGE, ast.Binary("/", ast.Literal(1, "I64"), ast.Literal(2, "I64")))),
        ("-$p.age", ast.Negative(AGE)),
        (
            "rrf(nearest($p.age, $p), bm25($p.age, $p), 10)",
            ast.Call("rrf", (ast.Call("nearest", (AGE, P)), ast.Call("bm25", (AGE, P)), ast.Literal(10, "I64"))),
        ),
    ],
)
def test_an_expression_is_read_as_it_is_written(text: str, expected: ast.Expression) -> None:
    found = expression(text)
    assert found == expected
    assert not isinstance(found, ast.Literal) or type(found.value) is type(expected.value)  # type: ignore[union-attr]


def test_the_parts_of_a_read_are_all_there() -> None:
    [query] = parse(
        """
        query q($n: I64, $v: Vector(4)?, $l: [String], $e: enum(a-b, c)) // comment
          @description("what") @instruction("how") {
          match { $p: Person /* another
                  comment */ }
          return distinct { $p.name count($p) as n, $p as in }
          having { n > 1 count(*) < 9 }
          order { n desc, $p.name asc, count($p) }
          limit $n offset 3
        }
        """
    ).queries
    read = query.body
    assert isinstance(read, ast.Read)
    assert [p.type for p in query.parameters] == [
        Type("I64"),
        Type("Vector", size=4, optional=True),
        Type("String", many=True),
        Type("enum", values=("a-b", "c")),
    ]
    assert (query.description, query.instruction) == ("what", "how")
    assert [p.alias for p in read.projections] == [None, "n", "in"]
    assert [o.descending for o in read.order] == [True, False, None]
    assert (read.distinct, len(read.having)) == (True, 2)
    assert (read.limit, read.offset) == (ast.Variable("n"), ast.Literal(3, "I64"))
    assert query.at == ast.At(2, 9)


def test_several_statements_make_one_mutation() -> None:
    [query] = parse(
        'query q() { insert Knows { from: "a", to: "b" since: 1 }'
        " update P set { limit: 2 } where limit = 1 and in in [1] delete P where a is null }"
    ).queries
    insert, update, delete = query.body.statements  # type: ignore[union-attr]
    assert [a.name for a in insert.assignments] == ["from", "to", "since"]  # type: ignore[union-attr]
    assert len(update.where) == 2  # type: ignore[union-attr]
    assert isinstance(delete, ast.Delete)


@pytest.mark.parametrize(
    ("text", "at", "said"),
    [
        ("qery f() {}", (1, 1), "Did you mean 'query'?"),
        ("query f() { mach { } }", (1, 13), "Did you mean 'match'?"),
        ("query f() { match { $p: P } return { $p } limt 3 }", (1, 43), "Did you mean 'limit'?"),
        ("query f() { match { $p: P", (1, 26), "ends too early"),
        ("query f() {\n match { $p Person } }", (2, 13), "bound with a colon"),
        ("query f() { match { $p.age } return { $p } }", (1, 21), "nothing to compare with"),
        ("query f() { match { $p.a = 'x' } return { $p } }", (1, 28), "double quotes"),
        ("query f() { match { $p: P } return { cuont($p) } }", (1, 38), "Did you mean 'count'?"),
        ("query f() { match { $p: P } return { sum(*) } }", (1, 38), "is not allowed"),
        ("query f() { match { $p: P } return { count($p, $p) } }", (1, 38), "one argument"),
        ("query f() { match { $p: P } return { now(1) } }", (1, 38), "takes 0 arguments"),
        ("query f() { match { $p: P } return { now(*) } }", (1, 38), "neither"),
        ('query f() { match { $p: P } return { date("2024-13-01") } }', (1, 43), "must be a date"),
        ("query f() { match { $p: P } return { date(3) } }", (1, 38), "text in quotes"),
        (r'query f() { match { $p: P } return { "\q" } }', (1, 38), "escape"),
        (r'query f() { match { $p: P } return { "\ud800" } }', (1, 38), "escape"),
        ('query f() { match { $p: P } return { "a\\\nb" } }', (1, 38), "escape"),
        ('query f() { match { $p: P } return { "a\\\x01" } }', (1, 38), "escape"),
        ("query f() { match { $p: P } return { 99999999999999999999999 } }", (1, 38), "too large"),
        ("query f() { match { $p: P } return { -18446744073709551615 } }", (1, 38), "too small"),
        ("query f() { match { $p: P } return { 1e999 } }", (1, 38), "too large"),
        ("query f() { match { $p k{3,1} $q } return { $p } }", (1, 28), "end before they begin"),
        ("query f() { match { $p: P } return { shortest($p k $q) } }", (1, 38), "$p = shortest"),
        ("query f() { match { shortest($p k $q) } return { $p } }", (1, 21), "needs a name"),
        ("query f() { match { $x = shortest($p $e:k $q) } return { $p } }", (1, 38), "many edges"),
        ("query f() { match { $x = shortest($p) } return { $p } }", (1, 26), "takes a traversal"),
        ("query f() { match { $p: P { a: 1, a: 2 } } return { $p } }", (1, 35), "given twice"),
        ("query f($a: Strin) { delete P where a = 1 }", (1, 13), "Did you mean 'String'?"),
        ("query f($a: I64, $a: I64) { delete P where a = 1 }", (1, 18), "declared twice"),
        ("query f($_: I64) { delete P where a = 1 }", (1, 9), "needs a name"),
        ("query f($a: Vector(0)) { delete P where a = 1 }", (1, 20), "dimensions"),
        ("query f($a: I64(3)) { delete P where a = 1 }", (1, 13), "takes no size"),
        ("query f($a: [Blob]) { delete P where a = 1 }", (1, 14), "no lists of Blob"),
        ("query f($a: enum(x, x)) { delete P where a = 1 }", (1, 21), "written twice"),
        ('query f() @descripton("x") { delete P where a = 1 }', (1, 11), "Did you mean '@description'?"),
        ('query f() @description("x") @description("y") { delete P where a = 1 }', (1, 29), "written twice"),
        ("query f() { update P set { a: 1 } }", (1, 35), "`where`"),
        ("query f() { delete P where $x = shortest($a k $b) }", (1, 28), "only in match"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, at: tuple[int, int], said: str) -> None:
    with pytest.raises(InvalidQuery) as caught:
        parse(text, file="x.gq")
    error = caught.value
    assert (error.line, error.column, error.file) == (*at, "x.gq")
    assert said in str(error)
    assert str(error).startswith(f"x.gq: line {at[0]}, column {at[1]}: ")


@pytest.mark.parametrize(
    "text",
    [
        "query f() { match { $p: P } return { " + "(" * 3000 + "1" + ")" * 3000 + " } }",
        "query f() { match { $p: P } return { " + "-" * 3000 + "$p.a } }",
        "query f() { match { $p: P } return { " + "1 + " * 3000 + "1 } }",
        "query f() { match { " + "not { " * 3000 + "$p: P" + " }" * 3000 + " } return { $p } }",
    ],
)
def test_deep_nesting_is_refused_or_harmless(text: str) -> None:
    # Parentheses leave nothing behind; everything else is nested in the tree too.
    if "((" in text:
        assert parse(text).queries
    else:
        with pytest.raises(InvalidQuery, match="nested"):
            parse(text)


def test_a_text_that_is_too_long_is_refused() -> None:
    with pytest.raises(InvalidQuery, match="characters"):
        parse(" " * ((1 << 20) + 1))


WORDS = "query q ( ) { } match return distinct having order limit offset $p $_ : P knows < > <k> [ ] , . = != in is not"
WORDS += (
    ' null or optional and insert update set where delete from count( * sum( now() date("2024-01-01") 1 2.5 "t" true'
)
WORDS += " contains starts_with as asc desc shortest( nearest( @description + - / % // /* */ {1,2} \" ' # \\ enum é"


@settings(max_examples=budget(40, full=300), deadline=None)
@given(st.one_of(st.text(max_size=200), st.lists(st.sampled_from(WORDS.split()), max_size=60).map(" ".join)))
def test_any_text_is_read_or_refused_in_time(text: str) -> None:
    began, places = time.monotonic(), []
    for whole in (text, f"query q() {{ match {{ {text} }} return {{ $p }} }}", f"query q() {{ {text} }}"):
        try:
            parse(whole)
        except InvalidQuery as error:
            places.append(error.line)
    assert all(line >= 1 for line in places)
    assert time.monotonic() - began < 5
