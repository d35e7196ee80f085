"""Edges of one type as arrays: nodes are numbers, and the edges that leave a node lie side by side."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.errors import InvalidQuery
from quire.graph.catalog import Catalog, Entity
from quire.graph.topology.kept import KeptColumns

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from quire.lake.read.snapshot import Snapshot

    Numbers = NDArray[np.int64]
    Reals = NDArray[np.float64]


@dataclass(frozen=True)
class Neighbourhood:
    """Edges sorted by where they leave: those of node `n` are at `offsets[n]:offsets[n + 1]`."""

    offsets: Numbers
    targets: Numbers
    edges: Numbers
    """Which edge each is, by its row."""

    @classmethod
    def of(cls, sources: Numbers, targets: Numbers, count: int) -> Neighbourhood:
        order = np.argsort(sources, kind="stable")
        offsets = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(sources, minlength=count), out=offsets[1:])
        return cls(offsets, targets[order], order)

    def of_nodes(self, nodes: Numbers) -> tuple[Numbers, Numbers]:
        """Positions of all edges that leave some nodes, and the node that each leaves."""
        starts, counts = self.offsets[nodes], self.offsets[nodes + 1] - self.offsets[nodes]
        total = int(counts.sum())
        within = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.repeat(starts, counts) + within, np.repeat(nodes, counts)


@dataclass(frozen=True)
class Adjacency:
    """The nodes at the ends of an edge type, numbered, and its edges."""

    ids: pa.ChunkedArray
    """Of all nodes: those of the type that edges leave, then those that they lead to, if that is another."""
    types: tuple[tuple[str, int], ...]
    """The node types, and how many nodes each has."""
    sources: Numbers
    targets: Numbers
    weights: Reals | None = None

    @property
    def count(self) -> int:
        return len(self.ids)

    @property
    def nbytes(self) -> int:
        """The memory that it takes, at most: with all three ways to walk it."""
        return int(self.ids.nbytes) + (2 + 1 + 2 + 2 + 4) * int(self.sources.nbytes) + 3 * 8 * (self.count + 1)

    @cached_property
    def outward(self) -> Neighbourhood:
        return Neighbourhood.of(self.sources, self.targets, self.count)

    @cached_property
    def inward(self) -> Neighbourhood:
        return Neighbourhood.of(self.targets, self.sources, self.count)

    @cached_property
    def around(self) -> Neighbourhood:
        """Edges both ways; `edges` counts on for those that are turned round."""
        both = np.concatenate([self.sources, self.targets]), np.concatenate([self.targets, self.sources])
        return Neighbourhood.of(*both, self.count)

    def ways(self, direction: str) -> Neighbourhood:
        """The edges as they are walked."""
        return {"out": self.outward, "in": self.inward, "both": self.around}[direction]

    def simple(self) -> tuple[Numbers, Numbers]:
        """Pairs of different nodes that an edge joins, each both ways and once, in order."""
        one, other = np.concatenate([self.sources, self.targets]), np.concatenate([self.targets, self.sources])
        apart = one != other
        pairs = np.unique(one[apart] * self.count + other[apart])
        return pairs // max(self.count, 1), pairs % max(self.count, 1)


def adjacency(
    kept: KeptColumns, snapshot: Snapshot, catalog: Catalog, edge: Entity, weight: str | None = None
) -> Adjacency:
    """The adjacency of an edge type at a snapshot; `weight` names a number of its edges."""
    tables = [edge.table, catalog.source(edge).table, catalog.target(edge).table]
    what = "adjacency", edge.name, _weight(edge, weight) if weight else None
    return kept.once(snapshot, tables, what, lambda: _made(kept, snapshot, catalog, edge, weight))


def _made(kept: KeptColumns, snapshot: Snapshot, catalog: Catalog, edge: Entity, weight: str | None) -> Adjacency:
    import pyarrow as pa
    import pyarrow.compute as pc

    ends = list(dict.fromkeys([catalog.source(edge).name, catalog.target(edge).name]))
    nodes = [kept.read(snapshot, catalog.node(name).table, ["id"]).column("id") for name in ends]
    columns = ["src", "dst", *([_weight(edge, weight)] if weight else [])]
    rows = kept.read(snapshot, edge.table, columns)
    spread = [0, *np.cumsum([len(ids) for ids in nodes]).tolist()]

    found = [
        pc.index_in(rows.column(column), value_set=nodes[place].combine_chunks())
        for column, place in (("src", 0), ("dst", len(ends) - 1))
    ]
    # An edge of which an end is hidden from whoever asks is hidden too.
    there = pc.and_(pc.is_valid(found[0]), pc.is_valid(found[1]))
    rows, found = rows.filter(there), [one.filter(there) for one in found]

    def numbers(which: int, place: int) -> Any:
        return found[which].to_numpy().astype(np.int64) + spread[place]

    weights = None
    if weight:
        given = rows.column(2)
        if given.null_count:
            raise InvalidQuery(
                f"{given.null_count} edges of {edge.name} have no {weight}.", next="Give each a weight, or use none."
            )
        weights = given.to_numpy().astype(np.float64)
    chunks = [chunk for ids in nodes for chunk in ids.chunks]
    return Adjacency(
        pa.chunked_array(chunks, pa.string()),
        tuple((name, len(ids)) for name, ids in zip(ends, nodes, strict=True)),
        numbers(0, 0),
        numbers(1, len(ends) - 1),
        weights,
    )


def _weight(edge: Entity, name: str) -> str:
    prop = edge.property(name)
    if not prop.type.is_number or prop.type.many:
        raise InvalidQuery(f"{edge.name}.{name} is no number, so it is no weight.", next="Name a number of the edge.")
    return prop.column
