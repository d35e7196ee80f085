"""Which engine a command runs on: this process, or a Spark session that lasts as long as the command."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import quote

import typer
from typer.core import TyperCommand

import quire
from quire.cli import arguments, completion
from quire.cli.arguments import expectations, pairs, token
from quire.cli.lazy_group import SERVER, TOKEN_VARIABLE, register
from quire.cli.output import Output
from quire.cli.program import NOTHING, UNSURE, is_interrupt
from quire.errors import InvalidInput, Unsupported
from quire.lake.engines import AUTO_BYTES, start
from quire.rowfiles.csv import PLAIN, CsvForm

if TYPE_CHECKING:
    from quire.graph.catalog import Catalog
    from quire.lake.commit.transaction import TransactionOptions

_LAKE = Annotated[
    str,
    typer.Argument(
        metavar="LAKE",
        help="The lake: a directory, or a URI such as s3://bucket/lake, or http://host:8080/NAME behind a server.",
    ),
]
_BRANCH = Annotated[
    str, typer.Option("--branch", "-b", help="The branch to work on.", autocompletion=completion.branches)
]
_AT = Annotated[
    str | None,
    typer.Option(
        "--at", help="Read at a commit (12.0), a tag or a time (2026-11-01).", autocompletion=completion.points
    ),
]
_AUTHOR = Annotated[
    str | None, typer.Option("--author", help="Author of the commit. Default: $QUIRE_AUTHOR, or user@host.")
]
_MESSAGE = Annotated[str | None, typer.Option("--message", "-m", help="The message of the commit.")]
_META = Annotated[
    list[str] | None,
    typer.Option("--meta", metavar="KEY=VALUE", help="Store this with the commit, readable by everybody; repeatable."),
]
_TOKEN = Annotated[
    str | None,
    typer.Option(
        "--token",
        help="Commit at most once, however often this runs: scope:sequence, or a token from quire.token().",
    ),
]
_EXPECT = Annotated[
    list[str] | None,
    typer.Option(
        "--expect",
        metavar="TABLE=VERSION",
        help="Commit only if the table is at this version; with 4@ID, of the table with this id.",
    ),
]
_IF_HEAD = Annotated[
    str | None, typer.Option("--if-head", metavar="COMMIT", help="Commit only if this commit is the branch's head.")
]
_STORAGE = Annotated[
    list[str] | None,
    typer.Option(
        "--storage-option",
        metavar="KEY=VALUE",
        envvar="QUIRE_STORAGE_OPTIONS",
        help="A setting of the object store, such as aws_region=eu-central-1; never printed. The variable holds "
        "several, separated by spaces.",
    ),
]
_EXTERNAL = Annotated[
    list[str] | None,
    typer.Option(
        "--external",
        metavar="LOCATION",
        envvar="QUIRE_EXTERNAL",
        help="Allow tables at this location outside the lake; `allow`: anywhere. The variable holds several.",
    ),
]
_TIMEOUT = Annotated[
    float | None,
    typer.Option("--timeout", metavar="SECONDS", min=0, help="Give up if it is not committed within this time."),
]
_VERTICAL = Annotated[
    bool | None,
    typer.Option(
        "--vertical/--no-vertical",
        "-v",
        help="Print each value on its own line. Default: only if the terminal is too narrow for the rows.",
    ),
]
_DELIMITER = Annotated[
    str | None,
    typer.Option("--delimiter", metavar="CHARACTER", help="CSV: the character between fields, such as ';' or tab."),
]
_QUOTE = Annotated[
    str | None, typer.Option("--quote", metavar="CHARACTER", help='CSV: the quote character. Default: ".')
]
_NULL = Annotated[
    str | None, typer.Option("--null", metavar="TEXT", help="CSV: the text that means null. Default: an empty field.")
]
_ENCODING = Annotated[str | None, typer.Option("--encoding", help="CSV: the encoding of the text. Default: utf-8.")]
_NO_HEADER = Annotated[
    bool, typer.Option("--no-header", help="CSV: the first row is data; columns are in the order of the table.")
]
_JSON = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@dataclass
class Session:
    """One command at work: the lake it was given, the common options, and where it prints."""

    uri: str
    output: Output
    storage: dict[str, str] = field(default_factory=dict, repr=False)
    branch: str = "main"
    at: str | None = None
    author: str | None = None
    message: str | None = None
    token: quire.StreamToken | str | None = None
    expect: dict[str, int] = field(default_factory=dict)
    if_head: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    external: list[str] | Literal["allow"] = field(default_factory=list)
    timeout: float | None = None
    csv: CsvForm = PLAIN

    @property
    def is_remote(self) -> bool:
        """Whether the lake is behind a server."""
        return self.uri.startswith(("http://", "https://"))

    def _connected(self) -> Any:
        """The lake behind a server, which alone knows where it lies and who asks."""
        for given, name in (
            (self.storage, "--storage-option"),
            (self.external, "--external"),
            (self.author, "--author"),
        ):
            if given:
                raise Unsupported(
                    f"{name} is not for a lake behind a server.",
                    next=f"Leave it out; {TOKEN_VARIABLE} says who asks.",
                )
        return quire.connect(self.uri, token=os.environ.get(TOKEN_VARIABLE) or None, branch=self.branch)

    def catalog(self, tx: quire.Transaction) -> Catalog:
        """The types of the graph as a transaction sees them."""
        from quire.graph.schema.apply import catalog_in

        return quire.Graph(self._connected()).catalog() if self.is_remote else catalog_in(tx)

    def read(self) -> quire.Lake:
        """The lake, read-only."""
        if self.is_remote:
            connected: quire.Lake = self._connected()
            return connected
        return quire.open(
            self.uri, branch=self.branch, storage_options=self.storage, read_only=True, external=self.external
        )

    def write(self, *, backfill: bool = True) -> quire.Lake:
        """The lake, for writing. As a context manager it finishes background work on exit."""
        if self.is_remote:
            connected: quire.Lake = self._connected()
            return connected
        return quire.open(
            self.uri,
            branch=self.branch,
            storage_options=self.storage,
            author=self.author,
            backfill=backfill,
            external=self.external,
        )

    def snapshot(self) -> quire.Snapshot:
        """All tables at `--at`, or at the head."""
        return self._snapshot(self.read())

    def graph_at(self, embedder: str | None = None) -> tuple[quire.Graph, quire.Snapshot]:
        """The graph, read-only, and all tables at `--at`, or at the head."""
        lake = self.read()
        return _graph(lake, embedder), self._snapshot(lake)

    def _snapshot(self, lake: quire.Lake) -> quire.Snapshot:
        if self.at is None:
            return lake.snapshot()
        from quire.lake.handles import snapshot_at

        return snapshot_at(lake, self.at)

    @property
    def options(self) -> TransactionOptions:
        """The options of a transaction, as they were given."""
        return {
            "token": self.token,
            "expect": self.expect,
            "if_head": self.if_head,
            "timeout": self.timeout,
            "metadata": self.metadata,
        }

    @contextmanager
    def commit(self, message: str, extra: dict[str, Any] | None = None) -> Iterator[quire.Transaction]:
        """A transaction with the options given; afterwards its receipt is printed, with `extra` in its JSON."""
        with self.write() as lake:
            tx = lake.transaction(self.message if self.message is not None else message, **self.options)
            tx.counts_told = False  # only the receipt is shown
            try:
                with tx:
                    yield tx
            except BaseException as error:
                if not is_interrupt(error):
                    raise
                said = f"interrupted; committed as {tx.receipt.commit}" if tx.status == "committed" else NOTHING
                raise KeyboardInterrupt(said) from error
        self.output.receipt(tx.receipt, extra)

    @contextmanager
    def graph(self, embedder: str | None = None) -> Iterator[quire.Graph]:
        """The graph of the lake, for writing."""
        with self.write() as lake:
            yield _graph(lake, embedder)


def command(
    name: str,
    *,
    branch: bool = True,
    at: bool = False,
    writes: bool = False,
    message: bool = False,
    metadata: bool = False,
    commits: bool = False,
    rows: bool = False,
    csv: bool = False,
    here: str = "",
    cls: type[TyperCommand] = TyperCommand,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function a command, by its full name such as `table create`.

    The function takes a `Session` and its own parameters; LAKE and the common options come from here.

    `commits` adds the options of a transaction and implies `writes` and `message`, `rows` how rows are printed, `csv`
    the form of CSV files that are read. `here` says why it cannot be done through a server.
    """
    writes, message = writes or commits, message or commits
    common: list[tuple[str, Any, Any, bool]] = [
        ("branch", _BRANCH, "main", branch),
        ("at", _AT, None, at),
        ("message", _MESSAGE, None, message),
        ("author", _AUTHOR, None, writes),
        ("meta", _META, None, commits or metadata),
        ("token", _TOKEN, None, commits),
        ("expect", _EXPECT, None, commits),
        ("if_head", _IF_HEAD, None, commits),
        ("timeout", _TIMEOUT, None, commits),
        ("delimiter", _DELIMITER, None, csv),
        ("quote", _QUOTE, None, csv),
        ("null", _NULL, None, csv),
        ("no_header", _NO_HEADER, False, csv),
        ("encoding", _ENCODING, None, csv),
        ("vertical", _VERTICAL, None, rows),
        ("storage_option", _STORAGE, None, True),
        ("external", _EXTERNAL, None, True),
        ("json", _JSON, False, True),
    ]

    def add(function: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        shared = [
            inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for n, kind, default, wanted in common
            if wanted
        ]
        lake = inspect.Parameter("lake", inspect.Parameter.KEYWORD_ONLY, annotation=_LAKE)
        parameters = [lake, *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own), *shared]

        def call(**given: Any) -> None:
            mine = {p.name: given.pop(p.name) for p in own}
            session = _session(given)
            try:
                if here and session.is_remote:
                    raise Unsupported(
                        f"quire {name} is not done through a server: {here}.",
                        next="Give the address of the lake itself, such as ./lake or s3://bucket/lake.",
                        command=name,
                    )
                function(session, **mine)
            except BaseException as error:
                if not is_interrupt(error):
                    raise
                said = str(error) if isinstance(error, KeyboardInterrupt) else ""
                session.output.note(said or (UNSURE if writes else NOTHING))
                raise KeyboardInterrupt from error

        call.__name__, call.__doc__ = function.__name__, function.__doc__
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {p.name: p.annotation for p in parameters}
        register(name, call, cls)
        return function

    return add


