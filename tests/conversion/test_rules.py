"""One rule set for values that go into a column: lossless or a typed error, whatever they come in."""

from __future__ import annotations

import datetime as dt
import io
import math
import re
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.rowfiles.reading import read_files

from quire.conversion.fit import fit
from quire.conversion.inputs import source
from quire.conversion.rules import RULES, kind_of, verdict
from quire.errors import SchemaMismatch
from quire.rowfiles import write as writers

UTC = dt.UTC
NOON = dt.datetime(2020, 1, 1, 12)
DAY = dt.date(2020, 1, 1)
MIDNIGHT = dt.datetime(2020, 1, 1)


def array(values: list[Any], kind: pa.DataType) -> pa.Array:
    return pa.array(values, kind)


def vector(size: int) -> pa.DataType:
    return pa.list_(pa.float32(), size)


# One line for each rule: values and the column they fit, and values of the same kind that it cannot hold.
CASES: dict[tuple[str, str], tuple[pa.Array, pa.DataType, list[Any], pa.Array | None]] = {
    ("null", "any type"): (pa.nulls(2), pa.timestamp("us", "UTC"), [None, None], None),
    ("boolean", "boolean"): (array([True, None], pa.bool_()), pa.bool_(), [True, None], None),
    ("integer", "integer"): (
        array([1, None, 127], pa.int64()), pa.int8(), [1, None, 127], array([1, None, 128], pa.int64())
    ),
    ("integer", "float"): (
        array([2**24, None], pa.int64()), pa.float32(), [2.0**24, None], array([1, 2**24 + 1], pa.int64())
    ),
    ("integer", "decimal"): (
        array([999, None], pa.int64()), pa.decimal128(5, 2), [Decimal("999.00"), None], array([999, 1000], pa.int64())
    ),
    ("float", "float"): (
        array([0.1, None], pa.float64()), pa.float32(), [float(np.float32(0.1)), None],
        array([0.1, 1e300], pa.float64()),
    ),
    ("float", "integer"): (array([1.0, None], pa.float64()), pa.int64(), [1, None], array([1.0, 1.5], pa.float64())),
    ("float", "decimal"): (
        array([0.1, None], pa.float64()), pa.decimal128(5, 2), [Decimal("0.10"), None],
        array([0.1, 1.239], pa.float64()),
    ),
    ("decimal", "decimal"): (
        array([Decimal("1.50"), None], pa.decimal128(9, 2)), pa.decimal128(3, 1), [Decimal("1.5"), None],
        array([Decimal("1.50"), Decimal("1.25")], pa.decimal128(9, 2)),
    ),
    ("decimal", "integer"): (
        array([Decimal("2.0"), None], pa.decimal128(9, 1)), pa.int64(), [2, None],
        array([Decimal("2.0"), Decimal("2.5")], pa.decimal128(9, 1)),
    ),
    ("decimal", "float"): (
        array([Decimal("0.1"), None], pa.decimal256(50, 1)), pa.float32(), [float(np.float32(0.1)), None],
        array([Decimal("0.1"), Decimal(10) ** 40], pa.decimal256(50, 1)),
    ),
    ("text", "text"): (array(["a", None], pa.string()), pa.large_string(), ["a", None], None),
    ("binary", "binary"): (
        array([b"ab", None], pa.binary()), pa.binary(2), [b"ab", None], array([b"ab", b"abc"], pa.binary())
    ),
    ("date", "date"): (array([DAY, None], pa.date32()), pa.date64(), [DAY, None], None),
    ("date", "timestamp"): (
        array([DAY, None], pa.date32()), pa.timestamp("ns"), [MIDNIGHT, None],
        array([DAY, dt.date(3000, 1, 1)], pa.date32()),
    ),
    ("date", "timestamp with zone"): (
        array([DAY, None], pa.date32()), pa.timestamp("ns", "UTC"), [MIDNIGHT.replace(tzinfo=UTC), None],
        array([DAY, dt.date(3000, 1, 1)], pa.date32()),
    ),
    ("time", "time"): (
        array([dt.time(1, 2, 3), None], pa.time64("us")), pa.time32("s"), [dt.time(1, 2, 3), None],
        array([dt.time(1), dt.time(1, 2, 3, 4)], pa.time64("us")),
    ),
    ("timestamp", "timestamp"): (
        array([NOON, None], pa.timestamp("us")), pa.timestamp("s"), [NOON, None],
        array([NOON, NOON.replace(microsecond=1)], pa.timestamp("us")),
    ),
    ("timestamp", "timestamp with zone"): (
        array([NOON, None], pa.timestamp("us")), pa.timestamp("s", "UTC"), [NOON.replace(tzinfo=UTC), None],
        array([NOON, NOON.replace(microsecond=1)], pa.timestamp("us")),
    ),
    ("timestamp", "date"): (
        array([MIDNIGHT, None], pa.timestamp("us")), pa.date32(), [DAY, None],
        array([MIDNIGHT, NOON], pa.timestamp("us")),
    ),
    ("timestamp with zone", "timestamp with zone"): (
        array([NOON, None], pa.timestamp("us", "Europe/Berlin")), pa.timestamp("s", "UTC"),
        [NOON.replace(tzinfo=UTC), None],
        array([NOON, NOON.replace(microsecond=1)], pa.timestamp("us", "Europe/Berlin")),
    ),
    ("duration", "duration"): (
        array([dt.timedelta(1), None], pa.duration("us")), pa.duration("s"), [dt.timedelta(1), None],
        array([dt.timedelta(1), dt.timedelta(microseconds=1)], pa.duration("us")),
    ),
    ("list", "list"): (
        array([[1.0, 0.5], None], pa.list_(pa.float64())), vector(2), [[1.0, 0.5], None],
        array([[1.0, 0.5], [1.0]], pa.list_(pa.float64())),
    ),
    ("struct", "struct"): (
        array([{"a": 1}, None], pa.struct([("a", pa.int64())])), pa.struct([("b", pa.string()), ("a", pa.int8())]),
        [{"b": None, "a": 1}, None], array([{"a": 1}, {"a": 300}], pa.struct([("a", pa.int64())])),
    ),
    ("map", "map"): (
        array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())), pa.map_(pa.string(), pa.int8()),
        [[("k", 1)], None],
        array([[("k", 1)], [("k", 300)]], pa.map_(pa.string(), pa.int64())),
    ),
    ("uuid", "uuid"): (
        array([uuid.UUID(int=5), None], pa.uuid()), pa.uuid(), [uuid.UUID(int=5), None], None
    ),
}  # fmt: skip
NEVER: list[tuple[pa.Array, pa.DataType]] = [
    (array(["1"], pa.string()), pa.int64()),
    (array([1], pa.int64()), pa.string()),
    (array([True], pa.bool_()), pa.int64()),
    (array([1], pa.int64()), pa.bool_()),
    (array([1], pa.int64()), pa.timestamp("us")),
    (array([b"x"], pa.binary()), pa.string()),
    (array(["x"], pa.string()), pa.binary()),
    (array(["2020-01-01"], pa.string()), pa.date32()),
    (array([NOON], pa.timestamp("us", "UTC")), pa.timestamp("us")),
    (array([MIDNIGHT], pa.timestamp("us", "UTC")), pa.date32()),
    (array([[1]], pa.list_(pa.int64())), pa.int64()),
    (array([1], pa.int64()), pa.list_(pa.int64())),
    (array([{"a": 1, "z": 2}], pa.struct([("a", pa.int64()), ("z", pa.int64())])), pa.struct([("a", pa.int64())])),
    (array([[{"z": 2}]], pa.list_(pa.struct([("z", pa.int64())]))), pa.list_(pa.struct([("a", pa.int64())]))),
    (array([{}], pa.struct([])), pa.struct([pa.field("a", pa.int64(), nullable=False)])),
    (array([dt.timedelta(1)], pa.duration("us")), pa.time64("us")),
]


