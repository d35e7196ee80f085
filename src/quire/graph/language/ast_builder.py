"""From the words of the grammar to the tree. The parser calls one method per rule, as soon as the rule is read."""

from __future__ import annotations

import datetime as dt
import math
import re
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from quire.graph.language import ast
from quire.graph.language.ast import At
from quire.graph.language.functions import FUNCTIONS as PLAIN
from quire.graph.language.position import wrong
from quire.graph.names import nearest
from quire.graph.types import LARGEST_VECTOR, SCALARS, Type, Wrong

LARGEST = 2**64 - 1


def place(token: Any) -> At:
    """Where a token begins."""
    return At(token.line, token.column)


def whole(token: Any) -> int:
    """The number that digits stand for."""
    digits = token.lstrip("0") or "0"
    if len(digits) > 20 or int(digits) > LARGEST:
        raise wrong(place(token), "the number is too large.", f"The largest is {LARGEST}.")
    return int(digits)


def scalar(token: Any) -> str:
    """The name of a base type."""
    if token not in SCALARS:
        advice = nearest(token, (*SCALARS, "Vector")) or f"There are {', '.join(SCALARS)} and Vector(n)."
        raise wrong(place(token), f"there is no type {token}.", advice)
    return str(token)


def unquoted(token: Any) -> str:
    """The text that a string in quotes stands for. Line ends and tabs may stand in it as they are."""
    # An escape is kept as it is, so that a backslash before a line end stays an escape that is none.
    plain = re.sub(r"\\[\s\S]|[\x00-\x1f]", lambda c: c[0] if c[0][0] == "\\" else f"\\u{ord(c[0]):04x}", token)
    try:
        return msgspec.json.decode(plain, type=str)
    except (msgspec.DecodeError, UnicodeError):
        raise wrong(
            place(token),
            "invalid escape in the text.",
            'There are \\" \\\\ \\/ \\b \\f \\n \\r \\t and \\u with four hexadecimal digits.',
        ) from None


AGGREGATES = ("count", "sum", "avg", "min", "max", "collect")
SEARCHES = ("search", "fuzzy", "match_text")
CALLS: dict[str, tuple[int, int | None]] = {
    "now": (0, 0),
    "nearest": (2, 2),
    "bm25": (2, 2),
    "search": (2, 2),
    "match_text": (2, 2),
    "fuzzy": (2, 3),
    "rrf": (2, 3),
    **{name: (len(one.takes) - one.spare, None if one.open else len(one.takes)) for name, one in PLAIN.items()},
}
"""Functions, and how many arguments they take."""
FUNCTIONS = (*AGGREGATES, *CALLS, "date", "datetime", "shortest")
ANNOTATIONS = ("@description", "@instruction")
SMALLEST = -(2**63)

Parts = list[Any]


@dataclass(frozen=True)
class Path:
    """`shortest(…)` before it has found the `$p =` that it belongs to."""

    step: ast.Traverse
    at: At


@dataclass(frozen=True)
class _Arguments:
    values: tuple[ast.Expression, ...] = ()
    star: bool = False
    distinct: bool = False


