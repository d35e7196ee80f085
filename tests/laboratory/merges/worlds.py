"""Random lives of a lake with branches, beside a model of them, and the laws that every merge is held against.

A program is a list of steps, each a verb and a number from which everything about it follows, so a part of a program
is a program too: one that fails is made smaller by leaving steps out (`shrunk`).
"""

from __future__ import annotations

import itertools
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from tests.laboratory.merges import oracle
from tests.laboratory.merges.oracle import Found, How, Row, Table, Tables, Verdict, frozen

import quire
from quire.errors import UnresolvedConflicts
from quire.lake.merge.conflicts import MergeConflict

Step = tuple[str, int]
Program = list[Step]

VERBS = {"rows": 10, "merge": 6, "cross": 1.5, "branch": 1, "restore": 1.5, "upkeep": 2, "table": 1}
"""How often each is done. `columns` is what changes the columns of tables."""

DOMAIN: dict[str, list[Any]] = {
    "int64": [None, 0, 1, 2],
    "string": [None, "", "x", "y"],
    "double": [None, float("nan"), 0.5, 1.0],
}
TYPES = {"int64": pa.int64(), "string": pa.string(), "double": pa.float64()}


@dataclass(frozen=True)
class Commit:
    number: int
    parents: tuple[int, ...]
    tables: Tables
    adopts: int | None = None


@dataclass
class Branch:
    name: str
    lake: quire.Lake
    head: int


@dataclass
class Tally:
    """What the cases of a search were."""

    cases: int = 0
    found: Counter[str] = field(default_factory=Counter)

    def add(self, *words: str) -> None:
        self.found.update(words)


