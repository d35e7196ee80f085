"""JSON values as Arrow columns, and back."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from quire.cli.output import to_json
from quire.errors import SchemaMismatch
from quire.rowfiles import json_values, write

ROUND_TRIPS: list[tuple[pa.DataType, Any]] = [
    (pa.int64(), 2**62 + 1),
    (pa.uint8(), 255),
    (pa.float64(), 0.1),
    (pa.bool_(), True),
    (pa.string(), 'a "quoted", ünïcode\nline'),
    (pa.large_string(), "x"),
    (pa.binary(), b"\x00\xff"),
    (pa.binary(2), b"ab"),
    (pa.date32(), date(2026, 11, 1)),
    (pa.time64("us"), time(1, 2, 3, 4)),
    (pa.timestamp("us"), datetime(2026, 11, 1, 12, 30, 0, 1)),
    (pa.timestamp("ms", "UTC"), datetime(2026, 11, 1, 12, 30, tzinfo=UTC)),
    (pa.duration("us"), timedelta(days=1, microseconds=5)),
    (pa.decimal128(20, 4), Decimal("1234567890.1234")),
    (pa.decimal128(38, 0), Decimal(2**100)),
    (pa.list_(pa.int64()), [1, None, 3]),
    (pa.list_(pa.float32(), 2), [1.0, 2.0]),
    (pa.list_(pa.date32()), [date(2026, 1, 1)]),
    (pa.struct([("a", pa.int64()), ("b", pa.binary())]), {"a": 1, "b": b"\x01"}),
    (pa.list_(pa.struct([("at", pa.timestamp("us"))])), [{"at": datetime(2026, 1, 1)}, None]),
]


@pytest.mark.parametrize(("kind", "value"), ROUND_TRIPS, ids=[str(kind) for kind, _ in ROUND_TRIPS])
def test_a_value_survives_json(kind: pa.DataType, value: Any) -> None:
    batch = pa.record_batch([pa.array([value, None], kind)], names=["c"])

    written = [to_json(row) for row in json_values.rows(batch)]
    back = json_values.column([msgspec.json.decode(text)["c"] for text in written], kind, "c")

    assert back.type == kind
    assert back.equals(batch.column(0))


def test_nanoseconds_survive_json() -> None:
    array = pa.array([1_700_000_000_000_000_001, None], pa.timestamp("ns"))
    [first, second] = json_values.rows(pa.record_batch([array], names=["at"]))

    assert json_values.column([first["at"], second["at"]], pa.timestamp("ns"), "at").equals(array)


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.float16(), None], ids=str)
def test_floats_that_json_has_no_form_for_are_named_and_read_back(kind: pa.DataType | None) -> None:
    values = [math.nan, math.inf, -math.inf, 1.0, None]
    batch = pa.record_batch([pa.array(values, kind)], names=["x"])
    written = [to_json(row) for row in json_values.rows(batch)]
    assert written[:4] == [b'{"x":"NaN"}', b'{"x":"Infinity"}', b'{"x":"-Infinity"}', b'{"x":1.0}']
    back = json_values.column([msgspec.json.decode(text)["x"] for text in written], kind, "x")
    assert back.type == batch.schema.field("x").type
    assert math.isnan(back[0].as_py())
    assert back[1:].to_pylist() == values[1:]


def test_floats_that_json_has_no_form_for_are_named_in_lists_and_structs_too() -> None:
    kind = pa.list_(pa.struct([("x", pa.float64())]))
    batch = pa.record_batch([pa.array([[{"x": math.inf}, {"x": 1.0}], None], kind)], names=["v"])
    [first, second] = [to_json(row) for row in json_values.rows(batch)]
    assert first == b'{"v":[{"x":"Infinity"},{"x":1.0}]}'
    back = json_values.column([msgspec.json.decode(text)["v"] for text in (first, second)], kind, "v")
    assert back.equals(batch.column(0))


def test_lists_of_floats_without_a_type_are_read_back_too() -> None:
    assert json_values.column([[1.0, "Infinity"], ["-Infinity"]], None, "v").to_pylist() == [
        [1.0, math.inf],
        [-math.inf],
    ]


def test_text_that_is_called_like_a_float_stays_text_without_numbers_beside_it() -> None:
    assert json_values.column(["NaN", "Infinity"], None, "x").to_pylist() == ["NaN", "Infinity"]
    assert json_values.column(["NaN"], pa.string(), "x").to_pylist() == ["NaN"]
    with pytest.raises(SchemaMismatch, match="'x'"):
        json_values.column([1.0, "NaN", "other"], None, "x")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int64(), 1.5),
        (pa.int64(), True),
        (pa.int64(), "one"),
        (pa.int8(), 300),
        (pa.int64(), 2**63),
        (pa.float64(), True),
        (pa.string(), 1),
        (pa.list_(pa.int64()), [1.5]),
        (pa.list_(pa.string()), "abc"),
        (pa.list_(pa.float32(), 3), [1, 2]),
        (pa.struct([("a", pa.int64())]), {"a": 1, "z": 2}),
        (pa.struct([("a", pa.int64())]), [1]),
        (pa.timestamp("us"), "yesterday"),
        (pa.timestamp("us"), "2026-01-01T00:00:00Z"),
        (pa.timestamp("s"), "2026-01-01T00:00:00.5"),
        (pa.float32(), 1e300),
        (pa.float64(), "1.5 m"),
        (pa.date32(), "2026-13-01"),
        (pa.binary(), "not base64!"),
        (pa.decimal128(5, 2), "x"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_not_changed(kind: pa.DataType, value: Any) -> None:
    with pytest.raises(SchemaMismatch, match="'c'"):
        json_values.column([None, value], kind, "c")


def test_a_time_without_a_zone_is_utc_where_the_column_has_one() -> None:
    found = json_values.column(["2026-01-01T00:00:00", "2026-01-01T01:00:00+01:00"], pa.timestamp("us", "UTC"), "c")
    assert found.to_pylist() == [datetime(2026, 1, 1, tzinfo=UTC)] * 2


def test_a_whole_float_is_an_integer() -> None:
    assert json_values.column([1.0, 2], pa.int64(), "c").to_pylist() == [1, 2]


def test_columns_of_one_name_are_told_apart() -> None:
    assert write.distinct(["a", "b", "a", "a_1", "a"]) == ["a", "b", "a_2", "a_1", "a_3"]
    assert write.distinct(["a", "b"]) == ["a", "b"]
