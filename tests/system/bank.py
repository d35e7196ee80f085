"""A bank and some lists on one lake: what its processes do. It lives here because a spawned process imports it by name.

Money moves between accounts of two tables, lists of three tables grow; every transaction is noted in a journal, and the
journals together are a history for `quire.testing.history`. A balance carries the id of the transaction that set it, so
an account is a register of ids; a list is one row.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.system.processes import Start

import quire
from quire.errors import Conflict, Fenced, QuireError, SnapshotExpired
from quire.testing.history import Journal, Level, Notes

ACCOUNTS, OPENING = 6, 100
BANKS = ("checking", "savings")
LISTS = ("left", "middle", "right")
KEYS = 3
TOTAL = len(BANKS) * ACCOUNTS * OPENING
SIDE = "side"
PATIENCE = 150.0
"""Seconds after which nobody waits for anybody any more."""

ACCOUNT = pa.schema([("id", pa.int64()), ("balance", pa.int64()), ("stamp", pa.string())])
ROW = pa.schema([("id", pa.int64()), ("items", pa.list_(pa.string()))])

Place = tuple[str, int]
"""A table and the id of a row."""
Program = Callable[[quire.Transaction, Notes], None]


@dataclass(frozen=True)
class Plan:
    """One run: where, how many transactions a writer makes, and how many seconds it leaves between two at most."""

    uri: str
    options: dict[str, str] | None
    folder: str
    count: int
    pause: float
    rounds: int = 2
    """How many times somebody takes over the side branch."""
    cleanup: dict[str, Any] | None = None
    """What `lake.cleanup` is called with, again and again."""

    def open(self, author: str, branch: str = "main") -> quire.Lake:
        return quire.open(self.uri, storage_options=self.options, author=author, branch=branch)

    def flag(self, name: str) -> Path:
        return Path(self.folder) / name


@dataclass
class Done:
    """What one process was told."""

    counts: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)


def create(uri: str, options: dict[str, str] | None, delta: tuple[str, ...] = ()) -> None:
    """The tables with everybody's opening balance and empty lists, and a branch beside them. Some are Delta tables."""
    with quire.create(uri, storage_options=options) as lake:
        with lake.transaction("opening") as tx:
            for bank in BANKS:
                rows = [{"id": n, "balance": OPENING, "stamp": None} for n in range(ACCOUNTS)]
                tx.create_table(bank, pa.Table.from_pylist(rows, ACCOUNT), key="id", format=format_of(bank, delta))
            for lists in LISTS:
                empty = [{"id": n, "items": []} for n in range(KEYS)]
                tx.create_table(lists, pa.Table.from_pylist(empty, ROW), key="id", format=format_of(lists, delta))
        lake.create_branch(SIDE)


def format_of(table: str, delta: tuple[str, ...]) -> str:
    return "delta" if table in delta else "lance"


# -- programs ---------------------------------------------------------------------------------------------------------


def rows_of(tables: Any, places: list[Place]) -> dict[Place, dict[str, Any]]:
    found: dict[Place, dict[str, Any]] = {}
    for table in {t for t, _ in places}:
        ids = ", ".join(str(n) for t, n in places if t == table)
        found |= {(table, row["id"]): row for row in tables[table].scan(filter=f"id in ({ids})").to_pylist()}
    return found


def put(tx: quire.Transaction, schema: pa.Schema, rows: dict[Place, dict[str, Any]]) -> None:
    for table in {t for t, _ in rows}:
        tx[table].upsert(pa.Table.from_pylist([row for (t, _), row in rows.items() if t == table], schema))


def key(branch: str, place: Place) -> str:
    return f"{branch}/{place[0]}/{place[1]}"


def transfer(chance: random.Random, id: str) -> Program:
    """Move some money from one account to another, of the same table or not."""
    source, target = chance.sample([(bank, n) for bank in BANKS for n in range(ACCOUNTS)], 2)
    amount = chance.randint(1, 9)

    def program(tx: quire.Transaction, notes: Notes) -> None:
        rows = rows_of(tx, [source, target])
        for place, change in ((source, -amount), (target, amount)):
            row = rows[place]
            notes.read(key("main", place), row["stamp"])
            notes.write(key("main", place), id)
            rows[place] = {"id": row["id"], "balance": row["balance"] + change, "stamp": id}
        put(tx, ACCOUNT, rows)

    return program


