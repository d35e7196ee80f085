"""Rows of a type that cannot be loaded because of their ids, found by tasks.

One task looks at them, with the code that does it in one process; an engine that shuffles lets many look at many rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from quire.formats import Place, task_table
from quire.graph.load.merge import homeless
from quire.graph.load.row_identity import Mode, by_unique, clashing
from quire.graph.load.staged.rejected_rows import Bad
from quire.graph.load.staged.staged_files import Written
from quire.lake import engines


@dataclass(frozen=True)
class Clashes:
    """Who looks, where the table is, and how many rows one task may look at."""

    session: Any | None
    at: Place
    mode: Mode
    few: int

    def find(self, one: Written, room: int | None) -> list[Bad]:
        """Rows with an id that is there or comes twice, and then those that are new and lack what is required.

        Each in the order of the rows, and no more than there is room for.
        """
        if not one.pieces:
            return []
        rows = sum(piece.rows for piece in one.pieces)
        shuffled = engines.shuffles(self.session, "shuffled_pieces") if rows > self.few else None
        if shuffled is not None:
            return [Bad(*row) for row in shuffled.clashes(self.session, self.at, self.mode, one, room)]
        [(head, _)] = engines.tasks_on(self.session)(1, _Look(self.at, self.mode, one, room))
        return [Bad(*row) for row in head["rows"]]


@dataclass(frozen=True)
class _Look:
    """One task that looks at all rows: the piece and the position of each that is wrong, and what is said of it."""

    at: Place
    mode: Mode
    one: Written
    room: int | None

    def __call__(self, _: int) -> engines.Answer:
        import pyarrow as pa

        at, one, entity, place, pieces = self.at, self.one, self.one.entity, self.one.place, self.one.pieces
        unique = by_unique(entity, self.mode, lacking=one.lacking)
        ids = pa.chunked_array([c for p in pieces for c in p.read_ids(place).chunks], pa.string())
        known = np.concatenate([p.read_known(place) for p in pieces])
        found = sorted(
            clashing(lambda: task_table(at).view(entity.table), self.mode, ids, known, unique=unique).items()
        )
        if one.needy:
            lacks = pa.concat_arrays([p.read_lacks(place) for p in pieces])
            lost = homeless(lambda: task_table(at).view(entity.table), entity, ids, lacks)
            clashed = {position for position, _ in found}
            found += [(position, "") for position in sorted(lost) if position not in clashed]
        starts = np.cumsum([0, *(p.rows for p in pieces)])
        rows = []
        for position, said in found[: self.room]:
            piece = int(np.searchsorted(starts, position, side="right")) - 1
            rows.append([piece, position - int(starts[piece]), said])
        return {"rows": rows}, b""
