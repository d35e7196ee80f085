"""Queries and mutations of the graph, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quire.cli.commands.sql import Format, MaxRows, Memory, Target, Timeout, answer, bounds
from quire.cli.graph_arguments import (
    Embedder,
    Param,
    Params,
    contents,
    one_query,
    parameters,
    text_file_or_stored,
    text_or_file,
)
from quire.cli.options import EngineOption, MasterOption, Session, command, running
from quire.errors import InvalidInput
from quire.graph.query import size_of
from quire.rowfiles.kinds import STANDARD

if TYPE_CHECKING:
    from quire.graph.language import Finding
    from quire.graph.mutate import MutationReceipt
    from quire.graph.query.explain_report import Explained

Query = Annotated[
    str,
    typer.Argument(metavar="QUERY", help="A file (.gq), the text, the name of a stored query, or - for stdin."),
]
Name = Annotated[str | None, typer.Argument(metavar="NAME", help="Which query of the text to run, if it has several.")]
Explain = Annotated[
    bool, typer.Option("--explain", help="Show the plan, pushed-down filters, indexes and SQL; do not run it.")
]
Analyze = Annotated[bool, typer.Option("--analyze", help="Explain it, run it, and show what it read and requested.")]

Exact = Annotated[bool, typer.Option("--exact", help="Look at every vector instead of asking an index.")]
Probes = Annotated[int | None, typer.Option("--nprobes", metavar="N", help="Partitions of a vector index to search.")]
Refine = Annotated[
    int | None, typer.Option("--refine", metavar="N", help="Rank so many times more rows by their whole vectors.")
]


@command("query", at=True, rows=True)
def query(
    session: Session,
    query: Query,
    name: Name = None,
    param: Param = None,
    params: Params = None,
    format: Format = None,
    output: Target = None,
    explain: Explain = False,
    analyze: Analyze = False,
    embedder: Embedder = None,
    engine: EngineOption = None,
    master: MasterOption = None,
    timeout: Timeout = None,
    memory: Memory = None,
    max_rows: MaxRows = None,
    exact: Exact = False,
    nprobes: Probes = None,
    refine: Refine = None,
) -> None:
    """Query the graph, at one commit. On a terminal the first 200 rows are shown."""
    given = text_file_or_stored(query, "query")
    one_query(given, name)
    explained = explain or analyze
    if explained and (format is not None or output is not None):
        raise InvalidInput(
            "An explanation has no rows to write.", next="Leave --format and --output out; --json works."
        )
    graph, snap = session.graph_at(embedder)
    checked = graph.check(given, name, at=snap)
    bound = parameters(param, params, checked.parameters)
    with running(engine, master, lambda: size_of(checked, snap)) as chosen:
        how: dict[str, Any] = {"at": snap, "params": bound, "engine": chosen}
        how |= {"exact": exact, "nprobes": nprobes, "refine": refine}
        if explained:
            _explain(session, graph.explain(given, name, analyze=analyze, **how), snap.commit)
        else:
            rows = graph.query(given, name, **how, **bounds(timeout, memory, max_rows))
            answer(session, rows, snap.commit, format, output)


def _explain(session: Session, explained: Explained, commit: str) -> None:
    if session.output.as_json:
        session.output.document({"commit": commit, **explained.to_dict()})
        return
    for line in str(explained).splitlines():
        session.output.line(line)


@command("mutate", commits=True)
def mutate(
    session: Session,
    query: Query,
    name: Name = None,
    param: Param = None,
    params: Params = None,
    embedder: Embedder = None,
) -> None:
    """Run the statements of a mutation, in one commit."""
    write(session, text_file_or_stored(query, "mutation"), name, param, params, embedder)


def write(
    session: Session,
    given: str | Path,
    name: str | None,
    param: Sequence[str] | None,
    params: str | None,
    embedder: str | None,
) -> None:
    """Run a mutation and print what it did."""
    one_query(given, name)
    with session.graph(embedder) as graph:
        checked = graph.check(given, name)
        bound = parameters(param, params, checked.parameters)
        message = session.message if session.message is not None else f"mutate {checked.name}"
        done = graph.mutate(given, name, params=bound, message=message, options=session.options)
    _print(session, done)


def _print(session: Session, done: MutationReceipt) -> None:
    output, receipt = session.output, done.receipt
    if output.as_json:
        output.document({**(receipt.to_dict() if receipt else {"repeated": True}), **done.to_dict()})
        return
    if receipt is None:
        output.line("already committed; nothing was written now")
        return
    output.committed(receipt)
    counts = (done.inserted, done.updated, done.deleted)
    if types := sorted({name for count in counts for name in count}):
        rows = [(name, *(count.get(name, 0) for count in counts)) for name in types]
        output.table(("type", "inserted", "updated", "deleted"), rows)
    for name, count in getattr(done, "unembedded", {}).items():
        if count:
            output.note(f"{name}: {count} row(s) have no vector; --embedder makes them")


@command("lint", at=True)
def lint(
    session: Session,
    queries: Annotated[
        list[str] | None,
        typer.Argument(metavar="QUERY", help="Files (.gq) or text; - is stdin. Default: the stored queries."),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option("--schema", metavar="FILE", help="Check against this schema instead of a lake; leave out LAKE."),
    ] = None,
) -> None:
    """Check queries without running them. Reports errors and warnings; exits 1 if there is an error."""
    given = queries or []
    findings = _against_file(schema, [session.uri, *given]) if schema is not None else _against_lake(session, given)
    errors = sum(f.severity == "error" for f in findings)
    if session.output.as_json:
        told = {"errors": errors, "warnings": len(findings) - errors, "findings": [f.to_dict() for f in findings]}
        session.output.document(told)
    else:
        for f in findings:
            session.output.line(f"{f.file or '<text>'}:{f.line}:{f.column}: {f.severity}: {f.message} [{f.code}]")
        session.output.line(f"{errors} error(s), {len(findings) - errors} warning(s)")
    if errors:
        raise typer.Exit(1)


def _against_file(schema: str, given: Sequence[str]) -> list[Finding]:
    from quire.graph.language import lint
    from quire.graph.schema.resolve import catalog

    text, file = contents(text_or_file(schema, "schema"))
    known = catalog(text, file=file)
    return [finding for text, file in _texts(given) for finding in lint(text, known, file=file)]


def _against_lake(session: Session, given: Sequence[str]) -> list[Finding]:
    from quire.graph.language import lint

    graph, snap = session.graph_at()
    known = graph.catalog(snap)
    if not given:
        return [
            replace(finding, file=f"stored:{name}")
            for name, text in graph.stored(snap).items()
            for finding in lint(text, known)
        ]
    return [finding for text, file in _texts(given) for finding in lint(text, known, file=file)]


def _texts(given: Sequence[str]) -> list[tuple[str, str]]:
    found: list[tuple[str, Any]] = [(one, contents(text_or_file(one, "query"))) for one in given]
    return [(text, "<stdin>" if one == STANDARD else file) for one, (text, file) in found]
