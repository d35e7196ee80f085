"""A feed replayed from the beginning rebuilds every table at every commit."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget import budget

import quire
from quire.errors import Conflict
from quire.lake.feed.blocks import ADDED, ChangeBlock

Tables = dict[str, tuple[tuple[str, ...], Counter[str]]]


class Replica:
    """What a reader of the feed builds: the rows of every table as a multiset, by the table's id."""

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {}
        self.names: dict[str, str] = {}

    def apply(self, block: ChangeBlock) -> None:
        if block.baseline:
            self.rows, self.names = {}, {}
        for name, changes in block.tables.items():
            if "dropped" in changes.events:
                del self.rows[changes.id], self.names[changes.id]
                continue
            self.names[changes.id] = name
            found = changes.rows.to_pylist()
            kept = [] if changes.reset else self.rows.get(changes.id, [])
            for row in kept:
                for column in changes.columns["removed"]:
                    row.pop(column, None)
            self.rows[changes.id] = kept
            for row in found:
                kind = row["_change_type"]
                values = {k: v for k, v in row.items() if k not in ADDED}
                if kind in ("delete", "update_preimage"):
                    kept.remove({k: v for k, v in values.items() if k not in changes.columns["removed"]})
                else:
                    kept.append({k: v for k, v in values.items() if k not in changes.columns["removed"]})

    def seen(self) -> dict[str, Counter[str]]:
        return {name: counted(self.rows[table]) for table, name in self.names.items()}


def counted(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(repr(sorted(row.items())) for row in rows)


def seen(snapshot: quire.Snapshot) -> dict[str, Counter[str]]:
    return {name: counted(snapshot[name].to_pylist()) for name in snapshot.tables()}


class Life:
    """A lake that lives at random."""

    def __init__(self, place: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.lake = quire.create(place)
        self.fresh = 0

    def rows(self) -> list[dict[str, Any]]:
        keys = self.random.sample(range(8), self.random.randint(1, 4))
        return [{"id": k, "v": self.random.randint(0, 2)} for k in keys]

    def step(self) -> None:
        tables = self.lake.tables()
        verbs = [self.write, self.write, self.write, self.create, self.shape, self.past, self.branch, self.merge]
        if not tables:
            verbs = [self.create]
        try:
            self.random.choice(verbs)()
        except Conflict:
            pass  # what it wanted to take back was changed since

    def create(self) -> None:
        self.fresh += 1
        key = self.random.choice([None, "id"])
        self.lake.create_table(f"t{self.fresh}", self.rows(), key=key)

    def branch(self) -> None:
        """Work on another branch, a new one or one that is there."""
        names = [b.name for b in self.lake.branches() if b.name != "main"]
        if len(names) < 2:
            self.fresh += 1
            names.append(self.lake.create_branch(f"b{self.fresh}").branch_name)
        handle = self.lake.branch(self.random.choice(names))
        self.write(handle)
        if self.random.random() < 0.2:
            handle.optimize()

    def merge(self) -> None:
        names = [b.name for b in self.lake.branches() if b.name != "main"]
        if names:
            name = self.random.choice(names)
            self.lake.merge(name, resolve=self.random.choice(["ours", "theirs"]))
            if self.random.random() < 0.5:
                self.lake.delete_branch(name)

    def write(self, lake: quire.Lake | None = None) -> None:
        with (lake or self.lake).transaction() as tx:
            for name in self.random.sample(tx.tables(), min(2, len(tx.tables()))):
                table, verb = tx[name], self.random.randint(0, 4)
                mine = [{n: row.get(n) for n in table.schema.names} for row in self.rows()]
                if verb == 0 and table.key:
                    table.upsert(mine)
                elif verb <= 1 and table.key:
                    table.insert(mine, exists="ignore")
                elif verb <= 1:
                    table.append(mine)
                elif verb == 2:
                    table.delete(f"id = {self.random.randint(0, 7)}")
                elif verb == 3 and "v" in table.schema.names:
                    table.update(values={"v": self.random.randint(0, 2)}, where=f"id < {self.random.randint(0, 7)}")
                else:
                    table.overwrite(mine)

    def shape(self) -> None:
        verb = self.random.randint(0, 4)
        with self.lake.transaction() as tx:
            name = self.random.choice(tx.tables())
            names = [n for n in tx[name].schema.names if n != "id"]
            self.fresh += 1
            if verb == 0:
                tx[name].add_columns({f"c{self.fresh}": "id * 2"})
            elif verb == 1 and names:
                tx[name].drop_columns([self.random.choice(names)])
            elif verb == 2:
                tx.rename_table(name, f"t{self.fresh}")
            elif verb == 3 and len(tx.tables()) > 1:
                tx.drop_table(name)
        if verb == 4:
            self.lake.optimize()

    def past(self) -> None:
        commits = [c.id for c in self.lake.log()][:-1]
        if self.random.random() < 0.5:
            self.lake.restore(self.random.choice(commits))
        else:
            self.lake.revert(self.random.choice(commits))


def check_merge(lake: quire.Lake, block: ChangeBlock) -> None:
    """The block of a merge is what differs from its first parent."""
    found = {entry.name: entry for entry in lake.diff(block.parents[0], block.commit) if entry.new is not None}
    for name, changes in block.tables.items():
        if changes.reset or "dropped" in changes.events:
            continue
        entry = found.pop(name)
        told = Counter(changes.rows.column("_change_type").to_pylist())
        assert (told["insert"], told["update_postimage"], told["delete"]) == (entry.added, entry.changed, entry.removed)
    for name, entry in found.items():
        assert name in block.tables or (entry.added, entry.changed, entry.removed) == (0, 0, 0)


@settings(max_examples=budget(8, full=300), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_feed_from_the_beginning_rebuilds_every_table_at_every_commit(seed: int, tmp_path_factory: Any) -> None:
    life = Life(tmp_path_factory.mktemp("feed") / "lake", seed)
    for _ in range(12):
        life.step()
    lake = life.lake
    replica = Replica()
    blocks = list(lake.changes("beginning", images="both"))
    for block in blocks:
        replica.apply(block)
        assert replica.seen() == seen(lake.at(commit=block.commit)), block.commit
        if len(block.parents) > 1:
            check_merge(lake, block)
    middle = life.random.choice(blocks) if blocks else None
    if middle is not None:
        began = Replica()
        [baseline, *_] = lake.changes("baseline", images="both")
        began.apply(baseline)
        assert began.seen() == seen(lake.snapshot())
        early = Replica()
        for block in blocks[: blocks.index(middle) + 1]:
            early.apply(block)
        for block in lake.changes(lake.changes(middle.commit, images="both").cursor, images="both", net=True):
            early.apply(block)
        assert early.seen() == seen(lake.snapshot())
