"""What is next to a node, without a query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from quire.errors import InvalidQuery, NotFound
from quire.graph.integrity.lookups import is_in
from quire.graph.types import Type, Wrong, identity
from quire.prompt import OneLine
from quire.store import run_parallel

if TYPE_CHECKING:
    from quire.graph.catalog import Catalog, Entity
    from quire.lake import Snapshot

CHUNK = 1_000
"""Ids that one look-up asks for."""

End = Literal["src", "dst"]


@dataclass(frozen=True, repr=False)
class Neighbour(OneLine):
    """One edge of a node, and the node at its other end."""

    edge: str
    """The type of the edge."""
    direction: Literal["out", "in"]
    properties: dict[str, Any]
    """Its `id`, `src` and `dst`, and its properties; `@id`, `from` and `to` where properties have these names."""
    type: str
    """The type of the other node."""
    node: dict[str, Any]

    def _facts(self) -> str:
        return f"{self.direction} {self.edge}, {self.type} {self.node.get('id')}"


def id_of(entity: Entity, key: Sequence[Any]) -> str:
    """The id of a node by the values of its key, or by its id where its type has no key."""
    names = entity.defined.key
    if len(key) != max(1, len(names)):
        raise InvalidQuery(
            f"{entity.name} is known by {', '.join(names) or 'its id'}.", next="Give each of its values, in this order."
        )
    if not names:
        return str(key[0])
    try:
        return identity([entity.property(n).type.value(v) for n, v in zip(names, key, strict=True)])
    except Wrong as wrong:
        raise InvalidQuery(f"The key of {entity.name} {wrong}.", next="Give a value of that type.") from None


def find_node(snapshot: Snapshot, entity: Entity, key: Sequence[Any]) -> dict[str, Any] | None:
    """A node, without its blobs."""
    found = _by_ids(snapshot, entity, [id_of(entity, key)])
    return named(entity, found.popitem()[1]) if found else None


def neighbours(
    snapshot: Snapshot,
    catalog: Catalog,
    entity: Entity,
    key: Sequence[Any],
    *,
    edge: str | None,
    direction: Literal["out", "in", "both"],
    limit: int | None,
) -> list[Neighbour]:
    """The edges of a node with what is at their other ends, by type of edge, then by the id of the edge.

    `limit` holds for each type of edge and direction. An edge from a node to itself is there twice: out and in.
    """
    if direction not in ("out", "in", "both"):
        raise InvalidQuery(f"There is no direction {direction!r}.", next="Use out, in or both.")
    id = id_of(entity, key)
    if not _by_ids(snapshot, entity, [id]):
        raise NotFound(
            f"There is no {entity.name} {id!r}.", next="Look it up with graph.node.", type=entity.name, id=id
        )
    steps = list(_steps(catalog, entity, edge, direction))
    edges = run_parallel([partial(_edges, snapshot, kind, end, id, limit) for kind, end in steps])
    wanted: dict[Entity, set[str]] = {}
    for (kind, end), rows in zip(steps, edges, strict=True):
        wanted.setdefault(_other(catalog, kind, end), set()).update(row[_far(end)] for row in rows)
    found = run_parallel([partial(_by_ids, snapshot, other, ids) for other, ids in wanted.items()])
    nodes = dict(zip(wanted, found, strict=True))
    return [
        _neighbour(kind, end, row, other, nodes[other][row[_far(end)]])
        for (kind, end), rows in zip(steps, edges, strict=True)
        for other in (_other(catalog, kind, end),)
        for row in rows
    ]


def _neighbour(kind: Entity, end: End, row: dict[str, Any], other: Entity, node: dict[str, Any]) -> Neighbour:
    direction: Literal["out", "in"] = "out" if end == "src" else "in"
    return Neighbour(kind.name, direction, named(kind, row), other.name, named(other, node))


def _steps(
    catalog: Catalog, entity: Entity, edge: str | None, direction: Literal["out", "in", "both"]
) -> Iterator[tuple[Entity, End]]:
    only = None if edge is None else catalog.edge(edge)
    ends = {"out": ("src",), "in": ("dst",), "both": ("src", "dst")}[direction]
    found = [(e, end) for e, end in catalog.touching(entity) if end in ends and (only is None or e.id == only.id)]
    if only is not None and not found:
        raise InvalidQuery(
            f"No {only.name} edge has its {'source' if direction == 'out' else 'end'} at a {entity.name}.",
            next=f"It goes from {catalog.source(only).name} to {catalog.target(only).name}.",
        )
    yield from found


def _edges(snapshot: Snapshot, edge: Entity, end: End, id: str, limit: int | None) -> list[dict[str, Any]]:
    rows = snapshot[edge.table].scan(columns=plain(edge), filter=is_in(end, Type("String"), [id]), limit=limit)
    return sorted(rows.to_pylist(), key=lambda row: str(row["id"]))


def _by_ids(snapshot: Snapshot, entity: Entity, ids: Sequence[str] | set[str]) -> dict[str, dict[str, Any]]:
    wanted, found = sorted(ids), {}
    for first in range(0, len(wanted), CHUNK):
        filter = is_in("id", Type("String"), wanted[first : first + CHUNK])
        for row in snapshot[entity.table].scan(columns=plain(entity), filter=filter).to_pylist():
            found[row["id"]] = row
    return found


def plain(entity: Entity) -> list[str]:
    """Its columns without blobs."""
    return [*entity.system, *(p.column for p in entity.defined.properties if p.type.base != "Blob")]


def named(entity: Entity, row: dict[str, Any]) -> dict[str, Any]:
    """A row by the names of its properties, and no longer by those of its columns."""
    shown = entity.shown
    return {shown[column]: value for column, value in row.items()}


def _far(end: End) -> End:
    return "dst" if end == "src" else "src"


def _other(catalog: Catalog, edge: Entity, end: End) -> Entity:
    return catalog.target(edge) if end == "src" else catalog.source(edge)
