"""Handles that slept through a cleanup: a transaction is `Revoked` and can run again, a snapshot has expired."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import quire
from quire.errors import Revoked, SnapshotExpired

ROW = [{"id": 100, "s": "fox", "v": [0.0, 0.0]}]

READS: dict[str, Callable[[Any], Any]] = {
    "to_arrow": lambda t: t.to_arrow(),
    "to_pandas": lambda t: t.to_pandas(),
    "filter": lambda t: t.scan(filter="id = 3").to_arrow(),
    "filter without index": lambda t: t.scan(filter="s like 'w%'", columns=["s"]).to_arrow(),
    "stream": lambda t: list(t.scan().to_reader()),
    "count": lambda t: t.count("s like 'w%'"),
    "vector search": lambda t: t.search([0.0, 1.0]).to_arrow(),
    "text search": lambda t: t.search("fox").to_arrow(),
    "hybrid search": lambda t: t.search(vector=[0.0, 1.0], text="fox").to_arrow(),
}
WRITES: dict[str, Callable[[Any], Any]] = {
    "append": lambda t: t.append(ROW),
    "upsert": lambda t: t.upsert([{**ROW[0], "id": 3}]),
    "update": lambda t: t.update({"s": "s || 'x'"}, where="id > 3"),
    "delete": lambda t: t.delete("s = 'w3 fox'"),
    "overwrite": lambda t: t.overwrite(ROW),
    "add a computed column": lambda t: t.add_columns({"z": "id + 1"}),
    "add a column": lambda t: t.add_columns({"z": pa.int64()}),
    "drop a column": lambda t: t.drop_columns("s"),
    "rename a column": lambda t: t.rename_column("s", "q"),
    "index": lambda t: t.create_index("id", "BITMAP", name="n"),
    "drop an index": lambda t: t.drop_index("s_idx"),
    "require keys": lambda t: t.require_keys([{"id": 3}]),
    "require absent": lambda t: t.require_absent([{"id": 333}]),
    "require none": lambda t: t.require_none("id", [333]),
}
SLEPT = ("new", "opened", "read")
"""How much of the table the handle had seen."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A lake, and the same after its rows were replaced and what was before was cleaned up."""
    before = tmp_path_factory.mktemp("models") / "before"
    with quire.create(before, backfill=False) as lake, lake.transaction() as tx:
        rows = [{"id": i, "s": f"w{i} fox", "v": [float(i), 0.0]} for i in range(20)]
        tx.create_table("t", pa.Table.from_pylist(rows, SCHEMA), key="id")
        tx["t"].create_index("s", "INVERTED")
        tx["t"].create_index("id", "BTREE")
        tx.create_table("log", [{"n": 0}])
    after = before.with_name("after")
    shutil.copytree(before, after)
    with quire.open(after, backfill=False) as lake:
        with lake.transaction() as tx:
            tx["t"].overwrite([{"id": 7, "s": "new fox", "v": [1.0, 1.0]}])
            tx["log"].append([{"n": 1}])
        lake.backfill()
    for path in after.rglob("*"):
        if path.is_file():
            os.utime(path, (path.stat().st_mtime - 10_000,) * 2)
    with quire.open(after) as lake:
        assert lake.cleanup(keep=1, older_than=0, grace=0).files > 5
    return before, after


SCHEMA = pa.schema([("id", pa.int64()), ("s", pa.string()), ("v", pa.list_(pa.float32(), 2))])


def cleaned_up(place: Path, after: Path) -> None:
    """Let the lake at a place become what the cleanup left, under the handles that are open on it."""
    for path in [p for p in place.rglob("*") if p.is_file()]:
        path.unlink()
    shutil.copytree(after, place, dirs_exist_ok=True)


def finish(tx: quire.Transaction, verb: Callable[[Any], Any]) -> None:
    verb(tx["t"])
    tx["log"].append([{"n": 2}])
    tx.commit()


def seen(table: Any, how: str) -> None:
    if how == "opened":
        table.schema  # noqa: B018 - it opens the table
    elif how == "read":
        table.count("id > 1")


@pytest.mark.parametrize("how", SLEPT)
def test_a_transaction_is_revoked_and_succeeds_when_it_is_run_again(
    tmp_path: Path, models: tuple[Path, Path], how: str
) -> None:
    before, after = models
    place = tmp_path / "lake"
    for name, verb in {**READS, **WRITES}.items():
        shutil.copytree(before, place)
        lake = quire.open(place, backfill=False)
        tx = lake.transaction(name)
        seen(tx["t"], how)
        cleaned_up(place, after)
        with pytest.raises(Revoked) as caught:
            finish(tx, verb)
        assert caught.value.retryable, name
        if name not in ("upsert", "drop an index", "require keys", "text search"):  # they need what is gone for good
            with lake.transaction() as again:
                verb(again["t"])
        lake.close()
        shutil.rmtree(place)


@pytest.mark.parametrize("how", SLEPT)
def test_a_snapshot_has_expired(tmp_path: Path, models: tuple[Path, Path], how: str) -> None:
    before, after = models
    place = tmp_path / "lake"
    for verb in READS.values():
        shutil.copytree(before, place)
        snapshot = quire.open(place, read_only=True).snapshot()
        seen(snapshot["t"], how)
        cleaned_up(place, after)
        with pytest.raises(SnapshotExpired):
            verb(snapshot["t"])
        with pytest.raises(SnapshotExpired):
            snapshot.sql("select max(s) from t where id > 3").to_arrow()
        shutil.rmtree(place)


def test_transact_runs_it_again_by_itself(tmp_path: Path, models: tuple[Path, Path]) -> None:
    before, after = models
    place = tmp_path / "lake"
    shutil.copytree(before, place)
    lake = quire.open(place, backfill=False)
    runs: list[int] = []

    def work(tx: quire.Transaction) -> int:
        if not runs:
            cleaned_up(place, after)
        runs.append(1)
        total = sum(row["id"] for row in tx["t"].to_pylist())
        tx["log"].append([{"n": total}])
        return total

    assert lake.transact(work) == 7
    assert len(runs) == 2
    assert sorted(row["n"] for row in lake["log"].to_pylist()) == [0, 1, 7]
