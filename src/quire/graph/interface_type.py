"""An interface as the type of a variable: `$x: Slugged` is any node of a type that implements it.

Ids of two types may be alike, so a node is known by its type and its id together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from quire.graph.catalog import FORMAT, Catalog, Definition, Entity


@dataclass(frozen=True)
class InterfaceType(Entity):
    """What an interface has, and the node types that have it. It has no table of its own."""

    members: tuple[Entity, ...] = ()

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def system(self) -> tuple[str, ...]:
        """`id` tells nodes apart, whatever their types; `own` is the id within the type `type`."""
        return ("id", "own", "type")

    @property
    def returned(self) -> tuple[str, ...]:
        return ("own", "type")

    @cached_property
    def shown(self) -> Mapping[str, str]:
        """Of what is returned besides properties; those have no columns here."""
        given = {"own": "id", "type": "type"}
        return {column: f"@{name}" if name in self.properties else name for column, name in given.items()}


def interface_type(catalog: Catalog, name: str) -> InterfaceType | None:
    """The type of variables that are matched by an interface; None where there is none of this name."""
    found = catalog.interface(name)
    if found is None:
        return None
    defined = Definition(FORMAT, "node", found.properties)
    return InterfaceType(f"interface:{name}", name, defined, tuple(catalog.implementing(name)))


def fits(entity: Entity, type: Entity) -> bool:
    """Whether what is matched as the one may be a node of the other."""
    members = entity.members if isinstance(entity, InterfaceType) else (entity,)
    return any(member.id == type.id for member in members)