def _graph(lake: quire.Lake, embedder: str | None) -> quire.Graph:
    if embedder is None:
        return quire.Graph(lake)
    from quire.graph.embed import embedder as by_name

    return quire.Graph(lake, embedder=by_name(embedder))


def storage_options(given: list[str] | None) -> dict[str, str]:
    """`--storage-option key=value`, or the words of the variable."""
    # typer hands over the words of the variable when the option is not given.
    if given and list(given) == os.environ.get("QUIRE_STORAGE_OPTIONS", "").split():
        return pairs(
            given, "QUIRE_STORAGE_OPTIONS", "key=value", next="Set it to key=value, with spaces between several."
        )
    return pairs(given, "--storage-option", "key=value")


def _address(lake: str) -> str:
    """The lake as it was given, or as the server calls it."""
    server = SERVER.get()
    if server is None:
        return lake
    if "://" in lake:
        raise InvalidInput(
            "With --server, LAKE is the name of a lake there.", next="Write its name, or leave out --server."
        )
    return f"{server.rstrip('/')}/{quote(lake, safe='')}"


def _session(given: dict[str, Any]) -> Session:
    return Session(
        uri=_address(given["lake"]),
        output=Output(as_json=given["json"], vertical=given.get("vertical")),
        storage=storage_options(given["storage_option"]),
        branch=given.get("branch", "main"),
        at=given.get("at"),
        author=given.get("author"),
        message=given.get("message"),
        token=token(given.get("token")),
        expect=expectations(given.get("expect")),
        if_head=given.get("if_head"),
        metadata=arguments.metadata(given.get("meta")),
        external="allow" if "allow" in (given["external"] or ()) else list(given["external"] or ()),
        timeout=given.get("timeout"),
        csv=CsvForm.of(
            given.get("delimiter"),
            given.get("quote"),
            given.get("null"),
            not given.get("no_header", False),
            given.get("encoding"),
        ),
    )


class Engine(StrEnum):
    """Who does the work."""

    local = "local"
    auto = "auto"
    spark = "spark"


EngineOption = Annotated[
    Engine | None,
    typer.Option(
        "--engine",
        help="Where to run: local (this process), spark (a session for this command), or auto (spark from 2 GB of "
        "input). Default: local; spark with --master.",
    ),
]
MasterOption = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="MASTER",
        help="The Spark master: local[4], spark://host:7077, sc://host. Default: local[*].",
    ),
]


@contextmanager
def running(engine: Engine | None, master: str | None, size: Callable[[], int] = lambda: 0) -> Iterator[Any]:
    """The engine as the library takes it: "local", or a session that is stopped at the end."""
    if engine is Engine.local and master is not None:
        raise InvalidInput("--master is for Spark.", next="Leave it out, or give --engine spark.")
    wanted = engine or (Engine.spark if master is not None else Engine.local)
    if wanted is Engine.auto:
        wanted = Engine.spark if size() >= AUTO_BYTES else Engine.local
    if wanted is Engine.local:
        yield "local"
        return
    spark = start("local[*]" if master is None else master)
    try:
        yield spark
    finally:
        spark.stop()
