"""Whatever the user holds becomes Arrow batches that fit the table, or a typed error."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.budget import budget

from quire.conversion.fit import fit
from quire.conversion.inputs import source
from quire.conversion.source import Source
from quire.errors import InvalidInput, QuireError, SchemaMismatch

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
ROWS = [{"id": 1, "name": "Ada"}, {"id": 2, "name": None}]
TABLE = pa.Table.from_pylist(ROWS, schema=SCHEMA)


class OneStream:
    """Something that offers rows as an Arrow stream and nothing else."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


class OneArray:
    """Something that offers one batch through the array interface and nothing else."""

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return TABLE.to_batches()[0].__arrow_c_array__(requested_schema)


class Counted:
    """An iterator that knows how far it was read."""

    def __init__(self, batches: int) -> None:
        self.taken, self._batches = 0, batches

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        if self.taken == self._batches:
            raise StopIteration
        self.taken += 1
        return pa.record_batch({"id": [self.taken], "name": ["x"]}, schema=SCHEMA)


def typed(value: Any) -> str:
    return str(value.type if isinstance(value, pa.Array) else value)


def refused(have: pa.Table, want: pa.DataType) -> SchemaMismatch:
    with pytest.raises(SchemaMismatch) as caught:
        fit(source(have), pa.schema([("v", want)]), table="t").table()
    return caught.value


# -- reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        TABLE,
        TABLE.to_batches()[0],
        TABLE.to_reader(),
        OneStream(TABLE),
        OneArray(),
        ROWS,
        tuple(ROWS),
        {"id": [1, 2], "name": ["Ada", None]},
        {"id": np.array([1, 2]), "name": pa.array(["Ada", None])},
        pd.DataFrame({"id": [1, 2], "name": ["Ada", None]}, index=["p", "q"]),
        pl.DataFrame(ROWS),
        TABLE.to_batches(max_chunksize=1),
        iter(TABLE.to_batches(max_chunksize=1)),
        (batch for batch in TABLE.to_batches(max_chunksize=1)),
        iter([[ROWS[0]], [ROWS[1]]]),
        iter([TABLE.slice(0, 1), pl.DataFrame(ROWS[1:], schema={"id": pl.Int64, "name": pl.String})]),
    ],
    ids=lambda data: type(data).__name__,
)
def test_every_kind_of_input_gives_the_same_rows(data: Any) -> None:
    fitted = fit(source(data, SCHEMA), SCHEMA, table="t")
    assert fitted.schema.equals(SCHEMA)
    assert fitted.table().to_pylist() == ROWS


def test_data_in_memory_can_be_read_again_and_a_stream_cannot() -> None:
    assert source(TABLE).whole
    assert source(ROWS).whole
    assert source(pl.DataFrame(ROWS)).whole
    assert not source(TABLE.to_reader()).whole
    assert not source(iter(TABLE.to_batches())).whole
    again = source(TABLE)
    assert again.table().equals(again.table())


def test_an_iterator_is_read_one_batch_at_a_time() -> None:
    batches = Counted(1000)
    flow = iter(fit(source(batches), SCHEMA, table="t").batches)
    assert batches.taken == 1, "the first batch tells the columns"
    next(flow)
    next(flow)
    assert batches.taken <= 3
    assert sum(b.num_rows for b in flow) == 998


def test_a_duckdb_relation_is_streamed_and_not_held_in_memory() -> None:
    with duckdb.connect() as connection:
        read = source(connection.sql("select range + 1 as id, 'x' as name from range(3)"))
        assert not read.whole
        assert [row["id"] for row in read.table().to_pylist()] == [1, 2, 3]


def test_a_row_that_adds_a_column_late_adds_it_for_all() -> None:
    read = source([{"a": 1}, {"b": "x"}, {"a": 3, "b": "y"}])
    assert read.table().to_pylist() == [{"a": 1, "b": None}, {"a": None, "b": "x"}, {"a": 3, "b": "y"}]


