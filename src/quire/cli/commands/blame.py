"""Where a row comes from: the commits that made it what it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from quire.cli import completion
from quire.cli.options import Session, command
from quire.errors import InvalidInput

if TYPE_CHECKING:
    import quire
    from quire.lake.read.row_history import RowHistory, RowVersion


@command("blame", rows=True)
def blame(
    session: Session,
    table: Annotated[
        str, typer.Argument(metavar="TABLE", help="A table with a key, or a type.", autocompletion=completion.tables)
    ],
    key: Annotated[list[str], typer.Argument(metavar="KEY...", help="The value of each key column, in their order.")],
    versions: Annotated[bool, typer.Option("--versions", help="List all versions of the row instead.")] = False,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=0, help="At most so many versions.")] = None,
) -> None:
    """Show which commits made a row what it is. For each column it names the one that gave it its value."""
    lake = session.read()
    found = _history(lake, table, key, limit)
    if session.output.as_json:
        told = {name: None if v is None else v.commit for name, v in found.blame().items()}
        document = {"table": table, "complete": found.complete, "versions": [v.to_dict() for v in found]}
        session.output.document({**document, "blame": told})
        return
    if not len(found):
        session.output.line("no such row, now or before")
    elif versions or found[0].row is None:
        session.output.rows(
            ("commit", "time", "author", "change", "columns", "message"),
            [(*_who(v)[:3], v.change, ", ".join(v.columns), v.message) for v in found],
        )
    else:
        newest = found[0].row
        lines = [(name, newest[name], *_who(version)) for name, version in found.blame().items()]
        session.output.rows(("column", "value", "commit", "time", "author", "message"), lines)
    if not found.complete:
        session.output.note("older versions are not kept, or not asked for")


def _who(version: RowVersion | None) -> tuple[str, str, str, str]:
    if version is None:
        return ("before", "", "", "")
    return version.commit, f"{version.time:%Y-%m-%d %H:%M:%S}", version.author, version.message


def _history(lake: quire.Lake, table: str, key: list[str], limit: int | None) -> RowHistory:
    """The history of a row of a table, or of a node or edge of a type."""
    snapshot = lake.snapshot()
    if table not in snapshot:
        from quire.graph.graph import Graph

        graph = Graph(lake)
        if any(table == entity.name for entity in graph.catalog(snapshot).entities):
            return graph.history(table, *key, limit=limit)
    found = snapshot[table]
    if found.key and len(key) != len(found.key):
        raise InvalidInput(
            f"The key of table {table!r} has the columns {', '.join(found.key)}; {len(key)} values are given.",
            next="Give one value for each, in this order.",
            table=table,
        )
    schema = found.schema
    values = {name: _typed(text, schema.field(name), table) for name, text in zip(found.key, key, strict=False)}
    return lake.history(table, values, limit=limit)


def _typed(text: str, field: Any, table: str) -> Any:
    """A value of a key as its column has it."""
    import pyarrow as pa

    try:
        return pa.scalar(text).cast(field.type).as_py()
    except (pa.ArrowException, ValueError, OverflowError):
        raise InvalidInput(
            f"{text!r} is not a value of key column {field.name!r} of table {table!r}, which is {field.type}.",
            next="Write it as CSV has it: 12, 2026-11-01, a text without quotes.",
            table=table,
            column=field.name,
        ) from None
