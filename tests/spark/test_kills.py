"""A driver that is killed at any stage of a load of twenty tables leaves the lake unchanged or complete, and whoever
runs the load again with the same token completes it exactly once.

Spark is a Connect server that outlives the drivers; each driver is a process that is ended by SIGKILL.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import quire

pytest.importorskip("grpc", reason="Spark Connect needs grpcio: pip install 'quire[spark]'")

from tests.spark import drivers
from tests.spark.drivers import AFTER, BEFORE, TABLES

pytestmark = pytest.mark.timeout(900)  # a machine that is busy with other tests takes its time to fork and to plan

ROWS = 50
KEYED = (13,)


@pytest.fixture(scope="module")
def server(spark: Any) -> str:
    """The address of the session of all tests, which outlives the drivers."""
    return f"sc://127.0.0.1:{spark.conf.get('spark.connect.grpc.binding.port')}"


@pytest.fixture(scope="module")
def forks() -> Any:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([drivers.__name__])
    return context


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of empty tables, and a file for each."""
    folder = tmp_path_factory.mktemp("prepared")
    (folder / "files").mkdir()
    # Closed, so that nothing is still being written when it is copied.
    with quire.create(folder / "lake") as lake, lake.transaction() as tx:
        for number in range(TABLES):
            schema = pa.schema([("id", pa.int64()), ("w", pa.string())])
            tx.create_table(f"t{number}", schema=schema, key="id" if number in KEYED else None)
            ids = range(number * 1000, number * 1000 + ROWS)
            rows = pa.table({"id": pa.array(ids, pa.int64()), "w": [f"row {i}" for i in ids]})
            pq.write_table(rows, folder / "files" / f"{number}.parquet")
    return folder


def ran(forks: Any, *arguments: str) -> int:
    process = forks.Process(target=drivers.drive, args=arguments)
    process.start()
    process.join(240)
    assert process.exitcode is not None
    return int(process.exitcode)


def loaded(uri: str) -> dict[str, list[int]]:
    snapshot = quire.open(uri).snapshot()
    return {name: sorted(row["id"] for row in snapshot[name].to_pylist()) for name in snapshot.tables()}


NOTHING: dict[str, list[int]] = {f"t{n}": [] for n in range(TABLES)}
EVERYTHING = {f"t{n}": list(range(n * 1000, n * 1000 + ROWS)) for n in range(TABLES)}


@pytest.fixture
def given(server: str, prepared: Path, tmp_path: Path) -> list[str]:
    """What a driver is told: the server, a lake of its own, the files and a token."""
    uri = str(shutil.copytree(prepared / "lake", tmp_path / "lake"))
    return [server, uri, str(prepared / "files"), quire.token()]


def check(given: list[str]) -> None:
    """Everything is there, by one commit."""
    assert loaded(given[1]) == EVERYTHING
    lake = quire.open(given[1])
    assert lake.head == "2.0"
    assert lake.verify().ok


@pytest.mark.sampled(1)
@pytest.mark.parametrize("stages", [BEFORE[n::15] for n in range(15)], ids=lambda s: s[0])
def test_drivers_that_die_before_the_commit_change_nothing(forks: Any, given: list[str], stages: list[str]) -> None:
    """One after the other, each a stage further, all with the token of the first; then one completes the load."""
    for stage in stages:
        assert (stage, ran(forks, *given, stage)) == (stage, -signal.SIGKILL)
        assert quire.open(given[1]).head == "1.0", stage
        assert loaded(given[1]) == NOTHING, stage
    assert ran(forks, *given, "") == 0
    check(given)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("stage", AFTER)
def test_a_driver_that_dies_after_the_commit_has_loaded_everything(forks: Any, given: list[str], stage: str) -> None:
    assert ran(forks, *given, stage) == -signal.SIGKILL
    assert loaded(given[1]) == EVERYTHING
    assert ran(forks, *given, "") == 0
    check(given)


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("QUIRE_SPARK_CLUSTER"), reason="make spark-cluster runs it, in minutes")
@pytest.mark.parametrize("stage", BEFORE)
def test_a_load_is_completed_after_every_single_death(forks: Any, given: list[str], stage: str) -> None:
    assert ran(forks, *given, stage) == -signal.SIGKILL
    assert loaded(given[1]) == NOTHING
    assert ran(forks, *given, "") == 0
    check(given)
