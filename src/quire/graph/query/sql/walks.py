"""Walks of several hops as SQL: which nodes are reached from which, by the fewest hops, and shortest paths.

A walk starts at its seeds, at depth 0. A node counts at the depth at which it is reached first and is not expanded
again, so a way back to a node that was visited, the seed included, gives nothing. There is one exception: a walk that
begins at one hop gives its seed where an edge leads from the seed to itself, as the plain traversal of that edge does.
A walk that begins at no hop gives its seed anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from quire.graph.language import plan
from quire.graph.query.sql.dialect import DUCKDB, Dialect

Side = Literal["source", "target"]


@dataclass(frozen=True)
class Walk:
    """A walk along the edges of one relation, from the nodes of one side."""

    name: str
    """What its tables are called, and its columns begin with."""
    edges: str
    """A SELECT of the ends of edges, `s` and `t`, in the direction of the walk from source to target."""
    seeds: str
    """A SELECT of one column: the ids to start from."""
    least: int
    most: int | None
    side: Side = "source"
    once: bool = False
    """An edge between two types: from where it leads it cannot be walked again, though ids may look alike."""
    path: bool = False
    """Whether it finds shortest paths, rather than pairs of ends."""

    def tables(self, sql: Dialect) -> list[str]:
        """Tables of DuckDB, of which the last is the walk; a walk that is `once` is plain SQL everywhere."""
        return self.paths(sql) if self.path else self.pairs()

    def pairs(self) -> list[str]:
        """Tables that end in one of pairs: `{name}_a` is the source and `{name}_b` the target, each pair once."""
        if self.once:
            found = f"SELECT s, t FROM {self.name}e WHERE {self._allows_one()}"
            return [self._edges(), f"{self.name}({self.name}_a, {self.name}_b) AS ({found})"]
        start, end = ("s", "t") if self.side == "source" else ("t", "s")
        far = "" if self.most is None else f"r.n < {self.most:d} AND "
        target = "y" if self.side == "source" else "x"
        source = "x" if self.side == "source" else "y"
        return [
            self._edges(),
            f"{self.name}r(x, y, n) USING KEY (x, y) AS ("
            f"SELECT DISTINCT z, z, 0 FROM ({self.seeds}) AS seeds(z) UNION "
            f"SELECT DISTINCT r.x, e.{end}, r.n + 1 FROM {self.name}r AS r JOIN {self.name}e AS e ON e.{start} = r.y "
            f"WHERE {far}NOT EXISTS (SELECT 1 FROM recurring.{self.name}r AS o WHERE o.x = r.x AND o.y = e.{end}))",
            f"{self.name}({self.name}_a, {self.name}_b) AS ("
            f"SELECT {source}, {target} FROM {self.name}r WHERE {self._within()}{self._or_loop(target)})",
        ]

    def paths(self, sql: Dialect = DUCKDB) -> list[str]:
        """Tables that end in one of shortest paths: the ends as in `pairs`, `{name}_length` and `{name}_nodes`.

        Of several shortest paths it is the one whose list of ids is the smallest, so the seeds are the sources.
        """
        assert self.side == "source"
        if self.once:
            both = sql.items(["s", "t"])
            return [
                self._edges(),
                f"{self.name}({self.name}_a, {self.name}_b, {self.name}_length, {self.name}_nodes) AS ("
                f"SELECT s, t, CAST(1 AS BIGINT), {both} FROM {self.name}e WHERE {self._allows_one()})",
            ]
        far = "" if self.most is None else f"r.n < {self.most:d} AND "
        loops = (
            f" UNION ALL SELECT x, y, CAST(1 AS BIGINT), list_append(way, y) FROM {self.name}r "
            f"WHERE n = 0 AND y IN (SELECT s FROM {self.name}e WHERE s = t)"
        )
        return [
            self._edges(),
            f"{self.name}r(x, y, n, way) USING KEY (x, y) AS ("
            f"SELECT DISTINCT z, z, 0, [z] FROM ({self.seeds}) AS seeds(z) UNION "
            f"SELECT r.x, e.t, min(r.n) + 1, min(list_append(r.way, e.t)) "
            f"FROM {self.name}r AS r JOIN {self.name}e AS e ON e.s = r.y "
            f"WHERE {far}NOT EXISTS (SELECT 1 FROM recurring.{self.name}r AS o WHERE o.x = r.x AND o.y = e.t) "
            f"GROUP BY r.x, e.t)",
            f"{self.name}({self.name}_a, {self.name}_b, {self.name}_length, {self.name}_nodes) AS ("
            f"SELECT x, y, CAST(n AS BIGINT), way FROM {self.name}r WHERE {self._within()}"
            f"{loops if self.gives_loops else ''})",
        ]

    @property
    def gives_loops(self) -> bool:
        """Whether a seed is given for an edge to itself."""
        return self.least == 1

    def _or_loop(self, target: str) -> str:
        return f" OR (n = 0 AND {target} IN (SELECT s FROM {self.name}e WHERE s = t))" if self.gives_loops else ""

    def _edges(self) -> str:
        # Read once: every step of the walk looks at them.
        kept = "" if self.once else "MATERIALIZED "
        return f"{self.name}e(s, t) AS {kept}(SELECT DISTINCT s, t FROM ({self.edges}) AS e)"

    def _allows_one(self) -> str:
        return "TRUE" if self.least <= 1 and (self.most is None or self.most >= 1) else "FALSE"

    def _within(self) -> str:
        return f"n >= {self.least:d}" + ("" if self.most is None else f" AND n <= {self.most:d}")


def once(step: plan.Expand) -> bool:
    """Whether a step leads from one type to another, so that it cannot follow itself."""
    return step.entity.defined.source != step.entity.defined.target


def is_single(step: plan.Expand) -> bool:
    """Whether a step is one hop, whatever its bounds say."""
    return step.one_hop or (once(step) and step.least == 1)
