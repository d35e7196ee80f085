"""Walks over pairs of ends, one hop after the other."""

from __future__ import annotations

from collections.abc import Sequence

Pairs = Sequence[tuple[str, str]]


def reached_from(source: str, pairs: Pairs, least: int, most: int | None, once: bool) -> set[str]:
    """The nodes that a walk with bounds gives: each at the number of hops at which it is reached first.

    A walk that begins at one hop gives its source for an edge from it to itself. `once`: the edge leads to another
    type, so it cannot be walked twice, though ids of the two may look alike.
    """
    if once:
        return {t for s, t in pairs if s == source} if least <= 1 else set()
    hops = {source: 0}
    edge_of_walk = [source]
    while edge_of_walk:
        nearer = edge_of_walk
        edge_of_walk = []
        for s, t in pairs:
            if s in nearer and t not in hops:
                hops[t] = hops[s] + 1
                edge_of_walk.append(t)
    loops = {s for s, t in pairs if s == t}
    within = {n for n, h in hops.items() if h >= least and (most is None or h <= most)}
    return within | ({source} & loops if least == 1 else set())


def paths_from(source: str, pairs: Pairs, least: int, most: int | None, once: bool) -> dict[str, list[str]]:
    """A shortest path to every node that a walk gives; of several, the smallest as a list."""
    if once:
        return {t: [source, t] for t in reached_from(source, pairs, least, most, once)}
    best = {source: [source]}
    level = [[source]]
    while level:
        further = sorted([*way, t] for way in level for s, t in pairs if s == way[-1] and t not in best)
        level = []
        for way in further:
            if way[-1] not in best:
                best[way[-1]] = way
                level.append(way)
    found = {}
    for node in reached_from(source, pairs, least, most, once):
        way = best[node]
        found[node] = way if len(way) - 1 >= least else [*way, node]
    return found