class World:
    def __init__(
        self,
        place: str,
        *,
        format: str = "memory",
        kinds: Iterable[str] = ("keyed", "pair"),
        tally: Tally | None = None,
    ) -> None:
        self.format, self.tally = format, tally or Tally()
        self.numbers = itertools.count(1)
        self.commits: list[Commit] = []
        self.above: list[frozenset[int]] = []
        """Of every commit: itself and all that it descends from."""
        self.lake = quire.create(place, backfill=False, author="ada")
        self.branches: list[Branch] = []
        self.reached: dict[str, dict[str, int]] = {}
        """Some commits of a branch, by their names."""
        tables: dict[int, Table] = {}
        with self.lake.transaction("start") as tx:
            for kind in kinds:
                made = self._table(Random(1), kind, kind)
                tables[made.id] = made
                self._create(tx, made)
        self.branches.append(Branch("main", self.lake, self._commit((), tables)))
        for name in ("b1", "b2"):
            self._branch(self.branches[0], name)

    def close(self) -> None:
        for branch in self.branches:
            branch.lake.close()

    def run(self, program: Program) -> None:
        for verb, seed in program:
            getattr(self, verb)(Random(seed))
        for branch in self.branches:
            self.check(branch)
        self.feed(self.branches[0])

    # -- the model --------------------------------------------------------------------------------------------

    def _commit(self, parents: tuple[int, ...], tables: Tables, adopts: int | None = None) -> int:
        number = len(self.commits)
        self.commits.append(Commit(number, parents, dict(tables), adopts))
        self.above.append(frozenset({number}).union(*(self.above[p] for p in parents)))
        return number

    def _table(self, random: Random, kind: str, name: str) -> Table:
        columns = {"id": "int64", "k": "int64", "a": "int64", "s": "string", "f": "double"}
        if kind != "pair":
            del columns["k"]
        if kind == "loose":
            del columns["f"]
        numbered = {next(self.numbers): (n, t) for n, t in columns.items()}
        key = tuple(c for c, (n, _) in numbered.items() if n in ("id", "k")) if kind != "loose" else ()
        made = Table(next(self.numbers), name, key, numbered, {}, stamp=next(self.numbers))
        return replace(made, rows=dict(self._rows(random, made, range(6))))

    def _rows(self, random: Random, table: Table, ids: Iterable[int]) -> list[tuple[Any, Row]]:
        found = []
        for i in ids:
            row = {c: random.choice(DOMAIN[t]) for c, (_, t) in table.columns.items()}
            if table.key:
                row[table.key[0]] = i
                if len(table.key) > 1:
                    row[table.key[1]] = i % 2
                found.append((tuple(row[c] for c in table.key), row))
            else:
                first = next(iter(table.columns))
                row[first] = random.randint(0, 2)
                found.append((("place", next(self.numbers)), row))
        return found

    def _create(self, tx: Any, table: Table) -> None:
        key = [table.columns[c][0] for c in table.key] or None
        tx.create_table(table.name, arrow(table, table.rows.values()), key=key, format=self.format)

    def bases(self, ours: Iterable[int], theirs: Iterable[int]) -> list[int]:
        """The common ancestors of which no other one descends."""
        mine: frozenset[int] = frozenset().union(*(self.above[c] for c in ours))
        common = mine & frozenset().union(*(self.above[c] for c in theirs))
        return sorted(c for c in common if not any(c != d and c in self.above[d] for d in common))

    def outcome(self, ours: int, theirs: int) -> str:
        if theirs in self.above[ours] or self._taken(theirs) in self.above[ours]:
            return "up-to-date"
        reached = ours in self.above[theirs] or self._taken(ours) in self.above[theirs]
        return "fast-forward" if reached else "merged"

    def _taken(self, commit: int) -> int:
        adopted = self.commits[commit].adopts
        return commit if adopted is None else adopted

    # -- what happens -----------------------------------------------------------------------------------------

    def _branch(self, origin: Branch, name: str) -> Branch:
        made = Branch(name, origin.lake.create_branch(name), origin.head)
        self.branches.append(made)
        return made

    def branch(self, random: Random) -> None:
        origin = random.choice(self.branches)
        if len(self.branches) < 4:
            self._branch(origin, f"b{len(self.branches)}")

    def rows(self, random: Random) -> None:
        """A transaction of one to three statements."""
        branch = random.choice(self.branches)
        tables = dict(self.commits[branch.head].tables)
        with branch.lake.transaction(f"c{len(self.commits)}") as tx:
            for _ in range(random.randint(1, 3)):
                if tables:
                    table = tables[random.choice(sorted(tables))]
                    tables[table.id] = self._statement(random, table, tx[table.name])
        self._committed(branch, tx, tables)

    def _committed(self, branch: Branch, tx: Any, tables: Tables) -> None:
        if tx.receipt.commit is not None:
            branch.head = self._commit((branch.head,), tables)
        else:
            now = self.commits[branch.head].tables
            assert {k: oracle.contents(t) for k, t in tables.items()} == {k: oracle.contents(t) for k, t in now.items()}

    def _statement(self, random: Random, table: Table, there: Any) -> Table:
        rows = dict(table.rows)
        verb = random.choices(("write", "cell", "delete", "overwrite"), (4, 6, 3, 0.4))[0]
        overwrites = table.overwrites
        if verb == "write":
            some = dict(self._rows(random, table, random.sample(range(8), random.randint(1, 2))))
            if table.key:
                there.upsert(arrow(table, some.values()))
            else:
                there.append(arrow(table, some.values()))
            rows.update(some)
        elif verb == "overwrite":
            some = dict(self._rows(random, table, random.sample(range(8), random.randint(1, 4))))
            there.overwrite(arrow(table, some.values()))
            rows, overwrites = some, overwrites | {next(self.numbers)}
        else:
            first = next(iter(table.columns))
            low = random.randint(0, 6)
            high = low + random.choice((1, 1, 2)) if table.key else low + 1
            where = f"{table.columns[first][0]} >= {low} and {table.columns[first][0]} < {high}"
            met = [k for k, r in rows.items() if r[first] is not None and low <= r[first] < high]
            cells = [c for c in table.columns if c not in (*table.key, first)]
            if verb == "delete" or not cells:
                there.delete(where)
                for k in met:
                    del rows[k]
            else:
                column = random.choice(cells)
                name, type = table.columns[column]
                value = random.choice([v for v in DOMAIN[type] if v == v])
                there.update(values={name: value}, where=where)
                for k in met:
                    row = {**rows.pop(k), column: value}
                    rows[k if table.key else ("place", next(self.numbers))] = row
        if rows == dict(table.rows) and verb != "overwrite" and not (verb == "cell" and met):
            return table
        return replace(table, rows=rows, stamp=next(self.numbers), overwrites=overwrites)

    def columns(self, random: Random) -> None:
        """Add, drop or rename a column."""
        branch = random.choice(self.branches)
        tables = dict(self.commits[branch.head].tables)
        if not tables:
            return
        table = tables[random.choice(sorted(tables))]
        free = [c for c in table.columns if c not in (*table.key, next(iter(table.columns)))]
        names = {n for n, _ in table.columns.values()}
        new = random.choice([n for n in ("n1", "n2", "n3", "n4", "n5") if n not in names] or ["n9"])
        verb = random.choices(("add", "drop", "rename"), (3, 1, 1))[0]
        made = dict(table.columns)
        rows = dict(table.rows)
        with branch.lake.transaction(f"c{len(self.commits)}") as tx:
            if verb == "add" or not free:
                first, number = next(iter(table.columns)), next(self.numbers)
                made[number] = (new, "int64")
                if random.random() < 0.5:
                    tx[table.name].add_columns({new: f"{table.columns[first][0]} * 2"})
                    rows = {k: {**r, number: None if r[first] is None else 2 * r[first]} for k, r in rows.items()}
                else:
                    type = random.choice(["int64", "string"])
                    made[number] = (new, type)
                    tx[table.name].add_columns(pa.field(new, TYPES[type]))
                    rows = {k: {**r, number: None} for k, r in rows.items()}
            elif verb == "drop":
                gone = random.choice(free)
                tx[table.name].drop_columns([made.pop(gone)[0]])
                rows = {k: {c: v for c, v in r.items() if c != gone} for k, r in rows.items()}
            else:
                column = random.choice(free)
                tx[table.name].rename_column(made[column][0], new)
                made[column] = (new, made[column][1])
        tables[table.id] = replace(table, columns=made, rows=rows, stamp=next(self.numbers))
        self._committed(branch, tx, tables)

    def table(self, random: Random) -> None:
        """Create, drop or rename a table."""
        branch = random.choice(self.branches)
        tables = dict(self.commits[branch.head].tables)
        names = {t.name for t in tables.values()}
        free = [n for n in ("t1", "t2", "t3", "t4", "t5", "t6", "t7") if n not in names]
        verb = random.choice(("create", "drop", "rename"))
        with branch.lake.transaction(f"c{len(self.commits)}") as tx:
            if verb == "create" or not tables:
                made = self._table(random, "keyed", random.choice(free))
                self._create(tx, made)
                tables[made.id] = made
            else:
                one = tables[random.choice(sorted(tables))]
                if verb == "drop":
                    tx.drop_table(one.name)
                    del tables[one.id]
                else:
                    new = random.choice(free)
                    tx.rename_table(one.name, new)
                    tables[one.id] = replace(one, name=new, stamp=next(self.numbers))
        self._committed(branch, tx, tables)

    def upkeep(self, random: Random) -> None:
        """Compact or index: a commit that changes nothing that the model knows."""
        branch = random.choice(self.branches)
        before = branch.lake.refresh()
        self._tend(branch.lake, self.commits[branch.head].tables, random)
        if branch.lake.refresh() != before:
            tables = {i: replace(t, tended=next(self.numbers)) for i, t in self.commits[branch.head].tables.items()}
            branch.head = self._commit((branch.head,), tables)

    def _tend(self, lake: quire.Lake, tables: Tables, random: Random) -> None:
        if random.random() < 0.7 or not tables:
            lake.optimize(target_rows=random.choice((2, 3, 100)), deleted=0.0)
            return
        table = tables[random.choice(sorted(tables))]
        with lake.transaction("index") as tx:
            tx[table.name].create_index(table.columns[next(iter(table.columns))][0], replace=True)

    def restore(self, random: Random) -> None:
        """Back to an earlier commit of the same branch."""
        branch = random.choice(self.branches)
        self.reached.setdefault(branch.name, {})[branch.lake.refresh()] = branch.head
        past = {c: n for c, n in self.reached[branch.name].items() if n != branch.head}
        if past:
            word = random.choice(sorted(past))
            if branch.lake.restore(word).commit is not None:
                branch.head = self._commit((branch.head,), self.commits[past[word]].tables)

    def merge(self, random: Random) -> None:
        """Merge one branch into another, and hold it against the laws."""
        target, source = random.sample(self.branches, 2)
        Case(self, target, source, random).run()

    def cross(self, random: Random) -> None:
        """Merge each of two branches into the other as they were before: from then on they have several bases."""
        one, other = random.sample(self.branches, 2)
        before = Branch(f"before{next(self.numbers)}", one.lake, one.head)
        before.lake = one.lake.create_branch(before.name)
        Case(self, one, other, random).run()
        Case(self, other, before, random).run()
        self.lake.delete_branch(before.name)
        before.lake.close()

    # -- what is there ----------------------------------------------------------------------------------------

    def check(self, branch: Branch) -> None:
        """Every table of a branch is what the model says, as a reader sees it."""
        self.holds(branch.lake, self.commits[branch.head].tables)

    def holds(self, lake: quire.Lake, tables: Tables) -> None:
        lake.refresh()
        there = content(lake.snapshot())
        assert sorted(there) == sorted(t.name for t in tables.values())
        for table in tables.values():
            found, columns = there[table.name]
            assert columns == {n for n, _ in table.columns.values()}, table.name
            assert found == table.counted(), (table.name, found - table.counted(), table.counted() - found)

    def feed(self, branch: Branch) -> None:
        """Replayed from the beginning, the feed rebuilds every table at every commit."""
        replica = Replica()
        for block in branch.lake.changes("beginning", images="both"):
            replica.apply(block)
            there = {name: rows for name, (rows, _) in content(branch.lake.at(commit=block.commit)).items()}
            assert replica.seen() == there, block.commit


