"""A transaction as other processes see it: which rows came, which are gone, and where all of them lie.

Only names of places and numbers of fragments are told. Whoever gets them reads the rows, and asks the same questions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from quire.formats import Parts, Place, task_table, tasks
from quire.graph.catalog import Catalog, Definition, Entity
from quire.graph.integrity.changes import Changed, Looks
from quire.graph.integrity.held_rows import Held
from quire.graph.integrity.set_rules import ask_all
from quire.graph.integrity.violations import Violations

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.formats import View


@dataclass(frozen=True)
class Type:
    """One type as a transaction leaves it."""

    entity: Entity
    now: Place
    parts: Parts
    """Its fragments, with their rows."""
    base: Place | None = None
    """Where it was before; None where it is not changed."""
    came: Parts = field(default_factory=list)
    """Fragments of `now` that are new."""
    gone: Parts = field(default_factory=list)
    """Fragments of `base` of which rows are gone."""
    replaced: bool = False
    """Whether everything that was there is."""
    keys: tuple[str, ...] = ()
    """The columns that rules go by."""

    @property
    def rows(self) -> int:
        """How many rows came and went."""
        return sum(rows for _, rows in (*self.came, *self.gone))

    @property
    def kept(self) -> Parts:
        """Fragments that were there before."""
        new = {number for number, _ in self.came}
        return [(number, rows) for number, rows in self.parts if number not in new]

    def came_rows(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return task_table(self.now).read_rows([number for number, _ in self.came], columns, None)

    def gone_rows(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        assert self.base is not None
        for number, _ in self.gone:
            yield from task_table(self.base).gone_rows(self.now, number, columns)


@dataclass(frozen=True)
class Sent:
    """The types that a transaction changes, and those that its rules look at."""

    catalog: Catalog
    changed: tuple[str, ...]
    """Ids, in the order of the catalog."""
    types: dict[str, Type]

    @property
    def rows(self) -> int:
        """How many rows came and went."""
        return sum(self.types[id].rows for id in self.changed)

    def check(self, most: int) -> Violations:
        """What is wrong with the rows together. They are read here, so it is for few of them."""
        found = Violations(most)
        changed = [_Change(self.types[id]) for id in self.changed]
        ask_all(self.catalog, changed, _Tables(self, {one.entity.id: one for one in changed}), found)
        return found


def sent(catalog: Catalog, changed: Sequence[Changed], looks: Looks) -> Sent:
    """What another process has to know to judge a transaction. Rows that it wrote are staged."""
    types = {one.entity.id: sent_type(one, looks) for one in changed}
    for entity in _others(catalog, types):
        if entity.id not in types:
            view: Any = looks.at(entity)
            types[entity.id] = Type(entity, view.place(), view.parts())
    return Sent(catalog, tuple(one.entity.id for one in changed), types)


def sent_type(one: Changed, looks: Looks) -> Type:
    """The same of one type that is changed."""
    now: Any = looks.at(one.entity)
    base: Any = one.table.base()
    gone, came = now.parts_since(base)
    return Type(one.entity, now.place(), now.parts(), base.place(), came, gone, one.table.replaced, tuple(one.keys))


def _others(catalog: Catalog, types: dict[str, Type]) -> Iterator[Entity]:
    """The types beside changed ones that rules look at."""
    for one in list(types.values()):
        if one.entity.kind == "edge":
            yield catalog.source(one.entity)
            yield catalog.target(one.entity)
        elif one.gone:
            yield from (edge for edge, _ in catalog.touching(one.entity))
    for edge in catalog.edges:
        if edge.defined.at_least and {edge.id, edge.defined.source} & types.keys():
            yield edge
            yield catalog.source(edge)


# -- where it is read -------------------------------------------------------------------------------------------------


@dataclass
class _Change:
    """The rows of a type that came and that are gone, read when they are asked for."""

    type: Type
    all_together: bool = False

    @property
    def entity(self) -> Entity:
        return self.type.entity

    @property
    def before(self) -> Definition | None:
        return self.entity.defined  # rules do not change where rows are written by others

    @cached_property
    def came(self) -> pa.Table:
        return self._table(self.type.came_rows(self.type.keys))

    @cached_property
    def gone(self) -> pa.Table:
        return self._table(self.type.gone_rows(self.type.keys))

    @property
    def added(self) -> pa.Table:
        return self.came

    def _table(self, batches: Iterator[pa.RecordBatch]) -> pa.Table:
        import pyarrow as pa

        return pa.Table.from_batches(batches, schema=tasks.key_schema(self.type.now, self.type.keys))


@dataclass
class _Tables:
    sent: Sent
    changed: dict[str, _Change]

    def at(self, entity: Entity) -> View:
        return task_table(self.sent.types[entity.id].now).view(entity.table)

    def held(self, entity: Entity) -> Held:
        one = self.changed.get(entity.id)
        if one is None or one.type.replaced or one.type.base is None:
            return Held(self.at(entity))
        return Held(task_table(one.type.base).view(entity.table), one.came, one.gone)
