"""Loads a file of NDJSON in this process, and prints by how many bytes its memory grew at most.

`python loads.py quire FILE LAKE` loads it into a graph; `naive` takes all rows into memory first, as a script would.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import quire
from quire.graph.graph import Graph

SCHEMA = """
node Person { name: String @key  age: I32  about: String }
edge Knows: Person -> Person { since: Date  note: String }
"""


def write(path: Path, people: int, friends: int) -> None:
    """People first, then whom each of them knows."""
    with path.open("w") as out:
        for n in range(people):
            about = f"Person number {n} has a line of text about them."
            print(json.dumps({"type": "Person", "data": {"name": f"p{n}", "age": n % 90, "about": about}}), file=out)
        for n in range(people):
            for k in range(friends):
                to = f"p{(n * 7919 + k * 104729 + 1) % people}"
                data = {"since": "2020-01-01", "note": f"They met {n} times."}
                print(json.dumps({"edge": "Knows", "from": f"p{n}", "to": to, "data": data}), file=out)


def memory(name: str) -> int:
    with open("/proc/self/status") as lines:
        line = next(line for line in lines if line.startswith(name))
    return int(line.split()[1]) << 10


def naive(graph: Graph, path: Path) -> None:
    rows = [json.loads(line) for line in path.open()]
    people = [{"id": r["data"]["name"], **r["data"]} for r in rows if "type" in r]
    known = [{"id": str(n), "src": r["from"], "dst": r["to"], **r["data"]} for n, r in enumerate(rows) if "edge" in r]
    assert len(people) < len(known)


def main() -> None:
    way, path, lake_path = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    with quire.create(lake_path, backfill=False) as lake:
        graph = Graph(lake)
        graph.apply_schema(SCHEMA)
        graph.load([{"type": "Person", "data": {"name": "first", "age": 1, "about": "-"}}])  # libraries are loaded
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
        before = memory("VmRSS")
        if way == "naive":
            naive(graph, path)
        else:
            done = graph.load(path)
            assert done.rows == sum(1 for _ in path.open())
        print(memory("VmHWM") - before)


if __name__ == "__main__":
    main()
