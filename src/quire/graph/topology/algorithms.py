"""Algorithms over an adjacency. Each gives one value for every node, in the order of its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from quire.errors import InvalidQuery, LimitExceeded
from quire.graph.topology import Direction
from quire.graph.topology.adjacency import Adjacency

if TYPE_CHECKING:
    from numpy.typing import NDArray

PAIRS = 50_000_000
"""Pairs with a common neighbour that `similarity` looks at, at most."""


def degree(graph: Adjacency, direction: Direction = "both") -> NDArray[np.int64]:
    """How many edges leave a node, lead to it, or both. An edge from a node to itself counts twice in both."""
    return np.diff(graph.ways(direction).offsets)


def pagerank(
    graph: Adjacency,
    direction: Direction = "out",
    *,
    damping: float = 0.85,
    iterations: int = 100,
    tolerance: float = 1e-10,
) -> NDArray[np.float64]:
    """The share of a walker's time that each node has; edges with a weight are taken that much more often.

    A node that no edge leaves passes its share on to all. It ends when the shares change by less than `tolerance`.
    """
    _between("damping", damping, 0, 1)
    count = graph.count
    if not count:
        return np.empty(0)
    ways = graph.ways(direction)
    sources = np.repeat(np.arange(count), np.diff(ways.offsets))
    weights = np.ones(len(sources))
    if graph.weights is not None:
        weights = graph.weights[ways.edges % max(len(graph.weights), 1)]
        if not (np.isfinite(weights).all() and (weights >= 0).all()):
            raise InvalidQuery("A weight is negative or no finite number.", next="Use weights of at least 0.")
    whole = np.bincount(sources, weights, count)
    shares = weights / np.where(whole[sources] > 0, whole[sources], 1)
    ends, rank = whole <= 0, np.full(count, 1 / count)
    for _ in range(iterations):
        given = np.bincount(ways.targets, shares * rank[sources], count)
        new = damping * (given + rank[ends].sum() / count) + (1 - damping) / count
        done = np.abs(new - rank).sum() < tolerance
        rank = new
        if done:
            break
    return rank


def components(graph: Adjacency) -> NDArray[np.int64]:
    """The smallest number of a node that each can be reached from, whichever way edges lead."""
    found = np.arange(graph.count)
    while True:
        least = found.copy()
        np.minimum.at(least, graph.sources, found[graph.targets])
        np.minimum.at(least, graph.targets, found[graph.sources])
        least = np.minimum(least, least[least])
        if (least == found).all():
            return found
        found = least


def labels(graph: Adjacency, *, iterations: int = 20) -> NDArray[np.int64]:
    """Communities by label propagation. A label is the number of a node.

    In every round a node takes the label that it and its neighbours have most often, of several the smallest. It ends
    when nothing changes, or after so many rounds.
    """
    one, other = graph.simple()
    nodes = np.arange(graph.count)
    one, other = np.concatenate([one, nodes]), np.concatenate([other, nodes])
    found = nodes
    for _ in range(iterations):
        held = found[other]
        order = np.lexsort([held, one])
        node, label = one[order], held[order]
        first = np.flatnonzero(np.r_[True, (node[1:] != node[:-1]) | (label[1:] != label[:-1])])
        times = np.diff(np.r_[first, len(node)])
        best = np.lexsort([label[first], -times, node[first]])
        owners = node[first][best]
        chosen = np.flatnonzero(np.r_[True, owners[1:] != owners[:-1]]) if len(owners) else np.empty(0, np.int64)
        new = label[first][best][chosen]
        if (new == found).all():
            break
        found = new
    return found


def core(graph: Adjacency) -> NDArray[np.int64]:
    """The largest k so that a node is in a k-core: a part in which every node has k neighbours."""
    one, other = graph.simple()
    degrees = np.bincount(one, minlength=graph.count)
    found, there, k = np.zeros(graph.count, np.int64), np.ones(graph.count, bool), 0
    while there.any():
        going = there & (degrees <= k)
        if not going.any():
            k = int(degrees[there].min())
            continue
        found[going] = k
        there &= ~going
        degrees = degrees - np.bincount(other[going[one]], minlength=graph.count)
    return found


def similarity(graph: Adjacency, direction: Direction = "out", *, most: int = 10) -> tuple[Any, Any, Any]:
    """For each node the others that share most of its neighbours: two nodes, and the part of all neighbours (Jaccard).

    At most `most` of each node, the most similar first, of several the one with the smaller number.
    """
    ways, count = graph.ways(direction), max(graph.count, 1)
    pairs = np.unique(np.repeat(np.arange(graph.count), np.diff(ways.offsets)) * count + ways.targets)
    one, common = pairs // count, pairs % count
    sizes = np.bincount(one, minlength=graph.count)
    order = np.argsort(common, kind="stable")
    one, sharing = one[order], np.bincount(common, minlength=graph.count)
    if int((sharing.astype(np.float64) ** 2).sum()) > PAIRS:
        raise LimitExceeded(
            f"More than {PAIRS} pairs of nodes have a common neighbour.",
            next="Leave out nodes that very many others are next to.",
            limit="pairs",
            most=PAIRS,
        )
    starts, each = np.cumsum(sharing) - sharing, np.repeat(sharing, sharing)
    left = np.repeat(one, each)
    within = np.arange(len(left)) - np.repeat(np.cumsum(each) - each, each)
    right = one[np.repeat(np.repeat(starts, sharing), each) + within]
    apart = left != right
    found, times = np.unique(left[apart] * count + right[apart], return_counts=True)
    left, right = found // count, found % count
    value = times / (sizes[left] + sizes[right] - times)
    order = np.lexsort([right, -value, left])
    left, right, value = left[order], right[order], value[order]
    first = np.searchsorted(left, left)
    chosen = np.arange(len(left)) - first < most
    return left[chosen], right[chosen], value[chosen]


def _between(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise InvalidQuery(f"{name} is between {least} and {most}, not {value}.", next=f"Correct {name}.")
