"""`make bench-spark`: loads on Spark beside `df.write.parquet`, code by hand, this process, and one table at a time.

Every run of one contender is in a lake or folder of its own, on the local disk, with one warm session; contenders take
turns, and the median counts. Rows are counted after every run.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path

from benchmarks.graph.data import SIZES
from benchmarks.spark import data, memory
from benchmarks.spark.scenarios import SMALL_ROWS, SMALL_TABLES, Bench

import quire.spark


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[5_000_000, 20_000_000], help="flat rows")
    parser.add_argument("--vectors", type=int, default=1_000_000, help="vectors of 128 numbers")
    parser.add_argument("--graph", choices=[*SIZES, "none"], default="full", help="size of the graph")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--cores", default="*")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--memory", action="store_true", help="only the driver's memory, at 1 and at 10 million rows")
    parser.add_argument("--master", default=memory.MASTER, help="where the statements of --memory run")
    given = parser.parse_args()
    if given.memory:
        found = memory.compare(master=given.master)
        if given.json is not None:
            given.json.write_text(json.dumps([peak.__dict__ for peak in found], indent=2) + "\n", "utf-8")
        return
    spark = quire.spark.session(f"local[{given.cores}]", memory="3g")
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory(prefix="quire-bench-spark-") as name:
        bench = Bench(spark, Path(name), given.repeat)
        run(bench, given)
    print("\nwhat was asked for")
    goals = promises(bench.seconds)
    for said, ratio, wanted in goals:
        print(f"  {said:72} {ratio:5.2f}x (at least {wanted:.2f}x): {'kept' if ratio >= wanted else 'NOT KEPT'}")
    if given.json is not None:
        told = [{"promise": said, "ratio": round(ratio, 3), "wanted": wanted} for said, ratio, wanted in goals]
        text = json.dumps({"seconds": bench.seconds, "promises": told, "repeat": given.repeat}, indent=2)
        given.json.write_text(text + "\n", "utf-8")
    spark.stop()


def run(bench: Bench, given: argparse.Namespace) -> None:
    folder = bench.folder
    warm(bench)
    for number, rows in enumerate(given.rows):
        source = folder / f"flat-{rows}"
        data.flat(source, rows, text=number == 0)
        bench.files(f"{rows:,} rows of Parquet", source / "parquet", "parquet", data.FLAT, rows)
        if number == 0:
            bench.files(f"{rows:,} rows of CSV", source / "csv", "csv", data.FLAT, rows)
            bench.files(f"{rows:,} rows of JSON", source / "jsonl", "jsonl", data.FLAT, rows)
            bench.many(source / "parquet")
            bench.five_hundred(source / "parquet")
            bench.keys(source / "parquet", rows)
            bench.reads(source / "parquet", rows)
        shutil.rmtree(source)
    if given.vectors:
        data.vectors(folder / "vectors", given.vectors)
        bench.files(f"{given.vectors:,} × 128 vectors", folder / "vectors", "parquet", data.VECTORS, given.vectors)
    if given.graph != "none":
        bench.graph(SIZES[given.graph])


def warm(bench: Bench) -> None:
    """Every contender once, with few rows and without counting: the first use of anything is slow."""
    source = bench.folder / "warm"
    data.flat(source, 1_000, text=False)
    bench.repeat, repeat = 1, bench.repeat
    bench.files("warm", source / "parquet", "parquet", data.FLAT, 1_000)
    bench.repeat = repeat
    del bench.seconds["warm"]


def _against(times: dict[str, float], other: str) -> float:
    """How much faster the first one is."""
    return times[other] / next(iter(times.values()))


def promises(seconds: dict[str, dict[str, float]]) -> list[tuple[str, float, float]]:
    """What Quire promises of its loads, as ratios of this very run."""
    found = []
    for scenario, times in seconds.items():
        if "df.write.parquet" in times:
            ratio = times["df.write.parquet"] / times["Quire on Spark, files"]
            found.append((f"{scenario}: files as fast as df.write.parquet", ratio, 1.0))
        if scenario.startswith("full scan"):
            found.append((f"{scenario} against spark.read.parquet", _against(times, "spark.read.parquet"), 1 / 1.3))
        if scenario.startswith("one row"):
            found.append((f"{scenario}: plain code against the options", _against(times, "the options"), 1 / 1.2))
    for key in ("", ", keyed"):
        times = seconds.get(f"{SMALL_TABLES} tables of {SMALL_ROWS:,} rows{key}", {})
        for way in ("files", "frames"):
            if times:
                ratio = times[f"one after the other, {way}"] / times["one job, one commit"]
                found.append((f"{SMALL_TABLES} tables{key} in one job against one by one ({way})", ratio, 5.0))
    return found


if __name__ == "__main__":
    main()
