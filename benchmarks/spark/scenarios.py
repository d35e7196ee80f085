"""What is compared. Contenders take turns, each in a lake or folder of its own; rows are counted after every run."""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.graph import data as graph_data
from benchmarks.spark.data import FLAT, SPARK_FLAT

import quire
import quire.spark
from quire import pipeline

SMALL_TABLES, SMALL_ROWS = 24, 10_000
MANY_TABLES, TINY_ROWS = 500, 1_000
FEW_ROWS = 10_000
"""Rows of a small upsert into a large table."""


@dataclass(frozen=True)
class Run:
    """One thing that is timed, and the number of rows that must be there afterwards."""

    work: Callable[[], Any]
    count: Callable[[], int]
    rows: int


@dataclass
class Bench:
    spark: Any
    folder: Path
    repeat: int
    seconds: dict[str, dict[str, float]] = field(default_factory=dict)
    _number: int = 0

    # -- measuring --------------------------------------------------------------------------------------------

    def measure(self, scenario: str, contenders: dict[str, Callable[[], Run]], repeat: int | None = None) -> None:
        times: dict[str, list[float]] = {name: [] for name in contenders}
        for _ in range(repeat or self.repeat):
            for name, prepare in contenders.items():
                run = prepare()
                start = time.perf_counter()
                run.work()
                times[name].append(time.perf_counter() - start)
                check(run.count(), run.rows)
        self.seconds[scenario] = {name: statistics.median(found) for name, found in times.items()}
        print(f"\n{scenario}")
        for name, value in self.seconds[scenario].items():
            print(f"  {name:34} {value:8.2f} s", flush=True)

    def fresh(self) -> Path:
        """A folder of its own; the one before is gone."""
        shutil.rmtree(self.folder / f"out-{self._number}", ignore_errors=True)
        self._number += 1
        return self.folder / f"out-{self._number}"

    def lake(self, schema: pa.Schema, tables: int = 1, key: str | None = None) -> quire.Lake:
        lake = quire.create(self.fresh())
        with lake.transaction() as tx:
            for number in range(tables):
                tx.create_table(f"t{number}", schema=schema, key=key)
        return lake

    # -- files into one table ---------------------------------------------------------------------------------

    def files(self, scenario: str, source: Path, kind: str, schema: pa.Schema, rows: int) -> None:
        """The same files into a table, by everybody."""
        spark, feed = self.spark, {"sources": [{"files": f"{source}/*.{kind}", "table": "t0"}]}

        def load(engine: Any) -> Run:
            lake = self.lake(schema)
            return Run(lambda: pipeline.run(lake, feed, engine=engine), lambda: lake["t0"].count(), rows)

        def frame() -> Run:
            lake = self.lake(schema)

            def work() -> None:
                with quire.spark.transaction(spark, lake) as tx:
                    tx["t0"].append(self.read(source, kind))

            return Run(work, lambda: lake["t0"].count(), rows)

        def parquet() -> Run:
            out = self.fresh()

            def count() -> int:
                return sum(pq.read_metadata(p).num_rows for p in out.glob("*.parquet"))

            return Run(lambda: self.read(source, kind).write.parquet(str(out)), count, rows)

        contenders: dict[str, Callable[[], Run]] = {
            "Quire on Spark, files": lambda: load(spark),
            "Quire on Spark, frame": frame,
            "mapInArrow and pylance, by hand": lambda: self.by_hand(source, kind, schema, rows),
            "Quire in this process": lambda: load("local"),
            "df.write.parquet": parquet,
        }
        self.measure(scenario, contenders)

    def read(self, source: Path, kind: str) -> Any:
        """The files as a frame of Spark, with the schema given where a file does not hold it."""
        if kind == "parquet":
            return self.spark.read.parquet(str(source))
        reader = self.spark.read.schema(SPARK_FLAT)
        return reader.csv(str(source), header=True) if kind == "csv" else reader.json(str(source))

    def by_hand(self, source: Path, kind: str, schema: pa.Schema, rows: int) -> Run:
        """What one would write without Quire: rows through Spark into Lance's writer, and one plain commit."""
        import lance

        uri = str(self.fresh())

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import json

            from lance.fragment import write_fragments

            reader = pa.RecordBatchReader.from_batches(schema, (b.cast(schema) for b in batches))
            made = [json.dumps(f.to_json()) for f in write_fragments(reader, uri, schema=schema)]
            yield pa.record_batch({"fragment": pa.array(made, pa.string())})

        def work() -> None:
            from lance.fragment import FragmentMetadata

            found = self.read(source, kind).mapInArrow(write, "fragment string").collect()
            fragments = [FragmentMetadata.from_json(row["fragment"]) for row in found]
            lance.LanceDataset.commit(uri, lance.LanceOperation.Overwrite(schema, fragments))

        return Run(work, lambda: lance.dataset(uri).count_rows(), rows)

    # -- many tables ------------------------------------------------------------------------------------------

    def five_hundred(self, source: Path) -> None:
        """As many tables as one job and one commit may have."""
        small = self.folder / "tiny.parquet"
        pq.write_table(pq.read_table(sorted(source.glob("*.parquet"))[0]).slice(0, TINY_ROWS), small)
        feeds = [{"files": str(small), "table": f"t{n}"} for n in range(MANY_TABLES)]

        def prepared() -> Run:
            lake = self.lake(FLAT, MANY_TABLES)

            def count() -> int:
                snapshot = lake.snapshot()
                return sum(snapshot[f"t{n}"].count() for n in range(MANY_TABLES))

            work = {"sources": feeds}
            return Run(lambda: pipeline.run(lake, work, engine=self.spark), count, TINY_ROWS * MANY_TABLES)

        scenario = f"{MANY_TABLES} tables of {TINY_ROWS:,} rows"
        self.measure(scenario, {"one job, one commit": prepared}, 1)

    def many(self, source: Path) -> None:
        """Small tables in one job and one commit, and one after the other."""
        small = self.folder / "small.parquet"
        pq.write_table(pq.read_table(sorted(source.glob("*.parquet"))[0]).slice(0, SMALL_ROWS), small)
        feeds = [{"files": str(small), "table": f"t{n}"} for n in range(SMALL_TABLES)]

        def prepared(work: Callable[[quire.Lake], None], key: str | None) -> Run:
            lake = self.lake(FLAT, SMALL_TABLES, key)
            names = [f"t{n}" for n in range(SMALL_TABLES)]
            return Run(lambda: work(lake), lambda: sum(lake[n].count() for n in names), SMALL_ROWS * SMALL_TABLES)

        def together(lake: quire.Lake) -> None:
            pipeline.run(lake, {"sources": feeds}, engine=self.spark)

        def one_by_one(lake: quire.Lake) -> None:
            for feed in feeds:
                pipeline.run(lake, {"sources": [feed]}, engine=self.spark)

        def frames(lake: quire.Lake) -> None:
            for n in range(SMALL_TABLES):
                with quire.spark.transaction(self.spark, lake) as tx:
                    tx[f"t{n}"].append(self.spark.read.parquet(str(small)))

        for key in (None, "id"):
            self.measure(
                f"{SMALL_TABLES} tables of {SMALL_ROWS:,} rows{', keyed' if key else ''}",
                {
                    "one job, one commit": lambda key=key: prepared(together, key),  # type: ignore[misc]
                    "one after the other, files": lambda key=key: prepared(one_by_one, key),  # type: ignore[misc]
                    "one after the other, frames": lambda key=key: prepared(frames, key),  # type: ignore[misc]
                },
            )

    # -- what checks take -------------------------------------------------------------------------------------

    def keys(self, source: Path, rows: int) -> None:
        """The same rows without a key, strictly by key, and a tenth of them again."""
        spark, feed = self.spark, {"sources": [{"files": f"{source}/*.parquet", "table": "t0"}]}

        def load(key: str | None) -> Run:
            lake = self.lake(FLAT, key=key)
            return Run(lambda: pipeline.run(lake, feed, engine=spark), lambda: lake["t0"].count(), rows)

        def upsert() -> Run:
            lake = self.lake(FLAT, key="id")
            pipeline.run(lake, feed, engine=spark)

            def work() -> None:
                with quire.spark.transaction(spark, lake) as tx:
                    tx["t0"].upsert(spark.read.parquet(str(source)).where("id % 10 = 0"))

            return Run(work, lambda: lake["t0"].count(), rows)

        few = min(FEW_ROWS, rows)

        def small() -> Run:
            lake = self.lake(FLAT, key="id")
            pipeline.run(lake, feed, engine=spark)
            given = spark.read.parquet(str(source)).where(f"id % {rows // few} = 0").limit(few).cache()
            given.count()

            def work() -> None:
                with quire.spark.transaction(spark, lake) as tx:
                    tx["t0"].upsert(given)

            return Run(work, lambda: lake["t0"].count(), rows)

        contenders: dict[str, Callable[[], Run]] = {
            "append, no key": lambda: load(None),
            "strict insert by key": lambda: load("id"),
            "upsert of a tenth": upsert,
            f"upsert of {few:,} rows": small,
        }
        self.measure(f"keys of {rows:,} rows", contenders, 1)

    # -- reading ----------------------------------------------------------------------------------------------

    def reads(self, source: Path, rows: int) -> None:
        """A full scan and a look-up of one row, of the same rows: plain code, options, Parquet."""
        spark = self.spark
        lake = self.lake(FLAT)
        pipeline.run(lake, {"sources": [{"files": f"{source}/*.parquet", "table": "t0"}]}, engine=spark)
        wanted = rows // 2

        def sums(frame: Callable[[], Any]) -> Run:
            found: list[int] = []
            columns = "count(id) as n", "sum(a)", "sum(b)", "max(c)", "sum(d)", "max(e)"
            work = lambda: found.append(frame().selectExpr(*columns).collect()[0]["n"])  # noqa: E731
            return Run(work, lambda: found[0], rows)

        def look_up(frame: Callable[[], Any]) -> Run:
            found: list[int] = []
            return Run(lambda: found.append(len(frame().collect())), lambda: found[0], 1)

        def quires(**how: Any) -> Any:
            return quire.spark.table(spark, lake, "t0", **how)

        parquet = lambda: spark.read.parquet(str(source))  # noqa: E731
        scans: dict[str, Callable[[], Run]] = {
            "quire.spark.table": lambda: sums(quires),
            "spark.read.parquet": lambda: sums(parquet),
        }
        self.measure(f"full scan of {rows:,} rows", scans)
        look_ups: dict[str, Callable[[], Run]] = {
            "where and select": lambda: look_up(lambda: quires().where(f"id = {wanted}").select("id", "c")),
            "the options": lambda: look_up(lambda: quires(columns=["id", "c"], filter=f"id = {wanted}")),
            "spark.read.parquet": lambda: look_up(lambda: parquet().where(f"id = {wanted}").select("id", "c")),
        }
        self.measure(f"one row of {rows:,}", look_ups)

    def graph(self, size: graph_data.Size) -> None:
        """A graph with all its rules, here and on Spark, and its files as plain tables: without any rule."""
        files = split(self.folder / "graph", size)
        rows = sum(pq.read_metadata(p).num_rows for paths in files.values() for p in paths)

        def load(engine: Any) -> Run:
            graph = quire.Graph(quire.create(self.fresh()))
            graph.apply_schema(graph_data.SCHEMA)

            def count() -> int:
                return sum(graph.table(name).count() for name in files)

            given = [str(p) for paths in files.values() for p in paths]
            return Run(lambda: graph.load(given, engine=engine), count, rows)

        def plain() -> Run:
            lake = quire.create(self.fresh())
            with lake.transaction() as tx:
                for name, paths in files.items():
                    schema = pq.read_schema(paths[0])
                    tx.create_table(name, schema=pa.schema([pa.field(f.name, f.type) for f in schema]))
            feeds = [{"files": [str(p) for p in paths], "table": name} for name, paths in files.items()]
            return Run(
                lambda: pipeline.run(lake, {"sources": feeds}, engine=self.spark),
                lambda: sum(lake[name].count() for name in files),
                rows,
            )

        contenders: dict[str, Callable[[], Run]] = {
            "graph.load on Spark": lambda: load(self.spark),
            "graph.load in this process": lambda: load("local"),
            "the same files, no rules, Spark": plain,
        }
        self.measure(f"graph of {rows:,} nodes and edges", contenders, 1)


def split(folder: Path, size: graph_data.Size) -> dict[str, list[Path]]:
    """The files of a graph by type, each type in several, so that several tasks can read it."""
    folder.mkdir()
    found: dict[str, list[Path]] = {}
    for name in graph_data.write(folder, size):
        whole = folder / f"{name}.parquet"
        with pq.ParquetFile(whole) as file:
            groups = file.metadata.num_row_groups
            step = max(1, -(-groups // 8))
            for number, start in enumerate(range(0, groups, step)):
                part = folder / f"{name}.{number}.parquet"
                pq.write_table(file.read_row_groups(list(range(start, min(groups, start + step)))), part)
                found.setdefault(name, []).append(part)
        whole.unlink()
    return found


def check(found: int, expected: int) -> None:
    if found != expected:
        raise SystemExit(f"{found} rows instead of {expected}")
