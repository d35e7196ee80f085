"""Rows: append, upsert, delete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

import quire
from quire.cli import readers, values
from quire.cli.program import app
from quire.cli.session import Session, command
from quire.cli.tables import FileFormat, TableName

Files = Annotated[
    list[str],
    typer.Argument(metavar="FILE", help="CSV, JSONL, Parquet or Arrow files, all in one commit; - is stdin."),
]


@command(app, "append", commits=True)
def append(
    session: Session,
    table: TableName,
    files: Files,
    format: FileFormat = None,
    fill: Annotated[bool, typer.Option("--fill-missing", help="Columns that the file lacks become null.")] = False,
) -> None:
    """Append the rows of files to a table. If the table has a key, every key must be new."""
    _write(
        session, "append to", table, files, format, lambda t, rows: t.append(rows, missing="null" if fill else "error")
    )


@command(app, "upsert", commits=True)
def upsert(
    session: Session,
    table: TableName,
    files: Files,
    format: FileFormat = None,
    on: Annotated[
        str | None, typer.Option("--on", help="Columns that identify a row, if the table has no key.")
    ] = None,
) -> None:
    """Replace the rows that have the same key, add the others. Columns that the files lack keep their values."""
    _write(session, "upsert into", table, files, format, lambda t, rows: t.upsert(rows, on=values.names(on)))


def _write(
    session: Session,
    verb: str,
    table: str,
    files: list[str],
    format: FileFormat,
    put: Callable[[quire.TransactionTable, Any], Any],
) -> None:
    with session.commit(f"{verb} {table}") as tx:
        target = tx[table]
        with session.output.progress(f"{verb} {table}", readers.rows_in(files, format)) as progress:
            put(target, progress.through(readers.read(files, format, target.schema)))


@command(app, "delete", commits=True)
def delete(
    session: Session,
    table: TableName,
    where: Annotated[str, typer.Argument(metavar="WHERE", help="A condition in SQL; 'true' deletes every row.")],
) -> None:
    """Delete the rows for which a condition holds."""
    with session.commit(f"delete from {table}") as tx:
        tx[table].delete(where)
