"""A scan that is read when DuckDB asks, as often as it asks, and only the columns that it asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads

from quire.errors import QuireError
from quire.filters import Condition
from quire.formats import View
from quire.store import active_meters, on_behalf


class LazyScan(pads.Dataset):  # type: ignore[misc]
    """A scan that is read when DuckDB asks for it."""

    def __init__(
        self, view: View, columns: Mapping[str, str], filter: Condition | None = None, limit: int | None = None
    ) -> None:
        self._view, self._columns, self._filter, self._limit = view, dict(columns), filter, limit
        self.failure: QuireError | None = None
        """What reading it ended with: DuckDB tells of it as text."""
        self._meters = active_meters()  # DuckDB asks for rows in a thread of its own
        stored = view.schema
        self._shown = pa.schema([pa.field(name, stored.field(column).type) for name, column in self._columns.items()])

    @property
    def schema(self) -> pa.Schema:
        return self._shown

    def scanner(self, columns: Sequence[str] | None = None, filter: Any = None, **_: Any) -> pads.Scanner:
        """What DuckDB asks for. It relies on the filter and does not apply it again."""
        wanted = list(columns) if columns is not None else list(self._shown.names)
        # A name that the filter's text holds may be a column of it; one that it does not hold cannot be.
        text = "" if filter is None else str(filter)
        needed = [n for n in self._shown.names if n in wanted or n in text] or self._shown.names[:1]
        reader = self.read(needed)
        if filter is None and needed == wanted:
            return pads.Scanner.from_batches(reader)
        return pads.Scanner.from_batches(reader, columns=wanted, filter=filter)

    def read(self, names: Sequence[str]) -> pa.RecordBatchReader:
        """The rows, with some of the columns."""
        try:
            with on_behalf(active_meters() or self._meters):
                reader = self._view.scan(
                    columns=[self._columns[n] for n in names], filter=self._filter, limit=self._limit
                )
        except QuireError as error:
            self.failure = error
            raise
        return renamed(self._noted(reader), names, self._shown)

    def _noted(self, reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
        def batches() -> Iterator[pa.RecordBatch]:
            try:
                yield from reader
            except QuireError as error:
                self.failure = error
                raise

        return pa.RecordBatchReader.from_batches(reader.schema, batches())


def renamed(
    reader: pa.RecordBatchReader, names: Sequence[str], shown: pa.Schema, stored: Sequence[str] | None = None
) -> pa.RecordBatchReader:
    """The same rows under other names; with `stored`, only those columns, which may come in any order."""
    schema = pa.schema([shown.field(n) for n in names])

    def batches() -> Any:
        for batch in reader:
            columns = batch.columns if stored is None else [batch.column(c) for c in stored]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())
