"""Schema changes, checked by values: a column whose field id went astray returns another column's data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from tests.formats.lance.conftest import Tables

from quire.errors import ColumnNotFound, InvalidExpression, InvalidInput, InvalidName, SchemaMismatch
from quire.ledger import Pin


def wide(*ids: int) -> pa.Table:
    """Three value columns, each with its own range."""
    return pa.table(
        {"id": list(ids), "a": [10 * i for i in ids], "b": [100 * i for i in ids], "c": [f"c{i}" for i in ids]}
    )


def values(tables: Tables, pin: Pin) -> dict[str, list[Any]]:
    """Columns by name, rows in the order of `id`."""
    found = tables.format.open(pin).scan().read_all().sort_by("id")
    assert found.num_rows == pin.rows
    return {name: found.column(name).to_pylist() for name in found.schema.names}


@pytest.fixture(params=["fresh", "two fragments", "after deletes", "sparse field ids", "staged on staged"])
def pin(request: pytest.FixtureRequest, tables: Tables) -> Pin:
    """A table with rows 1 to 4 and columns id, a, b, c, that came to be in different ways."""
    if request.param == "sparse field ids":
        first = tables.create(wide(1, 2, 3, 4).append_column("gone", [[0] * 4]))
        moved = tables.change(first, lambda w: w.columns.drop(["gone"]))
        return tables.change(moved, lambda w: w.columns.drop(["a"]), lambda w: w.columns.add({"a": "b / 10"}))
    if request.param == "two fragments":
        return tables.change(tables.create(wide(1, 2)), lambda w: w.rows.append(wide(3, 4), missing="error"))
    if request.param == "after deletes":
        return tables.change(tables.create(wide(1, 2, 3, 4, 5)), lambda w: w.rows.delete("id = 5"))
    if request.param == "staged on staged":
        first = tables.create(wide(1))
        for number in (2, 3, 4):
            first = tables.change(first, lambda w, n=number: w.rows.append(wide(n), missing="error"))
        return first
    return tables.create(wide(1, 2, 3, 4))


A, B, C = [10, 20, 30, 40], [100, 200, 300, 400], ["c1", "c2", "c3", "c4"]
CHANGES: dict[str, tuple[Callable[[Any], Any], dict[str, list[Any]]]] = {
    "drop first": (lambda w: w.columns.drop(["a"]), {"b": B, "c": C}),
    "drop middle": (lambda w: w.columns.drop(["b"]), {"a": A, "c": C}),
    "drop two": (lambda w: w.columns.drop(["a", "c"]), {"b": B}),
    "rename": (lambda w: w.columns.rename("a", "z"), {"z": A, "b": B, "c": C}),
    "add by expression": (lambda w: w.columns.add({"s": "a + b"}), {"a": A, "b": B, "c": C, "s": [110, 220, 330, 440]}),
    "add nulls by field": (
        lambda w: w.columns.add(pa.field("n", pa.string())),
        {"a": A, "b": B, "c": C, "n": [None] * 4},
    ),
    "add nulls and expression": (
        lambda w: w.columns.add({"n": pa.int8(), "s": "a * 2"}),
        {"a": A, "b": B, "c": C, "n": [None] * 4, "s": [20, 40, 60, 80]},
    ),
    "retype": (
        lambda w: w.columns.alter("a", type=pa.float64()),
        {"a": [10.0, 20.0, 30.0, 40.0], "b": B, "c": C},
    ),
    "retype to text": (
        lambda w: w.columns.alter("b", type=pa.string()),
        {"a": A, "b": ["100", "200", "300", "400"], "c": C},
    ),
    "swap names": (
        lambda w: (w.columns.rename("a", "t"), w.columns.rename("b", "a"), w.columns.rename("t", "b")),
        {"a": B, "b": A, "c": C},
    ),
    "drop and add under the same name": (
        lambda w: (w.columns.drop(["a"]), w.columns.add({"a": "b + 1"})),
        {"a": [101, 201, 301, 401], "b": B, "c": C},
    ),
    "not null": (lambda w: w.columns.alter("a", nullable=False), {"a": A, "b": B, "c": C}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_other_column_keeps_its_values(tables: Tables, pin: Pin, change: str) -> None:
    statement, expected = CHANGES[change]
    assert values(tables, pin) == {"id": [1, 2, 3, 4], "a": A, "b": B, "c": C}
    after = tables.change(pin, statement)
    assert values(tables, after) == {"id": [1, 2, 3, 4], **expected}
    assert values(tables, pin) == {"id": [1, 2, 3, 4], "a": A, "b": B, "c": C}
    # Writing goes on with the new shape, and plain readers see the same after backfill.
    row = {n: v[0] for n, v in values(tables, after).items()}
    more = tables.change(after, lambda w: w.rows.append([{**row, "id": 9}], missing="error"))
    assert {n: v[-1] for n, v in values(tables, more).items()} == {**row, "id": 9}
    tables.format.promote(more, commit="9.0", table="t")
    plain = tables.head(more).to_table().sort_by("id")
    assert {n: plain.column(n).to_pylist() for n in plain.schema.names} == values(tables, more)


@pytest.mark.parametrize("change", CHANGES)
def test_an_empty_table_changes_shape_too(tables: Tables, change: str) -> None:
    statement, expected = CHANGES[change]
    pin = tables.create(schema=wide(1).schema)
    after = tables.change(pin, statement)
    assert set(tables.format.open(after).schema.names) == {"id", *expected}
    assert values(tables, after) == {n: [] for n in ("id", *expected)}


def test_nullability_is_changed_and_checked(tables: Tables) -> None:
    pin = tables.create(wide(1))
    strict = tables.change(pin, lambda w: w.columns.alter("a", nullable=False))
    assert not tables.format.open(strict).schema.field("a").nullable
    with pytest.raises(SchemaMismatch, match="'a'"):
        tables.change(strict, lambda w: w.rows.append([{"id": 2, "a": None, "b": 1, "c": ""}], missing="error"))
    holes = tables.change(pin, lambda w: w.rows.update({}, {"a": None}, "id = 1", ()))
    with pytest.raises(SchemaMismatch, match="nulls"):
        tables.change(holes, lambda w: w.columns.alter("a", nullable=False))


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        (lambda w: w.columns.drop(["nope"]), ColumnNotFound),
        (lambda w: w.columns.drop(["id", "a", "b", "c"]), InvalidInput),
        (lambda w: w.columns.rename("nope", "x"), ColumnNotFound),
        (lambda w: w.columns.rename("a", "b"), InvalidName),
        (lambda w: w.columns.rename("a", "_rowid"), InvalidName),
        (lambda w: w.columns.add({"a": "1"}), InvalidName),
        (lambda w: w.columns.add({"x": "nope + 1"}), InvalidExpression),
        (lambda w: w.columns.add({}), InvalidInput),
        (lambda w: w.columns.add(pa.field("x", pa.int64(), nullable=False)), SchemaMismatch),
        (lambda w: w.columns.alter("c", type=pa.int64()), SchemaMismatch),
        (lambda w: w.columns.alter("a"), InvalidInput),
    ],
)
def test_a_change_that_cannot_be_leaves_the_work_as_it_was(
    tables: Tables, statement: Callable[[Any], Any], error: type[Exception]
) -> None:
    pin = tables.create(wide(1, 2))
    work = tables.begin(pin)
    work.rows.append(wide(3), missing="error")
    with pytest.raises(error):
        statement(work)
    assert values(tables, work.stage().pin)["c"] == ["c1", "c2", "c3"]


def test_rows_written_before_the_change_in_one_transaction_change_too(tables: Tables) -> None:
    pin = tables.create(wide(1))
    after = tables.change(
        pin,
        lambda w: w.rows.append(wide(2, 3), missing="error"),
        lambda w: w.rows.delete("id = 2"),
        lambda w: w.columns.drop(["b"]),
        lambda w: w.rows.update({"a": "a + 1"}, {}, "id = 3", ()),
        lambda w: w.columns.add({"d": "a * 2"}),
    )
    assert values(tables, after) == {"id": [1, 3], "a": [10, 31], "c": ["c1", "c3"], "d": [20, 62]}


@pytest.mark.parametrize("number", ["'nan'::float", "'-inf'::float", "null::float", "b::float / 0"])
def test_an_expression_gives_no_vectors_that_nothing_is_near_to(tables: Tables, number: str) -> None:
    pin = tables.create(wide(1, 2, 3, 4))
    for value in (f"array_value({number}, 1::float)", f"case when id = 4 then array_value({number}, 1::float) end"):
        with pytest.raises(SchemaMismatch, match="new column 'w'") as caught:
            tables.change(pin, lambda w, value=value: w.columns.add({"w": value}))
        assert caught.value.column == "w"
    vector = pa.scalar([float("nan"), 1.0], pa.list_(pa.float32(), 2))
    with pytest.raises(SchemaMismatch):
        tables.change(pin, lambda w: w.columns.add({"w": vector}))
    changed = tables.change(pin, lambda w: w.columns.add({"w": "case when id = 4 then array_value(b::float, 1) end"}))
    assert values(tables, changed)["w"] == [None, None, None, [400.0, 1.0]]
