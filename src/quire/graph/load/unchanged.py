"""Vectors that rows of a merge have already: a text that is there unchanged is not embedded again.

What is taken over is the vector of the very same text, made by the model of the schema, so it is right wherever the
commit lands. A text that is not found, or not seen by who merges, is embedded like a new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from quire.graph.catalog import VALIDATOR, Definition, Entity
from quire.graph.embed.fill import Made
from quire.graph.integrity.lookups import Places, distinct, matches
from quire.graph.integrity.row_rules import ids as ids_of
from quire.graph.integrity.row_rules import key_columns
from quire.graph.load.row_identity import known_by, type_of
from quire.lake.commit.validators import Proposal
from quire.lake.handles import columns_seen

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.formats import View
    from quire.lake.commit.transaction import Transaction


@dataclass
class Unchanged:
    """Looks for the rows of a merge on the base of its transaction."""

    tx: Transaction

    def __call__(self, one: Made, columns: Mapping[str, Any], rows: Any) -> pa.Array | None:
        """The vectors of some rows, null where the text is new or another; None where there are none at all."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        view = self._base(one.entity)
        keys = None if view is None else _keys(one.entity, columns, rows)
        if view is None or keys is None:
            return None
        names = keys.schema.names
        wanted = distinct(keys, names)
        take = [one.text.column, one.vector.column]
        found = matches(view, names, [type_of(one.entity, name) for name in names], wanted, take)
        found = found.filter(pc.is_valid(found.column(one.vector.column)))
        if not found.num_rows:
            return None
        places = Places(wanted.take(found.column("position"))).of([keys.column(name) for name in names])
        at = pa.array(places, mask=places < 0)
        new = columns[one.text.column].take(pa.array(rows))
        same = pc.equal(new, found.column(one.text.column).combine_chunks().take(at)).fill_null(False)
        kept = np.asarray(same)
        return (
            found.column(one.vector.column).combine_chunks().take(pa.array(places, mask=~kept)) if kept.any() else None
        )

    def _base(self, entity: Entity) -> View | None:
        """The rows that are there, if they are all seen and of the type as it is now: else vectors may be of a model
        that this transaction replaces."""
        if columns_seen(self.tx) is not None:
            return None
        table = Proposal(self.tx).table(entity.id)
        before = table.before
        if before is None or before.validator != VALIDATOR or not table.rows_before:
            return None
        same = msgspec.json.decode(before.rules, type=Definition) == entity.defined
        return table.base() if same else None


def _keys(entity: Entity, columns: Mapping[str, Any], rows: Any) -> pa.Table | None:
    """What some rows are known by: the id that their key or the data says, or else what is unique."""
    import pyarrow as pa

    at = pa.array(rows)
    if entity.kind == "node" and entity.defined.key:
        names, kinds = key_columns(entity)
        return pa.table({"id": ids_of([columns[name].take(at) for name in names], kinds)})
    unique = entity.columns(known_by(entity))
    if unique and (entity.kind == "edge" or "id" not in columns):
        return pa.table({name: columns[name].take(at) for name in unique})
    return pa.table({"id": columns["id"].take(at)}) if "id" in columns else None
