"""Tables: list, create, describe, change their columns and indexes."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quire.cli import arguments, completion
from quire.cli.options import EngineOption, MasterOption, Session, command, running
from quire.conversion import type_text
from quire.errors import InvalidInput
from quire.rowfiles import typed
from quire.rowfiles.files import doubts
from quire.rowfiles.kinds import Kind

if TYPE_CHECKING:
    import pyarrow as pa

TableName = Annotated[
    str, typer.Argument(metavar="TABLE", help="The name of the table.", autocompletion=completion.tables)
]
TABLE_FORMATS = ("lance", "delta")
FileFormat = Annotated[Kind | None, typer.Option("--format", help="The format of the file. Default: by its name.")]


@contextmanager
def input_rows(
    session: Session, what: str, files: Sequence[str], format: Kind | None, schema: pa.Schema | None
) -> Iterator[pa.RecordBatchReader]:
    """The rows of files, with a bar, and with a warning where a file seems to be written otherwise."""
    found = typed.row_files(files, format, session.csv, sys.stdin)
    for doubt in doubts(found):
        session.output.warn(doubt)
    with session.output.progress(what, typed.rows_in(found)) as progress:
        yield progress.through(typed.read(found, schema))


@command("tables", at=True)
def tables(session: Session) -> None:
    """List the tables of a lake."""
    snap = session.snapshot()
    found: list[dict[str, Any]] = [
        {"name": t.name, "rows": t.count(), "version": int(t.version), "key": list(t.key), "commit": t.commit}
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


@command("table create", commits=True, csv=True)
def create(
    session: Session,
    table: TableName,
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="Start with the rows of this CSV, JSON lines, Parquet or Arrow file; - is stdin.",
        ),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option("--schema", help="Columns and types: id:int64!,name:string,vec:float32[128]; ! means required."),
    ] = None,
    key: Annotated[str | None, typer.Option("--key", help="The key columns, separated by commas.")] = None,
    format: Annotated[
        str | None,
        typer.Option("--format", help="The format of the table: lance (default) or delta. Or that of the file."),
    ] = None,
    file_format: Annotated[
        Kind | None, typer.Option("--from-format", help="The format of the file. Default: by its name.")
    ] = None,
    partition_by: Annotated[
        str | None,
        typer.Option("--partition-by", help="Columns by which a Delta table is divided, separated by commas."),
    ] = None,
    dialect: Annotated[
        str | None,
        typer.Option("--dialect", help="How a Delta table is owned: catalogManaged (default) or managedCommit."),
    ] = None,
    stable_row_ids: Annotated[
        bool, typer.Option("--stable-row-ids", help="Keep row ids stable under updates.")
    ] = False,
) -> None:
    """Create a table from a schema, a file, or both. With both, the schema gives the types of the file's columns."""
    if source is None and schema is None:
        raise InvalidInput(
            "A new table needs columns.", next="Give --schema id:int64,name:string, or --from FILE.", table=table
        )
    columns = type_text.schema(schema) if schema is not None else None
    kind, read_as = _formats(format, file_format)
    chosen = {"partition_by": list(arguments.names(partition_by) or ()), "dialect": dialect}
    options: dict[str, Any] = {"key": arguments.names(key), "stable_row_ids": stable_row_ids, "format": kind}
    options["options"] = {name: value for name, value in chosen.items() if value}
    with session.commit(f"create {table}") as tx:
        if not source:
            tx.create_table(table, schema=columns, **options)
            return
        with input_rows(session, f"creating {table}", source, read_as, columns) as rows:
            tx.create_table(table, rows, schema=columns, **options)


def _formats(format: str | None, file: Kind | None) -> tuple[str, Kind | None]:
    """The format of the table, and that of the file: `--format` names either."""
    if format is None or format in TABLE_FORMATS:
        return format or TABLE_FORMATS[0], file
    if format not in [kind.value for kind in Kind] or file is not None:
        raise InvalidInput(
            f"{format!r} is no format of tables.", next=f"Use --format {' or '.join(TABLE_FORMATS)}.", format=format
        )
    return TABLE_FORMATS[0], Kind(format)


@command("table drop", commits=True)
def drop(session: Session, table: TableName) -> None:
    """Drop a table. Its history stays readable until cleanup."""
    with session.commit(f"drop {table}") as tx:
        tx.drop_table(table)


@command("table rename", commits=True)
def rename(
    session: Session, table: TableName, new: Annotated[str, typer.Argument(metavar="NEW", help="The new name.")]
) -> None:
    """Rename a table. Nothing is moved or copied."""
    with session.commit(f"rename {table} to {new}") as tx:
        tx.rename_table(table, new)


@command("table describe", at=True)
def describe(session: Session, table: TableName) -> None:
    """Show a table's columns, key, indexes, location and size."""
    found = session.snapshot()[table].describe()
    output = session.output
    if output.as_json:
        output.document(found)
        return
    shown = ("name", "id", "format", "location", "version", "commit", "rows", "bytes")
    output.fields([*((name, found[name]) for name in shown if name in found), ("key", ", ".join(found["key"]))])
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


@command("table add-column", commits=True)
def add_column(
    session: Session,
    table: TableName,
    column: Annotated[str, typer.Argument(metavar="COLUMN", help="The name of the new column.")],
    type: Annotated[str | None, typer.Option("--type", help="Its type; existing rows get null.")] = None,
    expr: Annotated[str | None, typer.Option("--expr", help="Its values, as SQL over the other columns.")] = None,
) -> None:
    """Add a column: null, or computed from other columns."""
    if (type is None) == (expr is None):
        raise InvalidInput("A new column needs either a type or an expression.", next="Give --type or --expr.")
    with session.commit(f"add column {column} to {table}") as tx:
        tx[table].add_columns({column: type_text.data_type(type) if type is not None else expr})