@pytest.mark.parametrize("empty", [[], (), {}, iter([]), iter([[]]), SCHEMA.empty_table(), pa.table(TABLE.slice(2))])
def test_no_rows_fit_every_table(empty: Any) -> None:
    fitted = fit(source(empty, SCHEMA), SCHEMA, table="t")
    assert fitted.table().num_rows == 0
    assert fitted.schema.equals(SCHEMA)


def test_an_empty_chunk_among_others_is_nothing() -> None:
    fitted = fit(source(iter([[], ROWS[:1], [], ROWS[1:]]), SCHEMA), SCHEMA, table="t")
    assert fitted.table().to_pylist() == ROWS


def test_an_empty_iterator_without_a_schema_has_unknown_columns() -> None:
    with pytest.raises(InvalidInput, match="columns are unknown") as caught:
        source(iter([]))
    assert caught.value.kind == "invalid-input"


@pytest.mark.parametrize("data", [5, None, 1.5, object(), "abc", b"abc", pl.Series("a", [1]), pl.LazyFrame({"a": [1]})])
def test_what_holds_no_rows_is_refused_by_type(data: Any) -> None:
    with pytest.raises(InvalidInput, match=type(data).__name__) as caught:
        source(data, SCHEMA)
    assert caught.value.kind == "invalid-input"
    assert caught.value.fields["type"] == type(data).__name__
    assert "list of dicts" in str(caught.value)


def test_an_iterator_of_single_rows_is_told_to_yield_batches() -> None:
    with pytest.raises(InvalidInput, match="not single rows"):
        source(({"id": n, "name": "x"} for n in range(3)), SCHEMA)


@pytest.mark.parametrize(
    "data",
    [
        [{"id": 1, "name": "x"}, {"id": "two", "name": "y"}],
        {"id": [1, "two"], "name": ["x", "y"]},
        {"id": [1, 2], "name": ["x"]},
        {"id": 1, "name": "x"},
        [{"id": 2**70, "name": "x"}],
        pd.DataFrame({"id": [1, "two"], "name": ["x", "y"]}),
        pd.DataFrame([[1, 2]], columns=["id", "id"]),
    ],
)
def test_python_values_that_are_no_table_are_a_schema_mismatch(data: Any) -> None:
    with pytest.raises(SchemaMismatch):
        fit(source(data, SCHEMA), SCHEMA, table="t")


# -- encodings that tables do not store -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("array", "plain"),
    [
        (pa.array(["x", None], pa.string_view()), pa.string()),
        (pa.array([b"x", None], pa.binary_view()), pa.binary()),
        (pa.array(["x", None]).dictionary_encode(), pa.string()),
        (pa.array([["x"], None], pa.list_(pa.string_view())), pa.list_(pa.string())),
        (pa.array([{"a": "x"}, None], pa.struct([("a", pa.string_view())])), pa.struct([("a", pa.string())])),
        (pa.array([["x"], None], pa.list_(pa.dictionary(pa.int8(), pa.string()))), pa.list_(pa.string())),
    ],
    ids=typed,
)
@pytest.mark.parametrize("stream", [False, True])
def test_views_and_dictionaries_become_plain_values(array: pa.Array, plain: pa.DataType, stream: bool) -> None:
    table = pa.table({"v": array})
    read = source(table.to_reader() if stream else table)
    assert read.schema.field("v").type == plain
    assert read.table().to_pylist() == table.to_pylist()


def test_polars_text_categories_and_nested_values_become_plain() -> None:
    frame = pl.DataFrame(
        {
            "text": ["a", None],
            "category": pl.Series(["x", "y"], dtype=pl.Categorical),
            "choice": pl.Series(["x", "y"], dtype=pl.Enum(["x", "y"])),
            "lists": [["p", "q"], []],
            "nested": [{"k": "v"}, {"k": None}],
        }
    )
    read = source(frame)
    views = [f for f in read.schema if "view" in str(f.type) or "dictionary" in str(f.type)]
    assert views == []
    assert read.table().to_pylist() == frame.to_dicts()


