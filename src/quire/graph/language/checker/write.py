"""From insert, update and delete to the plan."""

from __future__ import annotations

from typing import cast

from quire.errors import InvalidQuery, NotFound
from quire.graph.catalog import Entity, Property
from quire.graph.language import ast, plan
from quire.graph.language.ast import At
from quire.graph.language.checker.expression import Context, Expressions, constants
from quire.graph.language.checker.predicate import predicate
from quire.graph.language.position import wrong
from quire.graph.names import nearest
from quire.graph.types import Type, Wrong

ENDS = ("from", "to")


def mutation(context: Context, body: ast.Mutation) -> plan.Mutation:
    """The statements, typed. Errors of single statements are gathered in the context; the first one is raised."""
    statements = []
    for given in body.statements:
        try:
            statements.append(_statement(context, given))
        except InvalidQuery as error:
            context.errors.append(error)
    if context.errors:
        raise context.errors[0]
    if not context.parameters:
        message = "This mutation has no parameters: it does the same every time it is run."
        context.warn("mutation-without-parameters", message, body.at)
    return plan.Mutation(tuple(statements))


def _statement(context: Context, given: ast.MutationStatement) -> plan.MutationStatement:
    entity = _entity(context, given)
    match given:
        case ast.Insert():
            return _insert(context, given, entity)
        case ast.Update():
            if not given.assignments:
                raise wrong(given.at, "this update sets no property.", "Name a property, as in set { age: 3 }.")
            changes = tuple(_change(context, entity, a) for a in given.assignments)
            return plan.Update(entity, changes, _where(context, entity, given.where))
        case ast.Delete():
            return plan.Delete(entity, _where(context, entity, given.where))


def _entity(context: Context, given: ast.MutationStatement) -> Entity:
    catalog = context.catalog
    for entity in catalog.entities:
        if entity.name == given.type:
            return entity
    try:
        return catalog.edge(given.type)
    except NotFound:
        pass
    what = "an interface, which has no rows" if catalog.interface(given.type) else "not a type of this graph"
    known = [e.name for e in catalog.entities]
    advice = nearest(given.type, known) or f"There are {', '.join(known) or 'none; apply a schema first'}."
    raise wrong(given.at, f"{given.type} is {what}.", advice, type=given.type)


def _where(context: Context, entity: Entity, where: tuple[ast.Filter, ...]) -> tuple[plan.Predicate, ...]:
    types = Expressions(context, "where", row=(plan.ROW, entity))
    return tuple(predicate(given, types) for given in where)


# -- assignments ------------------------------------------------------------------------------------------------------


def _insert(context: Context, given: ast.Insert, entity: Entity) -> plan.Insert:
    ends: dict[str, plan.End] = {}
    changes: list[plan.Set] = []
    id: plan.Expression | None = None
    for assignment in given.assignments:
        if entity.kind == "edge" and assignment.name in ENDS:
            ends[assignment.name] = _end(context, entity, assignment)
        elif assignment.name == "id" and "id" not in entity.properties:
            id = _id(context, entity, assignment)
        else:
            changes.append(_set(context, entity, assignment))
    for name in ENDS if entity.kind == "edge" else ():
        if name not in ends:
            raise wrong(
                given.at,
                f"the new edge {entity.name} has no `{name}`.",
                f"Add {name}: and the key of a {_end_type(context, entity, name).name}.",
                type=entity.name,
                property=name,
            )
    _check_complete(given.at, entity, {c.property.name for c in changes})
    return plan.Insert(entity, tuple(changes), ends.get("from"), ends.get("to"), id)


def _check_complete(at: At, entity: Entity, given: set[str]) -> None:
    """Every required property is given, unless it has a default or is made from another one."""
    for prop in entity.defined.properties:
        made = prop.annotation("default") or prop.annotation("embed")
        if prop.name not in given and not prop.type.optional and made is None:
            raise wrong(
                at,
                f"{entity.name} needs {prop.name}, which is not given.",
                f"Add {prop.name}: and a value of type {prop.type}.",
                type=entity.name,
                property=prop.name,
            )


def _change(context: Context, entity: Entity, given: ast.Assignment) -> plan.Set:
    if given.name in entity.defined.key:
        raise wrong(
            given.at,
            f"{given.name} is part of the key of {entity.name}, and a key cannot be changed.",
            "Insert the entity anew and delete this one.",
            type=entity.name,
            property=given.name,
        )
    if given.name not in entity.properties and (
        given.name == "id" or (entity.kind == "edge" and given.name in (*ENDS, "src", "dst"))
    ):
        raise wrong(
            given.at,
            f"{given.name} of a {entity.name} cannot be changed.",
            "Insert it anew and delete this one.",
            type=entity.name,
            property=given.name,
        )
    return _set(context, entity, given, row=(plan.ROW, entity))


