"""Stored queries that a schema change would break."""

from __future__ import annotations

import pytest

import quire
from quire.errors import SchemaRefused

BASE = "node P { name: String @key  age: I32? } edge Knows: P -> P"
OLDER = "query older() { match { $p: P  $p.age > 3 } return { $p.name } }"
NAMES = "query names() { match { $p: P } return { $p.name } }"


@pytest.fixture
def graph(lake: quire.Lake) -> quire.Graph:
    found = quire.Graph(lake)
    found.apply_schema(BASE)
    found.store(OLDER + NAMES)
    return found


def test_a_change_that_breaks_a_stored_query_is_refused_until_it_is_asked_for(graph: quire.Graph) -> None:
    without = BASE.replace("age: I32?", "")
    [refusal] = graph.plan_schema(without).refusals
    assert (refusal.code, "older" in refusal.sentence, "age" in refusal.sentence) == ("query-broken", True, True)
    before = graph.lake.head
    with pytest.raises(SchemaRefused, match="older"):
        graph.apply_schema(without)
    assert graph.lake.refresh() == before
    done = graph.apply_schema(without, break_queries=True)
    assert [s.details for s in done.steps if s.action == "break-query"] == [{"query": "older"}]
    assert not graph.plan_schema(without.replace("edge Knows: P -> P", "")).refusals, "it is broken already"


def test_renames_break_queries_and_new_things_do_not(graph: quire.Graph) -> None:
    wider = BASE.replace("age: I32?", "age: I32?  city: String?") + " node Q { name: String @key }"
    assert not graph.plan_schema(wider).refusals
    renamed = BASE.replace("age: I32?", 'years: I32? @rename_from("age")')
    assert [r.code for r in graph.plan_schema(renamed).refusals] == ["query-broken"]
    graph.store(OLDER.replace("$p.age > 3", '$p.name = "x"'))
    assert not graph.plan_schema(renamed).refusals
