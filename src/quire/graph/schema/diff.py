"""What a new schema changes, type by type and property by property, told apart by identity and not by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from quire.graph.catalog import Catalog, Definition, Entity, Kind, Property
from quire.graph.schema.resolve import Resolved, Schema
from quire.graph.schema.steps import Refusal

T = TypeVar("T")

WIDENS = {("I32", "I64"), ("U32", "U64"), ("F32", "F64"), ("U32", "I64")}
"""Changes of a number type that lose nothing."""


@dataclass(frozen=True)
class PropertyChange:
    """A property before and after; None where there was or will be none."""

    old: Property | None
    new: Property | None

    @property
    def kept(self) -> tuple[Property, Property] | None:
        return (self.old, self.new) if self.old is not None and self.new is not None else None


@dataclass(frozen=True)
class TypeChange:
    """A type before and after. Ends of an edge are ids where the node type is there already, names where it is new."""

    kind: Kind
    name: str
    """The name after, or before when it is dropped."""
    old: Entity | None
    new: Definition | None
    properties: tuple[PropertyChange, ...] = ()

    @property
    def table(self) -> str:
        """Its table as it is named before the change; for a new type, after it."""
        return self.old.table if self.old is not None else f"{self.kind}:{self.name}"

    @property
    def changed(self) -> bool:
        """Whether the type itself is new, or its definition or name changes."""
        return self.old is None or self.old.name != self.name or self.old.defined != self.new

    def added(self) -> Iterator[Property]:
        """Properties that come."""
        return (c.new for c in self.properties if c.new is not None and c.old is None)

    def dropped(self) -> Iterator[Property]:
        """Properties that go."""
        return (c.old for c in self.properties if c.old is not None and c.new is None)

    def kept(self) -> Iterator[tuple[Property, Property]]:
        """Properties that stay, before and after."""
        return (pair for c in self.properties if (pair := c.kept) is not None)

    def remade(self) -> Iterator[tuple[Property, Property]]:
        """Vectors that `@embed` makes from another text, or by another model, than those that are there.

        A model that is named for the first time says which one it was.
        """
        before = {p.name: p.id for p in self.old.defined.properties} if self.old is not None else {}
        after = {p.name: p.id for p in self.new.properties} if self.new is not None else {}
        for old, new in self.kept():
            was, now = old.annotation("embed"), new.annotation("embed")
            if was is None or now is None:
                continue
            model = was.named.get("model")
            moved = before[str(was.value)] != after[str(now.value)]
            if moved or (model is not None and model != now.named.get("model")):
                yield old, new

    def before(self, name: str) -> Property | None:
        """What a property of the new type was before."""
        return next((c.old for c in self.properties if c.new is not None and c.new.name == name), None)


def compare(old: Catalog, schema: Schema) -> tuple[list[TypeChange], list[Refusal]]:
    """Every type of both, paired; and renames that cannot be understood."""
    refusals: list[Refusal] = []
    pairs: list[tuple[Resolved, Entity | None]] = []
    for kind in ("node", "edge"):
        known = {e.name: e for e in old.entities if e.kind == kind}
        wanted = [t for t in schema.types if t.kind == kind]
        was = {t.name: t.was for t in wanted if t.was}
        before = _before(was, [t.name for t in wanted], known)
        refusals += [_exchanged(names) for names in _cycles(was, known)]
        for found in wanted:
            if _contested(found.was, found.name, before, known):
                refusals.append(_both_named(found.name, str(found.was)))
            pairs.append((found, before.get(found.name)))
    ids = {t.name: e.id for t, e in pairs if e is not None and t.kind == "node"}
    changes = [_type_change(found, entity, ids, refusals) for found, entity in pairs]
    there = {c.old.id for c in changes if c.old is not None}
    gone = [TypeChange(e.kind, e.name, e, None, _all_dropped(e)) for e in old.entities if e.id not in there]
    return [*gone, *changes], refusals


def _before(was: Mapping[str, str], names: Sequence[str], known: Mapping[str, T]) -> dict[str, T]:
    """Which known thing each name continues.

    A name that is known continues itself, so that a file with `@rename_from` can be applied again.
    """
    found = {name: known[name] for name in names if name in known}
    for name, old in was.items():
        if name not in found and old in known and old not in found:
            found[name] = known[old]
    return found


def _cycles(was: Mapping[str, str], known: Mapping[str, object]) -> list[list[str]]:
    """Known names that renames pass around, each round once. Every one of them would continue itself."""
    found: list[list[str]] = []
    seen: set[str] = set()
    for first in was:
        names = [first]
        while (old := was.get(names[-1])) is not None and old in known and old not in names:
            names.append(old)
        closed = len(names) > 1 and was.get(names[-1]) == first and first in known
        if closed and first not in seen:
            found.append(names)
            seen.update(names)
    return found


def _exchanged(names: Sequence[str], type: str = "") -> Refusal:
    owner = f"{type}." if type else ""
    listed = ", ".join(f"{owner}{name}" for name in names)
    return Refusal(
        "rename-cycle",
        type or names[0],
        f"{listed} are renamed from each other, and all these names exist already.",
        "Rename in two steps: all of them to new names first, and from those in the next schema.",
        property=names[0] if type else "",
    )


def _contested(was: str | None, name: str, before: Mapping[str, T], known: Mapping[str, T]) -> bool:
    """Whether a rename starts from a name that is still in use, or both names are and one would go unasked."""
    return was is not None and was in known and (name not in before or (name in known and was not in before))


def _both_named(name: str, was: str, type: str = "") -> Refusal:
    owner = f"{type}." if type else ""
    return Refusal(
        "rename-source-kept",
        type or name,
        f"{owner}{name} is renamed from {owner}{was}, which the schema still declares.",
        f"Take {was} out of the schema, or leave @rename_from out.",
        property=name if type else "",
    )


def _type_change(found: Resolved, entity: Entity | None, ids: Mapping[str, str], refusals: list[Refusal]) -> TypeChange:
    wanted = found.definition.properties
    known = dict(entity.properties) if entity is not None else {}
    before = _before(found.properties_were, [p.name for p in wanted], known)
    refusals += [_exchanged(names, found.name) for names in _cycles(found.properties_were, known)]
    for name, was in found.properties_were.items():
        if _contested(was, name, before, known):
            refusals.append(_both_named(name, was, found.name))
    number = entity.defined.next_property if entity is not None else 1
    changes = []
    for prop in wanted:
        old = before.get(prop.name)
        changes.append(PropertyChange(old, msgspec.structs.replace(prop, id=old.id if old else number)))
        number += old is None
    kept = {c.old.name for c in changes if c.old is not None}
    changes += [PropertyChange(p, None) for p in known.values() if p.name not in kept]
    definition = msgspec.structs.replace(
        found.definition,
        properties=tuple(c.new for c in changes if c.new is not None),
        next_property=number,
        source=ids.get(found.definition.source, found.definition.source),
        target=ids.get(found.definition.target, found.definition.target),
    )
    return TypeChange(found.kind, found.name, entity, definition, tuple(changes))


def _all_dropped(entity: Entity) -> tuple[PropertyChange, ...]:
    return tuple(PropertyChange(p, None) for p in entity.defined.properties)


def retyped(old: Property, new: Property) -> bool:
    """Whether the values of a property are stored in another way."""
    return old.type.bare != new.type.bare and not (old.type.is_text and new.type.is_text)


def allowed(old: Property, new: Property) -> bool:
    """Whether the type of a property may change so. Between texts the rows decide; numbers may only widen."""
    if not retyped(old, new):
        return True
    return old.type.many == new.type.many and (old.type.base, new.type.base) in WIDENS
