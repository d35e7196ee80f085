"""Rows that both sides touched, compared with what they were: cell by cell, or row by row.

For every key there are up to three rows: the base, ours, theirs. A cell that one side left alone takes what the other
made of it; a cell that both changed to the same is that; what both changed apart is a conflict. So it goes for rows:
what one side left alone may be deleted by the other; a row that was changed here and deleted there is a conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.conversion import held
from quire.conversion.fit import fit
from quire.conversion.inputs import source
from quire.errors import InvalidInput
from quire.lake.merge.alike import Mask, same
from quire.lake.merge.conflicts import Kind, MergeConflict, Op, Resolution, Side, sealed
from quire.store import run_parallel

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

LastCommits = Callable[["pa.Table"], list[str]]
OURS, THEIRS, MIXED, GONE, OPEN = range(5)
"""What becomes of a row: it is as one side has it, made of both, deleted, or undecided."""
EITHER, FROM_OURS, FROM_THEIRS, UNDECIDED, GIVEN = range(5)
"""Where a cell comes from: both sides have the same, one of them, nobody knows yet, or somebody has given it."""


@dataclass(frozen=True)
class Triples:
    """The three versions of some rows, in one order; absent ones are rows of nulls."""

    keys: pa.Table
    base: pa.Table
    ours: pa.Table
    theirs: pa.Table
    in_base: Mask
    in_ours: Mask
    in_theirs: Mask
    unknown: Mapping[str, Mask]
    """Cells of the base of which nobody knows what they were: in conflict between several bases."""

    @property
    def count(self) -> int:
        return int(self.keys.num_rows)


class KeyedMerge:
    """Rows of one table that both sides touched, and what is decided about each."""

    def __init__(
        self, table: str, name: str, triples: Triples, groups: Sequence[Sequence[str]], commits: tuple[str, str]
    ) -> None:
        self.table, self.name, self.triples, self.commits = table, name, triples, commits
        self.last_commits: tuple[LastCommits, LastCommits] | None = None
        """Of ours and theirs: for some keys the last commit that touched each; None where the table's is told."""
        self.key = tuple(triples.keys.schema.names)
        self.columns = [n for n in triples.ours.schema.names if n not in self.key]
        self.cells: dict[str, NDArray[np.int8]] = {}
        self.given: dict[str, dict[int, Any]] = {}
        """By column: values that somebody has given, by row."""
        self.rows: NDArray[np.int8] = np.full(triples.count, OPEN, np.int8)
        self.resolved: dict[int, Resolution] = {}
        self._compare(groups)
        self.first_open = np.flatnonzero(self.rows == OPEN)
        """Rows that were in conflict before anything was resolved."""
        self._asked = {name: cells == UNDECIDED for name, cells in self.cells.items()}

    # -- the rules --------------------------------------------------------------------------------------------

    def _compare(self, groups: Sequence[Sequence[str]]) -> None:
        t = self.triples
        both, unchanged = t.in_ours & t.in_theirs, {}
        as_base = {side: np.ones(t.count, bool) for side in ("ours", "theirs")}
        for group in groups:
            equal = {"ours": t.in_base & t.in_ours, "theirs": t.in_base & t.in_theirs, "each": both.copy()}
            for name in group:
                base, ours, theirs = t.base.column(name), t.ours.column(name), t.theirs.column(name)
                known = ~t.unknown[name] if name in t.unknown else True
                equal["ours"] &= same(base, ours) & known
                equal["theirs"] &= same(base, theirs) & known
                unchanged[name] = same(ours, theirs)
                equal["each"] &= unchanged[name]
            cells = np.full(t.count, UNDECIDED, np.int8)
            cells[equal["theirs"]] = FROM_OURS
            cells[equal["ours"]] = FROM_THEIRS
            cells[equal["each"]] = EITHER
            for name in group:
                # Columns of a group go together, also those that happen to be equal.
                self.cells[name] = np.where((cells == UNDECIDED) & unchanged[name], EITHER, cells).astype(np.int8)
            as_base["ours"] &= equal["ours"]
            as_base["theirs"] &= equal["theirs"]
        deleted = t.in_base & ~both
        self.rows[deleted & t.in_ours & as_base["ours"]] = GONE
        self.rows[deleted & t.in_theirs & as_base["theirs"]] = GONE
        self.rows[~t.in_ours & ~t.in_theirs] = GONE
        self.rows[~t.in_base & t.in_ours & ~t.in_theirs] = OURS
        self.rows[~t.in_base & t.in_theirs & ~t.in_ours] = THEIRS
        self._settle(np.flatnonzero(both))

    def _settle(self, rows: NDArray[Any]) -> None:
        """What becomes of rows that both sides have, by where their cells come from."""
        ours, theirs, open_, given = (np.zeros(len(rows), bool) for _ in range(4))
        for cells in self.cells.values():
            found = cells[rows]
            ours |= found == FROM_OURS
            theirs |= found == FROM_THEIRS
            open_ |= found == UNDECIDED
            given |= found == GIVEN
        outcome = np.where(theirs, np.where(ours, MIXED, THEIRS), OURS)
        outcome[given] = MIXED
        outcome[open_] = OPEN
        self.rows[rows] = outcome

    def take_columns(self, names: Sequence[str], side: Side) -> None:
        """Columns that one side alone has: a row that both have is not taken as it lies from the other."""
        both = np.flatnonzero(self.triples.in_ours & self.triples.in_theirs)
        for name in names:
            self.cells[name][both] = FROM_OURS if side == "ours" else FROM_THEIRS
        if names:
            self._settle(both)

    # -- conflicts --------------------------------------------------------------------------------------------

    @property
    def open(self) -> NDArray[Any]:
        """Rows that are still in conflict."""
        return np.flatnonzero(self.rows == OPEN)

    def conflict(self, row: int) -> MergeConflict:
        """One row that was in conflict, and what is decided about it."""
        t = self.triples
        kind, mine, other = self._ops(row)
        asked = tuple(n for n in self.columns if self._asked[n][row]) if t.in_ours[row] and t.in_theirs[row] else ()
        found = MergeConflict(
            table=self.name,
            kind=kind,
            key=self.keys[row],
            columns=asked or self._differing(row),
            base=self._row("base", row) if t.in_base[row] else None,
            ours=self._row("ours", row) if t.in_ours[row] else None,
            theirs=self._row("theirs", row) if t.in_theirs[row] else None,
            ours_op=mine,
            theirs_op=other,
            ours_commit=self._by[0][row],
            theirs_commit=self._by[1][row],
            resolution=self.resolved.get(row),
            merged=self.final_row(row) if row in self.resolved else None,
        )
        return sealed(found, self.table)

    def _ops(self, row: int) -> tuple[Kind, Op, Op]:
        t = self.triples
        if not t.in_base[row]:
            return "insert-insert", "insert", "insert"
        if not t.in_ours[row]:
            return "delete-update", "delete", "update"
        if not t.in_theirs[row]:
            return "delete-update", "update", "delete"
        return "update-update", "update", "update"

    def _differing(self, row: int) -> tuple[str, ...]:
        """Columns that the side which kept the row has changed."""
        t = self.triples
        left = t.ours if t.in_ours[row] else t.theirs
        one = [(n, left.column(n).slice(row, 1), t.base.column(n).slice(row, 1)) for n in self.columns]
        return tuple(n for n, now, then in one if not same(now, then)[0])

    @cached_property
    def _by(self) -> tuple[Mapping[int, str], Mapping[int, str]]:
        """The last commit of either side that touched a row in conflict."""
        rows = [int(row) for row in self.first_open]
        if self.last_commits is None:
            mine, its = ([commit] * len(rows) for commit in self.commits)
        else:
            keys = self.triples.keys.take(rows)
            mine, its = run_parallel([partial(ask, keys) for ask in self.last_commits])
        return dict(zip(rows, mine, strict=True)), dict(zip(rows, its, strict=True))

    @cached_property
    def keys(self) -> list[dict[str, Any]]:
        return held.rows(self.triples.keys)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {repr(tuple(self.keys[row].values())): int(row) for row in self.first_open}

    def find(self, key: Mapping[str, Any]) -> int | None:
        """The row in conflict that has a key."""
        if set(key) != set(self.key):
            return None
        return self._places.get(repr(tuple(key[name] for name in self.key)))

    def _row(self, side: str, row: int) -> dict[str, Any]:
        [found] = held.rows(getattr(self.triples, side).slice(row, 1))
        return found

    # -- resolutions ------------------------------------------------------------------------------------------

    def choose(self, rows: NDArray[Any], side: Side) -> None:
        """What is in conflict in these rows is as one side has it."""
        t = self.triples
        both = rows[t.in_ours[rows] & t.in_theirs[rows]]
        for cells in self.cells.values():
            undecided = both[np.isin(cells[both], (UNDECIDED, GIVEN))]
            cells[undecided] = FROM_OURS if side == "ours" else FROM_THEIRS
        self._settle(both)
        single = rows[~(t.in_ours[rows] & t.in_theirs[rows])]
        there = (t.in_ours if side == "ours" else t.in_theirs)[single]
        self.rows[single] = np.where(there, OURS if side == "ours" else THEIRS, GONE)
        self.resolved.update((int(row), side) for row in rows)

    def delete(self, row: int) -> None:
        """A row that is in conflict goes."""
        self.rows[row] = GONE
        self.resolved[row] = "delete"

    def give(self, row: int, values: Mapping[str, Any]) -> None:
        """Cells of a row that is in conflict, or of the side that has the row where the other deleted it."""
        t = self.triples
        strange = sorted(n for n in values if n not in self.columns and values[n] != self.keys[row].get(n, values))
        if strange:
            raise InvalidInput(
                f"A conflict of table {self.name!r} cannot be resolved by a value of column {strange[0]!r}.",
                next=f"Give values of {', '.join(self.columns)}.",
                table=self.name,
                column=strange[0],
            )
        both = bool(t.in_ours[row] and t.in_theirs[row])
        asked = [n for n in self.columns if both and self._asked[n][row]]
        missing = [n for n in asked if n not in values]
        if missing:
            raise InvalidInput(
                f"The values for {self.keys[row]} of table {self.name!r} leave column {missing[0]!r} in conflict.",
                next=f"Give values of {', '.join(asked)}.",
                table=self.name,
                column=missing[0],
            )
        typed = self._typed({n: v for n, v in values.items() if n in self.columns})
        for name, value in typed.items():
            self.given.setdefault(name, {})[row] = value
            self.cells[name][row] = GIVEN
        if both:
            self._settle(np.array([row]))
        else:
            side = FROM_OURS if t.in_ours[row] else FROM_THEIRS
            for name in self.columns:
                if name not in typed:
                    self.cells[name][row] = side
        self.rows[row] = MIXED
        self.resolved[row] = "values"

    def _typed(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Values as arrays of one element in the types of their columns."""
        import pyarrow as pa

        schema = self.triples.ours.schema
        wanted = pa.schema([schema.field(n) for n in values])
        if not len(wanted):
            return {}
        table = fit(source([dict(values)], wanted, table=self.name), wanted, table=self.name).table()
        return {n: table.column(n).combine_chunks() for n in values}

    # -- the result -------------------------------------------------------------------------------------------

    def final_row(self, row: int) -> dict[str, Any] | None:
        """A row as it is decided; None where it is deleted or undecided."""
        outcome = int(self.rows[row])
        if outcome in (GONE, OPEN):
            return None
        if outcome in (OURS, THEIRS):
            return self._row("ours" if outcome == OURS else "theirs", row)
        return held.rows(self.mixed(np.array([row])))[0]

    def mixed(self, rows: NDArray[Any]) -> pa.Table:
        """Rows that are made of both sides, or of what was given."""
        import pyarrow as pa

        t, count = self.triples, self.triples.count
        arrays = []
        for field in t.ours.schema:
            name = field.name
            if name in self.key:
                arrays.append(t.keys.column(name).take(rows))
                continue
            pieces = [t.ours.column(name), t.theirs.column(name)]
            at = rows + count * (self.cells[name][rows] == FROM_THEIRS)
            given = self.given.get(name, {})
            for number, row in enumerate(rows):
                if self.cells[name][row] == GIVEN:
                    at[number] = sum(map(len, pieces))
                    pieces.append(given[int(row)])
            chunks = [c for p in pieces for c in (p.chunks if isinstance(p, pa.ChunkedArray) else [p])]
            arrays.append(pa.chunked_array(chunks, field.type).take(pa.array(at)))
        return pa.table(arrays, schema=t.ours.schema)

    def keys_of(self, rows: Mask) -> pa.Table:
        """The keys of some of the rows."""
        return self.triples.keys.filter(rows)
