"""Rows that an engine gives back in types of its own."""

from __future__ import annotations

import pyarrow as pa

from quire.conversion.engine_types import returned
from quire.conversion.fit import fit
from quire.conversion.source import Source

SCHEMA = pa.schema([("v", pa.list_(pa.float32(), 2))])


def test_what_is_in_memory_can_be_read_twice() -> None:
    rows = pa.record_batch({"v": pa.array([[1, 2.5], [3, 4]], pa.list_(pa.float64()))})
    found = returned(Source(rows.schema, [rows], whole=True), SCHEMA)
    assert [found.table().num_rows, found.table().num_rows] == [2, 2]
    assert fit(found, SCHEMA, table="t").table().column("v").to_pylist() == [[1, 2.5], [3, 4]]
