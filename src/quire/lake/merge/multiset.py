"""The merge of a table without a key: its rows are events, and equal ones are not the same.

While both sides have the files of the base, a row of it is known by its place: what either removed is gone, what both
added is there. After a compaction rows are known by their values alone: of each value there are as many as ours and
theirs have more than the base, together. Where both changed that number and one lowered it, nobody can say whether they
meant the same row: a conflict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.conversion import held
from quire.errors import InvalidInput
from quire.formats import Work
from quire.formats.equal_rows import grouped, matches
from quire.lake.commit.table_change import Edit
from quire.lake.merge.columns import is_renumbered
from quire.lake.merge.conflicts import MergeConflict, Op, Resolution, Side, sealed
from quire.lake.merge.keyed_rows import begin, pin_of
from quire.lake.merge.several_bases import Ancestry
from quire.lake.merge.strategies import Decision
from quire.lake.read.diff import compare
from quire.ledger import Pin, TableState
from quire.store import run_parallel

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from quire.lake.commit.transaction import Transaction


@dataclass(frozen=True)
class Counted:
    """Values that one side has more or less often than the base."""

    values: pa.Table
    more: NDArray[np.int64]
    """By how much; negative for fewer."""


@dataclass
class MultisetRows:
    """See `tables.RowsMerge`."""

    format: Any
    table: str
    name: str
    base: TableState
    ours: TableState
    theirs: TableState
    still: tuple[bool, bool]
    """Whether ours, and theirs, have the files of the base."""
    mine: Counted | None = None
    its: Counted | None = None
    """What each did; None where rows are known by their places."""
    others: Sequence[Pin] = ()
    """Further bases."""
    onto: Side = "ours"
    """The side that the other's rows are put onto."""
    written: bool = False
    """Whether rows that the other side has added are written, since its files cannot be pinned."""
    disputed: list[tuple[int, MergeConflict]] = field(default_factory=list)
    """Places in `its` of values in conflict."""
    decided: dict[int, tuple[Resolution, int]] = field(default_factory=dict)
    """By place: how, and how many rows there are then."""

    # -- conflicts --------------------------------------------------------------------------------------------

    def conflicts(self) -> list[MergeConflict]:
        return [self._shown(place, conflict) for place, conflict in self.disputed]

    def _shown(self, place: int, conflict: MergeConflict) -> MergeConflict:
        if place not in self.decided:
            return conflict
        how, count = self.decided[place]
        return replace(conflict, resolution=how, merged={"count": count})

    def open_count(self) -> int:
        return sum(place not in self.decided for place, _ in self.disputed)

    def decide(self, conflict: MergeConflict, decision: Decision) -> None:
        place = next(p for p, c in self.disputed if c.fingerprint == conflict.fingerprint)
        counts = conflict.counts or {}
        if decision == "ours" or decision == "theirs":
            self.decided[place] = decision, counts[decision]
        elif decision == "delete":
            self.decided[place] = "delete", 0
        elif decision is not None:
            assert not isinstance(decision, str)
            count = decision.get("count")
            if set(decision) != {"count"} or not isinstance(count, int) or isinstance(count, bool) or count < 0:
                raise InvalidInput(
                    f"A conflict about the number of equal rows in table {self.name!r} cannot be resolved by"
                    f" {dict(decision)!r}.",
                    next='Choose a side, or give values={"count": 1}.',
                    table=self.name,
                )
            self.decided[place] = "values", count

    def decide_all(self, side: Side) -> None:
        for place, conflict in self.disputed:
            if place not in self.decided:
                self.decide(conflict, side)

    def counts(self) -> dict[str, int]:
        if self.its is None:
            return {}
        more = self.its.more
        return {"added": int(more[more > 0].sum()), "removed": int(-more[more < 0].sum())}

    def by_place_onto(self, side: Side) -> bool:
        """Whether rows are told apart by their places, so that the other's can be put onto one side; then they are."""
        if not all(self.still) or self.disputed:
            return False
        self.onto = side
        return True

    # -- the result -------------------------------------------------------------------------------------------

    def build(self, tx: Transaction, edit: Edit) -> None:
        if self.written:
            self._added(tx, edit)
        elif self.disputed or not any(self.still):
            self._by_value(tx, edit)
        elif self.still[1] and self.onto == "ours":
            work = begin(tx, edit, self.ours)
            moved = not self.still[0]
            self.format.carry_over(work, self.base.pin, self.theirs.pin, key=(), others=self.others, moved=moved)
            self._updated(edit, work)
        else:
            work = begin(tx, edit, self.theirs)
            self.format.carry_over(work, self.base.pin, self.ours.pin, key=())
            self.format.carry_indexes(work, self.base.pin, self.ours.pin)
            pin_of(tx, edit, work, self.theirs.pin)
            edit.did("restore")

    def _added(self, tx: Transaction, edit: Edit) -> None:
        """Write what one side has added onto the other."""
        side, other = (self.ours, self.theirs) if self.onto == "ours" else (self.theirs, self.ours)
        work = begin(tx, edit, side)
        _, come = self.format.changed_rows(self.base.pin, other.pin)
        rows = come.read_all()
        if rows.num_rows:
            work.rows.append(rows, missing="error")
        if self.onto == "theirs":
            self.format.carry_indexes(work, self.base.pin, self.ours.pin)
            pin_of(tx, edit, work, self.theirs.pin)
            edit.did("restore")
        else:
            self._updated(edit, work)

    def _updated(self, edit: Edit, work: Work) -> None:
        """What was done on our state, with the indexes that came on theirs."""
        if work.changed:
            edit.work = work
            edit.did("update")
        if self.format.carry_indexes(work, self.base.pin, self.theirs.pin):
            edit.work = work
            edit.did("index")

    def _by_value(self, tx: Transaction, edit: Edit) -> None:
        """As many rows of each value as are decided, on our state."""
        assert self.its is not None
        more = self.its.more.copy()
        for place, conflict in self.disputed:
            assert conflict.counts is not None
            more[place] = self.decided[place][1] - conflict.counts["ours"]
        work = begin(tx, edit, self.ours)
        fewer, further = (
            self.its.values.take(np.repeat(np.arange(len(more)), np.maximum(n, 0))) for n in (-more, more)
        )
        self.format.take_rows(work, fewer)
        if further.num_rows:
            work.rows.append(further, missing="error")
        if work.changed:
            edit.did("compact")  # rows of theirs do not lie where they lay there
        self._updated(edit, work)


