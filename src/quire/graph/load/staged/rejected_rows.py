"""Staged rows that are left out: told with file, line and rule, and written to a folder by the tasks that read them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from quire.formats import Place, task_table
from quire.graph.catalog import Entity
from quire.graph.integrity.violations import MOST, Violation
from quire.graph.load.merge import missing
from quire.graph.load.rejects import Culprit, Rejects, as_given, told_line
from quire.graph.load.row_identity import clash, incomplete
from quire.graph.load.staged.staged_files import Piece, Written
from quire.lake import engines
from quire.rowfiles.rejects import RejectFolder


@dataclass(frozen=True)
class Bad:
    """A row that is left out because of its id; without `said`, because it is new and lacks what is required."""

    piece: int
    position: int
    said: str = ""


def reject(
    session: Any | None, one: Written, bad: Sequence[Bad], rejects: Rejects, folder: RejectFolder, name: str
) -> None:
    """Leave rows out, in the order in which they are given. Raises when that are too many."""
    room = rejects.room
    chosen = bad if room is None else bad[:room]
    by_piece: dict[int, dict[int, str]] = {}
    for row in chosen:
        by_piece.setdefault(row.piece, {})[row.position] = row.said
    numbers = sorted(by_piece)
    pieces, rows = [one.pieces[number] for number in numbers], [by_piece[number] for number in numbers]
    names = [f"{name}-{number:05}" for number in numbers]
    work = _Reject(one.place, one.entity, not one.generated, folder, pieces, rows, names)
    answers = [head for head, _ in engines.tasks_on(session)(len(pieces), work)]
    for piece, said, head in zip(pieces, rows, answers, strict=True):
        piece.leave_out(sorted(said), head["others"])
        rejects.leave_out(one.entity.name, len(said))
    for head in answers:
        rejects.tell([Violation(**v) for v in head["violations"]], head["count"])


def culprits(
    session: Any | None, one: Written, violations: Mapping[str, Violation], folder: RejectFolder, name: str
) -> dict[str, Culprit]:
    """The rows that this load has written under the ids of violations."""
    work = _Name(one.place, one.entity, not one.generated, folder, one.pieces, dict(violations), name)
    answers = engines.tasks_on(session)(len(one.pieces), work)
    told = [Violation(**v) for head, _ in answers for v in head["violations"]]
    return {str(v.id): Culprit(v, written=True) for v in told}


def without(session: Any | None, one: Written, wanted: Collection[str]) -> int:
    """Leave out the rows that are loaded with one of these ids; how many. Somebody has told of them."""
    answers = engines.tasks_on(session)(len(one.pieces), _LeaveOut(one.place, one.pieces, frozenset(wanted)))
    count = 0
    for piece, (head, _) in zip(one.pieces, answers, strict=True):
        if head["positions"]:
            piece.leave_out(head["positions"], head["others"])
            count += len(head["positions"])
    return count


# -- in a task --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Reject:
    """Tells of rows of a piece by their positions, and writes the ids of all others to a file."""

    place: Place
    entity: Entity
    given: bool
    folder: RejectFolder
    pieces: Sequence[Piece]
    rows: Sequence[dict[int, str]]
    names: Sequence[str]

    def __call__(self, number: int) -> engines.Answer:
        piece, said = self.pieces[number], self.rows[number]
        positions = np.union1d(piece.left_out, np.array(sorted(said), np.int64))
        found = RowLookup(self.place, self.entity, piece, self.given, self.folder.writes).at(sorted(said))
        told = [(row.said(self.entity, said[row.position]), row.original) for row in found]
        self.folder.put(self.names[number], b"".join(told_line(v, o) + b"\n" for v, o in told))
        shown = [v.to_dict() for v, _ in told[:MOST]]
        return {"violations": shown, "count": len(told), "others": _others(self.place, piece, positions)}, b""


@dataclass(frozen=True)
class _Name:
    """Says where the rows of a piece come from that violations are about, by their ids."""

    place: Place
    entity: Entity
    given: bool
    folder: RejectFolder
    pieces: Sequence[Piece]
    violations: dict[str, Violation]
    name: str

    def __call__(self, number: int) -> engines.Answer:
        piece, violations = self.pieces[number], self.violations
        found = RowLookup(self.place, self.entity, piece, self.given, self.folder.writes).named(violations)
        told = [(replace(violations[row.id], file=row.file, line=row.line), row.original) for row in found]
        self.folder.put(f"{self.name}-{number:05}", b"".join(told_line(v, o) + b"\n" for v, o in told))
        return {"violations": [v.to_dict() for v, _ in told]}, b""


@dataclass(frozen=True)
class _LeaveOut:
    """Finds rows of a piece by their ids, and writes the ids of all others to a file."""

    place: Place
    pieces: Sequence[Piece]
    ids: frozenset[str]

    def __call__(self, number: int) -> engines.Answer:
        piece = self.pieces[number]
        chosen = piece.named(self.place, self.ids)
        positions = np.union1d(piece.left_out, np.array(chosen, np.int64))
        return {"positions": chosen, "others": _others(self.place, piece, positions) if chosen else None}, b""


@dataclass(frozen=True)
class Row:
    """A row of a piece: where it comes from and, if it is to be written, what it was."""

    position: int
    id: str
    file: str | None
    line: int
    lacks: str
    original: Any

    def said(self, entity: Entity, what: str) -> Violation:
        made = clash(entity, self.id, what) if what else incomplete(entity, self.id, missing(entity, self.lacks))
        return replace(made, file=self.file, line=self.line)


@dataclass(frozen=True)
class RowLookup:
    """Looks rows of a piece up."""

    place: Place
    entity: Entity
    piece: Piece
    given: bool
    """Whether ids came with the rows."""
    whole: bool
    """Whether the rows themselves are wanted."""

    def at(self, positions: Sequence[int]) -> list[Row]:
        """Rows by position, with the ids that they came with."""
        ids = [id for batch in self.piece.read_rows(self.place, ["id"]) for id in batch.column(0).to_pylist()]
        return self._rows(positions, lambda position: str(ids[position]))

    def named(self, wanted: dict[str, Violation]) -> list[Row]:
        """The rows that are loaded with one of these ids."""
        ids = self.piece.read_ids(self.place)
        return self._rows(self.piece.named(self.place, wanted), lambda position: str(ids[position].as_py()))

    def _rows(self, positions: Sequence[int], id_of: Callable[[int], str]) -> list[Row]:
        if not positions:
            return []
        lines = self.piece.read_lines(self.place)
        lacks = self.piece.read_lacks(self.place) if self.piece.partial else None
        originals = self._originals(positions) if self.whole else {}
        return [
            Row(
                position,
                id_of(position),
                self.piece.file,
                int(lines[position]),
                "" if lacks is None else lacks[position].as_py(),
                originals.get(position),
            )
            for position in positions
        ]

    def _originals(self, positions: Sequence[int]) -> dict[int, Any]:
        found, start, wanted = {}, 0, np.asarray(positions)
        for batch in self.piece.read_rows(self.place, self.entity.schema().names):
            inside = wanted[(wanted >= start) & (wanted < start + batch.num_rows)]
            for position, row in zip(inside.tolist(), batch.take(inside - start).to_pylist(), strict=True):
                found[position] = as_given(self.entity, row, id=self.given)
            start += batch.num_rows
        return found


def _others(place: Place, piece: Piece, positions: Any) -> str | None:
    """Write the ids of all rows of a piece but some to a file; None when there are no others."""
    import pyarrow as pa

    ids = piece.read_ids(place).combine_chunks()
    keep = np.ones(len(ids), bool)
    keep[positions] = False
    if not keep.any():
        return None
    return task_table(place).write_beside([pa.RecordBatch.from_arrays([ids.filter(keep)], names=["id"])])