def test_pandas_categories_zones_and_index() -> None:
    frame = pd.DataFrame(
        {
            "c": pd.Categorical(["x", "y"]),
            "t": pd.to_datetime(["2020-01-01", "2020-01-02"]).tz_localize("Europe/Berlin"),
        },
        index=["p", "q"],
    )
    table = source(frame).table()
    assert table.schema.names == ["c", "t"]
    assert table["c"].to_pylist() == ["x", "y"]
    assert table["t"].to_pylist() == [t.to_pydatetime() for t in frame["t"]]


def test_schema_metadata_does_not_stand_in_the_way() -> None:
    table = pa.Table.from_pandas(pd.DataFrame({"id": [1], "name": ["x"]})).cast(
        SCHEMA.with_metadata({"pandas": "{}", "other": "y"})
    )
    assert fit(source(table), SCHEMA, table="t").table().to_pylist() == [{"id": 1, "name": "x"}]


# -- fitting ----------------------------------------------------------------------------------------------------------

UTC = dt.UTC


@pytest.mark.parametrize(
    ("have", "want"),
    [
        (pa.array([1, None], pa.int8()), pa.int64()),
        (pa.array([1, None], pa.int64()), pa.int8()),
        (pa.array([1, None], pa.uint64()), pa.int32()),
        (pa.array([1, None], pa.int32()), pa.float64()),
        (pa.array([1, None], pa.int32()), pa.decimal128(12, 2)),
        (pa.array([1.5, None], pa.float32()), pa.float64()),
        (pa.array([Decimal("1.50")], pa.decimal128(5, 2)), pa.decimal128(20, 4)),
        (pa.array(["x"], pa.large_string()), pa.string()),
        (pa.array(["x"], pa.string_view()), pa.large_string()),
        (pa.array([b"xy"], pa.binary(2)), pa.binary()),
        (pa.array([b"xy"], pa.binary()), pa.large_binary()),
        (pa.array([dt.date(2020, 1, 1)], pa.date64()), pa.date32()),
        (
            pa.array([dt.datetime(2020, 1, 1, tzinfo=UTC)], pa.timestamp("ms", "Europe/Berlin")),
            pa.timestamp("us", "UTC"),
        ),
        (pa.array([dt.timedelta(1)], pa.duration("s")), pa.duration("us")),
        (pa.array([dt.time(1, 2)], pa.time32("s")), pa.time64("us")),
        (pa.array([[1.0, 2.0], None], pa.list_(pa.float64())), pa.list_(pa.float32(), 2)),
        (pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2)), pa.large_list(pa.float64())),
        (pa.array([[1], None], pa.list_(pa.int8())), pa.list_(pa.int64())),
        (
            pa.array([{"b": "x", "a": 1}], pa.struct([("b", pa.string()), ("a", pa.int8())])),
            pa.struct([("a", pa.int64()), ("b", pa.large_string())]),
        ),
        (pa.nulls(2), pa.timestamp("us", "UTC")),
        (pa.nulls(2), pa.list_(pa.float32(), 3)),
        (pa.array(["x", "y"]).dictionary_encode(), pa.string()),
    ],
    ids=typed,
)
def test_values_that_mean_the_same_are_converted(have: pa.Array, want: pa.DataType) -> None:
    table = pa.table({"v": have})
    fitted = fit(source(table), pa.schema([("v", want)]), table="t").table()
    assert fitted.schema.field("v").type == want
    assert fitted.to_pylist() == table.to_pylist()