class Replica:
    """What a reader of the feed builds."""

    def __init__(self) -> None:
        self.rows: dict[str, Counter[Any]] = {}
        self.names: dict[str, str] = {}

    def apply(self, block: Any) -> None:
        for name, changes in block.tables.items():
            if "dropped" in changes.events:
                del self.rows[changes.id], self.names[changes.id]
                continue
            self.names[changes.id] = name
            gone = set(changes.columns["removed"])
            kept = Counter[Any]() if changes.reset else self.rows.get(changes.id, Counter())
            if gone:
                kept = Counter(
                    {
                        _without(row, gone): sum(n for r, n in kept.items() if _without(r, gone) == _without(row, gone))
                        for row in kept
                    }
                )
            for row in changes.rows.to_pylist():
                values = _without(frozen({k: v for k, v in row.items() if not k.startswith("_")}), gone)
                if row["_change_type"] in ("delete", "update_preimage"):
                    assert kept[values] > 0, (name, row)
                    kept[values] -= 1
                else:
                    kept[values] += 1
            self.rows[changes.id] = +kept

    def seen(self) -> dict[str, Counter[Any]]:
        return {name: self.rows[table] for table, name in self.names.items()}


def _without(row: Any, columns: set[str]) -> Any:
    return tuple((name, value) for name, value in row if name not in columns)


