"""The dependency graph of `quire.testing.history`, and the names of its cycles.

Under snapshot isolation every cycle has two anti-dependencies (rw) in a row (Fekete et al., 2005; Cerone and Gotsman,
2018); any other cycle is an anomaly. The rw edges of a serializable transaction lead to later commits, as dependencies
do, so a cycle among such transactions alone is one too. Both rules become plain cycles in a graph of twice the size: a
transaction reached by a dependency may be left by any edge, one reached by rw not by the rw of a weaker transaction.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from quire.errors import Unsupported
from quire.testing.history import Anomaly, Level, Transaction

BASE = ("wr", "ww", "process", "time")
"""What puts one commit before another."""
TRIES = 200
"""Places at which a shortest cycle is looked for in one tangle."""


@dataclass(frozen=True)
class Edge:
    kind: str
    source: Hashable
    target: Hashable
    key: Hashable
    why: str


class Graph:
    def __init__(self, level: Level) -> None:
        self._nx: Any = _networkx()
        self._level = level
        self._edges: dict[tuple[Hashable, Hashable], dict[str, dict[Hashable, Edge]]] = {}
        self._strong: set[Hashable] = set()
        """Serializable transactions."""

    def node(self, one: Transaction) -> None:
        if (one.isolation or self._level) == "serializable" or self._level == "serializable":
            self._strong.add(one.id)

    def edge(self, kind: str, source: Transaction, target: Transaction, key: Hashable, why: str) -> None:
        if source.id != target.id:
            self._add(Edge(kind, source.id, target.id, key, why))

    def _add(self, edge: Edge) -> None:
        self._edges.setdefault((edge.source, edge.target), {}).setdefault(edge.kind, {}).setdefault(edge.key, edge)

    def time(self, ones: Iterable[Transaction]) -> None:
        """From every transaction that had ended to those that began afresh later, along a chain of moments."""
        ones = list(ones)
        fresh = sorted((t for t in ones if t.fresh and t.start is not None), key=lambda t: t.start or 0.0)
        moments = [_Moment(n) for n in range(len(fresh))]
        for n, one in enumerate(fresh):
            self._add(Edge("time", moments[n], one.id, None, f"{one.id} began after that"))
            if n:
                self._add(Edge("time", moments[n - 1], moments[n], None, ""))
        ended = sorted((t for t in ones if t.end is not None and t.status == "ok"), key=lambda t: t.end or 0.0)
        n = 0
        for one in ended:
            while n < len(fresh) and (fresh[n].start or 0.0) <= (one.end or 0.0):
                n += 1
            if n == len(fresh):
                return
            self._add(Edge("time", one.id, moments[n], None, f"{one.id} had ended"))

    def counts(self) -> Counter[str]:
        return Counter(kind for kinds in self._edges.values() for kind, found in kinds.items() for _ in found)

    # -- cycles -----------------------------------------------------------------------------------------------

    def anomalies(self) -> Iterator[Anomaly]:
        """One for every tangle of the graph: its worst."""
        told = set()
        for tangle in self._tangles(self._doubled(self._strong)):
            worst = self._worst(tangle)
            about = worst.kind, frozenset(worst.transactions)
            if about not in told:
                told.add(about)
                yield worst

    def _worst(self, tangle: set[Hashable]) -> Anomaly:
        for kinds in (("ww",), ("wr", "ww"), BASE):
            cycle = self._shortest(self._plain(tangle, kinds))
            if cycle:
                return self._named(self._along(_closed(cycle), kinds))
        found = min(self._with_one_rw(tangle), key=len, default=None)
        # Without what serializability adds first: a long fork is worse than write skew.
        for strong in (set[Hashable](), self._strong):
            cycle = self._shortest(self._doubled(strong, tangle)) if found is None else []
            if cycle:
                found = [e for a, b in _closed(cycle) for e in self._along([(a[0], b[0])], ("rw",) if b[1] else BASE)]
        assert found is not None, "a tangle has a cycle"
        return self._named(found)

    def _with_one_rw(self, tangle: set[Hashable]) -> Iterator[list[Edge]]:
        graph = self._plain(tangle, BASE)
        for (source, target), kinds in self._edges.items():
            if "rw" not in kinds or source not in graph or target not in graph:
                continue
            try:
                path = self._nx.shortest_path(graph, target, source)
            except self._nx.NetworkXNoPath:
                continue
            for rw in kinds["rw"].values():
                yield [rw, *self._along(list(pairwise(path)), BASE, key=rw.key)]

    def _plain(self, tangle: set[Hashable], kinds: tuple[str, ...]) -> Any:
        graph = self._nx.DiGraph()
        graph.add_nodes_from(tangle)
        graph.add_edges_from(
            (a, b) for (a, b), found in self._edges.items() if a in tangle and b in tangle and found.keys() & set(kinds)
        )
        return graph

    def _doubled(self, strong: set[Hashable], tangle: set[Hashable] | None = None) -> Any:
        """Nodes are (transaction, whether it was reached by rw)."""
        graph = self._nx.DiGraph()
        for (a, b), found in self._edges.items():
            if tangle is not None and not (a in tangle and b in tangle):
                continue
            for kind in found:
                if kind != "rw":
                    graph.add_edges_from([((a, False), (b, False)), ((a, True), (b, False))])
                    continue
                graph.add_edge((a, False), (b, True))
                if a in strong:
                    graph.add_edge((a, True), (b, True))
        return graph

    def _tangles(self, graph: Any) -> Iterator[set[Hashable]]:
        for part in self._nx.strongly_connected_components(graph):
            if len(part) > 1:
                yield {n for n, _ in part}

    def _shortest(self, graph: Any) -> list[Any]:
        best: list[Any] = []
        for part in self._nx.strongly_connected_components(graph):
            if len(part) < 2:
                continue
            inside = graph.subgraph(part)
            for a, b in list(inside.edges)[:TRIES]:
                path = self._nx.shortest_path(inside, b, a)
                if not best or len(path) < len(best):
                    best = path
        return best

    def _along(self, steps: list[tuple[Any, Any]], kinds: tuple[str, ...], key: Hashable = None) -> list[Edge]:
        """One edge for each step: a write over `key`, else the first of `kinds` that there is."""
        edges = []
        for step in steps:
            found = self._edges[step]
            if key is not None and key in found.get("ww", ()):
                edges.append(found["ww"][key])
            else:
                edges.append(next(iter(next(found[k] for k in kinds if k in found).values())))
        return edges

    def _named(self, edges: list[Edge]) -> Anomaly:
        edges = _without_moments(edges)
        kinds = [e.kind for e in edges]
        keys = tuple(dict.fromkeys(e.key for e in edges if e.key is not None))
        rw = kinds.count("rw")
        in_order = bool({"process", "time"} & set(kinds))
        if rw == 0:
            pure = "dirty-write" if set(kinds) == {"ww"} else "circular-information-flow"
            kind = "out-of-order" if in_order else pure
        elif rw == 1:
            if in_order:
                kind = "stale-read"
            elif len(keys) == 1 and "wr" not in kinds:
                kind = "lost-update"
            else:
                kind = "fractured-read" if sorted(kinds) == ["rw", "wr"] else "read-skew"
        else:
            adjacent = any(a == b == "rw" for a, b in zip(kinds, [*kinds[1:], kinds[0]], strict=True))
            kind = "write-skew" if adjacent else "long-fork"
        who = tuple(dict.fromkeys(e.source for e in edges))
        return Anomaly(kind, who, keys, "; ".join(e.why for e in edges) + ".")


class _Moment(int):
    """A place on the line of time; unlike any transaction's id."""

    __hash__ = object.__hash__
    __eq__ = object.__eq__


def _closed(cycle: list[Any]) -> list[tuple[Any, Any]]:
    return list(zip(cycle, [*cycle[1:], cycle[0]], strict=True))


def _without_moments(edges: list[Edge]) -> list[Edge]:
    """Steps to and from moments of time, put together to steps between transactions."""
    if edges and isinstance(edges[0].source, _Moment):  # begin the cycle at a transaction
        first = next((n for n, e in enumerate(edges) if not isinstance(e.source, _Moment)), 0)
        edges = edges[first:] + edges[:first]
    kept: list[Edge] = []
    for edge in edges:
        if isinstance(edge.source, _Moment) and kept:
            before = kept.pop()
            why = f"{edge.target} began after {before.source} had ended"
            kept.append(Edge("time", before.source, edge.target, None, why))
        else:
            kept.append(edge)
    return kept


def _networkx() -> Any:
    try:
        return importlib.import_module("networkx")
    except ImportError:
        raise Unsupported(
            "The history checker needs networkx, which is not installed.", next="pip install 'quire[test]'."
        ) from None
