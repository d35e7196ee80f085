"""What tasks have written for the types of a load: data files, where each row comes from, and which rows count."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.formats import Place, task_table, tasks
from quire.graph.catalog import Entity
from quire.graph.load.gather import LACKS, LINE

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

NONE: NDArray[np.int64] = np.empty(0, np.int64)


@dataclass
class Piece:
    """The rows of one type that one task has written. It is sent to others, who go on from there."""

    file: str | None
    """Where the rows come from."""
    rows: int
    beside: str
    """A file with their lines and, under merge, what they lack."""
    fragments: list[str] = field(default_factory=list)
    raw: str | None = None
    """A file with the rows as they came, where they are not stored as they are."""
    partial: bool = False
    ids: str | None = None
    """A file with the ids that the rows have after all, and whether they are known by them."""
    left_out: NDArray[np.int64] = field(default_factory=lambda: NONE)
    """Positions of rows that are rejected."""
    filtered: bool = False
    """Whether the fragments are without those."""
    others: str | None = None
    """A file with the ids of all rows but those."""

    def id_paths(self, place: Place) -> list[str]:
        """The files in which the ids of all rows are."""
        own = self.ids or self.raw
        return [own] if own is not None else tasks.paths_of(place, self.fragments)

    def key_paths(self, place: Place) -> list[str]:
        """The files in which the ids of the rows are that are loaded."""
        if not len(self.left_out):
            return self.id_paths(place)
        return [self.others] if self.others is not None else []

    def without(self, place: Place) -> list[NDArray[np.uint32]]:
        """For every fragment, its rows that are left out."""
        found, start = [], 0
        for file in task_table(place).new_files(self.fragments):
            inside = NONE if self.filtered else self.left_out
            inside = inside[(inside >= start) & (inside < start + file.rows)] - start
            found.append(inside.astype(np.uint32))
            start += file.rows
        return found

    def leave_out(self, positions: Sequence[int], others: str | None) -> None:
        """Leave out some more rows; `others` is the file of the ids that are left then."""
        self.left_out = np.union1d(self.left_out, np.array(positions, np.int64))
        self.others = others
        if self.filtered:  # they were written of what was there before
            self.fragments, self.filtered = [], False

    # -- read by tasks ----------------------------------------------------------------------------------------

    def read_ids(self, place: Place) -> pa.ChunkedArray:
        return tasks.all_keys(place, self.id_paths(place), ["id"]).column("id")

    def named(self, place: Place, wanted: Collection[str]) -> list[int]:
        """Positions of the rows that are loaded with one of these ids."""
        import pyarrow as pa
        import pyarrow.compute as pc

        asked = pa.array(sorted(wanted), pa.string())
        found = np.flatnonzero(pc.is_in(self.read_ids(place).cast(pa.string()), value_set=asked).to_numpy())
        return np.setdiff1d(found, self.left_out).tolist()  # type: ignore[no-any-return]

    def read_known(self, place: Place) -> Any:
        """A mask of the rows that are there already by what is unique."""
        if self.ids is None:
            return np.zeros(self.rows, bool)
        return tasks.all_keys(place, [self.ids], ["known"]).column("known").to_numpy()

    def read_lines(self, place: Place) -> Any:
        return tasks.all_keys(place, [self.beside], [LINE]).column(LINE).to_numpy()

    def read_lacks(self, place: Place) -> pa.Array:
        return tasks.all_keys(place, [self.beside], [LACKS]).column(LACKS).combine_chunks()

    def read_rows(self, place: Place, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Columns as they came."""
        paths = [self.raw] if self.raw is not None else tasks.paths_of(place, self.fragments)
        return task_table(place).read_files(paths, names)


@dataclass
class Written:
    """All rows of one type."""

    entity: Entity
    place: Place
    schema: Any
    """The columns of its table that are written."""
    pieces: list[Piece] = field(default_factory=list)
    generated: bool = True
    lacking: bool = False
    partial: bool = False
    needy: bool = False

    def add(self, told: dict[str, Any]) -> None:
        self.generated = self.generated and told["generated"]
        self.lacking = self.lacking or told["lacking"]
        self.partial = self.partial or told["partial"]
        self.needy = self.needy or told["needy"]
        if told["rows"]:
            self.pieces.append(
                Piece(
                    told["file"], told["rows"], told["beside"], told["fragments"], told["raw"], partial=told["partial"]
                )
            )

    @property
    def rows(self) -> int:
        """Rows that are loaded."""
        return sum(piece.rows - len(piece.left_out) for piece in self.pieces)


def handed(place: Place, pieces: Sequence[Piece]) -> tuple[tuple[str, ...], dict[int, NDArray[np.uint32]]]:
    """The fragments of pieces, and by position the rows of each that are left out."""
    fragments = tuple(text for piece in pieces for text in piece.fragments)
    without = [offsets for piece in pieces for offsets in piece.without(place)]
    return fragments, {i: offsets for i, offsets in enumerate(without) if len(offsets)}
