"""Drivers that die: a load of twenty tables by a process that is ended by SIGKILL at a stage of it.

Imported by a server that forks, so that a driver costs a fork rather than an interpreter with its libraries.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import duckdb  # noqa: F401
import lance.fragment  # noqa: F401
import pyarrow.parquet  # noqa: F401
from pyspark.sql.connect.session import SparkSession

import quire
import quire.spark
from quire import pipeline
from quire.formats.lance.staging.work import LanceWork
from quire.lake.branch.live import LiveBranch
from quire.lake.commit import attempt
from quire.lake.commit.transaction_table import TransactionTable
from quire.ledger.log import LogLedger

TABLES = 20
BEFORE = [
    "begin",
    "data files",
    *(f"table {number}" for number in range(1, TABLES + 1)),
    "staging",
    *(f"staged {number}" for number in (1, TABLES // 2, TABLES)),
    "publish",
]
"""Stages that come before the commit, in order."""
AFTER = ["published", "backfill", "end"]


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)  # a signal may take a moment


def drive(url: str, uri: str, files: str, token: str, stage: str) -> None:
    """Load every file into its table, in one commit; die at a stage, unless it is empty."""
    arm(stage, Path(uri))
    spark = SparkSession.builder.remote(url).create()
    lake = quire.open(uri)
    if stage == "begin":
        die()
    feeds = [{"files": f"{files}/{n}.parquet", "table": f"t{n}"} for n in range(TABLES)]
    pipeline.run(lake, {"sources": feeds}, engine=spark, token=token)
    lake.backfill()
    if stage == "end":
        die()
    spark.stop()


def arm(stage: str, lake: Path) -> None:
    kind, _, number = stage.partition(" ")
    if stage == "data files":
        threading.Thread(target=_watch, args=(lake,), daemon=True).start()
    elif kind == "table":
        _after(TransactionTable, "hand_in", int(number))
    elif kind == "staged":
        _after(LanceWork, "stage", int(number))
    elif kind == "published":
        _after(LogLedger, "append", 1)
    elif kind == "staging":
        _before(attempt, "stage")
    elif kind == "publish":
        _before(LogLedger, "append")
    elif kind == "backfill":
        _before(LiveBranch, "backfill")


def _watch(lake: Path) -> None:
    """Die as soon as executors have begun to write."""
    while not any(lake.glob("**/data/*.lance")):
        time.sleep(0.002)
    die()


def _after(owner: Any, name: str, times: int) -> None:
    done: list[int] = []
    call: Callable[..., Any] = getattr(owner, name)

    @wraps(call)
    def counted(*given: Any, **named: Any) -> Any:
        result = call(*given, **named)
        done.append(1)
        if len(done) >= times:
            die()
        return result

    setattr(owner, name, counted)


def _before(owner: Any, name: str) -> None:
    setattr(owner, name, lambda *_, **__: die())
