"""Several statements on any number of tables, in the order in which they are written, as one commit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import msgspec
import typer
from typer.core import TyperCommand

import quire
from quire.cli import arguments
from quire.cli.commands.tables import FileFormat, input_rows
from quire.cli.options import Session, command
from quire.errors import InvalidInput
from quire.rowfiles.kinds import STANDARD, Kind, kind_of

ORDER = "quire.order"

Create = Annotated[
    list[str] | None, typer.Option("--create", metavar="TABLE=FILE", help="Create a table from the rows of a file.")
]
Append = Annotated[list[str] | None, typer.Option("--append", metavar="TABLE=FILE", help="Append the rows of a file.")]
Insert = Annotated[
    list[str] | None, typer.Option("--insert", metavar="TABLE=FILE", help="Insert rows whose keys are new.")
]
Upsert = Annotated[
    list[str] | None, typer.Option("--upsert", metavar="TABLE=FILE", help="Update rows by key, and insert the others.")
]
Overwrite = Annotated[
    list[str] | None, typer.Option("--overwrite", metavar="TABLE=FILE", help="Replace all rows with those of a file.")
]
Update = Annotated[
    list[str] | None,
    typer.Option(
        "--update",
        metavar="TABLE=JSON",
        help='Set columns: {"set": {"n": "n + 1"}, "values": {"name": "Ada"}, "where": "id = 3"}.',
    ),
]
Delete = Annotated[
    list[str] | None, typer.Option("--delete", metavar="TABLE=WHERE", help="Delete the rows that match a condition.")
]
Drop = Annotated[list[str] | None, typer.Option("--drop", metavar="TABLE", help="Drop a table.")]


class Ordered(TyperCommand):
    """Remembers in which order options were given; each by itself knows its own values only."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        ctx.meta[ORDER] = [parameter.name for parameter in order]
        return super().parse_args(ctx, args)


class Setting(msgspec.Struct, forbid_unknown_fields=True):
    """An update as JSON."""

    where: str
    set: dict[str, str] = {}
    values: dict[str, Any] = {}


@command("commit", commits=True, csv=True, cls=Ordered)
def commit(
    session: Session,
    context: typer.Context,
    create: Create = None,
    append: Append = None,
    insert: Insert = None,
    upsert: Upsert = None,
    overwrite: Overwrite = None,
    update: Update = None,
    delete: Delete = None,
    drop: Drop = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key",
            metavar="TABLE=COLUMNS",
            help="The key of a new table, or the columns that identify a row of a table without a key.",
        ),
    ] = None,
    ignore: Annotated[
        bool, typer.Option("--ignore-existing", help="Leave out rows to insert whose key exists.")
    ] = False,
    format: FileFormat = None,
) -> None:
    """Run several statements on any tables as one commit.

    quire commit ./lake --append documents=docs.csv --upsert chunks=chunks.jsonl --delete "old=day < '2020-01-01'"

    Either all of them are committed, or none. They run in the order of the command line, and each sees those before
    it. - is stdin, for one of them. --format is for files whose names do not tell their format.
    """
    given: dict[str, list[str] | None] = {
        "create": create,
        "append": append,
        "insert": insert,
        "upsert": upsert,
        "overwrite": overwrite,
        "update": update,
        "delete": delete,
        "drop": drop,
    }
    statements = list(_in_order(given, context.meta[ORDER]))
    if not statements:
        raise InvalidInput("There is no statement.", next="Give --append TABLE=FILE, --delete TABLE=WHERE, ….")
    if sum(argument == STANDARD for verb, _, argument in statements if verb != "delete") > 1:
        raise InvalidInput("- is stdin, which can be read once.", next="Name files for the others.")
    keys = {table: arguments.names(text) for table, text in arguments.pairs(key, "--key", "table=columns").items()}
    run = _Run(session, keys, ignore, format)
    what = ", ".join(dict.fromkeys(f"{verb} {table}" for verb, table, _ in statements))
    with session.commit(what) as tx:
        for verb, table, argument in statements:
            run.statement(tx, verb, table, argument)


def _in_order(given: dict[str, list[str] | None], order: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Verb, table and argument of every statement, in the order of the command line."""
    waiting = {verb: iter(texts or ()) for verb, texts in given.items()}
    for verb in order:
        if verb not in waiting:
            continue
        text = next(waiting[verb])
        table, equals, argument = text.partition("=")
        if verb != "drop" and not (table and equals and argument):
            raise InvalidInput(
                f"--{verb} {text!r} names no table.",
                next=f"Write --{verb} TABLE=…, such as --{verb} people=people.csv.",
            )
        yield verb, (text if verb == "drop" else table.strip()), argument


class _Run:
    """Runs statements in a transaction."""

    def __init__(self, session: Session, keys: dict[str, list[str] | None], ignore: bool, format: Kind | None) -> None:
        self.session, self.keys, self.ignore, self.format = session, keys, ignore, format

    def statement(self, tx: quire.Transaction, verb: str, table: str, argument: str) -> None:
        if verb == "drop":
            tx.drop_table(table)
        elif verb == "delete":
            tx[table].delete(argument)
        elif verb == "update":
            wanted = _setting(table, argument)
            tx[table].update(wanted.set, values=wanted.values, where=wanted.where)
        else:
            schema = None if verb == "create" else tx[table].schema
            with input_rows(self.session, f"{verb} {table}", [argument], self._kind(argument), schema) as rows:
                self._put(tx, verb, table, rows)

    def _put(self, tx: quire.Transaction, verb: str, table: str, rows: Any) -> None:
        key = self.keys.get(table)
        if verb == "create":
            tx.create_table(table, rows, key=key)
        elif verb == "append":
            tx[table].append(rows)
        elif verb == "insert" and self.ignore:
            tx[table].insert(rows, on=key, exists="ignore")
        elif verb == "insert":
            tx[table].insert(rows, on=key)
        elif verb == "upsert":
            tx[table].upsert(rows, on=key)
        else:
            tx[table].overwrite(rows)

    def _kind(self, path: str) -> Kind | None:
        """What `--format` says, for a file whose name says nothing."""
        if self.format is None:
            return None
        try:
            return kind_of(path, None)
        except InvalidInput:
            return self.format


def _setting(table: str, text: str) -> Setting:
    try:
        return msgspec.json.decode(text, type=Setting)
    except msgspec.MsgspecError as error:
        raise InvalidInput(
            f"--update {table}: {str(error).rstrip('.')}.",
            next='Write it as {"set": {"n": "n + 1"}, "values": {"name": "Ada"}, "where": "id = 3"}.',
            table=table,
        ) from None
