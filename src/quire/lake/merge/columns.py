"""Columns of a table that one side has added, renamed or dropped while the other changed rows.

Columns of the base are known by their ids, so a rename is one. The result has the columns of the side that changed
them; rows of the other are brought into these: a new column has the value that the row has there, or none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from quire.lake.merge.alike import same
from quire.lake.merge.columns_of_both import ColumnsOfBoth, columns_of_both
from quire.lake.merge.keyed import Triples
from quire.lake.merge.touched import nullable
from quire.ledger import TableState

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Columns:
    """What one side made of the columns."""

    side: Literal["ours", "theirs"]
    schema: pa.Schema
    """Its columns."""
    renamed: Mapping[str, str]
    """Of columns of the base, by the name that they have there: all that are left."""
    dropped: tuple[str, ...]
    """Columns of the base that are gone."""

    def fitted(self, table: pa.Table, like: pa.Table) -> pa.Table:
        """Rows of the base or the other side in these columns; what is new there is as in rows of this side."""
        import pyarrow as pa

        old = {new: name for name, new in self.renamed.items()}
        arrays = [table.column(old[f.name]) if f.name in old else like.column(f.name) for f in self.schema]
        return pa.table(arrays, schema=nullable(self.schema))

    def brought(self, found: Triples) -> Triples:
        """Three versions of rows, all in these columns."""
        like = found.ours if self.side == "ours" else found.theirs
        sides: dict[str, Any] = {"base": self.fitted(found.base, like)}
        if self.side == "ours":
            sides |= {"ours": found.ours.select(self.schema.names), "theirs": self.fitted(found.theirs, like)}
        else:
            sides |= {"theirs": found.theirs.select(self.schema.names), "ours": self.fitted(found.ours, like)}
        return replace(found, **sides)

    @property
    def added(self) -> list[str]:
        """New columns."""
        left = set(self.renamed.values())
        return [name for name in self.schema.names if name not in left]

    def lost(self, found: Triples) -> tuple[str, ...]:
        """Columns that are dropped here and that the other side has changed in a row."""
        other, there = (found.theirs, found.in_theirs) if self.side == "ours" else (found.ours, found.in_ours)
        both = np.flatnonzero(found.in_base & there)
        pairs = [(n, found.base.column(n).take(both), other.column(n).take(both)) for n in self.dropped]
        return tuple(n for n, then, now in pairs if not same(then, now).all())


def is_renumbered(format: Any, base: TableState, side: TableState) -> bool:
    """Whether a side has the columns of the base under other ids, in other files: all rows were replaced, or moved."""
    was, now = _described(format, base)[0], _described(format, side)[0]
    kinds = [{name: kind for name, (_, kind) in one.items()} for one in (was, now)]
    return kinds[0] == kinds[1] and was != now and not format.holds_files_of(side.pin, base.pin)


def columns_of(
    format: Any, base: TableState, ours: TableState, theirs: TableState
) -> tuple[Columns | ColumnsOfBoth | None, tuple[str, ...]]:
    """What one side made of the columns, or both, if they changed them; and names of those that cannot be merged."""
    known = [_described(format, state) for state in (base, ours, theirs)]
    was, mine, its = (found for found, _ in known)
    renumbered = [is_renumbered(format, base, side) for side in (ours, theirs)]
    mine, its = (was if again else one for one, again in zip((mine, its), renumbered, strict=True))
    if mine == was and its == was:
        return None, ()
    # Files know columns by number: those of a side that numbered them anew, or that came to both, cannot be added, nor
    # those into which a side has moved rows, since they lack the new columns.
    rest = theirs if mine != was else ours
    apart = (
        any(renumbered)
        or format.share_new_files(base.pin, ours.pin, theirs.pin)
        or not format.holds_files_of(rest.pin, base.pin)
    )
    if (mine != was and its != was) or (ours.info.key and apart):
        both = columns_of_both(known[0], (mine, known[1][1]), (its, known[2][1]))
        return (None, both) if isinstance(both, tuple) else (both, ())
    side: Literal["ours", "theirs"] = "ours" if mine != was else "theirs"
    now, schema = known[1 if side == "ours" else 2]
    by_id = {id: (name, kind) for name, (id, kind) in now.items()}
    renamed, dropped, wrong = {}, [], []
    for name, (id, kind) in was.items():
        if id in by_id and by_id[id][1] == kind:
            renamed[name] = by_id[id][0]
        elif id in by_id or name in now:
            wrong.append(name)  # of another type now
        else:
            dropped.append(name)
    left = set(renamed.values())
    wrong += [f.name for f in schema if f.name not in left and not f.nullable]
    return Columns(side, schema, renamed, tuple(dropped)), tuple(wrong)


def _described(format: Any, state: TableState) -> tuple[dict[str, tuple[int, Any]], pa.Schema]:
    schema = format.open(state.pin, state.info.name).schema
    ids = format.fields(state.pin)
    return {f.name: (ids[f.name], f.type) for f in schema}, schema
