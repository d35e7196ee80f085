"""Rivals commit between the jobs of a graph load and its publish: rules hold on the state that the load lands on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.graph.load.twice import edge, node, person, prepared, written

import quire
from quire.errors import Conflict, IntegrityError
from quire.graph.embed import HashEmbedder
from quire.graph.integrity import validator
from quire.graph.integrity.task_judge import TaskJudge
from quire.graph.load import load
from quire.graph.load.staged.staging import Staged
from quire.lake.commit.transaction import Transaction


@pytest.fixture
def graph(tmp_path: Path) -> quire.Graph:
    return quire.Graph(quire.open(prepared(tmp_path / "lake")), embedder=HashEmbedder(4))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Who looked at rows: tasks at rows together, this process at rows by themselves."""
    seen: list[str] = []

    def watched(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            seen.append(name)
            return real(*given)

        return call

    monkeypatch.setattr(TaskJudge, "__call__", watched("judge", TaskJudge.__call__))
    monkeypatch.setattr(validator, "_check_rows", watched("rows", validator._check_rows))
    return seen


def staged(spark: Any, graph: quire.Graph, folder: Path, rows: list[Any], mode: Any = "append") -> Transaction:
    """A load that has run and is not published yet."""
    tx = graph.lake.transaction("load", fresh=True)
    load(tx, written(folder / "in", [rows]), mode, session=spark, embedder=graph.embedder, complete=True)
    return tx


def rival(graph: quire.Graph, statement: str) -> None:
    other = quire.Graph(quire.open(graph.lake.uri), embedder=HashEmbedder(4))
    other.mutate(statement)


def test_nothing_is_looked_at_twice_when_nothing_has_moved(
    graph: quire.Graph, spark: Any, tmp_path: Path, asked: list[str]
) -> None:
    tx = staged(spark, graph, tmp_path, [person("a", email="a@x"), edge("Likes", "a", "p1")])
    assert asked == ["judge"]
    tx.commit()
    assert asked == ["judge"]
    assert graph.lake["edge:Likes"].count() == 2


@pytest.mark.full
def test_an_overwrite_is_not_looked_at_twice_either(
    graph: quire.Graph, spark: Any, tmp_path: Path, asked: list[str]
) -> None:
    staged(spark, graph, tmp_path, [edge("Likes", "p1", "p2")], "overwrite").commit()
    assert asked == ["judge"]
    assert [(r["src"], r["dst"]) for r in graph.lake["edge:Likes"].to_pylist()] == [("p1", "p2")]


def test_after_a_rival_rules_are_asked_again_on_executors(
    graph: quire.Graph, spark: Any, tmp_path: Path, asked: list[str]
) -> None:
    tx = staged(spark, graph, tmp_path, [edge("Likes", "p4", "p5")])
    rival(graph, 'query m() { insert Person { name: "new", city: "Bonn" } }')
    asked.clear()
    tx.commit()
    assert asked == ["judge"]
    assert graph.lake["edge:Likes"].count() == 2


def test_an_edge_loses_against_the_removal_of_its_end(graph: quire.Graph, spark: Any, tmp_path: Path) -> None:
    tx = staged(spark, graph, tmp_path, [edge("Likes", "p4", "p5")])
    rival(graph, 'query m() { delete Person where name = "p5" }')
    with pytest.raises(Conflict, match="does not exist") as caught:
        tx.commit()
    assert caught.value.retryable
    assert graph.lake["edge:Likes"].count() == 1


@pytest.mark.full
def test_the_removal_of_a_node_loses_against_an_edge_to_it(graph: quire.Graph, spark: Any, tmp_path: Path) -> None:
    everybody = [person(f"p{i}", email=f"p{i}@x") for i in range(5)]  # without p5
    tx = staged(spark, graph, tmp_path, everybody, "overwrite")
    rival(graph, 'query m() { insert Likes { from: "p4", to: "p5" } }')
    with pytest.raises(Conflict, match="which is removed"):
        tx.commit()
    assert graph.lake["node:Person"].count() == 6


@pytest.mark.full
def test_what_is_unique_loses_against_a_rival(graph: quire.Graph, spark: Any, tmp_path: Path) -> None:
    tx = staged(spark, graph, tmp_path, [person("a", email="same@x")])
    rival(graph, 'query m() { insert Person { name: "b", city: "Bonn", email: "same@x" } }')
    with pytest.raises(Conflict, match="is unique"):
        tx.commit()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("few", [Staged.few, 0])
def test_a_partial_merge_keeps_what_a_rival_wrote(
    graph: quire.Graph, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(Staged, "few", few)
    tx = staged(spark, graph, tmp_path, [node("Person", name="p0", age=77), node("Person", name="p1", age=78)], "merge")
    rival(graph, 'query m() { update Person set { city: "Paris" } where name = "p0" }')
    receipt = tx.commit()
    assert receipt.replayed == 1
    rows = {r["name"]: (r["age"], r["city"]) for r in graph.lake["node:Person"].to_pylist()}
    assert (rows["p0"], rows["p1"]) == ((77, "Paris"), (78, "Ulm"))


@pytest.mark.full
def test_a_partial_row_whose_other_half_is_removed_is_refused(graph: quire.Graph, spark: Any, tmp_path: Path) -> None:
    tx = staged(spark, graph, tmp_path, [node("Person", name="p5", age=77)], "merge")
    rival(graph, 'query m() { delete Person where name = "p5" }')
    with pytest.raises(IntegrityError, match="is new and lacks"):
        tx.commit()
    assert graph.lake["node:Person"].count() == 5
