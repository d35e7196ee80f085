"""From declarations to types that make sense: names are looked up, interfaces filled in, rules checked.

Everything that is wrong with a schema is found in one go and told with its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import msgspec

from quire.graph.catalog import FORMAT, SYSTEM, Annotation, Catalog, Definition, Entity, Interface, Kind, Property
from quire.graph.names import LANCE, LONGEST, nearest
from quire.graph.schema.ast import (
    Declared,
    DeclaredInterface,
    DeclaredProperty,
    DeclaredType,
    Named,
    Note,
    Position,
    Problems,
)
from quire.graph.schema.parse import parse
from quire.graph.schema.type_rules import Rules, rules_of

SHORTHANDS = ("key", "unique", "index")
"""Annotations of a property that mean the same as the rule of the type with that property alone."""

NOT_KEPT = (*SHORTHANDS, "rename_from")
"""What is said by other means: rules, and ids that stay through renames."""

SEARCH = ("_distance", "_score")
"""Columns that searches add."""

ENDS = ("from", "to")
"""How data and statements name the ends of an edge."""


@dataclass(frozen=True)
class Resolved:
    """A type that makes sense. Its definition names the ends of an edge; ids of properties count from 1."""

    name: str
    definition: Definition
    at: Position
    was: str | None = None
    """The name before, from `@rename_from`."""
    properties_were: dict[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> Kind:
        return self.definition.kind


@dataclass(frozen=True)
class Schema:
    """A whole schema that makes sense: nodes first, each kind by name, as a catalog has them."""

    text: str
    interfaces: tuple[Interface, ...]
    types: tuple[Resolved, ...]


def resolve(declared: Declared) -> Schema:
    """Look up every name and check every rule; `InvalidSchema` lists all that is wrong."""
    problems = Problems(declared.file)
    _check_types(declared, problems)
    interfaces = {i.name: i for i in declared.interfaces}
    for interface in interfaces.values():
        _check_properties("node", interface.name, interface.properties, problems)
    types = [_resolved(d, declared, interfaces, problems) for d in (*declared.nodes, *declared.edges)]
    problems.check()
    types.sort(key=lambda t: (t.kind != "node", t.name))
    return Schema(declared.text, tuple(_interface(interfaces[name]) for name in sorted(interfaces)), tuple(types))


def catalog(text: str, *, file: str = "") -> Catalog:
    """The catalog of a schema that was not applied anywhere: the ids of its types are `kind:name`.

    >>> catalog("node Person { name: String @key }").node("Person").defined.key
    ('name',)
    """
    schema = resolve(parse(text, file=file))
    entities = [Entity(f"{t.kind}:{t.name}", t.name, ends(t.definition, "node:{}".format)) for t in schema.types]
    return Catalog(tuple(entities), schema.interfaces, text)


def ends(definition: Definition, id_of: Callable[[str], str]) -> Definition:
    """A definition whose ends are ids instead of names."""
    if definition.kind == "node":
        return definition
    return msgspec.structs.replace(definition, source=id_of(definition.source), target=id_of(definition.target))


# -- types ------------------------------------------------------------------------------------------------------------


def _check_types(declared: Declared, problems: Problems) -> None:
    """One name, one type: statements name node and edge types alike, and queries do not look at the case of edges."""
    seen: dict[str, DeclaredInterface | DeclaredType] = {}
    folded: dict[str, str] = {}
    every: list[DeclaredInterface | DeclaredType] = [*declared.interfaces, *declared.nodes, *declared.edges]
    for found in sorted(every, key=lambda d: d.at):
        add = partial(problems.add, found.at, type=found.name)
        if len(found.name) > LONGEST:
            add(f"The name {found.name[:20]}… has {len(found.name)} letters.", f"Use at most {LONGEST}.")
        if found.name in seen:
            add(f"{found.name} is declared twice; first in line {seen[found.name].at.line}.", "Rename one of them.")
        seen.setdefault(found.name, found)
        if isinstance(found, DeclaredType) and found.kind == "edge":
            other = folded.setdefault(found.name.lower(), found.name)
            if other != found.name:
                add(
                    f"Edges {other} and {found.name} differ in case alone; a query cannot tell them apart.",
                    "Rename one.",
                )
    _check_renames(declared.nodes, problems)
    _check_renames(declared.edges, problems)


def _check_renames(found: Sequence[DeclaredType | DeclaredProperty], problems: Problems) -> None:
    taken: dict[str, str] = {}
    for one in found:
        for note in _renames(one.notes):
            old = note.annotation.value
            if not isinstance(old, str) or not old or note.annotation.named:
                problems.add(note.at, "@rename_from takes the old name.", 'Write @rename_from("old").', type=one.name)
            elif old == one.name:
                problems.add(note.at, f"{one.name} cannot be renamed from itself.", "Leave it out.", type=one.name)
            elif taken.setdefault(old, one.name) != one.name:
                problems.add(
                    note.at, f"{taken[old]} and {one.name} are both renamed from {old}.", "Only one can.", type=one.name
                )


def _renames(notes: Iterable[Note]) -> Iterator[Note]:
    return (note for note in notes if note.name == "rename_from")


def _was(notes: Iterable[Note]) -> str | None:
    return next((str(note.annotation.value) for note in _renames(notes)), None)


def _resolved(
    found: DeclaredType, declared: Declared, interfaces: dict[str, DeclaredInterface], problems: Problems
) -> Resolved:
    implements = _implements(found, interfaces, problems)
    _check_properties(found.kind, found.name, found.properties, problems)
    _check_notes(found, problems)
    properties = _with_inherited(found, implements, problems)
    full = replace(found, properties=properties)
    rules = rules_of(full, problems)
    source, target = (_end(end, found, declared, problems) for end in (found.source, found.target))
    definition = _definition(full, rules, source, target)
    were = {p.name: was for p in properties if (was := _was(p.notes)) is not None}
    return Resolved(found.name, definition, found.at, _was(found.notes), were)


def _definition(found: DeclaredType, rules: Rules, source: str, target: str) -> Definition:
    properties = tuple(_property(n, p) for n, p in enumerate(found.properties, 1))
    return Definition(
        format=FORMAT,
        kind=found.kind,
        properties=properties,
        key=rules.key,
        unique=rules.unique,
        index=rules.index,
        ranges=rules.ranges,
        checks=rules.checks,
        annotations=_kept(found.notes),
        implements=tuple(dict.fromkeys(n.name for n in found.implements)),
        source=source,
        target=target,
        at_least=rules.at_least,
        at_most=rules.at_most,
        next_property=len(properties) + 1,
    )


def _property(number: int, found: DeclaredProperty) -> Property:
    return Property(number, found.name, found.type, _kept(found.notes))


def _interface(found: DeclaredInterface) -> Interface:
    """Rules of an interface's properties stay with it as annotations: it has no table of its own."""
    properties = [
        Property(n, p.name, p.type, tuple(note.annotation for note in p.notes if note.name != "rename_from"))
        for n, p in enumerate(found.properties, 1)
    ]
    return Interface(found.name, tuple(properties))


