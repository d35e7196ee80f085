"""JSON values as Arrow columns, and back."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from quire.cli import jsonrows
from quire.cli.output import to_json
from quire.errors import SchemaMismatch

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

    written = [to_json(row) for row in jsonrows.rows(batch)]
    back = jsonrows.column([msgspec.json.decode(text)["c"] for text in written], kind, "c")

    assert back.type == kind
    assert back.equals(batch.column(0))


def test_nanoseconds_survive_json() -> None:
    array = pa.array([1_700_000_000_000_000_001, None], pa.timestamp("ns"))
    [first, second] = jsonrows.rows(pa.record_batch([array], names=["at"]))

    assert jsonrows.column([first["at"], second["at"]], pa.timestamp("ns"), "at").equals(array)


def test_what_json_cannot_say_is_null() -> None:
    batch = pa.record_batch([pa.array([math.nan, math.inf, 1.0])], names=["x"])
    assert [to_json(row) for row in jsonrows.rows(batch)] == [b'{"x":null}', b'{"x":null}', b'{"x":1.0}']


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int64(), 1.5),
        (pa.int64(), True),
        (pa.int64(), "1"),
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
        (pa.timestamp("us", "UTC"), "2026-01-01T00:00:00"),
        (pa.date32(), "2026-13-01"),
        (pa.binary(), "not base64!"),
        (pa.decimal128(5, 2), "x"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_not_changed(kind: pa.DataType, value: Any) -> None:
    with pytest.raises(SchemaMismatch, match="'c'"):
        jsonrows.column([None, value], kind, "c")


def test_a_whole_float_is_an_integer() -> None:
    assert jsonrows.column([1.0, 2], pa.int64(), "c").to_pylist() == [1, 2]


def test_columns_of_one_name_are_told_apart() -> None:
    assert jsonrows.distinct(["a", "b", "a", "a_1", "a"]) == ["a", "b", "a_2", "a_1", "a_3"]
    assert jsonrows.distinct(["a", "b"]) == ["a", "b"]
