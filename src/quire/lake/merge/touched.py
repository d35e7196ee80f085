"""Which rows two sides touched since their base, read by change: keys first, whole rows only where both met."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.formats import TableFormat
from quire.formats.fingerprints import in_order
from quire.formats.key_sets import positions
from quire.lake.merge.keyed import Triples
from quire.lake.read.diff import compare
from quire.ledger import Pin
from quire.store import run_parallel

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Touched:
    """Keys of the rows that one side removed and added since the base. A row that was changed is among both."""

    gone: pa.Table
    come: pa.Table

    @property
    def keys(self) -> pa.Table:
        return together(self.gone, self.come)


def touched(format: TableFormat, base: Pin, pin: Pin, key: Sequence[str], *, moved: bool) -> Touched:
    """The keys that one side touched. Where rows were also moved, those that are as they were do not count."""
    if not moved:
        gone, come = format.changed_rows(base, pin, key)
        before, after = run_parallel([gone.read_all, come.read_all])
        return Touched(before.select(list(key)), after.select(list(key)))
    gone, come = format.changed_rows(base, pin)
    before, after = run_parallel([gone.read_all, come.read_all])
    found = compare(before, after, tuple(key))
    names = list(key)
    before, after = found.changed_before.select(names), found.changed_after.select(names)
    return Touched(together(found.removed.select(names), before), together(found.added.select(names), after))


def together(*tables: pa.Table) -> pa.Table:
    """Tables one after the other."""
    import pyarrow as pa

    return pa.concat_tables(tables)


def triples(
    format: TableFormat, base: Pin, ours: Pin, theirs: Pin, keys: pa.Table, columns: Sequence[str] | None = None
) -> Triples:
    """The three versions of the rows that both sides touched. What both removed of the base is its row."""
    gone, mine = format.changed_rows(base, ours)
    _, its = format.changed_rows(base, theirs)
    wanted = _prints(keys)
    b, o, t = run_parallel([partial(_some, reader, keys, wanted) for reader in (gone, mine, its)])
    return aligned(keys, b, o, t)


def aligned(keys: pa.Table, base: pa.Table, ours: pa.Table, theirs: pa.Table) -> Triples:
    """Three tables in the order of the keys."""
    key = keys.schema.names
    rows, there = [], []
    for table in (base, ours, theirs):
        at = positions(keys, table, key)
        there.append(at >= 0)
        rows.append(taken(table, at))
    b, o, t = rows
    return Triples(keys, b, o, t, there[0], there[1], there[2], {})


def taken(table: pa.Table, at: NDArray[np.int64]) -> pa.Table:
    """Rows by their places, and rows of nulls where the place is -1."""
    import pyarrow as pa

    absent = at < 0
    if not table.num_rows:
        return pa.table([pa.nulls(len(at), f.type) for f in table.schema], schema=nullable(table.schema))
    indices = pa.array(np.where(absent, 0, at), mask=absent)
    return pa.table([c.take(indices) for c in table.columns], schema=nullable(table.schema))


def nullable(schema: pa.Schema) -> pa.Schema:
    """The same columns, which may be null."""
    import pyarrow as pa

    return pa.schema([f.with_nullable(True) for f in schema])


def _some(reader: pa.RecordBatchReader, keys: pa.Table, wanted: Any) -> pa.Table:
    """The rows that have one of the keys, and a few others."""
    import pyarrow as pa

    key, kept = keys.schema.names, []
    for batch in reader:
        prints = None if wanted is None else in_order([batch.column(n) for n in key])
        kept.append(batch if prints is None else batch.filter(pa.array(np.isin(prints, wanted))))
    return pa.Table.from_batches(kept, reader.schema)


def _prints(keys: pa.Table) -> Any:
    return in_order([keys.column(n) for n in keys.schema.names])
