"""A graph of as many types as one likes: half of them node types, half edge types that lead from each to the next.

Every commit of its history adds a node of type `N0` and an edge of type `E0`. Edges of type `E1` have rules of their
own: no two between the same nodes, and so many from each at most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quire.graph.graph import Graph

if TYPE_CHECKING:
    import quire

ROWS = 100
"""What every type holds at first."""
MOST = 1_000


def schema(types: int) -> str:
    """A schema of so many types."""
    count = types // 2
    nodes = [f"node N{n} {{ name: String @key  age: I32? }}" for n in range(count)]
    edges = [f"edge E{n}: N{n} -> N{(n + 1) % count}{_rules(n)}" for n in range(count)]
    return "\n".join([*nodes, *edges])


def _rules(number: int) -> str:
    if number != 1:
        return " { since: I32? }"
    return f" @card(0..{MOST}) {{ since: I32?  @unique(src, dst) }}"


def make(lake: quire.Lake, types: int) -> None:
    """Make the graph, with rows in every type."""
    graph = Graph(lake)
    graph.apply_schema(schema(types))
    count = types // 2
    rows: dict[str, list[dict[str, object]]] = {}
    for n in range(count):
        rows[f"N{n}"] = [{"name": name(row), "age": row} for row in range(ROWS)]
        rows[f"E{n}"] = [{"id": f"e{row}", "from": name(row), "to": name(row), "since": row} for row in range(ROWS)]
    graph.load(rows)


def grow(tx: quire.Transaction, number: int) -> None:
    """One more node, and an edge that leaves it."""
    new = name(ROWS + number)
    tx["node:N0"].insert([{"id": new, "name": new, "age": number}])
    tx["edge:E0"].insert([{"id": f"e{ROWS + number}", "src": new, "dst": name(number % ROWS), "since": number}])


def name(number: int) -> str:
    """The key of a node."""
    return f"n{number:06}"
