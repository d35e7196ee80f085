"""What is asked of a variable of an interface, asked of the types that implement it."""

from __future__ import annotations

import dataclasses
from typing import TypeVar

from quire.graph.catalog import Entity
from quire.graph.language import plan
from quire.graph.query.layout import Layout

P = TypeVar("P")


def of_members(layout: Layout, variable: str, condition: plan.Condition) -> list[tuple[str, plan.Condition]]:
    """A condition on one variable, by the variables whose rows are read for it."""
    members = layout.members.get(variable)
    if members is None:
        return [(variable, condition)]
    return [(member.variable, _asked(condition, variable, member)) for member in members]


def _asked(part: P, variable: str, member: plan.Member) -> P:
    """A part of a condition with the properties and the id of a member. What tells types apart stays as it is: no scan
    of one type takes it."""
    if isinstance(part, plan.Field) and part.variable == variable:
        found = member.entity.properties[part.property.name]
        return dataclasses.replace(part, variable=member.variable, property=found)
    if isinstance(part, plan.System) and part.variable == variable:
        return dataclasses.replace(part, variable=member.variable, column="id") if part.column == "own" else part
    if isinstance(part, tuple):
        return type(part)(_asked(item, variable, member) for item in part)
    if dataclasses.is_dataclass(part) and not isinstance(part, Entity | type):
        names = [field.name for field in dataclasses.fields(part)]
        return dataclasses.replace(part, **{name: _asked(getattr(part, name), variable, member) for name in names})
    return part
