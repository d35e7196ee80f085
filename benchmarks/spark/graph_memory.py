"""`python -m benchmarks.spark.graph_memory`: the peak memory of a driver that loads a graph, and one ten times larger.

Each size is measured in a process of its own: nodes with a key, ten edges for every node with an end at both sides, a
unique pair and at most twenty edges for a node, so that every rule that rows keep together is looked at.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time

import quire
import quire.spark

SIZES = (500_000, 5_000_000)
SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person @card(0..20) { since: I32?  @unique(src, dst) }
"""


def measured(edges: int) -> float:
    """The peak of a driver's Python that loads so many edges, in MB. The JVM is another process."""
    command = [sys.executable, "-m", "benchmarks.spark.graph_memory", "--driver", str(edges)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    peak, seconds = map(float, done.stdout.split()[-2:])
    print(f"{edges:,} edges: {peak:.0f} MB, {seconds:.1f} s", flush=True)
    return peak


def drive(edges: int) -> None:
    """Load so many edges and a tenth of that of nodes, and tell the peak of this process and the seconds."""
    spark = quire.spark.session("local[2]", memory="2g", settings={"spark.sql.shuffle.partitions": "8"})
    nodes = edges // 10
    with (
        tempfile.TemporaryDirectory(prefix="quire-bench-graph-") as name,
        quire.create(name, backfill=False) as lake,
    ):
        graph = quire.Graph(lake)
        graph.apply_schema(SCHEMA)
        people = spark.range(0, nodes, 1, 8).selectExpr("concat('person ', id) as name", "cast(id % 90 as int) as age")
        knows = spark.range(0, edges, 1, 8).selectExpr(
            f"concat('person ', id % {nodes}) as `from`",
            f"concat('person ', (id % {nodes} + 1 + id div {nodes}) % {nodes}) as `to`",
            "cast(id % 30 as int) as since",
        )
        start = time.perf_counter()
        done = graph.load({"Person": people, "Knows": knows}, engine=spark)
        seconds = time.perf_counter() - start
        if done.rows != nodes + edges or graph.lake["edge:Knows"].count() != edges:
            raise SystemExit(f"{done.rows} rows were loaded, not {nodes + edges}.")
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark.graph_memory", description=__doc__)
    parser.add_argument("--edges", type=int, nargs=2, default=SIZES)
    parser.add_argument("--driver", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.driver is not None:
        return drive(given.driver)
    small, large = (measured(edges) for edges in given.edges)
    print(f"ratio {large / small:.3f}")


if __name__ == "__main__":
    main()
