"""Keys: equal values hash alike, different ones are never taken for equal, duplicates are found."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quire.errors import ColumnNotFound, DuplicateKeys, InvalidInput
from quire.formats.keys import INLINE, canonical, check_columns, check_distinct, disjoint, hashes, show, summarise


def table(values: list[Any], kind: pa.DataType | None = None) -> pa.Table:
    return pa.table({"id": pa.array(values, kind)})


def hashed(keys: pa.Table, *columns: str) -> list[bytes]:
    return list(hashes(columns or ("id",), keys))


@pytest.mark.parametrize("kind", [pa.int8(), pa.int64(), pa.uint16(), pa.float32(), pa.float64()])
def test_a_number_has_one_hash_whatever_its_width(kind: pa.DataType) -> None:
    assert hashed(table([7], kind)) == hashed(table([7], pa.int32()))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_text_has_one_hash_whatever_its_encoding(kind: pa.DataType) -> None:
    assert hashed(table(["Ada"], kind)) == hashed(table(["Ada"]))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_an_instant_has_one_hash_whatever_its_unit(unit: str) -> None:
    noon = dt.datetime(2020, 1, 1, 12, tzinfo=dt.UTC)
    assert hashed(table([noon], pa.timestamp(unit, "UTC"))) == hashed(table([noon], pa.timestamp("us", "UTC")))


@pytest.mark.parametrize(
    "values",
    [
        [1, "1", b"1", True, dt.date(1, 1, 1), None],
        [0, False, "", b"", None, "None"],
        [1.5, "1.5"],
        ["2020-01-01", dt.date(2020, 1, 1)],
        [uuid.UUID(int=1), str(uuid.UUID(int=1))],
    ],
)
def test_values_of_different_types_are_different_keys(values: list[Any]) -> None:
    assert len({canonical(value) for value in values}) == len(values)


def test_composite_keys_do_not_run_together() -> None:
    keys = pa.table({"a": ["x", "xy", ""], "b": ["yz", "z", "xyz"]})
    assert len(set(hashed(keys, "a", "b"))) == 3


scalars = st.integers(-(2**63), 2**63 - 1)


@settings(deadline=None)
@given(mine=st.sets(scalars, max_size=30), theirs=st.sets(scalars, max_size=30))
def test_disjoint_is_true_only_for_sets_without_a_common_key(mine: set[int], theirs: set[int]) -> None:
    a = summarise(["id"], table(sorted(mine), pa.int64()))
    b = summarise(["id"], table(sorted(theirs), pa.int64()))
    assert disjoint(a, [b]) is (None if mine & theirs else True)


@settings(deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_and_the_equal_whole_number_are_one_key(value: float) -> None:
    if value.is_integer():
        assert canonical(value) == canonical(int(value))
    else:
        assert canonical(value)[0] == b"f"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_odd_floats_have_a_hash(value: float) -> None:
    assert canonical(value) == canonical(value)


def test_negative_zero_is_zero() -> None:
    assert canonical(-0.0) == canonical(0.0) == canonical(0)


def test_many_keys_are_counted_but_not_listed_and_then_nothing_is_certain() -> None:
    few, many = summarise(["id"], table(list(range(INLINE)))), summarise(["id"], table(list(range(INLINE + 1))))
    other = summarise(["id"], table([-1]))
    assert (few.count, few.hashes is None) == (INLINE, False)
    assert (many.count, many.hashes) == (INLINE + 1, None)
    assert disjoint(other, [few]) is True
    assert disjoint(other, [many]) is None
    assert disjoint(many, [other]) is None


def test_keys_of_other_columns_cannot_be_compared() -> None:
    a = summarise(["id"], table([1]))
    b = summarise(["nr"], pa.table({"nr": [2]}))
    assert disjoint(a, [b]) is None


def test_no_rival_keys_are_disjoint() -> None:
    assert disjoint(summarise(["id"], table([1])), []) is True


def test_an_unknown_key_column_is_named_with_the_known_ones() -> None:
    with pytest.raises(ColumnNotFound, match="no column 'idd'") as caught:
        check_columns(["idd"], pa.schema([("id", pa.int64()), ("v", pa.int64())]), "people")
    assert caught.value.fields == {"table": "people", "column": "idd"}
    assert "id, v" in str(caught.value)


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.list_(pa.float32(), 2)])
def test_a_nested_column_cannot_be_a_key(kind: pa.DataType) -> None:
    with pytest.raises(InvalidInput, match="'tags'") as caught:
        check_columns(["tags"], pa.schema([("tags", kind)]), "people")
    assert caught.value.fields["column"] == "tags"


def test_distinct_keys_pass() -> None:
    check_distinct(pa.table({"a": [1, 1], "b": ["x", "y"]}), ["a", "b"], "t")
    check_distinct(table([], pa.int64()), ["id"], "t")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2, 1], pa.int64()),
        (["x", "x"], pa.string()),
        ([b"\xff", b"\xff"], pa.binary()),
        ([dt.date(2020, 1, 1)] * 2, pa.date32()),
        ([Decimal("1.5")] * 2, pa.decimal128(5, 2)),
        ([float("nan")] * 2, pa.float64()),
        ([True, True], pa.bool_()),
    ],
    ids=str,
)
def test_a_key_that_occurs_twice_is_named(values: list[Any], kind: pa.DataType) -> None:
    with pytest.raises(DuplicateKeys, match="same key more than once: id=") as caught:
        check_distinct(table(values, kind), ["id"], "people")
    assert caught.value.kind == "duplicate-keys"
    assert caught.value.fields["table"] == "people"
    assert len(caught.value.fields["keys"]) == 1


def test_a_composite_key_that_occurs_twice_is_named_in_full() -> None:
    with pytest.raises(DuplicateKeys, match=r"\(a=1, b='x'\)") as caught:
        check_distinct(pa.table({"a": [1, 1, 2], "b": ["x", "x", "x"]}), ["a", "b"], "people")
    assert caught.value.fields["keys"] == [{"a": 1, "b": "x"}]


def test_a_null_key_is_refused() -> None:
    with pytest.raises(DuplicateKeys, match="null in key column 'id'") as caught:
        check_distinct(table([1, None]), ["id"], "people")
    assert caught.value.fields == {"table": "people", "column": "id"}


def test_only_a_few_keys_are_shown() -> None:
    assert show([{"id": 1}]) == "id=1"
    assert show([{"a": 1, "b": "x"}]) == "(a=1, b='x')"
    assert show([{"id": n} for n in range(9)]) == "id=0, id=1, id=2, id=3, id=4, …"
