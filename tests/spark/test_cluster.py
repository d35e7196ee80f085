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
from contextlib import suppress
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
    "spark.shuffle.spill.numElementsForceSpillThreshold": "5000",  # whatever is shuffled is spilled to disk
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

def insert(tx, told, feed):
    for number in range(told["tables"]):
        tx[f"t{number}"].insert(spark.range(0, told["rows"], 1, 4).mapInArrow(feed, "id long"))

def upsert(tx, told, feed):
    # Keys are shuffled before the rows are written and when they are compared: who dies takes shuffled files along.
    for number in range(told["tables"]):
        table = tx[f"t{number}"]
        table.few = 0
        rows = spark.range(0, told["rows"], 1, 4).selectExpr("id", "1L as v").repartition(4, "id")
        table.upsert(rows.mapInArrow(feed, "id long, v long"))

def delete(tx, told, feed):
    # Nine of ten rows have one key.
    for number in range(told["tables"]):
        table = tx[f"t{number}"]
        table.few = 0
        keys = "if(id % 10 = 0, id, 0) as id"
        table.delete(spark.range(0, told["rows"] // 2, 1, 4).selectExpr(keys).mapInArrow(feed, "id long"))

def graph(lake, told, feed):
    people, rows = told["rows"] // 10, told["rows"]
    frames = {
        "Person": spark.range(0, people, 1, 4).selectExpr("concat('p', id) as name").mapInArrow(feed, "name string"),
        "Knows": spark.range(0, rows, 1, 4).selectExpr(
            f"concat('p', id % {people}) as `from`", f"concat('p', (id div {people} + id) % {people}) as `to`"
        ).mapInArrow(feed, "`from` string, `to` string"),
    }
    return quire.Graph(lake).load(frames, engine=spark).receipt

def many(lake, told, feed):
    from quire import pipeline
    feeds = [{"files": f"{told['folder']}/{n}.csv", "table": f"t{n}"} for n in range(told["tables"])]
    return pipeline.run(lake, {"sources": feeds}, engine=spark, token=told["token"]).receipt

def by_statements(verb):
    def run(lake, told, feed):
        with quire.spark.transaction(spark, lake, told["how"], token=told["token"]) as tx:
            verb(tx, told, feed)
        return tx.receipt
    return run

VERBS = {**{verb.__name__: by_statements(verb) for verb in (insert, upsert, delete)}, "graph": graph, "many": many}

spark = quire.spark.session(sys.argv[1], memory="1g", settings=SETTINGS)
spark.range(0, 2, 1, 2).count()
print("ready", flush=True)
for line in sys.stdin:
    told = json.loads(line)
    receipt = VERBS[told["verb"]](quire.open(told["lake"]), told, feed(told["how"], told["folder"]))
    print(json.dumps({"commit": receipt.commit, "repeated": receipt.repeated}), flush=True)
spark.stop()
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def started(master: str, log: Path) -> subprocess.Popen[str]:
    """A driver that waits for work."""
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, master],
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
    assert answer(process) == "ready", log.read_text("utf-8")[-3000:]
    return process


def end(process: subprocess.Popen[str]) -> None:
    """At once, with its JVM."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.fixture(scope="module")
def driver(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    process = started(cluster.master, tmp_path_factory.mktemp("driver") / "log")
    yield process
    end(process)


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


@pytest.fixture
def filled(tmp_path: Path) -> quire.Lake:
    """Tables with half of the keys."""
    lake = quire.create(tmp_path / "lake")
    with lake.transaction() as tx:
        for number in range(TABLES):
            tx.create_table(f"t{number}", pa.table({"id": range(ROWS // 2), "v": [0] * (ROWS // 2)}), key="id")
    return lake


@pytest.fixture
def graph(tmp_path: Path) -> quire.Lake:
    lake = quire.create(tmp_path / "lake")
    schema = "node Person { name: String @key } edge Knows: Person -> Person { @unique(src, dst) }"
    quire.Graph(lake).apply_schema(schema)
    return lake


def load(
    driver: subprocess.Popen[str],
    lake: quire.Lake,
    folder: Path,
    how: str,
    meanwhile: Callable[[], None] | None = None,
    *,
    verb: str = "insert",
    tables: int = TABLES,
) -> None:
    """Let the driver work, do something meanwhile, and check what there is in the end; then the same token again."""
    told = ask(lake, folder, how, verb, tables)
    before = len(list(lake.log()))
    assert driver.stdin is not None
    for repeated in (False,) if verb == "graph" else (False, True):  # a load of a graph takes no token
        print(json.dumps(told), file=driver.stdin, flush=True)
        if meanwhile is not None and not repeated:
            meanwhile()
        found = json.loads(answer(driver))
        assert found["repeated"] == repeated
        CHECKS[verb](quire.open(lake.uri))
        assert len(list(quire.open(lake.uri).log())) == before + 1
        if verb != "many":
            told["tables"] = 0  # the token is known already, so it does not matter what it would do


def ask(lake: quire.Lake, folder: Path, how: str, verb: str, tables: int) -> dict[str, Any]:
    told = {"lake": lake.uri, "folder": str(folder), "how": how, "token": quire.token(), "tables": tables}
    return {**told, "rows": ROWS, "verb": verb}


def all_ids(lake: quire.Lake) -> None:
    """All rows of all tables."""
    for number in range(TABLES):
        found = lake.sql(f"select count(*) as n, count(distinct id) as d, sum(id) as s from t{number}").to_pylist()
        assert found == [{"n": ROWS, "d": ROWS, "s": sum(range(ROWS))}]


def all_new(lake: quire.Lake) -> None:
    all_ids(lake)
    for number in range(TABLES):
        assert lake.sql(f"select sum(v) as v from t{number}").to_pylist() == [{"v": ROWS}]


def some_gone(lake: quire.Lake) -> None:
    left = [i for i in range(ROWS // 2) if i % 10]
    for number in range(TABLES):
        found = lake.sql(f"select count(*) as n, sum(id) as s from t{number}").to_pylist()
        assert found == [{"n": len(left), "s": sum(left)}]


def whole_graph(lake: quire.Lake) -> None:
    edges = 'select count(*) as n, count(distinct ("src", "dst")) as d from "edge:Knows"'
    assert lake.sql(edges).to_pylist() == [{"n": ROWS, "d": ROWS}]
    assert lake["node:Person"].count() == ROWS // 10


def every_table(lake: quire.Lake) -> None:
    snapshot = lake.snapshot()
    assert all(snapshot[name].count() == 1 for name in snapshot.tables())


CHECKS: dict[str, Callable[[quire.Lake], None]] = {
    "insert": all_ids,
    "upsert": all_new,
    "delete": some_gone,
    "graph": whole_graph,
    "many": every_table,
}


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


def wait_for_first(cluster: Cluster, folder: Path) -> None:
    """Until the first worker has begun a task."""
    until(lambda: any(Cluster.FIRST in file.read_text("utf-8") for file in folder.glob("started-*")))


@pytest.mark.parametrize("verb", ["upsert", "delete", "graph"])
def test_a_lost_executor_fails_a_stage_and_the_rows_are_right(
    request: pytest.FixtureRequest, cluster: Cluster, driver: subprocess.Popen[str], tmp_path: Path, verb: str
) -> None:
    """It takes along what it had shuffled, so stages that were done run again. Keys are skewed, and all is spilled."""

    def kill() -> None:
        wait_for_first(cluster, tmp_path)
        os.kill(until(cluster.executor), signal.SIGKILL)
        (tmp_path / "killed").touch()

    lake = request.getfixturevalue("graph" if verb == "graph" else "filled")
    load(driver, lake, tmp_path, "kill", kill, verb=verb)


@pytest.mark.parametrize("verb", ["upsert", "graph"])
def test_stragglers_of_other_verbs_count_once(
    request: pytest.FixtureRequest, driver: subprocess.Popen[str], tmp_path: Path, verb: str
) -> None:
    lake = request.getfixturevalue("graph" if verb == "graph" else "filled")
    load(driver, lake, tmp_path, "straggler", verb=verb)
    assert not (tmp_path / "won").exists()


def test_a_job_of_five_hundred_tables_is_one_commit(driver: subprocess.Popen[str], tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake")
    with lake.transaction() as tx:
        for number in range(500):
            tx.create_table(f"t{number}", schema=pa.schema([("id", pa.int64())]), key="id")
            (tmp_path / f"{number}.csv").write_text(f"id\n{number}\n", "utf-8")
    load(driver, lake, tmp_path, "", verb="many", tables=500)


@pytest.mark.parametrize("whole", [False, True], ids=["executor", "worker"])
def test_what_is_killed_costs_nothing_but_time(
    lake: quire.Lake, cluster: Cluster, driver: subprocess.Popen[str], tmp_path: Path, whole: bool
) -> None:
    """An executor, and then a worker with its executor and their Python processes, while they write."""

    def kill() -> None:
        wait_for_first(cluster, tmp_path)
        if whole:
            cluster.kill_worker()
        else:
            os.kill(until(cluster.executor), signal.SIGKILL)
        (tmp_path / "killed").touch()

    load(driver, lake, tmp_path, "kill", kill)
    assert any(len(attempts(tmp_path, partition)) > 1 for partition in range(4))


def test_a_driver_that_is_killed_has_done_nothing_and_another_does_it(
    filled: quire.Lake, cluster: Cluster, driver: subprocess.Popen[str], tmp_path: Path
) -> None:
    """The last test: it ends the driver of the others, and needs its cores."""
    told = ask(filled, tmp_path, "kill", "upsert", TABLES)
    before = len(list(filled.log()))
    assert driver.stdin is not None
    print(json.dumps(told), file=driver.stdin, flush=True)
    until(lambda: any(tmp_path.glob("started-*")))
    end(driver)
    assert len(list(quire.open(filled.uri).log())) == before
    (tmp_path / "killed").touch()
    second = started(cluster.master, tmp_path / "second.log")
    try:
        assert second.stdin is not None
        print(json.dumps(told), file=second.stdin, flush=True)
        assert json.loads(answer(second))["repeated"] is False
    finally:
        end(second)
    all_new(quire.open(filled.uri))
    assert len(list(quire.open(filled.uri).log())) == before + 1
