"""What commands have in common: the options every one of them takes, and the lake they open with them."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

import quire
from quire.cli.interrupts import NOTHING, UNSURE, is_interrupt
from quire.cli.output import Output
from quire.cli.values import expectations, pairs, snapshot_at, token

_LAKE = Annotated[str, typer.Argument(metavar="LAKE", help="The lake: a directory, or a URI such as s3://bucket/lake.")]
_BRANCH = Annotated[str, typer.Option("--branch", "-b", help="The branch to work on.")]
_AT = Annotated[
    str | None, typer.Option("--at", help="Read an earlier state: a commit (12.0), a tag, or a time (2026-11-01).")
]
_AUTHOR = Annotated[str | None, typer.Option("--author", help="Who commits; otherwise $QUIRE_AUTHOR or user@host.")]
_MESSAGE = Annotated[str | None, typer.Option("--message", "-m", help="The message of the commit.")]
_TOKEN = Annotated[
    str | None,
    typer.Option(
        "--token",
        help="Commit at most once however often this runs: a stream position (scope:sequence, rising) or an opaque "
        "token minted by quire.token().",
    ),
]
_EXPECT = Annotated[
    list[str] | None,
    typer.Option("--expect", metavar="TABLE=VERSION", help="Commit only if the table is at this version."),
]
_IF_HEAD = Annotated[
    str | None, typer.Option("--if-head", metavar="COMMIT", help="Commit only if the branch's head is this commit.")
]
_STORAGE = Annotated[
    list[str] | None,
    typer.Option(
        "--storage-option",
        metavar="KEY=VALUE",
        envvar="QUIRE_STORAGE_OPTIONS",
        help="A setting of the object store, such as aws_region=eu-central-1. Never printed. The variable holds "
        "several, with spaces between.",
    ),
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

    def read(self) -> quire.Lake:
        """The lake, read-only."""
        return quire.open(self.uri, branch=self.branch, storage_options=self.storage, read_only=True)

    def write(self, *, backfill: bool = True) -> quire.Lake:
        """The lake, for writing. As a context manager it finishes background work on exit."""
        return quire.open(
            self.uri, branch=self.branch, storage_options=self.storage, author=self.author, backfill=backfill
        )

    def snapshot(self) -> quire.Snapshot:
        """All tables at `--at`, or at the head."""
        return self._snapshot(self.read())

    def graph_at(self, embedder: str | None = None) -> tuple[quire.Graph, quire.Snapshot]:
        """The graph, read-only, and all tables at `--at`, or at the head."""
        lake = self.read()
        return _graph(lake, embedder), self._snapshot(lake)

    def _snapshot(self, lake: quire.Lake) -> quire.Snapshot:
        return lake.snapshot() if self.at is None else snapshot_at(lake, self.at)

    @property
    def options(self) -> dict[str, Any]:
        """The options of a transaction, as they were given."""
        return {"token": self.token, "expect": self.expect, "if_head": self.if_head}

    @contextmanager
    def commit(self, message: str, extra: dict[str, Any] | None = None) -> Iterator[quire.Transaction]:
        """A transaction with the options given; afterwards its receipt is printed, with `extra` in its JSON."""
        with self.write() as lake:
            tx = lake.transaction(self.message if self.message is not None else message, **self.options)
            try:
                with tx:
                    yield tx
            except BaseException as error:
                if not is_interrupt(error):
                    raise
                said = f"interrupted; committed as {tx.receipt.commit}" if tx.receipt else NOTHING
                raise KeyboardInterrupt(said) from error
        assert tx.receipt is not None
        self.output.receipt(tx.receipt, extra)

    @contextmanager
    def graph(self, embedder: str | None = None) -> Iterator[quire.Graph]:
        """The graph of the lake, for writing."""
        with self.write() as lake:
            yield _graph(lake, embedder)


def command(
    app: typer.Typer,
    name: str,
    *,
    branch: bool = True,
    at: bool = False,
    writes: bool = False,
    message: bool = False,
    commits: bool = False,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add a command. Its function takes a `Session` and its own parameters; LAKE and the common options come from here.

    `commits` adds the options of a transaction and implies `writes` and `message`.
    """
    writes, message = writes or commits, message or commits
    common: list[tuple[str, Any, Any, bool]] = [
        ("branch", _BRANCH, "main", branch),
        ("at", _AT, None, at),
        ("message", _MESSAGE, None, message),
        ("author", _AUTHOR, None, writes),
        ("token", _TOKEN, None, commits),
        ("expect", _EXPECT, None, commits),
        ("if_head", _IF_HEAD, None, commits),
        ("storage_option", _STORAGE, None, True),
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
        app.command(name)(call)
        return function

    return add


def _graph(lake: quire.Lake, embedder: str | None) -> quire.Graph:
    if embedder is None:
        return quire.Graph(lake)
    from quire.graph.embed import embedder as by_name

    return quire.Graph(lake, embedder=by_name(embedder))


def _storage(given: list[str] | None) -> dict[str, str]:
    # typer hands over the words of the variable when the option is not given.
    if given and list(given) == os.environ.get("QUIRE_STORAGE_OPTIONS", "").split():
        return pairs(
            given, "QUIRE_STORAGE_OPTIONS", "key=value", next="Set it to key=value, with spaces between several."
        )
    return pairs(given, "--storage-option", "key=value")


def _session(given: dict[str, Any]) -> Session:
    return Session(
        uri=given["lake"],
        output=Output(as_json=given["json"]),
        storage=_storage(given["storage_option"]),
        branch=given.get("branch", "main"),
        at=given.get("at"),
        author=given.get("author"),
        message=given.get("message"),
        token=token(given.get("token")),
        expect=expectations(given.get("expect")),
        if_head=given.get("if_head"),
    )
