"""A stream into several tables: one commit per batch, each batch exactly once."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import quire
import quire.spark
from quire.errors import InvalidInput


@pytest.fixture
def tables(lake: quire.Lake) -> quire.Lake:
    import pyarrow as pa

    with lake.transaction() as tx:
        tx.create_table("events", schema=pa.schema([("device", pa.string()), ("value", pa.int64())]))
        tx.create_table("devices", schema=pa.schema([("device", pa.string()), ("last", pa.int64())]), key="device")
    return lake


def write(tx: Any, batch: Any) -> None:
    tx["events"].append(batch)
    tx["devices"].upsert(batch.groupBy("device").agg({"value": "max"}).withColumnRenamed("max(value)", "last"))


def arrive(folder: Path, number: int) -> None:
    """One input file: three events of two devices."""
    folder.mkdir(exist_ok=True)
    lines = [f"a,{number}", f"b,{number}", f"a,{number * 10}"]
    file = folder / f"{number:03}.csv"
    file.write_text("\n".join(lines) + "\n", "utf-8")
    os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))  # Spark takes them by their time


def drain(
    spark: Any,
    lake: quire.Lake,
    folder: Path,
    checkpoint: Path,
    writer: Any = write,
    stream: str = "events",
    around: Any = None,
) -> None:
    """Run the stream until its input is read."""
    sink = quire.spark.sink(lake, writer, stream=stream)
    rows = spark.readStream.schema("device string, value long").option("maxFilesPerTrigger", 1).csv(str(folder))
    query = (
        rows.writeStream.foreachBatch(sink if around is None else around(sink))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(240)


def commits(lake: quire.Lake) -> list[str]:
    return [entry.token for entry in lake.log() if entry.token]


def values(lake: quire.Lake) -> list[int]:
    return sorted(row["value"] for row in lake["events"].to_pylist())


def test_one_commit_per_batch_in_all_tables(tables: quire.Lake, spark: Any, tmp_path: Path) -> None:
    for number in (1, 2):
        arrive(tmp_path / "in", number)
    drain(spark, tables, tmp_path / "in", tmp_path / "checkpoint")
    assert commits(tables) == ["events:1", "events:0"]
    assert values(tables) == [1, 1, 2, 2, 10, 20]
    assert {r["device"]: r["last"] for r in tables["devices"].to_pylist()} == {"a": 20, "b": 2}
    newest = next(iter(tables.log()))
    assert sorted(newest.tables) == ["devices", "events"]
    arrive(tmp_path / "in", 3)
    drain(spark, tables, tmp_path / "in", tmp_path / "checkpoint")
    assert commits(tables) == ["events:2", "events:1", "events:0"]


def test_a_crash_before_the_commit_loses_nothing(tables: quire.Lake, spark: Any, tmp_path: Path) -> None:
    arrive(tmp_path / "in", 1)

    def crash(tx: Any, batch: Any) -> None:
        write(tx, batch)
        raise RuntimeError("crash before publish")

    with pytest.raises(Exception, match="crash before publish"):
        drain(spark, tables, tmp_path / "in", tmp_path / "checkpoint", crash)
    assert values(tables) == []
    drain(spark, tables, tmp_path / "in", tmp_path / "checkpoint")
    assert values(tables) == [1, 1, 10]
    assert commits(tables) == ["events:0"]


def test_a_batch_that_was_committed_is_not_written_again(tables: quire.Lake, spark: Any, tmp_path: Path) -> None:
    for number in (1, 2):
        arrive(tmp_path / "in", number)
    drain(spark, tables, tmp_path / "in", tmp_path / "checkpoint")
    lost = tmp_path / "checkpoint" / "commits"
    shutil.rmtree(lost)  # Spark no longer knows which batches are done, and runs the last one again
    lost.mkdir()
    calls: list[int] = []

    def counted(tx: Any, batch: Any) -> None:
        calls.append(1)
        write(tx, batch)

    drain(spark, tables, tmp_path / "in", tmp_path / "checkpoint", counted)
    assert values(tables) == [1, 1, 2, 2, 10, 20]
    assert len(commits(tables)) == 2
    assert calls == []


def test_a_batch_is_written_again_when_a_rival_was_first(tables: quire.Lake, spark: Any) -> None:
    rival = quire.open(tables.uri)
    calls: list[int] = []

    def beaten(tx: Any, batch: Any) -> None:
        tx["devices"].upsert(batch.select("device"))  # keeps `last`, so it rests on what is there
        calls.append(1)
        if len(calls) == 1:
            with rival.transaction() as other:
                other["devices"].insert([{"device": "a", "last": 7}])

    batch = spark.createDataFrame([("a",)], "device string")
    quire.spark.sink(tables, beaten, stream="s")(batch, 0)
    assert len(calls) == 2
    assert tables["devices"].to_pylist() == [{"device": "a", "last": 7}]


@pytest.mark.full
def test_two_sinks_of_one_stream_write_a_batch_once(tables: quire.Lake, spark: Any) -> None:
    """Two processes that both believe that a batch is theirs, at the same moment."""
    both = threading.Barrier(2, timeout=120)

    def together(tx: Any, batch: Any) -> None:
        tx["events"].append(batch)
        both.wait()

    batch = spark.createDataFrame([("a", 1)], "device string, value long")
    sinks = [quire.spark.sink(quire.open(tables.uri), together, stream="s") for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(sink, batch, 0) for sink in sinks]:
            done.result(120)
    tables.refresh()
    assert values(tables) == [1]
    assert commits(tables) == ["s:0"]


@pytest.mark.full
def test_a_new_checkpoint_begins_again_under_a_new_name(tables: quire.Lake, spark: Any, tmp_path: Path) -> None:
    arrive(tmp_path / "in", 1)
    drain(spark, tables, tmp_path / "in", tmp_path / "first")
    drain(spark, tables, tmp_path / "in", tmp_path / "second")  # the same name: its numbers are used
    assert values(tables) == [1, 1, 10]
    drain(spark, tables, tmp_path / "in", tmp_path / "third", stream="again")
    assert values(tables) == [1, 1, 1, 1, 10, 10]
    assert commits(tables) == ["again:0", "events:0"]


DRIVER = """
import os, signal, sys
from pathlib import Path

