"""The graph: its types, a picture to begin with, search, neighbours, the shortest path, the history of an entity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from quire.errors import InvalidInput, NotFound
from quire.graph.catalog import Catalog, Entity
from quire.graph.graph import Graph
from quire.graph.integrity.lookups import is_in
from quire.graph.reading.neighbours import plain
from quire.graph.types import Type
from quire.lake import Snapshot
from quire.rowfiles.write import json_rows
from quire.server.calls import Call
from quire.server.ui.reading import At

NODES = 300
"""Nodes of the first picture, unless more are asked for."""
MOST_NODES = 5_000
MOST_EDGES = 20_000
FOUND = 30
AROUND = 60
"""Neighbours by each type of edge and direction."""
STEPS = 10
"""How long a path may be."""
REACHED = 100_000
CHUNK = 1_000

Node = dict[str, Any]
Edge = dict[str, Any]


class Sampled(At):
    nodes: int = NODES


class Searched(At):
    q: str = ""
    type: str = ""


class OneNode(At):
    type: str = ""
    id: str = ""


class Ends(At):
    type: str = ""
    id: str = ""
    to_type: str = ""
    to_id: str = ""


def graph(call: Call) -> dict[str, Any]:
    """The types with how many there are, and some of the nodes with the edges between them."""
    snap = call.snapshot()
    catalog = Graph(call.lake()).catalog(snap)
    types = [_type(snap, catalog, entity) for entity in catalog.entities]
    wanted = max(1, min(call.query.nodes, MOST_NODES))
    nodes = _sample(snap, [*catalog.nodes], wanted)
    edges = list(_between(snap, catalog, nodes))
    return {"commit": snap.commit, "types": types, "nodes": nodes, "edges": edges}


def _type(snap: Snapshot, catalog: Catalog, entity: Entity) -> dict[str, Any]:
    said: dict[str, Any] = {
        "name": entity.name,
        "kind": entity.kind,
        "count": snap[entity.table].count(),
        "properties": [
            {"name": p.name, "type": str(p.type), "key": p.name in entity.defined.key}
            for p in entity.defined.properties
        ],
    }
    if entity.kind == "edge":
        said |= {"source": catalog.source(entity).name, "target": catalog.target(entity).name}
    return said


def _sample(snap: Snapshot, types: list[Entity], wanted: int) -> list[Node]:
    """Of small types all, of the others their share."""
    found: list[Node] = []
    by_size = sorted(types, key=lambda entity: snap[entity.table].count())
    for n, entity in enumerate(by_size):
        share = (wanted - len(found)) // (len(by_size) - n)
        if share:
            rows = snap[entity.table].scan(columns=_brief(entity), limit=share)
            found += [_node(entity, row) for batch in rows for row in json_rows(batch)]
    return found


def _between(snap: Snapshot, catalog: Catalog, nodes: list[Node]) -> Iterator[Edge]:
    have = {(node["type"], node["id"]) for node in nodes}
    left = MOST_EDGES
    for entity in catalog.edges:
        source, target = catalog.source(entity).name, catalog.target(entity).name
        ids = [id for kind, id in have if kind == source]
        for first in range(0, len(ids), CHUNK):
            rows = snap[entity.table].scan(
                columns=["id", "src", "dst"], filter=_among("src", ids[first : first + CHUNK])
            )
            for row in rows.to_pylist():
                if (target, row["dst"]) in have and left > 0:
                    left -= 1
                    yield _edge(entity, source, target, row)


def _label_of(entity: Entity) -> str | None:
    """The property by which people know a node: its key, else what is called name or title."""
    names = [*entity.defined.key, *(n for n in ("name", "title", "label") if n in entity.properties)]
    return entity.property(names[0]).column if names else None


def _brief(entity: Entity) -> list[str]:
    label = _label_of(entity)
    return ["id"] if label is None or label == "id" else ["id", label]


def _node(entity: Entity, row: dict[str, Any]) -> Node:
    label = _label_of(entity)
    shown = row.get(label) if label is not None else None
    return {"type": entity.name, "id": row["id"], "label": str(row["id"] if shown is None else shown)[:60]}


def _edge(entity: Entity, source: str, target: str, row: dict[str, Any]) -> Edge:
    return {"type": entity.name, "id": row["id"], "from": [source, row["src"]], "to": [target, row["dst"]]}


def _among(column: str, values: list[str]) -> Any:
    return is_in(column, Type("String"), values)


# -- finding ---------------------------------------------------------------------------------------------------------


def find(call: Call) -> dict[str, Any]:
    """Nodes whose label begins with a text, or has it somewhere."""
    snap = call.snapshot()
    catalog = Graph(call.lake()).catalog(snap)
    word = call.query.q.strip()
    found: list[Node] = []
    for entity in catalog.nodes:
        if call.query.type and entity.name != call.query.type:
            continue
        label = _label_of(entity) or "id"
        told = word.replace("'", "''")
        column = '"' + label.replace('"', '""') + '"'
        kind = snap[entity.table].schema.field(label).type
        condition = f"{column} ilike '%{told}%'" if str(kind) in ("string", "large_string") else f"id = '{told}'"
        rows = snap[entity.table].scan(columns=_brief(entity), filter=condition if word else None, limit=FOUND)
        found += [_node(entity, row) for batch in rows for row in json_rows(batch)]
    found.sort(key=lambda n: (not n["label"].lower().startswith(word.lower()), len(n["label"]), n["label"]))
    return {"found": found[:FOUND]}


def around(call: Call) -> dict[str, Any]:
    """A node with all its properties, its edges, and what is at their other ends."""
    snap, asked = call.snapshot(), call.query
    catalog = Graph(call.lake()).catalog(snap)
    entity = catalog.node(asked.type)
    rows = snap[entity.table].scan(columns=plain(entity), filter=_among("id", [asked.id])).to_pylist()
    if not rows:
        raise NotFound(f"There is no {asked.type} {asked.id!r}.", next="Search for it.", type=asked.type, id=asked.id)
    [shown] = _json(snap, entity, asked.id)
    nodes: dict[tuple[str, str], Node] = {}
    edges: list[Edge] = []
    more = False
    for kind, end in catalog.touching(entity):
        source, target = catalog.source(kind), catalog.target(kind)
        got = (
            snap[kind.table]
            .scan(columns=["id", "src", "dst"], filter=_among(end, [asked.id]), limit=AROUND)
            .to_pylist()
        )
        more |= len(got) == AROUND
        edges += [_edge(kind, source.name, target.name, row) for row in got]
        other, far = (target, "dst") if end == "src" else (source, "src")
        for node in _nodes(snap, other, [row[far] for row in got]):
            nodes[node["type"], node["id"]] = node
    return {
        "node": {**_node(entity, rows[0]), "properties": shown, "key": list(entity.defined.key)},
        "nodes": list(nodes.values()),
        "edges": list({(edge["type"], edge["id"]): edge for edge in edges}.values()),
        "more": more,
    }


def _json(snap: Snapshot, entity: Entity, id: str) -> list[dict[str, Any]]:
    scanned = snap[entity.table].scan(columns=plain(entity), filter=_among("id", [id]))
    shown = entity.shown
    return [{shown[c]: v for c, v in row.items()} for batch in scanned for row in json_rows(batch)]


def _nodes(snap: Snapshot, entity: Entity, ids: list[str]) -> list[Node]:
    found: list[Node] = []
    every = sorted(set(ids))
    for first in range(0, len(every), CHUNK):
        rows = snap[entity.table].scan(columns=_brief(entity), filter=_among("id", every[first : first + CHUNK]))
        found += [_node(entity, row) for batch in rows for row in json_rows(batch)]
    return found


def past(call: Call) -> dict[str, Any]:
    """Every version of a node."""
    snap = call.snapshot()
    entity = Graph(call.lake()).catalog(snap).node(call.query.type)
    found = call.lake().history(entity.table, call.query.id, limit=50).renamed(entity.shown)
    return {"versions": [version.to_dict() for version in found]}


# -- the shortest path -----------------------------------------------------------------------------------------------

At_ = tuple[str, str]


def path(call: Call) -> dict[str, Any]:
    """The shortest way between two nodes, along edges in any direction, found from both ends at once."""
    snap, asked = call.snapshot(), call.query
    catalog = Graph(call.lake()).catalog(snap)
    start, end = (asked.type, asked.id), (asked.to_type, asked.to_id)
    if start == end:
        raise InvalidInput("A path needs two different nodes.", next="Choose another end.")
    sides: tuple[dict[At_, Edge | None], dict[At_, Edge | None]] = ({start: None}, {end: None})
    fronts: list[set[At_]] = [{start}, {end}]
    met: At_ | None = None
    for _ in range(STEPS):
        side = 0 if len(fronts[0]) <= len(fronts[1]) else 1
        fronts[side] = _farther(snap, catalog, fronts[side], sides[side])
        met = next((at for at in sorted(fronts[side]) if at in sides[1 - side]), None)
        if met is not None or not fronts[side] or sum(map(len, sides)) > REACHED:
            break
    if met is None:
        return {"nodes": [], "edges": [], "looked": sum(map(len, sides)), "steps": STEPS}
    edges = [*reversed(_back(sides[0], met)), *_back(sides[1], met)]
    wanted = {start, end, *(at for edge in edges for at in (tuple(edge["from"]), tuple(edge["to"])))}
    nodes = [
        node
        for entity in catalog.nodes
        for node in _nodes(snap, entity, [id for kind, id in wanted if kind == entity.name])
    ]
    return {"nodes": nodes, "edges": edges, "looked": sum(map(len, sides)), "steps": STEPS}


def _farther(snap: Snapshot, catalog: Catalog, front: set[At_], seen: dict[At_, Edge | None]) -> set[At_]:
    """The nodes one edge further, each with the edge by which it was reached."""
    found: set[At_] = set()
    for kind in catalog.edges:
        source, target = catalog.source(kind).name, catalog.target(kind).name
        for near, column, far, other in ((source, "src", "dst", target), (target, "dst", "src", source)):
            ids = sorted(id for type, id in front if type == near)
            for first in range(0, len(ids), CHUNK):
                rows = snap[kind.table].scan(
                    columns=["id", "src", "dst"], filter=_among(column, ids[first : first + CHUNK])
                )
                for row in rows.to_pylist():
                    at = (other, row[far])
                    if at not in seen:
                        seen[at] = _edge(kind, source, target, row)
                        found.add(at)
    return found


def _back(side: dict[At_, Edge | None], at: At_) -> list[Edge]:
    """The edges from where the two sides met back to an end."""
    found: list[Edge] = []
    while (edge := side[at]) is not None:
        found.append(edge)
        ends: list[At_] = [(edge["from"][0], edge["from"][1]), (edge["to"][0], edge["to"][1])]
        at = ends[1] if ends[0] == at else ends[0]
    return found


# -- the schema --------------------------------------------------------------------------------------------------------


def schema(call: Call) -> dict[str, Any]:
    """The schema as text and by its types."""
    snap = call.snapshot()
    graph = Graph(call.lake())
    catalog = graph.catalog(snap)
    return {
        "commit": snap.commit,
        "schema": graph.schema(snap),
        "types": [_type(snap, catalog, entity) for entity in catalog.entities],
    }