def _set(context: Context, entity: Entity, given: ast.Assignment, row: tuple[str, Entity] | None = None) -> plan.Set:
    """What a property is set to. In an update, bare names are properties of the row as it was."""
    found = entity.properties.get(given.name)
    if found is None:
        known = [*entity.properties, *(ENDS if entity.kind == "edge" else ())]
        raise wrong(
            given.at,
            f"{entity.name} has no property {given.name!r}.",
            nearest(given.name, known) or f"It has {', '.join(known) or 'none'}.",
            type=entity.name,
            property=given.name,
        )
    if isinstance(given.value, ast.Name) and given.value.name == "null" and "null" not in entity.properties:
        if not found.type.optional:
            raise wrong(
                given.value.at,
                f"{entity.name}.{found.name} is required and cannot be null.",
                f"Give a value of type {found.type}.",
                type=entity.name,
                property=found.name,
            )
        return plan.Set(found, plan.Constant(None, found.type))
    types = Expressions(context, "set", row=row)
    return plan.Set(found, _fitted(types.any(given.value, found.type), found, given.value.at, entity))


def _fitted(value: plan.Expression, prop: Property, at: At, entity: Entity) -> plan.Expression:
    """The value, if it is one that the property can hold. What is written out is converted now."""
    values = constants(value)
    if isinstance(value, plan.Constant) or values is not None:
        written = value.value if isinstance(value, plan.Constant) else values
        try:
            return plan.Constant(prop.type.value(written), prop.type.required)
        except Wrong as error:
            raise wrong(at, f"{entity.name}.{prop.name} {error}.", type=entity.name, property=prop.name) from None
    if value.type is None or not assignable(value.type, prop.type):
        raise wrong(
            at,
            f"{entity.name}.{prop.name} is {prop.type}, and this is {value.type}.",
            f"Declare the parameter as {prop.type}." if isinstance(value, plan.Parameter) else None,
            type=entity.name,
            property=prop.name,
        )
    return value


def assignable(given: Type, wanted: Type) -> bool:
    """Whether values of a type may be put into a property. Whether each fits (the size of a number, the values of an
    enum, null) is found when it is there."""
    if given.base == "Vector" or wanted.base == "Vector":
        numbers = given.many and Type(given.base).is_number
        return wanted.base == "Vector" and (given.required == wanted.required or numbers)
    if given.many != wanted.many:
        return False
    one, other = Type(given.base, values=given.values), Type(wanted.base, values=wanted.values)
    if one.is_number and other.is_number:
        return one.is_integer or not other.is_integer
    return one.base == other.base or (one.is_text and other.is_text)


# -- ids --------------------------------------------------------------------------------------------------------------


def _end_type(context: Context, entity: Entity, name: str) -> Entity:
    return context.catalog.source(entity) if name == "from" else context.catalog.target(entity)


def _end(context: Context, entity: Entity, given: ast.Assignment) -> plan.End:
    """An end of a new edge: the id of a node as text, or the values of its key."""
    node = _end_type(context, entity, given.name)
    key = [node.properties[name] for name in node.defined.key]
    types = Expressions(context, "set")
    if isinstance(given.value, ast.ListOf):
        if len(given.value.items) != len(key):
            keys = ", ".join(p.name for p in key) or "none; give its id"
            raise wrong(given.value.at, f"the key of {node.name} is {keys}.", f"Give {len(key) or 1} values.")
        values = tuple(
            _fitted(types.value(item), prop, item.at, node) for item, prop in zip(given.value.items, key, strict=True)
        )
        return plan.End(values, False)
    value = types.value(given.value)
    kind = cast(Type, value.type)
    if kind.required == plan.STRING:
        return plan.End((value,), True)
    if len(key) == 1:
        return plan.End((_fitted(value, key[0], given.value.at, node),), False)
    raise wrong(
        given.value.at,
        f"`{given.name}` is the id of a {node.name}, and this is {kind}.",
        f"Give [{', '.join(p.name for p in key)}] or the id as text." if key else "Give the id as text.",
        type=node.name,
    )


def _id(context: Context, entity: Entity, given: ast.Assignment) -> plan.Expression:
    if entity.defined.key:
        raise wrong(
            given.at,
            f"the id of {entity.name} is made from its key.",
            f"Give {', '.join(entity.defined.key)} instead.",
            type=entity.name,
        )
    found = Expressions(context, "set").value(given.value)
    if cast(Type, found.type).required != plan.STRING:
        raise wrong(given.value.at, f"an id is String, and this is {found.type}.", type=entity.name)
    return found
