"""Rows of a table that equal given ones in all columns: nulls are equal, and so are NaNs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.filters import duckdb_engine
from quire.formats.row_hashes import comparable, comparable_type

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

PLACE = "n"


def grouped(rows: pa.Table) -> tuple[pa.Table, NDArray[np.int64]]:
    """Rows that differ, each once, and how often it was there."""
    names = _names(rows.schema.names)
    with duckdb_engine.connected() as link:
        link.register("given", _comparable(rows))
        listed = ", ".join(names)
        query = f"select min({PLACE}), count(*) from given group by {listed} order by 1"
        found = link.sql(query).to_arrow_table()
    return rows.take(found.column(0)), found.column(1).to_numpy()


def matches(
    scanned: Iterable[pa.RecordBatch], schema: pa.Schema, wanted: pa.Table, place: str
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Of scanned rows that equal a wanted one: the value in their column `place`, and which of the wanted it is."""
    import pyarrow as pa

    columns, names = wanted.schema.names, _names(wanted.schema.names)
    kinds = [pa.field(n, comparable_type(_plain(schema.field(c).type))) for n, c in zip(names, columns, strict=True)]
    shown = pa.schema([*kinds, pa.field(PLACE, schema.field(place).type)])

    def batches() -> Iterable[pa.RecordBatch]:
        for batch in scanned:
            arrays = [_stored(batch.column(c)) for c in columns]
            yield pa.RecordBatch.from_arrays([*arrays, batch.column(place)], schema=shown)

    on = " and ".join(f"s.{n} is not distinct from w.{n}" for n in names) or "true"
    with duckdb_engine.connected() as link:
        link.register("scanned", pa.RecordBatchReader.from_batches(shown, batches()))
        link.register("wanted", _comparable(wanted))
        query = f"select s.{PLACE}, w.{PLACE} from scanned s join wanted w on {on} order by 2, 1"
        found = link.sql(query).to_arrow_table()
    return found.column(0).to_numpy(), found.column(1).to_numpy()


def first_of_each(places: NDArray[Any], positions: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[Any]:
    """Of matches in the order of their position as many of each as are wanted."""
    starts = np.searchsorted(positions, positions, side="left")
    return np.asarray(places[np.arange(len(positions)) - starts < counts[positions]])


def _comparable(rows: pa.Table) -> pa.Table:
    import pyarrow as pa

    arrays = [_stored(column) for column in rows.columns]
    return pa.table([*arrays, pa.array(np.arange(rows.num_rows))], names=[*_names(rows.schema.names), PLACE])


def _stored(column: Any) -> Any:
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        chunks = [_stored(chunk) for chunk in column.chunks]
        return pa.chunked_array(chunks, comparable_type(_plain(column.type)))
    while isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    return comparable(column)


def _plain(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    while isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    return kind


def _names(columns: Iterable[str]) -> list[str]:
    return [f"c{i}" for i, _ in enumerate(columns)]