class Build:
    """One method per rule. `parts` are what its parts have become; words of the grammar without a name are left out."""

    # -- queries --------------------------------------------------------------------------------------------------

    def start(self, parts: Parts) -> tuple[ast.Query, ...]:
        return tuple(parts)

    def query(self, parts: Parts) -> ast.Query:
        word, name, parameters, notes, body = parts
        parameters = parameters or ()
        seen: set[str] = set()
        for parameter in parameters:
            if parameter.name in seen:
                raise wrong(parameter.at, f"the parameter ${parameter.name} is declared twice.", "Rename one of them.")
            seen.add(parameter.name)
        return ast.Query(str(name), parameters, body, notes.get("@description"), notes.get("@instruction"), place(word))

    def parameters(self, parts: Parts) -> tuple[ast.Parameter, ...]:
        return tuple(p for p in parts if p is not None)

    def parameter(self, parts: Parts) -> ast.Parameter:
        variable, kind = parts
        if variable == "$_":
            raise wrong(place(variable), "a parameter needs a name; $_ has none.", "Name it, as in $name: String.")
        return ast.Parameter(str(variable[1:]), kind, place(variable))

    def annotations(self, parts: Parts) -> dict[str, str]:
        found: dict[str, str] = {}
        for word, text in parts:
            if word in found:
                raise wrong(place(word), f"{word} is written twice.", "Keep one of them.")
            found[str(word)] = text
        return found

    def annotation(self, parts: Parts) -> tuple[Any, str]:
        word, text = parts
        if word not in ANNOTATIONS:
            advice = nearest(word, ANNOTATIONS) or f"A query has {' and '.join(ANNOTATIONS)}."
            raise wrong(place(word), f"there is no query annotation {word}.", advice)
        return word, unquoted(text)

    def type(self, parts: Parts) -> Type:
        base, *mark = parts
        kind = base if isinstance(base, Type) else Type(scalar(base))
        return msgspec.structs.replace(kind, optional=bool(mark))

    def vector(self, parts: Parts) -> Type:
        word, size = parts
        if word != "Vector":
            raise wrong(place(word), f"{word} takes no size.", "Only Vector does, as in Vector(128).")
        if not 1 <= whole(size) <= LARGEST_VECTOR:
            raise wrong(place(size), f"a vector has 1 to {LARGEST_VECTOR} dimensions, not {size}.")
        return Type("Vector", size=int(size))

    def list_type(self, parts: Parts) -> Type:
        if parts[0] == "Blob":
            raise wrong(place(parts[0]), "there are no lists of Blob.", "Use a list of String, or a single Blob.")
        return Type(scalar(parts[0]), many=True)

    def enum(self, parts: Parts) -> Type:
        values = tuple(str(v) for v in parts)
        seen: set[str] = set()
        for value, part in zip(values, parts, strict=True):
            if value in seen:
                raise wrong(place(part), f"the value {value} is written twice.", "Keep one of them.")
            seen.add(value)
        return Type("enum", values=values)

    # -- reading --------------------------------------------------------------------------------------------------

    def read(self, parts: Parts) -> ast.Read:
        word, match, _return, distinct, *rest = parts
        projections, (having, order, limit, offset) = rest[:-4], rest[-4:]
        return ast.Read(
            match, tuple(projections), bool(distinct), having or (), order or (), limit, offset, place(word)
        )

    def projection(self, parts: Parts) -> ast.Projection:
        expression, alias = parts
        return ast.Projection(expression, str(alias) if alias else None, expression.at)

    def having(self, parts: Parts) -> tuple[ast.Filter, ...]:
        return _filters(parts)

    def order(self, parts: Parts) -> tuple[ast.Ordering, ...]:
        return tuple(p for p in parts if p is not None)

    def ordering(self, parts: Parts) -> ast.Ordering:
        expression, way = parts
        return ast.Ordering(expression, None if way is None else way == "desc", expression.at)

    def limit(self, parts: Parts) -> ast.Literal | ast.Variable:
        return cast("ast.Literal | ast.Variable", parts[0])

    offset = limit

    def count(self, parts: Parts) -> ast.Literal | ast.Variable:
        [word] = parts
        return self.variable(parts) if word.startswith("$") else self.int(parts)

    def block(self, parts: Parts) -> tuple[ast.Clause, ...]:
        return tuple(parts)

    def bind(self, parts: Parts) -> ast.Bind:
        variable, kind, properties = parts
        return ast.Bind(self.variable([variable]), str(kind), properties or (), place(variable))

    def traverse(self, parts: Parts) -> ast.Traverse:
        return cast(ast.Traverse, parts[0])

    def step(self, parts: Parts) -> ast.Traverse:
        source, binding, (edge, others, either), bounds, filters, target = parts
        if others and binding is not None:
            raise wrong(
                place(binding),
                "an edge that is bound is of one type.",
                "Leave out the binding, or write a traversal of its own for each type.",
            )
        return ast.Traverse(
            self.variable([source]),
            edge,
            self.variable([target]),
            binding and self.variable([binding]),
            either,
            bounds,
            filters or (),
            others,
            place(source),
        )

    def edge(self, parts: Parts) -> tuple[str, tuple[str, ...], bool]:
        text = str(parts[0])
        either = text.startswith("<")
        names = [name.strip() for name in text[1:-1].split("|")] if either else [str(part) for part in parts]
        for number, name in enumerate(names):
            if name.lower() in (other.lower() for other in names[:number]):
                raise wrong(place(parts[0]), f"the edge type {name} is written twice.", "Keep one of them.")
        return names[0], tuple(names[1:]), either

    def bounds(self, parts: Parts) -> ast.Bounds:
        least, most = parts
        if most is not None and whole(most) < whole(least):
            raise wrong(place(most), f"the bounds {{{least},{most}}} end before they begin.", "Swap them.")
        return ast.Bounds(whole(least), None if most is None else whole(most))

    def edge_filters(self, parts: Parts) -> tuple[ast.Filter, ...]:
        return _filters(parts)

    def negation(self, parts: Parts) -> ast.Not:
        word, clauses = parts
        return ast.Not(clauses, place(word))

    def exists(self, parts: Parts) -> ast.Exists:
        word, clauses = parts
        return ast.Exists(clauses, place(word))

    def count_of(self, parts: Parts) -> ast.CountOf:
        word, clauses = parts
        return ast.CountOf(clauses, place(word))

    def or_(self, parts: Parts) -> ast.Or:
        word, *alternatives = parts
        return ast.Or(tuple(a if isinstance(a, tuple) else (a,) for a in alternatives), place(word))

    def alternative(self, parts: Parts) -> tuple[ast.Clause, ...]:
        return cast("tuple[ast.Clause, ...]", parts[0])

    def optional(self, parts: Parts) -> ast.Optional:
        word, clauses = parts
        return ast.Optional(clauses, place(word))

    # -- filters --------------------------------------------------------------------------------------------------

    def holds(self, parts: Parts) -> ast.Matches:
        [given] = parts
        if isinstance(given, ast.Call) and given.function in SEARCHES:
            return ast.Matches(given, given.at)
        if isinstance(given, Path):
            raise wrong(given.at, "shortest(…) needs a name for its path.", "Write $p = shortest(…).")
        raise wrong(
            given.at,
            "the condition has nothing to compare with.",
            "Compare it with one of = != < <= > >= contains starts_with in, or ask `is null`.",
        )

    def compare(self, parts: Parts) -> ast.Compare | ast.Shortest:
        left, operator, right = parts
        if isinstance(right, Path) and operator == "=" and isinstance(left, ast.Variable):
            if right.step.binding is not None:
                raise wrong(right.step.binding.at, "a path has many edges, so it cannot bind a single edge.")
            return ast.Shortest(left, right.step, left.at)
        return ast.Compare(cast(ast.Operator, operator), left, right, left.at)

    def operator(self, parts: Parts) -> str:
        return str(parts[0])

    def is_null(self, parts: Parts) -> ast.IsNull:
        operand, _is, negated, _null = parts
        return ast.IsNull(operand, negated is not None, operand.at)

    # -- writing --------------------------------------------------------------------------------------------------

    def mutation(self, parts: Parts) -> ast.Mutation:
        return ast.Mutation(tuple(parts), parts[0].at)

    def insert(self, parts: Parts) -> ast.Insert:
        word, kind, properties = parts
        return ast.Insert(str(kind), properties, place(word))

    def update(self, parts: Parts) -> ast.Update:
        word, kind, properties, where = parts
        return ast.Update(str(kind), properties, where, place(word))

    def delete(self, parts: Parts) -> ast.Delete:
        word, kind, where = parts
        return ast.Delete(str(kind), where, place(word))

    def properties(self, parts: Parts) -> tuple[ast.Assignment, ...]:
        seen: set[str] = set()
        for assignment in parts:
            if assignment.name in seen:
                raise wrong(assignment.at, f"{assignment.name} is given twice.", "Keep one of them.")
            seen.add(assignment.name)
        return tuple(parts)

    def assignment(self, parts: Parts) -> ast.Assignment:
        name, value = parts
        return ast.Assignment(str(name), value, place(name))

    def where(self, parts: Parts) -> tuple[ast.Filter, ...]:
        return _filters(parts)

    # -- expressions ----------------------------------------------------------------------------------------------

    def add(self, parts: Parts) -> ast.Binary:
        return ast.Binary("+", parts[0], parts[1], parts[0].at)

    def subtract(self, parts: Parts) -> ast.Binary:
        left, _minus, right = parts
        return ast.Binary("-", left, right, left.at)

    def multiply(self, parts: Parts) -> ast.Binary:
        left, _star, right = parts
        return ast.Binary("*", left, right, left.at)

    def divide(self, parts: Parts) -> ast.Binary:
        return ast.Binary("/", parts[0], parts[1], parts[0].at)

    def remainder(self, parts: Parts) -> ast.Binary:
        return ast.Binary("%", parts[0], parts[1], parts[0].at)

    def negative(self, parts: Parts) -> ast.Expression:
        sign, operand = parts
        if isinstance(operand, ast.Literal) and operand.kind in ("I64", "F64") and _unsigned(operand.value):
            value = -cast(float, operand.value)
            if operand.kind == "I64" and value < SMALLEST:
                raise wrong(place(sign), f"the number {value} is too small.", f"The smallest is {SMALLEST}.")
            return ast.Literal(value, operand.kind, place(sign))
        return ast.Negative(operand, place(sign))

    def variable(self, parts: Parts) -> ast.Variable:
        return ast.Variable(str(parts[0][1:]), place(parts[0]))

    def access(self, parts: Parts) -> ast.Access:
        variable, name = parts
        return ast.Access(self.variable([variable]), str(name), place(variable))

    def name(self, parts: Parts) -> ast.Name:
        return ast.Name(str(parts[0]), place(parts[0]))

    def string(self, parts: Parts) -> ast.Literal:
        return ast.Literal(unquoted(parts[0]), "String", place(parts[0]))

    def int(self, parts: Parts) -> ast.Literal:
        return ast.Literal(whole(parts[0]), "I64", place(parts[0]))

    def float(self, parts: Parts) -> ast.Literal:
        value = float(parts[0])
        if not math.isfinite(value):
            raise wrong(place(parts[0]), "the number is too large.", "The largest is about 1.8e308.")
        return ast.Literal(value, "F64", place(parts[0]))

    def true(self, parts: Parts) -> ast.Literal:
        return ast.Literal(True, "Bool", place(parts[0]))

    def false(self, parts: Parts) -> ast.Literal:
        return ast.Literal(False, "Bool", place(parts[0]))

    def list(self, parts: Parts) -> ast.ListOf:
        bracket, *items = parts
        return ast.ListOf(tuple(i for i in items if i is not None), place(bracket))

    def path(self, parts: Parts) -> Path:
        word, step = parts
        if word != "shortest":
            raise wrong(place(word), f"{word}(…) takes no traversal.", "Only shortest(…) does.")
        return Path(step, place(word))

    def branch(self, parts: Parts) -> ast.When:
        *conditions, value = parts
        return ast.When(_filters(conditions), value)

    def case(self, parts: Parts) -> ast.Case:
        word, *branches, otherwise, _end = parts
        return ast.Case(tuple(branches), otherwise, place(word))

    def arguments(self, parts: Parts) -> _Arguments:
        return _Arguments(tuple(p for p in parts if p is not None))

    def star(self, parts: Parts) -> _Arguments:
        return _Arguments(star=True)

    def distinct(self, parts: Parts) -> _Arguments:
        return _Arguments((parts[1],), distinct=True)

    def call(self, parts: Parts) -> ast.Expression:
        word, given = parts
        name, at = str(word), place(word)
        if name in AGGREGATES:
            return _aggregate(name, given, at)
        if given.star or given.distinct:
            raise wrong(at, f"{name}(…) takes neither * nor distinct.", f"Only {', '.join(AGGREGATES)} do.")
        if name == "datetime" or (name == "date" and _is_written(given.values)):
            return _moment(name, given.values, at)
        if name == "shortest":
            raise wrong(at, "shortest(…) takes a traversal.", "Write $p = shortest($a knows{1,6} $b).")
        if name not in CALLS:
            advice = nearest(name, FUNCTIONS) or f"There are {', '.join(FUNCTIONS)}."
            raise wrong(at, f"there is no function {name}(…).", advice)
        least, most = CALLS[name]
        if len(given.values) < least or (most is not None and len(given.values) > most):
            takes = str(least) if least == most else f"at least {least}" if most is None else f"{least} or {most}"
            raise wrong(at, f"{name}(…) takes {takes} arguments, not {len(given.values)}.")
        return ast.Call(name, given.values, at)


