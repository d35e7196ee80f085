"""Single values: those that an upsert keeps, and bytes that are read by range."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from quire.errors import ColumnNotFound, InvalidInput, NotFound, SchemaMismatch
from quire.testing.formats.bench import Bench, Conformance, change_of, rows, values

KEEP = {"v": [True, False], "w": [True, True]}
"""The first row keeps both, the second keeps `w`."""


class ValuesConformance(Conformance):
    # -- values that are kept ---------------------------------------------------------------------------------

    def test_an_upsert_keeps_the_values_that_it_is_told_to_keep(self, bench: Bench) -> None:
        pin = bench.create(rows(1, 2, 3))
        work = bench.begin(pin)
        assert work.rows.upsert(rows(1, 2, times=7, w="b"), ["id"], keep=KEEP) == (0, 2)
        assert bench.content(work.stage().pin) == [(1, 10, "a"), (2, 14, "a"), (3, 30, "a")]

    def test_rows_that_are_new_have_nothing_to_keep(self, bench: Bench) -> None:
        pin = bench.create(rows(1))
        work = bench.begin(pin)
        assert work.rows.upsert(rows(1, 5, times=7, w="b"), ["id"], keep={"v": [True, True]}) == (1, 1)
        assert bench.content(work.stage().pin) == [(1, 10, "b"), (5, 35, "b")]
        work = bench.begin(pin)
        assert work.rows.upsert(rows(5, 6, times=7, w="b"), ["id"], keep=KEEP) == (2, 0)
        assert bench.content(work.stage().pin) == [(1, 10, "a"), *values(5, 6, times=7, w="b")]

    def test_some_columns_may_lack_while_others_are_kept(self, bench: Bench) -> None:
        pin = bench.create(rows(1))
        work = bench.begin(pin)
        work.rows.upsert(rows(1, 2, times=7).select(["id", "v"]), ["id"], keep={"v": [True, True]})
        assert bench.content(work.stage().pin) == [(1, 10, "a"), (2, 14, None)]

    def test_what_is_kept_is_what_the_newest_base_has(self, bench: Bench) -> None:
        pin = bench.create(rows(1))
        work = bench.begin(pin)
        assert work.rows.upsert(rows(1, 2, times=7, w="b"), ["id"], keep=KEEP) == (1, 1)
        theirs = bench.stage(pin, lambda w: w.rows.upsert(rows(1, 2, times=99, w="c"), ["id"]))
        overlap = work.rebase(theirs.pin, [change_of(theirs, "upsert")])
        assert overlap is not None
        assert not overlap.hard
        assert work.replay(theirs.pin, told=False) is None
        assert work.rows.upserted() == (0, 2)
        assert bench.content(work.stage().pin) == [(1, 99, "c"), (2, 14, "c")]

    def test_upserts_are_counted_on_the_base_that_they_stand_on(self, bench: Bench) -> None:
        pin = bench.create(rows(1))
        work = bench.begin(pin)
        assert work.rows.upserted() == (0, 0)
        work.rows.upsert(rows(1, 2), ["id"])
        work.rows.upsert(rows(2, 3), ["id"])
        assert work.rows.upserted() == (2, 2)
        theirs = bench.stage(pin, lambda w: w.rows.insert(rows(2), ["id"], missing="error"))
        otherwise = work.replay(theirs.pin)
        assert otherwise is not None
        assert otherwise.hard, "the program knows the counts of the first base"
        assert work.rows.upserted() == (2, 2)
        assert work.replay(theirs.pin, told=False) is None
        assert work.rows.upserted() == (1, 3)

    @pytest.mark.parametrize("keep", [{"id": [True]}, {"v": [True, True]}, {"x": [True]}])
    def test_a_mask_that_does_not_fit_is_refused(self, bench: Bench, keep: Any) -> None:
        work = bench.begin(bench.create(rows(1)))
        with pytest.raises(InvalidInput, match="one boolean per row"):
            work.rows.upsert(rows(1), ["id"], keep=keep)

    # -- bytes ------------------------------------------------------------------------------------------------

    def test_bytes_of_a_row_are_read_by_range(self, bench: Bench) -> None:
        pin = bench.create(blobs({1: b"0123456789", 2: None, 3: b""}))
        view = bench.again().open(pin, "t")
        cell = view.cell("b", ["id"], key(1))
        assert cell is not None
        assert (cell.size, cell.read(3, 4), cell.read(0, 10)) == (10, b"3456", b"0123456789")
        assert view.cell("b", ["id"], key(2)) is None
        empty = view.cell("b", ["id"], key(3))
        assert empty is not None
        assert empty.size == 0

    def test_bytes_survive_an_update_of_their_row(self, bench: Bench) -> None:
        pin = bench.create(blobs({1: b"abc", 2: None}))
        pin = bench.change(pin, lambda w: w.rows.update({}, {"v": 5}, "id < 3", ["id"]))
        cell = bench.again().open(pin, "t").cell("b", ["id"], key(1))
        assert cell is not None
        assert cell.read(0, 3) == b"abc"

    def test_bytes_that_are_not_there_are_told(self, bench: Bench) -> None:
        view = bench.again().open(bench.create(blobs({1: b"abc"})), "t")
        with pytest.raises(NotFound, match="id=7"):
            view.cell("b", ["id"], key(7))
        with pytest.raises(ColumnNotFound):
            view.cell("x", ["id"], key(1))
        with pytest.raises(SchemaMismatch, match="no bytes"):
            view.cell("v", ["id"], key(1))


def blobs(content: dict[int, bytes | None]) -> pa.Table:
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("v", pa.int64()),
            pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
        ]
    )
    columns = [pa.array(content, pa.int64()), pa.array([1] * len(content), pa.int64())]
    return pa.table([*columns, pa.array(content.values(), pa.large_binary())], schema=schema)


def key(id: int) -> pa.Table:
    return pa.table({"id": pa.array([id], pa.int64())})
