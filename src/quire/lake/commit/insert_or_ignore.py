"""Rows whose key is new: what an insert that ignores existing keys lets through, and what it leaves out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from quire.conversion.source import Source
from quire.formats import View
from quire.formats.keys import firsts

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK_BYTES = 64 << 20
"""A stream is looked up in pieces of this size."""


class NewKeys:
    """Lets rows through whose key is neither in a table nor earlier in the input.

    A row without a key (null) is let through: the insert refuses it.
    """

    def __init__(self, on: Sequence[str], view: View) -> None:
        self._on, self._view = list(on), view
        self._passed: list[pa.Table] = []
        self._found: list[pa.Table] = []
        self.inserted = 0
        self.ignored = 0

    @property
    def found(self) -> pa.Table | None:
        """The keys that the table had already; None without any."""
        import pyarrow as pa

        return pa.concat_tables(self._found) if self._found else None

    def through(self, rows: Source) -> Any:
        """The rows that are new: at once if they are in memory, else as they are read."""
        import pyarrow as pa

        if rows.whole:
            return self._new(rows.table())

        def batches() -> Iterator[pa.RecordBatch]:
            for piece in _pieces(rows):
                yield from self._new(piece).to_batches()

        return pa.RecordBatchReader.from_batches(rows.schema, batches())

    def _new(self, rows: pa.Table) -> pa.Table:
        import numpy as np
        import pyarrow as pa

        keys = rows.select(self._on)
        earlier = sum(part.num_rows for part in self._passed)
        first = firsts(pa.concat_tables([*self._passed, keys]), self._on) - earlier
        position = _free(self._on)
        numbered = keys.append_column(pa.field(position, pa.int64()), pa.array(np.arange(rows.num_rows)))
        wanted = numbered.take(pa.array(first[first >= 0]))
        there = self._view.has(self._on, wanted)
        new = np.setdiff1d(wanted.column(position).to_numpy(), there.column(position).to_numpy())
        if there.num_rows:
            self._found.append(there.select(self._on))
        passed = rows.take(pa.array(new))
        self._passed.append(passed.select(self._on))
        self.inserted += passed.num_rows
        self.ignored += rows.num_rows - passed.num_rows
        return passed


def _free(names: Sequence[str]) -> str:
    """A name that no key column has, in any case of its letters."""
    taken = {name.lower() for name in names}
    return next(name for n in range(len(taken) + 1) if (name := f"position{n}") not in taken)


def _pieces(rows: Source) -> Iterator[pa.Table]:
    """The rows of a stream, in pieces that fit into memory."""
    import pyarrow as pa

    held: list[pa.RecordBatch] = []
    size = 0
    for batch in rows.batches:
        held.append(batch)
        size += batch.nbytes
        if size >= CHUNK_BYTES:
            yield pa.Table.from_batches(held, rows.schema)
            held, size = [], 0
    if held:
        yield pa.Table.from_batches(held, rows.schema)
