"""What an expression and a condition mean, given rows as plain dicts."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.graph.differential import functions
from tests.graph.differential.values import Unclear, Undefined, aggregate, arithmetic, compared, negated
from tests.graph.differential.world import Kind, Row, World, single

from quire.graph.language import ast

LARGEST = single(3.4028235e38)


@dataclass(frozen=True)
class Thing:
    """A node or an edge."""

    kind: Kind
    row: Row

    @property
    def id(self) -> str:
        return str(self.row["@id"])

    def get(self, name: str) -> Any:
        if self.kind.prop(name) is not None:
            return self.row[name]
        if self.kind.members:
            return self.row[{"id": "@own", "type": "@type"}[name]]
        return self.row[{"id": "@id", "src": "@src", "dst": "@dst", "from": "@src", "to": "@dst"}[name]]

    def end(self, kind: str) -> str | None:
        """What an edge calls it at an end that is of a node type; None where it is of another."""
        if self.kind.members:
            return str(self.row["@own"]) if self.row["@type"] == kind else None
        return self.id

    @property
    def whole(self) -> dict[str, Any]:
        if self.kind.members:
            return {n: self.get(n) for n in ("id", "type", *(p.name for p in self.kind.props))}
        ends = {"src": self.row["@src"], "dst": self.row["@dst"]} if self.kind.is_edge else {}
        return {"id": self.id, **ends, **{p.name: self.row[p.name] for p in self.kind.props}}


@dataclass(frozen=True)
class Path:
    nodes: list[str]


Env = dict[str, Thing | Path | None]


@dataclass(frozen=True)
class Context:
    """Where an expression is evaluated."""

    env: Env
    bare: Thing | None = None
    """Whose properties bare names are."""
    group: list[Env] | None = None
    """The rows that aggregates are over."""


class Evaluate:
    """Values of expressions of one query on one world."""

    def __init__(self, world: World, query: ast.Query, values: Mapping[str, Any], now: dt.datetime) -> None:
        self.world, self.now = world, now
        self.values = {p.name: bound(p, values.get(p.name)) for p in query.parameters}
        self.singles = {p.name for p in query.parameters if p.type.base == "F32"}
        self.aliases: dict[str, ast.Expression] = {}

    # -- conditions -----------------------------------------------------------------------------------------------

    def holds(self, given: ast.Filter, at: Context) -> bool:
        match given:
            case ast.Matches():
                return self.value(given.call, at) is True
            case ast.IsNull():
                return (self.plain(given.operand, at) is None) != given.negated
            case ast.Compare(operator="contains"):
                left, right = self.value(given.left, at), self.beside(given.right, given.left, at)
                return left is not None and right is not None and right in left
            case ast.Compare(operator="starts_with"):
                left, right = self.value(given.left, at), self.value(given.right, at)
                return left is not None and right is not None and left.startswith(right)
            case ast.Compare(operator="in"):
                options = self.beside(given.right, given.left, at) or []
                left = self.beside(given.left, given.right, at)
                return any([compared("=", left, option) for option in options])
            case _:
                try:
                    left, right = self.beside(given.left, given.right, at), self.beside(given.right, given.left, at)
                    return compared(given.operator, left, right)
                except Undefined:
                    # Against a fraction no whole number has to be known.
                    fractions = (ast.Literal(0.5, "F64"), ast.Literal(2.5, "F64"))
                    raise (Unclear if given.right in fractions else Undefined) from None

    def all_hold(self, given: Iterable[ast.Filter], at: Context) -> bool:
        """Whether all hold. One that does not decides it, whatever cannot be computed in another."""
        undefined = None
        for one in given:
            try:
                if not self.holds(one, at):
                    return False
            except Undefined as error:
                undefined = error
        if undefined is not None:
            raise undefined
        return True

    def plain(self, given: ast.Expression, at: Context) -> Any:
        """A value; a node or an edge is its id."""
        found = self.value(given, at)
        return found.id if isinstance(found, Thing) else found

    def beside(self, given: ast.Expression, other: ast.Expression, at: Context) -> Any:
        """The same, as an F32 holds it where it is written out and compared with one."""
        return as_single(given, self.plain(given, at)) if self._is_single(other, at) else self.plain(given, at)

    def _is_single(self, given: ast.Expression, at: Context) -> bool:
        if isinstance(given, ast.Name) and at.bare is None:
            given = self.aliases[given.name]
        match given:
            case ast.Access():
                thing, name = at.env.get(given.variable.name), given.property
            case ast.Name():
                thing, name = at.bare, given.name
            case ast.Aggregate(function="min" | "max", argument=ast.Access()):
                return any(self._is_single(given.argument, Context(env)) for env in at.group or ())
            case ast.Variable():
                return given.name in self.singles
            case ast.Call(function="coalesce"):
                return all(self._is_single(argument, at) for argument in given.arguments)
            case ast.Case():
                values = [*(b.value for b in given.branches), *([given.otherwise] if given.otherwise else [])]
                return all(self._is_single(value, at) for value in values)
            case _:
                return False
        prop = thing.kind.prop(name) if isinstance(thing, Thing) else None
        return prop is not None and prop.base == "F32"

    # -- expressions ----------------------------------------------------------------------------------------------

    def value(self, given: ast.Expression, at: Context) -> Any:
        match given:
            case ast.Literal():
                return given.value
            case ast.Variable():
                return self.values[given.name] if given.name in self.values else at.env[given.name]
            case ast.Access():
                return self.property(at.env[given.variable.name], given.property)
            case ast.Name():
                return at.bare.get(given.name) if at.bare is not None else self.value(self.aliases[given.name], at)
            case ast.ListOf():
                return [self.value(item, at) for item in given.items]
            case ast.Binary():
                return arithmetic(given.operator, self.value(given.left, at), self.value(given.right, at))
            case ast.Negative():
                return negated(self.value(given.operand, at))
            case ast.Aggregate():
                return self._aggregate(given, at)
            case ast.Case():
                branch = next((b.value for b in given.branches if self.all_hold(b.conditions, at)), given.otherwise)
                return None if branch is None else self.value(branch, at)
            case ast.CountOf():
                return self.count_of(given, at)
            case ast.Call() if given.function in functions.NAMES:
                return functions.called(given.function, [self.value(a, at) for a in given.arguments])
            case ast.Call():
                return self.call(given, at)

    def property(self, found: Thing | Path | None, name: str) -> Any:
        if found is None:
            return None
        if isinstance(found, Path):
            return len(found.nodes) - 1 if name == "length" else found.nodes
        return found.get(name)

    def _aggregate(self, given: ast.Aggregate, at: Context) -> Any:
        assert at.group is not None
        if given.argument is None:
            return len(at.group)
        values = [self.plain(given.argument, Context(env)) for env in at.group]
        return aggregate(given.function, [v for v in values if v is not None], given.distinct)

    def count_of(self, given: ast.CountOf, at: Context) -> int:
        raise NotImplementedError

    def call(self, given: ast.Call, at: Context) -> Any:
        assert given.function == "now"
        return self.now


def as_single(given: ast.Expression, value: Any) -> Any:
    """A value as 32 bits hold it, if it is a number that was written out, or a list with such."""
    if isinstance(given, ast.ListOf):
        return [as_single(item, v) for item, v in zip(given.items, value, strict=True)]
    written = given.operand if isinstance(given, ast.Negative) else given
    if not isinstance(written, ast.Literal) or isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return single(value) if abs(value) <= LARGEST else value


def key_of(variable: ast.Variable) -> str:
    """`$_` is another variable wherever it stands."""
    return f"_{variable.at.line}:{variable.at.column}" if variable.name == "_" else variable.name


def used(part: object) -> Iterator[str]:
    return (key_of(p) for p in parts_of(part) if isinstance(p, ast.Variable))


def parts_of(part: object) -> Iterator[object]:
    """A part of a tree and everything in it."""
    yield part
    if isinstance(part, tuple):
        for item in part:
            yield from parts_of(item)
    elif hasattr(part, "__dataclass_fields__"):
        for name in part.__dataclass_fields__:
            if name != "at":
                yield from parts_of(getattr(part, name))


def bound(parameter: ast.Parameter, value: Any) -> Any:
    """A parameter's value as its type has it."""
    real = {"F64": float, "F32": lambda v: single(float(v))}.get(parameter.type.base)
    if value is None or real is None:
        return value
    return [real(v) for v in value] if parameter.type.many else real(value)
