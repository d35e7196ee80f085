"""Vectors of the stored texts that have none."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from quire.cli.graph_arguments import Embedder
from quire.cli.options import Session, command
from quire.cli.program import is_interrupt

INTERRUPTED = "interrupted; vectors that were committed stay, and the next run makes the rest"


@command("embed", writes=True, message=True, metadata=True, here="the embedder is asked by this process")
def embed(
    session: Session,
    types: Annotated[
        list[str] | None, typer.Argument(metavar="[TYPE]...", help="The types of nodes and edges. Default: all.")
    ] = None,
    rows_per_commit: Annotated[
        int | None,
        typer.Option("--rows-per-commit", metavar="N", min=1, help="At most so many rows in a commit. Default: 10000."),
    ] = None,
    embedder: Embedder = None,
) -> None:
    """Make the vectors that stored texts lack. Interrupted, the next run makes the rest.

    They are those of @embed properties. A change of the model sets them to null (`quire schema apply --drop-data`):
    then this makes them anew.
    """
    how: dict[str, Any] = {} if rows_per_commit is None else {"rows_per_commit": rows_per_commit}
    with session.graph(embedder) as graph, session.output.progress("embedding") as progress:
        try:
            how |= {"progress": progress, "message": session.message, "metadata": session.metadata}
            done = graph.embed(types or None, **how)
        except BaseException as error:
            if not is_interrupt(error):
                raise
            raise KeyboardInterrupt(INTERRUPTED) from error
    output = session.output
    if output.as_json:
        output.document(done.to_dict())
        return
    if not done.rows:
        output.line("no text lacks a vector")
        return
    output.table(("property", "vectors"), list(done.rows.items()))
    last = done.receipts[-1].commit
    output.line(f"{len(done.receipts)} commit{'s' if len(done.receipts) != 1 else ''}, the last is {last}")