# -- every input ------------------------------------------------------------------------------------------------------


class Stream:
    """Rows as an Arrow stream and nothing else."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


def from_file(kind: writers.FileKind, folder: Path, table: pa.Table, want: pa.Schema) -> Any:
    path = folder / f"rows.{kind}"
    sink = io.BytesIO()
    with writers.opened(sink, table.schema, kind) as put:
        put(table)
    path.write_bytes(sink.getvalue())
    return (batch.select(["v"]) for batch in read_files([str(path)], None, want))


def sliced(table: pa.Table) -> pa.Table:
    """The same rows as a slice from the middle."""
    return pa.concat_tables([table, table]).combine_chunks().slice(table.num_rows, table.num_rows)


INPUTS: dict[str, Callable[[Path, pa.Table, pa.Schema], Any]] = {
    "Arrow table": lambda _, t, want: t,
    "slice": lambda _, t, want: sliced(t),
    "reader": lambda _, t, want: t.to_reader(),
    "C stream": lambda _, t, want: Stream(t),
    "iterator of batches": lambda _, t, want: iter(t.to_batches(max_chunksize=1)),
    "dictionary": lambda _, t, want: pa.table({"v": t["v"].combine_chunks().dictionary_encode()}),
    "run lengths": lambda _, t, want: pa.table({"v": runs(t["v"].combine_chunks())}),
    "list of dicts": lambda _, t, want: t.to_pylist(),
    "iterator of lists": lambda _, t, want: iter([[row] for row in t.to_pylist()]),
    "dict of columns": lambda _, t, want: {"v": t["v"].to_pylist()},
    "pandas": lambda _, t, want: t.to_pandas(types_mapper=pd.ArrowDtype),
    "pandas objects": lambda _, t, want: pd.DataFrame({"v": pd.Series(t["v"].to_pylist(), dtype=object)}),
    "polars": lambda _, t, want: pl.DataFrame(pl.from_arrow(t)),
    "DuckDB": lambda _, t, want: duckdb.connect().from_arrow(t),
    "Parquet": lambda p, t, want: from_file("parquet", p, t, want),
    "Arrow file": lambda p, t, want: from_file("arrow", p, t, want),
    "JSON lines": lambda p, t, want: from_file("jsonl", p, t, want),
    # With a column beside it: a line that is empty is no row of CSV.
    "CSV": lambda p, t, want: from_file("csv", p, t.append_column("n", pa.array(range(len(t)))), want),
}
FILES_OF_TEXT = ("JSON lines", "CSV")
CANNOT: dict[str, set[str]] = {
    # Types that an input has not, so that values of the kind never come in it.
    "dictionary": {"null", "boolean", "list", "struct", "map", "uuid"},
    "run lengths": {"list", "struct", "map", "uuid", "null"},
    "pandas": {"uuid"},
    "polars": {"map", "uuid", "decimal"},
    "DuckDB": {"uuid", "decimal", "duration"},
    "Parquet": {"uuid"},
    "JSON lines": {"map", "uuid", "null"},
    "CSV": {"map", "uuid", "null"},
}


def runs(values: pa.Array) -> pa.Array:
    """The values as runs of one."""
    return pa.RunEndEncodedArray.from_arrays(pa.array(range(1, len(values) + 1), pa.int32()), values)


def stored(name: str, folder: Path, values: pa.Array, want: pa.DataType) -> list[Any]:
    schema = pa.schema([("v", want)])
    data = INPUTS[name](folder, pa.table({"v": values}), schema)
    found = fit(source(data, schema, table="t"), schema, table="t").table()
    assert found.schema.equals(schema)
    found.validate(full=True)
    return list(found["v"].to_pylist())


def pairs(wrong: bool) -> Iterator[Any]:
    for (have, to), (good, want, _, bad) in CASES.items():
        for name in INPUTS:
            if have in CANNOT.get(name, ()) or (wrong and bad is None):
                continue
            if name == "JSON lines" and have == "decimal" != kind_of(want):
                continue  # decimals are text in JSON, which is a decimal only where the column says so
            yield pytest.param(name, (have, to), id=f"{name}: {have} -> {to}")
            assert have == "null" or kind_of(good.type) == have


@pytest.mark.parametrize(("name", "pair"), pairs(wrong=False))
def test_values_that_fit_are_stored_as_they_are(tmp_path: Path, name: str, pair: tuple[str, str]) -> None:
    good, want, expected, _ = CASES[pair]
    assert stored(name, tmp_path, good, want) == expected


@pytest.mark.parametrize(("name", "pair"), pairs(wrong=True))
def test_a_value_that_would_change_is_named_with_column_row_and_value(
    tmp_path: Path, name: str, pair: tuple[str, str]
) -> None:
    _, want, _, bad = CASES[pair]
    assert bad is not None
    with pytest.raises(SchemaMismatch) as caught:
        stored(name, tmp_path, bad, want)
    error = caught.value
    assert error.fields["column"] == "v"
    assert "'v'" in error.message
    assert str(want) in error.message
    assert error.fields["value"]
    assert error.next
    last = len(bad) - 1
    if name == "JSON lines":
        assert f"rows.jsonl, line {last + 1}:" in error.message
    elif name in ("CSV", "Parquet", "Arrow file"):
        assert (f"line {last + 2}" if name == "CSV" else f"row {last + 1}") in error.message
        assert str(tmp_path) in error.message
    else:
        assert error.fields["row"] == last
        assert f"row {last} (counted from 0)" in error.message


@pytest.mark.parametrize("name", [n for n in INPUTS if n not in FILES_OF_TEXT])
@pytest.mark.parametrize(("values", "want"), NEVER, ids=[f"{v.type}-{w}" for v, w in NEVER])
def test_values_of_another_meaning_are_refused_by_every_input(
    tmp_path: Path, name: str, values: pa.Array, want: pa.DataType
) -> None:
    assert verdict(values.type, want) == "never"
    if kind_of(values.type) in CANNOT.get(name, ()) or (values.type == pa.struct([]) and name not in _EMPTY_STRUCTS):
        pytest.skip("the input has no such values")
    with pytest.raises(SchemaMismatch) as caught:
        stored(name, tmp_path, values, want)
    assert caught.value.fields["column"] == "v"
    assert "one type" not in (caught.value.next or "")


_EMPTY_STRUCTS = ("Arrow table", "slice", "reader", "C stream", "list of dicts", "dict of columns")


@pytest.mark.parametrize("name", FILES_OF_TEXT)
@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("2020-01-01T12:00:00Z", pa.timestamp("us")),
        ("2020-01-01T12:00:00", pa.date32()),
        ("2020-01-01T12:00:00.5", pa.timestamp("s")),
        ("1e300", pa.float32()),
        ("12:00:00.5", pa.time32("s")),
        ("1.239", pa.decimal128(5, 2)),
    ],
)
def test_text_of_files_that_means_more_than_the_column_holds_is_refused(
    tmp_path: Path, name: str, text: str, want: pa.DataType
) -> None:
    number = pa.types.is_floating(want) or pa.types.is_decimal(want)
    body = f"v\n{text}\n" if name == "CSV" else f'{{"v": {text if number else repr(text).replace(chr(39), chr(34))}}}\n'
    path = tmp_path / ("rows.csv" if name == "CSV" else "rows.jsonl")
    path.write_text(body)
    with pytest.raises(SchemaMismatch, match=f"{path.name}, line (2|1): Column 'v'"):
        read_files([str(path)], None, pa.schema([("v", want)])).read_all()


def test_every_rule_has_a_case_and_the_guide_shows_exactly_the_rules() -> None:
    assert set(CASES) == set(RULES)
    guide = (Path(__file__).parents[2] / "docs/guides/types.md").read_text()
    shown = re.findall(r"^\| (\S.*?) \| (\S.*?) \| (always|if it fits) \| (.*?) \|$", guide, re.MULTILINE)
    assert shown == [(have, want, says, when) for (have, want), (says, when) in RULES.items()]


# -- decisions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in INPUTS if n not in ("pandas", "pandas objects", "dictionary")])
def test_a_scalar_float_keeps_nan_and_infinities(tmp_path: Path, name: str) -> None:
    given = array([math.nan, math.inf, -math.inf, 0.5], pa.float64())
    for want in (pa.float64(), pa.float32()):
        nan, *others = stored(name, tmp_path, given, want)
        assert math.isnan(nan)
        assert others == [math.inf, -math.inf, 0.5]


def test_what_pandas_calls_missing_is_null() -> None:
    frame = pd.DataFrame(
        {
            "whole": [1.0, np.nan],
            "day": pd.to_datetime(["2020-01-01", None]),
            "any": pd.Series([pd.NA, 5], dtype=object),
            "text": pd.Series([np.nan, "x"], dtype=object),
            "kind": pd.Categorical(["a", None]),
        }
    )
    schema = pa.schema(
        [("whole", pa.int64()), ("day", pa.date32()), ("any", pa.int8()), ("text", pa.string()), ("kind", pa.string())]
    )
    assert fit(source(frame, schema), schema, table="t").table().to_pylist() == [
        {"whole": 1, "day": DAY, "any": None, "text": None, "kind": "a"},
        {"whole": None, "day": None, "any": 5, "text": "x", "kind": None},
    ]


@pytest.mark.parametrize(
    ("values", "want", "expected"),
    [
        ([np.int8(1), 2, None], pa.int64(), [1, 2, None]),
        ([np.float32(0.5), 1], pa.float64(), [0.5, 1.0]),
        ([Decimal("1.5"), 2, 0.5], pa.decimal128(5, 2), [Decimal("1.50"), Decimal("2.00"), Decimal("0.50")]),
        ([DAY, NOON], pa.timestamp("us"), [MIDNIGHT, NOON]),
        ([NOON, NOON.replace(tzinfo=UTC)], pa.timestamp("us", "UTC"), [NOON.replace(tzinfo=UTC)] * 2),
        ([pd.Timestamp(NOON), pd.NaT, np.datetime64("2020-01-01")], pa.timestamp("us"), [NOON, None, MIDNIGHT]),
        ([2**70, 1], pa.decimal128(38, 0), [Decimal(2**70), Decimal(1)]),
        ([2**70, 0.5], pa.float64(), [2.0**70, 0.5]),
        ([{"k": 1}, None], pa.map_(pa.string(), pa.int8()), [[("k", 1)], None]),
        ([np.array([1, 2]), [3, 4]], pa.list_(pa.int64()), [[1, 2], [3, 4]]),
    ],
)
def test_python_values_of_several_types_meet_in_the_column(
    values: list[Any], want: pa.DataType, expected: list[Any]
) -> None:
    schema = pa.schema([("v", want)])
    assert fit(source([{"v": v} for v in values], schema), schema, table="t").table()["v"].to_pylist() == expected


@pytest.mark.parametrize(
    ("values", "row"),
    [
        ([DAY, NOON], 1),
        ([NOON.replace(tzinfo=UTC), None, NOON], 2),
        (["a", b"b"], 1),
        ([1, 2, True], 2),
        ([0.5, Decimal(1)], 1),
        ([dt.time(1), dt.time(1, tzinfo=UTC)], 1),
        ([1, 10**80], 1),
        ([1, 1j], 1),
        ([[1], 2], 1),
        ([{"a": 1}, {"a": "x"}], 1),
        ([Decimal("NaN")], 0),
        (["\ud800"], 0),
    ],
)
def test_python_values_without_a_type_in_common_are_named(values: list[Any], row: int) -> None:
    with pytest.raises(SchemaMismatch) as caught:
        source([{"v": v} for v in values])
    assert caught.value.fields["column"] == "v"
    assert caught.value.fields["row"] == row


@pytest.mark.parametrize(
    ("values", "want", "advice"),
    [
        ([1, 2**70], pa.int64(), "wider"),
        (["2020-01-01"], pa.date32(), "fromisoformat"),
        ([[0.5], [0.5, 1.0]], vector(2), "2 values"),
        ([NOON.replace(tzinfo=UTC)], pa.timestamp("us"), "zone"),
        (["1"], pa.int64(), "Convert the text"),
    ],
)
def test_the_advice_fits_what_is_wrong(values: list[Any], want: pa.DataType, advice: str) -> None:
    schema = pa.schema([("v", want)])
    with pytest.raises(SchemaMismatch) as caught:
        source([{"v": v} for v in values], schema, table="t")
    assert advice in (caught.value.next or "")
    assert "'v'" in caught.value.message


@pytest.mark.parametrize("data", [[[1, 2], [3, 4]], [1, 2], ["a"], np.ones((2, 3)), [[[1]]], [(1, "a")]])
def test_bare_rows_are_told_to_have_names(data: Any) -> None:
    with pytest.raises(Exception, match="dict") as caught:
        source(data)
    assert type(caught.value).__name__ == "InvalidInput"
    assert '{"id": 1}' in (caught.value.next or "")  # type: ignore[attr-defined]


def test_rows_of_later_batches_are_counted_on() -> None:
    schema = pa.schema([("v", pa.int8())])
    chunks: list[Any] = [[{"v": 1}] * 3, pa.table({"v": [1, 2]}), [{"v": 1}, {"v": 300}]]
    for data in (iter(chunks), iter([chunks[1], *chunks])):
        expected = 6 if data.__length_hint__() == 3 else 8  # type: ignore[attr-defined]
        with pytest.raises(SchemaMismatch) as caught:
            fit(source(data, schema, table="t"), schema, table="t").table()
        assert caught.value.fields["row"] == expected


def test_parquet_that_another_program_wrote_follows_the_rules(tmp_path: Path) -> None:
    pq.write_table(pa.table({"v": pa.array([1.0, None, 2.5])}), tmp_path / "a.parquet")
    with pytest.raises(SchemaMismatch, match=r"a\.parquet, row 3: Column 'v' is int64 and has the value 2\.5"):
        read_files([str(tmp_path / "a.parquet")], None, pa.schema([("v", pa.int64())])).read_all()
