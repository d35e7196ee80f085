"""Queries that are kept in the lake, by name."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quire.cli.commands.query import write
from quire.cli.commands.sql import Format, Target, answer
from quire.cli.graph_arguments import Embedder, Param, Params, contents, parameters, text_or_file
from quire.cli.options import EngineOption, MasterOption, Session, command, running
from quire.errors import InvalidInput
from quire.graph.query import size_of

if TYPE_CHECKING:
    from quire.graph.language.ast import Query

StoredName = Annotated[str, typer.Argument(metavar="NAME", help="The name of the stored query.")]


@command("stored add", commits=True)
def add(
    session: Session,
    queries: Annotated[
        str, typer.Argument(metavar="QUERIES", help="A file (.gq), or the text of queries; - is stdin.")
    ],
) -> None:
    """Check queries and store them, each under its name. A stored query with the same name is replaced."""
    from quire.graph.stored_queries import store

    text, file = contents(text_or_file(queries, "query"))
    told: dict[str, Any] = {}
    with session.commit("store queries", told) as tx:
        told["stored"] = store(tx, text, session.catalog(tx), file=file)
    for name in told.get("stored", ()):
        session.output.line(f"  stored {name}")


@command("stored list", at=True)
def list_stored(session: Session) -> None:
    """List the stored queries. Shows what each does, its parameters and its description."""
    graph, snap = session.graph_at()
    found = [_told(name, text) for name, text in graph.stored(snap).items()]
    if session.output.as_json:
        session.output.document({"commit": snap.commit, "queries": found})
    elif found:
        rows = [(q["name"], q["does"], _signature(q["parameters"]), q["description"]) for q in found]
        session.output.table(("query", "does", "parameters", "description"), rows)
    else:
        session.output.line("no stored queries")


@command("stored show", at=True)
def show(session: Session, name: StoredName) -> None:
    """Show the text of a stored query."""
    from quire.graph.stored_queries import missing

    graph, snap = session.graph_at()
    stored = graph.stored(snap)
    if name not in stored:
        raise missing(name, list(stored))
    if session.output.as_json:
        session.output.document({"commit": snap.commit, **_told(name, stored[name]), "text": stored[name]})
    else:
        sys.stdout.write(stored[name])


@command("stored remove", commits=True)
def remove(
    session: Session,
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="The names of the stored queries.")],
) -> None:
    """Remove stored queries. Earlier commits keep them."""
    from quire.graph.stored_queries import remove

    with session.commit(f"remove {', '.join(names)}", {"removed": names}) as tx:
        remove(tx, names)


@command("stored run", at=True, commits=True, rows=True)
def run(
    session: Session,
    name: StoredName,
    param: Param = None,
    params: Params = None,
    format: Format = None,
    output: Target = None,
    embedder: Embedder = None,
    engine: EngineOption = None,
    master: MasterOption = None,
) -> None:
    """Run a stored query or mutation. With --at it runs as it was stored then."""
    if "{" in name:
        raise InvalidInput("This is the text of a query, not a name.", next="Run it with `quire query` or `mutate`.")
    graph, snap = session.graph_at(embedder)
    checked = graph.check(name, at=snap)
    if checked.is_read:
        if session.message is not None or any(session.options.values()):
            raise InvalidInput(f"{name} is a query; it commits nothing.", next="Leave out the options of a commit.")
        bound = parameters(param, params, checked.parameters)
        with running(engine, master, lambda: size_of(checked, snap)) as chosen:
            answer(session, graph.query(name, at=snap, params=bound, engine=chosen), snap.commit, format, output)
        return
    if session.at is not None:
        raise InvalidInput(f"{name} is a mutation; it cannot run at a past commit.", next="Leave --at out.")
    if format is not None or output is not None:
        raise InvalidInput(f"{name} is a mutation; it returns no rows.", next="Leave --format and --output out.")
    if engine is not None or master is not None:
        raise InvalidInput(
            f"{name} is a mutation; mutations run in this process only.", next="Leave --engine and --master out."
        )
    write(session, name, None, param, params, embedder)


def _told(name: str, text: str) -> dict[str, Any]:
    from quire.graph.language import parse
    from quire.graph.language.ast import Read

    [query] = parse(text).queries
    does = "reads" if isinstance(query.body, Read) else "changes"
    return {"name": name, "does": does, "parameters": _parameters(query), "description": query.description}


def _parameters(query: Query) -> list[dict[str, str]]:
    return [{"name": p.name, "type": str(p.type)} for p in query.parameters]


def _signature(parameters: list[dict[str, str]]) -> str:
    return ", ".join(f"{p['name']}: {p['type']}" for p in parameters)