def _unsigned(value: Any) -> bool:
    return math.copysign(1, value) > 0


def _filters(parts: Parts) -> tuple[ast.Filter, ...]:
    for part in parts:
        if isinstance(part, ast.Shortest):
            raise wrong(part.at, "a path can be named only in match.")
    return tuple(p for p in parts if p is not None)


def _aggregate(name: str, given: _Arguments, at: At) -> ast.Aggregate:
    if given.star:
        if name != "count":
            raise wrong(at, f"{name}(*) is not allowed.", f"Name a property, as in {name}($x.age).")
        return ast.Aggregate("count", None, False, at)
    if len(given.values) != 1:
        raise wrong(at, f"{name}(…) takes one argument, not {len(given.values)}.")
    return ast.Aggregate(cast(ast.AggregateName, name), given.values[0], given.distinct, at)


def _is_written(values: tuple[ast.Expression, ...]) -> bool:
    """Whether `date(…)` stands for a date that is written out, rather than for that of a time."""
    return len(values) != 1 or (isinstance(values[0], ast.Literal) and values[0].kind != "DateTime")


def _moment(name: str, values: tuple[ast.Expression, ...], at: At) -> ast.Literal:
    if len(values) != 1 or not isinstance(values[0], ast.Literal) or values[0].kind != "String":
        example = "2024-12-31" if name == "date" else "2024-12-31T12:00:00Z"
        raise wrong(at, f"{name}(…) takes a text in quotes.", f'Write {name}("{example}").')
    kind: ast.LiteralKind = "Date" if name == "date" else "DateTime"
    try:
        value: dt.date = Type(kind).value(values[0].value)
    except Wrong as error:
        raise wrong(values[0].at, f"what {name}(…) takes {error}.") from None
    return ast.Literal(value, kind, at)
