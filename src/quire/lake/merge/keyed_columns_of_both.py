"""Rows of a table with a key whose columns both sides have changed, compared in the columns that the two come to.

What one side alone added has its values; what both added has cells that merge, and was null before. Rows are compared
by value, and put onto the side that has fewer of the other's to take over: a file of the one cannot be pinned beside
those of the other, since it knows its columns by number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.formats.key_sets import common, positions
from quire.lake.commit.table_change import Edit
from quire.lake.merge.alike import same
from quire.lake.merge.columns_of_both import SIDES, ColumnsOfBoth, Where
from quire.lake.merge.conflicts import Side
from quire.lake.merge.keyed import GONE, OURS, THEIRS, KeyedMerge, Triples
from quire.lake.merge.keyed_rows import KeyedRows, begin, groups_of, pin_of
from quire.lake.merge.several_bases import look_up
from quire.lake.merge.touched import aligned, nullable, together, touched
from quire.ledger import Pin, TableState
from quire.store import run_parallel

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from quire.lake.commit.transaction import Transaction

SCANNED = 20
"""Where more than one row in so many is wanted, all are read instead of looked up."""


@dataclass
class RowsInColumnsOfBoth(KeyedRows):
    """See `tables.RowsMerge`: rows in which the result differs from one side are written onto it."""

    both: ColumnsOfBoth | None = None
    onto: Side = "ours"
    there: pa.Table | None = None
    """The rows of that side as they lie, in all the columns."""

    def build(self, tx: Transaction, edit: Edit) -> None:
        assert self.both is not None
        state = self.ours if self.onto == "ours" else self.theirs
        work = begin(tx, edit, state)
        self.both.change(work, self.onto)
        found = self.keyed.triples
        present = found.in_ours if self.onto == "ours" else found.in_theirs
        stays = self.keyed.rows != GONE
        result, differs = self._result(), ~(present & stays)
        assert self.there is not None
        for name in self.keyed.columns:
            differs |= ~same(result.column(name), self.there.column(name))
        self._take_away(work, self.keyed.keys_of(present & (differs | ~stays)))
        self._append(work, result.filter(stays & differs))
        other = self.theirs if self.onto == "ours" else self.ours
        carried = self.format.carry_indexes(work, self.base, other.pin)
        if self.onto == "theirs":
            pin_of(tx, edit, work, state.pin)
            edit.did("restore")
        else:
            edit.work = work
            edit.did("schema")
            edit.did("update")
            if carried:
                edit.did("index")

    def _result(self) -> pa.Table:
        """Every row as it is decided; those that go are as anything."""
        import pyarrow as pa

        found, rows = self.keyed.triples, self.keyed.rows
        every = np.arange(found.count)
        sides = [t.cast(nullable(found.ours.schema)) for t in (self.keyed.mixed(every), found.ours, found.theirs)]
        alone = ~(found.in_ours & found.in_theirs)
        which = np.select([alone & (rows == OURS), alone & (rows == THEIRS)], [1, 2], 0)
        return pa.concat_tables(sides).take(pa.array(every + which * found.count))


def merge_in_columns_of_both(
    format: Any,
    base: TableState,
    ours: TableState,
    theirs: TableState,
    groups: Sequence[Sequence[str]] | None,
    name: str,
    both: ColumnsOfBoth,
) -> KeyedRows | tuple[str, ...]:
    """Compare what both sides did; or names of columns that one side dropped and of which the other changed a cell."""
    key = ours.info.key
    pins: dict[Side, Pin] = {"ours": ours.pin, "theirs": theirs.pin}
    lost = [n for s, other in (SIDES, SIDES[::-1]) for n in _lost(format, base.pin, pins[other], both, s, other, key)]
    if lost:
        return tuple(lost)
    looks = [partial(_filled, format, pins[side], both.added(side), key) for side in SIDES]
    filled = dict(zip(SIDES, run_parallel(looks), strict=True))
    onto: Side = "ours" if filled["theirs"].num_rows <= filled["ours"].num_rows else "theirs"
    other: Side = "theirs" if onto == "ours" else "ours"
    its = touched(format, base.pin, pins[other], key, moved=False)
    keys = together(its.gone, its.come, filled[other])
    keys = common(keys, keys, key)
    found, there = _aligned(format, keys, base.pin, pins, both, onto)
    commits = ours.commit.commit, theirs.commit.commit
    columns = [n for n in found.ours.schema.names if n not in key]
    keyed = KeyedMerge(ours.info.id, name, found, groups_of(columns, _of_base(groups, both)), commits)
    made = RowsInColumnsOfBoth(format, name, base.pin, ours, theirs, "rows onto ours", None, keyed)
    made.both, made.onto, made.there = both, onto, there
    return made


def _aligned(
    format: Any, keys: pa.Table, base: Pin, pins: Mapping[Side, Pin], both: ColumnsOfBoth, onto: Side
) -> tuple[Triples, pa.Table]:
    """The three versions of rows, and that of the side that they are put onto as it lies."""
    where: list[tuple[Where, Pin]] = [("base", base), ("ours", pins["ours"]), ("theirs", pins["theirs"])]
    rows = run_parallel([partial(rows_with, format, pin, keys) for _, pin in where])
    found = aligned(keys, *(both.fitted(some, one) for some, (one, _) in zip(rows, where, strict=True)))
    there = found.ours if onto == "ours" else found.theirs
    for side in SIDES:
        found = _as_on(found, side, both.alone(side))
    for name in both.added_by_both:
        found = _where_both_added(found, name)
    return found, there


def _as_on(found: Triples, side: Side, names: Sequence[str]) -> Triples:
    """Columns that one side alone has, as they are there: what nobody else knows is not in conflict."""
    has = found.ours if side == "ours" else found.theirs
    for name in names:
        found = _with(found, name, *(has.column(name) for _ in range(3)))
    return found


def _where_both_added(found: Triples, name: str) -> Triples:
    """A column that both added: null before. What one side alone has is there as it was, whatever is in it."""
    import pyarrow as pa

    base, ours, theirs = (t.column(name) for t in (found.base, found.ours, found.theirs))
    both = found.in_ours & found.in_theirs
    base = _chosen(both, pa.chunked_array([pa.nulls(found.count, ours.type)]), _chosen(found.in_ours, ours, theirs))
    # Nobody had such a row before, and one has left the cell empty.
    new = both & ~found.in_base
    empty = [np.asarray(column.is_null()) for column in (ours, theirs)]
    mine, its = _chosen(new & empty[0], theirs, ours), _chosen(new & empty[1], ours, theirs)
    return _with(found, name, base, mine, its)


def _with(found: Triples, name: str, base: Any, ours: Any, theirs: Any) -> Triples:
    """The same with other cells in a column."""
    at = found.ours.schema.get_field_index(name)
    field = found.ours.schema.field(at)
    b, o, t = (
        table.set_column(at, field, cells)
        for table, cells in zip((found.base, found.ours, found.theirs), (base, ours, theirs), strict=True)
    )
    return replace(found, base=b, ours=o, theirs=t)


def _chosen(which: NDArray[np.bool_], one: pa.ChunkedArray, other: pa.ChunkedArray) -> pa.ChunkedArray:
    """Cells of one column where a mask is set, of the other elsewhere."""
    import pyarrow as pa

    at = np.arange(len(which)) + len(which) * ~which
    return pa.chunked_array([*one.chunks, *other.chunks], one.type).take(pa.array(at))


def _lost(
    format: Any, base: Pin, pin: Pin, both: ColumnsOfBoth, dropping: Side, other: Side, key: Sequence[str]
) -> list[str]:
    """Columns that one side dropped, and of which the other changed a cell."""
    if not both.dropped[dropping]:
        return []
    gone, come = format.changed_rows(base, pin)
    before, after = run_parallel([gone.read_all, come.read_all])
    at = positions(before.select(list(key)), after, key)
    then, now = before.filter(at >= 0), after.take(at[at >= 0])
    names = [(n, both.name_on(other, n)) for n in both.dropped[dropping]]
    return [n for n, there in names if not same(then.column(n), now.column(there)).all()]


def _filled(format: Any, pin: Pin, names: Sequence[str], key: Sequence[str]) -> pa.Table:
    """The keys of all rows of a state that have a value in one of these columns."""
    import pyarrow as pa

    view = format.open(pin)
    kept = view.schema.empty_table().select(list(key)).to_batches()
    for batch in view.scan(columns=[*key, *names]) if names else ():
        some = np.zeros(batch.num_rows, bool)
        for name in names:
            some |= np.asarray(batch.column(name).is_valid())
        kept.append(batch.select(list(key)).filter(pa.array(some)))
    return pa.Table.from_batches(kept, pa.schema([view.schema.field(n) for n in key]))


def rows_with(format: Any, pin: Pin, keys: pa.Table) -> pa.Table:
    """The rows of a state with these keys, and maybe others."""
    import pyarrow as pa

    view = format.open(pin)
    blobs = any(isinstance(kind, pa.BaseExtensionType) for kind in view.schema.types)
    if keys.num_rows * SCANNED > pin.rows and not blobs:
        found: pa.Table = view.scan().read_all()
        return found
    return look_up(format, pin, keys)


def _of_base(groups: Sequence[Sequence[str]] | None, both: ColumnsOfBoth) -> list[list[str]]:
    """Groups without columns that one side alone has added: these go with no other."""
    alone = {n for side in SIDES for n in both.alone(side)}
    return [[n for n in group if n not in alone] for group in groups or ()]
