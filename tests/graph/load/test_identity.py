"""Which row is which: ids that are given, made, or follow from what is unique."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import quire
from quire.errors import IntegrityError, Refused
from quire.graph.graph import Graph

SCHEMA = """
node Person { name: String @key }
node Note { text: String }
edge Likes: Person -> Person
edge Knows: Person -> Person { @unique(src, dst) }
edge Cites: Person -> Person { id: I64  src: String? }
"""
PEOPLE = [{"type": "Person", "data": {"name": name}} for name in "ABC"]


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with quire.create(tmp_path / "lake", backfill=False) as lake:
        graph = Graph(lake)
        graph.apply_schema(SCHEMA)
        graph.load(PEOPLE)
        yield graph


def edge(kind: str, source: str, target: str, **more: Any) -> dict[str, Any]:
    return {"edge": kind, "from": source, "to": target, **more}


def pairs(graph: Graph, kind: str) -> list[tuple[str, str]]:
    return sorted((r["src"], r["dst"]) for r in graph.lake[f"edge:{kind}"].to_pylist())


@pytest.mark.parametrize(
    "rows",
    [
        [{"type": "Note", "id": "n1", "data": {"text": "x"}}, {"type": "Note", "data": {"text": "y"}}],
        [{"type": "Note", "data": {"text": "y"}}],
    ],
    ids=["some without an id", "all without an id"],
)
def test_merge_refuses_rows_of_which_nothing_says_what_they_are(graph: Graph, rows: list[dict[str, Any]]) -> None:
    head = graph.lake.head
    with pytest.raises(Refused, match="cannot be merged"):
        graph.load(rows, mode="merge")
    assert graph.lake.head == head


@pytest.mark.parametrize(
    "rows",
    [
        [edge("Likes", "A", "B", id="l1"), edge("Likes", "A", "C")],
        [edge("Likes", "A", "C"), edge("Likes", "A", "B", id="l1")],
        [edge("Likes", "A", "C"), edge("Likes", "A", "B")],
    ],
    ids=["the second without an id", "the first without an id", "none with an id"],
)
def test_merge_inserts_edges_of_which_nothing_says_what_they_are(graph: Graph, rows: list[dict[str, Any]]) -> None:
    done = graph.load(rows, mode="merge")
    assert (done.types["Likes"].inserted, done.types["Likes"].updated) == (2, 0)
    assert pairs(graph, "Likes") == [("A", "B"), ("A", "C")]
    named = sum("id" in row for row in rows)
    done = graph.load(rows, mode="merge")
    assert (done.types["Likes"].inserted, done.types["Likes"].updated) == (2 - named, named), "an id names an edge"
    assert len({row["id"] for row in graph.lake["edge:Likes"].to_pylist()}) == 4 - named


def test_a_property_called_id_is_no_id(graph: Graph) -> None:
    for _ in range(2):
        graph.load([edge("Cites", "A", "B", data={"id": 7})], mode="merge")
    assert pairs(graph, "Cites") == [("A", "B"), ("A", "B")]


def test_the_same_edge_twice_in_a_merge_is_one_edge(graph: Graph, tmp_path: Path) -> None:
    same = [edge("Likes", "A", "B", id="l1"), edge("Likes", "A", "C", id="l2"), edge("Likes", "A", "B", id="l1")]
    assert graph.load(same, mode="merge").types["Likes"].inserted == 2
    assert pairs(graph, "Likes") == [("A", "B"), ("A", "C")]
    file = tmp_path / "edges.jsonl"
    other = [*same, edge("Likes", "B", "C", id="l1")]
    file.write_text("".join(json.dumps(row) + "\n" for row in other))
    with pytest.raises(IntegrityError) as caught:
        graph.load(str(file), mode="merge")
    [found] = caught.value.violations
    assert (found["line"], found["rule"]) == (4, "key")
    assert "with other content: here and in line 1" in found["message"]
    assert graph.load(str(file), mode="merge", skip_rejects=True).rejected == 1
    assert pairs(graph, "Likes") == [("A", "B"), ("A", "C")]
    with pytest.raises(IntegrityError, match="exists already"):
        graph.load(same, mode="append")


def test_under_merge_what_is_unique_says_which_edge_it_is(graph: Graph) -> None:
    graph.load([edge("Knows", "A", "B", id="k1")])
    assert graph.load([edge("Knows", "A", "B"), edge("Knows", "B", "C")], mode="merge").types["Knows"].updated == 1
    assert pairs(graph, "Knows") == [("A", "B"), ("B", "C")]
    with pytest.raises(IntegrityError, match="k1"):
        graph.load([edge("Knows", "A", "C", id="k1")], mode="merge")
    assert pairs(graph, "Knows") == [("A", "B"), ("B", "C")], "an id that is taken removes no other edge"


def test_an_overwrite_with_no_rows_leaves_none(graph: Graph) -> None:
    graph.load([edge("Likes", "A", "B")])
    graph.load({"Likes": []}, mode="overwrite")
    assert pairs(graph, "Likes") == []


def test_a_property_called_like_an_end_is_kept(graph: Graph) -> None:
    graph.load([{"from": "A", "to": "B", "id": 7, "src": "web"}], edge="Cites")
    [row] = graph.lake["edge:Cites"].to_pylist()
    assert (row["src"], row["dst"], row["property:src"], row["property:id"]) == ("A", "B", "web", 7)


def test_a_load_with_a_token_happens_once(graph: Graph) -> None:
    token = quire.token()
    rows = [{"type": "Person", "data": {"name": "D"}}]
    assert graph.load(rows, options={"token": token}).rows == 1
    again = graph.load(rows, options={"token": token})
    assert (again.repeated, again.rows, graph.lake["node:Person"].count()) == (True, 1, 4)


def test_a_handle_that_is_behind_looks_before_it_loads(graph: Graph) -> None:
    with quire.open(graph.lake.uri, backfill=False) as other:
        late = Graph(other)
        graph.load([{"type": "Person", "data": {"name": "D"}}])
        late.load([edge("Likes", "A", "D")])
    assert pairs(graph, "Likes") == [("A", "D")]
