"""The plain HEAD: backfill, registered tables, foreign writers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from quire.errors import Conflict, KeyConflict
from quire.formats import AlreadyAdopted
from quire.ledger import Pin
from quire.testing.formats.bench import LOCATION, SCHEMA, Bench, Conformance, Row, change_of, rows, values


class HeadsConformance(Conformance):
    def _read(self, bench: Bench) -> list[Row]:
        return sorted((tuple(r.values()) for r in self.plain(bench.store, LOCATION).rows()), key=repr)

    def _append(self, bench: Bench, data: pa.Table) -> None:
        self.plain(bench.store, LOCATION).append(data)

    # -- backfill ---------------------------------------------------------------------------------------------

    def test_staging_moves_no_head(self, bench: Bench) -> None:
        pin = bench.create(rows(1))
        head = bench.again().head(pin)
        assert (head.counter, head.commit) == (0, None)
        bench.change(pin, lambda w: w.rows.append(rows(2), missing="error"))
        bench.change(pin, lambda w: w.rows.overwrite(rows(3), (), schema="keep"))
        bench.change(pin, lambda w: w.columns.add({"x": "1"}))
        assert bench.again().head(pin) == head
        assert self._read(bench) == values(1)

    def test_a_pin_is_promoted_once(self, bench: Bench) -> None:
        first = bench.create(rows(1))
        assert bench.format.promote(first, commit="1.0", table="t").outcome == "current"
        second = bench.change(first, lambda w: w.rows.append(rows(2), missing="error"))
        done = bench.format.promote(second, commit="2.0", table="t")
        assert (done.table, done.outcome) == ("t", "promoted")
        assert self._read(bench) == values(1, 2)
        head = bench.again().head(second)
        assert (head.version, head.counter, head.commit) == (done.version, second.counter, "2.0")
        again = bench.again().promote(second, commit="2.0", table="t")
        assert (again.outcome, again.version) == ("current", done.version)

    def test_intermediate_states_are_skipped_and_never_go_back(self, bench: Bench) -> None:
        first = bench.create(rows(1))
        second = bench.change(first, lambda w: w.rows.append(rows(2), missing="error"))
        third = bench.change(second, lambda w: w.rows.delete("id = 1"))
        done = bench.format.promote(third, commit="3.0", table="t")
        assert done.outcome == "promoted"
        for older, commit in ((second, "2.0"), (first, "1.0")):
            assert bench.format.promote(older, commit=commit, table="t").outcome == "current"
        assert self._read(bench) == values(2)
        assert bench.again().head(third).version == done.version

    def test_changed_columns_are_promoted(self, bench: Bench) -> None:
        pin = bench.change(bench.create(rows(1)), lambda w: w.columns.drop(["v"]), lambda w: w.columns.add({"x": "id"}))
        assert bench.format.promote(pin, commit="2.0", table="t").outcome == "promoted"
        assert self.plain(bench.store, LOCATION).rows() == [{"id": 1, "w": "a", "x": 1}]

    def test_a_foreign_write_is_never_overwritten(self, bench: Bench) -> None:
        first = bench.create(rows(1))
        second = bench.change(first, lambda w: w.rows.append(rows(2), missing="error"))
        self._append(bench, rows(9))
        head = bench.again().head(second)
        assert (head.counter, head.commit) == (None, None)
        done = bench.format.promote(second, commit="2.0", table="t")
        assert (done.outcome, done.version) == ("foreign", head.version)
        assert done.detail
        assert self._read(bench) == values(1, 9)
        assert bench.content(second) == values(1, 2)

    def test_a_race_of_backfills_promotes_once(self, bench: Bench) -> None:
        first = bench.create(rows(1))
        pin = bench.change(first, lambda w: w.rows.append(rows(2), missing="error"))
        before = bench.again().head(pin).version
        formats = [bench.again() for _ in range(4)]
        with ThreadPoolExecutor(4) as pool:
            done = list(pool.map(lambda f: f.promote(pin, commit="2.0", table="t").outcome, formats))
        assert done.count("promoted") == 1, done
        assert set(done) <= {"promoted", "current"}, done
        assert bench.again().head(pin).version == before + 1
        assert self._read(bench) == values(1, 2)

    def test_a_race_of_states_ends_at_one_of_them(self, bench: Bench) -> None:
        pins = [bench.create(rows(1))]
        for i in range(2, 6):
            pins.append(bench.change(pins[-1], lambda w, i=i: w.rows.append(rows(i), missing="error")))  # type: ignore[misc]
        formats = [bench.again() for _ in pins]
        with ThreadPoolExecutor(len(pins)) as pool:
            done = list(pool.map(lambda f, p: f.promote(p, commit=f"{p.counter}.0", table="t").outcome, formats, pins))
        assert set(done) <= {"promoted", "current", "behind"}, done
        head = bench.again().head(pins[0])
        assert head.counter is not None
        assert self._read(bench) == bench.content(pins[max(head.counter, 1) - 1])
        last = bench.format.promote(pins[-1], commit="5.0", table="t")
        assert last.outcome in ("promoted", "current")
        assert self._read(bench) == values(1, 2, 3, 4, 5)

    def test_a_head_is_checked_against_its_pin(self, bench: Bench) -> None:
        first = bench.create(rows(1))
        assert bench.again().head_differs(first) is None
        second = bench.change(first, lambda w: w.rows.append(rows(2), missing="error"))
        assert bench.again().head_differs(second) is None  # not backfilled yet: it claims nothing
        bench.format.promote(second, commit="2.0", table="t")
        assert bench.again().head_differs(second) is None
        other = bench.change(first, lambda w: w.rows.append(rows(7), missing="error"))
        assert bench.again().head_differs(other)  # the same counter, other rows
        self._append(bench, rows(9))
        assert bench.again().head_differs(second)

    def test_a_linear_version_is_told_from_others(self, bench: Bench) -> None:
        first = bench.create(rows(1))
        start = bench.again().head(first).version
        second = bench.change(first, lambda w: w.rows.append(rows(2), missing="error"))
        third = bench.change(second, lambda w: w.rows.append(rows(3), missing="error"))
        version = bench.format.promote(second, commit="2.0", table="t").version
        format_ = bench.again()
        assert format_.is_at(first, start, "1.0")
        assert format_.is_at(second, version, "2.0")
        assert not format_.is_at(second, version, "9.0")
        assert not format_.is_at(third, version, "3.0")
        assert not format_.is_at(second, start, "2.0")
        assert not format_.is_at(first, 0, "1.0")

    # -- registered tables and foreign writers ----------------------------------------------------------------

    def test_a_table_is_registered_as_it_is(self, bench: Bench) -> None:
        first = bench.create(rows(1))
        self._append(bench, rows(2))
        pin, schema = bench.again().register(LOCATION)
        assert (pin.location, pin.rows, pin.head) == (LOCATION, 2, bench.again().head(first).version)
        assert schema.equals(SCHEMA)
        assert bench.content(pin) == values(1, 2)
        later = bench.change(pin, lambda w: w.rows.append(rows(3), missing="error"))
        assert bench.format.promote(later, commit="2.0", table="t").outcome == "promoted"
        assert self._read(bench) == values(1, 2, 3)

    def _foreign(self, bench: Bench, pin: Pin, *, same: bool, key: tuple[str, ...] = ()) -> Any:
        format_ = bench.again()
        found = format_.foreign(pin, format_.head(pin))
        return found, format_.graft(pin, found, same=same, key=key, write="w", table="t")

    def test_a_foreign_append_is_adopted_as_it_is(self, bench: Bench) -> None:
        first = bench.create(rows(1))
        start = bench.again().head(first).version
        self._append(bench, rows(2))
        self._append(bench, rows(3))
        found, work = self._foreign(bench, first, same=True, key=("id",))
        assert (found.base, found.head, found.ops) == (start, start + 2, ("append", "append"))
        assert len(found.details) == 2
        assert work.changed
        staged = work.stage()
        assert (staged.pin.head, staged.pin.counter, staged.added) == (start + 2, first.counter + 1, 2)
        assert bench.content(staged.pin) == values(1, 2, 3)
        assert bench.format.promote(staged.pin, commit="2.0", table="t").outcome == "current"
        later = bench.change(staged.pin, lambda w: w.rows.append(rows(4), missing="error"))
        assert bench.format.promote(later, commit="3.0", table="t").outcome == "promoted"
        assert self._read(bench) == values(1, 2, 3, 4)

    def test_a_foreign_delete_is_adopted(self, bench: Bench) -> None:
        first = bench.create(rows(1, 2, 3))
        self.plain(bench.store, LOCATION).delete("id = 2")
        found, work = self._foreign(bench, first, same=True)
        assert found.ops == ("delete",)
        staged = work.stage()
        assert (staged.removed, bench.content(staged.pin)) == (1, values(1, 3))

    def test_foreign_rows_are_moved_onto_what_came_since(self, bench: Bench) -> None:
        first = bench.create(rows(1))
        second = bench.change(first, lambda w: w.rows.append(rows(2), missing="error"))
        self._append(bench, rows(3))
        before = bench.data_files()
        _, work = self._foreign(bench, second, same=False, key=("id",))
        staged = work.stage()
        assert bench.data_files() == before
        assert bench.content(staged.pin) == values(1, 2, 3)
        assert bench.format.promote(staged.pin, commit="3.0", table="t").outcome == "promoted"
        assert self._read(bench) == values(1, 2, 3)

    def test_foreign_rows_that_break_the_key_are_refused(self, bench: Bench) -> None:
        first = bench.create(rows(1))
        second = bench.change(first, lambda w: w.rows.append(rows(2), missing="error"))
        self._append(bench, rows(2, times=7))
        with pytest.raises(Conflict):
            self._foreign(bench, second, same=False, key=("id",))
        assert bench.content(self._foreign(bench, second, same=False)[1].stage().pin) == sorted(
            [*values(1, 2), *values(2, times=7)]
        )
        self._append(bench, rows(1))
        with pytest.raises(KeyConflict):
            self._foreign(bench, first, same=True, key=("id",))

    def test_a_foreign_change_of_rows_that_changed_since_is_refused(self, bench: Bench) -> None:
        first = bench.create(rows(1, 2))
        second = bench.change(first, lambda w: w.rows.upsert(rows(1, times=5), ("id",)))
        self.plain(bench.store, LOCATION).delete("id = 1")
        with pytest.raises(Conflict):
            self._foreign(bench, second, same=False)

    def test_an_adoption_loses_its_race_quietly(self, bench: Bench) -> None:
        first = bench.create(rows(1))
        self._append(bench, rows(2))
        _, mine = self._foreign(bench, first, same=True)
        theirs = self._foreign(bench, first, same=True)[1].stage()
        with pytest.raises(AlreadyAdopted):
            mine.rebase(theirs.pin, [change_of(theirs, "adopt")])
        _, slow = self._foreign(bench, first, same=True)
        won = bench.stage(first, lambda w: w.rows.append(rows(3), missing="error"))
        assert slow.rebase(won.pin, [change_of(won, "append")]) is None
        assert bench.content(slow.stage().pin) == values(1, 2, 3)
