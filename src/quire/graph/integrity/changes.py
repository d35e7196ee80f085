"""What a transaction does to the types of a graph: which rows are new, which are gone, and which rules are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from quire.graph.catalog import STORED, VALIDATOR, Catalog, Definition, Entity, Range
from quire.graph.integrity.held_rows import Held
from quire.lake.commit.validators import Proposal
from quire.lake.handles import need_rows
from quire.store import run_parallel

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.formats import View
    from quire.lake.commit.transaction import Transaction
    from quire.lake.commit.validators import ProposedTable


def catalog_of(tx: Transaction) -> Catalog:
    """The types of the graph as a transaction leaves them. What rests on it is looked at again when a schema lands."""
    proposal = Proposal(tx)
    stored = proposal.names.get(STORED)
    if stored is not None:
        proposal.rest_on(stored)
    return Catalog.of(proposal.infos())


@dataclass
class Looks:
    """Tables as the transaction leaves them.

    Each that is looked at is noted: when it moves before the commit lands, the validator is called again. It is no
    read of the program's, so statements may still be run again on a newer base.
    """

    tx: Transaction
    seen: set[str] = field(default_factory=set)
    """Ids of the tables that were looked at."""
    _changed: dict[str, Changed] = field(default_factory=dict)
    _held: dict[str, Held] = field(default_factory=dict)

    @property
    def proposal(self) -> Proposal:
        return Proposal(self.tx)

    def at(self, entity: Entity) -> View:
        """The rows of a type. What this transaction wrote to it is staged."""
        self._note(entity)
        return self.proposal.table(entity.id).view()

    def held(self, entity: Entity) -> Held:
        """What a type holds, without staging what this transaction only adds, replaces or deletes."""
        found = self._held.get(entity.id)
        if found is None:
            table = self.proposal.table(entity.id)
            if table.before is None or table.replaced or not table.has_new_rows:
                found = Held(self.at(entity))
            else:
                self._note(entity)
                one = self._changed.setdefault(entity.id, Changed(self.proposal, entity, table))
                found = Held(table.base(), one.came, one.gone)
            self._held[entity.id] = found
        return found

    def _note(self, entity: Entity) -> None:
        if entity.id not in self.seen:
            self._check_sight(entity)
        self.seen.add(entity.id)
        self.proposal.rest_on(entity.id)

    def _check_sight(self, entity: Entity) -> None:
        """Refuse where the answer of a rule would tell an actor of rows that it does not see."""
        own = self.tx.edits.get(entity.id)
        columns = list(entity.system)
        if own is not None and own.changed:
            columns += [p.column for p in entity.defined.properties]
        written = next((edit.info.name for edit in self.tx.edits.values() if edit.changed), entity.table)
        need_rows(self.tx, entity.id, columns, written)

    def follow(self, changed: Sequence[Changed]) -> None:
        """Read what came and what is gone of types, side by side."""
        self._changed = {one.entity.id: one for one in changed}
        run_parallel([one.read for one in changed])


@dataclass
class Changed:
    """One type whose table a transaction changes."""

    proposal: Proposal
    entity: Entity
    table: ProposedTable
    _read: tuple[pa.Table, pa.Table] | None = None

    @cached_property
    def before(self) -> Definition | None:
        """Its definition on the base, or None when the type is new."""
        before = self.table.before
        if before is None or before.validator != VALIDATOR:
            return None
        return msgspec.json.decode(before.rules, type=Definition)

    @cached_property
    def all_rows(self) -> bool:
        """Whether every row has to be looked at by itself: the type is new, or stricter with a row than before."""
        return self.before is None or stricter_rows(self.entity.defined, self.before)

    @cached_property
    def all_together(self) -> bool:
        """Whether all rows have to be looked at together: the type is new, or stricter with them than before."""
        return self.before is None or stricter_together(self.entity.defined, self.before)

    @cached_property
    def added(self) -> pa.Table:
        """Keys of the rows to look at together: those that came, or all of them."""
        if self.all_together:
            return self.table.view().scan(columns=self.keys).read_all()
        return self.came

    def read(self) -> tuple[pa.Table, pa.Table]:
        """Keys of rows that are new or written anew, and of rows of the base that are gone or replaced."""
        # Not a cached property: those of all objects share one lock, and types are read side by side.
        if self._read is None:
            delta = self.table.delta(self.keys)
            self._read = delta.added.read_all(), delta.removed.read_all()
        return self._read

    @property
    def came(self) -> pa.Table:
        return self.read()[0]

    @property
    def gone(self) -> pa.Table:
        return self.read()[1]

    @cached_property
    def keys(self) -> list[str]:
        """The system columns, and those that must be unique."""
        unique = [c for names in self.entity.defined.unique for c in self.entity.columns(names)]
        return list(dict.fromkeys([*self.entity.system, *unique]))

    def rows(self, columns: Sequence[str]) -> pa.RecordBatchReader:
        """Columns of the rows that have to be looked at by themselves."""
        if self.all_rows:
            return self.table.view().scan(columns=list(columns))
        return self.table.delta(list(columns)).added


def changed_types(proposal: Proposal, catalog: Catalog, tables: Sequence[str]) -> list[Changed]:
    """The types among tables that a transaction changes and keeps."""
    wanted = set(tables)
    return [Changed(proposal, e, proposal.table(e.id)) for e in catalog.entities if e.table in wanted]


# -- rules ------------------------------------------------------------------------------------------------------------


def stricter_rows(now: Definition, before: Definition) -> bool:
    """Whether a row by itself may break rules that it kept before: what was only relaxed cannot be broken."""
    was = {p.id: p.type for p in before.properties}
    for prop in now.properties:
        old = was.get(prop.id)
        if not prop.type.optional and (old is None or old.optional):
            return True
        values = set(prop.type.values)
        if prop.type.base == "enum" and (old is None or old.base != "enum" or not values >= set(old.values)):
            return True
    kept = {_by_id(before, r.property): r for r in before.ranges}
    if any(_narrower(r, kept.get(_by_id(now, r.property))) for r in now.ranges):
        return True
    checks = {(_by_id(before, c.property), c.pattern) for c in before.checks}
    if any((_by_id(now, c.property), c.pattern) not in checks for c in now.checks):
        return True
    return _ids(now, now.key) != _ids(before, before.key)


def stricter_together(now: Definition, before: Definition) -> bool:
    """The same for rules that rows keep together."""
    if (now.source, now.target) != (before.source, before.target) or _ids(now, now.key) != _ids(before, before.key):
        return True
    unique = [set(_ids(before, names)) for names in before.unique]
    if not all(any(old <= set(_ids(now, names)) for old in unique) for names in now.unique):
        return True
    if now.at_least > before.at_least:
        return True
    return now.at_most is not None and (before.at_most is None or now.at_most < before.at_most)


def _narrower(now: Range, before: Range | None) -> bool:
    if before is None:
        return True
    low = now.low is not None and (before.low is None or now.low > before.low)
    return low or (now.high is not None and (before.high is None or now.high < before.high))


def _by_id(defined: Definition, name: str) -> int | str:
    """A property by its id, so that a rename makes no new rule; an end of an edge by its name."""
    return next((p.id for p in defined.properties if p.name == name), name)


def _ids(defined: Definition, names: Sequence[str]) -> tuple[int | str, ...]:
    return tuple(_by_id(defined, name) for name in names)