def merge_multisets(
    format: Any,
    base: Ancestry,
    ours: TableState,
    theirs: TableState,
    name: str,
    kept: tuple[bool, bool],
    *,
    left: tuple[bool, bool] = (False, False),
    by_value: bool = True,
) -> MultisetRows | None:
    """Compare what both sides did to the rows of a table without a key. `kept` says which has moved no row for sure,
    and `left` which has not replaced all rows: where its columns have other numbers, the base has replaced them, and
    the side has not taken that over.

    None where rows can be told by value alone, and there are several bases, a side has replaced all rows, or values are
    not to be compared, as where the sides have other columns.
    """
    first, *others = [state.pin for state in base.states]
    sides = zip(kept, (ours.pin, theirs.pin), strict=True)
    still = [all(format.holds_files_of(pin, b, moved=not known) for b in (first, *others)) for known, pin in sides]
    made = MultisetRows(format, ours.info.id, name, base.states[0], ours, theirs, (still[0], still[1]), others=others)
    if all(still):
        if not by_value or format.fields(ours.pin) == format.fields(theirs.pin):
            return made
        # Files know columns by number. Where a side has replaced all rows, so that none of the base is left there, its
        # files cannot be pinned beside the other's: what the other has added is written there.
        made.onto = "theirs" if format.fields(ours.pin) == format.fields(first) else "ours"
        made.written = True
        return None if others else made
    renumbered = [is_renumbered(format, base.states[0], side) for side in (ours, theirs)]
    if others or not by_value or any(again and not stays for again, stays in zip(renumbered, left, strict=True)):
        return None
    if format.share_new_files(first, ours.pin, theirs.pin):
        # Rows that came to both sides, as by a squash, are not two events; by their values they look like it.
        if not _counted(format, ours.pin, theirs.pin).values.num_rows:
            made.mine = made.its = _counted(format, ours.pin, ours.pin)
            made.still = False, False
            return made
        return None
    looks = [partial(_counted, format, first, side.pin) for side in (ours, theirs)]
    made.mine, made.its = run_parallel(looks)
    if any(renumbered):
        made.still = False, False  # files of one side cannot be pinned beside those of the other
    made.disputed = _disputed(made)
    return made


def _counted(format: Any, base: Pin, pin: Pin) -> Counted:
    """What one side did, by value."""
    import pyarrow as pa

    gone, come = format.changed_rows(base, pin)
    before = gone.read_all()
    found = compare(before, come.read_all().select(before.schema.names), ())
    both = []
    for rows, sign in ((found.removed, -1), (found.added, 1)):
        values, counts = grouped(rows) if rows.num_rows else (rows, np.empty(0, np.int64))
        both.append((values, sign * counts.astype(np.int64)))
    values = pa.concat_tables([both[0][0].cast(both[1][0].schema), both[1][0]])
    return Counted(values, np.concatenate([both[0][1], both[1][1]]))


def _disputed(made: MultisetRows) -> list[tuple[int, MergeConflict]]:
    mine, its = made.mine, made.its
    assert mine is not None
    assert its is not None
    if not mine.values.num_rows or not its.values.num_rows:
        return []
    numbered = mine.values.append_column("", [np.arange(mine.values.num_rows)])
    where, places = matches(numbered.to_batches(), numbered.schema, its.values, "")
    met = [(int(p), int(w)) for w, p in zip(where, places, strict=True) if mine.more[w] < 0 or its.more[p] < 0]
    if not met:
        return []
    rows = its.values.take([place for place, _ in met])
    before = made.format.count_rows(made.base.pin, rows)
    found = []
    for (place, other), row, count in zip(met, held.rows(rows), before, strict=True):
        counts = {"base": count, "ours": count + int(mine.more[other]), "theirs": count + int(its.more[place])}
        conflict = MergeConflict(
            table=made.name,
            kind="count",
            key=row,
            columns=(),
            base=row if count else None,
            ours=row if counts["ours"] else None,
            theirs=row if counts["theirs"] else None,
            ours_op=_op(int(mine.more[other])),
            theirs_op=_op(int(its.more[place])),
            ours_commit=made.ours.commit.commit,
            theirs_commit=made.theirs.commit.commit,
            counts=counts,
        )
        found.append((place, sealed(conflict, made.table)))
    return found


def _op(more: int) -> Op:
    return "insert" if more > 0 else "delete"
