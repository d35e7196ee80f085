"""What other processes do for a table: read parts of it, find keys, write files that a transaction takes over."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from quire.errors import KeyConflict, SchemaMismatch, Unsupported
from quire.formats import (
    ROW_ADDRESS,
    ROW_ID,
    Addressed,
    Built,
    Comparable,
    Handed,
    HandedFiles,
    MatchedRows,
    Parted,
    Place,
    TaskTable,
    View,
    Work,
    task_table,
    tasks,
)
from quire.ledger import Pin, new_id
from quire.testing.formats.bench import SCHEMA, Bench, Conformance, Make, Row, change_of, listed, rows, values


class DistributedConformance(Conformance):
    @pytest.fixture
    def on_disk(self, format: Make, tmp_path: Path) -> Bench:
        """A place that other processes can reach, wherever the other tests are."""
        return Bench(format, str(tmp_path / "shared"))

    # -- reading ----------------------------------------------------------------------------------------------

    def test_a_place_travels_and_shows_one_state(self, on_disk: Bench) -> None:
        pin = on_disk.parts([1, 2], [3])
        place = pickle.loads(pickle.dumps(_parted(on_disk, pin).place()))
        on_disk.change(pin, lambda w: w.rows.append(rows(4), missing="error"))
        held = task_table(place)
        assert place.format == pin.format
        assert held.schema.names == SCHEMA.names
        assert listed(held.view("t").scan().read_all()) == values(1, 2, 3)

    def test_parts_together_are_all_rows(self, on_disk: Bench) -> None:
        pin = on_disk.change(on_disk.parts([1, 2], [3, 4], [5]), lambda w: w.rows.delete("id = 3"))
        view = _parted(on_disk, pin)
        assert view.parts() == task_table(view.place()).parts()
        assert sum(count for _, count in view.parts()) == pin.rows
        each = [_read(task_table(view.place()), [number]) for number, _ in view.parts()]
        assert sorted(row for part in each for row in part) == values(1, 2, 4, 5)

    def test_a_part_is_read_with_columns_and_a_filter(self, on_disk: Bench) -> None:
        view = _parted(on_disk, on_disk.parts([1, 2, 3], [4]))
        numbers = [number for number, _ in view.parts()]
        read = task_table(view.place()).read_rows(numbers, ["v"], "id > 2")
        assert sorted(v for batch in read for v in batch.column("v").to_pylist()) == [30, 40]

    @pytest.mark.parametrize("filter", [None, "id % 3 = 0", "v = 80", "v > 0", "id < 0"])
    @pytest.mark.parametrize("columns", [["id", "v"], ["v"]])
    def test_spans_of_a_part_together_are_its_rows(
        self, on_disk: Bench, filter: str | None, columns: list[str]
    ) -> None:
        pin = on_disk.change(on_disk.parts(list(range(1, 41)), [99]), lambda w: w.rows.delete("id % 4 = 1 or id > 35"))
        held = task_table(_parted(on_disk, pin).place())
        [number, count] = held.parts()[0]
        assert count < 30
        spans = list(pairwise([0, 1, 2, 13, count]))
        each = [_named(held.read_rows([number], columns, filter, span=span)) for span in spans]
        assert [len(rows) for rows in each] == [b - a for a, b in spans] or filter is not None
        assert [row for rows in each for row in rows] == _named(held.read_rows([number], columns, filter))

    def test_whole_rows_are_the_same_here_and_elsewhere(self, on_disk: Bench) -> None:
        view = _parted(on_disk, on_disk.parts([1, 2], [3]))
        numbers = [number for number, _ in view.parts()]
        here = view.whole(numbers, here=True)
        there = pickle.loads(pickle.dumps(view.whole(numbers, here=False)))
        for rows_ in (here, there):
            assert listed(pa.Table.from_batches(rows_.batches(), schema=rows_.schema())) == values(1, 2, 3)

    def test_rows_come_with_their_addresses(self, on_disk: Bench) -> None:
        view = _parted(on_disk, on_disk.change(on_disk.parts([1, 2, 3], [4]), lambda w: w.rows.delete("id = 2")))
        held = task_table(view.place())
        for number, count in view.parts():
            batches = list(held.addressed_rows([number], ["id"]))
            addresses = np.concatenate([b.column(ROW_ADDRESS).to_numpy() for b in batches])
            assert len(addresses) == count
            assert set((addresses >> np.uint64(32)).tolist()) == {number}
            ids = [i for b in batches for i in b.column("id").to_pylist()]
            found, positions = held.find_keys([number], ["id"], pa.table({"id": ids}))
            assert [ids[p] for p in positions] == [dict(zip(addresses.tolist(), ids, strict=True))[a] for a in found]

    def test_what_differs_is_known_by_parts(self, on_disk: Bench) -> None:
        first = on_disk.parts([1, 2], [3])
        last = on_disk.change(
            first, lambda w: w.rows.delete("id = 1 or id = 3"), lambda w: w.rows.append(rows(7, 8), missing="error")
        )
        before, now = _parted(on_disk, first), _parted(on_disk, last)
        gone, came = now.parts_since(cast(View, before))
        held = task_table(before.place())
        went = [i for n, _ in gone for b in held.gone_rows(now.place(), n, ["id"]) for i in b.column("id").to_pylist()]
        assert (sorted(went), sum(count for _, count in gone)) == ([1, 3], 2)
        assert _read(task_table(now.place()), [n for n, _ in came]) == values(7, 8)
        format_ = on_disk.again()
        assert isinstance(format_, Comparable)
        changed = pickle.loads(pickle.dumps(format_.changed(first, last)))
        sides: dict[bool, list[Row]] = {False: [], True: []}
        for part in range(len(changed.rows)):
            for fresh, batch in changed.read(part):
                sides[fresh] += listed(pa.Table.from_batches([batch]))
        assert (sorted(sides[False]), sorted(sides[True])) == (values(1, 3), values(7, 8))

    def test_rows_are_taken_again_by_their_ids(self, on_disk: Bench) -> None:
        view = on_disk.again().open(on_disk.parts([1, 2], [3]), "t")
        assert isinstance(view, Addressed)
        found = view.addressed(["id"], "id > 1").read_all()
        ids = found.column(ROW_ID).to_numpy()[::-1]
        assert view.take(ids, ["v"]).column("v").to_pylist() == [10 * i for i in found.column("id").to_pylist()[::-1]]

    # -- writing ----------------------------------------------------------------------------------------------

    def test_files_of_tasks_are_appended(self, on_disk: Bench) -> None:
        pin = on_disk.create(rows(1))
        work, shared = _begun(on_disk, pin)
        fragments = [*_written(shared.place(), rows(2, 3)), *_written(shared.place(), rows(4))]
        assert shared.hand_in(Handed("append", tuple(fragments))) == 3
        assert listed(work.view().scan().read_all()) == values(1, 2, 3, 4)
        assert on_disk.content(pin) == values(1)
        assert on_disk.content(work.stage().pin) == values(1, 2, 3, 4)

    def test_new_files_are_read_by_their_paths(self, on_disk: Bench) -> None:
        _, shared = _begun(on_disk, on_disk.create(rows(1)))
        held = task_table(shared.place())
        files = held.new_files(_written(shared.place(), rows(2, 3)))
        assert [file.rows for file in files] == [2]
        beside = held.write_beside(pa.table({"line": [5, 6]}).to_batches())
        assert _read_files(held, [file.path for file in files], ["v"]) == [20, 30]
        assert _read_files(held, [beside], ["line"]) == [5, 6]

    def test_rows_that_do_not_fit_are_refused_by_the_task(self, on_disk: Bench) -> None:
        _, shared = _begun(on_disk, on_disk.create(rows(1)))
        with pytest.raises(SchemaMismatch):
            tasks.write_rows(tasks.Output(shared.place(), "t"), pa.table({"id": ["no number"]}).to_batches())
        with pytest.raises(SchemaMismatch):
            tasks.write_rows(tasks.Output(shared.place(), "t"), pa.table({"x": [1]}).to_batches())

    def test_a_strict_insert_looks_its_keys_up(self, on_disk: Bench) -> None:
        work, shared = _begun(on_disk, on_disk.create(rows(1, 2)))
        assert shared.hand_in(Handed("insert", _written(shared.place(), rows(3)), ("id",), _seek(3))) == 0
        with pytest.raises(KeyConflict):
            shared.hand_in(Handed("insert", _written(shared.place(), rows(2)), ("id",), _seek(2)))
        assert on_disk.content(work.stage().pin) == values(1, 2, 3)

    def test_an_upsert_replaces_the_rows_that_it_finds(self, on_disk: Bench) -> None:
        work, shared = _begun(on_disk, on_disk.parts([1, 2], [3]))
        work.rows.append(rows(4), missing="error")
        fragments = _written(shared.place(), rows(3, 4, 5, times=7))
        assert shared.hand_in(Handed("upsert", fragments, ("id",), _seek(3, 4, 5))) == 2
        assert work.rows.upserted() == (1, 2)
        assert on_disk.content(work.stage().pin) == [*values(1, 2), *values(3, 4, 5, times=7)]

    def test_rows_of_files_can_be_left_out(self, on_disk: Bench) -> None:
        work, shared = _begun(on_disk, on_disk.create(rows(1, 2)))
        without = {0: np.array([1], np.uint32)}
        fragments = _written(shared.place(), rows(2, 3, 4, times=7))
        assert shared.hand_in(Handed("upsert", fragments, ("id",), _seek(2, 4), without=without)) == 1
        assert on_disk.content(work.stage().pin) == [*values(1), *values(2, 4, times=7)]

    def test_keys_alone_delete_their_rows(self, on_disk: Bench) -> None:
        work, shared = _begun(on_disk, on_disk.create(rows(1, 2, 3)))
        assert shared.hand_in(Handed("delete", (), ("id",), _seek(1, 3, 9))) == 2
        assert on_disk.content(work.stage().pin) == values(2)

    def test_an_overwrite_may_bring_other_columns(self, on_disk: Bench) -> None:
        work, shared = _begun(on_disk, on_disk.create(rows(1, 2)))
        schema = pa.schema([("id", pa.int64()), ("x", pa.string())])
        output = tasks.Output(shared.place(), "t", mode="overwrite", schema=schema)
        fragments, _ = tasks.write_rows(output, pa.table({"id": [5, 6], "x": ["a", "b"]}).to_batches())
        handed = Handed("overwrite", tuple(fragments), schema=schema, without={0: np.array([0], np.uint32)})
        assert shared.hand_in(handed) == 1
        assert work.exclusive
        assert on_disk.content(work.stage().pin) == [(6, "b")]

    def test_rows_are_made_of_those_that_are_there(self, on_disk: Bench) -> None:
        """Some values are given, the others kept: on every base anew."""
        pin = on_disk.create(rows(1, 2))
        work, shared = _begun(on_disk, pin)
        at = shared.place()

        def build(place: Place) -> Built:
            given = rows(2, 3, times=7, w="b")
            held = task_table(place)
            addresses, positions = held.find_keys(None, ["id"], given.select(["id"]))
            made = held.patched(given.to_batches()[0], {"v": np.array([True, True])}, addresses, positions)
            fragments, _ = tasks.write_rows(tasks.Output(at, "t"), made.to_batches())
            return Built(tuple(fragments), MatchedRows(addresses, len(addresses)))

        assert shared.hand_in(Handed("upsert", (), ("id",), _seek(2, 3), build=build)) == 1
        assert listed(work.view().scan().read_all()) == [(1, 10, "a"), (2, 20, "b"), (3, 21, "b")]
        theirs = on_disk.stage(pin, lambda w: w.rows.update({}, {"v": 99}, "id = 2", ["id"]))
        assert work.rebase(theirs.pin, [change_of(theirs, "update")]) is not None
        assert work.replay(theirs.pin, told=False) is None
        assert on_disk.content(work.stage().pin) == [(1, 10, "a"), (2, 99, "b"), (3, 21, "b")]

    # -- moving -----------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("op", ["insert", "upsert", "delete"])
    def test_files_move_to_a_base_with_other_keys(self, on_disk: Bench, op: Any) -> None:
        pin = on_disk.create(rows(1, 2))
        work, shared = _begun(on_disk, pin)
        key = 3 if op == "insert" else 2
        fragments = () if op == "delete" else _written(shared.place(), rows(key, times=7))
        shared.hand_in(Handed(op, fragments, ("id",), _seek(key)))
        theirs = on_disk.stage(pin, lambda w: w.rows.insert(rows(9), ["id"], missing="error"))
        before = on_disk.data_files()
        assert work.rebase(theirs.pin, [change_of(theirs, "insert")]) is None
        assert on_disk.data_files() == before
        expected = {"insert": [*values(1, 2), *values(3, times=7)], "upsert": [*values(1), *values(2, times=7)]}
        assert on_disk.content(work.stage().pin) == sorted([*expected.get(op, values(1)), *values(9)])

    def test_a_key_that_a_rival_wrote_is_in_dispute(self, on_disk: Bench) -> None:
        pin = on_disk.create(rows(1))
        theirs = on_disk.stage(pin, lambda w: w.rows.insert(rows(3), ["id"], missing="error"))
        for op, hard in (("insert", True), ("upsert", False)):
            work, shared = _begun(on_disk, pin)
            fragments = _written(shared.place(), rows(3, times=7))
            shared.hand_in(Handed(op, fragments, ("id",), _seek(3)))  # type: ignore[arg-type]
            overlap = work.rebase(theirs.pin, [change_of(theirs, "insert")])
            assert overlap is not None
            assert (overlap.kind, overlap.hard) == ("keys", hard)
        assert work.replay(theirs.pin, told=False) is None
        assert on_disk.content(work.stage().pin) == [*values(1), *values(3, times=7)]

    def test_a_lake_in_memory_is_for_one_process(self, format: Any) -> None:
        bench = Bench(format, f"memory://{new_id()}")
        pin = bench.create(rows(1))
        with pytest.raises(Unsupported, match="other processes cannot read it"):
            _parted(bench, pin).place()


def _parted(bench: Bench, pin: Pin) -> Parted:
    view = bench.again().open(pin, "t")
    assert isinstance(view, Parted)
    return view


def _begun(bench: Bench, pin: Pin) -> tuple[Work, HandedFiles]:
    work = bench.begin(pin)
    assert work.files is not None
    return work, work.files


def _written(place: Place, data: pa.Table) -> tuple[str, ...]:
    fragments, count = tasks.write_rows(tasks.Output(place, "t"), data.to_batches())
    assert count == data.num_rows
    return tuple(fragments)


def _seek(*ids: int) -> Any:
    keys = pa.table({"id": pa.array(ids, pa.int64())})

    def seek(place: Place, parts: Sequence[int] | None) -> MatchedRows:
        addresses, positions = task_table(place).find_keys(parts, ["id"], keys)
        return MatchedRows(addresses, len(np.unique(positions)), tuple(keys.take(positions).to_pylist()))

    return seek


def _named(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def _read(held: TaskTable, parts: Sequence[int]) -> list[Row]:
    return listed(pa.Table.from_batches(held.read_rows(parts, None), schema=SCHEMA))


def _read_files(held: TaskTable, paths: Sequence[str], columns: Sequence[str]) -> list[Any]:
    return [value for batch in held.read_files(paths, columns) for value in batch.column(0).to_pylist()]
