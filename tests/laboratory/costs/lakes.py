"""Lakes of a given depth, width and upkeep: built on local disk, then laid down on a server object by object."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow as pa
from tests.laboratory.costs import graphs
from tests.laboratory.costs.quiet import Quiet

import quire
from quire.lake.commit.back_pressure import Bounds
from quire.store import Store, clock, run_parallel

ROWS = 100
"""What every table holds at first."""
TOGETHER = 50
"""Tables that are made in one commit."""
GROWING = ("t0", "indexed")
"""The tables to which every commit adds a row."""
UPKEEP_EVERY = 100
"""A lake that is maintained is optimized after so many commits."""
UNBOUNDED = Bounds(1 << 30, 1 << 30, 1 << 30)
"""Nobody is slowed down while a lake is built that never is maintained."""


@dataclass(frozen=True, order=True)
class Condition:
    """What a lake is like. Its depth is the number of commits since its tables were made.

    Beside its tables without an index it has one more, `indexed`, with an index on `id`. If it holds a graph, its
    tables are the node and edge types, and there is no other.
    """

    maintained: bool = True
    depth: int = 1
    tables: int = 2
    branches: int = 1
    graph: bool = False

    @property
    def is_smallest(self) -> bool:
        return replace(self, maintained=True) in (SMALLEST, SMALLEST_GRAPH)

    def __str__(self) -> str:
        upkeep = "maintained" if self.maintained else "never maintained"
        tables = f"graph of {self.tables} types" if self.graph else f"{self.tables} tables"
        return f"{upkeep}, depth {self.depth}, {tables}, {_number(self.branches, 'branch', 'branches')}"


def _number(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


SMALLEST = Condition()
LARGEST = Condition(depth=1000, tables=500, branches=50)
SMALLEST_GRAPH = Condition(tables=20, graph=True)
LARGEST_GRAPH = replace(SMALLEST_GRAPH, depth=1000)
CONDITIONS: tuple[Condition, ...] = tuple(
    replace(shape, maintained=maintained)
    for maintained in (True, False)
    for shape in (
        SMALLEST,
        Condition(branches=50),
        Condition(depth=100),
        Condition(depth=1000),
        Condition(tables=50),
        Condition(tables=500),
        LARGEST,
        SMALLEST_GRAPH,
        replace(SMALLEST_GRAPH, depth=100),
        LARGEST_GRAPH,
    )
)
"""Each measure alone, then all of them at once; and graphs by depth."""


def rows(first: int, count: int = 1) -> pa.Table:
    ids = range(first, first + count)
    return pa.table({"id": pa.array(ids, pa.int64()), "text": pa.array([f"row {n}" for n in ids])})


class Builder:
    """Makes lakes in a folder of this machine. A deeper lake goes on from the one before it, if that is possible.

    Tables are `t0`, `t1`, … and `indexed`; none has a key. Every commit adds a row to `t0` and one to `indexed`. In a
    graph every commit adds a node and an edge to it.
    A maintained lake was backfilled, checkpointed and optimized as it grew and at the end; in one that never
    was, every writer died right after its commit: no hint, no checkpoint, no backfill, a fragment for every commit.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._growing: dict[Condition, tuple[Path, Condition]] = {}

    def build(self, wanted: Condition) -> Path:
        """The folder of such a lake: not to be written to."""
        done = self._folder / str(wanted)
        if not done.exists():
            like = replace(wanted, depth=0, branches=0)
            place, now = self._growing.get(like, (None, None))
            if place is None or now is None or now.depth > wanted.depth or now.branches > wanted.branches:
                place, now = Path(tempfile.mkdtemp(dir=self._folder)) / "lake", None
            quiet = Quiet()
            with clock.using(quiet):
                _grow(quiet, place, now, wanted)
            self._growing[like] = place, wanted
            # Objects are never written in place, so links to them stay what they are.
            shutil.copytree(place, done, copy_function=os.link)
        return done


def _grow(quiet: Quiet, place: Path, now: Condition | None, wanted: Condition) -> None:
    with _opened(quiet, place, now, wanted) as lake:
        if now is None:
            (graphs.make if wanted.graph else _make_tables)(lake, wanted.tables)
        for number in range(now.depth if now else 0, wanted.depth):
            with lake.transaction(f"commit {number}") as tx:
                if wanted.graph:
                    graphs.grow(tx, number)
                else:
                    _grow_tables(tx, number)
            if wanted.maintained and number % UPKEEP_EVERY == 0:
                lake.flush()
                lake.optimize()
        for number in range(now.branches if now else 1, wanted.branches):
            lake.create_branch(f"b{number}")
        if wanted.maintained:
            lake.flush()
            lake.optimize()
            lake.flush()
            lake.backfill()


def _grow_tables(tx: quire.Transaction, number: int) -> None:
    for name in GROWING:
        tx[name].append(rows(ROWS + number))


@contextmanager
def _opened(quiet: Quiet, place: Path, now: Condition | None, wanted: Condition) -> Iterator[quire.Lake]:
    make = quire.create if now is None else quire.open
    if wanted.maintained:
        with make(place) as lake:
            yield lake
        return
    with quiet.holding():
        lake = make(place, backfill=False)
        lake._core.bounds = UNBOUNDED
        yield lake
        lake._background._tasks.clear()  # the writer dies


def _make_tables(lake: quire.Lake, count: int) -> None:
    for low in range(0, count, TOGETHER):
        with lake.transaction(f"tables from {low}") as tx:
            for number in range(low, min(count, low + TOGETHER)):
                tx.create_table(f"t{number}", rows(0, ROWS))
    with lake.transaction("a table with an index") as tx:
        tx.create_table("indexed", rows(0, ROWS)).create_index("id")


class Laid:
    """A built lake on a server. What was done to it can be undone, key by key."""

    def __init__(self, folder: Path, uri: str, options: dict[str, str]) -> None:
        self.uri = uri
        self._folder = folder
        self._store = Store.open(uri, options)
        self._put([p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()])

    def restore(self, keys: set[str]) -> None:
        """Make these objects what they were."""
        there = [key for key in keys if (self._folder / key).exists()]
        self._put(there)
        run_parallel([partial(self._store.delete, key) for key in keys - set(there)])

    def _put(self, keys: list[str]) -> None:
        run_parallel([partial(self._copy, key) for key in keys])

    def _copy(self, key: str) -> None:
        self._store.put(key, (self._folder / key).read_bytes())
