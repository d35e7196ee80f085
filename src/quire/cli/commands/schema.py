"""The schema of the graph: show, plan, apply."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quire.cli.graph_arguments import contents, text_or_file
from quire.cli.options import Session, command
from quire.errors import InvalidInput, InvalidSchema, SchemaRefused
from quire.rowfiles.kinds import STANDARD, explained
from quire.rowfiles.write import whole

if TYPE_CHECKING:
    from quire.graph.catalog import Catalog, Entity
    from quire.graph.schema.plan import Plan
    from quire.graph.schema.steps import Step

Schema = Annotated[str, typer.Argument(metavar="SCHEMA", help="A file (.pg), or the text of the schema; - is stdin.")]
BreakQueries = Annotated[
    bool, typer.Option("--break-queries", help="Allow changes after which stored queries no longer run.")
]
DropData = Annotated[bool, typer.Option("--drop-data", help="Allow types and properties that hold data to be dropped.")]


@command("schema show", at=True)
def show(
    session: Session,
    svg: Annotated[
        str | None, typer.Option("--svg", metavar="FILE", help="Draw the schema to this SVG file; - is stdout.")
    ] = None,
) -> None:
    """Show the schema as text, or draw it as SVG."""
    graph, snap = session.graph_at()
    output = session.output
    if svg is None:
        if output.as_json:
            output.document({"commit": snap.commit, "schema": graph.schema(snap), "types": _types(graph.catalog(snap))})
        else:
            sys.stdout.write(graph.schema(snap) or "// no types\n")
        return
    picture = graph.picture(snap)
    if svg == STANDARD:
        if output.as_json:
            raise InvalidInput("A picture and a JSON answer cannot share stdout.", next="Name a file.")
        sys.stdout.write(picture)
        return
    with explained(svg), whole(Path(svg)) as file:
        file.write(picture.encode())
    if output.as_json:
        output.document({"commit": snap.commit, "file": svg})
    else:
        output.line(f"wrote {svg}")


@command("schema plan")
def plan(session: Session, schema: Schema, drop_data: DropData = False, break_queries: BreakQueries = False) -> None:
    """Show what applying a schema would change. Lists what prevents it; exits 6 if it would be refused."""
    _plan(session, _given(schema, drop_data), drop_data, break_queries)


@command("schema apply", commits=True)
def apply(
    session: Session,
    schema: Schema,
    drop_data: DropData = False,
    break_queries: BreakQueries = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and change nothing.")] = False,
) -> None:
    """Change the graph to this schema, in one commit."""
    given = _given(schema, drop_data)
    if dry_run:
        _plan(session, given, drop_data, break_queries)
        return
    with session.graph() as graph:
        applied = graph.apply_schema(
            given, drop_data=drop_data, break_queries=break_queries, message=session.message, **session.options
        )
    output, receipt = session.output, applied.receipt
    assert receipt is not None
    if output.as_json:
        output.document({**receipt.to_dict(), **applied.to_dict()})
    elif not applied and not receipt.repeated:
        output.line("the graph has this schema already; nothing to commit")
    else:
        output.committed(receipt)
        _print_steps(session, applied.steps)


def _given(schema: str, drop_data: bool) -> str | Path:
    """The schema. One without any type takes all types away, so it must come with the word that allows that."""
    from quire.graph.schema.parse import parse

    given = text_or_file(schema, "schema")
    text, file = contents(given)
    declared = parse(text, file=file)
    if not (declared.nodes or declared.edges) and not drop_data:
        raise InvalidSchema(
            f"{f'{file}: the' if file else 'The'} text defines no type.",
            next="Check what was given; --drop-data takes all types out of the graph.",
            file=file,
        )
    return given


def _plan(session: Session, given: str | Path, drop_data: bool, break_queries: bool) -> None:
    import quire

    with session.read() as lake:
        found = quire.Graph(lake).plan_schema(given, drop_data=drop_data, break_queries=break_queries)
    if session.output.as_json:
        session.output.document(found.to_dict())
    else:
        _print_plan(session, found)
    if found.refusals:
        raise typer.Exit(SchemaRefused.exit_code)


def _print_plan(session: Session, found: Plan) -> None:
    output = session.output
    if not found:
        output.line("the graph has this schema already")
    _print_steps(session, found.steps)
    if found.refusals:
        output.line("")
        output.line("this would be refused:")
        rows = [(r.code, r.type, r.property, r.rows or "", r.sentence) for r in found.refusals]
        output.table(("reason", "type", "property", "rows", "what prevents it"), rows)
        for advice in dict.fromkeys(r.next for r in found.refusals):
            output.line(f"next: {advice}")


def _print_steps(session: Session, steps: Sequence[Step]) -> None:
    if steps:
        rows = [(s.action, s.type, s.property, s.sentence) for s in steps]
        session.output.table(("step", "type", "property", "what it does"), rows)


def _types(catalog: Catalog) -> list[dict[str, Any]]:
    return [_type(entity, catalog) for entity in catalog.entities]


def _type(entity: Entity, catalog: Catalog) -> dict[str, Any]:
    """A type as `--json` tells it."""
    told: dict[str, Any] = {"name": entity.name, "kind": entity.kind, "table": entity.table}
    if entity.kind == "edge":
        told |= {"from": catalog.source(entity).name, "to": catalog.target(entity).name}
    else:
        told |= {"key": list(entity.defined.key), "implements": list(entity.defined.implements)}
    told["properties"] = [
        {"name": p.name, "type": p.type.bare, "required": not p.type.optional} for p in entity.defined.properties
    ]
    return told
