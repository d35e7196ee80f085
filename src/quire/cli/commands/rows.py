"""Rows of one table: append, insert, upsert, overwrite, update, delete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

import quire
from quire.cli import arguments
from quire.cli.commands.tables import FileFormat, TableName, input_rows
from quire.cli.options import Session, command
from quire.errors import InvalidInput

Files = Annotated[
    list[str],
    typer.Argument(metavar="FILE", help="CSV, JSON lines, Parquet or Arrow files, in one commit; - is stdin."),
]
Fill = Annotated[bool, typer.Option("--fill-missing", help="Fill columns that the file lacks with null.")]
On = Annotated[str | None, typer.Option("--on", help="Columns that identify a row, if the table has no key.")]
Where = Annotated[str, typer.Argument(metavar="WHERE", help="A condition in SQL; 'true' means every row.")]


@command("append", commits=True, csv=True)
def append(session: Session, table: TableName, files: Files, format: FileFormat = None, fill: Fill = False) -> None:
    """Append the rows of files to a table. If the table has a key, every key must be new."""
    _write(
        session, "append to", table, files, format, lambda t, rows: t.append(rows, missing="null" if fill else "error")
    )


@command("insert", commits=True, csv=True)
def insert(
    session: Session,
    table: TableName,
    files: Files,
    format: FileFormat = None,
    on: On = None,
    ignore: Annotated[
        bool,
        typer.Option("--ignore-existing", help="Leave out rows whose key exists; of repeated keys keep the first."),
    ] = False,
    fill: Fill = False,
) -> None:
    """Insert rows whose keys are new. A key that exists is a conflict; with --ignore-existing its row is left out."""

    def put(target: quire.TransactionTable, rows: Any) -> Any:
        how: dict[str, Any] = {"exists": "ignore"} if ignore else {}
        return target.insert(rows, on=arguments.names(on), missing="null" if fill else "error", **how)

    _write(session, "insert into", table, files, format, put)


@command("upsert", commits=True, csv=True)
def upsert(session: Session, table: TableName, files: Files, format: FileFormat = None, on: On = None) -> None:
    """Update rows by key, and insert the others. Columns that the files lack keep their values."""
    _write(session, "upsert into", table, files, format, lambda t, rows: t.upsert(rows, on=arguments.names(on)))


@command("overwrite", commits=True, csv=True)
def overwrite(
    session: Session,
    table: TableName,
    files: Files,
    format: FileFormat = None,
    replace: Annotated[
        bool, typer.Option("--replace-schema", help="Replace the columns, too, with those of the files.")
    ] = False,
) -> None:
    """Replace all rows of a table. Indexes are dropped with the rows that they covered."""

    def put(target: quire.TransactionTable, rows: Any) -> Any:
        target.overwrite(rows, schema="replace" if replace else "keep")

    _write(session, "overwrite", table, files, format, put, typed=not replace)


def _write(
    session: Session,
    verb: str,
    table: str,
    files: list[str],
    format: FileFormat,
    put: Callable[[quire.TransactionTable, Any], Any],
    *,
    typed: bool = True,
) -> None:
    """Run a statement on the rows of files; counts that it returns are printed with the receipt."""
    told: dict[str, Any] = {}
    with session.commit(f"{verb} {table}", told) as tx:
        target = tx[table]
        with input_rows(session, f"{verb} {table}", files, format, target.schema if typed else None) as rows:
            counts = put(target, rows)
        told.update(counts if isinstance(counts, dict) else {})
    if told and not tx.receipt.repeated:
        session.output.line("  " + ", ".join(f"{what} {count}" for what, count in told.items()))


@command("update", commits=True)
def update(
    session: Session,
    table: TableName,
    where: Where,
    set: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="COLUMN=SQL", help="Set a column to an SQL expression, such as 'n=n+1'."),
    ] = None,
    value: Annotated[
        list[str] | None, typer.Option("--value", metavar="COLUMN=VALUE", help="Set a column to this value.")
    ] = None,
) -> None:
    """Set columns of the rows that match a condition."""
    with session.commit(f"update {table}") as tx:
        given = arguments.pairs(value, "--value", "column=value")
        changes(tx[table], arguments.pairs(set, "--set", "column=sql"), given, where)


def changes(target: quire.TransactionTable, set: dict[str, str], given: dict[str, str], where: str) -> None:
    """Run an update whose values are text, as the types of their columns read it."""
    if not set and not given:
        raise InvalidInput("An update needs at least one column to set.", next="Give --set n=n+1 or --value name=Ada.")
    expressions = {name.strip(): text for name, text in set.items()}
    typed = {name.strip(): arguments.typed(text, target.schema, name.strip()) for name, text in given.items()}
    target.update(expressions, values=typed, where=where)


@command("delete", commits=True)
def delete(session: Session, table: TableName, where: Where) -> None:
    """Delete the rows that match a condition."""
    with session.commit(f"delete from {table}") as tx:
        tx[table].delete(where)
