"""Tables: list, create, describe, change their columns and indexes."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from quire.cli import readers, values
from quire.cli.engine import EngineOption, MasterOption, running
from quire.cli.kinds import Kind
from quire.cli.program import app, table_app
from quire.cli.session import Session, command
from quire.errors import InvalidInput

TableName = Annotated[str, typer.Argument(metavar="TABLE", help="The name of the table.")]
FileFormat = Annotated[
    Kind | None, typer.Option("--format", help="The format of the file, if its name does not say it.")
]


@command(app, "tables", at=True)
def tables(session: Session) -> None:
    """List the tables of a lake."""
    snap = session.snapshot()
    found: list[dict[str, Any]] = [
        {"name": t.name, "rows": t.count(), "version": t.version, "key": list(t.key), "commit": t.commit}
        for t in (snap[name] for name in snap)
    ]
    if session.output.as_json:
        session.output.document({"branch": snap.branch, "commit": snap.commit, "tables": found})
    elif found:
        session.output.table(
            ("table", "rows", "version", "key", "commit"),
            [(t["name"], t["rows"], t["version"], ", ".join(t["key"]), t["commit"]) for t in found],
        )
    else:
        session.output.line("no tables")


@command(table_app, "create", commits=True)
def create(
    session: Session,
    table: TableName,
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--from", metavar="FILE", help="Start with the rows of this file: CSV, JSONL, Parquet, Arrow; - is stdin."
        ),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option("--schema", help="Columns and types: id:int64!,name:string,vec:float32[128]; ! means required."),
    ] = None,
    key: Annotated[str | None, typer.Option("--key", help="The key columns, with commas between.")] = None,
    format: FileFormat = None,
    stable_row_ids: Annotated[
        bool, typer.Option("--stable-row-ids", help="Keep row ids stable under updates.")
    ] = False,
) -> None:
    """Create a table from a schema, from a file, or from both: the schema then types the file's columns."""
    if source is None and schema is None:
        raise InvalidInput(
            "A new table needs columns.", next="Say --schema id:int64,name:string, or --from FILE.", table=table
        )
    columns = values.schema(schema) if schema is not None else None
    options: dict[str, Any] = {"key": values.names(key), "stable_row_ids": stable_row_ids}
    with session.commit(f"create {table}") as tx:
        if not source:
            tx.create_table(table, schema=columns, **options)
            return
        with session.output.progress(f"creating {table}", readers.rows_in(source, format)) as progress:
            rows = progress.through(readers.read(source, format, columns))
            tx.create_table(table, rows, schema=columns, **options)


@command(table_app, "drop", commits=True)
def drop(session: Session, table: TableName) -> None:
    """Drop a table. Its history stays readable until cleanup."""
    with session.commit(f"drop {table}") as tx:
        tx.drop_table(table)


@command(table_app, "rename", commits=True)
def rename(
    session: Session, table: TableName, new: Annotated[str, typer.Argument(metavar="NEW", help="The new name.")]
) -> None:
    """Rename a table. Nothing is moved or copied."""
    with session.commit(f"rename {table} to {new}") as tx:
        tx.rename_table(table, new)


@command(table_app, "describe", at=True)
def describe(session: Session, table: TableName) -> None:
    """Show a table's columns, key, indexes, place and size."""
    found = session.snapshot()[table].describe()
    output = session.output
    if output.as_json:
        output.document(found)
        return
    shown = ("name", "id", "format", "location", "version", "commit", "rows", "bytes")
    output.fields([*((name, found[name]) for name in shown), ("key", ", ".join(found["key"]))])
    output.line("")
    output.table(
        ("column", "type", "required"),
        [(c["name"], c["type"], "" if c["nullable"] else "required") for c in found["columns"]],
    )
    if found["indexes"]:
        output.line("")
        output.table(
            ("index", "kind", "columns", "rows indexed", "rows not indexed"),
            [
                (i["name"], i["kind"], ", ".join(i["columns"]), i["rows_indexed"], i["rows_unindexed"])
                for i in found["indexes"]
            ],
        )


@command(table_app, "add-column", commits=True)
def add_column(
    session: Session,
    table: TableName,
    column: Annotated[str, typer.Argument(metavar="COLUMN", help="The name of the new column.")],
    type: Annotated[str | None, typer.Option("--type", help="Its type; the rows that exist get null.")] = None,
    expr: Annotated[
        str | None, typer.Option("--expr", help="Or SQL over the other columns that gives its values.")
    ] = None,
) -> None:
    """Add a column, empty or computed from others."""
    if (type is None) == (expr is None):
        raise InvalidInput("A new column has a type or an expression.", next="Say one of --type and --expr.")
    with session.commit(f"add column {column} to {table}") as tx:
        tx[table].add_columns({column: values.data_type(type) if type is not None else expr})


@command(table_app, "drop-column", commits=True)
def drop_column(
    session: Session,
    table: TableName,
    column: Annotated[str, typer.Argument(metavar="COLUMN", help="The column to drop.")],
) -> None:
    """Drop a column."""
    with session.commit(f"drop column {column} of {table}") as tx:
        tx[table].drop_columns(column)


@command(table_app, "rename-column", commits=True)
def rename_column(
    session: Session,
    table: TableName,
    column: Annotated[str, typer.Argument(metavar="COLUMN", help="The column to rename.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Its new name.")],
) -> None:
    """Rename a column."""
    with session.commit(f"rename column {column} of {table} to {new}") as tx:
        tx[table].rename_column(column, new)


@command(table_app, "index", commits=True)
def index(
    session: Session,
    table: TableName,
    column: Annotated[str, typer.Argument(metavar="COLUMN", help="The column to index.")],
    kind: Annotated[
        str, typer.Option("--kind", help="BTREE, BITMAP, INVERTED (full text), IVF_PQ, IVF_FLAT, IVF_HNSW_SQ, …")
    ] = "BTREE",
    name: Annotated[str | None, typer.Option("--name", help="The index's name; otherwise COLUMN_idx.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Build it anew if it exists.")] = False,
    option: Annotated[
        list[str] | None, typer.Option("--option", metavar="NAME=VALUE", help="A setting of the index.")
    ] = None,
    engine: EngineOption = None,
    master: MasterOption = None,
) -> None:
    """Build an index."""
    options = values.scalars(option, "--option")
    with (
        running(engine, master, lambda: session.snapshot()[table].bytes) as who,
        session.commit(f"index {column} of {table}") as tx,
    ):
        tx[table].create_index(column, kind, name=name, replace=replace, engine=who, **options)


@command(table_app, "drop-index", commits=True)
def drop_index(
    session: Session,
    table: TableName,
    name: Annotated[str, typer.Argument(metavar="INDEX", help="The name of the index.")],
) -> None:
    """Drop an index."""
    with session.commit(f"drop index {name} of {table}") as tx:
        tx[table].drop_index(name)


@command(app, "register", commits=True)
def register(
    session: Session,
    table: TableName,
    location: Annotated[str, typer.Argument(metavar="LOCATION", help="The directory or URI of a Lance table.")],
    key: Annotated[str | None, typer.Option("--key", help="The key columns, with commas between.")] = None,
) -> None:
    """Take an existing Lance table into the lake, where it lies."""
    with session.commit(f"register {table}") as tx:
        tx.register_table(table, location, key=values.names(key))
