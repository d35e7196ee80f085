"""Fingerprints of keys are stored, so they are the same for ever, and the same for equal keys."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget import budget

from quire.formats import fingerprints

STORED: list[tuple[pa.Array, list[int]]] = [
    (pa.array([1, 2, 3, None]), [2433363436, 2539140574, 487265508, 3793791033]),
    (pa.array([2**63 + 1], pa.uint64()), [3693737017]),
    (pa.array(["a", "", "bb", "ab", "ba"]), [2161235473, 2802244911, 2108523211, 4125109769, 3053287211]),
    (pa.array([0.0, -0.0, float("nan")]), [3793791033, 3793791033, 3341382104]),
    (pa.array([1.5], pa.float32()), [3604656526]),
    (pa.array([dt.date(2020, 1, 1)]), [2218688302]),
    (pa.array([True, False]), [2433363436, 3793791033]),
    (pa.array([Decimal("1.5")]), [2572991875]),
    (pa.array([b"abcd"], pa.binary(4)), [3848429489]),
    (pa.array([dt.datetime(2020, 1, 1)], pa.timestamp("us")), [95684559]),
]


@pytest.mark.parametrize(("values", "known"), STORED, ids=lambda x: str(getattr(x, "type", "")))
def test_what_was_stored_by_an_earlier_version_still_fits(values: pa.Array, known: list[int]) -> None:
    found = fingerprints.in_order([values])
    assert found is not None
    assert found.tolist() == known


def test_a_composite_key_is_more_than_its_values() -> None:
    a, b = pa.array([1, 2, 1]), pa.array([2, 1, 2])
    one, two, again = fingerprints.in_order([a, b]).tolist()  # type: ignore[union-attr]
    assert one == again != two
    assert fingerprints.in_order([a, b]).tolist() != fingerprints.in_order([b, a]).tolist()  # type: ignore[union-attr]


SAME: list[tuple[pa.DataType, pa.DataType, list[Any]]] = [
    (pa.int8(), pa.int64(), [-3, 0, 100]),
    (pa.float32(), pa.float64(), [-1.5, 0.0, 2.25]),
    (pa.string(), pa.large_string(), ["", "é", "x" * 1000]),
    (pa.binary(), pa.large_binary(), [b"", b"\0", b"\xff" * 9]),
    (pa.string(), pa.dictionary(pa.int32(), pa.string()), ["x", "y", "x"]),
    (pa.binary(3), pa.binary(), [b"abc", b"\0\0\0"]),
]


@pytest.mark.parametrize(("one", "other", "values"), SAME, ids=str)
def test_equal_values_of_kindred_types_share_theirs(one: pa.DataType, other: pa.DataType, values: list[Any]) -> None:
    a, b = (fingerprints.in_order([pa.array(values, kind)]) for kind in (one, other))
    assert a is not None
    assert b is not None
    assert a.tolist() == b.tolist()


@pytest.mark.parametrize("kind", [pa.null(), pa.list_(pa.int8()), pa.month_day_nano_interval()], ids=str)
def test_a_type_that_has_none_says_so(kind: pa.DataType) -> None:
    assert not fingerprints.has_one(kind)
    assert fingerprints.of([pa.array([1]), pa.array([None], kind)]) is None


@settings(max_examples=budget(50, full=1000), deadline=None)
@given(st.lists(st.text(max_size=12)), st.integers(0, 5), st.integers(1, 40))
def test_slices_chunks_and_the_size_of_a_step_change_nothing(values: list[str], cut: int, step: int) -> None:
    whole = fingerprints.in_order([pa.array(values, pa.string())])
    assert whole is not None
    before = fingerprints.AT_ONCE
    fingerprints.AT_ONCE = step
    try:
        chunks = pa.chunked_array([pa.array(values[:cut], pa.string()), pa.array(values[cut:], pa.string())])
        assert fingerprints.in_order([chunks]).tolist() == whole.tolist()  # type: ignore[union-attr]
        part = fingerprints.in_order([pa.array(values, pa.string()).slice(cut)])
        assert part is not None
        assert part.tolist() == whole.tolist()[cut:]
    finally:
        fingerprints.AT_ONCE = before


@settings(max_examples=budget(50, full=1000), deadline=None)
@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)))
def test_sets_share_one_or_not(a: set[int], b: set[int]) -> None:
    x, y = (np.array(sorted(s), np.uint32) for s in (a, b))
    assert fingerprints.may_share(x, y) == bool(a & b) == fingerprints.may_share(y, x)


def test_many_keys_hardly_ever_share_one() -> None:
    texts = fingerprints.of([pa.array([f"node-{n:08d}" for n in range(200_000)])])
    numbers = fingerprints.of([pa.array(range(0, 200_000 << 20, 1 << 20))])
    assert texts is not None
    assert numbers is not None
    assert len(texts) > 199_980
    assert len(numbers) > 199_980