def _kept(notes: Iterable[Note]) -> tuple[Annotation, ...]:
    return tuple(note.annotation for note in notes if note.name not in NOT_KEPT)


def _end(end: Named | None, found: DeclaredType, declared: Declared, problems: Problems) -> str:
    if end is None:
        return ""
    nodes = [n.name for n in declared.nodes]
    if end.name not in nodes:
        others = [e.name for e in declared.edges] + [i.name for i in declared.interfaces]
        why = " An edge leads from node type to node type." if end.name in others else ""
        problems.add(
            end.at,
            f"Edge {found.name}: there is no node type {end.name!r}.{why}",
            nearest(end.name, nodes) or f"The node types are {', '.join(nodes) or 'none'}.",
            type=found.name,
        )
    return end.name


# -- properties -------------------------------------------------------------------------------------------------------


def _check_properties(kind: Kind, owner: str, found: Sequence[DeclaredProperty], problems: Problems) -> None:
    seen: dict[str, Position] = {}
    for prop in found:
        add = partial(problems.add, prop.at, type=owner, property=prop.name)
        if prop.name in seen:
            add(
                f"{owner} has two properties {prop.name!r}; first in line {seen[prop.name].line}.",
                "Rename one of them.",
            )
        seen.setdefault(prop.name, prop.at)
        if len(prop.name) > LONGEST:
            add(f"The name {prop.name[:20]}… has {len(prop.name)} letters.", f"Use at most {LONGEST}.")
        if prop.name in LANCE or prop.name in SEARCH:
            add(f"{owner}.{prop.name} has a name that Lance reserves for its own columns.", "Choose another name.")
        if kind == "edge" and prop.name in ENDS:
            add(f"{owner}.{prop.name}: {prop.name!r} names an end of the edge.", "Choose another name.")
        for value in sorted({v for v in prop.type.values if prop.type.values.count(v) > 1}):
            add(f"{owner}.{prop.name}: the enum has {value!r} twice.", "Leave one out.")
        for note in prop.notes:
            _check_shorthand(kind, owner, prop, note, problems)
    _check_renames(found, problems)


