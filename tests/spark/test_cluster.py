"""A standalone cluster on loopback, with two workers: exactly the right rows, in exactly one commit, whatever dies.

One driver runs all loads, with speculation. It is told what to do by a line, and answers by one.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.servers import Cluster

import quire

pytestmark = [
    pytest.mark.full,  # five JVMs; that a task which runs twice counts once, test_tasks.py shows without them
    pytest.mark.timeout(900),  # they start beside whatever else the machine does
]

TABLES, ROWS = 3, 40_000

DRIVER = """
import json, os, sys

import quire, quire.spark

SETTINGS = {
    "spark.speculation": "true", "spark.speculation.multiplier": "1.1", "spark.speculation.quantile": "0.5",
    "spark.speculation.interval": "100ms", "spark.speculation.minTaskRuntime": "1500ms",
    "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m", "spark.cores.max": "2", "spark.sql.shuffle.partitions": "2",
}

def feed(how, folder):
    # Passes rows on, and fails, waits or dawdles when it has passed on nearly all.
    def run(batches):
        import os, time
        from pathlib import Path
        from pyspark import TaskContext
        context = TaskContext.get()
        Path(folder, f"started-{context.partitionId()}-{context.attemptNumber()}").write_text(os.getcwd())
        first = context.partitionId() == 0 and context.attemptNumber() == 0
        for batch in batches:
            yield batch.slice(0, batch.num_rows - 1)
            if how == "retry" and first:
                raise RuntimeError("this attempt is over")
            if how == "kill":
                time.sleep(0 if Path(folder, "killed").exists() else 3)
            yield batch.slice(batch.num_rows - 1)
        if how == "straggler" and first:
            time.sleep(40)
            Path(folder, "won").touch()
    return run

spark = quire.spark.session(sys.argv[1], memory="1g", settings=SETTINGS)
spark.range(0, 2, 1, 2).count()
print("ready", flush=True)
for line in sys.stdin:
    told = json.loads(line)
    lake = quire.open(told["lake"])
    with quire.spark.transaction(spark, lake, told["how"], token=told["token"]) as tx:
        for number in range(told["tables"]):
            rows = spark.range(0, told["rows"], 1, 4).mapInArrow(feed(told["how"], told["folder"]), "id long")
            tx[f"t{number}"].insert(rows)
    print(json.dumps({"commit": tx.receipt.commit, "repeated": tx.receipt.repeated}), flush=True)
spark.stop()
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def driver(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    log = tmp_path_factory.mktemp("driver") / "log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, cluster.master],
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
    assert answer(process) == "ready", log.read_text("utf-8")[-3000:]
    yield process
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.fixture
def lake(tmp_path: Path) -> quire.Lake:
    lake = quire.create(tmp_path / "lake")
    with lake.transaction() as tx:
        for number in range(TABLES):
            tx.create_table(f"t{number}", schema=pa.schema([("id", pa.int64())]), key="id")
    return lake


def load(
    driver: subprocess.Popen[str], lake: quire.Lake, folder: Path, how: str, meanwhile: Callable[[], None] | None = None
) -> None:
    """Let the driver load, do something meanwhile, and check what there is in the end; then the same token again."""
    told = {"lake": lake.uri, "folder": str(folder), "how": how, "token": quire.token(), "tables": TABLES, "rows": ROWS}
    assert driver.stdin is not None
    for repeated in (False, True):
        print(json.dumps(told), file=driver.stdin, flush=True)
        if meanwhile is not None and not repeated:
            meanwhile()
        assert json.loads(answer(driver)) == {"commit": "2.0", "repeated": repeated}
        if not repeated:
            check(lake)
            told["tables"] = 0  # the token is known already, so it does not matter what it would do
    check(lake)


def check(lake: quire.Lake) -> None:
    """All rows of all tables, by one commit."""
    snapshot = quire.open(lake.uri).snapshot()
    for number in range(TABLES):
        found = snapshot.sql(f"select count(*) as n, count(distinct id) as d, sum(id) as s from t{number}").to_pylist()
        assert found == [{"n": ROWS, "d": ROWS, "s": sum(range(ROWS))}]
    assert snapshot.commit == "2.0"


def attempts(folder: Path, partition: int) -> list[int]:
    return sorted(int(file.name.split("-")[2]) for file in folder.glob(f"started-{partition}-*"))


def until(condition: Callable[[], Any]) -> Any:
    for _ in range(2400):
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("it never came to that")


def test_a_task_that_fails_is_run_again(lake: quire.Lake, driver: subprocess.Popen[str], tmp_path: Path) -> None:
    load(driver, lake, tmp_path, "retry")
    assert len(attempts(tmp_path, 0)) > 1


def test_a_straggler_that_loses_against_its_copy_counts_not_at_all(
    lake: quire.Lake, driver: subprocess.Popen[str], tmp_path: Path
) -> None:
    load(driver, lake, tmp_path, "straggler")
    assert len(attempts(tmp_path, 0)) > 1
    assert not (tmp_path / "won").exists()


@pytest.mark.parametrize("whole", [False, True], ids=["executor", "worker"])
def test_what_is_killed_costs_nothing_but_time(
    lake: quire.Lake, cluster: Cluster, driver: subprocess.Popen[str], tmp_path: Path, whole: bool
) -> None:
    """An executor, and then a worker with its executor and their Python processes, while they write."""

    def kill() -> None:
        until(lambda: any(Cluster.FIRST in file.read_text("utf-8") for file in tmp_path.glob("started-*")))
        if whole:
            cluster.kill_worker()
        else:
            os.kill(until(cluster.executor), signal.SIGKILL)
        (tmp_path / "killed").touch()

    load(driver, lake, tmp_path, "kill", kill)
    assert any(len(attempts(tmp_path, partition)) > 1 for partition in range(4))
