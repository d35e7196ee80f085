"""The net effect: what is left of any number of statements, and the one staged version it becomes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance.fragment import FragmentMetadata
from tests.formats.lance.conftest import Tables, rows

from quire.formats.lance.staging.net_change import Net
from quire.formats.lance.staging.stager import in_turn


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 400_000)), max_size=20), st.integers(1, 300_000))
def test_fragments_are_taken_in_turn_by_their_rows(given: list[tuple[int, int]], at_once: int) -> None:
    sizes = dict(given)
    groups = in_turn(sizes, at_once)
    assert [number for group in groups for number in group] == list(sizes)
    assert all(len(group) == 1 or sum(sizes[n] for n in group) <= at_once for group in groups)


def fragment(count: int) -> FragmentMetadata:
    return FragmentMetadata(id=0, files=[], physical_rows=count)


def address(number: int, *offsets: int) -> Any:
    return np.array([(number << 32) | o for o in offsets], np.uint64)


def test_removing_a_row_twice_counts_once() -> None:
    net = Net()
    net.remove(address(0, 1, 2), {}, hard=False)
    net.remove(address(0, 2, 3), {}, hard=True)
    assert net.rows_removed == 3
    assert net.deleted[0].tolist() == [1, 2, 3]
    assert net.hard[0].tolist() == [2, 3]


def test_removing_an_own_row_touches_no_base_fragment() -> None:
    net = Net()
    net.add([fragment(5), fragment(2)])
    net.remove(address(7, 0, 4), {7: 0, 8: 1}, hard=True)
    assert not net.deleted
    assert not net.hard
    assert [a.rows for a in net.added] == [3, 2]
    assert (net.rows_added, net.rows_removed) == (5, 0)


def test_an_empty_effect_is_false_and_stages_nothing(tables: Tables) -> None:
    assert not Net()
    pin = tables.create(rows(1))
    work = tables.begin(pin)
    assert not work.changed
    assert work.draft.stager.apply(work.draft.base, Net()) is work.draft.base


EFFECTS: dict[str, tuple[Any, list[tuple[int, int]], int]] = {
    # statements, content afterwards, staged versions written
    "append": ([lambda w: w.rows.append(rows(4), missing="error")], [(1, 10), (2, 20), (3, 30), (4, 40)], 1),
    "delete": ([lambda w: w.rows.delete("id = 1")], [(2, 20), (3, 30)], 1),
    "delete of everything": ([lambda w: w.rows.delete("true")], [], 1),
    "upsert": ([lambda w: w.rows.upsert(rows(1, 4, times=7), ["id"])], [(1, 7), (2, 20), (3, 30), (4, 28)], 1),
}


@pytest.mark.parametrize("effect", EFFECTS)
def test_one_statement_is_one_staged_version(tables: Tables, effect: str) -> None:
    statements, expected, versions = EFFECTS[effect]
    pin = tables.create(rows(1, 2, 3))
    work = tables.begin(pin)
    for statement in statements:
        statement(work)
    staged = work.stage()
    assert tables.content(staged.pin) == expected
    assert sum(f.startswith("_versions/") for f in staged.files) == versions
    assert work.stage() is staged


def test_many_appends_are_one_staged_version(tables: Tables) -> None:
    pin = tables.create(rows(1))
    work = tables.begin(pin)
    for number in range(2, 12):
        work.rows.append(rows(number), missing="error")
    staged = work.stage()
    assert tables.content(staged.pin) == [(i, 10 * i) for i in sorted(range(1, 12), key=lambda i: repr((i, 10 * i)))]
    assert sum(f.startswith("_versions/") for f in staged.files) == 1


def test_every_file_that_a_staged_version_needs_is_named_for_syncing(tables: Tables) -> None:
    """What is not named is not made durable before publish."""
    pin = tables.create(rows(1, 2, 3))
    before = {p for p in (tables.folder / pin.location).rglob("*") if p.is_file()}
    work = tables.begin(pin)
    work.rows.append(rows(4, 5), missing="error")
    work.rows.delete("id in (1, 5)")
    work.rows.update({"v": "0"}, {}, "id = 2", ())
    staged = work.stage()
    written = {p for p in (tables.folder / pin.location).rglob("*") if p.is_file()} - before
    assert {str(p.relative_to(tables.folder / pin.location)) for p in written} <= set(staged.files)
    assert all((tables.folder / pin.location / name).exists() for name in staged.files)


def test_staging_moves_no_plain_head_and_leaves_older_pins_as_they_were(tables: Tables) -> None:
    first = tables.create(rows(1, 2, 3))
    second = tables.change(first, lambda w: w.rows.delete("id = 1"))
    third = tables.append(second, 4)
    assert tables.head(first).version == 1
    assert tables.content(first) == [(1, 10), (2, 20), (3, 30)]
    assert tables.content(second) == [(2, 20), (3, 30)]
    assert tables.content(third) == [(2, 20), (3, 30), (4, 40)]
    assert third.bytes > second.bytes == first.bytes
