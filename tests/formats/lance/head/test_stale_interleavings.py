"""Commits of the lake, backfills and plain handles of any age, in any order, against a dict."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import lance
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from tests.budget import budget
from tests.formats.lance.conftest import content, place, plain, rows

import quire
from quire.formats.lance.head.manifest_fields import Fields, fields_of
from quire.formats.lance.session import manifest_name

IDS = range(1, 9)

ROWS = ("append", "upsert", "update", "delete", "delete many", "move all")
OTHERS = ("compact", "index", "overwrite", "undo")
PLAIN = ("append", "upsert", "insert", "update", "delete")

lake_steps = st.tuples(st.just("lake"), st.sampled_from([*ROWS * 3, *OTHERS]), st.sampled_from(IDS))
plain_steps = st.tuples(st.just("plain"), st.sampled_from(PLAIN), st.integers(0, 50))
other_steps = st.tuples(st.sampled_from(["open", "backfill", "backfill"]), st.just(""), st.just(0))
histories = st.lists(lake_steps | plain_steps | plain_steps | other_steps, min_size=5, max_size=25)


@dataclass
class Handle:
    """A plain handle as old as it is."""

    dataset: Any
    ids: list[int]


@dataclass
class World:
    """A lake with one table, plain handles on it, and what the table must hold."""

    lake: quire.Lake
    model: dict[int, int] = field(default_factory=dict)
    before: dict[int, int] | None = None
    """What it held before the last commit, while that is the lake's."""
    pending: list[str] = field(default_factory=list)
    """What the lake did that is not backfilled."""
    handles: list[Handle] = field(default_factory=list)
    fresh: Any = field(default_factory=lambda: count(100))
    restored: int = 0
    """The newest plain version that is told as a restore."""

    @property
    def where(self) -> str:
        return place(self.lake, "t")

    # -- the lake ---------------------------------------------------------------------------------------------

    def commit(self, kind: str, number: int) -> None:
        before: dict[int, int] | None = dict(self.model)
        at = self.lake.log(limit=1)[0].id
        if kind == "undo":
            if self.before is None:
                return
            self.lake.revert(at)
            self.model, before = self.before, None
        elif kind == "compact":
            self.lake.optimize(["t"], target_rows=1_000)
            before = None
        else:
            with self.lake.transaction() as tx:
                getattr(self, f"_{kind.replace(' ', '_')}")(tx["t"], number)
        if self.lake.log(limit=1)[0].id != at:
            self.before = before
            self.pending.append(kind)

    def _append(self, t: Any, number: int) -> None:
        new = next(self.fresh)
        t.append(rows(new))
        self.model[new] = 10 * new

    def _upsert(self, t: Any, number: int) -> None:
        new = next(self.fresh)
        t.upsert(rows(number, new, times=3))
        self.model |= {number: 3 * number, new: 3 * new}

    def _update(self, t: Any, number: int) -> None:
        t.update({"v": "5"}, where=f"id = {number}")
        self.model |= {number: 5} if number in self.model else {}

    def _delete(self, t: Any, number: int) -> None:
        t.delete(f"id = {number}")
        self.model.pop(number, None)

    def _delete_many(self, t: Any, number: int) -> None:
        t.delete(f"id % 3 = {number % 3}")
        self.model = {i: v for i, v in self.model.items() if i % 3 != number % 3}

    def _move_all(self, t: Any, number: int) -> None:
        t.update({"v": "v + 1"}, where="true")
        self.model = {i: v + 1 for i, v in self.model.items()}

    def _overwrite(self, t: Any, number: int) -> None:
        new = next(self.fresh)
        t.overwrite(rows(number, new))
        self.model = {number: 10 * number, new: 10 * new}

    def _index(self, t: Any, number: int) -> None:
        t.create_index("id", "BTREE", replace=True)

    # -- plain clients ----------------------------------------------------------------------------------------

    def backfill(self) -> None:
        before = self.fields()
        assert {p.outcome for p in self.lake.backfill()} <= {"promoted", "current"}
        head = lance.dataset(self.where)
        told = type(head.read_transaction(head.version).operation).__name__
        if told == "Restore" and self.pending:
            self.restored = head.version
            # One commit that changes rows is told as what it is, unless it gives a number again.
            given = self.fields().fragments.keys() - before.fragments.keys()
            again = any(number <= before.highest for number in given)
            assert again or len(self.pending) > 1 or self.pending[0] in OTHERS, self.pending
        if self.pending:
            event(f"told as {told}")
        self.pending = []
        self.check()

    def fields(self) -> Fields:
        """What the manifest of the plain HEAD says."""
        name = manifest_name(lance.dataset(self.where).version)
        return fields_of((Path(self.where) / "_versions" / name).read_bytes())

    def check(self) -> None:
        assert sorted(plain(self.lake, "t")) == sorted(content(self.lake)) == sorted(self.model.items())
        numbers = lance.dataset(self.where).to_table(columns=["_rowid"])["_rowid"].to_pylist()
        assert len(set(numbers)) == len(numbers)
        for number in (*IDS, 100):  # by an index, where there is one
            found = lance.dataset(self.where).to_table(filter=f"id = {number}").to_pylist()
            assert found == ([{"id": number, "v": self.model[number]}] if number in self.model else [])

    def open(self) -> None:
        dataset = lance.dataset(self.where)
        self.handles.append(Handle(dataset, sorted(dataset.to_table()["id"].to_pylist())))

    def write(self, kind: str, which: int) -> None:
        if not self.handles:
            return
        handle = self.handles[which % len(self.handles)]
        known = handle.ids[which % len(handle.ids)] if handle.ids else next(self.fresh)
        after = dict(self.model)
        act = self._plain(handle.dataset, kind, known, after)
        opened = handle.dataset.version
        failed = None
        try:
            act()
        except OSError as error:
            failed = str(error)
        if failed is not None:
            assert "concurrent transaction Restore" in failed
            assert self.restored > opened
            event("a stale handle failed")
            return
        event("a handle wrote")
        self.handles.remove(handle)
        found = self.lake.adopt("t")
        if found.branch == "main":
            self.model = after
        else:
            assert self.pending  # both sides changed the same row before they knew of each other
        assert sorted(content(self.lake)) == sorted(self.model.items())
        self.before = None
        if self.pending:
            self.pending.append("adopt")
            self.backfill()

    def _plain(self, dataset: Any, kind: str, known: int, after: dict[int, int]) -> Callable[[], Any]:
        """A write through a handle, and its effect on what is there when it is committed."""
        new = next(self.fresh)
        merging = dataset.merge_insert("id").when_not_matched_insert_all()
        if kind == "append":
            after[new] = 10 * new
            return lambda: lance.write_dataset(rows(new), dataset, mode="append")
        if kind == "insert":
            after[new] = 7 * new
            return lambda: merging.execute(rows(new, times=7))
        if kind == "upsert":
            after |= {known: 7 * known, new: 7 * new}
            return lambda: merging.when_matched_update_all().execute(rows(known, new, times=7))
        if kind == "update":
            after |= {known: 8} if known in after else {}
            return lambda: dataset.update({"v": "8"}, where=f"id = {known}")
        after.pop(known, None)
        return lambda: dataset.delete(f"id = {known}")


@settings(max_examples=budget(6, full=300), deadline=None, suppress_health_check=list(HealthCheck))
@given(histories, st.booleans())
def test_nothing_is_lost_doubled_or_brought_back(history: list[tuple[str, str, int]], stable: bool) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        with quire.create(folder / "lake", backfill=False) as lake:
            lake.create_table("t", rows(1, 2, 3), key="id", stable_row_ids=stable)
            with lake.transaction() as tx:
                tx["t"].append(rows(*IDS[3:]))
            world = World(lake, {i: 10 * i for i in IDS}, pending=["append", "append"])
            world.backfill()
            for _ in range(3):
                world.open()
            for who, kind, number in history:
                if who == "lake":
                    world.commit(kind, number)
                elif who == "plain":
                    world.write(kind, number)
                elif who == "open":
                    world.open()
                else:
                    world.backfill()
            world.backfill()
            assert lake.verify(deep=True).findings == []
    finally:
        shutil.rmtree(folder, ignore_errors=True)
