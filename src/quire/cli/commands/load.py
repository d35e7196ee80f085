"""Rows of many types into the graph, or of a pipeline into tables and types, in one commit."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quire.cli.graph_arguments import Embedder
from quire.cli.options import Engine, EngineOption, MasterOption, Session, command, running
from quire.cli.output import Output
from quire.errors import IntegrityError, InvalidInput, Unsupported
from quire.rowfiles.csv import PLAIN, CsvForm
from quire.rowfiles.kinds import STANDARD

if TYPE_CHECKING:
    from quire.graph.load import LoadReceipt


class Mode(StrEnum):
    """What becomes of rows that are there already."""

    append = "append"
    merge = "merge"
    overwrite = "overwrite"


class Format(StrEnum):
    """What files and streams of rows hold; `ndjson` is another word for `jsonl`."""

    csv = "csv"
    jsonl = "jsonl"
    ndjson = "ndjson"
    parquet = "parquet"
    arrow = "arrow"


@command("load", commits=True, csv=True)
def load(
    session: Session,
    source: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE",
            help="JSON lines, CSV, Parquet or Arrow files, or patterns ('data/*.csv'); - is stdin. Or one .yaml file: "
            "a pipeline.",
        ),
    ],
    mode: Annotated[
        Mode | None,
        typer.Option(
            "--mode",
            help="append (default): every id must be new. merge: update rows with the same id, insert the others. "
            "overwrite: replace all rows of the types in the source.",
        ),
    ] = None,
    type: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="The node type of rows that do not name their type.")
    ] = None,
    edge: Annotated[
        str | None, typer.Option("--edge", metavar="TYPE", help="The edge type of rows that do not name their type.")
    ] = None,
    format: Annotated[
        Format | None, typer.Option("--format", help="The format of the files. Default: by their names.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything and commit nothing.")] = False,
    max_errors: Annotated[
        int | None,
        typer.Option("--max-errors", metavar="N", min=1, help="Stop after N errors. Default: 20."),
    ] = None,
    rejects: Annotated[
        str | None,
        typer.Option(
            "--rejects",
            metavar="PATH",
            help="Write rows that break a rule as JSON lines to this file or, if it has no suffix, to files in this"
            " folder; in a pipeline always a folder.",
        ),
    ] = None,
    skip_rejects: Annotated[
        bool,
        typer.Option("--skip-rejects", help="Leave out rows that break a rule; with --max-errors at most N of them."),
    ] = False,
    base: Annotated[
        str | None,
        typer.Option(
            "--base", metavar="FOLDER", help="In a pipeline: the folder or address that file names are relative to."
        ),
    ] = None,
    embedder: Embedder = None,
    engine: EngineOption = None,
    master: MasterOption = None,
) -> None:
    """Load rows into the graph, in one commit. Nothing is loaded if a row breaks a rule, unless you --skip-rejects."""
    how: dict[str, Any] = {"max_errors": max_errors} if max_errors is not None and not skip_rejects else {}
    if skip_rejects:
        how["skip_rejects"] = max_errors or True
    if len(source) == 1 and source[0].endswith((".yaml", ".yml")):
        if session.is_remote:
            raise Unsupported(
                "A pipeline is not run through a server: it reads sources that the server cannot see.",
                next="Load the files one after the other, or give the address of the lake itself.",
            )
        _check_pipeline(type, edge, format, session.csv)
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
            csv=asdict(session.csv),
            dry_run=dry_run,
            rejects=rejects,
            progress=progress,
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
            progress=progress,
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


def _check_pipeline(type: str | None, edge: str | None, format: Format | None, csv: CsvForm) -> None:
    given = (
        ("--type", type),
        ("--edge", edge),
        ("--format", format),
        ("The form of CSV", None if csv == PLAIN else csv),
    )
    for name, value in given:
        if value is not None:
            raise InvalidInput(f"{name} is not for a pipeline.", next="Set it in the file, for each source.")


def _size(given: list[Any]) -> int:
    from quire.graph.load import size_of

    return size_of([one for one in given if isinstance(one, str)])


def _sources(given: list[str], format: Format | None) -> list[Any]:
    if given.count(STANDARD) > 1:
        raise InvalidInput("There is only one stdin.", next="Write - once.")
    if STANDARD in given and len(given) > 1 and format is None:
        raise InvalidInput(
            "A stream has no name, so its format is unknown.", next=f"Give --format: {', '.join(Format)}."
        )
    if STANDARD in given and format is Format.parquet:
        raise InvalidInput("Parquet cannot be read from stdin.", next="Name a file, or pipe CSV, NDJSON or Arrow.")
    return [sys.stdin.buffer if one == STANDARD else one for one in given]


def _format(given: list[str], format: Format | None) -> Any:
    """What comes on stdin is lines of JSON, unless it is said otherwise."""
    if format is None:
        return "jsonl" if given == [STANDARD] else None
    return format.value


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
        if done.violation_count > len(done.violations) > 0:
            output.note(f"  … the first {len(done.violations)} of {done.violation_count} violations")