def grow(chance: random.Random, id: str, branch: str = "main", tables: tuple[str, ...] = LISTS) -> Program:
    """Read up to three lists, of several tables, and append to some of them."""
    places = [(t, n) for t in tables for n in range(KEYS)]
    seen = chance.sample(places, chance.randint(1, 3))
    return growing(seen, seen[: chance.randint(1, len(seen))], id, branch)


def balance(number: int, id: str) -> Program:
    """Read two lists and append to one of them, half of the writers to the one and half to the other.

    Two such at once are write skew, unless they are serializable.
    """
    seen = [("left", 0), ("right", 0)]
    return growing(seen, [seen[number % 2]], id, "main")


def growing(seen: list[Place], grown: list[Place], id: str, branch: str) -> Program:
    def program(tx: quire.Transaction, notes: Notes) -> None:
        rows = rows_of(tx, seen)
        for place in seen:
            notes.read(key(branch, place), rows[place]["items"])
        for place in grown:
            notes.append(key(branch, place), id)
            rows[place]["items"].append(id)
        put(tx, ROW, {place: rows[place] for place in grown})

    return program


def run(lake: quire.Lake, journal: Journal, id: str, program: Program, done: Done, **options: Any) -> None:
    """One transaction, run again after conflicts; what became of it goes into the journal."""
    isolation: Level = options.setdefault("isolation", "snapshot")
    tried = 0
    with journal.transaction(id, fresh=options.get("fresh", False), isolation=isolation) as notes:

        def body(tx: quire.Transaction) -> None:
            nonlocal tried
            tried += 1
            notes.again()
            program(tx, notes)
            notes.commit()

        try:
            lake.transact(body, id, retries=20, **options)
        except quire.CommitUnknown:
            done.counts["unknown"] += 1
        except QuireError as error:
            notes.fail()
            done.counts[error.kind] += 1
            if not isinstance(error, Conflict | Fenced):
                done.errors.append(f"{id}: {type(error).__name__}: {error}")
        else:
            notes.ok()
            done.counts[isolation] += 1
        done.counts["again"] += tried - 1


# -- processes --------------------------------------------------------------------------------------------------------


def write(start: Start, plan: Plan, number: int) -> Done:
    """Transfers and lists. The first writer also takes the side branch over, the last one cleans up."""
    done, chance = Done(), random.Random(number)
    lake = plan.open(f"writer {number}")
    journal = Journal(plan.flag(f"writer-{number}.jsonl"), f"writer {number}")
    for table in (*BANKS, *LISTS):
        lake[table].to_arrow()  # so that nobody loads libraries while others write
    start.wait()
    for seq in range(plan.count):
        id = f"{number}.{seq}"
        serializable = seq % 3 == 0
        program = balance(number, id) if serializable else chance.choice([transfer, grow])(chance, id)
        isolation: Level = "serializable" if serializable else "snapshot"
        run(lake, journal, id, program, done, isolation=isolation, fresh=chance.random() < 0.5)
        if number == 0:
            take_over(plan, done)
        if number == 3 and plan.cleanup is not None and seq % 5 == 4:
            clean(lake, plan.cleanup, done)
        time.sleep(chance.uniform(0, plan.pause))
    until = time.monotonic() + PATIENCE
    while number == 0 and done.counts["claims"] < plan.rounds and time.monotonic() < until:
        take_over(plan, done)
        time.sleep(0.05)
    journal.close()
    lake.close()
    plan.flag(f"finished-{number}").touch()
    done.errors += lake.status()["background_failures"]
    return done


def clean(lake: Any, options: dict[str, Any], done: Done) -> None:
    try:
        done.counts["deleted"] += lake.cleanup(**options).files
        done.counts["cleanups"] += 1
    except QuireError as error:
        done.errors.append(f"cleanup: {type(error).__name__}: {error}")


