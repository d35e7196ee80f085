"""Building the indexes of a type in the load that brings the rows that they wait for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from quire.graph.integrity.lookups import is_null, negated
from quire.graph.schema.indexes import Index, wanted
from quire.lake.commit.validators import Proposal

if TYPE_CHECKING:
    from quire.formats import View
    from quire.graph.catalog import Entity
    from quire.lake.commit.transaction import Transaction

ENOUGH = 8_192
"""Fewer vectors are compared one by one as quickly."""
OUTGROWN = 4
"""So many times the rows that it covers: then an index is trained again."""


def build(tx: Transaction, entity: Entity, rows: int) -> list[str]:
    """Build the indexes that a type asks for now that so many rows were added; their names.

    What is looked at is no read of the program's, and little is while rows are few.
    """
    asked = [index for index in wanted(entity).values() if index.needs_rows]
    table = Proposal(tx).table(entity.id)
    if not asked or rows + table.rows_before < ENOUGH:
        return []
    view = table.view()
    there = {index["name"]: index["rows_indexed"] for index in view.indexes()}
    due = [index for index in asked if _is_due(view, index, there.get(index.name))]
    return _built(tx, entity, due)


def rebuild(tx: Transaction, entity: Entity) -> list[str]:
    """The same for a table that was overwritten, and has lost all of its indexes."""
    view = Proposal(tx).table(entity.id).view()
    due = [index for index in wanted(entity).values() if not index.needs_rows or _is_due(view, index, None)]
    return _built(tx, entity, due)


def _built(tx: Transaction, entity: Entity, due: Sequence[Index]) -> list[str]:
    for index in due:
        tx[entity.table].create_index(index.column, index.kind, name=index.name, replace=True, **index.options)
    return [index.name for index in due]


def _is_due(view: View, index: Index, covered: int | None) -> bool:
    rows = view.count()
    if rows < ENOUGH or (covered is not None and rows < OUTGROWN * max(1, covered)):
        return False
    return view.count(negated(is_null(index.column))) >= ENOUGH
