"""Hashes of rows prove that rows differ; only rows that share one are looked at."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from quire.errors import DuplicateKeys
from quire.formats import keys
from quire.formats.row_hashes import hashed, suspects

VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [1, 1, 2]),
    (pa.uint64(), [2**64 - 1, 2**64 - 1, 1]),
    (pa.float16(), np.array([0.5, 0.5, 1], np.float16)),
    (pa.float64(), [0.0, -0.0, 1.0]),
    (pa.string(), ["ä", "ä", "a"]),
    (pa.large_string(), ["ä", "ä", "a"]),
    (pa.string_view(), ["ä", "ä", "a"]),
    (pa.dictionary(pa.int8(), pa.string()), ["a", "a", "b"]),
    (pa.binary(), [b"\0", b"\0", b""]),
    (pa.binary(2), [b"ab", b"ab", b"ba"]),
    (pa.bool_(), [True, True, False]),
    (pa.date32(), [dt.date(2026, 1, 1), dt.date(2026, 1, 1), dt.date(1, 1, 1)]),
    (pa.timestamp("ns"), [1, 1, 2]),
    (pa.timestamp("us", "UTC"), [1, 1, 2]),
    (pa.time64("ns"), [1_000, 1_000, 2_000]),
    (pa.duration("ns"), [1, 1, 2]),
    (pa.decimal128(38, 2), [Decimal("1.10"), Decimal("1.10"), Decimal("1.11")]),
    (pa.decimal256(60, 2), [Decimal("1.10"), Decimal("1.10"), Decimal("1.11")]),
]


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=[str(kind) for kind, _ in VALUES])
def test_what_is_alike_has_the_same_hash(kind: pa.DataType, values: list[Any]) -> None:
    one, same, other = hashed(pa.table({"n": [7, 7, 7], "v": pa.array(values, kind)}), ["n", "v"])
    assert one == same != other


@pytest.mark.parametrize("twice", [[], [(3, 4_000)], [(0, 1), (0, 2), (5_998, 5_999)]])
@pytest.mark.parametrize("columns", [["a"], ["a", "b"]])
def test_suspects_are_the_rows_that_are_there_twice(
    monkeypatch: pytest.MonkeyPatch, twice: list[tuple[int, int]], columns: list[str]
) -> None:
    monkeypatch.setattr("quire.formats.row_hashes.WORTH", 1_000)
    numbers = np.arange(6_000)
    for one, other in twice:
        numbers[other] = numbers[one]
    rows = pa.table({"a": numbers, "b": [f"row {n}" for n in numbers], "at": np.arange(6_000)})

    found = suspects(rows, columns)

    assert found.column("at").to_pylist() == sorted({place for pair in twice for place in pair})
    assert found.schema == rows.schema
    assert keys.are_distinct(rows, columns) == (not twice)
    if twice:
        with pytest.raises(DuplicateKeys) as caught:
            keys.check_distinct(rows, columns, "t")
        assert {row["a"] for row in caught.value.fields["keys"]} == {one for one, _ in twice}


def test_a_chance_meeting_of_hashes_is_no_duplicate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quire.formats.row_hashes.WORTH", 1_000)
    monkeypatch.setattr("quire.formats.row_hashes.hashed", lambda rows, columns: np.zeros(rows.num_rows, np.uint64))
    rows = pa.table({"a": np.arange(6_000)})
    assert suspects(rows, ["a"]).num_rows == 6_000
    assert keys.are_distinct(rows, ["a"])


def test_values_that_cannot_be_hashed_are_compared_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quire.formats.row_hashes.WORTH", 2)
    far = pa.table({"at": pa.array([2**50, 2**50 + 1, 2**50], pa.timestamp("s", "UTC"))})
    assert suspects(far, ["at"]).num_rows == 3
    assert not keys.are_distinct(far, ["at"])
    assert keys.are_distinct(far.slice(0, 2), ["at"])


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_zero_is_zero_whatever_its_sign(kind: pa.DataType) -> None:
    rows = pa.table({"a": pa.array(np.array([0.0, -0.0, 1.0], np.float16)).cast(kind)})
    assert not keys.are_distinct(rows, ["a"])
    assert keys.are_distinct(rows.slice(1), ["a"])