import quire, quire.spark
from tests.spark.test_stream import drain, write

def before(tx, batch):
    write(tx, batch)
    os.kill(os.getpid(), signal.SIGKILL)

def dying(sink):
    def run(batch, number):
        sink(batch, number)
        os.kill(os.getpid(), signal.SIGKILL)
    return run

lake, folder, checkpoint, when = sys.argv[1:]
spark = quire.spark.session("local[2]", memory="1g", settings={"spark.driver.host": "127.0.0.1"})
around = dying if when == "after" else None
drain(spark, quire.open(lake), Path(folder), Path(checkpoint), before if when == "before" else write, around=around)
"""


@pytest.mark.full
def test_a_driver_that_is_killed_loses_and_repeats_nothing(tables: quire.Lake, spark: Any, tmp_path: Path) -> None:
    """Once before a commit, and once between a commit and Spark's own record of it."""
    for number in (1, 2):
        arrive(tmp_path / "in", number)
    given = [tables.uri, str(tmp_path / "in"), str(tmp_path / "checkpoint")]
    for when, expected in (("before", []), ("after", [1, 1, 10])):
        killed = subprocess.run([sys.executable, "-c", DRIVER, *given, when], capture_output=True, text=True)
        assert killed.returncode == -signal.SIGKILL, killed.stderr[-3000:]
        tables.refresh()
        assert values(tables) == expected
    assert not list((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))  # Spark knows of no batch that is done
    drain(spark, tables, tmp_path / "in", tmp_path / "checkpoint")
    assert values(tables) == [1, 1, 2, 2, 10, 20]
    assert commits(tables) == ["events:1", "events:0"]


def test_a_sink_needs_a_name(tables: quire.Lake) -> None:
    with pytest.raises(InvalidInput):
        quire.spark.sink(tables, write, stream="")
