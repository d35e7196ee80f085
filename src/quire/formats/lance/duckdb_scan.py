"""A Lance table as DuckDB reads it: columns and filters are pushed into the scan wherever Lance can take them.

DuckDB passes filters as pyarrow expressions and does not apply them again. Lance takes them over Substrait, which has
no word for unsigned numbers, large text, times and some others; those filters are applied here to Lance's batches, and
so are those on floats, which Lance compares in its own way.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as pads

from quire.errors import QuireError
from quire.filters import shown
from quire.formats.lance.metering import streamed
from quire.formats.lance.session import is_gone, translate
from quire.store import active_meters

if TYPE_CHECKING:
    from lance import LanceDataset

_OF_A_STORE = re.compile(r"\bGeneric \w+ error\b|\bIO error\b")


class PushDown(pads.Dataset):  # type: ignore[misc]
    """What DuckDB needs of a dataset, over a pinned handle. Types that it does not know are shown as ones it does."""

    def __init__(self, handle: LanceDataset) -> None:
        self._handle = handle
        self.failure: QuireError | None = None
        """With what reading stopped, where the store was the reason: DuckDB tells of it as text alone."""
        self._meters = active_meters()  # DuckDB asks for rows in a thread of its own
        self._shown = pa.schema([f.with_type(shown(f.type)) for f in handle.schema])
        self._changed = {f.name for f in self._shown if f.type != handle.schema.field(f.name).type}
        # Lance orders floats by their bits: NaN may be below everything, and -0.0 is below 0.0.
        self._apart = self._changed | {f.name for f in self._shown if pa.types.is_floating(f.type)}

    @property
    def schema(self) -> pa.Schema:
        return self._shown

    def scanner(self, columns: Sequence[str] | None = None, filter: Any = None, **_: Any) -> pads.Scanner:
        wanted = list(columns) if columns is not None else list(self._shown.names)
        # A name that the filter's text holds may be a column of it; one that it does not hold cannot be.
        named = {n for n in self._shown.names if n in str(filter)} if filter is not None else set()
        if not named & self._apart:
            try:
                # The reader is made here, because Lance translates the filter when it is made.
                return pads.Scanner.from_batches(self._as_shown(wanted, filter))
            except (ValueError, NotImplementedError):  # ArrowInvalid and ArrowNotImplementedError are such errors
                if filter is None:
                    raise
        needed = [n for n in self._shown.names if n in wanted or n in named]
        return pads.Scanner.from_batches(self._as_shown(needed, None), columns=wanted, filter=filter)

    def _as_shown(self, columns: list[str], filter: Any) -> pa.RecordBatchReader:
        reader = streamed(self._handle, {"columns": columns, "filter": filter}, self._meters, self._stopped)
        if not self._changed.intersection(columns):
            return reader
        shown = pa.schema([self._shown.field(n) for n in columns])
        return pa.RecordBatchReader.from_batches(shown, (batch.cast(shown) for batch in reader))

    def _stopped(self, error: Exception) -> None:
        if isinstance(error, OSError) or is_gone(error) or _OF_A_STORE.search(str(error)):
            self.failure = translate(error, f"version {self._handle.version} of {self._handle.uri}")
