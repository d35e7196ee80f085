"""A Delta table as DuckDB reads it: only the columns and the files that a query can need are read.

DuckDB passes filters as pyarrow expressions and does not apply them again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as pads

from quire.errors import QuireError
from quire.filters import arrow, shown
from quire.formats.delta.files.skipping import worth_reading
from quire.store import active_meters, on_behalf

if TYPE_CHECKING:
    from quire.formats.delta.view import DeltaView


class PushDown(pads.Dataset):  # type: ignore[misc]
    """What DuckDB needs of a dataset. Types that it does not know are shown as ones it does."""

    def __init__(self, view: DeltaView) -> None:
        self._view = view
        self.failure: QuireError | None = None
        """With what reading stopped, where the store was the reason: DuckDB tells of it as text alone."""
        self._meters = active_meters()  # DuckDB asks for rows in a thread of its own
        self._shown = pa.schema([f.with_type(shown(f.type)) for f in view.schema])

    @property
    def schema(self) -> pa.Schema:
        return self._shown

    def scanner(self, columns: Sequence[str] | None = None, filter: Any = None, **_: Any) -> pads.Scanner:
        wanted = list(columns) if columns is not None else list(self._shown.names)
        # A name that the filter's text holds may be a column of it; one that it does not hold cannot be.
        named = {n for n in self._shown.names if n in str(filter)} if filter is not None else set()
        needed = [n for n in self._shown.names if n in wanted or n in named]
        if not needed:
            needed = list(self._shown.names[:1])
        schema = pa.schema([self._shown.field(n) for n in needed])
        reader = pa.RecordBatchReader.from_batches(schema, self._batches(needed, schema, filter))
        return pads.Scanner.from_batches(reader, columns=wanted, filter=filter)

    def _batches(self, names: list[str], schema: pa.Schema, filter: Any) -> Iterator[pa.RecordBatch]:
        try:
            state = self._view.state
            condition = None if filter is None else arrow.plain(filter, self._shown)
            rows = iter(self._view.of(worth_reading(state, condition, state.files), names))
            while True:
                with on_behalf(self._meters):
                    batch = next(rows, None)
                if batch is None:
                    return
                yield batch.cast(schema)
        except QuireError as error:
            self.failure = error
            raise
