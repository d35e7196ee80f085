"""Algorithms over the graph, and shortest paths."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from quire.cli import arguments
from quire.cli.commands.sql import Format, Target, answer
from quire.cli.options import Session, command

Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="degree, pagerank, components, labels, core or similarity."),
]
Edge = Annotated[str, typer.Argument(metavar="EDGE", help="The type of the edges.")]
Direction = Annotated[str | None, typer.Option("--direction", help="How edges are walked: out, in or both.")]
Weight = Annotated[str | None, typer.Option("--weight", metavar="PROPERTY", help="A number of the edges.")]
Setting = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the algorithm, as in damping=0.9.")
]


@command("algorithm", at=True, rows=True, here="this process computes it over all rows")
def algorithm(
    session: Session,
    name: Name,
    edge: Edge,
    direction: Direction = None,
    weight: Weight = None,
    setting: Setting = None,
    format: Format = None,
    output: Target = None,
) -> None:
    """Compute a value for every node, as its PageRank."""
    graph, snap = session.graph_at(None)
    how: dict[str, Any] = {"direction": direction, "weight": weight, **arguments.scalars(setting, "--set")}
    answer(session, graph.algorithm(name, edge, at=snap, **how), snap.commit, format, output)  # type: ignore[arg-type]


@command("write-algorithm", commits=True, here="this process computes it over all rows")
def write_algorithm(
    session: Session,
    name: Name,
    edge: Edge,
    property: Annotated[str, typer.Argument(metavar="PROPERTY", help="The property of the nodes to set.")],
    direction: Direction = None,
    weight: Weight = None,
    setting: Setting = None,
) -> None:
    """Set a property of all nodes to what is computed."""
    how: dict[str, Any] = {"direction": direction, "weight": weight, **arguments.scalars(setting, "--set")}
    with session.graph(None) as graph:
        message = session.message if session.message is not None else f"{name} of {edge} as {property}"
        done = graph.write_algorithm(name, edge, property, message=message, options=session.options, **how)  # type: ignore[arg-type]
        commit = graph.lake.head
    if session.output.as_json:
        session.output.document({"commit": commit, "written": done})
        return
    for type, count in done.items():
        session.output.line(f"{type}: {count} nodes written, commit {commit}")


@command("paths", at=True, rows=True, here="this process computes them over all rows")
def paths(
    session: Session,
    edge: Edge,
    source: Annotated[str, typer.Argument(metavar="FROM", help="The key of the node to start from.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="The key of the node to reach.")],
    direction: Direction = None,
    weight: Weight = None,
    hops: Annotated[int | None, typer.Option("--hops", min=0, help="At most so many edges.")] = None,
    every: Annotated[bool, typer.Option("--every", help="All shortest paths, not one of them.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many paths.")] = 1_000,
) -> None:
    """Show the shortest paths between two nodes."""
    graph, snap = session.graph_at(None)
    how: dict[str, Any] = {"weight": weight, "hops": hops, "every": every, "limit": limit, "at": snap}
    how["direction"] = direction or "out"
    found = graph.paths(edge, source, target, **how)
    if session.output.as_json:
        told = [{"length": path.length, "nodes": list(path.nodes)} for path in found]
        session.output.document({"commit": snap.commit, "paths": told})
        return
    if not found:
        session.output.line("no path")
        return
    session.output.rows(("length", "nodes"), [(path.length, " → ".join(path.nodes)) for path in found])
