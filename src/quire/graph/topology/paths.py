"""Shortest paths between two nodes over an adjacency, by hops or by weight."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import numpy as np

from quire.errors import InvalidQuery
from quire.graph.topology import Direction
from quire.graph.topology.adjacency import Adjacency


def shortest(
    graph: Adjacency, start: int, end: int, direction: Direction, *, hops: int | None = None, every: bool = False
) -> tuple[float, Iterator[list[int]]] | None:
    """The length of the shortest paths, and the paths: one of them, or every one.

    Along `weights` if the adjacency has them, else by the number of edges, of which `hops` may be walked. None where
    there is no path.
    """
    found = (
        _by_hops(graph, start, end, direction, hops)
        if graph.weights is None
        else _by_weight(graph, start, end, direction)
    )
    if found is None:
        return None
    length, before = found
    ways = _ways(before, start, end)
    return length, ways if every else iter([next(ways)])


def _by_hops(
    graph: Adjacency, start: int, end: int, direction: Direction, hops: int | None
) -> tuple[float, dict[int, list[int]]] | None:
    """Level by level, each node with those of the level before that lead to it."""
    ways = graph.ways(direction)
    depth = np.full(graph.count, -1, np.int64)
    depth[start] = 0
    frontier, level = np.array([start]), 0
    levels = [frontier]
    while depth[end] < 0 and len(frontier) and (hops is None or level < hops):
        level += 1
        positions, _ = ways.of_nodes(frontier)
        reached = np.unique(ways.targets[positions])
        frontier = reached[depth[reached] < 0]
        depth[frontier] = level
        levels.append(frontier)
    if depth[end] < 0:
        return None
    back = graph.ways({"out": "in", "in": "out", "both": "both"}[direction])
    before: dict[int, list[int]] = {}
    wanted = np.array([end])
    for number in range(int(depth[end]), 0, -1):
        positions, owners = back.of_nodes(wanted)
        others = back.targets[positions]
        right = depth[others] == number - 1
        for owner, other in sorted(set(zip(owners[right].tolist(), others[right].tolist(), strict=True))):
            before.setdefault(owner, []).append(other)
        wanted = np.unique(others[right])
    return float(depth[end]), before


def _by_weight(
    graph: Adjacency, start: int, end: int, direction: Direction
) -> tuple[float, dict[int, list[int]]] | None:
    """Dijkstra's algorithm, with all nodes that lead to a node by the same length."""
    assert graph.weights is not None
    if len(graph.weights) and not (np.isfinite(graph.weights).all() and graph.weights.min() > 0):
        raise InvalidQuery("A weight is not above 0.", next="Shortest paths need weights above 0.")
    ways = graph.ways(direction)
    length: dict[int, float] = {start: 0.0}
    before: dict[int, list[int]] = {}
    done: set[int] = set()
    queue = [(0.0, start)]
    while queue:
        far, node = heapq.heappop(queue)
        if node in done:
            continue
        done.add(node)
        if node == end:
            return far, {n: sorted(set(others)) for n, others in before.items()}
        for position in range(int(ways.offsets[node]), int(ways.offsets[node + 1])):
            other = int(ways.targets[position])
            further = far + float(graph.weights[ways.edges[position] % len(graph.weights)])
            if other not in length or further < length[other]:
                length[other], before[other] = further, [node]
                heapq.heappush(queue, (further, other))
            elif further == length[other] and other not in done:
                before[other].append(node)
    return None


def _ways(before: dict[int, list[int]], start: int, end: int) -> Iterator[list[int]]:
    """Every path, from what leads to each node."""
    going: list[tuple[int, list[int]]] = [(end, [end])]
    while going:
        node, path = going.pop()
        if node == start:
            yield path[::-1]
            continue
        going += [(other, [*path, other]) for other in reversed(before[node])]
