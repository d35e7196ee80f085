"""Rows out of the lake: one table to a file, or many tables to a folder."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from quire.cli import arguments, completion
from quire.cli.commands.upkeep import shown_bytes
from quire.cli.options import EngineOption, MasterOption, Session, command, running
from quire.errors import InvalidInput
from quire.rowfiles import write
from quire.rowfiles.kinds import STANDARD, Kind, kind_of


class ExportFormat(StrEnum):
    """What an export is written as."""

    csv = "csv"
    jsonl = "jsonl"
    parquet = "parquet"
    arrow = "arrow"
    delta = "delta"


@command("export", at=True)
def export(
    session: Session,
    target: Annotated[
        list[str],
        typer.Argument(
            metavar="[TABLE] TARGET",
            help="A table and the file to write, replaced if it exists; - is stdout. Or an empty folder, for all "
            "tables of one commit, each in files of its own.",
        ),
    ],
    table: Annotated[
        list[str] | None,
        typer.Option(
            "--table", "-t", help="To a folder: only this table; repeatable.", autocompletion=completion.tables
        ),
    ] = None,
    format: Annotated[
        ExportFormat | None,
        typer.Option(
            "--format",
            help="The format of a file (default: by its name), or of the files in a folder (default: parquet). "
            "delta, to a folder: every table is a Delta table.",
        ),
    ] = None,
    filter: Annotated[
        str | None, typer.Option("--filter", help="To a file: only rows that match this SQL condition.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", help="To a file: only these columns, separated by commas.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=0, help="To a file: at most this many rows.")] = None,
    engine: EngineOption = None,
    master: MasterOption = None,
) -> None:
    """Write a table to a file, or all tables to a folder.

    A file appears when it is complete. A folder is complete when it has the file _export.json.
    """
    if len(target) == 1:
        if filter is not None or columns is not None or limit is not None:
            raise InvalidInput(
                "--filter, --columns and --limit are for one table and a file.",
                next="Name them: quire export LAKE TABLE FILE.",
            )
        _to_folder(session, target[0], table, format, (engine, master))
        return
    if len(target) > 2 or table:
        raise InvalidInput(
            "An export has one target.",
            next="Use quire export LAKE TABLE FILE, or quire export LAKE FOLDER --table A --table B.",
        )
    if engine is not None or master is not None:
        raise InvalidInput(
            "A file is written by this process.", next="To use Spark, export to a folder: quire export LAKE FOLDER."
        )
    if format is ExportFormat.delta:
        raise InvalidInput(
            "A Delta table is a folder.", next=f"Use quire export LAKE FOLDER --table {target[0]} --format delta."
        )
    kind = None if format is None else Kind(format.value)
    _to_file(session, target[0], target[1], kind_of(target[1], kind), filter, columns, limit)


def _to_folder(
    session: Session,
    folder: str,
    tables: list[str] | None,
    format: ExportFormat | None,
    who: tuple[EngineOption, MasterOption],
) -> None:
    snapshot = session.snapshot()
    wanted = tables or snapshot.tables()

    def size() -> int:
        return sum(snapshot[name].bytes for name in wanted)

    with running(*who, size) as engine, session.output.progress("export", unit="parts") as progress:
        done = snapshot.export(
            folder, tables=wanted, format=(format or ExportFormat.parquet).value, engine=engine, progress=progress
        )
    if session.output.as_json:
        session.output.document(done.to_dict())
        return
    session.output.table(
        ("table", "rows", "size", "files"),
        [(name, t.rows, shown_bytes(t.bytes), len(t.files)) for name, t in done.tables.items()],
    )
    session.output.line(f"wrote {done.rows} rows of commit {done.commit} to {done.folder}")


def _to_file(
    session: Session,
    table: str,
    file: str,
    kind: Kind,
    filter: str | None,
    columns: str | None,
    limit: int | None,
) -> None:
    if file == STANDARD and session.output.as_json:
        raise InvalidInput("Rows and a JSON answer cannot share stdout.", next="Name a file, or leave --json out.")
    found = session.snapshot()[table]
    rows = found.scan(columns=arguments.names(columns), filter=filter, limit=limit)
    total = found.count() if filter is None and limit is None else None
    with session.output.progress(f"exporting {table}", total) as progress:
        count = write.write(progress.watch(rows), rows.schema, file, kind)
    if file == STANDARD:
        return
    if session.output.as_json:
        session.output.document({"table": table, "file": file, "format": kind, "rows": count})
    else:
        session.output.line(f"wrote {count} rows to {file}")
