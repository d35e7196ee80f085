"""Frames that are written to types of a graph by a transaction: its rules hold, and executors look at many rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import quire
import quire.spark
from quire.errors import Conflict, IntegrityError, QuireError
from quire.graph.integrity.task_judge import TaskJudge
from quire.spark.write import SparkTable

SCHEMA = """
node Person { name: String @key  age: I32?  mood: enum(happy, sad)?  @range(age, 0..150) }
edge Knows: Person -> Person @card(0..2) { why: String?  @unique(src, dst) }
"""
PEOPLE = "id string, name string, age int, mood string"
KNOWS = "id string, src string, dst string, why string"


@pytest.fixture
def graph(tmp_path: Path) -> quire.Graph:
    graph = quire.Graph(quire.create(tmp_path / "lake"))
    graph.apply_schema(SCHEMA)
    rows = [{"type": "Person", "data": {"name": f"p{n}", "age": n}} for n in range(5)]
    graph.load([*rows, {"edge": "Knows", "from": "p0", "to": "p1"}])
    return graph


@pytest.fixture(params=["one task", "shuffled"])
def judged(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Who looks at the rows; the list says what executors were asked."""
    asked: list[str] = []
    monkeypatch.setattr(SparkTable, "alone", 0)
    if request.param == "shuffled":
        monkeypatch.setattr(SparkTable, "few", 0)
    for name in ("__call__", "alone"):
        real = getattr(TaskJudge, name)
        monkeypatch.setattr(TaskJudge, name, lambda *given, n=name, r=real: (asked.append(n), r(*given))[1])
    return asked


def refused(spark: Any, graph: quire.Graph, people: list[Any], knows: list[Any]) -> set[tuple[Any, ...]]:
    before = graph.lake.refresh()
    tx = quire.spark.transaction(spark, graph.lake)
    if people:
        tx["node:Person"].append(spark.createDataFrame(people, PEOPLE).repartition(2))
    if knows:
        tx["edge:Knows"].append(spark.createDataFrame(knows, KNOWS).repartition(2))
    with pytest.raises(IntegrityError) as caught:
        tx.commit()
    assert graph.lake.refresh() == before
    return {(v["type"], v["rule"], v["id"]) for v in caught.value.fields["violations"]}


@pytest.mark.sampled(1)
def test_rows_that_keep_the_rules_are_committed(spark: Any, graph: quire.Graph, judged: list[str]) -> None:
    people = spark.createDataFrame([("x", "x", 1, "sad"), ("y", "y", None, None)], PEOPLE)
    knows = spark.createDataFrame([("k1", "x", "y", None), ("k2", "x", "p0", "old")], KNOWS)

    with quire.spark.transaction(spark, graph.lake) as tx:
        tx["node:Person"].append(people)
        tx["edge:Knows"].append(knows)

    assert (graph.table("Person").count(), graph.table("Knows").count()) == (7, 3)
    assert sorted(set(judged)) == ["__call__", "alone"]


def test_few_rows_are_looked_at_by_the_driver(spark: Any, graph: quire.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TaskJudge, "__call__", lambda *_: pytest.fail("a job for two rows"))
    monkeypatch.setattr(TaskJudge, "alone", lambda *_: pytest.fail("a job for two rows"))
    assert refused(spark, graph, [("x", "x", 151, None)], []) == {("Person", "range", "x")}
    assert refused(spark, graph, [], [("k", "p0", "nobody", None)]) == {("Knows", "end", "k")}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("people", "knows", "expected"),
    [
        ([("x", "x", 151, None), ("y", "y", 7, "glad")], [], {("Person", "range", "x"), ("Person", "enum", "y")}),
        ([("x", "other", 1, None)], [], {("Person", "key", "x")}),
        ([], [("k", "p0", "nobody", None)], {("Knows", "end", "k")}),
        ([], [("k", "p0", "p1", "again")], {("Knows", "unique", "k")}),
        ([("x", "x", 1, None)], [(f"k{n}", "x", f"p{n}", None) for n in range(3)], {("Knows", "card", "k2")}),
    ],
    ids=["alone", "key", "end", "unique", "cardinality"],
)
def test_rows_that_break_a_rule_are_refused(
    spark: Any, graph: quire.Graph, judged: list[str], people: list[Any], knows: list[Any], expected: Any
) -> None:
    found = refused(spark, graph, people, knows)
    if ("Knows", "card", "k2") in expected:  # which of the three is told depends on their order
        assert {(type, rule) for type, rule, _ in found} == {("Knows", "card")}
    else:
        assert found == expected


@pytest.mark.sampled(1)
def test_a_node_is_not_deleted_from_under_its_edges(spark: Any, graph: quire.Graph, judged: list[str]) -> None:
    with pytest.raises(QuireError) as caught, quire.spark.transaction(spark, graph.lake) as tx:
        tx["node:Person"].delete(spark.createDataFrame([("p1",)], "id string"))
    assert caught.value.kind == "integrity"
    assert graph.table("Person").count() == 5


@pytest.mark.sampled(1)
def test_a_rival_that_takes_an_end_away_is_met(spark: Any, graph: quire.Graph, judged: list[str]) -> None:
    tx = quire.spark.transaction(spark, graph.lake)
    tx["edge:Knows"].append(spark.createDataFrame([("k", "p3", "p4", None)], KNOWS))
    quire.Graph(quire.open(graph.lake.uri)).mutate('query m() { delete Person where name = "p4" }')
    with pytest.raises((IntegrityError, Conflict)):
        tx.commit()
    graph.lake.refresh()
    assert graph.table("Knows").count() == 1
