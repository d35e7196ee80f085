"""What says under merge which row is which: one rule of those that are unique, and an id where that is null."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import quire
from quire.errors import IntegrityError
from quire.graph.graph import Graph

SCHEMA = """
node Person { name: String @key }
node Part { zone: String? @unique  area: String? @unique  weight: I32? }
edge Coded: Person -> Person { code: String? @unique  weight: I32? }
edge Paired: Person -> Person { alpha: String? @unique  weight: I32?  @unique(src, dst) }
"""


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with quire.create(tmp_path / "lake", backfill=False) as lake:
        graph = Graph(lake)
        graph.apply_schema(SCHEMA)
        graph.load([{"type": "Person", "data": {"name": name}} for name in "ABC"])
        yield graph


def coded(id: str | None = None, **data: Any) -> dict[str, Any]:
    return {"edge": "Coded", "from": "A", "to": "B", "data": data} | ({"id": id} if id else {})


def merged(graph: Graph, *rows: dict[str, Any], **options: Any) -> tuple[int, int]:
    done = graph.load(list(rows), mode="merge", **options)
    return sum(done.inserted.values()), sum(done.updated.values())


def weights(graph: Graph, table: str, by: str = "id") -> dict[Any, Any]:
    return {row[by]: row["weight"] for row in graph.lake[table].to_pylist()}


def test_a_row_whose_unique_is_null_goes_by_its_id(graph: Graph) -> None:
    assert merged(graph, coded("e7", weight=1)) == (1, 0)
    assert merged(graph, coded("e7", weight=2), coded("e8", code=None, weight=3)) == (1, 1)
    assert weights(graph, "edge:Coded") == {"e7": 2, "e8": 3}


def test_each_row_goes_by_what_it_has(graph: Graph) -> None:
    merged(graph, coded("e1", code="x", weight=1), coded("e2", weight=1))
    assert merged(graph, coded(code="x", weight=5), coded("e2", weight=6), coded(code="y", weight=7)) == (1, 2)
    assert weights(graph, "edge:Coded", "code") == {"x": 5, None: 6, "y": 7}


def test_a_row_without_either_is_rejected_where_it_is(graph: Graph, tmp_path: Path) -> None:
    file = tmp_path / "edges.jsonl"
    file.write_text(
        '{"edge": "Coded", "from": "A", "to": "B", "data": {"code": "x", "weight": 1}}\n'
        '{"edge": "Coded", "from": "A", "to": "C", "data": {"weight": 2}}\n'
    )
    with pytest.raises(IntegrityError) as caught:
        graph.load(str(file), mode="merge")
    [found] = caught.value.violations
    assert (found["file"], found["line"], found["rule"], found["property"]) == (str(file), 2, "key", "code")
    assert merged(graph, {"edge": "Coded", "from": "A", "to": "B", "data": {"code": "x"}}) == (1, 0)
    done = graph.load(str(file), mode="merge", skip_rejects=True)
    assert (done.rejected, done.updated) == (1, {"Coded": 1})
    assert weights(graph, "edge:Coded", "code") == {"x": 1}


def test_an_id_that_another_row_has_by_what_is_unique_still_clashes(graph: Graph) -> None:
    merged(graph, coded("e1", code="x"))
    with pytest.raises(IntegrityError) as caught:
        merged(graph, coded("e1", code="y"))
    assert caught.value.rule == "key"
    assert "exists already with different unique values" in caught.value.message


def test_the_ends_of_an_edge_come_before_other_rules(graph: Graph) -> None:
    def row(alpha: str | None, weight: int) -> dict[str, Any]:
        return {"edge": "Paired", "from": "A", "to": "B", "data": {"alpha": alpha, "weight": weight}}

    assert merged(graph, row("x", 1)) == (1, 0)
    assert merged(graph, row("y", 2)) == (0, 1)
    assert merged(graph, row(None, 3)) == (0, 1)
    assert weights(graph, "edge:Paired", "alpha") == {None: 3}


def test_of_other_rules_the_one_that_is_declared_first_counts(graph: Graph) -> None:
    def part(zone: str, area: str) -> dict[str, Any]:
        return {"type": "Part", "data": {"zone": zone, "area": area}}

    assert merged(graph, part("z", "a")) == (1, 0)
    assert merged(graph, part("z", "b")) == (0, 1)
    with pytest.raises(IntegrityError) as caught:
        merged(graph, part("y", "b"))
    assert (caught.value.rule, caught.value.property) == ("unique", "area")


def test_nodes_that_all_have_an_id_go_by_it(graph: Graph) -> None:
    first = {"type": "Part", "id": "p1", "data": {"zone": "z", "weight": 1}}
    assert merged(graph, first) == (1, 0)
    assert merged(graph, {**first, "data": {"zone": "y", "weight": 2}}) == (0, 1)
    assert weights(graph, "node:Part", "zone") == {"y": 2}
