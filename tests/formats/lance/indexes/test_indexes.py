"""Indexes are staged with the rows they cover; whatever happens to the rows, an answer equals a scan."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from tests.formats.lance.conftest import Tables, rows

from quire.errors import AlreadyExists, ColumnNotFound, InvalidInput, NotFound
from quire.formats import IndexSpec
from quire.ledger import Pin


def want(column: str, kind: str, name: str = "ix", *, replace: bool = False, **options: Any) -> Any:
    return lambda w: w.indexes.create(IndexSpec(column, kind, name, options), replace=replace)


def indexed(tables: Tables, pin: Pin) -> dict[str, int]:
    return {ix["name"]: ix["rows_indexed"] for ix in tables.format.open(pin).indexes()}


def answers(tables: Tables, pin: Pin, condition: str) -> list[int]:
    handle = tables.handle(pin)
    assert "ScalarIndexQuery" in handle.scanner(filter=condition).explain_plan()
    with_index = sorted(handle.to_table(filter=condition)["id"].to_pylist())
    scanned = sorted(handle.scanner(filter=condition, use_scalar_index=False).to_table()["id"].to_pylist())
    assert with_index == scanned
    return with_index


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "btree"])
def test_a_scalar_index_follows_every_kind_of_change(tables: Tables, kind: str) -> None:
    pin = tables.change(tables.create(rows(*range(20))), want("id", kind))
    assert indexed(tables, pin) == {"ix": 20}
    assert answers(tables, pin, "id in (3, 30)") == [3]
    pin = tables.append(pin, 30, 31)
    assert answers(tables, pin, "id in (3, 30)") == [3, 30]
    pin = tables.change(pin, lambda w: w.rows.delete("id = 3"))
    assert answers(tables, pin, "id in (3, 30)") == [30]
    pin = tables.change(pin, lambda w: w.rows.upsert(rows(3, 4, times=7), ["id"]))
    assert answers(tables, pin, "id in (3, 4, 30)") == [3, 4, 30]
    pin = tables.change(pin, lambda w: w.rows.update({"id": "id + 100"}, {}, "id = 5", ()))
    assert answers(tables, pin, "id in (5, 105)") == [105]
    pin = tables.change(pin, want("id", kind, replace=True))
    assert indexed(tables, pin) == {"ix": pin.rows}
    assert answers(tables, pin, "id in (3, 5, 105, 31)") == [3, 31, 105]


def test_a_text_index_finds_words_of_indexed_and_later_rows(tables: Tables) -> None:
    data = pa.table({"id": [1, 2, 3], "text": ["red fox", "blue fox", "green hen"]})
    pin = tables.change(tables.create(data), want("text", "INVERTED"))
    pin = tables.change(
        pin,
        lambda w: w.rows.append([{"id": 4, "text": "late fox"}], missing="error"),
        lambda w: w.rows.delete("id = 1"),
    )
    found = tables.handle(pin).to_table(full_text_query="fox")
    assert sorted(found["id"].to_pylist()) == [2, 4]


def test_a_vector_index_finds_the_nearest_of_indexed_and_later_rows(tables: Tables) -> None:
    draw = random.Random(0)
    points = [[draw.random() for _ in range(8)] for _ in range(300)]
    schema = pa.schema([("id", pa.int64()), ("vector", pa.list_(pa.float32(), 8))])
    data = pa.Table.from_pylist([{"id": i, "vector": p} for i, p in enumerate(points)], schema=schema)
    pin = tables.change(tables.create(data), want("vector", "IVF_FLAT", num_partitions=2))
    far = [5.0] * 8
    pin = tables.change(
        pin, lambda w: w.rows.append([{"id": 900, "vector": far}], missing="error"), lambda w: w.rows.delete("id = 7")
    )

    def nearest(point: list[float]) -> list[int]:
        query = {"column": "vector", "q": point, "k": 1, "nprobes": 2}
        return list(tables.handle(pin).to_table(nearest=query)["id"].to_pylist())

    assert nearest(far) == [900]
    assert nearest(points[42]) == [42]
    assert nearest(points[7]) != [7]


def test_an_index_wanted_before_the_rows_covers_them_all_the_same(tables: Tables) -> None:
    pin = tables.change(
        tables.create(rows(1)),
        want("id", "BTREE"),
        lambda w: w.rows.append(rows(2, 3), missing="error"),
        lambda w: w.rows.delete("id = 2"),
    )
    assert indexed(tables, pin) == {"ix": 2}
    assert answers(tables, pin, "id in (1, 2, 3)") == [1, 3]


def test_dropping_an_index_leaves_the_rows_and_the_other_indexes(tables: Tables) -> None:
    pin = tables.change(tables.create(rows(1, 2)), want("id", "BTREE", "a"), want("v", "BTREE", "b"))
    pin = tables.change(pin, lambda w: w.indexes.drop("a"))
    assert indexed(tables, pin) == {"b": 2}
    assert tables.content(pin) == [(1, 10), (2, 20)]
    pin = tables.change(pin, lambda w: w.indexes.drop("b"), want("id", "BTREE", "b"))
    assert answers(tables, pin, "id = 2") == [2]


def test_overwrite_leaves_no_index_that_answers_for_old_rows(tables: Tables) -> None:
    pin = tables.change(tables.create(rows(1, 2)), want("id", "BTREE"))
    pin = tables.change(pin, lambda w: w.rows.overwrite(rows(2, 3, times=7), (), schema="keep"))
    found = tables.handle(pin).to_table(filter="id in (1, 2, 3)").to_pylist()
    assert found == [{"id": 2, "v": 14}, {"id": 3, "v": 21}]


def test_an_index_on_a_renamed_or_dropped_column(tables: Tables) -> None:
    pin = tables.change(tables.create(rows(*range(9))), want("v", "BTREE", "a"), want("id", "BTREE", "b"))
    renamed = tables.change(pin, lambda w: w.columns.rename("v", "w"))
    assert tables.handle(renamed).to_table(filter="w = 40")["id"].to_pylist() == [4]
    dropped = tables.change(pin, lambda w: w.columns.drop(["v"]))
    assert answers(tables, dropped, "id = 4") == [4]


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        (want("nope", "BTREE"), ColumnNotFound),
        (want("id", "MAGIC"), InvalidInput),
        (want("v", "BTREE", "there"), AlreadyExists),
        (lambda w: w.indexes.drop("nope"), NotFound),
    ],
)
def test_wrong_index_statements_are_refused(tables: Tables, statement: Any, error: type[Exception]) -> None:
    pin = tables.change(tables.create(rows(1)), want("id", "BTREE", "there"))
    with pytest.raises(error):
        statement(tables.begin(pin))


def test_a_column_that_cannot_be_indexed_is_refused_by_name(tables: Tables) -> None:
    with pytest.raises(InvalidInput, match="'v'"):
        tables.change(tables.create(rows(1)), want("v", "IVF_PQ"))
