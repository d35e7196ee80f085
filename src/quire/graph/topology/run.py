"""Algorithms and paths over an edge type of a snapshot, as rows or as values of a property."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from quire.errors import InvalidQuery, NotFound
from quire.graph.catalog import Catalog, Entity
from quire.graph.reading.neighbours import id_of
from quire.graph.topology import Algorithm, Direction, algorithms
from quire.graph.topology.adjacency import Adjacency, adjacency
from quire.graph.topology.kept import KeptColumns
from quire.graph.topology.paths import shortest
from quire.lake.read.table import Rows
from quire.prompt import OneLine

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.lake.commit.transaction import Transaction
    from quire.lake.read.snapshot import Snapshot

SETTINGS: dict[str, tuple[str, ...]] = {
    "degree": (),
    "pagerank": ("damping", "iterations", "tolerance"),
    "components": (),
    "labels": ("iterations",),
    "core": (),
    "similarity": ("most",),
}
"""What can be set of each."""
DIRECTED: dict[str, Direction] = {"degree": "both", "pagerank": "out", "similarity": "out"}
"""Those for which it matters which way edges lead, and how they are walked unless somebody says."""


@dataclass(frozen=True, repr=False)
class FoundPath(OneLine):
    """A shortest path between two nodes."""

    length: float
    """The number of its edges, or the sum of their weights."""
    nodes: tuple[str, ...]
    """The ids of its nodes, both ends included."""

    def _facts(self) -> str:
        return f"length {self.length:g}, {' → '.join(self.nodes)}"


def rows(
    kept: KeptColumns,
    snapshot: Snapshot,
    catalog: Catalog,
    name: Algorithm,
    edge: str,
    *,
    direction: Direction | None,
    weight: str | None,
    settings: dict[str, Any],
) -> Rows:
    """The value of every node, as the columns `type`, `id` and the name of the algorithm."""
    import pyarrow as pa

    graph = adjacency(kept, snapshot, catalog, catalog.edge(edge), weight)
    values = _values(graph, name, direction, weight, settings)
    types = pa.chunked_array([pa.array([t] * n, pa.string()) for t, n in graph.types], pa.string())
    if name == "similarity":
        one, other, value = values
        found = {"type": types.take(pa.array(one)), "id": graph.ids.take(pa.array(one))}
        found |= {"other": graph.ids.take(pa.array(other)), name: pa.array(value)}
    else:
        found = {"type": types, "id": graph.ids, name: _shown(graph, name, values)}
    return Rows(pa.table(found).to_reader())


def write(
    tx: Transaction,
    kept: KeptColumns,
    snapshot: Snapshot,
    catalog: Catalog,
    name: Algorithm,
    edge: str,
    prop: str,
    *,
    direction: Direction | None,
    weight: str | None,
    settings: dict[str, Any],
) -> dict[str, int]:
    """Set a property of every node of the edge's types that has it to its value; how many, by type."""
    import pyarrow as pa

    kind = catalog.edge(edge)
    if name == "similarity":
        raise InvalidQuery("similarity gives no single value for a node.", next="Leave write out, or load its rows.")
    ends = list(dict.fromkeys([catalog.source(kind).name, catalog.target(kind).name]))
    having = [catalog.node(end) for end in ends if prop in catalog.node(end).properties]
    if not having:
        raise InvalidQuery(
            f"{' and '.join(ends)} have no property {prop}.", next="Add it to the schema first.", property=prop
        )
    graph = adjacency(kept, snapshot, catalog, kind, weight)
    values = _shown(graph, name, _values(graph, name, direction, weight, settings))
    done, start = {}, 0
    for type, count in graph.types:
        ids, mine = graph.ids.slice(start, count), values.slice(start, count)
        start += count
        entity = catalog.node(type)
        if entity not in having:
            continue
        column = entity.property(prop)
        try:
            given = mine.cast(column.type.arrow())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise InvalidQuery(
                f"{type}.{prop} is of type {column.type} and cannot hold what {name} gives ({mine.type}).",
                next=f"Write to a property of type {'String' if pa.types.is_string(mine.type) else 'F64'}.",
                property=prop,
            ) from None
        if count:
            tx[entity.table].upsert(pa.table({"id": ids, column.column: given}))
        done[type] = count
    return done


def paths(
    kept: KeptColumns,
    snapshot: Snapshot,
    catalog: Catalog,
    edge: str,
    source: Sequence[Any],
    target: Sequence[Any],
    *,
    direction: Direction,
    weight: str | None,
    hops: int | None,
    every: bool,
    limit: int,
) -> list[FoundPath]:
    """The shortest paths from one node to another."""
    import pyarrow.compute as pc

    if weight is not None and hops is not None:
        raise InvalidQuery("hops bounds paths that are counted in edges.", next="Leave out hops, or weight.")
    kind = catalog.edge(edge)
    graph = adjacency(kept, snapshot, catalog, kind, weight)
    places = []
    for entity, key in ((catalog.source(kind), source), (catalog.target(kind), target)):
        id = id_of(entity, key)
        start = 0 if entity.name == graph.types[0][0] else graph.types[0][1]
        count = dict(graph.types)[entity.name]
        found = pc.index(graph.ids.slice(start, count), id).as_py()
        if found < 0:
            raise NotFound(f"There is no {entity.name} {id!r}.", next="Check the key.", type=entity.name, id=id)
        places.append(start + found)
    answer = shortest(graph, places[0], places[1], direction, hops=hops, every=every)
    if answer is None:
        return []
    length, ways = answer
    return [FoundPath(length, tuple(graph.ids[n].as_py() for n in way)) for way in islice(ways, limit)]


def _values(
    graph: Adjacency, name: str, direction: Direction | None, weight: str | None, settings: dict[str, Any]
) -> Any:
    known = get_args(Algorithm)
    if name not in known:
        raise InvalidQuery(f"There is no algorithm {name!r}.", next=f"Use one of {', '.join(known)}.")
    for setting in settings:
        if setting not in SETTINGS[name]:
            has = ", ".join(SETTINGS[name]) or "no settings"
            raise InvalidQuery(f"{name} has no setting {setting!r}.", next=f"It has {has}.")
    if weight is not None and name != "pagerank":
        raise InvalidQuery(f"{name} takes no weight.", next="Leave it out; pagerank and paths take one.")
    if direction is not None and name not in DIRECTED:
        raise InvalidQuery(f"{name} takes edges both ways.", next="Leave direction out.")
    if direction is not None and direction not in get_args(Direction):
        raise InvalidQuery(f"There is no direction {direction!r}.", next="Use out, in or both.")
    run: Callable[..., Any] = getattr(algorithms, name)
    return run(graph, direction or DIRECTED[name], **settings) if name in DIRECTED else run(graph, **settings)


def _shown(graph: Adjacency, name: str, values: Any) -> pa.ChunkedArray:
    """Values as they are told: a component and a label are called by a node's id, the smallest of all that share it."""
    import pyarrow as pa

    if name not in ("components", "labels"):
        return pa.chunked_array([pa.array(values)])
    _, groups = np.unique(values, return_inverse=True)
    table = pa.table({"group": pa.array(groups), "id": graph.ids})
    least = table.group_by("group").aggregate([("id", "min")]).sort_by("group")
    return least.column("id_min").take(pa.array(groups))


def having(catalog: Catalog, edge: str) -> list[Entity]:
    """The node types at the ends of an edge type."""
    kind = catalog.edge(edge)
    return list(dict.fromkeys([catalog.source(kind), catalog.target(kind)]))
