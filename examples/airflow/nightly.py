"""The work of a nightly load, as functions of plain values. Airflow runs them in `dag.py`; so can anything else.

python examples/airflow/nightly.py LAKE 2026-11-01 [MASTER]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import quire
from quire import pipeline
from quire.errors import NotFound

PIPELINE = Path(__file__).resolve().parents[1] / "pipeline"


@contextmanager
def engine(master: str | None) -> Iterator[Any]:
    """A Spark session for as long as a task takes, or this process."""
    if master is None:
        yield "local"
        return
    import quire.spark

    spark = quire.spark.session(master)
    try:
        yield spark
    finally:
        spark.stop()


def prepare(uri: str) -> None:
    """The lake with its schema and tables, if they are not there."""
    try:
        lake = quire.open(uri)
    except NotFound:
        lake = quire.create(uri)
    quire.Graph(lake).apply_schema((PIPELINE / "schema.pg").read_text("utf-8"))
    if "visits" not in lake.snapshot().tables():
        import pyarrow as pa

        columns = [("id", pa.int64()), ("who", pa.string()), ("pages", pa.int32()), ("origin", pa.string())]
        lake.create_table("visits", schema=pa.schema(columns), key="id")


def load(uri: str, day: str, base: str, master: str | None = None) -> dict[str, Any]:
    """Load the files of a day in one commit.

    Its token has a name for each day: a task that is run again, by a retry or by hand, changes nothing and tells the
    same, and a day may be loaded after a later one.
    """
    lake = quire.open(uri)
    with engine(master) as where:
        token = quire.StreamToken(f"nightly {day}", 1)
        done = pipeline.run(lake, PIPELINE / "pipeline.yaml", engine=where, base=base, token=token)
    assert done.receipt is not None
    return {"commit": done.receipt.commit, "rows": done.rows, "repeated": done.repeated}


def upkeep(uri: str, master: str | None = None) -> list[str]:
    """Merge small fragments and extend indexes; the tables that were worth it."""
    with engine(master) as where:
        done = quire.open(uri).optimize(engine=where)
    return [one.table for one in done.tables if one.outcome == "optimized"]


if __name__ == "__main__":
    lake_uri, date, *rest = sys.argv[1:]
    chosen = rest[0] if rest else None
    prepare(lake_uri)
    print(load(lake_uri, date, str(PIPELINE / "raw" / "day1"), chosen))
    print(upkeep(lake_uri, chosen))
