"""Search in one table: the nearest vectors, the best matches of a text, or both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from quire.cli import arguments
from quire.cli.commands.sql import Format, Target, answer
from quire.cli.commands.tables import TableName
from quire.cli.options import Session, command
from quire.errors import InvalidInput
from quire.rowfiles.kinds import explained


@command("search", at=True, rows=True)
def search(
    session: Session,
    table: TableName,
    text: Annotated[str | None, typer.Option("--text", help="Find rows whose text matches these words.")] = None,
    vector: Annotated[
        str | None,
        typer.Option("--vector", metavar="JSON", help="Find rows near this vector: [0.1, 0.2, …], or @FILE."),
    ] = None,
    text_column: Annotated[
        str | None, typer.Option("--text-column", help="The text column, if the table has several.")
    ] = None,
    vector_column: Annotated[
        str | None, typer.Option("--vector-column", help="The vector column, if the table has several.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-k", min=1, help="Find at most this many rows.")] = 10,
    filter: Annotated[
        str | None, typer.Option("--filter", help="Search only rows that match this SQL condition.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", help="Only these columns. Default: all but vectors.")
    ] = None,
    metric: Annotated[str | None, typer.Option("--metric", help="The distance: l2, cosine or dot.")] = None,
    format: Format = None,
    output: Target = None,
) -> None:
    """Search a table by vector, by text, or by both. With both, rows that rank high in either come first."""
    if text is None and vector is None:
        raise InvalidInput("The search has no vector and no text.", next="Give --text, --vector, or both.")
    snap = session.snapshot()
    found = snap[table]
    shown = arguments.names(columns) or [f.name for f in found.schema if not getattr(f.type, "list_size", None)]
    rows = found.search(
        vector=_vector(vector) if vector is not None else None,
        text=text,
        vector_column=vector_column,
        text_column=text_column,
        limit=limit,
        filter=filter,
        columns=shown,
        metric=metric,
    )
    answer(session, rows, snap.commit, format, output)


def _vector(given: str) -> Any:
    text = given
    if given.startswith("@"):
        with explained(given[1:]):
            text = Path(given[1:]).read_text("utf-8")
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, list):
        raise InvalidInput(
            f"--vector {given[:40]!r} is not a list of numbers.", next="Write it as [0.1, 0.2], or @FILE."
        )
    return found
