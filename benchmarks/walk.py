"""Which modules of Quire one call walks through, as a profiler sees it.

    python -m benchmarks.walk              modules and crossings of a few everyday calls
    python -m benchmarks.walk --modules    also which modules, with the number of calls into each

A module counts when one of its functions runs on the calling thread; what the background does is not in the way of the
caller. A crossing is a call from one module into another, or the first call into Quire. Both say how many rooms a
reader of the code has to pass to follow one call. Every call is made once before it is counted, so that what happens
only once in a process is not in the numbers.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa

import quire
from quire import Graph

SOURCE = f"{Path(quire.__file__).parent}/"
ROWS = pa.table({"id": [2]})
SCHEMA = """
node Person { name: String @key }
edge Knows: Person -> Person { @unique(src, dst) }
"""
PEOPLE = [{"type": "Person", "data": {"name": name}} for name in ("Ada", "Eve")]
KNOWS = [{"edge": "Knows", "from": "Ada", "to": "Eve"}]


@dataclass
class Walk:
    """The modules that a call has entered, with the number of calls into each, and how often it went from one to
    another.
    """

    modules: Counter[str] = field(default_factory=Counter)
    crossings: int = 0

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        """A profiler: look at every call of a function of Quire."""
        module = _module(frame)
        if event != "call" or module is None:
            return
        self.modules[module] += 1
        caller = frame.f_back
        while caller is not None and _module(caller) is None:
            caller = caller.f_back
        self.crossings += caller is None or _module(caller) != module


def _module(frame: FrameType) -> str | None:
    """The module of Quire that a frame runs in, as a path below the package."""
    name = frame.f_code.co_filename
    return name[len(SOURCE) :] if name.startswith(SOURCE) else None


def walk(call: Callable[[], object]) -> Walk:
    """What a call walks through on this thread."""
    found, before = Walk(), sys.getprofile()
    sys.setprofile(found.note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return found


# -- the calls ---------------------------------------------------------------------------------------------------------


def append_two(lake: quire.Lake) -> quire.Receipt:
    """Arrow rows are appended to two tables in one commit."""
    with lake.transaction("append to two tables") as tx:
        tx["a"].append(ROWS)
        tx["b"].append(ROWS)
    return tx.receipt


def upsert_again(lake: quire.Lake) -> quire.Receipt:
    """A rival changes the same row first, so the upsert is run again on what the rival left."""
    with lake.transaction("upsert") as tx:
        tx["k"].upsert([{"id": 1, "text": "ours"}])
        rival = threading.Thread(target=_change_first, args=(lake,))
        rival.start()
        rival.join()
    return tx.receipt


def _change_first(lake: quire.Lake) -> None:
    """On a thread of its own, so that it is not counted."""
    with lake.transaction("rival") as tx:
        tx["k"].upsert([{"id": 1, "text": "theirs"}])


def load_graph(lake: quire.Lake) -> object:
    """Nodes and an edge are loaded into a graph in one commit."""
    return Graph(lake).load([*PEOPLE, *KNOWS], mode="merge")


def select(lake: quire.Lake) -> list[dict[str, Any]]:
    """SQL over one table of a snapshot."""
    return lake.snapshot().sql("SELECT count(*) AS rows FROM a").to_pylist()


def cleanup(lake: quire.Lake) -> object:
    """A cleanup that finds nothing old enough to delete."""
    return lake.cleanup()


CALLS: dict[str, Callable[[quire.Lake], object]] = {
    "append to two tables": append_two,
    "upsert that is run again": upsert_again,
    "graph.load": load_graph,
    "snapshot.sql": select,
    "cleanup": cleanup,
}


@contextlib.contextmanager
def prepared(folder: str | Path) -> Iterator[quire.Lake]:
    """A lake on disk with what the calls need."""
    with quire.create(Path(folder) / "lake") as lake:
        with lake.transaction("tables") as tx:
            tx.create_table("a", [{"id": 1}])
            tx.create_table("b", [{"id": 1}])
            tx.create_table("k", [{"id": 1, "text": "first"}], key="id")
        Graph(lake).apply_schema(SCHEMA)
        yield lake


def measured(lake: quire.Lake, call: Callable[[quire.Lake], object]) -> Walk:
    """The walk of a call that was made before, and again a moment ago: what is due once a second was done."""
    call(lake)
    lake.flush()
    call(lake)
    return walk(lambda: call(lake))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.walk", description="Modules that one call walks through."
    )
    parser.add_argument("--modules", action="store_true", help="print the modules too, the most often called first")
    given = parser.parse_args(arguments)
    print(f"{'call':<26}{'modules':>8}{'crossings':>11}")
    with tempfile.TemporaryDirectory(prefix="quire-walk-") as folder, prepared(folder) as lake:
        for name, call in CALLS.items():
            found = measured(lake, call)
            print(f"{name:<26}{len(found.modules):>8}{found.crossings:>11}")
            for module, calls in found.modules.most_common() if given.modules else ():
                print(f"{calls:>8}  {module}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
