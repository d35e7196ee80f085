"""Writers, long readers, an optimizer and a collector on one lake, all at once.

A writer adds events and counts them in a row of its own, removes some and counts down, and changes rows in place. So
the number of events is the sum of the counts at every commit, and the writer knows what must be there at the end.
"""

from __future__ import annotations

import contextlib
import random
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from tests.system.processes import Start

import quire
from quire.errors import QuireError, SnapshotExpired

WRITERS, READERS = 4, 2
THINGS = 5
"""Rows that each writer counts in."""
EVENTS = pa.schema([("id", pa.string()), ("thing", pa.int64()), ("payload", pa.string())])
COUNTS = pa.schema([("id", pa.int64()), ("count", pa.int64()), ("changes", pa.int64())])


@dataclass(frozen=True)
class Plan:
    uri: str
    options: dict[str, str] | None
    folder: str
    seconds: float
    older_than: float
    """Seconds for which a reader without a lease may rely on its snapshot."""
    rewrites: int
    deleted: int
    """The run goes on until so many rewrites have landed and so many files are gone, however slow the machine is."""

    def open(self, author: str) -> quire.Lake:
        return quire.open(self.uri, storage_options=self.options, author=author)


@dataclass
class Done:
    """What one process has done and met."""

    counts: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    events: set[str] = field(default_factory=set)
    rows: dict[int, tuple[int, int]] = field(default_factory=dict)

    def error(self, what: str) -> None:
        self.errors.append(f"{what}: {traceback.format_exc(limit=-4)}")


def create(uri: str, options: dict[str, str] | None) -> None:
    with quire.create(uri, storage_options=options) as lake:
        with lake.transaction("tables") as tx:
            tx.create_table("events", schema=EVENTS)
            rows = [{"id": n, "count": 0, "changes": 0} for n in range(WRITERS * THINGS)]
            tx.create_table("counts", pa.Table.from_pylist(rows, COUNTS), key="id")
        with lake.transaction("indexes") as tx:
            tx["events"].create_index("id")
            tx["counts"].create_index("id")


def process(start: Start, plan: Plan, number: int) -> Done:
    """The process with this number: writers first, then readers, then the optimizer and the collector."""
    roles = [write] * WRITERS + [read_leased, read_within_retention, optimize, cleanup]
    lake, done = plan.open(f"process {number}"), Done()
    lake.sql("select count(*) from events").to_arrow()  # so that nobody loads libraries while others work
    start.wait()
    roles[number](plan, lake, number, done)
    lake.close()
    done.errors += [f"background: {f}" for f in lake.status()["background_failures"]]
    return done


@dataclass
class Change:
    """One transaction of a writer; how often it was run is counted."""

    thing: int
    count: int
    new: list[str]
    gone: list[str]
    runs: int = 0

    def __call__(self, tx: quire.Transaction) -> None:
        self.runs += 1
        rows = [{"id": id, "thing": self.thing, "payload": id * 20} for id in self.new]
        tx["events"].append(pa.Table.from_pylist(rows, EVENTS))
        if self.gone:
            tx["events"].delete(f"id in ({', '.join(map(repr, self.gone))})")
        tx["counts"].upsert([{"id": self.thing, "count": self.count}])
        tx["counts"].update({"changes": "changes + 1"}, where=f"id = {self.thing}")


