"""Checkpoints of published versions, for clients of Delta: they open a long log by one, also where it was cut."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from tests import duckdb_client
from tests.budget import budget

import quire
from quire.formats.delta.log import checkpoint

COMMITS = budget(checkpoint.EVERY + 4, full=1000)


def grown(tmp_path: Path, dialect: str) -> tuple[quire.Lake, Path]:
    lake = quire.create(str(tmp_path / "lake"), backfill=False)
    with lake.transaction("create") as tx:
        given = pa.table({"id": pa.array([0, 1, 2], pa.int64()), "day": ["Mon", "Tue", None]})
        options = {"dialect": dialect, "partition_by": ["day"]}
        tx.create_table("orders", given, key="id", format="delta", options=options)
    for number in range(COMMITS):
        with lake.transaction(f"{number}") as tx:
            tx["orders"].append([{"id": 10 + number, "day": "Wed"}])
    with lake.transaction("less") as tx:
        tx["orders"].delete("id = 1 or id = 12")
    return lake, tmp_path / "lake" / lake["orders"].describe()["location"]


def checkpoints(folder: Path) -> list[int]:
    names = (re.match(r"(\d{20})\.checkpoint\.", f.name) for f in (folder / "_delta_log").iterdir())
    return sorted(int(found[1]) for found in names if found)


def test_there_is_none_of_a_version_that_is_not_published(tmp_path: Path) -> None:
    lake, folder = grown(tmp_path, "managedCommit")
    assert checkpoints(folder) == []
    lake.backfill()
    assert checkpoints(folder) == [COMMITS + 1]
    assert lake.verify(deep=True).ok


@pytest.mark.parametrize("dialect", ["catalogManaged", "managedCommit"])
def test_clients_open_a_log_whose_beginning_is_gone(tmp_path: Path, dialect: str) -> None:
    lake, folder = grown(tmp_path, dialect)
    lake.backfill()
    with lake.transaction("more") as tx:
        tx["orders"].append([{"id": 9999, "day": "Thu"}])
    lake.backfill()
    then = time.time() - 3600
    for path in Path(lake.uri).rglob("*"):
        os.utime(path, (then, then))
    assert lake.cleanup(older_than=0, keep=1, grace=0).files > COMMITS
    left = sorted(int(f.name[:20]) for f in (folder / "_delta_log").glob("*.json"))
    assert left == [COMMITS + 1, COMMITS + 2], "from the newest checkpoint on"
    again = quire.open(lake.uri, backfill=False)
    rows = {row["id"]: row["day"] for row in again["orders"].to_pylist()}
    assert len(rows) == COMMITS + 2
    if dialect == "managedCommit":
        there = DeltaTable(str(folder)).to_pyarrow_table().to_pylist()
        assert {row["id"]: row["day"] for row in there} == rows
    with again.transaction("on") as tx:
        tx["orders"].append([{"id": 10_000, "day": "Fri"}])
    assert {p.outcome for p in again.backfill()} == {"promoted"}
    assert again.verify(deep=True).ok


@pytest.mark.slow
def test_duckdb_opens_it(tmp_path: Path) -> None:
    lake, folder = grown(tmp_path, "catalogManaged")
    lake.backfill()
    for number in range(COMMITS):
        (folder / "_delta_log" / f"{number:020d}.json").unlink(missing_ok=True)
    attach = f"attach '{folder}' as t (type delta, max_catalog_version {COMMITS + 1}, log_tail [])"
    assert duckdb_client.run(attach, "select count(*) from t")[1] == {"rows": [[COMMITS + 1]]}


def test_a_table_that_asks_for_version_2_gets_it(tmp_path: Path) -> None:
    """Its state is read again by what reads the logs of others."""
    from dataclasses import replace

    from quire.formats.delta.log.plain import PlainLog
    from quire.store import Store

    lake, folder = grown(tmp_path, "catalogManaged")
    lake.backfill()
    (folder / "_delta_log" / f"{COMMITS + 1:020d}.checkpoint.parquet").unlink()
    entry = lake._live.state.by_name("orders")
    assert entry is not None
    state = lake._core.format("delta").open(entry.pin).state  # type: ignore[attr-defined]
    features = (*(state.protocol.reader_features or ()), "v2Checkpoint")
    asking = replace(state, protocol=type(state.protocol)(3, 7, features, features))
    store = Store.open(str(folder))
    checkpoint.write(store, asking)
    assert len([f for f in (folder / "_delta_log").glob("*.checkpoint.*.parquet")]) == 1
    for number in range(COMMITS + 1):
        (folder / "_delta_log" / f"{number:020d}.json").unlink()
    read = PlainLog(store, "orders").state(COMMITS + 1)
    assert set(read.by_path) == set(state.by_path)
    assert (read.rows, read.metadata, read.protocol) == (state.rows, state.metadata, asking.protocol)
