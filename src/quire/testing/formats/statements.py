"""Creating, reading and changing a table in one transaction."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from quire.errors import (
    AlreadyExists,
    InvalidInput,
    InvalidName,
    KeyConflict,
    NotFound,
    SchemaMismatch,
    SnapshotExpired,
)
from quire.formats import IndexSpec
from quire.formats import keys as keylib
from quire.testing.formats.bench import LOCATION, SCHEMA, Bench, Conformance, listed, rows, values
from quire.testing.formats.refusals import REFUSED


class StatementsConformance(Conformance):
    # -- creating and reading ---------------------------------------------------------------------------------

    def test_a_table_is_created_with_its_rows(self, bench: Bench) -> None:
        pin = bench.create(rows(1, 2, 3))
        assert (pin.format, pin.location, pin.counter, pin.rows) == (bench.format.name, LOCATION, 1, 3)
        assert bench.content(pin) == values(1, 2, 3)
        assert bench.again().open(pin).schema.equals(SCHEMA)

    def test_a_table_is_created_from_a_schema(self, bench: Bench) -> None:
        pin = bench.create(schema=SCHEMA)
        assert (pin.rows, bench.content(pin)) == (0, [])
        assert bench.content(bench.change(pin, lambda w: w.rows.append(rows(1), missing="error"))) == values(1)

    def test_a_new_table_can_be_changed_before_its_first_commit(self, bench: Bench) -> None:
        work = bench.format.create(LOCATION, rows(1, 2), schema=None, write="w", stable_row_ids=False, table="t")
        assert work.changed
        work.rows.append(rows(3), missing="error")
        work.rows.delete("id = 1")
        staged = work.stage()
        assert (staged.pin.counter, staged.pin.rows, staged.added, staged.removed) == (1, 2, 2, 0)
        assert bench.content(staged.pin) == values(2, 3)

    def test_rows_that_an_overwrite_brought_and_that_were_removed_again_were_never_there(self, bench: Bench) -> None:
        work = bench.begin(bench.create(rows(1, 2, 3)))
        work.rows.overwrite(rows(4, 5), (), schema="keep")
        work.rows.delete("id = 4")
        work.rows.append(rows(6), missing="error")
        work.rows.update({"v": "0"}, {}, "id = 5", ())
        staged = work.stage()
        assert (staged.pin.rows, staged.added, staged.removed) == (2, 2, 3)
        assert [row[:2] for row in bench.content(staged.pin)] == [(5, 0), (6, 60)]

    def test_a_table_needs_rows_or_a_schema(self, bench: Bench) -> None:
        with pytest.raises(InvalidInput):
            bench.format.create(LOCATION, None, schema=None, write="w", stable_row_ids=False, table="t")
        with pytest.raises(SchemaMismatch):
            bench.create(schema=pa.schema([("x", pa.null())]))
        with pytest.raises(InvalidName):
            bench.create(schema=pa.schema([("a.b", pa.int64())]))

    def test_new_tables_lie_apart(self, bench: Bench) -> None:
        places = {bench.format.location(name) for name in ("a", "b", "ab")}
        assert len(places) == 3
        assert all(place.startswith("tables/") for place in places)

    def test_values_of_every_simple_type_come_back(self, bench: Bench) -> None:
        data = pa.table(
            {
                "i": pa.array([1, -(2**62), None], pa.int64()),
                "small": pa.array([1, None, -128], pa.int8()),
                "big": pa.array([2**63, 0, None], pa.uint64()),
                "f": pa.array([0.1, None, -1e300], pa.float64()),
                "single": pa.array([0.5, 1.25, None], pa.float32()),
                "s": pa.array(["", "é\n'`", None], pa.string()),
                "b": pa.array([True, False, None], pa.bool_()),
                "many": pa.array([[1.5, 2.5], [], None], pa.list_(pa.float64())),
                "vector": pa.array([[1.0, 2.0], [3.0, 4.0], [0.0, 0.0]], pa.list_(pa.float32(), 2)),
            }
        )
        pin = bench.create(data)
        found = bench.again().open(pin).scan().read_all()
        assert found.schema.types == data.schema.types
        assert found.to_pylist() == data.to_pylist()

    def test_a_scan_takes_columns_filter_limit_and_offset(self, bench: Bench) -> None:
        view = bench.again().open(bench.parts((1, 2, 3), (4, 5)))
        assert listed(view.scan(columns=["v"], filter="id > 3").read_all()) == [(40,), (50,)]
        assert listed(view.scan(filter=pc.field("id") == 2).read_all()) == values(2)
        assert view.scan(columns=["id"], limit=2, offset=1).read_all().column(0).to_pylist() == [2, 3]
        assert view.scan(columns=["w", "id"], limit=1).read_all().column_names == ["w", "id"]
        assert [b.num_rows for b in view.scan(batch_size=2).read_all().to_batches() if b.num_rows > 2] == []
        assert (view.count(), view.count("id in (1, 5)"), view.count("w is null")) == (5, 2, 0)
        assert view.scan(limit=0).read_all().num_rows == 0

    def test_conditions_follow_sql(self, bench: Bench) -> None:
        data = [{"id": 1, "v": 5, "w": "a"}, {"id": 2, "v": None, "w": "it's"}, {"id": 3, "v": -1, "w": None}]
        view = bench.again().open(bench.create(data, schema=SCHEMA))
        expected = {
            "v > 0": [1],
            "not v > 0": [3],
            "v > 0 or w = 'it''s'": [1, 2],
            "v is null": [2],
            "v is not null and w is not null": [1],
            "v between -1 and 4": [3],
            "id not in (1, 3)": [2],
            "v = 5 or v = -1": [1, 3],
            "id + 1 = 3": [2],
            "id * 2 - 1 > 3": [3],
            "`id` = 1": [1],
            "id % 2 = 1": [1, 3],
            "(id = 1 or id = 2) and v is null": [2],
            "w like 'it%'": [2],
            "true": [1, 2, 3],
            "false": [],
            "v != 5": [3],
        }
        found = {text: view.scan(columns=["id"], filter=text).read_all().column(0).to_pylist() for text in expected}
        assert found == expected

    def test_has_finds_rows_by_key(self, bench: Bench) -> None:
        view = bench.again().open(bench.parts((1, 2), (3,)))
        asked = pa.table({"id": pa.array([3, 9, 1], pa.int64())})
        assert sorted(view.has(("id",), asked).column(0).to_pylist()) == [1, 3]
        pairs = pa.table({"id": pa.array([1, 2], pa.int64()), "v": pa.array([10, 10], pa.int64())})
        assert view.has(("id", "v"), pairs).to_pylist() == [{"id": 1, "v": 10}]
        assert view.has(("id",), asked.slice(0, 0)).num_rows == 0

    def test_a_view_can_be_read_by_duckdb(self, bench: Bench) -> None:
        import duckdb

        view = bench.again().open(bench.parts((1, 2), (3,)))
        with duckdb.connect() as connection:
            connection.register("t", view.dataset())
            assert connection.sql("select sum(v), count(*) from t where id > 1").fetchall() == [(50, 2)]

    def test_what_is_not_there_has_expired(self, bench: Bench) -> None:
        pin = bench.create()
        for entry in list(bench.store.list(LOCATION)):
            bench.store.delete(entry.key)
        with pytest.raises(SnapshotExpired):
            bench.again().open(pin, "t").scan().read_all()
        with pytest.raises(NotFound):
            bench.again().register("tables/nothing")

    # -- statements -------------------------------------------------------------------------------------------

    def test_statements_see_each_other(self, bench: Bench) -> None:
        work = bench.begin(bench.create(rows(1, 2, 3)))
        assert not work.changed
        assert work.rows.append(rows(4, 5), missing="error") == 2
        assert listed(work.view().scan().read_all()) == values(1, 2, 3, 4, 5)
        assert work.rows.upsert(rows(5, 6, times=100), ("id",)) == (1, 1)
        assert work.rows.update({"v": "v + 1"}, {"w": "u"}, "id in (1, 6)", ("id",)) == 2
        assert work.rows.delete("id = 2 or id = 4") == 2
        assert work.rows.insert(rows(2), ("id",), missing="error") == 1
        expected = sorted([(1, 11, "u"), (2, 20, "a"), (3, 30, "a"), (5, 500, "a"), (6, 601, "u")])
        assert listed(work.view().scan().read_all()) == expected
        assert work.view().count() == 5
        staged = work.stage()
        assert staged.added - staged.removed == 2
        assert bench.content(staged.pin) == expected

    def test_rows_added_and_removed_again_leave_nothing(self, bench: Bench) -> None:
        pin = bench.create(rows(1))
        staged = bench.stage(
            pin, lambda w: w.rows.append(rows(8, 9), missing="error"), lambda w: w.rows.delete("id > 1")
        )
        assert (staged.pin.rows, bench.content(staged.pin)) == (1, values(1))

    def test_a_statement_that_matches_nothing_changes_nothing(self, bench: Bench) -> None:
        work = bench.begin(bench.create(rows(1)))
        assert work.rows.delete("id = 9") == 0
        assert work.rows.update({"v": "0"}, {}, "id = 9", ()) == 0
        assert work.rows.upsert(rows().slice(0, 0), ("id",)) == (0, 0)
        assert work.rows.append(rows(), missing="error") == 0
        assert not work.changed
        assert not work.exclusive

    def test_missing_columns_may_be_filled_with_nulls(self, bench: Bench) -> None:
        pin = bench.change(bench.create(rows(1)), lambda w: w.rows.append([{"id": 2}], missing="null"))
        assert bench.content(pin) == [(1, 10, "a"), (2, None, None)]

    def test_an_upsert_of_some_columns_keeps_the_others(self, bench: Bench) -> None:
        pin = bench.create(rows(1, 2))
        staged = bench.stage(pin, lambda w: w.rows.upsert([{"id": 2, "v": 7}, {"id": 3, "v": 8}], ("id",)))
        assert bench.content(staged.pin) == [(1, 10, "a"), (2, 7, "a"), (3, 8, None)]
        twice = bench.change(pin, lambda w: w.rows.append(rows(2), missing="error"))
        with pytest.raises(KeyConflict):
            bench.begin(twice).rows.upsert([{"id": 2, "v": 7}], ("id",))

    def test_an_upsert_replaces_every_row_of_a_key(self, bench: Bench) -> None:
        pin = bench.parts((1, 2), (2, 3))
        staged = bench.stage(pin, lambda w: w.rows.upsert(rows(2, times=7), ("id",)))
        assert bench.content(staged.pin) == sorted([*values(1, 3), *values(2, times=7)])
        assert staged.pin.rows == 3

    def test_keys_of_several_columns(self, bench: Bench) -> None:
        data = pa.table({"a": ["x", "x", "y"], "b": pa.array([1, 2, 1], pa.int32()), "v": pa.array([1, 2, 3])})
        pin = bench.create(data)
        change = pa.table({"a": ["x", "y"], "b": pa.array([2, 2], pa.int32()), "v": pa.array([20, 40])})
        staged = bench.stage(pin, lambda w: w.rows.upsert(change, ("a", "b")))
        assert bench.content(staged.pin) == [("x", 1, 1), ("x", 2, 20), ("y", 1, 3), ("y", 2, 40)]
        assert [k.columns for k in staged.keys] == [("a", "b")]

    def test_an_update_may_move_keys(self, bench: Bench) -> None:
        pin = bench.change(bench.create(rows(1, 2)), lambda w: w.rows.update({"id": "id + 1"}, {}, None, ("id",)))
        assert bench.content(pin) == [(2, 10, "a"), (3, 20, "a")]

    def test_an_overwrite_replaces_everything(self, bench: Bench) -> None:
        pin = bench.create(rows(1, 2))
        work = bench.begin(pin)
        work.rows.append(rows(3), missing="error")
        assert work.rows.overwrite(rows(7), ("id",), schema="keep") == 1
        assert work.exclusive
        work.rows.append(rows(8), missing="error")
        staged = work.stage()
        assert (bench.content(staged.pin), staged.removed, staged.added) == (values(7, 8), 2, 2)
        other = bench.change(pin, lambda w: w.rows.overwrite(pa.table({"x": [1.5]}), (), schema="replace"))
        assert bench.content(other) == [(1.5,)]
        assert bench.again().open(other).schema.names == ["x"]
        assert bench.content(pin) == values(1, 2)

    def test_columns_come_and_go_by_value(self, bench: Bench) -> None:
        pin = bench.parts((1, 2), (3,))
        pin = bench.change(pin, lambda w: w.rows.delete("id = 2"), lambda w: w.columns.add({"x": "v + id"}))
        assert bench.content(pin) == [(1, 10, "a", 11), (3, 30, "a", 33)]
        pin = bench.change(pin, lambda w: w.columns.drop(["v"]), lambda w: w.columns.rename("x", "v"))
        assert bench.content(pin) == [(1, "a", 11), (3, "a", 33)]
        pin = bench.change(pin, lambda w: w.columns.add(pa.field("n", pa.float64())))
        pin = bench.change(pin, lambda w: w.rows.append([{"id": 4, "w": "b", "v": 1, "n": 0.5}], missing="error"))
        assert bench.content(pin) == [(1, "a", 11, None), (3, "a", 33, None), (4, "b", 1, 0.5)]
        pin = bench.change(pin, lambda w: w.columns.alter("v", type=pa.float64()))
        assert bench.again().open(pin).schema.field("v").type == pa.float64()
        assert bench.again().open(pin).scan(columns=["v"], filter="id = 3").read_all().to_pylist() == [{"v": 33.0}]

    def test_columns_of_a_table_without_rows(self, bench: Bench) -> None:
        pin = bench.create(schema=SCHEMA)
        pin = bench.change(pin, lambda w: w.columns.add({"x": "v + 1"}), lambda w: w.columns.drop(["v"]))
        assert bench.again().open(pin).schema.names == ["id", "w", "x"]
        assert bench.content(pin) == []

    def test_a_required_column(self, bench: Bench) -> None:
        pin = bench.create(rows(1, 2))
        pin = bench.change(pin, lambda w: w.columns.alter("v", nullable=False))
        assert not bench.again().open(pin).schema.field("v").nullable
        with pytest.raises(SchemaMismatch):
            bench.begin(pin).rows.append([{"id": 3, "v": None, "w": "a"}], missing="error")
        with pytest.raises(SchemaMismatch):
            bench.begin(pin).rows.upsert([{"id": 3, "w": "a"}], ("id",))
        work = bench.begin(pin)
        work.rows.append(rows(3), missing="error")
        work.rows.update({}, {"w": None}, "id = 3", ())
        with pytest.raises(SchemaMismatch):
            work.columns.alter("w", nullable=False)

    def test_an_index_is_listed_replaced_and_dropped(self, bench: Bench) -> None:
        pin = bench.create(rows(1, 2, 3))
        spec = IndexSpec("id", "BTREE", "by_id")
        work = bench.begin(pin)
        work.indexes.create(spec, replace=False)
        assert work.changed
        assert not work.exclusive
        with pytest.raises(AlreadyExists):
            work.indexes.create(spec, replace=False)
        indexed = work.stage().pin
        [found] = bench.again().open(indexed).indexes()
        assert (found["name"], found["columns"]) == ("by_id", ["id"])
        assert (found["rows_indexed"], found["rows_unindexed"]) == (3, 0)
        assert bench.content(indexed) == values(1, 2, 3)
        with pytest.raises(AlreadyExists):
            bench.begin(indexed).indexes.create(spec, replace=False)
        again = bench.change(indexed, lambda w: w.indexes.create(spec, replace=True))
        assert len(bench.again().open(again).indexes()) == 1
        dropped = bench.change(indexed, lambda w: w.indexes.drop("by_id"))
        assert bench.again().open(dropped).indexes() == []
        assert bench.again().open(pin).indexes() == []

    @pytest.mark.parametrize("case", REFUSED)
    def test_what_is_refused_leaves_no_trace(self, bench: Bench, case: str) -> None:
        run, error = REFUSED[case]
        work = bench.begin(bench.create(rows(1, 2, 3)))
        with pytest.raises(error) as caught:
            run(work)
        assert type(caught.value) is error
        assert caught.value.next
        assert not work.changed
        assert listed(work.view().scan().read_all()) == values(1, 2, 3)

    # -- staging ----------------------------------------------------------------------------------------------

    def test_staging_is_repeatable_and_follows_later_statements(self, bench: Bench) -> None:
        work = bench.begin(bench.create(rows(1)))
        work.rows.append(rows(2), missing="error")
        first = work.stage()
        assert work.stage() == first
        work.rows.append(rows(3), missing="error")
        second = work.stage()
        assert second.pin.version != first.pin.version
        assert second.pin.counter == first.pin.counter
        assert (bench.content(first.pin), bench.content(second.pin)) == (values(1, 2), values(1, 2, 3))

    def test_a_pin_reads_the_same_for_ever(self, bench: Bench) -> None:
        pin = bench.create(rows(1, 2, 3))
        held = bench.format.open(pin, "t")
        later = bench.change(pin, lambda w: w.rows.delete("id = 1"), lambda w: w.rows.append(rows(4), missing="error"))
        bench.change(pin, lambda w: w.rows.overwrite(rows(9), (), schema="keep"))
        bench.format.promote(later, commit="2.0", table="t")
        bench.change(later, lambda w: w.columns.drop(["v"]))
        assert listed(held.scan().read_all()) == values(1, 2, 3)
        assert bench.content(pin) == values(1, 2, 3)
        assert bench.content(later) == values(2, 3, 4)

    def test_siblings_of_one_base_are_apart(self, bench: Bench) -> None:
        pin = bench.create(rows(1, 2))
        one, two = bench.begin(pin), bench.begin(pin)
        one.rows.delete("id = 1")
        two.rows.append(rows(3), missing="error")
        assert listed(two.view().scan().read_all()) == values(1, 2, 3)
        assert bench.content(one.stage().pin) == values(2)
        assert bench.content(two.stage().pin) == values(1, 2, 3)
        assert bench.content(pin) == values(1, 2)

    def test_statements_since_a_mark_are_taken_back(self, bench: Bench) -> None:
        pin = bench.create(rows(1, 2, 3))
        work = bench.begin(pin)
        start = work.mark()
        work.rows.append(rows(4), missing="error")
        work.rows.delete("id = 1")
        mark = work.mark()
        for _ in range(2):
            work.rows.upsert(rows(2, 4, 5, times=7), ("id",))
            work.rows.upsert(rows(3).select(["id", "v"]), ("id",))
            work.rows.delete("id = 4")
            assert listed(work.view().scan().read_all()) == sorted([*values(3), *values(2, 5, times=7)])
            work.take_back(mark)
            assert listed(work.view().scan().read_all()) == values(2, 3, 4)
        work.rows.upsert(rows(3, 6, times=9), ("id",))
        staged = work.stage()
        assert bench.content(staged.pin) == sorted([*values(2, 4), *values(3, 6, times=9)])
        assert (staged.added, staged.removed) == (3, 2)
        assert work.rows.upserted() == (1, 1)
        work.take_back(start)
        assert not work.changed
        assert listed(work.view().scan().read_all()) == values(1, 2, 3)

    def test_what_was_taken_back_is_not_run_again_on_a_newer_base(self, bench: Bench) -> None:
        pin = bench.create(rows(1, 2, 3))
        newer = bench.change(pin, lambda w: w.rows.append(rows(9), missing="error"))
        work = bench.begin(pin)
        work.rows.append(rows(4), missing="error")
        mark = work.mark()
        work.rows.upsert(rows(1, 5, times=7), ("id",))
        work.take_back(mark)
        work.replay(newer)
        assert bench.content(work.stage().pin) == values(1, 2, 3, 4, 9)

    def test_a_work_knows_its_base(self, bench: Bench) -> None:
        pin = bench.create(rows(1))
        work = bench.begin(pin)
        work.rows.append(rows(2), missing="error")
        assert work.on(pin)
        assert not work.on(work.stage().pin)

    def test_what_was_written_is_named(self, bench: Bench) -> None:
        pin = bench.create(rows(1))
        before = {e.key for e in bench.store.list(LOCATION)}
        work = bench.begin(pin)
        work.rows.append(rows(2), missing="error")
        work.rows.delete("id = 1")
        staged = work.stage()
        location, names = work.written()
        assert location == LOCATION
        new = {e.key.removeprefix(f"{LOCATION}/") for e in bench.store.list(LOCATION) if e.key not in before}
        assert new <= set(names) | {""}
        assert set(staged.files) <= set(names)

    def test_keys_that_were_written_are_summarised(self, bench: Bench) -> None:
        pin = bench.create(rows(1, 2))
        data = rows(2, 3)
        [keys] = bench.stage(pin, lambda w: w.rows.upsert(data, ("id",))).keys
        assert keys == keylib.summarise(("id",), data.select(["id"]))
        assert bench.stage(pin, lambda w: w.rows.append(data, missing="error")).keys == ()
        assert bench.stage(pin, lambda w: w.rows.delete("id = 1")).keys == ()
        [moved] = bench.stage(pin, lambda w: w.rows.update({"id": "id + 7"}, {}, "id = 1", ("id",))).keys
        assert moved == keylib.summarise(("id",), pa.table({"id": pa.array([8], pa.int64())}))
        many = rows(*range(100, 100 + keylib.INLINE + 1))
        [summary] = bench.stage(pin, lambda w: w.rows.insert(many, ("id",), missing="error")).keys
        assert (summary.count, summary.hashes) == (keylib.INLINE + 1, None)
