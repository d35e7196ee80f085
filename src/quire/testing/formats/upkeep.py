"""Compaction and index extension: what changes no row, and gives way to whoever does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from quire.errors import Refused
from quire.formats import IndexSpec, Upkeep, Work
from quire.testing.formats.bench import Bench, Conformance, change_of, listed, rows, values

HOW = Upkeep()
INDEX = IndexSpec("id", "BTREE", "by_id")


class UpkeepConformance(Conformance):
    def test_compaction_merges_small_parts(self, bench: Bench) -> None:
        pin = bench.parts((1, 2), (3,), (4, 5))
        pin = bench.change(pin, lambda w: w.rows.delete("id = 4"))
        work = bench.begin(pin)
        done = work.upkeep.compact(HOW)
        assert (done.fragments_before, done.fragments_after, done.rows, done.changed) == (3, 1, 4, True)
        assert work.changed
        assert not work.exclusive
        assert listed(work.view().scan().read_all()) == values(1, 2, 3, 5)
        staged = work.stage()
        assert (staged.pin.rows, staged.pin.fragments) == (4, 1)
        assert bench.content(staged.pin) == values(1, 2, 3, 5)
        assert bench.content(pin) == values(1, 2, 3, 5)

    def test_a_plan_writes_nothing(self, bench: Bench) -> None:
        pin = bench.parts((1, 2), (3,))
        before = {e.key for e in bench.store.list("")}
        work = bench.begin(pin)
        planned = work.upkeep.compact(HOW, mode="plan")
        assert (planned.fragments_before, planned.fragments_after, planned.rows) == (2, 1, 3)
        assert work.upkeep.extend_indexes(HOW, mode="plan") == []
        assert not work.changed
        assert {e.key for e in bench.store.list("")} == before

    def test_there_may_be_nothing_to_do(self, bench: Bench) -> None:
        for data in (rows(1, 2, 3), rows()):
            pin = bench.create(data, location=f"tables/t{data.num_rows}")
            work = bench.begin(pin)
            assert not work.upkeep.compact(HOW).changed
            assert work.upkeep.extend_indexes(HOW) == []
            assert not work.changed

    def test_parts_that_are_large_enough_stay(self, bench: Bench) -> None:
        work = bench.begin(bench.parts((1, 2, 3), (4, 5, 6)))
        assert not work.upkeep.compact(Upkeep(target_rows=3)).changed
        assert not work.changed

    @pytest.mark.parametrize("theirs", ["append", "upsert new", "delete", "update", "delete all"])
    def test_compaction_gives_way(self, bench: Bench, theirs: str) -> None:
        acts: dict[str, tuple[str, Callable[[Work], Any]]] = {
            "append": ("append", lambda w: w.rows.append(rows(9), missing="error")),
            "upsert new": ("upsert", lambda w: w.rows.upsert(rows(9), ("id",))),
            "delete": ("delete", lambda w: w.rows.delete("id = 3")),
            "update": ("update", lambda w: w.rows.update({"v": "v + 1"}, {}, "id = 3", ())),
            "delete all": ("delete", lambda w: w.rows.delete("true")),
        }
        op, act = acts[theirs]
        base = bench.parts((1, 2), (3,), (4, 5))
        work = bench.begin(base)
        work.upkeep.compact(HOW)
        work.stage()
        won = bench.stage(base, act)
        before = bench.data_files()
        assert work.rebase(won.pin, [change_of(won, op)]) is None
        assert bench.data_files() == before
        if theirs in ("append", "upsert new"):
            assert work.changed
            assert work.stage().pin.fragments == 2
        if work.changed:  # it may follow what rivals deleted, or leave alone what they touched
            assert bench.content(work.stage().pin) == bench.content(won.pin)

    def test_what_nobody_touched_is_compacted_all_the_same(self, bench: Bench) -> None:
        base = bench.parts((1, 2), (3, 4), (5, 6), (7, 8))
        work = bench.begin(base)
        done = work.upkeep.compact(Upkeep(target_rows=4))
        assert (done.fragments_before, done.fragments_after) == (4, 2)
        won = bench.stage(base, lambda w: w.rows.delete("id = 1"))
        assert work.rebase(won.pin, [change_of(won, "delete")]) is None
        assert work.changed
        staged = work.stage()
        assert staged.pin.fragments in (2, 3)
        assert bench.content(staged.pin) == values(2, 3, 4, 5, 6, 7, 8)

    def test_compaction_goes_with_no_other_statement(self, bench: Bench) -> None:
        pin = bench.parts((1, 2), (3,))
        work = bench.begin(pin)
        work.rows.append(rows(4), missing="error")
        with pytest.raises(Refused):
            work.upkeep.compact(HOW)
        assert bench.content(work.stage().pin) == values(1, 2, 3, 4)
        other = bench.begin(pin)
        other.upkeep.compact(HOW)
        with pytest.raises(Refused):
            other.rows.append(rows(4), missing="error")
        assert bench.content(other.stage().pin) == values(1, 2, 3)

    def test_indexes_are_extended_to_new_rows(self, bench: Bench) -> None:
        pin = bench.create(rows(1, 2))
        pin = bench.change(pin, lambda w: w.indexes.create(INDEX, replace=False))
        pin = bench.change(pin, lambda w: w.rows.append(rows(3), missing="error"))
        [short] = bench.again().open(pin).indexes()
        assert (short["rows_indexed"], short["rows_unindexed"]) == (2, 1)
        work = bench.begin(pin)
        assert work.upkeep.extend_indexes(HOW, mode="plan") == ["by_id"]
        assert not work.changed
        assert work.upkeep.extend_indexes(HOW) == ["by_id"]
        assert work.changed
        staged = work.stage()
        [whole] = bench.again().open(staged.pin).indexes()
        assert (whole["rows_indexed"], whole["rows_unindexed"]) == (3, 0)
        assert bench.content(staged.pin) == values(1, 2, 3)
        assert listed(bench.again().open(staged.pin).scan(filter="id >= 2").read_all()) == values(2, 3)
        assert bench.begin(staged.pin).upkeep.extend_indexes(HOW) == []

    def test_compaction_and_indexes_together(self, bench: Bench) -> None:
        pin = bench.create(rows(1, 2))
        pin = bench.change(pin, lambda w: w.indexes.create(INDEX, replace=False))
        pin = bench.change(pin, lambda w: w.rows.append(rows(3), missing="error"))
        work = bench.begin(pin)
        assert work.upkeep.compact(HOW).changed
        work.upkeep.extend_indexes(HOW)
        staged = work.stage()
        view = bench.again().open(staged.pin)
        [found] = view.indexes()
        assert (found["rows_indexed"], found["rows_unindexed"]) == (3, 0)
        assert bench.content(staged.pin) == values(1, 2, 3)
        assert listed(view.scan(filter="id = 3").read_all()) == values(3)

    def test_progress_is_told(self, bench: Bench) -> None:
        told: list[tuple[str, int, int | None]] = []
        bench.begin(bench.parts((1, 2), (3,))).upkeep.compact(HOW, progress=lambda *step: told.append(step))
        assert told
        assert told[-1][0] == "compact"
        assert told[-1][1] == told[-1][2]