@pytest.mark.parametrize(
    ("have", "want"),
    [
        (pa.array(["1"]), pa.int64()),
        (pa.array([1]), pa.string()),
        (pa.array([True]), pa.int64()),
        (pa.array([1]), pa.bool_()),
        (pa.array([dt.datetime(2020, 1, 1, tzinfo=UTC)]), pa.timestamp("us")),
        (pa.array([dt.datetime(2020, 1, 1, tzinfo=UTC)]), pa.date32()),
        (pa.array([b"x"]), pa.string()),
        (pa.array(["x"]), pa.binary()),
        (pa.array([[1]]), pa.int64()),
        (pa.array([[["x"]]]), pa.list_(pa.list_(pa.int64()))),
        (pa.array([{"a": 1}]), pa.struct([("b", pa.int64())])),
        (pa.array([{"a": 1}]), pa.struct([("a", pa.int64()), pa.field("b", pa.int64(), nullable=False)])),
        (pa.array(["x"]).dictionary_encode(), pa.int64()),
    ],
    ids=typed,
)
def test_values_of_another_meaning_are_refused_before_anything_is_read(have: pa.Array, want: pa.DataType) -> None:
    def never() -> Iterator[pa.RecordBatch]:
        raise AssertionError("the stream was read")
        yield

    table = pa.table({"v": have})
    with pytest.raises(SchemaMismatch) as caught:
        fit(Source(table.schema, never(), whole=False), pa.schema([("v", want)]), table="people")
    error = caught.value
    assert error.kind == "schema-mismatch"
    assert error.fields["table"] == "people"
    assert error.fields["column"] == "v"
    assert error.fields["expected"] == str(want)
    assert "'v'" in error.message
    assert "'people'" in error.message
    assert str(want) in error.message
    assert error.next


@pytest.mark.parametrize(
    ("have", "want"),
    [
        (pa.array([128]), pa.int8()),
        (pa.array([-1]), pa.uint8()),
        (pa.array([2**63], pa.uint64()), pa.int64()),
        (pa.array([2**60 + 1]), pa.float64()),
        (pa.array([1000]), pa.decimal128(2, 0)),
        (pa.array([1], pa.timestamp("ns")), pa.timestamp("us")),
        (pa.array([[1.0]], pa.list_(pa.float32())), pa.list_(pa.float32(), 2)),
        (pa.array([[1.0, 2.0, 3.0]], pa.list_(pa.float32(), 3)), pa.list_(pa.float32(), 2)),
        (pa.array([b"abc"], pa.binary()), pa.binary(2)),
    ],
    ids=typed,
)
def test_a_value_that_would_change_is_refused_and_named(have: pa.Array, want: pa.DataType) -> None:
    error = refused(pa.table({"v": have}), want)
    assert error.fields["column"] == "v"
    assert error.fields["expected"] == str(want)
    assert "'v'" in error.message


@pytest.mark.parametrize(
    "rows", [[{"id": 1.5, "name": "x"}], {"id": [1, 2.5], "name": ["x", "y"]}, iter([[{"id": 0.5}]])]
)
def test_a_python_float_is_never_cut_to_fit_a_whole_number(rows: Any) -> None:
    with pytest.raises(SchemaMismatch):
        fit(source(rows, SCHEMA), SCHEMA, table="t", missing="null").table()


@pytest.mark.parametrize(
    "rows", [[{"id": "x", "name": "y"}], [{"id": 2**70, "name": "y"}], {"id": [b"x"], "name": ["y"]}]
)
def test_wrong_python_values_name_their_column(rows: Any) -> None:
    with pytest.raises(SchemaMismatch, match="'id'") as caught:
        fit(source(rows, SCHEMA), SCHEMA, table="t")
    assert caught.value.fields["column"] == "id"


def test_missing_columns_are_an_error_unless_nulls_are_asked_for() -> None:
    with pytest.raises(SchemaMismatch, match="lacks column 'name'") as caught:
        fit(source([{"id": 1}], SCHEMA), SCHEMA, table="people")
    assert caught.value.fields["missing"] == ["name"]
    assert 'missing="null"' in str(caught.value)
    filled = fit(source([{"id": 1}], SCHEMA), SCHEMA, table="people", missing="null").table()
    assert filled.to_pylist() == [{"id": 1, "name": None}]


def test_a_required_column_cannot_be_left_out() -> None:
    strict = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])
    with pytest.raises(SchemaMismatch, match="lacks column 'id'") as caught:
        fit(source([{"name": "x"}], strict), strict, table="people", missing="null")
    assert caught.value.fields["missing"] == ["id"]
    assert "null" not in (caught.value.next or "")


