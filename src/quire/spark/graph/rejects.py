"""Rows that are left out: told with file, line and rule, and written to a folder by the tasks that read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.formats import Place
from quire.formats.lance import tasks
from quire.graph.catalog import Entity
from quire.graph.integrity.violations import MOST, Violation
from quire.graph.load.clash import clash, incomplete
from quire.graph.load.merge import missing
from quire.graph.load.rejects import Rejects, as_given, told_line
from quire.spark import jobs
from quire.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from quire.spark.graph.written import Piece, Written


@dataclass(frozen=True)
class Folder:
    """A folder or an address to which every task that leaves rows out writes a file of NDJSON."""

    address: str | None
    load: str
    """Begins every name, so that the rejects of two loads do not mix."""
    options: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def writes(self) -> bool:
        return self.address is not None

    def put(self, name: str, body: bytes) -> None:
        if self.address is not None and body:
            Store.open(self.address, self.options).put(f"{self.load}-{name}.ndjson", body)


@dataclass(frozen=True)
class Bad:
    """A row that is left out because of its id; without `said`, because it is new and lacks what is required."""

    piece: int
    position: int
    said: str = ""


class Told(Rejects):
    """What is wrong, as the driver collects it; the rows were written by others."""

    def __init__(self, most: int, skip: bool | int, folder: Folder) -> None:
        super().__init__(most, None, skip)
        self._folder = folder

    def error(self) -> Exception:
        error = self.found.error()
        if self._folder.writes:
            error.fields["rejects"] = self._folder.address
        return error


def reject(spark: SparkSession, one: Written, bad: Sequence[Bad], rejects: Told, folder: Folder, name: str) -> None:
    """Leave rows out, in the order in which they are given. Raises when that are too many."""
    room = rejects.room
    chosen = bad if room is None else bad[:room]
    by_piece: dict[int, dict[int, str]] = {}
    for row in chosen:
        by_piece.setdefault(row.piece, {})[row.position] = row.said
    numbers = sorted(by_piece)
    place, entity, given = one.place, one.entity, not one.generated
    pieces = [one.pieces[number] for number in numbers]
    rows = [by_piece[number] for number in numbers]

    def work(number: int) -> jobs.Answer:
        piece, said = pieces[number], rows[number]
        positions = np.union1d(piece.left_out, np.array(sorted(said), np.int64))
        found = Found(place, entity, piece, given, folder.writes).at(sorted(said))
        told = [(row.said(entity, said[row.position]), row.original) for row in found]
        folder.put(f"{name}-{numbers[number]:05}", b"".join(told_line(v, o) + b"\n" for v, o in told))
        ids = piece.read_ids(place).combine_chunks()
        keep = np.ones(len(ids), bool)
        keep[positions] = False
        others = tasks.write_columns(place, [_ids(ids.filter(keep))]) if keep.any() else None
        shown = [v.to_dict() for v, _ in told[:MOST]]
        return {"violations": shown, "count": len(told), "others": others}, b""

    answers = [head for head, _ in jobs.on_numbers(spark, len(pieces), work)]
    for piece, said, head in zip(pieces, rows, answers, strict=True):
        piece.left_out = np.union1d(piece.left_out, np.array(sorted(said), np.int64))
        piece.others = head["others"]
        rejects.leave_out(entity.name, len(said))
    for head in answers:
        rejects.tell([Violation(**v) for v in head["violations"]], head["count"])


def culprits(
    spark: SparkSession, one: Written, violations: dict[str, Violation], folder: Folder, name: str
) -> dict[str, Violation]:
    """Violations by the ids of rows that this load has written, with the places of those."""
    place, entity, pieces, given = one.place, one.entity, one.pieces, not one.generated

    def work(number: int) -> jobs.Answer:
        found = Found(place, entity, pieces[number], given, folder.writes).named(violations)
        told = [(replace(violations[row.id], file=row.file, line=row.line), row.original) for row in found]
        folder.put(f"{name}-{number:05}", b"".join(told_line(v, o) + b"\n" for v, o in told))
        return {"violations": [v.to_dict() for v, _ in told]}, b""

    answers = jobs.on_numbers(spark, len(pieces), work)
    told = [Violation(**v) for head, _ in answers for v in head["violations"]]
    return {str(v.id): v for v in told}


# -- in a task --------------------------------------------------------------------------------------------------------


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
class Found:
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
        ids = self.piece.read_ids(self.place).to_pylist()
        left_out = set(self.piece.left_out.tolist())
        chosen = [n for n, id in enumerate(ids) if id in wanted and n not in left_out]
        return self._rows(chosen, lambda position: str(ids[position]))

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


def _ids(ids: Any) -> Any:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([ids], names=["id"])
