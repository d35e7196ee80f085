"""A client of Delta that is not ours, in an environment of its own: DuckDB with its extension for Delta.

It reads a table whose commits have an owner, given what the owner tells: also versions that are not published yet.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.duckdb_client import run

import quire
import quire.delta


def asked(attach: str, query: str) -> dict[str, Any]:
    """What the query gives once the table was attached, or what was refused."""
    attached, found = run(attach, query)
    return attached if "error" in attached else found


@pytest.mark.slow
def test_duckdb_reads_versions_that_are_not_published(tmp_path: Path) -> None:
    """With deletion vectors and a partition, at the newest version and an older one; without the owner it refuses."""
    lake = quire.create(str(tmp_path / "lake"), backfill=False)
    with lake.transaction("create") as tx:
        data = pa.table({"id": pa.array(range(1000), pa.int64()), "v": pa.array(range(1000)), "d": ["x"] * 1000})
        tx.create_table("orders", data, key="id", format="delta", options={"partition_by": ["d"]})
        tx.create_table("people", [{"id": 1}])
    with lake.transaction("change") as tx:
        tx["orders"].delete("id % 7 = 0")
        tx["orders"].append([{"id": 5000, "v": 1, "d": "y"}])
        tx["people"].append([{"id": 2}])
    older = lake.snapshot()["orders"].to_pylist()
    with lake.transaction("more") as tx:
        tx["orders"].update({"v": "0"}, where="id > 900")
    newer = lake.snapshot()["orders"].to_pylist()
    told = quire.delta.CommitOwner(lake).table("orders").get_commits()
    folder = tmp_path / "lake" / lake["orders"].describe()["location"]
    assert ([c.version for c in told.commits], told.latest_table_version) == ([1, 2], 2)
    query = "select count(*), sum(v)::bigint, sum((d = 'y')::int)::bigint from t"
    for version, rows in ((2, newer), (1, older)):
        tail = ", ".join(
            f"{{'file_name': 'file://{folder}/{c.path}', 'timestamp': {c.timestamp}, 'file_size': {c.size}}}"
            for c in reversed(told.commits[:version])
        )
        attach = f"attach '{folder}' as t (type delta, max_catalog_version {version}, log_tail [{tail}])"
        expected = [[len(rows), sum(row["v"] for row in rows), 1]]
        assert asked(attach, query) == {"rows": expected}
    assert "error" in asked(f"attach '{folder}' as t (type delta)", query)
    lake.backfill()
    attach = f"attach '{folder}' as t (type delta, max_catalog_version 2, log_tail [])"
    assert asked(attach, query) == {"rows": [[len(newer), sum(row["v"] for row in newer), 1]]}
