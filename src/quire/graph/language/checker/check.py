"""The type checker: every query is checked against the schema before anything runs.

file = parse(text)
query = check(file.queries[0], catalog)         # plan.Query, or InvalidQuery with line and column
values = bind(query, {"name": "Ada"})           # what engines are given
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from quire.errors import InvalidQuery
from quire.graph.catalog import Catalog
from quire.graph.language import ast, plan
from quire.graph.language.checker.expression import Context
from quire.graph.language.checker.read import Reading
from quire.graph.language.checker.write import mutation
from quire.graph.language.parse import parse
from quire.graph.language.position import within
from quire.graph.language.printer import show_query
from quire.graph.names import nearest
from quire.graph.types import Wrong


def check(query: ast.Query, catalog: Catalog, *, file: str = "") -> plan.Query:
    """What a query means in a graph; `InvalidQuery` with the first thing that is wrong."""
    found, errors = checked(query, catalog, file=file)
    if found is None:
        raise errors[0]
    return found


def checked(query: ast.Query, catalog: Catalog, *, file: str = "") -> tuple[plan.Query | None, list[InvalidQuery]]:
    """The plan of a query, or everything that is wrong with it."""
    if query.at == ast.NOWHERE:
        # A tree that was made by hand has no positions, which tell its parts from each other.
        [query] = parse(show_query(query), file=file).queries
    context = Context(catalog, {p.name: p.type for p in query.parameters})
    try:
        body = _body(context, query.body)
    except InvalidQuery as error:
        errors = context.errors or [error]
        return None, [within(e, file=file, query=query.name) for e in errors]
    for parameter in query.parameters:
        if parameter.name not in context.used:
            context.warn("unused-parameter", f"The parameter ${parameter.name} is never used.", parameter.at)
    found = plan.Query(query.name, context.parameters, body, query.description, query.instruction)
    warnings = sorted(context.warnings, key=lambda w: (w.line, w.column))
    return dataclasses.replace(found, warnings=tuple(warnings)), []


def _body(context: Context, body: ast.Read | ast.Mutation) -> plan.Read | plan.Mutation:
    return Reading(context, body).check() if isinstance(body, ast.Read) else mutation(context, body)


def bind(query: plan.Query, values: Mapping[str, Any]) -> dict[str, Any]:
    """The value of every parameter, converted to its type. An optional one that is not given is None."""
    for name in values:
        if name not in query.parameters:
            declared = ", ".join(query.parameters)
            raise InvalidQuery(
                f"The query {query.name} has no parameter {name!r}.",
                next=nearest(name, query.parameters) or (f"It has {declared}." if declared else "It takes none."),
                query=query.name,
                parameter=name,
            )
    found: dict[str, Any] = {}
    for name, kind in query.parameters.items():
        given = values.get(name)
        if given is None and not kind.optional:
            said = "is null" if name in values else "is missing"
            raise InvalidQuery(
                f"The parameter {name} of the query {query.name} {said}.",
                next=f'Give a value of type {kind}: -p {name}=… in a shell, params={{"{name}": …}} in a program.',
                query=query.name,
                parameter=name,
            )
        try:
            found[name] = kind.value(given)
        except Wrong as error:
            raise InvalidQuery(
                f"The parameter {name} of the query {query.name} {error}.",
                next=f"Give a value of type {kind}.",
                query=query.name,
                parameter=name,
            ) from None
    for role in ("limit", "offset"):
        _check_count(query, found, role)
    return found


def _check_count(query: plan.Query, values: Mapping[str, Any], role: str) -> None:
    given = getattr(query.body, role, None)
    if isinstance(given, plan.Parameter) and values[given.name] is not None and values[given.name] < 0:
        raise InvalidQuery(
            f"The parameter {given.name} of the query {query.name} is the {role} and cannot be {values[given.name]}.",
            next="Give 0 or more.",
            query=query.name,
            parameter=given.name,
        )
