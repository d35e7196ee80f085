"""`python -m benchmarks.spark --memory`: what the driver's memory does when the rows become ten times as many.

Every statement runs in a driver process of its own, on a branch of its own of a lake that another process made, and
commits. What is told is the peak of its resident memory (`VmHWM` of /proc/self/status) of two processes: the driver's
Python, where Quire runs, and the driver's JVM, where Spark plans. Executors are JVMs and Python processes of their own,
as on a cluster (`--master 'local-cluster[…]'`), and are not counted. With `--master 'local[2]'` they are in the JVM of
the driver, which then takes what `spark.driver.memory` lets it take.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SIZES = (1_000_000, 10_000_000)
LIMIT = 1.1
"""How much larger the peak may be when the rows are ten times as many."""
PARTITIONS = 16
MASTER = "local-cluster[2,1,2048]"
"""Two executors of one core and 2 GB each, apart from the driver."""
DRIVER = "512m"
"""What the heap of the driver's JVM may grow to."""


@dataclass(frozen=True)
class Peak:
    """One statement at one size."""

    statement: str
    rows: int
    python: float
    """MB of the driver's Python."""
    jvm: float
    seconds: float


def made(spark: Any, low: int, high: int, step: int = 1) -> Any:
    """Rows of three columns, made by executors."""
    return spark.range(low, high, step, PARTITIONS).selectExpr("id", "rand(1) as v", "concat('row ', id) as w")


Statement = Callable[[Any, Any, int], int]


def statements() -> dict[str, Statement]:
    """By name, what is done to a table of `rows` rows, keyed by id; returns how many rows there are afterwards."""

    def append(spark: Any, tx: Any, rows: int) -> int:
        tx["plain"].append(made(spark, rows, 2 * rows))
        return rows

    def insert(spark: Any, tx: Any, rows: int) -> int:
        tx["t"].insert(made(spark, rows, 2 * rows))
        return 2 * rows

    def tenth(spark: Any, tx: Any, rows: int) -> int:
        assert tx["t"].upsert(made(spark, 0, rows, 10)) == {"inserted": 0, "updated": rows // 10}
        return rows

    def every(spark: Any, tx: Any, rows: int) -> int:
        assert tx["t"].upsert(made(spark, 0, rows)) == {"inserted": 0, "updated": rows}
        return rows

    def delete(spark: Any, tx: Any, rows: int) -> int:
        assert tx["t"].delete(spark.range(0, rows, 2, PARTITIONS)) == rows // 2
        return rows // 2

    return {
        "nothing": lambda spark, tx, rows: rows,
        "append": append,
        "strict insert": insert,
        "upsert a tenth": tenth,
        "upsert all": every,
        "delete half by keys": delete,
    }


def measure(rows: int, names: list[str], master: str = MASTER) -> list[Peak]:
    """The peaks of these statements on a table of so many rows."""
    with tempfile.TemporaryDirectory(prefix="quire-bench-memory-") as folder:
        _process(folder, rows, "prepare", master)
        return [_process(folder, rows, name, master) for name in names]


def _process(folder: str, rows: int, statement: str, master: str) -> Peak:
    given = json.dumps({"lake": folder + "/lake", "rows": rows, "statement": statement, "master": master})
    done = subprocess.run([sys.executable, "-m", "benchmarks.spark.memory", given], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{statement} at {rows:,} rows failed:\n{done.stderr[-4000:]}")
    peak = Peak(**json.loads(done.stdout.splitlines()[-1]))
    print(
        f"{rows:>12,} {statement:20} Python {peak.python:.0f} MB, JVM {peak.jvm:.0f} MB, {peak.seconds:.1f} s",
        flush=True,
    )
    return peak


def drive(uri: str, rows: int, statement: str, master: str) -> Peak:
    """Run one statement here, and tell the peaks of this driver."""
    import pyspark

    import quire
    import quire.spark

    apart = not master.startswith("local[")
    settings = {"spark.sql.shuffle.partitions": "8"}
    if apart:
        os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
        settings |= {"spark.executor.memory": "2g", "spark.executor.cores": "1"}
    spark = quire.spark.session(master, memory=DRIVER if apart else "2g", settings=settings)
    start = time.perf_counter()
    if statement == "prepare":
        _prepare(spark, uri, rows)
    else:
        branch = statement.replace(" ", "-")
        lake = quire.open(uri, branch=branch)
        with quire.spark.transaction(spark, lake, statement) as tx:
            expected = statements()[statement](spark, tx, rows)
        found = lake["t"].count()
        if found != expected:
            raise SystemExit(f"{found} rows instead of {expected}")
    seconds = time.perf_counter() - start
    peak = Peak(statement, rows, high_water("self"), sum(high_water(pid) for pid in _java()), seconds)
    spark.stop()
    return peak


def _prepare(spark: Any, uri: str, rows: int) -> None:
    import pyarrow as pa

    import quire
    import quire.spark

    lake = quire.create(uri)
    schema = pa.schema([("id", pa.int64()), ("v", pa.float64()), ("w", pa.string())])
    with quire.spark.transaction(spark, lake, "prepare") as tx:
        tx.create_table("t", made(spark, 0, rows), schema=schema, key="id")
        tx.create_table("plain", schema=schema)
    for statement in statements():
        lake.create_branch(statement.replace(" ", "-"))


def high_water(pid: str) -> float:
    """The largest resident memory that a process has had, in MB."""
    lines = Path(f"/proc/{pid}/status").read_text("utf-8").splitlines()
    [line] = [line for line in lines if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


def _java() -> list[str]:
    """The JVMs that this process started."""
    children = Path("/proc/self/task").glob("*/children")
    found = {pid for one in children for pid in one.read_text("utf-8").split()}
    return [pid for pid in found if Path(f"/proc/{pid}/comm").read_text("utf-8").strip() == "java"]


def compare(sizes: tuple[int, ...] = SIZES, names: list[str] | None = None, master: str = MASTER) -> list[Peak]:
    """Measure every statement at every size, and print a line for each."""
    chosen = list(statements()) if names is None else names
    peaks = [peak for rows in sizes for peak in measure(rows, chosen, master)]
    first, last = sizes[0], sizes[-1]
    print(f"peak of the driver at {first:,} and at {last:,} rows (MB): Python, JVM; {master}")
    for name in chosen:
        small, large = (next(p for p in peaks if p.statement == name and p.rows == rows) for rows in (first, last))
        both = [(small.python, large.python), (small.jvm, large.jvm)]
        told = "".join(f"{one:5.0f} → {other:.0f} ×{other / one:.2f}{_judged(one, other):10}" for one, other in both)
        print(f"  {name:20} {told} {small.seconds:.1f} s, {large.seconds:.1f} s")
    return peaks


def _judged(small: float, large: float) -> str:
    return "" if large <= LIMIT * small else " TOO MUCH"


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    print(json.dumps(drive(asked["lake"], asked["rows"], asked["statement"], asked["master"]).__dict__))
