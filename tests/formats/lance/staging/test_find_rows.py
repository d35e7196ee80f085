"""Finding rows by key and by predicate."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.formats.lance.conftest import Tables, rows

from quire.errors import InvalidExpression
from quire.formats.lance.staging import find_rows

VALUES: dict[str, list[Any]] = {
    "int64": [1, 2, 3],
    "int8": [1, -2, 3],
    "uint64": [1, 2, 2**63 + 5],
    "string": ["a", "it's", 'ünï`"% _'],
    "large_string": ["a", "b", ""],
    "binary": [b"a", b"\x00\xff", b""],
    "double": [0.5, -0.25, 3.0],
    "bool": [True, False],
    "date32[day]": [date(2020, 1, 1), date(2021, 1, 1), date(1960, 2, 3)],
    "timestamp[us]": [datetime(2020, 1, 1, 0, 0, 0, 1), datetime(2020, 1, 1), datetime(1969, 5, 5)],
    "decimal128(10, 2)": [Decimal("1.10"), Decimal("-2.00"), Decimal("3.33")],
}
TYPES: dict[str, pa.DataType] = {
    "large_string": pa.large_string(),
    "double": pa.float64(),
    "bool": pa.bool_(),
    "date32[day]": pa.date32(),
    "timestamp[us]": pa.timestamp("us"),
    "decimal128(10, 2)": pa.decimal128(10, 2),
}


@pytest.mark.parametrize("kind", VALUES)
def test_keys_of_every_type_are_found_by_upsert_and_insert(tables: Tables, kind: str) -> None:
    type_ = TYPES.get(kind) or pa.type_for_alias(kind)
    values = VALUES[kind]
    data = pa.table({"k": pa.array(values, type_), "n": pa.array(range(len(values)), pa.int64())})
    pin = tables.create(data)
    one = pa.table({"k": pa.array(values[1:2], type_), "n": pa.array([100], pa.int64())})
    pin = tables.change(pin, lambda w: w.rows.upsert(one, ["k"]))
    found = {r["k"]: r["n"] for r in tables.format.open(pin).scan().read_all().to_pylist()}
    assert found == {**{v: i for i, v in enumerate(values)}, values[1]: 100}
    assert pin.rows == len(values)
    with pytest.raises(Exception, match="already has a row"):
        tables.begin(pin).rows.insert(one, ["k"], missing="error")


@pytest.mark.parametrize("count", [1, find_rows.FEW, find_rows.FEW + 1])
def test_few_and_many_keys_find_the_same_rows(tables: Tables, count: int) -> None:
    """Few keys are looked up by a filter, many are joined with a scan."""
    pin = tables.create(rows(*range(0, 6000, 2)))
    keys = rows(*range(count)).select(["id"])
    addresses, rowids, positions = find_rows.where_key(tables.handle(pin), ["id"], keys)
    expected = min(3000, (count + 1) // 2)
    assert len(addresses) == len(rowids) == len(set(positions.to_pylist())) == expected
    assert all(p % 2 == 0 for p in positions.to_pylist())


@pytest.mark.parametrize("count", [2, find_rows.FEW_COMPOSITE, find_rows.FEW_COMPOSITE + 1])
def test_composite_keys_match_all_columns_at_once(tables: Tables, count: int) -> None:
    """No row has the first part of one key and the second part of another. The work does not explode with the keys."""
    data = pa.table({"a": list(range(count)), "b": [f"x{i}" for i in range(count)]})
    pin = tables.create(data)
    crossed = pa.table({"a": list(range(count)), "b": [f"x{(i + 1) % count}" for i in range(count)]})
    assert len(find_rows.where_key(tables.handle(pin), ["a", "b"], crossed)[0]) == 0
    assert len(find_rows.where_key(tables.handle(pin), ["b", "a"], data)[0]) == count


def test_deleted_rows_are_not_found(tables: Tables) -> None:
    pin = tables.change(tables.create(rows(1, 2, 3)), lambda w: w.rows.delete("id = 2"))
    _, _, positions = find_rows.where_key(tables.handle(pin), ["id"], rows(1, 2, 3).select(["id"]))
    assert sorted(positions.to_pylist()) == [0, 2]
    assert find_rows.alive(tables.handle(pin), 0).tolist() == [0, 2]


def test_column_names_that_need_quoting_are_data_and_not_code(tables: Tables) -> None:
    name = "a b; drop table \"x\" -- 'y'"
    data = pa.table({name: [1, 2], "order": [1, 2], "Select": [3, 4]})
    pin = tables.create(data)
    changed = pa.table({name: [2], "order": [9], "Select": [9]})
    pin = tables.change(
        pin,
        lambda w: w.rows.upsert(changed, [name]),
        lambda w: w.rows.update({"Select": "`Select` + 1"}, {}, "`order` = 9", ()),
    )
    assert tables.content(pin) == [(1, 1, 3), (2, 9, 10)]


@pytest.mark.parametrize("where", ["nonsense(", "no_such = 1", "id = 'x' +", "id"])
def test_a_condition_that_is_wrong_says_so(tables: Tables, where: str) -> None:
    work = tables.begin(tables.create(rows(1)))
    with pytest.raises(InvalidExpression):
        work.rows.delete(where)
    with pytest.raises(InvalidExpression):
        work.rows.update({"v": "0"}, {}, where, ())
    assert not work.changed
