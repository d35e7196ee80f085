"""Indexes after a load: one that is trained on rows is built, in the same commit, when there are enough to learn from.

All others are there from the beginning. A vector that an index does not cover is found without it, so none is built for
few vectors; and one that was trained on few is trained again when the type has outgrown it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from quire.graph.integrity.filters import is_null, negated
from quire.graph.schema.indexes import Index, wanted

if TYPE_CHECKING:
    from quire.formats import View
    from quire.graph.catalog import Entity
    from quire.lake.transaction import Transaction

ENOUGH = 8_192
"""Fewer vectors are compared one by one as quickly."""
OUTGROWN = 4
"""So many times the rows that it covers: then an index is trained again."""


def build(tx: Transaction, entity: Entity, rows: int) -> list[str]:
    """Build the indexes that a type asks for now that so many rows were added; their names.

    What is looked at is no read of the program's, and little is while rows are few.
    """
    asked = [index for index in wanted(entity).values() if index.needs_rows]
    edit = tx._edit(entity.id)
    if not asked or rows + (edit.base.pin.rows if edit.base is not None else 0) < ENOUGH:
        return []
    view = tx._view(edit, note=False)
    there = {index["name"]: index["rows_indexed"] for index in view.indexes()}
    due = [index for index in asked if _is_due(view, index, there.get(index.name))]
    return _built(tx, entity, due)


def rebuild(tx: Transaction, entity: Entity) -> list[str]:
    """The same for a table that was overwritten, and has lost all of its indexes."""
    view = tx._view(tx._edit(entity.id), note=False)
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
