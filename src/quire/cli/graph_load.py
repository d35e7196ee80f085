"""Rows of many types into the graph, or of a pipeline into tables and types, in one commit."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quire.cli.engine import Engine, EngineOption, MasterOption, running
from quire.cli.graph_given import Embedder
from quire.cli.kinds import STANDARD
from quire.cli.output import Output, Progress
from quire.cli.program import app
from quire.cli.session import Session, command
from quire.errors import IntegrityError, InvalidInput

if TYPE_CHECKING:
    from quire.graph.load import LoadReceipt


class Mode(StrEnum):
    """What becomes of rows that are there already."""

    append = "append"
    merge = "merge"
    overwrite = "overwrite"


class Format(StrEnum):
    """What files and streams of rows hold."""

    ndjson = "ndjson"
    jsonl = "jsonl"
    csv = "csv"
    parquet = "parquet"
    arrow = "arrow"


@command(app, "load", commits=True)
def load(
    session: Session,
    source: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE",
            help="NDJSON, CSV, Parquet or Arrow files, or patterns ('data/*.csv'); - is stdin. One .yaml file is a "
            "pipeline, which says what feeds which table or type.",
        ),
    ],
    mode: Annotated[
        Mode | None,
        typer.Option(
            "--mode",
            help="append (if nothing is said): every id must be new. merge: update the rows with the same id, insert "
            "the others. overwrite: replace all rows of the types that the source holds.",
        ),
    ] = None,
    type: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="The node type of all rows, if they do not say it.")
    ] = None,
    edge: Annotated[
        str | None, typer.Option("--edge", metavar="TYPE", help="The edge type of all rows, if they do not say it.")
    ] = None,
    format: Annotated[
        Format | None, typer.Option("--format", help="The format of the files, if their names do not say it.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, commit nothing.")] = False,
    max_errors: Annotated[
        int | None,
        typer.Option(
            "--max-errors", metavar="N", min=1, help="Collect so many errors before giving up; 20 if not said."
        ),
    ] = None,
    rejects: Annotated[
        str | None,
        typer.Option(
            "--rejects",
            metavar="FILE",
            help="Write the rows that break a rule to this file, as NDJSON; of a pipeline and on Spark, to files in "
            "this folder.",
        ),
    ] = None,
    skip_rejects: Annotated[
        bool,
        typer.Option(
            "--skip-rejects", help="Load the others without them; together with --max-errors, without N at most."
        ),
    ] = False,
    base: Annotated[
        str | None,
        typer.Option(
            "--base", metavar="FOLDER", help="Of a pipeline: the folder or address that names of files start from."
        ),
    ] = None,
    embedder: Embedder = None,
    engine: EngineOption = None,
    master: MasterOption = None,
) -> None:
    """Load rows of any number of types in one commit. Rows that break a rule refuse the whole load."""
    how: dict[str, Any] = {"max_errors": max_errors} if max_errors is not None and not skip_rejects else {}
    if skip_rejects:
        how["skip_rejects"] = max_errors or True
    if len(source) == 1 and source[0].endswith((".yaml", ".yml")):
        _check_pipeline(type, edge, format)
        how |= {"mode": None if mode is None else mode.value, "rejects": rejects, "dry_run": dry_run, "base": base}
        with _advised(mode):
            _pipeline(session, source[0], engine, master, embedder, how)
        return
    if base is not None:
        raise InvalidInput("--base is for a pipeline.", next="Write the folder before the names of files.")
    given = _sources(source, format)
    with (
        _advised(mode),
        session.graph(embedder) as graph,
        running(engine, master, lambda: _size(given)) as runner,
        session.output.progress("loading") as progress,
    ):
        done = graph.load(
            given,
            (mode or Mode.append).value,
            engine=runner,
            type=type,
            edge=edge,
            format=_format(source, format),
            dry_run=dry_run,
            rejects=rejects,
            progress=_Counting(progress),
            message=session.message,
            options=session.options,
            **how,
        )
    _print(session, done, rejects)


@contextmanager
def _advised(mode: Mode | None) -> Iterator[None]:
    """Tell who appends rows that exist how to update them."""
    try:
        yield
    except IntegrityError as error:
        there = (v["rule"] == "key" and "already" in v["message"] for v in error.fields.get("violations", ()))
        if mode in (None, Mode.append) and any(there):
            error.next = f"{error.next} --mode merge updates rows that are there."
        raise


def _pipeline(
    session: Session, path: str, engine: Engine | None, master: str | None, embedder: str | None, how: dict[str, Any]
) -> None:
    """Run a pipeline, with one bar over all of it, and a table of what was done."""
    from quire import pipeline

    with (
        session.graph(embedder) as graph,
        running(engine, master, lambda: pipeline.size_of(graph.lake, path, how["base"])) as runner,
        session.output.progress("loading", unit="parts") as progress,
    ):
        done = pipeline.run(
            graph.lake,
            path,
            engine=runner,
            message=session.message,
            options=session.options,
            embedder=graph.embedder,
            progress=progress.step,
            **how,
        )
    output = session.output
    if output.as_json:
        output.document({**(done.receipt.to_dict() if done.receipt else {}), **done.to_dict()})
        return
    _print_outcome(output, done)
    rows = [(name, t.inserted, t.updated, t.removed, t.rejected, t.files) for name, t in done.tables.items()]
    output.table(("table", "inserted", "updated", "removed", "rejected", "files"), rows)
    _print_rejects(output, done, how["rejects"])


def _check_pipeline(type: str | None, edge: str | None, format: Format | None) -> None:
    for name, value in (("--type", type), ("--edge", edge), ("--format", format)):
        if value is not None:
            raise InvalidInput(f"{name} is not for a pipeline.", next="Say it in the file, for each source.")


def _size(given: list[Any]) -> int:
    from quire.graph.load import size_of

    return size_of([one for one in given if isinstance(one, str)])


class _Counting:
    """Adds up the rows of all files: each file is counted from its own beginning."""

    def __init__(self, shown: Progress) -> None:
        self._shown = shown
        self._name = ""
        self._before = self._rows = 0

    def __call__(self, name: str, rows: int) -> None:
        if name.startswith("embedding "):  # of rows that were read
            self._shown.step(name, rows)
            return
        if name != self._name or rows < self._rows:
            self._before += self._rows
            self._name = name
        self._rows = rows
        self._shown.step(f"loading {name}", self._before + rows)


def _sources(given: list[str], format: Format | None) -> list[Any]:
    if given.count(STANDARD) > 1:
        raise InvalidInput("There is only one stdin.", next="Write - once.")
    if STANDARD in given and len(given) > 1 and format is None:
        raise InvalidInput(
            "A stream has no name, so its format is unknown.", next=f"Say --format: {', '.join(Format)}."
        )
    if STANDARD in given and format is Format.parquet:
        raise InvalidInput("Parquet cannot be read from stdin.", next="Name a file, or pipe CSV, NDJSON or Arrow.")
    return [sys.stdin.buffer if one == STANDARD else one for one in given]


def _format(given: list[str], format: Format | None) -> str | None:
    """As loads call it. What comes on stdin is NDJSON, unless it is said otherwise."""
    if format is None:
        return "ndjson" if given == [STANDARD] else None
    return "ndjson" if format is Format.jsonl else format.value


def _print(session: Session, done: LoadReceipt, rejects: str | None) -> None:
    output = session.output
    if output.as_json:
        output.document({**(done.receipt.to_dict() if done.receipt else {}), **done.to_dict()})
        return
    _print_outcome(output, done)
    if done.types:
        rows = [(name, t.inserted, t.updated, t.removed, t.rejected) for name, t in done.types.items()]
        output.table(("type", "inserted", "updated", "removed", "rejected"), rows)
    for name, one in done.types.items():
        if one.unembedded:
            output.note(f"{name}: {one.unembedded} row(s) have no vector; --embedder makes them")
    _print_rejects(output, done, rejects)


def _print_outcome(output: Output, done: Any) -> None:
    if done.dry_run:
        output.line("dry run: nothing was committed")
    elif done.receipt is not None:
        output.committed(done.receipt)


def _print_rejects(output: Output, done: Any, rejects: str | None) -> None:
    if done.rejected:
        output.line(f"{done.rejected} row(s) rejected{f', written to {rejects}' if rejects else ''}")
        for violation in done.violations:
            output.note(f"  {violation} ({violation.rule})")