def content(snapshot: Any) -> dict[str, tuple[Counter[Any], set[str]]]:
    """Rows and columns of every table."""
    found = {}
    for name in snapshot.tables():
        table = snapshot[name]
        rows = table.to_pylist()
        assert table.count() == len(rows)
        found[name] = Counter(map(frozen, rows)), set(table.schema.names)
    return found


def arrow(table: Table, rows: Iterable[Row]) -> pa.Table:
    schema = pa.schema([(n, TYPES[t]) for n, t in table.columns.values()])
    return pa.Table.from_pylist([{n: r.get(c) for c, (n, _) in table.columns.items()} for r in rows], schema=schema)


# -- one merge --------------------------------------------------------------------------------------------------------


class Case:
    """One merge: what the rules say of it, what the lake says, and what both make of it."""

    def __init__(self, world: World, target: Branch, source: Branch, random: Random) -> None:
        self.world, self.target, self.source, self.random = world, target, source, random
        granularity = random.choices(("cell", "row", "table"), (6, 1, 1))[0]
        groups = {t.name: [("a", "s")] for t in world.commits[target.head].tables.values()}
        self.how = How(granularity, groups if random.random() < 0.2 and granularity == "cell" else {})
        self.mode: Any = random.choices(("auto", "no-ff", "squash"), (8, 1, 1))[0]
        self.asked: dict[str, Any] = {"granularity": granularity, "groups": self.how.groups or None}
        self.ours, self.theirs = (world.commits[b.head].tables for b in (target, source))
        self.bases = world.bases({target.head}, {source.head})

    def run(self) -> None:
        world, target, source = self.world, self.target, self.source
        world.tally.cases += 1
        before = target.lake.refresh()
        plan = target.lake.merge(source.name, preview=True, mode=self.mode, **self.asked)
        outcome = world.outcome(target.head, source.head)
        if outcome == "fast-forward" and self.mode != "auto":
            outcome = "merged"
        assert plan.outcome == outcome
        assert len(plan.bases) == len(self.bases) or outcome != "merged"
        world.tally.add(outcome, *(["several bases"] if len(self.bases) > 1 else []))
        if outcome == "up-to-date":
            assert target.lake.merge(source.name).commit is None
            assert target.lake.refresh() == before
            return
        verdicts = self._verdicts()
        if outcome == "merged":
            world.tally.add(*(c.kind for c in plan.conflicts), *([] if len(plan.conflicts) else ["clean"]))
            if verdicts is not None:
                self.compare(plan.conflicts, verdicts)
            self.mirrored(plan)
            self.optimized(plan, verdicts)
        assert target.lake.refresh() == before
        receipt, decisions = self.commit(plan, before)
        assert receipt.outcome == outcome
        after = target.lake.refresh()
        if outcome == "fast-forward":
            tables = dict(self.theirs)
        elif verdicts is not None:
            tables = dict(self.made(verdicts, plan.conflicts, decisions))
        else:
            world.tally.add("several bases, not judged")
            tables = dict(self.learned())
        for id, table in tables.items():
            if any(
                id in side and (side[id].tended, side[id].overwrites) != (table.tended, table.overwrites)
                for side in (self.ours, self.theirs)
            ):
                tables[id] = replace(table, handed_on=True)
        if after == before:
            assert self.mode == "squash"  # one that changes nothing is no commit
            world.holds(target.lake, tables)
            return
        parents = (target.head,) if self.mode == "squash" else (target.head, source.head)
        head = source.head if outcome == "fast-forward" else None
        target.head = world._commit(parents, tables, head)
        world.check(target)
        if self.mode != "squash":
            assert target.lake.merge(source.name, preview=True).outcome == "up-to-date"
        self.reverted(receipt)
        self.told(before, after)

    def _verdicts(self) -> dict[int, Verdict] | None:
        commits = self.world.commits
        base = oracle.base_of(lambda c: commits[c].tables, self.world.bases, self.bases)
        return None if base is None else oracle.merge(base, self.ours, self.theirs, self.how)

    # -- conflicts --------------------------------------------------------------------------------------------

    def compare(self, conflicts: Iterable[MergeConflict], verdicts: Mapping[int, Verdict]) -> None:
        """The lake reports what the rules report: by table, kind, key, columns and rows."""
        left = {id(f): (v, f) for v in verdicts.values() for f in v.found}
        whole: set[int] = set()
        for conflict in conflicts:
            verdict, found = self.meant(conflict, verdicts)
            left.pop(id(found), None)
            if found.kinds == {"name"} and isinstance(found.otherwise, set):
                left = {k: x for k, x in left.items() if x[1].otherwise != found.otherwise}
            if conflict.key is None and conflict.kind != "name":
                whole.add(verdict.id)
                continue
            if conflict.key is not None and verdict.table is not None and found.rows is not None:
                names = verdict.table.columns
                must, may = ({names[c][0] for c in some if c in names} for some in (found.must, found.may))
                assert must <= set(conflict.columns) <= may, (conflict, must, may)
                for told, row in zip((conflict.base, conflict.ours, conflict.theirs), found.rows, strict=True):
                    if row is not oracle.UNKNOWN and oracle.UNKNOWN not in (row or {}).values():
                        # A row is told in the columns of the merged table.
                        known = None if row is None else {n: row.get(c) for c, (n, _) in names.items() if c in row}
                        shown = None if told is None or known is None else {n: told[n] for n in known}
                        assert (told is None) == (row is None)
                        assert frozen(shown) == frozen(known), conflict
        names_left = [f for v, f in left.values() if isinstance(f.otherwise, set)]
        assert not names_left, "two tables of one name"
        missing = [(v.id, f) for v, f in left.values() if not f.optional and v.id not in whole]
        assert not missing, missing

    def meant(self, conflict: MergeConflict, verdicts: Mapping[int, Verdict]) -> tuple[Verdict, Found]:
        """What the rules say of a conflict that the lake reports."""
        seen = []
        for verdict in verdicts.values():
            if conflict.table not in {t.name for t in (verdict.base, verdict.ours, verdict.theirs, verdict.table) if t}:
                continue
            for found in verdict.found:
                if conflict.kind in found.kinds and found.key == self.key_of(conflict, verdict):
                    seen.append((verdict, found))
            if not seen and (conflict.kind, conflict.key) == ("count", None) and self._squashed(verdict):
                # Rows came to both sides beside a compaction: values do not tell them from other equal ones.
                seen.append((verdict, Found(verdict.id, frozenset({"count"}))))
        assert seen, f"the rules know no {conflict}"
        return seen[0]

    def _squashed(self, verdict: Verdict) -> bool:
        """Whether rows without a key came to both sides that their base has not, and one side was compacted."""
        if verdict.base is None or verdict.ours is None or verdict.theirs is None or verdict.ours.key:
            return False
        came = (verdict.ours.rows.keys() & verdict.theirs.rows.keys()) - verdict.base.rows.keys()
        return bool(came) and verdict.ours.tended != verdict.theirs.tended

    def key_of(self, conflict: MergeConflict, verdict: Verdict) -> Any:
        if conflict.key is None:
            return None
        table = verdict.table or verdict.ours or verdict.theirs
        assert table is not None
        if table.key:
            return None if conflict.key is None else tuple(conflict.key.get(table.columns[c][0]) for c in table.key)
        row = conflict.key
        return None if row is None else frozen({c: row.get(n) for c, (n, _) in table.columns.items()})

    def mirrored(self, plan: Any) -> None:
        """Merged the other way round, ours is theirs."""
        if self.world.outcome(self.target.head, self.source.head) != "merged":
            assert self.source.lake.merge(self.target.name, preview=True).outcome == "up-to-date"
            return
        back = self.source.lake.merge(self.target.name, preview=True, mode="no-ff", **self.asked)
        assert back.outcome == "merged"
        one = Counter(_told(c) for c in plan.conflicts if c.kind != "name")
        other = Counter(_told(c, swap=True) for c in back.conflicts if c.kind != "name")
        if all(t.name == self.theirs[i].name for i, t in self.ours.items() if i in self.theirs):
            assert one == other
        else:
            assert sum(one.values()) == sum(other.values())
        if self.random.random() < 0.3 and not any(c.key is None for c in plan.conflicts):
            here, there = (self._scratch(b) for b in (self.target, self.source))
            here.merge(self.source.name, resolve="theirs", mode="no-ff", **self.asked)
            there.merge(self.target.name, resolve="ours", mode="no-ff", **self.asked)
            self.alike(here, there)
            self._drop(here, there)

    def optimized(self, plan: Any, verdicts: Mapping[int, Verdict] | None) -> None:
        """A merge after upkeep on any side equals one without."""
        same = any(i in self.theirs and t.stamp == self.theirs[i].stamp for i, t in self.ours.items())
        if self.random.random() > 0.3 or (same and self.how.granularity == "table"):
            return  # whether tables as a whole are equal is known by their state, which upkeep changes
        here, plainly, there = (self._scratch(b) for b in (self.target, self.target, self.source))
        sides = self.random.choice(((here,), (there,), (here, there)))
        for lake in sides:
            self.world._tend(lake, self.ours if lake is here else self.theirs, self.random)
        tended = here.merge(there.branch_name, preview=True, mode="no-ff", **self.asked)
        now, before = (Counter(map(_told, p.conflicts)) for p in (tended, plan))
        more = {c.table for c in tended.conflicts if c.kind in ("count", "schema") and _told(c) not in before}
        # Without a key, rows that were moved are known by their values: what both removed may be asked about then, and
        # where one side has other columns, all of it.
        assert {c: n for c, n in now.items() if c[0] not in more} == {
            c: n for c, n in before.items() if c[0] not in more
        }, (tended, plan)
        assert not more or not any(self.ours[i].key for i in self.ours if self.ours[i].name in more)
        here.merge(there.branch_name, resolve="theirs", mode="no-ff", **self.asked)
        plainly.merge(self.source.name, resolve="theirs", mode="no-ff", **self.asked)
        events = [i for i, t in self.ours.items() if not t.key]
        names = {side[i].name for side in (self.ours, self.theirs) for i in events if i in side}
        self.alike(here, plainly, but=more | names)
        for id in events:
            if verdicts is None or verdicts[id].found or not verdicts[id].counts:
                continue
            table = verdicts[id].table
            assert table is not None
            if any(c.kind == "schema" and c.table in more for c in tended.conflicts):
                continue
            name, found = table.name, content(here.snapshot())[table.name][0]
            for v, some in self._allowed(verdicts[id], table).items():
                row = dict(v)
                assert found[frozen({n: row[c] for c, (n, _) in table.columns.items()})] in some, (name, v)
        self._drop(here, plainly, there)

    def reverted(self, receipt: Any) -> None:
        """Reverted, a merge gives back ours by values."""
        if self.random.random() > 0.3 or receipt.commit is None:
            return
        scratch = self._scratch(self.target)
        scratch.revert(receipt.commit)
        self.world.holds(scratch, self.ours)
        self._drop(scratch)

    def told(self, before: str, after: str) -> None:
        """The feed tells of a merge what it changed against its first parent."""
        lake = self.target.lake
        blocks = [b for b in lake.changes(lake.changes(before, images="both").cursor, images="both") if b]
        assert len(blocks) <= 1
        tables = blocks[0].tables if blocks else {}
        for entry in lake.diff(before, after):
            if entry.kind != "changed":
                continue
            rows = entry.rows
            said = tables[entry.name].rows.to_pylist() if entry.name in tables else []
            if entry.name in tables and tables[entry.name].reset:
                continue
            kinds = {
                "insert": rows.added,
                "delete": rows.removed,
                "update_preimage": rows.changed_before,
                "update_postimage": rows.changed_after,
            }
            for kind, expected in kinds.items():
                # The feed has a column for both images; where columns changed too, one of them lacks some.
                known = expected.schema.names
                found = [{n: v for n, v in r.items() if n in known} for r in said if r["_change_type"] == kind]
                assert Counter(map(frozen, found)) == Counter(map(frozen, expected.to_pylist())), (entry.name, kind)

    def alike(self, one: quire.Lake, other: quire.Lake, but: Iterable[str] = ()) -> None:
        here, there = content(one.snapshot()), content(other.snapshot())
        assert sorted(here) == sorted(there)
        for name, (rows, columns) in here.items():
            if name in but:
                continue
            more, less = rows - there[name][0], there[name][0] - rows
            assert (columns, +more, +less) == (there[name][1], Counter(), Counter()), (name, more, less)

    def _scratch(self, branch: Branch) -> quire.Lake:
        return branch.lake.create_branch(f"scratch{next(self.world.numbers)}")

    def _drop(self, *lakes: quire.Lake) -> None:
        for lake in lakes:
            self.world.lake.delete_branch(lake.branch_name)
            lake.close()

    # -- committing -------------------------------------------------------------------------------------------

    def commit(self, plan: Any, before: str) -> tuple[Any, list[Any]]:
        """Resolve what is in conflict, somehow, and commit; what was decided, conflict by conflict."""
        lake, source = self.target.lake, self.source.name
        asked = {**self.asked, "mode": self.mode, "message": f"c{len(self.world.commits)}"}
        if not len(plan.conflicts):
            return (plan.commit() if self.random.random() < 0.5 else lake.merge(source, **asked)), []
        with pytest.raises(UnresolvedConflicts) as refused:
            lake.merge(source, **asked)
        assert refused.value.counts == plan.conflicts.counts
        assert lake.refresh() == before
        way = self.random.choice(("ours", "theirs", "function", "hand", "hand"))
        if way in ("ours", "theirs"):
            return lake.merge(source, resolve=way, **asked), [way] * len(plan.conflicts)
        decisions = [self.decide(c) for c in plan.conflicts]
        if way == "function":
            known = {(c.table, c.fingerprint): d for c, d in zip(plan.conflicts, decisions, strict=True)}
            return lake.merge(source, resolve={"*": lambda c: known[c.table, c.fingerprint]}, **asked), decisions
        rows = []
        for conflict, decision in zip(plan.conflicts, decisions, strict=True):
            told = conflict.to_dict()
            told.update(resolution=decision if isinstance(decision, str) else "values")
            if not isinstance(decision, str):
                told["merged"] = {**({} if conflict.kind == "count" else conflict.key or {}), **decision}
            rows.append(told)
        assert plan.resolve(rows) == len(rows)
        assert not plan.stale
        return plan.commit(), decisions

    def decide(self, conflict: MergeConflict) -> Any:
        choices = ["ours", "theirs"]
        if conflict.kind == "count" and conflict.key is not None:
            return self.random.choice(["ours", "theirs", "delete", {"count": self.random.randint(0, 3)}])
        if conflict.key is not None:
            choices.append("delete")
            if conflict.ours is not None and conflict.theirs is not None:
                choices.append("values")
        choice = self.random.choice(choices)
        if choice != "values":
            return choice
        sides = (conflict.ours, conflict.theirs)
        return {
            n: self.random.choice([side[n] for side in sides if side and n in side] or [None]) for n in conflict.columns
        }

    def made(self, verdicts: Mapping[int, Verdict], conflicts: Iterable[MergeConflict], decisions: list[Any]) -> Tables:
        """The tables of the model after these decisions."""
        decided: dict[int, list[tuple[MergeConflict, Found, Any]]] = {}
        for conflict, decision in zip(conflicts, decisions, strict=True):
            verdict, found = self.meant(conflict, verdicts)
            decided.setdefault(verdict.id, []).append((conflict, found, decision))
        tables: dict[int, Table] = {}
        gone: set[int] = set()
        renamed_back: set[int] = set()
        for id, verdict in verdicts.items():
            table = verdict.table
            for conflict, found, decision in decided.get(id, ()):
                if conflict.key is None:
                    side = verdict.ours if decision == "ours" else verdict.theirs
                    if isinstance(found.otherwise, set):
                        holders = {i for i in found.otherwise if i in self.ours and self.ours[i].name == conflict.table}
                        if decision == "theirs":
                            gone |= holders
                        else:
                            gone |= found.otherwise - self.ours.keys()
                            renamed_back |= (found.otherwise & self.ours.keys()) - holders
                    elif conflict.kind == "name" and table is not None and side is not None:
                        table = replace(table, name=side.name)
                    else:
                        table = side
                elif table is not None and table.key:
                    table = replace(table, rows=_with(table, found, conflict, decision))
            reported = {found.key for _, found, _ in decided.get(id, ())}
            whole = any(c.key is None and c.kind != "name" for c, _, _ in decided.get(id, ()))
            for found in () if whole else verdict.found:
                if (
                    found.optional
                    and found.key is not None
                    and found.key not in reported
                    and table is not None
                    and table.key
                ):
                    rows = dict(table.rows)
                    rows.pop(found.key, None)
                    if found.otherwise is not None:
                        rows[found.key] = found.otherwise
                    table = replace(table, rows=rows)
            if table is not None and not table.key and verdict.counts and not whole:
                table = self._events(verdict, table, [d for d in decided.get(id, ()) if d[0].kind != "name"])
            if table is not None:
                tables[id] = table
        for i in renamed_back & tables.keys():
            tables[i] = replace(tables[i], name=self.ours[i].name)
        return {i: t for i, t in tables.items() if i not in gone}

    def _events(self, verdict: Verdict, table: Table, decided: Iterable[tuple[MergeConflict, Found, Any]]) -> Table:
        """A table without a key: of each value there are as many as by identity or by number, or as was decided."""
        value = {k: frozen({c: r.get(c) for c in table.columns}) for k, r in table.rows.items()}
        placed = Counter(value.values())
        allowed = self._allowed(verdict, table)
        for conflict, found, decision in decided:
            assert conflict.counts is not None
            assert tuple(conflict.counts[n] for n in ("base", "ours", "theirs")) == verdict.counts[found.key]
            number = (
                0
                if decision == "delete"
                else decision["count"]
                if isinstance(decision, Mapping)
                else conflict.counts[decision]
            )
            allowed[found.key] = {number}
        there = content(self.target.lake.snapshot())[table.name][0]
        rows = {}
        for v, some in allowed.items():
            row = dict(v)
            number = there[frozen({n: row[c] for c, (n, _) in table.columns.items()})]
            assert number in some, (v, number, some)
            # Which of equal rows went is known only where the rows that are left are those by identity.
            same = [k for k, x in value.items() if x == v] if number == placed[v] else []
            plainly = next(
                r
                for t in (verdict.base, verdict.ours, verdict.theirs)
                if t
                for r in t.rows.values()
                if frozen({c: r.get(c) for c in table.columns}) == v
            )
            for i in range(number):
                rows[same[i] if same else ("place", next(self.world.numbers))] = {
                    c: plainly.get(c) for c in table.columns
                }
        return replace(table, rows=rows)

    def _allowed(self, verdict: Verdict, table: Table) -> dict[Any, set[int]]:
        """How many rows of each value there may be, by identity and by number.

        A row that both sides had after their base, as by a squash, and that one has removed since may be gone.
        """
        value = {k: frozen({c: r.get(c) for c in table.columns}) for k, r in table.rows.items()}
        placed, removed = Counter(value.values()), Counter[Any]()
        for one, other, head in (
            (verdict.ours, verdict.theirs, self.source.head),
            (verdict.theirs, verdict.ours, self.target.head),
        ):
            if one is None or other is None or verdict.base is None:
                continue
            states = (self.world.commits[c].tables.get(verdict.id) for c in self.world.above[head])
            had = {k for t in states if t is not None for k in t.rows}
            alone = value.keys() & (one.rows.keys() - other.rows.keys() - verdict.base.rows.keys())
            removed.update(value[k] for k in alone & had)
        return {
            v: {placed[v] - n for n in range(removed[v] + 1)} | {max(0, o + t - b)}
            for v, (b, o, t) in verdict.counts.items()
        }

    def learned(self) -> Tables:
        """What the lake has, where the rules leave too much open."""
        raise NotJudged


