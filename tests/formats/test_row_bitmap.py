"""Rows of fragments in few bytes: the same sets as plain ones, whatever they are kept as."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from quire.formats.row_bitmap import Marks, by_fragment, merged, packed, unpacked

NUMBERS = st.one_of(
    st.sets(st.integers(0, 2**32 - 1), max_size=20),  # few, far apart
    st.sets(st.integers(0, 300), max_size=300),  # many, close together
)
TABLE = st.dictionaries(st.integers(0, 2**32 - 1), NUMBERS, max_size=4)


@given(NUMBERS)
def test_a_set_of_rows_is_that_set(numbers: set[int]) -> None:
    marks = Marks.of(numbers)
    assert marks.tolist() == sorted(numbers)
    assert len(marks) == len(numbers)
    assert np.isin(np.array(sorted(numbers), np.uint64), marks).all()


@given(NUMBERS, NUMBERS)
def test_a_union_is_a_union(a: set[int], b: set[int]) -> None:
    first = Marks.of(a)
    both = first | Marks.of(b)
    assert both == Marks.of(a | b)
    assert len(both) == len(a | b)
    assert first.tolist() == sorted(a)


@given(TABLE)
def test_rows_travel_as_bytes(table: dict[int, set[int]]) -> None:
    rows = {fragment: Marks.of(numbers) for fragment, numbers in table.items()}
    assert unpacked(packed(rows)) == rows


@given(st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)), max_size=30))
def test_addresses_are_told_by_fragment(pairs: list[tuple[int, int]]) -> None:
    found = by_fragment(np.array([(f << 32) | o for f, o in pairs], np.uint64))
    assert {(f, o) for f, marks in found.items() for o in marks.tolist()} == set(pairs)
    assert sum(len(marks) for marks in found.values()) == len(set(pairs))


@given(TABLE, TABLE)
def test_what_several_tell_is_merged(a: dict[int, set[int]], b: dict[int, set[int]]) -> None:
    found = merged({f: Marks.of(n) for f, n in one.items()} for one in (a, b))
    assert {f: set(m.tolist()) for f, m in found.items()} == {f: a.get(f, set()) | b.get(f, set()) for f in {*a, *b}}


def test_many_rows_take_a_bit_each() -> None:
    everything = Marks.of(np.arange(1_000_000))
    assert everything.nbytes == 125_000
    assert len(packed({3: everything})) < 2_000
    assert Marks.of(np.arange(0, 1_000_000, 1000)).nbytes == 4_000
