"""From tree to text: `parse(show(tree)) == tree`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

import msgspec

from quire.graph.language import ast
from quire.graph.types import canonical

_STRENGTH = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2}
_SIGN = 3


def show(file: ast.File) -> str:
    """A file as text."""
    return "\n".join(show_query(query) for query in file.queries)


def show_query(query: ast.Query) -> str:
    """One query as text."""
    parameters = ", ".join(f"${p.name}: {p.type}" for p in query.parameters)
    head = f"query {query.name}({parameters})"
    if query.description is not None:
        head += f"\n  @description({_quoted(query.description)})"
    if query.instruction is not None:
        head += f"\n  @instruction({_quoted(query.instruction)})"
    lines = _read(query.body) if isinstance(query.body, ast.Read) else map(_statement, query.body.statements)
    return "\n".join([f"{head} {{", *(f"  {line}" for line in lines), "}\n"])


def _read(body: ast.Read) -> Iterable[str]:
    yield f"match {_block(body.match)}"
    yield f"return {'distinct ' if body.distinct else ''}{{ {', '.join(map(_projection, body.projections))} }}"
    if body.having:
        yield f"having {{ {_spaced(body.having)} }}"
    if body.order:
        yield f"order {{ {', '.join(map(_ordering, body.order))} }}"
    if body.limit is not None:
        yield f"limit {show_expression(body.limit)}"
    if body.offset is not None:
        yield f"offset {show_expression(body.offset)}"


def _projection(given: ast.Projection) -> str:
    return show_expression(given.expression) + (f" as {given.alias}" if given.alias else "")


def _ordering(given: ast.Ordering) -> str:
    way = "" if given.descending is None else " desc" if given.descending else " asc"
    return show_expression(given.expression) + way


def _statement(given: ast.MutationStatement) -> str:
    match given:
        case ast.Insert():
            return f"insert {given.type} {_assignments(given.assignments)}"
        case ast.Update():
            return f"update {given.type} set {_assignments(given.assignments)} where {_joined(given.where)}"
        case ast.Delete():
            return f"delete {given.type} where {_joined(given.where)}"


def _assignments(given: Iterable[ast.Assignment]) -> str:
    return f"{{ {', '.join(f'{a.name}: {show_expression(a.value)}' for a in given)} }}"


def _joined(where: Iterable[ast.Filter]) -> str:
    return " and ".join(map(show_clause, where))


def _block(clauses: Iterable[ast.Clause]) -> str:
    return f"{{ {_spaced(clauses)} }}"


def _spaced(clauses: Iterable[ast.Clause]) -> str:
    return "  ".join(map(show_clause, clauses))


def show_clause(clause: ast.Clause) -> str:
    """One clause as text."""
    match clause:
        case ast.Bind():
            properties = f" {_assignments(clause.properties)}" if clause.properties else ""
            return f"${clause.variable.name}: {clause.type}{properties}"
        case ast.Traverse():
            return _step(clause)
        case ast.Shortest():
            return f"${clause.path.name} = shortest({_step(clause.step)})"
        case ast.Compare():
            return f"{_first(clause.left)} {clause.operator} {show_expression(clause.right)}"
        case ast.IsNull():
            return f"{_first(clause.operand)} is {'not ' if clause.negated else ''}null"
        case ast.Matches():
            return show_expression(clause.call)
        case ast.Not():
            return f"not {_block(clause.clauses)}"
        case ast.Exists():
            return f"exists {_block(clause.clauses)}"
        case ast.Optional():
            return f"optional {_block(clause.clauses)}"
        case ast.Or():
            return f"or {{ {' '.join(map(_block, clause.alternatives))} }}"


def _first(expression: ast.Expression) -> str:
    """An expression at the beginning of a clause, where a sign would be taken for a part of the clause before."""
    text = show_expression(expression)
    return f"({text})" if text.startswith("-") else text


def _step(given: ast.Traverse) -> str:
    edge = "|".join((given.edge, *given.others))
    edge = f"<{edge}>" if given.either else edge
    if given.binding is not None:
        edge = f"${given.binding.name}:{edge}"
    if given.bounds is not None:
        edge += f"{{{given.bounds.least},{'' if given.bounds.most is None else given.bounds.most}}}"
    if given.filters:
        edge += f" [{', '.join(map(show_clause, given.filters))}]"
    return f"${given.source.name} {edge} ${given.target.name}"


def show_expression(expression: ast.Expression, strength: int = 0) -> str:
    """An expression as text, in parentheses where it binds less than `strength`."""
    match expression:
        case ast.Literal():
            return _literal(expression)
        case ast.Variable():
            return f"${expression.name}"
        case ast.Access():
            return f"${expression.variable.name}.{expression.property}"
        case ast.Name():
            return expression.name
        case ast.ListOf():
            return f"[{', '.join(map(show_expression, expression.items))}]"
        case ast.Aggregate():
            argument = "*" if expression.argument is None else show_expression(expression.argument)
            return f"{expression.function}({'distinct ' if expression.distinct else ''}{argument})"
        case ast.Call():
            return f"{expression.function}({', '.join(map(show_expression, expression.arguments))})"
        case ast.CountOf():
            return f"count {_block(expression.clauses)}"
        case ast.Case():
            branches = "".join(
                f" when {_joined(b.conditions)} then {show_expression(b.value)}" for b in expression.branches
            )
            last = "" if expression.otherwise is None else f" else {show_expression(expression.otherwise)}"
            return f"case{branches}{last} end"
        case ast.Negative():
            return f"-{show_expression(expression.operand, _SIGN)}"
        case ast.Binary():
            own = _STRENGTH[expression.operator]
            left, right = show_expression(expression.left, own), show_expression(expression.right, own + 1)
            text = f"{left} {expression.operator} {right}"
            return f"({text})" if own < strength else text


def _literal(given: ast.Literal) -> str:
    value = given.value
    if isinstance(value, dt.datetime):
        return f'datetime("{canonical(value)}")'
    if isinstance(value, dt.date):
        return f'date("{value.isoformat()}")'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value)
    text = repr(value)
    if given.kind == "F64" and "e" in text and "." not in text:
        return text.replace("e", ".0e")
    return text


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()
