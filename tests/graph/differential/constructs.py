"""Which constructs of the language a read or a mutation uses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.graph.differential.evaluate import parts_of
from tests.graph.differential.functions import NAMES

from quire.graph.language import ast

READS = (
    *("bind", "bind with properties", "anonymous variable", "parameter", "list", "whole entity", "alias"),
    *(
        "traversal",
        "either way",
        "bounded",
        "unbounded",
        "bound edge",
        "several edge types",
        "edge filters",
        "edge filters on a walk",
    ),
    *("=", "!=", "<", "<=", ">", ">=", "contains", "starts_with", "in", "is null", "is not null"),
    *("not", "exists", "or", "optional", "count { }", "collect", "shortest", "length of a path", "nodes of a path"),
    *("search", "match_text", "fuzzy", "fuzzy with edits", "bm25", "nearest", "rrf", "rrf with k", "now"),
    *("+", "-", "*", "/", "%", "minus sign", "String", "I64", "F64", "Bool", "Date", "DateTime"),
    *("count", "count(*)", "sum", "avg", "min", "max", "distinct aggregate"),
    *(*NAMES, "case", "else"),
    *("distinct", "having", "order", "asc", "desc", "order by an aggregate", "limit", "offset"),
)
"""Every construct of a read; each is drawn many times."""

WRITES = (
    *("insert a node", "insert an edge", "insert with an id", "update", "delete a node", "delete an edge"),
    *("several statements", "several predicates", "parameter", "arithmetic", "list", "now"),
    *("=", "!=", "<", "<=", ">", ">=", "contains", "starts_with", "in", "is null", "is not null"),
)


def of_read(query: ast.Query) -> Counter[str]:
    """Each as often as it is there."""
    read = query.body
    assert isinstance(read, ast.Read)
    names = {p.name for p in query.parameters}
    found = Counter(_of_parts(read, names))
    switches = {"distinct": read.distinct, "having": read.having, "order": read.order}
    found.update(name for name, is_on in switches.items() if is_on)
    found.update(name for name, count in (("limit", read.limit), ("offset", read.offset)) if count is not None)
    aliases = {p.alias: p.expression for p in read.projections}
    for ordering in read.order:
        found.update([] if ordering.descending is None else ["desc" if ordering.descending else "asc"])
        given = ordering.expression
        resolved = aliases.get(given.name, given) if isinstance(given, ast.Name) else given
        if any(isinstance(p, ast.Aggregate) for p in parts_of(resolved)):
            found["order by an aggregate"] += 1
    for projection in read.projections:
        if isinstance(projection.expression, ast.Variable) and projection.expression.name not in names:
            found["whole entity"] += 1
    paths = {p.path.name for p in parts_of(read) if isinstance(p, ast.Shortest)}
    for part in parts_of((read.projections, read.having, read.order)):
        if isinstance(part, ast.Name):
            found["alias"] += 1
        elif isinstance(part, ast.Access) and part.variable.name in paths:
            found[f"{part.property} of a path"] += 1
    return found


def of_mutation(query: ast.Query, edges: set[str]) -> Counter[str]:
    body = query.body
    assert isinstance(body, ast.Mutation)
    found = Counter(_of_parts(body, {p.name for p in query.parameters}))
    found["several statements"] += len(body.statements) > 1
    for statement in body.statements:
        what = "an edge" if statement.type in edges else "a node"
        if isinstance(statement, ast.Insert):
            found[f"insert {what}"] += 1
            found["insert with an id"] += any(a.name == "id" for a in statement.assignments)
            continue
        found["update" if isinstance(statement, ast.Update) else f"delete {what}"] += 1
        found["several predicates"] += len(statement.where) > 1
    return found


def _of_parts(body: object, parameters: set[str]) -> Iterator[str]:
    for part in parts_of(body):
        match part:
            case ast.Bind():
                yield "bind with properties" if part.properties else "bind"
                yield from ["match by interface"] * (part.type == "Named")
            case ast.Traverse():
                yield from _of_step(part)
            case ast.CountOf():
                yield "count { }"
            case ast.Not() | ast.Exists() | ast.Or() | ast.Optional() | ast.Shortest():
                yield type(part).__name__.lower()
            case ast.Compare():
                yield part.operator
            case ast.IsNull():
                yield "is not null" if part.negated else "is null"
            case ast.Variable():
                yield from ["parameter"] * (part.name in parameters) + ["anonymous variable"] * (part.name == "_")
            case ast.ListOf():
                yield "list"
            case ast.Literal():
                yield part.kind
            case ast.Binary():
                yield from (part.operator, "arithmetic")
            case ast.Negative():
                yield "minus sign"
            case ast.Aggregate():
                yield "count(*)" if part.argument is None else part.function
                yield from ["distinct aggregate"] * part.distinct
            case ast.Case():
                yield from ["case", *(["else"] if part.otherwise is not None else [])]
            case ast.Call():
                yield part.function
                more = {"fuzzy": "fuzzy with edits", "rrf": "rrf with k"}.get(part.function)
                yield from [more] if more and len(part.arguments) == 3 else []
            case _:
                pass


def _of_step(step: ast.Traverse) -> Iterator[str]:
    yield from ["either way"] * step.either + ["several edge types"] * bool(step.others)
    if step.binding is not None:
        yield "bound edge"
    elif step.bounds is None:
        yield "traversal"
    else:
        yield "unbounded" if step.bounds.most is None else "bounded"
    if step.filters:
        yield "edge filters on a walk" if step.bounds else "edge filters"
