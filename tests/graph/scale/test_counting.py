"""How many rows have these values: the same answer by filter, by join and by counting one by one."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quire
from quire.formats import View
from quire.graph.catalog import Definition, Property, Range
from quire.graph.integrity import lookups
from quire.graph.integrity.changes import stricter_rows, stricter_together
from quire.graph.integrity.held_rows import Held
from quire.graph.integrity.lookups import Places, distinct, matches
from quire.graph.types import Type

Row = tuple[str, int]
KINDS = [Type("String"), Type("I64")]
ROWS = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 3)), max_size=12)


def table(rows: list[Any]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [(), ()]
    return pa.table({"a": pa.array(columns[0], pa.string()), "b": pa.array(columns[1], pa.int64())})


@pytest.fixture(scope="module")
def lake() -> Iterator[quire.Lake]:
    with quire.create(f"memory://{uuid.uuid4()}") as made:
        made.create_table("t", table([("a", 1)]))
        yield made


def view_of(lake: quire.Lake, rows: list[Row]) -> View:
    with lake.transaction() as tx:
        tx["t"].overwrite(table(rows))
    return lake.snapshot()["t"]._view()


@pytest.fixture(params=["filter", "join"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "join":
        monkeypatch.setattr(lookups, "CHUNK", 0)
        monkeypatch.setattr(lookups, "FEW", 0)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("columns", [("a",), ("b",), ("a", "b"), ("b", "a")], ids=", ".join)
def test_what_is_held_is_the_base_without_what_is_gone_and_with_what_came(
    lake: quire.Lake, columns: tuple[str, ...]
) -> None:
    kinds = [KINDS["ab".index(c)] for c in columns]

    @settings(max_examples=15, deadline=None)
    @given(base=ROWS, keep=st.integers(0, 12), came=ROWS, asked=ROWS, enough=st.none() | st.integers(1, 3))
    def check(base: list[Row], keep: int, came: list[Row], asked: list[Row], enough: int | None) -> None:
        gone, left = base[keep:], base[:keep]
        held = Held(view_of(lake, base), table(came), table(gone))
        wanted = distinct(table(asked), columns)
        now = Counter(tuple(row[c] for c in columns) for row in table(left + came).to_pylist())
        true = [now[tuple(row.values())] for row in wanted.to_pylist()]
        found = held.counts(columns, kinds, wanted, enough).tolist()
        if enough is None:
            assert found == true
        assert [min(n, enough or n) for n in found] == [min(n, enough or n) for n in true]
        twice = held.repeated(columns, kinds, table(came)).to_pylist()
        mine = {tuple(row[c] for c in columns) for row in table(came).to_pylist()}
        assert sorted(tuple(row.values()) for row in twice) == sorted(k for k in mine if now[k] > 1)

    check()


@pytest.mark.usefixtures("way")
def test_matches_are_rows_with_their_positions(lake: quire.Lake) -> None:
    view = view_of(lake, [("a", 1), ("b", 2), ("a", 1), ("c", 3)])
    found = matches(view, ["a"], KINDS[:1], table([("c", 0), ("a", 0), ("x", 0)]).select(["a"]), ["b"])
    assert sorted((r["position"], r["b"]) for r in found.to_pylist()) == [(0, 3), (1, 1), (1, 1)]
    assert matches(view, ["a"], KINDS[:1], table([]).select(["a"]), ["b"]).num_rows == 0


def test_places_know_nulls_minus_zero_and_tuples() -> None:
    wanted = pa.table({"x": [0.0, 1.5], "y": ["p", "q"]})
    rows = [pa.array([-0.0, 1.5, 1.5, None, 2.0]), pa.array(["p", "q", "p", "q", None])]
    assert Places(wanted).of(rows).tolist() == [0, 1, -1, -1, -1]
    both = pa.table({"x": [0.0, -0.0, 1.0], "y": ["a", "a", "b"]})
    assert Places(both).of([pa.array([1.0, -0.0]), pa.array(["b", "a"])]).tolist() == [2, 0]
    assert Places(both.select(["x"])).of([pa.array([1.0, -0.0, None])]).tolist() == [2, 0, -1]


def test_values_that_are_null_are_equal_to_nothing() -> None:
    rows = pa.table({"x": ["a", None, "a"], "y": [1, 1, None]})
    assert distinct(rows, ["x", "y"]).to_pylist() == [{"x": "a", "y": 1}]


def defined(**about: Any) -> Definition:
    kind = about.pop("type", Type("I32", optional=True))
    return Definition(
        format=1, kind="edge", properties=(Property(id=1, name=about.pop("name", "n"), type=kind),), **about
    )


@pytest.mark.parametrize(
    ("before", "now", "rows", "together"),
    [
        ({}, {}, False, False),
        ({}, {"name": "m"}, False, False),
        ({"type": Type("I32")}, {}, False, False),
        ({}, {"type": Type("I32")}, True, False),
        ({"type": Type("enum", values=("a",))}, {"type": Type("enum", values=("a", "b"))}, False, False),
        ({"type": Type("enum", values=("a", "b"))}, {"type": Type("enum", values=("a",))}, True, False),
        ({"ranges": (Range("n", 0, 9),)}, {"ranges": (Range("n", 0, 10),)}, False, False),
        ({"ranges": (Range("n", 0, 9),)}, {"ranges": (Range("n", None, 9),)}, False, False),
        ({"ranges": (Range("n", None, 9),)}, {"ranges": (Range("n", 0, 9),)}, True, False),
        ({"ranges": (Range("n", 0, 9),)}, {"name": "m", "ranges": (Range("m", 0, 9),)}, False, False),
        ({"at_most": 2}, {"at_most": 3}, False, False),
        ({"at_most": 2}, {}, False, False),
        ({}, {"at_most": 3}, False, True),
        ({"at_least": 2}, {"at_least": 1}, False, False),
        ({"at_least": 1}, {"at_least": 2}, False, True),
        ({"unique": (("src",),)}, {"unique": (("src", "dst"),)}, False, False),
        ({"unique": (("src", "dst"),)}, {"unique": (("src",),)}, False, True),
        ({"source": "a"}, {"source": "b"}, False, True),
    ],
)
def test_a_rule_that_is_relaxed_is_no_reason_to_look_at_old_rows(
    before: dict[str, Any], now: dict[str, Any], rows: bool, together: bool
) -> None:
    old, new = defined(**before), defined(**now)
    assert (stricter_rows(new, old), stricter_together(new, old)) == (rows, together)
