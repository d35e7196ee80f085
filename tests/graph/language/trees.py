"""Random trees of queries."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from quire.graph.language import ast
from quire.graph.types import SCALARS, Type

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
LITERALS = st.one_of(
    TEXT.map(lambda v: ast.Literal(v, "String")),
    st.integers(-(2**63), 2**64 - 1).map(lambda v: ast.Literal(v, "I64")),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda v: ast.Literal(v, "F64")),
    st.booleans().map(lambda v: ast.Literal(v, "Bool")),
    st.dates().map(lambda v: ast.Literal(v, "Date")),
    st.datetimes(timezones=st.just(dt.UTC)).map(lambda v: ast.Literal(v, "DateTime")),
)
BOUNDS = st.builds(
    lambda m, n: ast.Bounds(m, None if n is None else m + n), st.integers(1, 5), st.none() | st.integers(0, 5)
)
OPERATORS = st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "contains", "starts_with", "in"])
KINDS = st.one_of(
    st.builds(Type, st.sampled_from(SCALARS), st.booleans()),
    st.builds(Type, st.sampled_from([s for s in SCALARS if s != "Blob"]), st.booleans(), st.just(True)),
    st.just(Type("Vector", size=3)),
    st.just(Type("enum", optional=True, values=("a-b", "c"))),
)
PARAMETERS = st.lists(
    st.builds(ast.Parameter, st.sampled_from(["k", "l", "m"]), KINDS), max_size=3, unique_by=lambda p: p.name
).map(tuple)


def queries(
    *, names: Sequence[str], types: Sequence[str], edges: Sequence[str], variables: Sequence[str]
) -> st.SearchStrategy[ast.Query]:
    """Queries that use these words, right or wrong."""
    name, kind, named = st.sampled_from(names), st.sampled_from(types), st.sampled_from(variables).map(ast.Variable)
    variable = named | st.just(ast.Variable("_"))
    atom = st.one_of(LITERALS, variable, st.builds(ast.Access, named, name), name.map(ast.Name))
    value = st.recursive(atom, _deeper, max_leaves=6)
    given = st.lists(st.builds(ast.Assignment, name, value), max_size=3, unique_by=lambda a: a.name).map(tuple)
    searches = st.sampled_from(["search", "fuzzy", "match_text"])
    condition = st.one_of(
        st.builds(ast.Compare, OPERATORS, value, value).filter(_comparison),
        st.builds(ast.IsNull, value, st.booleans()),
        st.builds(lambda f, a, b: ast.Matches(ast.Call(f, (a, b))), searches, atom, atom),
    )
    some = st.lists(condition, max_size=2).map(tuple)
    edge, bounds, either = st.sampled_from(edges), st.none() | BOUNDS, st.booleans()
    simple = st.one_of(
        st.builds(ast.Bind, variable, kind, given),
        st.builds(ast.Traverse, variable, edge, variable, st.none() | named, either, bounds, some),
        st.builds(ast.Traverse, variable, st.just("knows"), variable, st.none(), either, bounds, some, st.just(("b",))),
        condition,
        st.builds(
            ast.Shortest, named, st.builds(ast.Traverse, variable, edge, variable, st.none(), either, bounds, some)
        ),
    )
    counts = st.none() | st.integers(0, 99).map(lambda v: ast.Literal(v, "I64")) | named
    read = st.builds(
        ast.Read,
        st.lists(st.recursive(simple, _nested, max_leaves=5), min_size=1, max_size=4).map(tuple),
        st.lists(st.builds(ast.Projection, value, st.none() | name), min_size=1, max_size=3).map(tuple),
        st.booleans(),
        some,
        st.lists(st.builds(ast.Ordering, value, st.none() | st.booleans()), max_size=2).map(tuple),
        counts,
        counts,
    )
    where = st.lists(condition, min_size=1, max_size=3).map(tuple)
    statement = st.one_of(
        st.builds(ast.Insert, kind, given),
        st.builds(ast.Update, kind, given, where),
        st.builds(ast.Delete, kind, where),
    )
    mutation = st.lists(statement, min_size=1, max_size=3).map(lambda s: ast.Mutation(tuple(s)))
    notes = st.none() | TEXT
    return st.builds(ast.Query, name, PARAMETERS, st.one_of(read, read, mutation), notes, notes)


def _deeper(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.builds(ast.Binary, st.sampled_from("+-*/%"), inner, inner),
        st.builds(ast.Negative, inner.filter(_unsigned)),
        st.lists(inner, max_size=3).map(lambda items: ast.ListOf(tuple(items))),
        st.builds(
            ast.Aggregate, st.sampled_from(["count", "sum", "avg", "min", "max", "collect"]), inner, st.booleans()
        ),
        st.just(ast.Aggregate("count", None)),
        st.builds(lambda f, a, b: ast.Call(f, (a, b)), st.sampled_from(["concat", "split", "coalesce"]), inner, inner),
        st.builds(ast.Case, st.lists(_branches(inner), min_size=1, max_size=2).map(tuple), st.none() | inner),
        st.just(ast.Call("now", ())),
        st.builds(lambda f, a, b: ast.Call(f, (a, b)), st.sampled_from(["nearest", "bm25", "rrf"]), inner, inner),
    )


def _branches(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    condition = st.builds(ast.Compare, OPERATORS, inner, inner).filter(_comparison) | st.builds(ast.IsNull, inner)
    return st.builds(ast.When, st.lists(condition, min_size=1, max_size=2).map(tuple), inner)


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    block = st.lists(inner, min_size=1, max_size=3).map(tuple)
    return st.one_of(
        st.builds(ast.Not, block),
        st.builds(ast.Exists, block),
        st.builds(lambda b, n: ast.Compare(">", ast.CountOf(b), n), block, LITERALS),
        st.builds(ast.Optional, block),
        st.lists(block, min_size=1, max_size=3).map(lambda a: ast.Or(tuple(a))),
    )


def _unsigned(e: ast.Expression) -> bool:
    """A sign before a number is part of the number."""
    return not (isinstance(e, ast.Literal) and e.kind in ("I64", "F64"))


def _comparison(c: ast.Compare) -> bool:
    """`$a contains $b` is a traversal."""
    words = ("contains", "starts_with", "in")
    return not (c.operator in words and isinstance(c.left, ast.Variable) and isinstance(c.right, ast.Variable))
