"""Merging rows that tasks have staged: which are there already, and rows that keep values of those.

Rows that came without every property lie in files beside the table. What they become follows from the rows that are
there, so they are made on every base that the commit moves to, as in one process. A task looks its rows up in the
table; an engine that shuffles joins many rows with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.formats import Built, MatchedRows, Place, task_table, tasks
from quire.formats.row_bitmap import by_fragment, merged, packed, unpacked
from quire.graph.catalog import Entity
from quire.graph.integrity.violations import Violations
from quire.graph.load.merge import NEEDS, kept, missing
from quire.graph.load.row_identity import Ids, incomplete, merged_ids
from quire.graph.load.staged.staged_files import Piece, Written
from quire.lake import engines

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Merging:
    """How the raw rows of one type become rows of its table."""

    session: Any | None
    entity: Entity
    place: Place
    """Where data files are written."""
    schema: Any
    few: int
    """Up to so many rows are compared without a shuffle."""

    # -- identity ---------------------------------------------------------------------------------------------

    def identify(self, one: Written, columns: Sequence[str]) -> None:
        """Give rows that are there already, by what is unique, the ids that they have there."""
        if not one.pieces:
            return
        shuffled = self._shuffled(one.pieces)
        if shuffled is not None:
            paths = shuffled.identify(self.session, one, columns)
        else:
            [(head, _)] = engines.tasks_on(self.session)(1, _Identify(one, tuple(columns)))
            paths = dict(enumerate(head["paths"]))
        for number, path in paths.items():
            one.pieces[number].ids = path

    def _shuffled(self, pieces: Sequence[Piece]) -> Any | None:
        """Who compares their rows with the table, if they are many."""
        rows = sum(piece.rows for piece in pieces)
        return engines.shuffles(self.session, "shuffled_pieces") if rows > self.few else None

    # -- rows that are what they are --------------------------------------------------------------------------

    def complete(self, pieces: Sequence[Piece], mode: Any = "append") -> None:
        """Write raw rows, which give every property, into the table."""
        raw = [piece for piece in pieces if piece.raw is not None and not piece.fragments]
        if not raw:
            return
        output = tasks.Output(self.place, self.entity.table, ("id",), mode=mode, schema=self.schema)
        answers = engines.tasks_on(self.session)(len(raw), _Complete(output, self.entity, raw))
        for piece, (head, _) in zip(raw, answers, strict=True):
            piece.fragments, piece.filtered = head["fragments"], len(piece.left_out) > 0

    # -- rows that keep values of those that are there --------------------------------------------------------

    def build(self, pieces: Sequence[Piece], at: Place) -> Built:
        """Make the rows of pieces on one state of the table."""
        made, shuffled = Made(self.entity, self.place, self.schema, at), self._shuffled(pieces)
        if shuffled is not None:
            answers = shuffled.build(self.session, made, pieces)
        else:
            answers = engines.tasks_on(self.session)(len(pieces), _Build(made, tuple(pieces)))
        replaced = merged(unpacked(body) for _, body in answers)
        fragments = tuple(text for head, _ in answers for text in head["fragments"])
        return Built(fragments, MatchedRows(replaced, sum(map(len, replaced.values()))))


# -- in a task --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Identify:
    """One task that looks for all rows by what is unique, and writes the ids that they have after all."""

    one: Written
    columns: tuple[str, ...]

    def __call__(self, _: int) -> engines.Answer:
        import pyarrow as pa

        one, place, names = self.one, self.one.place, ["id", *self.columns]
        rows = pa.concat_tables([pa.Table.from_batches(piece.read_rows(place, names)) for piece in one.pieces])
        found = merged_ids(task_table(place).view(one.entity.table), one.entity, self.columns, rows)
        return {"paths": [] if found is None else list(_written_ids(place, one.pieces, found))}, b""


@dataclass(frozen=True)
class _Complete:
    """Writes the raw rows of a piece into the table."""

    output: tasks.Output
    entity: Entity
    pieces: Sequence[Piece]

    def __call__(self, number: int) -> engines.Answer:
        rows = (batch for _, batch in loaded(self.output.place, self.entity, self.pieces[number]))
        return {"fragments": tasks.write_rows(self.output, rows)[0]}, b""


@dataclass(frozen=True)
class _Build:
    """Makes the rows of a piece, which it looks up by itself."""

    made: Made
    pieces: Sequence[Piece]

    def __call__(self, number: int) -> engines.Answer:
        piece, place, at = self.pieces[number], self.made.place, self.made.at
        ids = tasks.all_keys(place, piece.id_paths(place), ["id"])
        addresses, positions = task_table(at).find_keys(None, ["id"], ids)
        return self.made.write([(piece, positions, addresses)])


def loaded(place: Place, entity: Entity, piece: Piece) -> Iterator[tuple[Any, pa.RecordBatch]]:
    """The raw rows of a piece that are loaded, under the ids that they have after all, with their positions."""
    import pyarrow as pa

    schema, start = entity.schema(), 0
    ids = piece.read_ids(place).combine_chunks() if piece.ids is not None else None
    keep = np.ones(piece.rows, bool)
    keep[piece.left_out] = False
    for batch in piece.read_rows(place, schema.names):
        stop = start + batch.num_rows
        columns = list(batch.columns)
        if ids is not None:
            columns[0] = ids.slice(start, batch.num_rows)
        rows = pa.RecordBatch.from_arrays(columns, schema=schema).filter(keep[start:stop])
        yield start + np.flatnonzero(keep[start:stop]), rows
        start = stop


@dataclass(frozen=True)
class Made:
    """Makes rows of raw ones and of those that are there."""

    entity: Entity
    place: Place
    schema: Any
    at: Place

    def write(self, pieces: Iterable[tuple[Piece, NDArray[np.int64], NDArray[np.uint64]]]) -> engines.Answer:
        """Write the rows of pieces; of each it is told at which positions rows are there already, and where."""
        replaced: list[Any] = [np.empty(0, np.uint64)]
        output = tasks.Output(self.place, self.entity.table, ("id",), schema=self.schema)

        def rows() -> Iterator[pa.RecordBatch]:
            for piece, positions, addresses in pieces:
                lacks = piece.read_lacks(self.place)
                for places, batch in loaded(self.place, self.entity, piece):
                    made, gone = self._merged(batch, lacks.take(places), places, positions, addresses)
                    replaced.append(gone)
                    yield from made.to_batches()

        fragments, _ = tasks.write_rows(output, rows())
        return {"fragments": fragments}, packed(by_fragment(np.concatenate(replaced)))

    def _merged(
        self, batch: pa.RecordBatch, lacks: pa.Array, places: Any, positions: Any, addresses: Any
    ) -> tuple[pa.Table, Any]:
        """Whole rows, and the addresses of those that they replace."""

        chosen = np.isin(positions, places)
        where, gone = np.searchsorted(places, positions[chosen]), addresses[chosen]
        self._check_complete(batch, lacks, where)
        keep = kept(self.entity, lacks)
        return task_table(self.at).patched(batch, keep, gone, where), gone

    def _check_complete(self, batch: pa.RecordBatch, lacks: pa.Array, there: Any) -> None:
        """Rows that are new have what is required. That was so before; a rival may have removed one since."""
        new = np.setdiff1d(np.arange(batch.num_rows), there)
        found = Violations()
        for row in new.tolist():
            text = lacks[row].as_py()
            if text.startswith(NEEDS):
                found.add([incomplete(self.entity, batch.column("id")[row].as_py(), missing(self.entity, text))])
        if found:
            raise found.error()


def _written_ids(place: Place, pieces: Sequence[Piece], found: Ids) -> Iterator[str]:
    import pyarrow as pa

    start = 0
    for piece in pieces:
        ids = found.column.slice(start, piece.rows).combine_chunks()
        known = pa.array(found.known[start : start + piece.rows])
        yield write_ids(place, ids, known)
        start += piece.rows


def write_ids(place: Place, ids: Any, known: Any) -> str:
    """Write the ids that the rows of a piece have after all, and whether they are known by them: the file."""
    import pyarrow as pa

    batch = pa.RecordBatch.from_arrays([ids.cast(pa.string()), known], names=["id", "known"])
    return task_table(place).write_beside([batch])
