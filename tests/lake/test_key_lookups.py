"""Statements by key on tables of many small fragments, against a dict: whatever is known, forgotten or wrongly kept."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from tests.budget import SEED, budget

import quire
from quire.errors import KeyConflict
from quire.formats.lance.lookups import candidates

KEYS = 40

Key = Any
Rows = dict[Key, int]


def table_of(rows: Rows, kind: pa.DataType) -> pa.Table:
    return pa.table({"id": pa.array(list(rows), kind), "v": pa.array(list(rows.values()), pa.int64())})


class Story:
    """A random history of one table on two branches, told twice: to a lake and to a dict."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.folder = folder
        self.kind = self.random.choice([pa.int64(), pa.string()])
        self.keyed = self.random.random() < 0.5
        self.lakes = [quire.create(folder)]
        first = self.some(3)
        with self.lakes[0].transaction() as tx:
            tx.create_table("t", table_of(first, self.kind), **({"key": "id"} if self.keyed else {}))
        self.states: dict[str, Rows] = {"main": first}
        self.old: list[tuple[Any, Rows]] = []
        self.told: list[str] = []

    # -- keys and values --------------------------------------------------------------------------------------

    def key(self, number: int) -> Key:
        return number if self.kind == pa.int64() else f"key {number}"

    def literal(self, key: Key) -> str:
        return str(key) if self.kind == pa.int64() else f"'{key}'"

    def some(self, count: int, among: Callable[[Key], bool] = lambda key: True) -> Rows:
        keys = [k for n in range(KEYS) if among(k := self.key(n))]
        return {k: self.random.randrange(1000) for k in self.random.sample(keys, min(count, len(keys)))}

    # -- what happens -----------------------------------------------------------------------------------------

    def step(self) -> None:
        branch = self.random.choice(list(self.states))
        handle = self.random.choice(self.lakes)
        handle = handle if branch == "main" else handle.branch(branch)
        handle.refresh()
        name = self.random.choice(list(DOES) + ["insert", "upsert", "update", "delete"] * 3)
        self.told.append(f"{name} on {branch}")
        DOES[name](self, handle, branch)

    def insert(self, lake: quire.Lake, branch: str) -> None:
        rows = self.states[branch]
        new = self.some(self.random.randint(1, 3), lambda key: key not in rows)
        with lake.transaction() as tx:
            tx["t"].insert(table_of(new, self.kind), on="id")
        rows.update(new)
        if rows:
            taken = self.random.choice(list(rows))
            with pytest.raises(KeyConflict), lake.transaction() as tx:
                tx["t"].insert(table_of({taken: 1}, self.kind), on="id")

    def upsert(self, lake: quire.Lake, branch: str) -> None:
        rows, given = self.states[branch], self.some(self.random.randint(1, 4))
        with lake.transaction() as tx:
            counts = tx["t"].upsert(table_of(given, self.kind), on="id")
        assert counts["updated"] == len(given.keys() & rows.keys())
        rows.update(given)

    def twice(self, lake: quire.Lake, branch: str) -> None:
        """Two statements of one transaction, the second about rows of the first."""
        rows, first = self.states[branch], self.some(3)
        second = {key: 5 for key in list(first)[:2]} | self.some(1)
        with lake.transaction() as tx:
            tx["t"].upsert(table_of(first, self.kind), on="id")
            tx["t"].upsert(table_of(second, self.kind), on="id")
        rows.update({**first, **second})

    def update(self, lake: quire.Lake, branch: str) -> None:
        rows, keys = self.states[branch], list(self.some(2))
        with lake.transaction() as tx:
            where = f"id IN ({', '.join(map(self.literal, keys))})"
            assert tx["t"].update({"v": "v + 1"}, where=where) == len(rows.keys() & set(keys))
        rows.update({key: rows[key] + 1 for key in keys if key in rows})

    def delete(self, lake: quire.Lake, branch: str) -> None:
        rows, keys = self.states[branch], list(self.some(2))
        where = " OR ".join(f"id = {self.literal(key)}" for key in keys)
        with lake.transaction() as tx:
            assert tx["t"].delete(f"({where}) AND v >= 0") == len(rows.keys() & set(keys))
        for key in keys:
            rows.pop(key, None)

    def race(self, lake: quire.Lake, branch: str) -> None:
        """A transaction that is overtaken by another process."""
        rows = self.states[branch]
        mine, theirs = self.some(2), self.some(2)
        rival = quire.open(self.folder)
        rival = rival if branch == "main" else rival.branch(branch)

        def work(tx: quire.Transaction) -> None:
            tx["t"].upsert(table_of(mine, self.kind), on="id")
            if theirs and not done:
                done.append(True)
                with rival.transaction() as other:
                    other["t"].upsert(table_of(theirs, self.kind), on="id")

        done: list[bool] = []
        lake.transact(work)
        rival.close()
        rows.update({**theirs, **mine})

    def optimize(self, lake: quire.Lake, branch: str) -> None:
        lake.optimize()

    def index(self, lake: quire.Lake, branch: str) -> None:
        with lake.transaction() as tx:
            tx["t"].create_index("id", replace=True)

    def overwrite(self, lake: quire.Lake, branch: str) -> None:
        rows = self.some(5)
        with lake.transaction() as tx:
            tx["t"].overwrite(table_of(rows, self.kind))
        self.states[branch] = rows

    def renumber(self, lake: quire.Lake, branch: str) -> None:
        """Another column takes the name of the key, and gives it back."""
        with lake.transaction() as tx:
            tx["t"].rename_column("v", "w")
        with lake.transaction() as tx:
            tx["t"].rename_column("w", "v")

    def plain(self, lake: quire.Lake, branch: str) -> None:
        """Rows of a plain Lance client are adopted: nobody has noted their keys."""
        main, rows = self.lakes[0], self.states["main"]
        new = self.some(2, lambda key: key not in rows)
        main.refresh()
        main.backfill()
        state = next(iter(main._main().state.tables.values()))
        lance.write_dataset(table_of(new, self.kind), str(self.folder / state.pin.location), mode="append")
        main.adopt("t")
        rows.update(new)

    def fork(self, lake: quire.Lake, branch: str) -> None:
        name = f"b{len(self.states)}"
        if len(self.states) < 3:
            lake.create_branch(name)
            self.states[name] = dict(self.states[branch])

    def open(self, lake: quire.Lake, branch: str) -> None:
        """Another process."""
        self.lakes = [*self.lakes[-1:], quire.open(self.folder)]

    def keep(self, lake: quire.Lake, branch: str) -> None:
        self.old.append((lake.snapshot(), dict(self.states[branch])))

    # -- what is there ----------------------------------------------------------------------------------------

    def check(self) -> None:
        for branch, rows in self.states.items():
            for lake in self.lakes:
                on = lake if branch == "main" else lake.branch(branch)
                on.refresh()
                self.compare(on.snapshot(), rows)
        for snapshot, rows in self.old:
            self.compare(snapshot, rows)

    def compare(self, snapshot: Any, rows: Rows) -> None:
        found = snapshot["t"].to_arrow().to_pylist()
        assert sorted((r["id"], r["v"]) for r in found) == sorted(rows.items()), self.told
        for key in self.some(4):
            one = snapshot["t"].scan(filter=f"id = {self.literal(key)}").to_arrow().to_pylist()
            assert [r["v"] for r in one] == ([rows[key]] if key in rows else []), (key, self.told)
            assert snapshot["t"].count(filter=f"id = {self.literal(key)}") == (key in rows), (key, self.told)


DOES: dict[str, Callable[[Story, quire.Lake, str], None]] = {
    name: getattr(Story, name)
    for name in (
        "insert",
        "upsert",
        "twice",
        "update",
        "delete",
        "race",
        "optimize",
        "index",
        "overwrite",
        "renumber",
        "plain",
        "fork",
        "open",
        "keep",
    )
}


@pytest.mark.parametrize("number", range(budget(4, full=60)))
def test_statements_by_key_do_what_they_do_to_a_dict(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if number % 2:
        monkeypatch.setattr(candidates, "FEW", 0)  # what is done for many fragments is done for a few
    story = Story(tmp_path / "lake", SEED * 1000 + number)
    for _ in range(budget(25, full=60)):
        story.step()
        if story.random.random() < 0.3:
            story.check()
    story.check()