def write(plan: Plan, lake: quire.Lake, number: int, done: Done) -> None:
    chance = random.Random(number)
    mine = range(number * THINGS, (number + 1) * THINGS)
    done.rows = dict.fromkeys(mine, (0, 0))
    of: dict[int, list[str]] = {thing: [] for thing in mine}
    began = time.monotonic()
    while goes_on(plan, began) and len(done.errors) < 5:
        done.counts["begun"] += 1
        thing = chance.choice(mine)
        count, changes = done.rows[thing]
        new = [f"{number}.{done.counts['begun']}.{n}" for n in range(chance.randint(1, 4))]
        gone = chance.sample(of[thing], len(of[thing]) // 2) if chance.random() < 0.3 else []
        change = Change(thing, count + len(new) - len(gone), new, gone)
        try:
            lake.transact(change, f"{number}/{done.counts['begun']}")
        except QuireError:
            done.error(f"writer {number}")
            continue
        of[thing] = [id for id in [*of[thing], *new] if id not in gone]
        done.rows[thing] = (change.count, changes + 1)
        done.counts["commits"] += 1
        done.counts["again"] += change.runs - 1
    done.events = {id for ids in of.values() for id in ids}
    (Path(plan.folder) / f"finished-{number}").touch()


def goes_on(plan: Plan, began: float) -> bool:
    """Whether writers go on: for the length of the run, and then until upkeep has had enough to do."""
    spent = time.monotonic() - began
    return spent < plan.seconds or (spent < 10 * plan.seconds and not enough(plan, "optimizer", "collector"))


def enough(plan: Plan, *who: str) -> bool:
    return all((Path(plan.folder) / f"enough-{name}").exists() for name in who)


def tell_enough(plan: Plan, who: str) -> None:
    (Path(plan.folder) / f"enough-{who}").touch()


def finished(plan: Plan) -> bool:
    return all((Path(plan.folder) / f"finished-{n}").exists() for n in range(WRITERS))


# -- readers ----------------------------------------------------------------------------------------------------------


def read_leased(plan: Plan, lake: quire.Lake, number: int, done: Done) -> None:
    """Hold one snapshot for a third of the run, far beyond retention, and read all of it again and again."""
    while not finished(plan):
        with reading(plan, done, "leased reader"):
            snapshot = lake.snapshot()
            with snapshot.lease():
                with reading(plan, done, "leased reader", leased=True):
                    hold(plan, snapshot, max(plan.seconds / 3, 3 * plan.older_than), done)
            done.counts["leases"] += 1


def read_within_retention(plan: Plan, lake: quire.Lake, number: int, done: Done) -> None:
    """Hold snapshots without a lease, for as long as retention allows."""
    while not finished(plan):
        with reading(plan, done, "reader"):
            hold(plan, lake.snapshot(), plan.older_than, done)


@contextlib.contextmanager
def reading(plan: Plan, done: Done, who: str, *, leased: bool = False) -> Iterator[None]:
    """Any error is one, except that a read which took longer than retention may come too late."""
    began = time.monotonic()
    try:
        yield
    except QuireError as error:
        if isinstance(error, SnapshotExpired) and not leased and time.monotonic() - began > plan.older_than:
            done.counts["too late"] += 1
        else:
            done.error(who)


def hold(plan: Plan, snapshot: quire.Snapshot, seconds: float, done: Done) -> None:
    """Read a snapshot until time is up. It must be whole, and it must not change."""
    until = time.monotonic() + seconds
    first = look(snapshot)
    if first["events"] != first["sum"]:
        done.errors.append(f"commit {snapshot.commit} shows a part of a transaction: {first}")
    while time.monotonic() < until and not finished(plan):
        again = look(snapshot)
        done.counts["looks"] += 1
        if again != first:
            done.errors.append(f"commit {snapshot.commit} was {first} and is {again}")
        time.sleep(0.05)
    done.counts["snapshots"] += 1


def look(snapshot: quire.Snapshot) -> dict[str, Any]:
    """Every file of both tables is read."""
    events, counts = snapshot["events"].to_arrow(), snapshot["counts"].to_arrow()
    ids = sorted(events["id"].to_pylist())
    return {
        "events": len(ids),
        "distinct": len(set(ids)),
        "ends": ids[:1] + ids[-1:],
        "letters": pc.sum(pc.utf8_length(events["payload"])).as_py(),
        "sum": pc.sum(counts["count"]).as_py(),
        "changes": pc.sum(counts["changes"]).as_py(),
    }


# -- upkeep -----------------------------------------------------------------------------------------------------------


def optimize(plan: Plan, lake: quire.Lake, number: int, done: Done) -> None:
    while not finished(plan):
        try:
            told = lake.optimize()
        except QuireError:
            done.error("optimize")
            return
        for table in told.tables:
            done.counts[table.outcome] += 1
            done.counts["rewrites"] += table.outcome == "optimized" and table.rows > 0
            done.counts["indexes"] += len(table.indexes) if table.outcome == "optimized" else 0
            if table.outcome == "failed":
                done.errors.append(f"optimize {table.table}: {table.detail}")
        if done.counts["rewrites"] >= plan.rewrites:
            tell_enough(plan, "optimizer")
        time.sleep(0.1)


def cleanup(plan: Plan, lake: quire.Lake, number: int, done: Done) -> None:
    while not finished(plan):
        try:
            told = lake.cleanup(keep=3, older_than=plan.older_than, grace=0)
        except QuireError:
            done.error("cleanup")
            return
        done.counts["cleanups"] += 1
        done.counts["deleted"] += told.files
        done.counts["buried"] += told.slots
        if done.counts["deleted"] >= plan.deleted:
            tell_enough(plan, "collector")
        time.sleep(0.2)