@pytest.mark.parametrize(
    "data", [[{"id": None}], pa.table({"id": pa.array([1, None])}), iter([[{"id": 1}], [{"id": None}]])]
)
def test_a_null_in_a_required_column_is_found(data: Any) -> None:
    strict = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    with pytest.raises(SchemaMismatch, match="'id' of table 'people' is required") as caught:
        fit(source(data, strict), strict, table="people").table()
    assert caught.value.fields["column"] == "id"


def test_an_unknown_column_is_named_with_the_known_ones() -> None:
    with pytest.raises(SchemaMismatch, match="no column 'nmae'") as caught:
        fit(source(pa.table({"id": [1], "nmae": ["x"]})), SCHEMA, table="people")
    assert caught.value.fields["unexpected"] == ["nmae"]
    assert "'id', 'name'" in str(caught.value)


@pytest.mark.parametrize("late", [[{"id": 1, "name": "x"}, {"id": 2, "name": "y", "extra": 1}]])
def test_an_unknown_column_in_a_later_row_is_not_lost(late: Any) -> None:
    for data in (late, iter([late[:1], late])):
        with pytest.raises(SchemaMismatch, match="extra"):
            fit(source(data, SCHEMA), SCHEMA, table="people").table()


def test_two_columns_of_one_name_are_refused() -> None:
    twice = pa.table([[1], ["x"], ["y"]], names=["id", "name", "name"])
    with pytest.raises(SchemaMismatch, match="two columns of one name") as caught:
        fit(source(twice), SCHEMA, table="people")
    assert caught.value.fields["table"] == "people"


def test_a_subset_of_columns_stays_a_subset_when_it_may() -> None:
    fitted = fit(source([{"name": "x"}], SCHEMA), SCHEMA, table="t", only=True)
    assert fitted.schema.names == ["name"]
    assert fitted.table().to_pylist() == [{"name": "x"}]


def test_columns_come_in_the_order_of_the_table() -> None:
    fitted = fit(source(pa.table({"name": ["x"], "id": [1]})), SCHEMA, table="t")
    assert fitted.table().schema.names == ["id", "name"]


def test_batches_of_one_iterator_must_agree() -> None:
    first, second = pa.record_batch({"id": [1]}), pa.record_batch({"id": ["x"]})
    with pytest.raises(SchemaMismatch, match="'id'"):
        source(iter([first, second])).table()


def test_an_error_of_the_producer_comes_out_as_it_is() -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield TABLE.to_batches()[0]
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        fit(source(broken()), SCHEMA, table="t").table()


# -- laws -------------------------------------------------------------------------------------------------------------

values = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.binary(max_size=3), st.dates()
)
rows_of_anything = st.lists(st.dictionaries(st.sampled_from(["id", "name", "other"]), values, max_size=3), max_size=4)


@settings(deadline=None, max_examples=budget(40, full=300))
@given(rows=rows_of_anything)
@example(rows=[{}])
@example(rows=[{"id": 1.5}])
@example(rows=[{"id": True}])
@example(rows=[{"name": b"bytes"}])
@example(rows=[{"id": 1}, {"id": 2, "other": 3}])
def test_rows_are_kept_exactly_or_refused(rows: list[dict[str, Any]]) -> None:
    """Never a value changed, a row or a column lost, nor an error of another library."""
    try:
        kept = fit(source(rows, SCHEMA), SCHEMA, table="t", missing="null").table().to_pylist()
    except QuireError:
        return
    assert kept == [{"id": row.get("id"), "name": row.get("name")} for row in rows]
    assert all(set(row) <= {"id", "name"} for row in rows)


@settings(deadline=None, max_examples=budget(40, full=200))
@given(
    numbers=st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=5),
    want=st.sampled_from(
        [pa.int8(), pa.uint8(), pa.int32(), pa.uint64(), pa.float32(), pa.float64(), pa.decimal128(38, 0)]
    ),
)
def test_numbers_are_converted_without_change_or_refused(numbers: list[int | None], want: pa.DataType) -> None:
    try:
        fitted = fit(source(pa.table({"v": pa.array(numbers, pa.int64())})), pa.schema([("v", want)]), table="t")
        kept = fitted.table()["v"].to_pylist()
    except SchemaMismatch:
        return
    assert kept == numbers
