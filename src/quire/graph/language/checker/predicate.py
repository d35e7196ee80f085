"""From filters of the tree to typed predicates: which things may be compared with which."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, cast

from quire.graph.interface_type import InterfaceType
from quire.graph.language import ast, plan
from quire.graph.language.ast import At
from quire.graph.language.checker.expression import Expressions
from quire.graph.language.checker.identities import by_identity
from quire.graph.language.position import wrong
from quire.graph.names import nearest
from quire.graph.types import Type, Wrong

SINGLE = Type("F32")


def as_stored(found: plan.Predicate) -> plan.Predicate:
    """The same predicate with its constants as the F32 that they are compared with holds them."""
    match found:
        case plan.Compare():
            return replace(found, left=_beside(found.left, found.right), right=_beside(found.right, found.left))
        case plan.In():
            operand, options = found.operand, found.options
            return plan.In(_beside(operand, options), _beside(options, operand))
        case plan.Contains(among="list"):
            return replace(found, right=_beside(found.right, found.left))
        case _:
            return found


def _beside(side: plan.Expression, other: plan.Expression) -> plan.Expression:
    if other.type is None or other.type.base != "F32":
        return side
    match side:
        case plan.Constant() if side.type.many:
            item = Type(side.type.base)
            return _list([_single(plan.Constant(value, item)) for value in side.value], side)
        case plan.ListOf():
            return _list([_single(item) for item in side.items], side)
        case _:
            return _single(side)


def _list(items: list[plan.Expression], given: plan.Constant | plan.ListOf) -> plan.Expression:
    values = [item.value for item in items if isinstance(item, plan.Constant) and item.type == SINGLE]
    if len(values) == len(items):
        return plan.Constant(values, Type("F32", many=True))
    return plan.ListOf(tuple(items), given.type)


def _single(given: plan.Expression) -> plan.Expression:
    """A number as F32; everything else, and what F32 cannot hold, as it is: that is compared exactly."""
    value = given.operand if isinstance(given, plan.Negate) else given
    if not isinstance(value, plan.Constant) or not value.type.is_number:
        return given
    try:
        return plan.Constant(SINGLE.value(-value.value if value is not given else value.value), SINGLE)
    except Wrong:
        return given


ORDERED = ("<", "<=", ">", ">=")


def predicate(given: ast.Filter, types: Expressions) -> plan.Predicate:
    """A filter, typed; `InvalidQuery` where its sides do not go together."""
    if isinstance(given, ast.Compare) and (found := by_identity(given, types)) is not None:
        return found
    return as_stored(_predicate(given, types))


def _predicate(given: ast.Filter, types: Expressions) -> plan.Predicate:
    match given:
        case ast.Matches():
            return plan.Matches(cast(plan.TextMatch, types.value(given.call)))
        case ast.IsNull():
            return plan.IsNull(_nullable(given.operand, types), given.negated)
        case ast.Compare(operator="contains"):
            return _contains(given, types)
        case ast.Compare(operator="starts_with"):
            left, right = types.value(given.left), types.value(given.right)
            _text(left, given.left, "starts_with")
            _text(right, given.right, "starts_with")
            return plan.StartsWith(left, right)
        case ast.Compare(operator="in"):
            return _in(given, types)
        case ast.Compare():
            return _compare(given, types)


def _nullable(given: ast.Expression, types: Expressions) -> plan.Expression:
    """What may be asked for null: values, vectors, and variables of an optional block."""
    if isinstance(given, ast.Variable) and types.scope is not None:
        bound = types.scope.find(given.name)
        if bound is not None and bound.role == "path":
            return types.any(ast.Access(given, "length", given.at))
    found = types.any(given)
    if not isinstance(found, plan.Whole) or not isinstance(given, ast.Variable):
        return found
    assert types.scope is not None
    bound = types.scope.find(given.name)
    assert bound is not None
    if not types.scope.sees_null(bound):
        raise wrong(given.at, f"${given.name} is never null.", "Only variables of optional { … } are.")
    # After grouping only what is returned is left, and that is the whole entity.
    return found if types.place == "having" else plan.System(found.variable, "id", Type("String", optional=True))


def _contains(given: ast.Compare, types: Expressions) -> plan.Contains:
    left = types.value(given.left)
    kind = cast(Type, left.type)
    if kind.many:
        member = Type(kind.base, values=kind.values)
        right = types.value(given.right, member)
        _comparable(member, right, given, swapped=False)
        return plan.Contains(left, right, "list")
    if not kind.is_text:
        raise wrong(
            given.left.at,
            f"contains needs a list or a text, and this is {kind}.",
            "Compare it with = or in.",
            expected="a list or a String",
        )
    right = types.value(given.right)
    _text(right, given.right, "contains")
    return plan.Contains(left, right, "text")


def _in(given: ast.Compare, types: Expressions) -> plan.In:
    left = types.value(given.left)
    kind = cast(Type, left.type)
    if not kind.is_scalar:
        raise wrong(given.left.at, f"a list holds single values, so {kind} cannot be in it.", "Use contains.")
    right = types.value(given.right, kind.required)
    options = cast(Type, right.type)
    if not options.many:
        raise wrong(given.right.at, f"in needs a list, and this is {options}.", "Write [a, b], or a parameter [Type].")
    member = Type(options.base, values=options.values)
    items = given.right.items if isinstance(given.right, ast.ListOf) else ()
    if kind.base == "enum":
        for item in items:
            _enum_value(kind, types.value(item), item.at)
    if not _match(kind, member):
        raise wrong(given.right.at, f"the left side is {kind.required}, and the list is of {member}.")
    return plan.In(left, right)


def _compare(given: ast.Compare, types: Expressions) -> plan.Compare:
    operator = cast(Literal["=", "!=", "<", "<=", ">", ">="], given.operator)
    left, right = types.any(given.left), types.any(given.right)
    if isinstance(left, plan.Whole) or isinstance(right, plan.Whole):
        return _entities(given, left, right)
    kind = cast(Type, left.type)
    for side, written in ((left, given.left), (right, given.right)):
        found = cast(Type, side.type)
        if not found.is_scalar:
            advice = "Use contains or in." if found.many else "A vector can only be returned or given to nearest(…)."
            raise wrong(written.at, f"{found.required} cannot be compared with {operator}.", advice)
    _comparable(kind, right, given, swapped=False)
    _comparable(cast(Type, right.type), left, given, swapped=True)
    if operator in ORDERED:
        for side, written in ((left, given.left), (right, given.right)):
            if cast(Type, side.type).base in ("Bool", "enum"):
                raise wrong(
                    written.at,
                    f"{cast(Type, side.type).required} has no order, so {operator} is not allowed.",
                    "Compare it with = or !=, or use in.",
                )
    _never(given, left, right, types)
    return plan.Compare(operator, left, right)


def _entities(given: ast.Compare, left: plan.Expression, right: plan.Expression) -> plan.Compare:
    """Two variables: the same entity, or not."""
    if not (isinstance(left, plan.Whole) and isinstance(right, plan.Whole)):
        whole = given.left if isinstance(left, plan.Whole) else given.right
        name = f"${whole.name}" if isinstance(whole, ast.Variable) else getattr(whole, "name", "this")
        advice = f"Name a property: {name}.…" if name.startswith("$") else "Name a property of it: $x.…"
        raise wrong(whole.at, f"{name} is a node or an edge and cannot be compared with a value.", advice)
    if left.entity.id != right.entity.id:
        names = [side.entity.name for side in (left, right)]
        if any(isinstance(side.entity, InterfaceType) for side in (left, right)):
            raise wrong(
                given.at,
                f"{names[0]} and {names[1]} are not matched by the same type, so they are not compared as nodes.",
                "Compare their id, and the type of what is matched by an interface: $x.id = $y.id  $x.type = …",
            )
        raise wrong(given.at, f"{left.entity.name} and {right.entity.name} are never the same.", "Compare properties.")
    if given.operator not in ("=", "!="):
        raise wrong(
            given.at, f"nodes and edges have no order, so {given.operator} is not allowed.", "Compare properties."
        )
    operator: Literal["=", "!="] = "=" if given.operator == "=" else "!="
    return plan.Compare(operator, plan.System(left.variable, "id"), plan.System(right.variable, "id"))


def _text(found: plan.Expression, written: ast.Expression, operator: str) -> None:
    kind = cast(Type, found.type)
    if not kind.is_text:
        raise wrong(written.at, f"{operator} needs a text, and this is {kind}.", expected="a String")


def _comparable(kind: Type, other: plan.Expression, given: ast.Compare, *, swapped: bool) -> None:
    """Check one side against the type of the other."""
    found = cast(Type, other.type)
    at = given.left.at if swapped else given.right.at
    if not _match(kind, found):
        raise wrong(at, f"{kind.required} cannot be compared with {found.required}.", _advice(kind, found, other))
    if kind.base == "enum":
        _enum_value(kind, other, at)


def _enum_value(kind: Type, other: plan.Expression, at: At) -> None:
    if isinstance(other, plan.Constant) and isinstance(other.value, str) and other.value not in kind.values:
        raise wrong(
            at,
            f"{other.value!r} is not one of the values of {kind.required}.",
            nearest(other.value, kind.values) or f"They are {', '.join(kind.values)}.",
            expected=list(kind.values),
        )


def _match(a: Type, b: Type) -> bool:
    if a.many or b.many:
        return False
    return (a.is_number and b.is_number) or (a.is_text and b.is_text) or (a.base == b.base and a.is_scalar)


def _advice(kind: Type, found: Type, other: plan.Expression) -> str:
    if kind.is_time and found.is_text:
        written = f'"{other.value}"' if isinstance(other, plan.Constant) else '"…"'
        example = f"{'date' if kind.base == 'Date' else 'datetime'}({written})"
        return f"Write {example}, or declare the parameter as {kind.base}."
    if found.many:
        return "Use in for lists."
    return ""


def _never(given: ast.Compare, left: plan.Expression, right: plan.Expression, types: Expressions) -> None:
    """Warn where two enums have no value in common."""
    a, b = cast(Type, left.type), cast(Type, right.type)
    if a.base == b.base == "enum" and not set(a.values) & set(b.values) and given.operator == "=":
        types.context.warn("never-holds", f"{a.required} and {b.required} have no value in common.", given.at)
