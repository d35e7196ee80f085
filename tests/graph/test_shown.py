"""Properties are shown by their names, whatever the columns are called that they are stored in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import quire

SCHEMA = """
node Item { id: I64? @unique  note: String? }
node Place { name: String @key  id: String?  src: String? }
edge Leads: Place -> Place { id: String?  src: I64?  dst: I64? }
edge Near: Place -> Place { dst: String? }
edge Far: Place -> Place { id: I32? }
"""
ROWS: list[dict[str, Any]] = [
    {"type": "Item", "id": "u1", "data": {"id": 7, "note": "a"}},
    {"type": "Place", "data": {"name": "a", "id": "ida", "src": "s"}},
    {"type": "Place", "data": {"name": "b"}},
    {"edge": "Leads", "id": "e1", "from": "a", "to": "b", "data": {"id": "own", "src": 1, "dst": 2}},
    {"edge": "Near", "id": "e2", "from": "a", "to": "b", "data": {"dst": "d"}},
    {"edge": "Far", "id": "e3", "from": "a", "to": "b", "data": {"id": 5}},
]
ITEM = {"@id": "u1", "id": 7, "note": "a"}
A = {"@id": "a", "name": "a", "id": "ida", "src": "s"}
B = {"@id": "b", "name": "b", "id": None, "src": None}
LEADS = {"@id": "e1", "from": "a", "to": "b", "id": "own", "src": 1, "dst": 2}
NEAR = {"id": "e2", "from": "a", "to": "b", "dst": "d"}
FAR = {"@id": "e3", "src": "a", "dst": "b", "id": 5}


def made(folder: Path) -> quire.Graph:
    graph = quire.Graph(quire.create(str(folder), backfill=False))
    graph.apply_schema(SCHEMA)
    return graph


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[quire.Graph]:
    graph = made(tmp_path / "lake")
    graph.load(ROWS)
    yield graph
    graph.lake.close()


def test_a_query_returns_whole_entities_by_their_properties(graph: quire.Graph) -> None:
    query = (
        "query q() { match { $a: Place  $a $e:leads $b  $a $f:near $b  $a $g:far $b } return { $a, $b, $e, $f, $g } }"
    )
    assert graph.query(query).to_pylist() == [{"a": A, "b": B, "e": LEADS, "f": NEAR, "g": FAR}]
    assert graph.query("query q() { match { $i: Item } return { $i } }").to_pylist() == [{"i": ITEM}]


def test_a_node_and_what_is_next_to_it_are_shown_so(graph: quire.Graph) -> None:
    assert graph.node("Place", "a") == A
    found = {n.edge: (n.properties, n.node) for n in graph.neighbours("Place", "a")}
    assert found == {"Leads": (LEADS, B), "Near": (NEAR, B), "Far": (FAR, B)}


def test_networkx_carries_them_so(graph: quire.Graph) -> None:
    found = graph.to_networkx()
    assert found.nodes["Item", "u1"] == {"type": "Item", "id": 7, "note": "a"}
    assert found.edges[("Place", "a"), ("Place", "b"), "e1"] == {"type": "Leads", "id": "own", "src": 1, "dst": 2}


@pytest.mark.parametrize("kind", ["arrow", "pandas", "polars"])
def test_frames_are_loaded_again_as_they_are(graph: quire.Graph, tmp_path: Path, kind: Any) -> None:
    frames = graph.frames(kind)
    other = made(tmp_path / "other")
    other.load(frames)
    expected = {"Item": [ITEM], "Place": [A, B], "Leads": [LEADS], "Near": [NEAR], "Far": [FAR]}
    assert {name: rows.to_pylist() for name, rows in other.frames("arrow").items()} == expected
    assert other.load(frames, mode="merge").updated == {"Item": 1, "Place": 2, "Leads": 1, "Near": 1, "Far": 1}
    other.lake.close()


def test_rows_of_one_type_name_their_ids_so_too(graph: quire.Graph) -> None:
    graph.load([{"@id": "u2", "id": 8}], type="Item")
    assert graph.lake["node:Item"].to_pylist()[-1] == {"id": "u2", "property:id": 8, "note": None}
