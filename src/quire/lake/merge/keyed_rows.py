"""The merge of a keyed table whose rows both sides changed: what is read, and how the result is put together.

A clean merge writes no data file: the new files of one side are pinned beside those of the other, and what either
removed is marked as deleted. Only rows that are made of both sides are written. It is built on the side that is harder
to move: where rows lie elsewhere since a compaction, the other's changes are applied there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from quire.errors import Unsupported
from quire.formats import Mergeable, TableFormat, Work
from quire.formats.key_sets import common, without
from quire.lake.commit.table_change import Edit
from quire.lake.merge.columns import Columns, is_renumbered
from quire.lake.merge.conflicts import MergeConflict, Side
from quire.lake.merge.keyed import MIXED, OURS, THEIRS, KeyedMerge, Triples
from quire.lake.merge.several_bases import Ancestry, look_up, triples_of_differing
from quire.lake.merge.strategies import Decision
from quire.lake.merge.touched import Touched, aligned, together, touched, triples
from quire.lake.publish.publish import make_durable
from quire.ledger import Pin, TableState
from quire.store import run_parallel

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from quire.lake.commit.transaction import Transaction

Way = Literal["theirs onto ours", "ours onto theirs", "rows onto ours"]


@dataclass
class KeyedRows:
    """See `tables.RowsMerge`."""

    format: Any
    name: str
    base: Pin
    ours: TableState
    theirs: TableState
    way: Way
    its: Touched | None
    """The rows that they touched; None where nobody had to look."""
    keyed: KeyedMerge
    columns: Side | None = None
    """The side that changed columns too."""

    # -- conflicts --------------------------------------------------------------------------------------------

    def conflicts(self) -> list[MergeConflict]:
        return [self.keyed.conflict(int(row)) for row in self.keyed.first_open]

    def open_count(self) -> int:
        return len(self.keyed.open)

    def decide(self, conflict: MergeConflict, decision: Decision) -> None:
        row = self.keyed.find(conflict.key or {})
        assert row is not None
        if decision == "delete":
            self.keyed.delete(row)
        elif isinstance(decision, str):
            self.keyed.choose(np.array([row]), "ours" if decision == "ours" else "theirs")
        elif decision is not None:
            self.keyed.give(row, decision)

    def decide_all(self, side: Side) -> None:
        self.keyed.choose(self.keyed.open, side)

    def counts(self) -> dict[str, int]:
        its = self._looked()
        changed = common(its.gone, its.come, self.keyed.key).num_rows
        return {"added": its.come.num_rows - changed, "changed": changed, "removed": its.gone.num_rows - changed}

    def _looked(self) -> Touched:
        if self.its is None:
            self.its = touched(self.format, self.base, self.theirs.pin, self.keyed.key, moved=False)
        return self.its

    # -- the result -------------------------------------------------------------------------------------------

    def build(self, tx: Transaction, edit: Edit) -> None:
        if self.way == "ours onto theirs":
            self._on_theirs(tx, edit)
            return
        work = self._begin(tx, edit, self.ours)
        rows, there = self._outcome(), self.keyed.triples
        away = self.keyed.keys_of((rows != OURS) & there.in_ours)
        if self.way == "theirs onto ours":
            self._carry(work, self.theirs.pin, leave_out=self.keyed.keys_of(rows != THEIRS))
            self._take_away(work, away)
            self._append(work, self.keyed.mixed(np.flatnonzero(rows == MIXED)))
        else:
            alone = without(self._looked().gone, [self.keyed.triples.keys])
            self._take_away(work, away)
            self._take_away(work, alone)
            self._append(work, self.keyed.mixed(np.flatnonzero(rows == MIXED)))
            self._append(work, there.theirs.filter(rows == THEIRS))
            self._append(work, self._theirs_alone())
        if work.changed:
            edit.work = work
            edit.did("update")
        if self.format.carry_indexes(work, self.base, self.theirs.pin):
            edit.work = work
            edit.did("index")

    def _outcome(self) -> NDArray[np.int8]:
        """What becomes of the rows that were compared.

        A row that only the other side has touched lies on the side with new columns where it lay in the base, and goes
        from there with what the other has removed. So it is written, also where nothing of the other is taken.
        """
        rows = self.keyed.rows
        if self.columns is None:
            return rows
        both = self.keyed.triples.in_ours & self.keyed.triples.in_theirs
        return np.where(both & (rows == (OURS if self.columns == "ours" else THEIRS)), MIXED, rows).astype(np.int8)

    def _on_theirs(self, tx: Transaction, edit: Edit) -> None:
        """Our changes on their state, which is then pinned as it is."""
        work = self._begin(tx, edit, self.theirs)
        rows, there = self._outcome(), self.keyed.triples
        self._carry(work, self.ours.pin, leave_out=self.keyed.keys_of(rows != OURS))
        self._take_away(work, self.keyed.keys_of((rows != THEIRS) & there.in_theirs))
        self._append(work, self.keyed.mixed(np.flatnonzero(rows == MIXED)))
        self.format.carry_indexes(work, self.base, self.ours.pin)
        pin_of(tx, edit, work, self.theirs.pin)
        edit.did("restore")

    def _begin(self, tx: Transaction, edit: Edit, state: TableState) -> Work:
        return begin(tx, edit, state)

    def _carry(self, work: Work, after: Pin, *, leave_out: pa.Table) -> None:
        self.format.carry_over(work, self.base, after, key=self.keyed.key, leave_out=leave_out)

    def _take_away(self, work: Work, keys: pa.Table) -> None:
        if keys.num_rows:
            self.format.take_away(work, self.keyed.key, keys)

    def _append(self, work: Work, rows: pa.Table) -> None:
        if rows.num_rows:
            work.rows.append(rows, missing="error")

    def _theirs_alone(self) -> pa.Table:
        """Rows that only they touched, as they left them."""
        alone = without(self._looked().come, [self.keyed.triples.keys])
        return triples(self.format, self.base, self.base, self.theirs.pin, alone).theirs


def merge_keyed(
    format: TableFormat,
    base: TableState,
    ours: TableState,
    theirs: TableState,
    groups: Sequence[Sequence[str]] | None,
    name: str,
    columns: Columns | None = None,
    *,
    apart: bool = False,
) -> KeyedRows | tuple[str, ...]:
    """Compare what both sides did to the rows of a table. They may be known to have touched rows `apart` only.

    Where one side changed columns too, names of columns that it dropped and the other changed: then they do not merge.
    """
    if not isinstance(format, Mergeable):
        raise Unsupported(
            f"Table {name!r} has a format that cannot merge rows: {ours.pin.format}.",
            next='Resolve it as a whole: granularity={"' + name + '": "table"}.',
            table=name,
        )
    key = ours.info.key
    still = format.holds_files_of(ours.pin, base.pin), format.holds_files_of(theirs.pin, base.pin)
    way: Way = "theirs onto ours" if still[1] else "ours onto theirs" if still[0] else "rows onto ours"
    # An overwrite numbers the columns anew, and files know columns by number. A file that came to both sides, as by a
    # squash, cannot be added a second time for rows of it that one side has changed since.
    shared = format.share_new_files(base.pin, ours.pin, theirs.pin)
    if shared or any(is_renumbered(format, base, side) for side in (ours, theirs)):
        way = "rows onto ours"
        if columns is not None:
            return ()
    if apart and all(still) and columns is None and way == "theirs onto ours":
        nothing = triples_of_none(format, ours.pin, key)
        each = groups_of([n for n in nothing.ours.schema.names if n not in key], None)
        keyed = KeyedMerge(ours.info.id, name, nothing, each, (ours.commit.commit, theirs.commit.commit))
        return KeyedRows(format, name, base.pin, ours, theirs, way, None, keyed)
    looks = zip((ours, theirs), still, strict=True)
    mine, its = run_parallel([partial(touched, format, base.pin, s.pin, key, moved=not is_) for s, is_ in looks])
    both = common(mine.keys, its.keys, key)
    if columns is not None:
        found = _in_other_columns(format, base.pin, ours.pin, theirs.pin, (mine, its), both, columns)
        lost = columns.lost(found)
        if lost:
            return lost
        found = columns.brought(found)
        way = "theirs onto ours" if columns.side == "ours" else "ours onto theirs"
    elif both.num_rows:
        found = triples(format, base.pin, ours.pin, theirs.pin, both)
    else:
        found = triples_of_none(format, ours.pin, key)
    names = [n for n in found.ours.schema.names if n not in key]
    commits = ours.commit.commit, theirs.commit.commit
    keyed = KeyedMerge(ours.info.id, name, found, groups_of(names, groups), commits)
    if columns is not None:
        keyed.take_columns(columns.added, columns.side)
    side = None if columns is None else columns.side
    return KeyedRows(format, name, base.pin, ours, theirs, way, its, keyed, side)


def _in_other_columns(
    format: Any, base: Pin, ours: Pin, theirs: Pin, sides: tuple[Touched, Touched], both: pa.Table, columns: Columns
) -> Triples:
    """Rows that both touched, and those that the side with other columns did not touch and the other changed.

    What that side has in its new columns belongs to these rows too.
    """
    changed = sides[1] if columns.side == "ours" else sides[0]
    pin, other = (ours, theirs) if columns.side == "ours" else (theirs, ours)
    keys = together(both, without(common(changed.gone, changed.come, both.schema.names), [both]))
    gone, come = format.changed_rows(base, other)
    before, after = gone.read_all(), come.read_all()
    there = look_up(format, pin, keys)
    if columns.side == "ours":
        return aligned(keys, before, there, after)
    return aligned(keys, before, after, there)


def merge_over_several(
    format: Any,
    base: Ancestry,
    ours: TableState,
    theirs: TableState,
    groups: Sequence[Sequence[str]] | None,
    name: str,
) -> KeyedRows:
    """The same where the base is itself a merge. Every row in which both differ is looked at."""
    key = ours.info.key
    found = triples_of_differing(format, base, ours.pin, theirs.pin, key)
    columns = [n for n in found.ours.schema.names if n not in key]
    commits = ours.commit.commit, theirs.commit.commit
    keyed = KeyedMerge(ours.info.id, name, found, groups_of(columns, groups), commits)
    its = Touched(found.keys.filter(found.in_ours), found.keys.filter(found.in_theirs))
    return KeyedRows(format, name, ours.pin, ours, theirs, "rows onto ours", its, keyed)


def triples_of_none(format: TableFormat, pin: Pin, key: Sequence[str]) -> Any:
    """No row at all, in the columns of a table."""
    schema = format.open(pin).schema
    nothing = schema.empty_table()
    return aligned(nothing.select(list(key)), nothing, nothing, nothing)


def groups_of(columns: Sequence[str], groups: Sequence[Sequence[str]] | None) -> list[list[str]]:
    """Every column in one group: those that are named together, and each other one alone."""
    named = [[n for n in group if n in columns] for group in groups or ()]
    known = {n for group in named for n in group}
    return [group for group in named if group] + [[n] for n in columns if n not in known]


def begin(tx: Transaction, edit: Edit, state: TableState) -> Work:
    """A work on a state of a table, for a transaction that merges."""
    tx.live.core.owners.writable(state.pin, state.info)
    return tx.live.core.format(state.pin.format).begin(state.pin, write=tx.write, table=edit.info.name)


def pin_of(tx: Transaction, edit: Edit, work: Work, pin: Pin) -> None:
    """Pin what was built on another state than ours, as it is."""
    edit.pin = pin
    if work.changed:
        staged = work.stage()
        if tx.live.core.store.is_local:
            make_durable(tx, staged)
        edit.pin = staged.pin
