"""A tree printed and read again is the same tree."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.graph.language.trees import queries

from quire.graph.language import parse, show, tree

QUERIES = queries(
    names=["a", "name", "limit", "in", "order", "from_", "x1"],
    types=["Person", "A", "B_1"],
    edges=["knows", "worksAt", "limit", "order"],
    variables=["p", "f", "g"],
)


@settings(max_examples=200, deadline=None)
@given(st.lists(QUERIES, max_size=2).map(lambda q: tree.File(tuple(q))))
def test_what_is_shown_is_read_as_the_same(file: tree.File) -> None:
    assert parse(show(file)) == file
