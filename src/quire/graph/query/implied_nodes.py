"""Nodes that need not be read: every edge has both its ends, so the edge says all that a query asks of them.

A node variable is implied where an edge of its own block gives its id, and the query wants nothing of it but the id, or
a key that is the id. The SQL then takes the edge's `src` or `dst` for it, and one join less is made. Rules keep edges
without ends out of every commit, so the answer is the same. A table that does not show all of its rows to the reader
implies nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from quire.graph.language import plan
from quire.graph.query.layout import blocks, variables
from quire.graph.query.sql.walks import is_single
from quire.lake.handles import shows_all

if TYPE_CHECKING:
    from quire.graph.catalog import Entity, Property
    from quire.graph.query.prepare import Prepared


def imply(prepared: Prepared) -> None:
    """Find the nodes that edges imply, and let the layout take their ids from there."""
    read, layout = prepared.read, prepared.layout
    needed = set(_needed(read))
    for block in blocks(read.block):
        for scan in block.scans:
            name, place = scan.variable, layout.place(scan.variable)
            if name in layout.members or name in needed or not all(_is_id(place.entity, p) for p in place.properties):
                continue
            column = next((found for step in block.expansions if (found := _column(prepared, step, name))), None)
            if column is None or not shows_all(prepared.sources[name].table(prepared.snapshot)):
                continue
            layout.implied[name] = column
            for condition in prepared.sources[name].conditions:
                prepared.pushed.discard(id(condition))


def known_ids(prepared: Prepared, variable: str) -> set[str] | None:
    """The ids that the conditions of an implied node leave, where they name them."""
    found: set[str] | None = None
    for condition in prepared.sources[variable].conditions:
        ids = named_ids(prepared, variable, condition)
        if ids is not None:
            found = ids if found is None else found & ids
    return found


def named_ids(prepared: Prepared, variable: str, condition: plan.Condition) -> set[str] | None:
    """The ids that one condition leaves an implied node; None where it names none, or is about another."""
    known = prepared.known
    if isinstance(condition, plan.Compare) and condition.operator == "=":
        for one, other in ((condition.left, condition.right), (condition.right, condition.left)):
            if variables(one) == {variable} and known.holds(other):
                value = known.value(other)
                return set() if value is None else {value}
    if isinstance(condition, plan.In) and variables(condition.operand) == {variable} and known.holds(condition.options):
        return {value for value in known.value(condition.options) or () if value is not None}
    return None


def _is_id(entity: Entity, prop: Property) -> bool:
    """Whether the id of a node is the text of this property."""
    return entity.defined.key == (prop.name,) and prop.type.base == "String"


def _column(prepared: Prepared, step: plan.Expand, variable: str) -> str | None:
    """The column in which a step says which node is at one of its ends."""
    if not is_single(step) or variable not in (step.source, step.target):
        return None
    at_source = variable == step.source
    if step.bound and step.direction == "either":
        return f"w{prepared.layout.place(step.edge).number}_{'a' if at_source else 'b'}"
    forward = step.direction != "backward"
    return prepared.layout.system(step.edge, "src" if at_source == forward else "dst")


def _needed(read: plan.Read) -> Iterator[str]:
    """Nodes whose relation the SQL names by itself: ends of walks and paths, and what alternatives share."""
    for block in blocks(read.block):
        for step in (*block.expansions, *(p.step for p in block.paths)):
            if not is_single(step) or any(step is p.step for p in block.paths):
                yield from (step.source, step.target)
        for condition in (*block.conditions, *block.after):
            if isinstance(condition, plan.Either):
                yield from condition.shared
