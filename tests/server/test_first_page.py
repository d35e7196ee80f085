"""The first page of a large lake: what the server works for it, and what it asks the store for."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pytest
from tests.server.conftest import Serve

import quire

TABLES = 500


def large(path: Path, commits: int) -> quire.Lake:
    """Many tables, then commits that each add to one of them; nothing was ever backfilled."""
    lake = quire.create(path, backfill=False)
    with lake.transaction("make the tables") as tx:
        for number in range(TABLES):
            tx.create_table(f"t{number:03}", schema=pa.schema({"id": pa.int64()}))
    for number in range(commits):
        with lake.transaction(f"commit {number}") as tx:
            tx[f"t{number * 7 % TABLES:03}"].append([{"id": number}])
    lake.flush()
    return lake


@pytest.mark.parametrize("commits", [60, pytest.param(10_000, marks=pytest.mark.full)])
def test_the_first_page_of_a_large_lake_takes_little_of_the_server(tmp_path: Path, serve: Serve, commits: int) -> None:
    """The least of three looks, each by a server that has not seen the lake: others use the machine as well."""
    lake = large(tmp_path / "lake", commits)
    quire.create(tmp_path / "other")
    seconds = []
    for _ in range(3):
        with serve(read_only=True, demo=lake.uri, other=tmp_path / "other") as web:
            web("GET", "/ui/other/tables.json")  # loads what every page needs
            began = time.process_time()
            page = web("GET", "/ui/demo/tables.json").json
            seconds.append(time.process_time() - began)
        assert len(page["data"]["tables"]) == TABLES
        assert page["data"]["recent"][0]["message"] == f"commit {commits - 1}"
        assert page["cost"]["total"] <= 45
        assert page["cost"]["hops"] <= 6
    assert min(seconds) < 0.2, seconds
