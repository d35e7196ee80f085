"""What is wrong with rows that break a rule together, said alike by whoever finds it, here or elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from quire.graph.catalog import Entity
from quire.graph.integrity.violations import Violation

End = Literal["src", "dst"]


def not_unique(entity: Entity, names: Sequence[str], values: Sequence[Any], id: str | None) -> Violation:
    said = ", ".join(f"{n} = {v!r}" for n, v in zip(names, values, strict=True))
    what = f"{entity.name} {id!r}: {said} is unique, and another row has it too."
    return Violation(entity.name, "unique", what, id=id, property=", ".join(names))


def no_end(edge: Entity, end: str, node: Entity, id: str, value: str) -> Violation:
    side = side_of(end)
    what = f"{edge.name} {id!r}: {side} is the {node.name} {value!r}, which does not exist."
    return Violation(edge.name, "end", what, id=id, property=side)


def left_behind(edge: Entity, end: str, node: Entity, id: str, value: str) -> Violation:
    way = "leaves" if end == "src" else "leads to"
    what = f"{edge.name} {id!r} {way} the {node.name} {value!r}, which is removed."
    return Violation(edge.name, "orphan", what, id=id, property=side_of(end))


def too_many(edge: Entity, source: str, number: int, id: str | None) -> Violation:
    what = f"{number} {edge.name} edges leave {source!r}, and at most {edge.defined.at_most} may."
    return Violation(edge.name, "card", what, id=id, property="from")


def too_few(edge: Entity, node: Entity, id: str, number: int) -> Violation:
    what = f"{number} {edge.name} edges leave the {node.name} {id!r}, and at least {edge.defined.at_least} must."
    return Violation(node.name, "card", what, id=id, property=edge.name)


def side_of(end: str) -> str:
    """An end of an edge as data names it."""
    return "from" if end == "src" else "to"