def _check_shorthand(kind: Kind, owner: str, prop: DeclaredProperty, note: Note, problems: Problems) -> None:
    add = partial(problems.add, note.at, type=owner, property=prop.name)
    if note.name in SHORTHANDS and (note.annotation.value is not None or note.annotation.named):
        add(f"@{note.name} of a property takes nothing.", f"Write @{note.name} alone.")
    if note.name in SHORTHANDS and kind == "edge" and prop.name in SYSTEM[1:]:
        add(f"A rule on {prop.name!r} is about the end of the edge, not about the property.", "Rename the property.")
    if note.name in ("range", "check"):
        add(f"@{note.name} is a rule of the type.", f"Write it on a line of its own: @{note.name}({prop.name}, …).")
    if note.name == "card":
        add("@card is a rule of an edge type.", "Write it after the ends: edge E: A -> B @card(0..1).")


def _check_notes(found: DeclaredType, problems: Problems) -> None:
    for note in found.notes:
        if note.name in (*SHORTHANDS, "range", "check", "embed", "default"):
            problems.add(
                note.at,
                f"@{note.name} on {found.name} does not say which property it is about.",
                f"Write it behind a property, or in the body: @{note.name}(…).",
                type=found.name,
            )
        if note.name == "card":
            problems.add(
                note.at,
                f"@card on {found.name} needs its bounds, and belongs to edge types.",
                "Write edge E: A -> B @card(0..1).",
                type=found.name,
            )


# -- interfaces -------------------------------------------------------------------------------------------------------


def _implements(
    found: DeclaredType, interfaces: dict[str, DeclaredInterface], problems: Problems
) -> list[DeclaredInterface]:
    known = []
    for name in found.implements:
        if name.name in interfaces:
            known.append(interfaces[name.name])
            continue
        problems.add(
            name.at,
            f"{found.name} implements {name.name!r}, which is not an interface.",
            nearest(name.name, interfaces) or f"The interfaces are {', '.join(interfaces) or 'none'}.",
            type=found.name,
        )
    return known


def _with_inherited(
    found: DeclaredType, implements: Sequence[DeclaredInterface], problems: Problems
) -> tuple[DeclaredProperty, ...]:
    """The properties of the interfaces, in their order, and then the type's own.

    A property may be repeated with the same type. What the type itself says of it counts, besides the rules that the
    interface puts on it.
    """
    own = {p.name: p for p in found.properties}
    result: dict[str, DeclaredProperty] = {}
    by: dict[str, str] = {}
    for interface in implements:
        for prop in interface.properties:
            before = result.get(prop.name)
            if before is not None and before.type != prop.type:
                problems.add(
                    found.at,
                    f"{found.name} cannot implement both {by[prop.name]} and {interface.name}: {prop.name} is "
                    f"{before.type} in the one and {prop.type} in the other.",
                    "Give it one type, or another name in one of them.",
                    type=found.name,
                    property=prop.name,
                )
            by.setdefault(prop.name, interface.name)
            result[prop.name] = _both(before, prop) if before is not None else prop
    for name, prop in own.items():
        inherited = result.get(name)
        if inherited is not None and inherited.type != prop.type:
            problems.add(
                prop.at,
                f"{found.name}.{name} is {prop.type}, but {by[name]} declares it as {inherited.type}.",
                "Use the interface's type, or another name.",
                type=found.name,
                property=name,
            )
        result[name] = _both(prop, inherited) if inherited is not None else prop
    return tuple(result.values())


def _both(own: DeclaredProperty, other: DeclaredProperty) -> DeclaredProperty:
    """A property with the rules that another declaration of it adds; of annotations only its own count."""
    have = {note.name for note in own.notes}
    more = [note for note in other.notes if note.name in NOT_KEPT and note.name not in have]
    return replace(own, notes=(*own.notes, *more))
