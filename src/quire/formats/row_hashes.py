"""Looking for rows that are alike begins with their hashes: 8 bytes for each row, whatever is in it.

Rows that are alike have the same hash. So rows whose hash nobody else has are like no other, and only the few that
share one have to be looked at themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from quire.filters.duckdb_engine import shown

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

WORTH = 200_000
"""From so many rows on it is quicker to hash them first: DuckDB takes some time to start."""


def hashed(rows: pa.Table | pa.RecordBatch, columns: Sequence[str]) -> NDArray[np.uint64]:
    """A hash for every row, in order: the same in every process."""
    import duckdb
    import numpy as np
    import pyarrow as pa

    names = [f"k{i}" for i in range(len(columns))]
    given = pa.table([comparable(rows.column(name)) for name in columns], names=names)
    with duckdb.connect() as connection:
        connection.register("given", given)
        found = connection.sql(f"select hash({', '.join(names)}) from given").to_arrow_table()
    return np.asarray(found.column(0).to_numpy(), np.uint64)


def suspects(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The rows that may be like another one in these columns: all that are, and hardly any that are not."""
    import duckdb
    import numpy as np

    if rows.num_rows < WORTH:
        return rows
    try:
        found = hashed(rows, columns)
    except duckdb.Error:  # values that it cannot hold, such as times beyond its calendar
        return rows
    ordered = np.sort(found)
    again = ordered[1:][ordered[1:] == ordered[:-1]]
    return rows.filter(np.isin(found, again)) if len(again) else rows.slice(0, 0)


def comparable(values: Any) -> Any:
    """Values as DuckDB compares them without loss: it cuts durations to microseconds and lacks a few types."""
    target = comparable_type(values.type)
    return values if target == values.type else values.cast(target)


def comparable_type(kind: pa.DataType) -> pa.DataType:
    """The type that such values have."""
    import pyarrow as pa
    import pyarrow.types as t

    if t.is_duration(kind):
        return pa.int64()
    return kind if isinstance(kind, pa.BaseExtensionType) else shown(kind)