@command("table drop-column", commits=True)
def drop_column(
    session: Session,
    table: TableName,
    column: Annotated[str, typer.Argument(metavar="COLUMN", help="The column to drop.")],
) -> None:
    """Drop a column."""
    with session.commit(f"drop column {column} of {table}") as tx:
        tx[table].drop_columns(column)


@command("table rename-column", commits=True)
def rename_column(
    session: Session,
    table: TableName,
    column: Annotated[str, typer.Argument(metavar="COLUMN", help="The column to rename.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Its new name.")],
) -> None:
    """Rename a column."""
    with session.commit(f"rename column {column} of {table} to {new}") as tx:
        tx[table].rename_column(column, new)


@command("table alter-column", commits=True)
def alter_column(
    session: Session,
    table: TableName,
    column: Annotated[str, typer.Argument(metavar="COLUMN", help="The column to change.")],
    type: Annotated[str | None, typer.Option("--type", help="Its new type; the values are cast.")] = None,
    nullable: Annotated[
        bool | None,
        typer.Option("--nullable/--required", help="Whether it may be null; --required fails if a row is null."),
    ] = None,
) -> None:
    """Change a column's type, or whether it may be null."""
    if type is None and nullable is None:
        raise InvalidInput("There is nothing to change.", next="Give --type, --nullable or --required.")
    with session.commit(f"alter column {column} of {table}") as tx:
        tx[table].alter_column(column, type=type_text.data_type(type) if type is not None else None, nullable=nullable)


@command("table index", commits=True)
def index(
    session: Session,
    table: TableName,
    column: Annotated[str, typer.Argument(metavar="COLUMN", help="The column to index.")],
    kind: Annotated[
        str, typer.Option("--kind", help="BTREE, BITMAP, INVERTED (full text), IVF_PQ, IVF_FLAT, IVF_HNSW_SQ, …")
    ] = "BTREE",
    name: Annotated[str | None, typer.Option("--name", help="The name of the index. Default: COLUMN_idx.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Rebuild it if it exists.")] = False,
    option: Annotated[
        list[str] | None, typer.Option("--option", metavar="NAME=VALUE", help="A setting of the index.")
    ] = None,
    engine: EngineOption = None,
    master: MasterOption = None,
) -> None:
    """Build an index."""
    options = arguments.scalars(option, "--option")
    with (
        running(engine, master, lambda: session.snapshot()[table].bytes) as who,
        session.commit(f"index {column} of {table}") as tx,
    ):
        tx[table].create_index(column, kind, name=name, replace=replace, engine=who, **options)


@command("table drop-index", commits=True)
def drop_index(
    session: Session,
    table: TableName,
    name: Annotated[str, typer.Argument(metavar="INDEX", help="The name of the index.")],
) -> None:
    """Drop an index."""
    with session.commit(f"drop index {name} of {table}") as tx:
        tx[table].drop_index(name)


@command("register", commits=True, here="its clients name no addresses of storage")
def register(
    session: Session,
    table: TableName,
    location: Annotated[str, typer.Argument(metavar="LOCATION", help="The directory or URI of a table.")],
    key: Annotated[str | None, typer.Option("--key", help="The key columns, separated by commas.")] = None,
    format: Annotated[str, typer.Option("--format", help="lance or delta.")] = "lance",
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Take it over from another lake, which must be gone.")
    ] = False,
) -> None:
    """Add an existing Lance or Delta table to the lake, in place."""
    with session.commit(f"register {table}") as tx:
        tx.register_table(table, location, key=arguments.names(key), format=format, take_over=take_over)


@command("convert", branch=False, writes=True, here="it writes to the folder of the table itself")
def convert(
    session: Session,
    table: TableName,
    to: Annotated[
        str, typer.Option("--to", help="catalogManaged, managedCommit, or plain to let go of it.")
    ] = "catalogManaged",
) -> None:
    """Own the commits of a plain Delta table, or let go of them. If it was stopped, run it again: it goes on."""
    from quire.delta import convert as convert_table

    with session.write() as lake:
        done = convert_table(lake, table, to)
    if session.output.as_json:
        session.output.document(done.to_dict())
    else:
        session.output.line(str(done))


@command("register-all", writes=True, message=True, here="its clients name no addresses of storage")
def register_all(
    session: Session,
    database: Annotated[str, typer.Argument(metavar="DATABASE", help="The folder or URI that lancedb.connect takes.")],
    table: Annotated[
        list[str] | None, typer.Option("--table", "-t", metavar="NAME", help="Only this table; repeatable.")
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", metavar="NAME=COLUMNS", help="The key columns of a table, separated by commas."),
    ] = None,
    prefix: Annotated[str, typer.Option("--prefix", help="Put this before the names in the lake.")] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done and what prevents it; write nothing.")
    ] = False,
) -> None:
    """Add all tables of a LanceDB database to the lake, in place. One commit adds all of them, or none."""
    keys = {
        name: arguments.names(columns) or [] for name, columns in arguments.pairs(key, "--key", "table=columns").items()
    }
    with session.write() as lake:
        done = lake.register_database(
            database, tables=table, keys=keys, prefix=prefix, dry_run=dry_run, message=session.message
        )
    output = session.output
    if output.as_json:
        output.document(done.to_dict())
    else:
        output.table(
            ("table", "rows", "key", "location", "problem"),
            [(t.table, t.rows, ", ".join(t.key), t.location, t.problem) for t in done.tables],
        )
        output.line(f"committed as {done.commit}" if done.commit else "nothing was written")
    if done.problems:
        raise typer.Exit(InvalidInput.exit_code)
