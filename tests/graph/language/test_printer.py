"""A tree printed and read again is the same tree."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget import budget
from tests.graph.language.trees import queries

from quire.graph.language import ast, parse, show

QUERIES = queries(
    names=["a", "name", "limit", "in", "order", "from_", "x1", "end", "when"],
    types=["Person", "A", "B_1"],
    edges=["knows", "worksAt", "limit", "order"],
    variables=["p", "f", "g"],
)


@settings(max_examples=budget(40, full=200), deadline=None)
@given(st.lists(QUERIES, max_size=2).map(lambda q: ast.File(tuple(q))))
def test_what_is_shown_is_read_as_the_same(file: ast.File) -> None:
    assert parse(show(file)) == file