class NotJudged(Exception):
    """The rest of this life has no model."""


def _told(conflict: MergeConflict, swap: bool = False) -> Any:
    sides = (conflict.ours, conflict.theirs)
    sides = sides[::-1] if swap else sides
    rows = () if conflict.key is None else tuple(map(frozen, (conflict.base, *sides)))
    return conflict.table, conflict.kind, frozen(conflict.key), frozenset(conflict.columns), rows


def _with(table: Table, found: Found, conflict: MergeConflict, decision: Any) -> dict[Any, Row]:
    """The rows of a table with one decision."""
    rows = dict(table.rows)
    assert found.rows is not None
    _, ours, theirs = found.rows
    row = rows.pop(found.key, None)
    numbers = {n: c for c, (n, _) in table.columns.items()}
    if decision == "delete":
        return rows
    if isinstance(decision, Mapping):
        assert row is not None
        rows[found.key] = {**row, **{numbers[n]: v for n, v in decision.items()}}
    elif row is not None and ours is not None and theirs is not None:
        side = ours if decision == "ours" else theirs
        rows[found.key] = {**row, **{numbers[n]: side.get(numbers[n]) for n in conflict.columns}}
    else:
        side = ours if decision == "ours" else theirs
        if side is not None:
            rows[found.key] = side
    return rows


# -- searching --------------------------------------------------------------------------------------------------------


def program(seed: int, steps: int = 14, **verbs: float) -> Program:
    """A life at random."""
    random = Random(seed)
    weights = {**VERBS, **verbs}
    names = list(weights)
    return [(random.choices(names, list(weights.values()))[0], random.getrandbits(32)) for _ in range(steps)]


def live(steps: Program, *, place: str | None = None, tally: Tally | None = None, **more: Any) -> None:
    """Run a program; `AssertionError`, or any error of the lake, says that a law is broken."""
    world = World(place or f"memory://{uuid.uuid4().hex}", tally=tally, **more)
    try:
        world.run(steps)
    except NotJudged:
        pass
    finally:
        world.close()


def shrunk(steps: Program, fails: Callable[[Program], bool]) -> Program:
    """A smaller program that fails, too."""
    size = max(1, len(steps) // 2)
    while True:
        for start in range(0, len(steps), size):
            less = steps[:start] + steps[start + size :]
            if fails(less):
                steps = less
                break
        else:
            if size == 1:
                return steps
            size = max(1, size // 2)
