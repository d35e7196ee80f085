"""From raw files to a typed graph on Spark: a first load, an incremental run, a stream.

    python examples/pipeline/run.py [DIRECTORY]

It makes a lake in ./pipeline-lake (removed and made again), and prints what came of each step. The first two steps are
also what `quire load LAKE examples/pipeline/pipeline.yaml --engine spark` does.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

import quire
import quire.spark
from quire import pipeline

HERE = Path(__file__).resolve().parent


def main(folder: Path, spark: Any) -> quire.Lake:
    """Run all steps; the lake that they made."""
    lake = quire.create(folder / "lake")
    prepare(lake)

    # The first load: CSV and JSON of one day, two node types, two edge types and a table, one commit.
    tell("first load", pipeline.run(lake, HERE / "pipeline.yaml", engine=spark))

    # The next day, by the same mapping: rows that are there are updated, the others are added.
    tell("next day", pipeline.run(lake, HERE / "pipeline.yaml", engine=spark, base=HERE / "raw/day2"))

    # From here on visits come as a stream: two tables, one commit per batch, each exactly once.
    stream(lake, spark, folder)
    print("stream:", lake["totals"].scan(filter="who = 'ada'").to_pylist())
    return lake


def prepare(lake: quire.Lake) -> None:
    """The graph's schema, and two plain tables beside it."""
    quire.Graph(lake).apply_schema((HERE / "schema.pg").read_text("utf-8"))
    visits = pa.schema([("id", pa.int64()), ("who", pa.string()), ("pages", pa.int32()), ("origin", pa.string())])
    with lake.transaction("tables") as tx:
        tx.create_table("visits", schema=visits, key="id")
        tx.create_table("totals", schema=pa.schema([("who", pa.string()), ("pages", pa.int64())]), key="who")


def stream(lake: quire.Lake, spark: Any, folder: Path) -> None:
    """Files that arrive, each a batch."""
    incoming = folder / "incoming"
    incoming.mkdir()
    for number in (3, 4):
        (incoming / f"{number}.csv").write_text(f"{number},ada,{number},stream\n", "utf-8")

    def write(tx: quire.spark.SparkTransaction, batch: Any) -> None:
        tx["visits"].append(batch)
        tx["totals"].upsert(tx["visits"].frame().groupBy("who").agg({"pages": "sum"}).toDF("who", "pages"))

    rows = spark.readStream.schema("id long, who string, pages int, origin string")
    query = (
        rows.option("maxFilesPerTrigger", 1)
        .csv(str(incoming))
        .writeStream.foreachBatch(quire.spark.sink(lake, write, stream="visits"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def tell(what: str, done: pipeline.Loaded) -> None:
    commit = done.receipt.commit if done.receipt else None
    rows = {name: (fed.inserted, fed.updated) for name, fed in done.tables.items()}
    print(f"{what}: commit {commit}, inserted and updated {rows}")


if __name__ == "__main__":
    where = Path(sys.argv[1] if len(sys.argv) > 1 else "pipeline-lake")
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir(parents=True)
    main(where, quire.spark.session("local[2]"))
