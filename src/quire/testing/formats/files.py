"""Which files a state consists of; what differs between two states; taking a change back."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from quire.errors import KeyConflict, QuireError
from quire.formats import IndexSpec, Work
from quire.ledger import Pin
from quire.store import Store
from quire.testing.formats.bench import LOCATION, Bench, Conformance, change_of, listed, rows, values

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
FAR_OFF = datetime(2200, 1, 1, tzinfo=UTC)


class FilesConformance(Conformance):
    @pytest.fixture
    def other_uri(self, uri: str) -> str:
        """Another place of the same kind."""
        return f"{uri}-other"

    def _rich(self, bench: Bench) -> Pin:
        """A state of several parts, with rows deleted, a column added and an index."""
        pin = bench.parts((1, 2, 3), (4, 5), (6,))
        pin = bench.change(pin, lambda w: w.rows.delete("id = 2"), lambda w: w.columns.add({"x": "v + 1"}))
        if self.indexes:
            pin = bench.change(pin, lambda w: w.indexes.create(IndexSpec("id", "BTREE", "by_id"), replace=False))
        return bench.change(pin, lambda w: w.rows.delete("id = 6 or id = 4"))

    def test_every_named_file_is_needed(self, bench: Bench) -> None:
        pin = self._rich(bench)
        expected = bench.content(pin)
        files = bench.again().files(pin, "t")
        sizes = {e.key.removeprefix(f"{LOCATION}/"): e.size for e in bench.store.list(LOCATION)}
        for path, size in files.items():
            if path.endswith("/"):
                assert any(name.startswith(path) for name in sizes), f"{path} is empty"
                continue
            assert size in (None, sizes[path]), path
            body = bench.store.get(f"{LOCATION}/{path}")
            bench.store.delete(f"{LOCATION}/{path}")
            with pytest.raises(QuireError):
                bench.again().open(pin, "t").scan().read_all()
            bench.store.put(f"{LOCATION}/{path}", body)
        assert bench.content(pin) == expected

    def test_the_named_files_suffice(self, bench: Bench, other_uri: str) -> None:
        pin = self._rich(bench)
        expected = bench.content(pin)
        for names in (set(bench.again().files(pin, "t")), bench.again().kept(pin, "t")):
            there = _copy(bench.store, other_uri, names)
            format_ = bench.make(there)
            assert bench.content(pin, format_) == expected
            assert format_.open(pin).count("id = 3") == 1
            assert [i["name"] for i in format_.open(pin).indexes()] == (["by_id"] if self.indexes else [])

    def test_a_state_can_be_gone_on_from_with_what_is_kept(self, bench: Bench, other_uri: str) -> None:
        pin = self._rich(bench)
        there = _copy(bench.store, other_uri, bench.again().kept(pin, "t"))
        moved = Bench(bench.make, there.uri)
        later = moved.change(
            pin, lambda w: w.rows.update({"v": "v + 1"}, {}, "id = 3", ()), lambda w: w.rows.delete("id = 1")
        )
        assert moved.content(later) == [(3, 31, "a", 31), (5, 50, "a", 51)]

    def test_a_staged_state_needs_only_named_files(self, bench: Bench) -> None:
        pin = bench.create(rows(1))
        staged = bench.stage(pin, lambda w: w.rows.append(rows(2), missing="error"))
        assert set(bench.again().files(staged.pin, "t")) - set(bench.again().files(pin, "t")) <= set(staged.files)

    # -- plain clients ----------------------------------------------------------------------------------------

    def test_the_plain_head_can_be_read_from_its_files_alone(self, bench: Bench, other_uri: str) -> None:
        pins = self._promoted(bench)
        names = bench.again().plain_files(LOCATION, FAR_OFF)
        there = _copy(bench.store, other_uri, names)
        assert _plain(self.plain(there, LOCATION).rows()) == bench.content(pins[-1])
        assert self.plain(there, LOCATION).version() == self.plain(bench.store, LOCATION).version()
        assert bench.make(there).head(pins[-1]).counter == pins[-1].counter

    def test_recent_plain_versions_are_kept_too(self, bench: Bench) -> None:
        self._promoted(bench)
        everything = {e.key.removeprefix(f"{LOCATION}/") for e in bench.store.list(LOCATION)}
        new = bench.again().plain_files(LOCATION, FAR_OFF) & everything
        old = bench.again().plain_files(LOCATION, LONG_AGO) & everything
        assert new < old

    def test_what_a_plain_writer_did_is_kept(self, bench: Bench, other_uri: str) -> None:
        pins = self._promoted(bench)
        for i in (8, 9):
            self.plain(bench.store, LOCATION).append(rows(i))
        there = _copy(bench.store, other_uri, bench.again().plain_files(LOCATION, FAR_OFF))
        assert _plain(self.plain(there, LOCATION).rows()) == sorted([*bench.content(pins[-1]), *values(8, 9)])
        for entry in bench.store.list(LOCATION):
            if entry.key.removeprefix(f"{LOCATION}/") in bench.again().kept(pins[-1], "t"):
                there.put(entry.key, bench.store.get(entry.key))
        format_ = bench.make(there)
        found = format_.foreign(pins[-1], format_.head(pins[-1]))
        work = format_.graft(pins[-1], found, same=True, key=("id",), write="w", table="t")
        assert work.stage().pin.rows == pins[-1].rows + 2

    def test_no_plain_table_needs_no_files(self, bench: Bench) -> None:
        there = {e.key for e in bench.store.list("")}
        assert bench.again().plain_files("tables/nothing", LONG_AGO) & there == set()

    def _promoted(self, bench: Bench) -> list[Pin]:
        """Three states, each of which was the plain HEAD."""
        pins = [bench.create(rows(1, 2))]
        pins.append(bench.change(pins[-1], lambda w: w.rows.overwrite(rows(3, 4), (), schema="keep")))
        pins.append(
            bench.change(pins[-1], lambda w: w.rows.delete("id = 3"), lambda w: w.rows.append(rows(5), missing="error"))
        )
        for pin in pins[1:]:
            assert bench.format.promote(pin, commit=f"{pin.counter}.0", table="t").outcome == "promoted"
        return pins

    # -- differences ------------------------------------------------------------------------------------------

    def test_rows_that_changed_are_found(self, bench: Bench) -> None:
        before = bench.parts((1, 2), (3, 4))
        after = bench.change(
            before,
            lambda w: w.rows.upsert(rows(1, times=5), ("id",)),
            lambda w: w.rows.append(rows(9), missing="error"),
        )
        assert self._changed(bench, before, after) == (values(1), [*values(1, times=5), *values(9)])
        assert self._changed(bench, after, before) == ([*values(1, times=5), *values(9)], values(1))
        assert self._changed(bench, before, before) == ([], [])
        less = bench.change(before, lambda w: w.rows.delete("id > 2"))
        assert self._changed(bench, before, less) == (values(3, 4), [])

    def test_a_column_more_changes_no_row(self, bench: Bench) -> None:
        before = bench.create(rows(1))
        after = bench.change(before, lambda w: w.columns.add({"x": "1"}))
        gone, come = self._changed(bench, before, after)
        assert ([r[:1] for r in gone], [r[:1] for r in come]) in (([], []), ([(1,)], [(1,)]))

    def _changed(self, bench: Bench, before: Pin, after: Pin) -> tuple[list[Any], list[Any]]:
        gone, come = bench.again().changed_rows(before, after)
        return listed(gone.read_all()), listed(come.read_all())

    # -- what a work does to rows -----------------------------------------------------------------------------

    def test_the_rows_that_a_work_adds_and_removes_are_known(self, bench: Bench) -> None:
        work = bench.begin(bench.parts((1, 2), (3, 4), (5,)))
        assert self._delta(work) == ([], [])
        work.rows.append(rows(8), missing="error")
        assert self._delta(work) == ([], values(8))
        work.rows.upsert(rows(1, 9, times=5), ("id",))
        assert self._delta(work) == (values(1), [(1, 5, "a"), (8, 80, "a"), (9, 45, "a")])
        work.rows.delete("id > 4")
        assert self._delta(work) == (values(1, 5), values(1, times=5))
        work.rows.update({}, {"v": 0}, "id = 3", ("id",))
        gone, come = self._delta(work)
        assert gone == values(1, 3, 5)
        assert come == [(1, 5, "a"), (3, 0, "a")]
        assert [listed(side.read_all()) for side in work.delta(["id"])] == [[(1,), (3,), (5,)], [(1,), (3,)]]

    def test_what_a_new_or_overwritten_table_holds_is_added(self, bench: Bench) -> None:
        before = bench.parts((1, 2), (3,))
        work = bench.begin(before)
        work.rows.overwrite(rows(2, 7), ("id",), schema="keep")
        work.rows.append(rows(8), missing="error")
        assert self._delta(work) == (values(1, 2, 3), values(2, 7, 8))
        made = bench.format.create("tables/new", rows(1, 2), schema=None, write="w", stable_row_ids=False, table="new")
        made.rows.delete("id = 1")
        assert self._delta(made) == ([], values(2))

    def test_a_work_that_was_moved_tells_what_it_does_on_its_new_base(self, bench: Bench) -> None:
        base = bench.parts((1, 2), (3, 4))
        work = bench.begin(base)
        work.rows.upsert(rows(1, times=5), ("id",))
        other = bench.begin(base)
        other.rows.append(rows(9), missing="error")
        staged = other.stage()
        assert work.rebase(staged.pin, [change_of(staged, "append")]) is None
        assert self._delta(work) == (values(1), values(1, times=5))

    def _delta(self, work: Work) -> tuple[list[Any], list[Any]]:
        gone, come = work.delta()
        return listed(gone.read_all()), listed(come.read_all())

    def test_a_change_is_taken_back(self, bench: Bench) -> None:
        before = bench.create(rows(1, 2, 3))
        after = bench.change(
            before, lambda w: w.rows.upsert(rows(1, times=5), ("id",)), lambda w: w.rows.delete("id = 2")
        )
        now = bench.change(after, lambda w: w.rows.append(rows(9), missing="error"))
        work = bench.begin(now)
        assert bench.format.undo(work, before, after, key=("id",))
        assert work.changed
        assert bench.content(work.stage().pin) == values(1, 2, 3, 9)

    def test_a_change_that_was_changed_since_is_not_taken_back(self, bench: Bench) -> None:
        before = bench.create(rows(1, 2))
        after = bench.change(before, lambda w: w.rows.append(rows(3, 4), missing="error"))
        now = bench.change(after, lambda w: w.rows.delete("id = 3"))
        assert not bench.format.undo(bench.begin(now), before, after, key=("id",))
        gone = bench.change(before, lambda w: w.rows.delete("id = 2"))
        taken = bench.change(gone, lambda w: w.rows.append(rows(2, times=7), missing="error"))
        with pytest.raises(KeyConflict):
            bench.format.undo(bench.begin(taken), before, gone, key=("id",))

    def test_an_undo_that_lost_its_race_is_a_conflict(self, bench: Bench) -> None:
        from quire.testing.formats.bench import change_of

        before = bench.create(rows(1))
        after = bench.change(before, lambda w: w.rows.append(rows(2), missing="error"))
        work = bench.begin(after)
        assert bench.format.undo(work, before, after, key=("id",))
        won = bench.stage(after, lambda w: w.rows.upsert(rows(2, times=5), ("id",)))
        overlap = work.rebase(won.pin, [change_of(won, "upsert")])
        assert overlap is not None
        assert overlap.hard


def _plain(found: Iterable[dict[str, Any]]) -> list[Any]:
    return listed(pa.Table.from_pylist(list(found)))


def _copy(store: Store, uri: str, names: set[str]) -> Store:
    """Another place that holds these files of the table and nothing else."""
    there = Store.open(uri)
    for entry in list(there.list("")):
        there.delete(entry.key)
    folders = tuple(n for n in names if n.endswith("/"))
    for entry in store.list(LOCATION):
        name = entry.key.removeprefix(f"{LOCATION}/")
        if name in names or name.startswith(folders):
            there.put(entry.key, store.get(entry.key))
    return there
