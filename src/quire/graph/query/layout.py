"""Where everything lies: each variable is a relation, and each of its columns has one name in all of the SQL.

Names are made of numbers, so that nothing a user wrote is part of them, and names that differ in case alone stay apart.
As no two columns share a name, a block of the query sees the variables of the blocks around it by name alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from quire.errors import CorruptRecord
from quire.graph.catalog import Entity, Property
from quire.graph.language import plan


@dataclass(frozen=True)
class EntityColumns:
    """A variable as a relation: its name in the SQL, and its columns by what is stored."""

    number: int
    variable: str
    entity: Entity
    properties: tuple[Property, ...]

    @property
    def relation(self) -> str:
        return f"s{self.number}"

    @property
    def columns(self) -> dict[str, str]:
        """Names in the SQL, with the stored columns they show."""
        found = {f"v{self.number}_{column}": column for column in self.entity.system}
        return found | {f"v{self.number}_{p.id}": p.column for p in self.properties}


class Layout:
    """The places of all variables of a read."""

    def __init__(self, read: plan.Read) -> None:
        self.places = {
            name: EntityColumns(number, name, needs.entity, needs.properties)
            for number, (name, needs) in enumerate(read.needs.items())
        }
        self.members = {s.variable: s.members for b in blocks(read.block) for s in b.scans if s.members}
        """Variables of an interface: nothing is read of them but of their types."""
        self.implied: dict[str, str] = {}
        """Nodes that are not read, with the column of an edge that is their id (`implied_nodes`)."""
        others = [*(p.path for p in _paths(read.block)), *(c.name for b in blocks(read.block) for c in b.counts)]
        self._paths = {name: len(self.places) + n for n, name in enumerate(others)}
        """Of paths and counts."""

    def place(self, variable: str) -> EntityColumns:
        return self.places[variable]

    def system(self, variable: str, column: str) -> str:
        """The column of an id, or of an end of an edge."""
        if variable in self.implied:
            return self.implied[variable]
        return f"v{self.places[variable].number}_{column}"

    def property(self, variable: str, prop: Property) -> str:
        """The column of a property."""
        place = self.places[variable]
        if prop.id not in {p.id for p in place.properties}:
            raise CorruptRecord(
                f"The plan uses {place.entity.name}.{prop.name} without declaring it.",
                next="Check the query again and run the plan that this gives.",
                property=prop.name,
            )
        if variable in self.implied:
            return self.implied[variable]  # of its properties only one is asked for, which is the id
        return f"v{place.number}_{prop.id}"

    def number(self, variable: str) -> int:
        """What all columns of a variable begin with, after a `v`."""
        return self.places[variable].number if variable in self.places else self._paths[variable]

    def path(self, variable: str, what: str) -> str:
        """The column of a path's `length` or `nodes`, or of a `count`."""
        return f"v{self._paths[variable]}_{what}"


def _paths(block: plan.Block) -> Iterator[plan.Shortest]:
    for inner in blocks(block):
        yield from inner.paths


def blocks(block: plan.Block) -> Iterator[plan.Block]:
    """A block and all blocks in it."""
    yield block
    for condition in (*block.conditions, *block.after):
        if isinstance(condition, plan.Without):
            yield from blocks(condition.block)
        elif isinstance(condition, plan.Either):
            for one in condition.blocks:
                yield from blocks(one)
    for inner in (*(p.block for p in block.optional), *(c.block for c in block.counts)):
        yield from blocks(inner)


def variables(term: object) -> set[str]:
    """The variables that an expression or a predicate uses."""
    if isinstance(term, plan.Field | plan.System | plan.Whole | plan.PathLength | plan.PathNodes | plan.CountOf):
        return {term.variable}
    if isinstance(term, plan.Contains | plan.StartsWith | plan.Compare | plan.Arithmetic):
        return variables(term.left) | variables(term.right)
    if isinstance(term, plan.In):
        return variables(term.operand) | variables(term.options)
    if isinstance(term, plan.IsNull | plan.Negate):
        return variables(term.operand)
    if isinstance(term, plan.Matches):
        return variables(term.match)
    if isinstance(term, plan.TextMatch | plan.Bm25 | plan.Nearest):
        return variables(term.field)
    if isinstance(term, plan.Rrf):
        return variables(term.first) | variables(term.second)
    if isinstance(term, plan.Function):
        return set().union(*(variables(item) for item in term.arguments))
    if isinstance(term, plan.Case):
        return variables(term.otherwise).union(*(variables(branch) for branch in term.branches))
    if isinstance(term, plan.When):
        return variables(term.value).union(*(variables(condition) for condition in term.conditions))
    if isinstance(term, plan.ListOf):
        return set().union(*(variables(item) for item in term.items))
    if isinstance(term, plan.Aggregate):
        return variables(term.argument)
    return set()