def take_over(plan: Plan, done: Done) -> None:
    """When the other writer of the side branch is in the middle of its work: claim the branch and write to it."""
    for number in range(plan.rounds):
        if plan.flag(f"ready-{number}").exists() and not plan.flag(f"claimed-{number}").exists():
            side = plan.open(f"claimer {number}", SIDE)
            side.claim()
            journal = Journal(plan.flag(f"claimer-{number}.jsonl"), f"claimer {number}")
            program = grow(random.Random(number), f"claimer {number}", SIDE, ("left",))
            run(side, journal, f"claimer {number}", program, done)
            side.close()
            plan.flag(f"claimed-{number}").touch()
            done.counts["claims"] += 1


def watch(start: Start, plan: Plan) -> Done:
    """Look at everything again and again; between looks, be the writer of the side branch that is taken over."""
    done = Done()
    lake = plan.open("watcher")
    journal = Journal(plan.flag("watcher.jsonl"), "watcher")
    zombie = Zombie(plan, done)
    look(lake.snapshot(), journal, "first look", done)
    start.wait()
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and not (zombie.over and all(plan.flag(f"finished-{n}").exists() for n in range(4))):
        done.counts["looks"] += 1
        try:
            look(lake, journal, f"look {done.counts['looks']}", done)
        except SnapshotExpired:
            done.counts["expired"] += 1  # it took longer than cleanup waits
        zombie.step()
        time.sleep(plan.pause / 2)
    journal.close()
    lake.close()
    return done


def look(lake: quire.Lake | quire.Snapshot, journal: Journal, id: str, done: Done, branch: str = "main") -> None:
    """Note all there is at one commit, and count the money."""
    with journal.transaction(id, fresh=True) as notes:
        snapshot = lake.snapshot() if isinstance(lake, quire.Lake) else lake
        money = 0
        for table in BANKS:
            for row in snapshot[table].to_pylist():
                money += row["balance"]
                notes.read(key(branch, (table, row["id"])), row["stamp"])
        for table in LISTS:
            for row in snapshot[table].to_pylist():
                notes.read(key(branch, (table, row["id"])), row["items"])
        notes.ok()
    if money != TOTAL:
        done.errors.append(f"{id}: {money} instead of {TOTAL} at commit {snapshot.commit}")


class Zombie:
    """A writer of the side branch that is fenced in the middle of a transaction, and does not know when to stop.

    It writes to other tables than who fences it: nothing but the fence stops it.
    """

    def __init__(self, plan: Plan, done: Done) -> None:
        self._plan, self._done = plan, done
        self._round = 0
        self._in_flight: tuple[quire.Lake, Journal, quire.Transaction, Notes] | None = None

    @property
    def over(self) -> bool:
        return self._round == self._plan.rounds

    def step(self) -> None:
        if self.over:
            return
        if self._in_flight is None:
            self._begin()
        elif self._plan.flag(f"claimed-{self._round}").exists():
            self._go_on(*self._in_flight)
            self._in_flight = None
            self._round += 1

    def _begin(self) -> None:
        name = f"zombie {self._round}"
        lake = self._plan.open(name, SIDE)
        journal = Journal(self._plan.flag(f"zombie-{self._round}.jsonl"), name)
        run(lake, journal, f"{name} alive", self._program(f"{name} alive"), self._done)
        notes = journal.transaction(f"{name} in flight")
        notes.__enter__()
        tx = lake.transaction("in flight")
        self._program(f"{name} in flight")(tx, notes)
        notes.commit()
        self._in_flight = (lake, journal, tx, notes)
        self._plan.flag(f"ready-{self._round}").touch()

    def _go_on(self, lake: quire.Lake, journal: Journal, tx: quire.Transaction, notes: Notes) -> None:
        try:
            tx.commit()
            notes.ok()
            self._done.errors.append(f"zombie {self._round}: committed on a branch that was taken over")
        except Fenced:
            notes.fail()
            self._done.counts["fenced"] += 1
        id = f"zombie {self._round} again"
        run(lake, journal, id, self._program(id), self._done)
        lake.close()

    def _program(self, id: str) -> Program:
        return grow(random.Random(self._round), id, SIDE, ("middle", "right"))
