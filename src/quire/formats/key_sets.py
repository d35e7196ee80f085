"""Keys of one set of rows looked up in another, by DuckDB in memory: typed, and nothing is pasted into its SQL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.filters import Condition, In, duckdb_engine, every
from quire.formats.row_hashes import comparable

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


def is_among(keys: pa.Table) -> Condition:
    """The condition that a row has one of the keys; keys of several columns let others pass, too."""
    return every([In(name, tuple(keys.column(name).unique().to_pylist())) for name in keys.schema.names])


def common(mine: pa.Table, its: pa.Table, key: Sequence[str]) -> pa.Table:
    """The keys that are in both, each once."""
    if not mine.num_rows or not its.num_rows:
        return mine.slice(0, 0)
    on = " and ".join(f"a.k{i} = b.k{i}" for i in range(len(key)))
    listed = ", ".join(f"a.k{i}" for i in range(len(key)))
    with duckdb_engine.connected() as link:
        _register(link, a=_numbered(mine, key), b=_numbered(its, key))
        query = f"select min(a.n) from a where exists (select 1 from b where {on}) group by {listed} order by 1"
        found = link.sql(query).to_arrow_table().column(0)
    return mine.take(found)


def positions(keys: pa.Table, table: pa.Table, key: Sequence[str]) -> NDArray[np.int64]:
    """For every key the row of a table that has it; -1 where none has."""
    found = np.full(keys.num_rows, -1, np.int64)
    if table.num_rows and keys.num_rows:
        on = " and ".join(f"a.k{i} = b.k{i}" for i in range(len(key)))
        with duckdb_engine.connected() as link:
            _register(link, a=_numbered(keys, key), b=_numbered(table, key))
            pairs = link.sql(f"select a.n, b.n from a join b on {on}").to_arrow_table()
            found[pairs.column(0).to_numpy()] = pairs.column(1).to_numpy()
    return found


def without(keys: pa.Table, others: Iterable[pa.Table]) -> pa.Table:
    """The keys that none of the others has."""
    left = keys
    for other in others:
        left = left.filter(positions(left, other, keys.schema.names) < 0)
    return left


def _numbered(table: pa.Table, key: Sequence[str]) -> pa.Table:
    """The key columns under names that clash with nothing, and the place of each row."""
    import pyarrow as pa

    columns = [comparable(table.column(n)) for n in key]
    names = [f"k{i}" for i in range(len(key))]
    return pa.table([*columns, pa.array(np.arange(table.num_rows))], names=[*names, "n"])


def _register(link: Any, **tables: pa.Table) -> None:
    for name, table in tables.items():
        link.register(name, table)
