"""A law: whatever two or three interleaved transactions do, each commits as a serial program would, or conflicts.

The model keeps rows with an identity of their own. A transaction's statements run on its snapshot; at commit its net
effect (rows removed, rows added) is moved onto the newest state when no row or key is in dispute, its statements are
run again when there are only upserts, which then replace as many rows as they have told, and it conflicts otherwise.
That is snapshot isolation to the row: a condition changes the rows that it has counted and no other, whatever came
since and wherever a compaction put them. The lake must agree after every step, in both outcomes.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from tests.budget import FULL, budget

import quire
from quire.errors import Conflict, KeyConflict

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("w", pa.int64())])
MEMORY = next((p for p in ("/dev/shm",) if Path(p).is_dir()), None)
"""Where files live in memory, if anywhere: thousands of small commits need not wait for a disk."""

Row = tuple[int, int | None, int | None]
Rows = dict[int, Row]
"""Rows by identity. An identity is never used again."""

FIRST: dict[str, list[Row]] = {
    "keyed": [(i, 10 * i, 0) for i in range(6)],
    "loose": [(i, 10 * i, 0) for i in (0, 1, 1, 2, 3, 4)],
}


# -- statements, for the lake and for the model -----------------------------------------------------------------------


@dataclass(frozen=True)
class Statement:
    verb: str
    rows: tuple[Row, ...] = ()
    low: int = 0
    high: int = 0

    @property
    def keys(self) -> set[int]:
        return {r[0] for r in self.rows} if self.verb in ("insert", "upsert", "patch") else set()

    def run(self, table: Any) -> int:
        """Do it to a table of the lake; how many rows it found."""
        where = f"id >= {self.low} and id < {self.high}"
        if self.verb == "patch":
            return int(table.upsert([{"id": i, "w": w} for i, _, w in self.rows], on="id")["updated"])
        if self.verb == "upsert":
            return int(table.upsert(arrow(self.rows), on="id")["updated"])
        if self.verb == "update":
            return int(table.update({"v": "v + 1"}, where=where))
        if self.verb == "delete":
            return int(table.delete(where))
        getattr(table, self.verb)(arrow(self.rows))
        return 0

    def finds(self, rows: Rows) -> int:
        """How many rows it finds: by their keys, or by its condition."""
        if self.verb in ("upsert", "patch"):
            return len({row[0] for row in rows.values()} & self.keys)
        if self.verb in ("update", "delete"):
            return sum(self.low <= row[0] < self.high for row in rows.values())
        return 0

    def apply(self, rows: Rows, fresh: Iterator[int]) -> None:
        """Do it to rows of the model, or raise `KeyConflict` and leave them as they are."""
        hit = {r for r, row in rows.items() if row[0] in self.keys}
        matched = {r for r, row in rows.items() if self.low <= row[0] < self.high}
        added: list[Row] = list(self.rows)
        gone: set[int] = set()
        if self.verb == "insert" and hit:
            raise KeyConflict("taken")
        if self.verb == "upsert":
            gone = hit
        elif self.verb == "patch":
            old = {rows[r][0]: rows[r] for r in hit}
            if len(old) != len(hit):
                raise KeyConflict("several rows")
            gone, added = hit, [(i, old[i][1] if i in old else None, w) for i, _, w in self.rows]
        elif self.verb == "update":
            gone = matched
            added = [(i, None if v is None else v + 1, w) for i, v, w in (rows[r] for r in matched)]
        elif self.verb == "delete":
            gone = matched
        elif self.verb == "overwrite":
            gone = set(rows)
        for identity in gone:
            del rows[identity]
        rows.update((next(fresh), row) for row in added)


def arrow(rows: tuple[Row, ...]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA)


# -- the model --------------------------------------------------------------------------------------------------------


@dataclass
class Effect:
    """What one transaction has done to one table so far."""

    base: Rows
    view: Rows
    statements: list[Statement] = field(default_factory=list)
    told: list[int] = field(default_factory=list)
    by_predicate: set[int] = field(default_factory=set)
    touched: bool = False
    """Whether any statement removed or added a row. One that matched nothing leaves nothing to commit."""

    def run(self, statement: Statement, fresh: Iterator[int]) -> None:
        before, told = set(self.view), statement.finds(self.view)
        statement.apply(self.view, fresh)
        self.statements.append(statement)
        self.told.append(told)
        self.touched |= before != set(self.view) or statement.verb == "overwrite"
        if statement.verb in ("update", "delete"):
            self.by_predicate |= (before - set(self.view)) & set(self.base)

    @property
    def verbs(self) -> set[str]:
        return {s.verb for s in self.statements}

    @property
    def removed(self) -> set[int]:
        return set(self.base) - set(self.view)

    def onto(self, now: Rows, rivals: list[set[str]], has_read: bool, fresh: Iterator[int]) -> Rows:
        """The table after this effect, or `Conflict`."""
        if not rivals:
            return self.view
        theirs = set().union(*rivals)
        if "overwrite" in self.verbs | theirs:
            raise Conflict("exclusive")
        new_keys = {row[0] for r, row in now.items() if r not in self.base}
        if not self.by_predicate <= set(now):
            raise Conflict("rows chosen by a condition were changed")
        if not self.removed <= set(now):
            return self.again(now, has_read, fresh)
        if any(s.verb == "insert" and s.keys & new_keys for s in self.statements):
            raise KeyConflict("the same key")
        if any(s.keys & new_keys for s in self.statements):
            return self.again(now, has_read, fresh)
        came = {r: row for r, row in self.view.items() if r not in self.base}
        return {**{r: row for r, row in now.items() if r not in self.removed}, **came}

    def again(self, now: Rows, has_read: bool, fresh: Iterator[int]) -> Rows:
        if has_read:
            raise Conflict("has read")
        rows = dict(now)
        for statement, told in zip(self.statements, self.told, strict=True):
            if statement.finds(rows) != told:
                raise Conflict("another count was told")
            statement.apply(rows, fresh)
        return rows


@dataclass
class Program:
    """One open transaction, in the lake and in the model."""

    tx: quire.Transaction
    start: int
    effects: dict[str, Effect]
    has_read: bool = False


class World:
    def __init__(self, place: str) -> None:
        self.fresh = itertools.count()
        self.tables: dict[str, Rows] = {n: {next(self.fresh): r for r in rows} for n, rows in FIRST.items()}
        self.history: list[dict[str, set[str]]] = []
        """Per commit: what it did to which table."""
        with quire.create(place, backfill=False) as lake, lake.transaction() as tx:
            tx.create_table("keyed", arrow(tuple(FIRST["keyed"])), key="id")
            tx.create_table("loose", arrow(tuple(FIRST["loose"])))
        self.writers = [quire.open(place, backfill=False) for _ in range(3)]
        self.upkeep = quire.open(place, backfill=False)
        self.open: dict[int, Program] = {}

    def program(self, actor: int) -> Program:
        if actor not in self.open:
            self.writers[actor].refresh()
            effects = {n: Effect(dict(rows), dict(rows)) for n, rows in self.tables.items()}
            self.open[actor] = Program(self.writers[actor].transaction(), len(self.history), effects)
        return self.open[actor]

    def state(self, actor: int, table: str, statement: Statement) -> None:
        program = self.program(actor)
        try:
            program.effects[table].run(statement, self.fresh)
        except KeyConflict:
            with pytest.raises(KeyConflict):
                statement.run(program.tx[table])
        else:
            assert statement.run(program.tx[table]) == program.effects[table].told[-1]
            program.has_read |= statement.verb in ("update", "delete")

    def read(self, actor: int, table: str) -> None:
        program = self.program(actor)
        program.has_read = True
        assert found(program.tx[table]) == listed(program.effects[table].view)

    def commit(self, actor: int) -> None:
        program = self.open.pop(actor, None)
        if program is None:
            return
        try:
            after = self.after(program)
            commits = True
        except Conflict:
            commits = False
        try:
            program.tx.commit()
        except Conflict:
            assert not commits
        else:
            assert commits
            self.tables.update(after)
            if after:
                self.history.append({n: program.effects[n].verbs for n in after})
        self.check()

    def after(self, program: Program) -> dict[str, Rows]:
        """The changed tables as they would be after this commit, or `Conflict`."""
        return {
            name: effect.onto(self.tables[name], self.rivals(program, name), program.has_read, self.fresh)
            for name, effect in program.effects.items()
            if effect.touched
        }

    def rivals(self, program: Program, table: str) -> list[set[str]]:
        return [done[table] for done in self.history[program.start :] if table in done]

    def compact(self, table: str, target: int) -> None:
        """Merge small fragments: those with fewer rows than the target, and those of which any row is deleted."""
        [done] = self.upkeep.optimize([table], target_rows=target, deleted=0.0).tables
        if done.outcome == "optimized":
            self.history.append({table: {"compact"}})
        self.check()

    def check(self) -> None:
        snapshot = self.upkeep.snapshot()
        for name, rows in self.tables.items():
            assert found(snapshot[name]) == listed(rows)
            assert snapshot[name].count() == len(rows)


def found(table: Any) -> list[Row]:
    rows = table.to_arrow().to_pylist()
    return sorted(((r["id"], r["v"], r["w"]) for r in rows), key=_order)


def listed(rows: Rows) -> list[Row]:
    return sorted(rows.values(), key=_order)


def _order(row: Row) -> tuple[int, ...]:
    return tuple(-1 if x is None else x for x in row)


# -- what happens -----------------------------------------------------------------------------------------------------

ids = st.integers(0, 7)
values = st.integers(100, 109)


def rows_of(verb: str) -> st.SearchStrategy[Statement]:
    row = st.tuples(ids, values, values)
    unique = verb != "append"
    lists = st.lists(row, min_size=1, max_size=3, unique_by=(lambda r: r[0]) if unique else None)  # type: ignore[arg-type]
    return lists.map(lambda rows: Statement(verb, tuple(rows)))


def where_of(verb: str) -> st.SearchStrategy[Statement]:
    return st.tuples(ids, st.integers(1, 3)).map(lambda r: Statement(verb, low=r[0], high=r[0] + r[1]))


# Overwrites conflict with everything, so they are rare: most races are about rows and keys.
changes = [rows_of("upsert"), rows_of("patch"), where_of("update"), where_of("delete")]
STATEMENTS = {
    "keyed": st.one_of(rows_of("insert"), *changes, rows_of("insert"), *changes, rows_of("overwrite")),
    "loose": st.one_of(rows_of("append"), *changes, rows_of("append"), *changes, rows_of("overwrite")),
}


@st.composite
def plans(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    """Rounds in which three programs work on the same tables and then some of them commit, in any order.

    A program that did not commit goes on in the next round. A read decides whether its statements may run again, a
    compaction moves every row.
    """
    plan: list[tuple[Any, ...]] = []
    for _ in range(draw(st.integers(1, 3))):
        tables = draw(st.sampled_from([["keyed"], ["loose"], ["keyed", "loose"]]))
        for actor in range(3):
            for table in draw(st.lists(st.sampled_from(tables), max_size=2)):
                plan.append(("state", actor, (table, draw(STATEMENTS[table]))))
            if draw(st.integers(0, 5)) == 0:
                plan.append(("read", actor, draw(st.sampled_from(tables))))
        order = draw(st.permutations(range(3)))
        for actor in order[: draw(st.integers(1, 3))]:
            if draw(st.integers(0, 3)) == 0:
                plan.append(("compact", draw(st.sampled_from(tables)), draw(st.sampled_from([2, 3, 5, 100]))))
            plan.append(("commit", actor))
    return plan


@settings(
    max_examples=budget(5, full=50),
    deadline=None,
    derandomize=FULL,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)
@given(plans())
@example(
    [
        ("state", 0, ("keyed", Statement("delete", low=0, high=2))),
        ("state", 0, ("keyed", Statement("insert", ((1, 100, 100),)))),
        ("state", 1, ("keyed", Statement("upsert", ((5, 100, 100), (8, 101, 101))))),
        ("commit", 1),
        ("compact", "keyed", 100),
        ("commit", 0),
    ]
)
def test_interleaved_transactions_commit_as_the_model_says_or_conflict(plan: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as place:
        world = World(f"{place}/lake")
        for step in plan:
            if step[0] == "state":
                _, actor, (table, statement) = step
                world.state(actor, table, statement)
            else:
                getattr(world, step[0])(*step[1:])
        for actor in sorted(world.open):
            world.commit(actor)
        world.check()
        for lake in (*world.writers, world.upkeep):
            lake.close()
