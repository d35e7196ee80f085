"""From expressions and filters of the tree to typed ones of the plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import msgspec

from quire.errors import InvalidQuery
from quire.graph.catalog import Catalog, Entity
from quire.graph.interface_type import InterfaceType
from quire.graph.language import ast, plan
from quire.graph.language.ast import At
from quire.graph.language.checker.functions import case, function
from quire.graph.language.checker.scope import Bound, Scope
from quire.graph.language.functions import FUNCTIONS
from quire.graph.language.plan_parts import parts
from quire.graph.language.position import wrong
from quire.graph.names import nearest
from quire.graph.types import Type, Wrong

ClauseKind = Literal["match", "edge", "return", "having", "order", "where", "set"]
"""Where an expression stands: it decides which names and functions it may use."""

RANKED = ("return", "having", "order")
GROUPED = ("return", "having", "order")


@dataclass
class Context:
    """What all parts of a check share."""

    catalog: Catalog
    parameters: dict[str, Type]
    used: set[str] = field(default_factory=set)
    """Parameters that something uses."""
    warnings: list[plan.Doubt] = field(default_factory=list)
    errors: list[InvalidQuery] = field(default_factory=list)
    counted: Callable[[Scope, ast.CountOf], plan.CountOf] | None = None
    """What makes the block that is counted in a scope."""

    def warn(self, code: str, message: str, at: At) -> None:
        self.warnings.append(plan.Doubt(code, message, at.line, at.column))


@dataclass
class Expressions:
    """Types the expressions of one place."""

    context: Context
    place: ClauseKind
    scope: Scope | None = None
    row: tuple[str, Entity] | None = None
    """The variable that bare names are properties of, where they are."""
    alias: Callable[[ast.Name], plan.Expression] | None = None
    """What bare names mean, where they are aliases."""
    aggregating: bool = False

    # -- expressions ----------------------------------------------------------------------------------------------

    def value(self, given: ast.Expression, wanted: Type | None = None) -> plan.Expression:
        """A typed expression that has a value: no entity, no blob, no vector. `wanted` helps where a list is empty."""
        found = self.any(given, wanted)
        kind = found.type
        if kind is None:
            raise self._no_value(given, found)
        if kind.base == "Vector" and not isinstance(found, plan.Constant | plan.ListOf):
            raise wrong(given.at, "a vector can only be returned or given to nearest(…).")
        return found

    def any(self, given: ast.Expression, wanted: Type | None = None) -> plan.Expression:
        """A typed expression, be it a whole entity or a vector."""
        match given:
            case ast.Literal():
                return self._literal(given)
            case ast.Variable():
                return self._variable(given)
            case ast.Access():
                return self._access(given)
            case ast.Name():
                return self._name(given)
            case ast.ListOf():
                return self._list(given, wanted)
            case ast.Binary():
                return self._binary(given)
            case ast.Negative():
                operand = self._number(given.operand, "the sign -")
                return plan.Negate(operand, _number_type(cast(Type, operand.type)))
            case ast.Aggregate():
                return self._aggregate(given)
            case ast.Call():
                return self._call(given)
            case ast.Case():
                return case(self, given)
            case ast.CountOf():
                return self._counted(given)

    def _counted(self, given: ast.CountOf) -> plan.CountOf:
        if self.scope is None or self.context.counted is None:
            raise wrong(given.at, "count { … } is not allowed here.", "Use it in match, return and order.")
        return self.context.counted(self.scope, given)

    def _no_value(self, given: ast.Expression, found: plan.Expression) -> InvalidQuery:
        """A whole entity, be it written as its variable or by the alias under which it is returned."""
        kinds = {"node": "a node", "edge": "an edge"}
        kind = kinds[found.entity.kind] if isinstance(found, plan.Whole) else "an entity"
        if isinstance(given, ast.Name):
            return wrong(given.at, f"{given.name} is {kind}, not a value.", "Name a property of it: $x.…")
        name = given.name if isinstance(given, ast.Variable) else "x"
        return wrong(given.at, f"${name} is {kind}, not a value.", f"Name a property: ${name}.…")

    def _literal(self, given: ast.Literal) -> plan.Constant:
        base = "U64" if given.kind == "I64" and cast(int, given.value) >= 2**63 else given.kind
        return plan.Constant(given.value, Type(base))

    def _variable(self, given: ast.Variable) -> plan.Expression:
        parameter = self._parameter(given)
        if parameter is not None:
            return parameter
        bound = self._bound(given)
        if bound.role == "path":
            raise wrong(given.at, f"${given.name} is a path, not a value.", f"Use ${given.name}.length or .nodes.")
        assert bound.entity is not None
        return plan.Whole(bound.unique, bound.entity)

    def _parameter(self, given: ast.Variable) -> plan.Parameter | None:
        kind = self.context.parameters.get(given.name)
        if kind is None:
            return None
        self.context.used.add(given.name)
        return plan.Parameter(given.name, kind)

    def _bound(self, given: ast.Variable) -> Bound:
        if given.name == "_":
            raise wrong(given.at, "each $_ is a different variable, so it cannot be used as a value.", "Name it.")
        found = self.scope.find(given.name) if self.scope is not None else None
        if found is not None:
            found.uses += 1
            return found
        raise self._unbound(given)

    def _unbound(self, given: ast.Variable) -> InvalidQuery:
        name, root = given.name, self.scope and [*self.scope.chain()][-1]
        if root is None:
            what = "constants and parameters" if self.place in ("edge", "set") else "properties of the row by bare name"
            declare = f"Only {what} are allowed here; declare a parameter ${name}: Type."
            advice = nearest(name, self.context.parameters) or declare
            return wrong(given.at, f"there is no parameter ${name}.", advice, variable=name)
        for scope in root.all():
            if name in scope.own and scope.kind != "match":
                block = "an alternative of or" if scope.kind == "or" else scope.kind
                local_node = scope.kind == "or" and scope.own[name].role == "node"
                return wrong(
                    given.at,
                    f"${name} is bound inside {block} {{ … }} (line {scope.own[name].at.line}), so not here.",
                    "Bind it in every alternative." if local_node else "Bind it outside of it.",
                    variable=name,
                )
        known = [n for s in self.scope.chain() for n in s.own] if self.scope else []
        advice = nearest(name, [*known, *self.context.parameters])
        return wrong(
            given.at,
            f"${name} is neither bound nor a parameter.",
            advice.replace("'", "$", 1).replace("'", "") if advice else f"Bind it in match, as in ${name}: Type.",
            variable=name,
        )

    def _access(self, given: ast.Access) -> plan.Expression:
        name = given.variable.name
        if name in self.context.parameters:
            raise wrong(
                given.at, f"${name} is a parameter and has no properties.", f"Use ${name} alone.", variable=name
            )
        bound = self._bound(given.variable)
        assert self.scope is not None
        null = self.scope.sees_null(bound)
        if bound.role == "path":
            if given.property == "length":
                return plan.PathLength(bound.unique, _optional(plan.I64, null))
            if given.property == "nodes":
                return plan.PathNodes(bound.unique, _optional(plan.IDS, null))
            raise wrong(given.at, f"a path has no {given.property!r}.", f"It has ${name}.length and ${name}.nodes.")
        assert bound.entity is not None
        return self._property(bound.unique, bound.entity, given.property, given.at, null)

    def _property(self, variable: str, entity: Entity, name: str, at: At, null: bool = False) -> plan.Expression:
        found = entity.properties.get(name)
        if found is None:
            column = _system(entity, name, self.place)
            if column is not None:
                kind = Type("enum", values=_members(entity)) if column == "type" else plan.STRING
                return plan.System(variable, column, _optional(kind, null))
            known = [*entity.properties]
            raise wrong(
                at,
                f"{entity.name} has no property {name!r}.",
                nearest(name, known) or f"It has {', '.join(known) or 'none'}.",
                type=entity.name,
                property=name,
            )
        if found.type.base == "Blob":
            raise wrong(
                at,
                f"{entity.name}.{name} is a Blob, which a query can neither return nor compare.",
                f'Read it with graph.blob("{_members(entity)[0]}", …, "{name}").',
                type=entity.name,
                property=name,
            )
        return plan.Field(variable, found, _optional(found.type, null or found.type.optional))

    def _name(self, given: ast.Name) -> plan.Expression:
        if self.row is not None:
            variable, entity = self.row
            return self._property(variable, entity, given.name, given.at)
        if self.alias is not None:
            found = self.alias(given)
            if self.aggregating and any(isinstance(p, plan.Aggregate) for p in parts(found)):
                raise wrong(
                    given.at, f"{given.name} is an aggregate inside another aggregate.", "Take one of them out."
                )
            return found
        if given.name == "null":
            raise wrong(given.at, "null is not a value here.", "Ask `is null`, or give an optional parameter.")
        what = "Values are literals, parameters and now()." if self.place == "set" else f"Write $x.{given.name}."
        raise wrong(given.at, f"unknown name {given.name}.", what)

    def _list(self, given: ast.ListOf, wanted: Type | None) -> plan.Expression:
        items = [self.value(item) for item in given.items]
        for item, written in zip(items, given.items, strict=True):
            if item.type is None or not item.type.is_scalar:
                raise wrong(written.at, "a list cannot contain lists.")
        if not items:
            if wanted is None:
                raise wrong(
                    given.at, "the type of an empty list is unknown here.", "Give it a value, or use a parameter."
                )
            return plan.Constant([], Type(wanted.base, many=True, values=wanted.values))
        kinds = [cast(Type, item.type) for item in items]
        base = _common(kinds)
        if base is None:
            said = ", ".join(dict.fromkeys(str(k.required) for k in kinds))
            raise wrong(given.at, f"a list must have values of one type, and this one has {said}.")
        found = plan.ListOf(tuple(items), Type(base.base, many=True, values=base.values))
        # Numbers of several types stay as they are: one type for all of them would not hold each exactly.
        is_one = len({k.base for k in kinds if k.is_number}) <= 1
        values = constants(found)
        return found if values is None or not is_one else plan.Constant(values, found.type)

    def _binary(self, given: ast.Binary) -> plan.Arithmetic:
        left = self._number(given.left, f"the sign {given.operator}")
        right = self._number(given.right, f"the sign {given.operator}")
        a, b = cast(Type, left.type), cast(Type, right.type)
        exact = a.is_integer and b.is_integer and given.operator != "/"
        return plan.Arithmetic(
            given.operator, left, right, Type("I64" if exact else "F64", optional=a.optional or b.optional)
        )

    def _number(self, given: ast.Expression, what: str) -> plan.Expression:
        found = self.value(given)
        if found.type is None or not found.type.is_number:
            raise wrong(given.at, f"{what} needs numbers, and this is {found.type}.", expected="a number")
        return found

    def _aggregate(self, given: ast.Aggregate) -> plan.Aggregate:
        name = given.function
        if self.place not in GROUPED:
            raise wrong(given.at, f"{name}(…) is not allowed here.", "Use aggregates in return, having and order.")
        if self.aggregating:
            raise wrong(given.at, f"{name}(…) is inside another aggregate.", "Take one of them out.")
        if given.argument is None:
            return plan.Aggregate("count", None, False, plan.I64)
        self.aggregating = True
        try:
            argument = self.any(given.argument)
        finally:
            self.aggregating = False
        kind = argument.type
        if kind is None or name == "count":
            if name != "count":
                raise wrong(
                    given.at, f"{name}(…) takes a property, not a node or an edge.", "Name a property, or take its id."
                )
            if kind is not None and not kind.is_scalar and given.distinct:
                raise wrong(given.at, f"count(distinct …) needs single values, and this is {kind}.")
            return plan.Aggregate("count", argument, given.distinct, plan.I64)
        if name == "collect" and kind.is_scalar:
            return plan.Aggregate("collect", argument, given.distinct, Type(kind.base, many=True, values=kind.values))
        if name in ("sum", "avg") and not kind.is_number:
            raise wrong(given.argument.at, f"{name}(…) needs numbers, and this is {kind}.", expected="a number")
        if not kind.is_scalar:
            raise wrong(given.argument.at, f"{name}(…) needs single values, and this is {kind}.")
        result = {"sum": "I64" if kind.is_integer else "F64", "avg": "F64"}.get(name)
        found = Type(result, optional=True) if result else _optional(kind, True)
        return plan.Aggregate(name, argument, given.distinct, found)

    # -- functions ------------------------------------------------------------------------------------------------

    def _call(self, given: ast.Call) -> plan.Expression:
        if given.function == "now":
            return plan.Now()
        if given.function in FUNCTIONS:
            return function(self, given)
        if self.place in ("where", "set", "edge"):
            raise wrong(
                given.at, f"{given.function}(…) is not allowed here.", "Use searches in match, return and order."
            )
        if given.function == "rrf":
            return self._rrf(given)
        first, query, *rest = given.arguments
        found = self.any(first) if isinstance(first, ast.Access) else None
        base = "Vector" if given.function == "nearest" else "String"
        if not isinstance(found, plan.Field) or found.type.base != base or found.type.many:
            kind = "a vector property" if base == "Vector" else "a String property"
            said = f", and this is {found.type}" if isinstance(found, plan.Field) else ""
            raise wrong(first.at, f"{given.function}(…) searches {kind}{said}.", "Write $x.name first.", expected=kind)
        self._check_searched(given, cast(ast.Access, first))
        if given.function == "nearest":
            return plan.Nearest(found, self._vector(query, found), _optional(plan.F64, found.type.optional))
        text = self._constant(query)
        if text is None or text.type.required != plan.STRING:
            raise wrong(
                query.at, f"{given.function}(…) searches for a text.", 'Write "…" or a parameter of type String.'
            )
        if given.function == "bm25":
            return plan.Bm25(found, text, _optional(plan.F64, found.type.optional))
        edits = self._edits(rest[0]) if rest else None
        name = cast(Literal["search", "fuzzy", "match_text"], given.function)
        return plan.TextMatch(name, found, text, edits, _optional(plan.BOOL, found.type.optional))

    def _check_searched(self, given: ast.Call, field: ast.Access) -> None:
        bound = self.scope.find(field.variable.name) if self.scope is not None else None
        if bound is not None and isinstance(bound.entity, InterfaceType):
            types = ", ".join(_members(bound.entity))
            raise wrong(
                field.at,
                f"{given.function}(…) searches one node type, and {bound.entity.name} is an interface.",
                f"Match a type that implements it: {types}.",
                type=bound.entity.name,
            )

    def _constant(self, given: ast.Expression) -> plan.Constant | plan.Parameter | None:
        found = self.any(given) if isinstance(given, ast.Literal | ast.Variable) else None
        return found if isinstance(found, plan.Constant | plan.Parameter) else None

    def _edits(self, given: ast.Expression) -> plan.Constant | plan.Parameter:
        found = self._constant(given)
        if found is None or not found.type.is_integer or (isinstance(found, plan.Constant) and found.value < 0):
            raise wrong(given.at, "fuzzy(…) takes a number of edits as its third argument.", "Write 1, say.")
        return found

    def _vector(self, given: ast.Expression, field: plan.Field) -> plan.Constant | plan.Parameter:
        kind = field.type.required
        found = self.any(given, kind)
        if isinstance(found, plan.Parameter) and found.type.required == kind:
            return found
        values = constants(found)
        if values is not None:
            try:
                return plan.Constant(kind.value(values), kind)
            except Wrong as error:
                raise wrong(
                    given.at, f"the vector that nearest(…) searches for {error}.", property=field.property.name
                ) from None
        if isinstance(found, plan.Constant | plan.Parameter) and found.type.required == plan.STRING:
            if field.property.annotation("embed") is not None:
                return found
            raise wrong(
                given.at,
                f"{field.property.name} is not made from text, so a text cannot be searched for.",
                f"Give a {kind}, or declare {field.property.name} with @embed.",
                property=field.property.name,
            )
        raise wrong(
            given.at,
            f"{field.property.name} is {kind}, and this is {found.type}.",
            f"Give a parameter of type {kind} or a list of {kind.size} numbers.",
            property=field.property.name,
        )

    def _rrf(self, given: ast.Call) -> plan.Rrf:
        if self.place not in RANKED or self.aggregating:
            raise wrong(given.at, "rrf(…) ranks the rows that were found.", "Use it in return or order, not grouped.")
        arms: list[plan.Nearest | plan.Bm25] = []
        for arm in given.arguments[:2]:
            found = self.any(arm) if isinstance(arm, ast.Call) else None
            if not isinstance(found, plan.Nearest | plan.Bm25):
                raise wrong(arm.at, "rrf(…) joins two rankings.", "They are nearest(…) or bm25(…).")
            arms.append(found)
        k: plan.Constant | plan.Parameter | None = plan.Constant(60, plan.I64)
        if len(given.arguments) == 3:
            k = self._constant(given.arguments[2])
            if k is None or not k.type.is_number or (isinstance(k, plan.Constant) and k.value <= 0):
                raise wrong(given.arguments[2].at, "the k of rrf(…) is a number above 0.", "Leave it out for 60.")
        return plan.Rrf(arms[0], arms[1], cast("plan.Constant | plan.Parameter", k))


def constants(found: plan.Expression) -> list[Any] | None:
    """The values of a list that was written out; None for anything else."""
    if isinstance(found, plan.Constant) and found.type.many:
        return cast("list[Any]", found.value)
    if isinstance(found, plan.ListOf) and all(isinstance(item, plan.Constant) for item in found.items):
        return [cast(plan.Constant, item).value for item in found.items]
    return None


def _members(entity: Entity) -> tuple[str, ...]:
    """The node types that something may be of."""
    return tuple(member.name for member in entity.members) if isinstance(entity, InterfaceType) else (entity.name,)


def _system(entity: Entity, name: str, place: ClauseKind) -> Literal["id", "src", "dst", "own", "type"] | None:
    """A column that is no property. `from` and `to` are its names in statements."""
    if isinstance(entity, InterfaceType):
        return "own" if name == "id" else "type" if name == "type" else None
    if name == "id":
        return "id"
    if entity.kind != "edge":
        return None
    if place == "where" and name in ("from", "to"):
        return "src" if name == "from" else "dst"
    return cast("Literal['src', 'dst']", name) if name in ("src", "dst") else None


def _optional(kind: Type, optional: bool) -> Type:
    return kind if kind.optional == optional else msgspec.structs.replace(kind, optional=optional)


def _number_type(kind: Type) -> Type:
    return Type("I64" if kind.is_integer else "F64", optional=kind.optional)


def _common(kinds: Sequence[Type]) -> Type | None:
    """The type that all have in common."""
    if all(k.is_number for k in kinds):
        if all(k.is_integer for k in kinds):
            return Type("U64" if any(k.base == "U64" for k in kinds) else "I64")
        return plan.F64
    if all(k.is_text for k in kinds):
        first = kinds[0].required
        return first if all(k.required == first for k in kinds) else plan.STRING
    bases = {k.base for k in kinds}
    return Type(bases.pop()) if len(bases) == 1 else None
