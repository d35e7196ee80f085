"""A merge costs what was changed: the same at any number of rows, tables and commits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

import quire
from quire.testing.s3 import SeaweedFS

CHANGED = 50
REQUESTS, HOPS = 9, 4
"""Of a plan and its commit, by a handle that made both changes and has read none of the rows: both heads, keys of what
is gone and of what came on each side, a deletion vector, a manifest, a slot."""


@dataclass(frozen=True)
class Size:
    rows: int = 10_000
    tables: int = 2
    depth: int = 1


def forked(s3: SeaweedFS, name: str, size: Size) -> quire.Lake:
    """Two branches, each of which changed fifty rows of one table, apart."""
    lake = quire.create(s3.uri(name), storage_options=s3.options, backfill=False)
    ids = np.arange(size.rows)
    with lake.transaction("start") as tx:
        tx.create_table("t", pa.table({"id": ids, "a": ids, "text": pa.array(["x" * 40] * size.rows)}), key="id")
        for number in range(size.tables - 1):
            tx.create_table(f"other{number}", pa.table({"id": [1]}), key="id")
    exp = lake.create_branch("exp")
    for branch, first in ((lake, 0), (exp, size.rows // 2)):
        with branch.transaction("changes") as tx:
            tx["t"].update(values={"a": -1}, where=f"id >= {first} and id < {first + CHANGED}")
    for number in range(size.depth - 1):
        with lake.transaction(f"more {number}") as tx:
            tx["other0"].insert([{"id": 2 + number}])
    exp.close()
    lake.flush()
    return lake


def bill(s3: SeaweedFS, name: str, size: Size) -> tuple[int, int, int, int]:
    """Requests, hops, bytes read, and rows at -1, of a merge on a handle that has looked at the lake before."""
    with forked(s3, name, size) as lake:
        plan = lake.merge("exp", preview=True)
        assert not len(plan.conflicts)
        cost = plan.commit().cost
        changed = lake["t"].count("a = -1")
    return sum(cost["requests"].values()) + sum(cost["external"].values()), cost["hops"], cost["bytes_in"], changed


@pytest.mark.s3
def test_a_merge_costs_the_same_at_any_number_of_rows_and_tables(s3: SeaweedFS) -> None:
    small = bill(s3, "merge-small", Size())
    many_rows = bill(s3, "merge-rows", Size(rows=300_000))
    many_tables = bill(s3, "merge-tables", Size(tables=40))
    deep = bill(s3, "merge-deep", Size(depth=12))
    print(small, many_rows, many_tables, deep)
    assert small[3] == many_rows[3] == many_tables[3] == deep[3] == 2 * CHANGED
    assert many_rows[0] <= small[0]
    assert many_tables[0] <= small[0]
    assert deep[:2] <= small[:2] <= (REQUESTS, HOPS)
    assert many_rows[1] <= small[1]
    assert many_tables[1] <= small[1]
