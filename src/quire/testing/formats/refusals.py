"""What a format must refuse, each with its type of error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from quire.errors import (
    ColumnNotFound,
    DuplicateKeys,
    InvalidExpression,
    InvalidInput,
    InvalidName,
    KeyConflict,
    NotFound,
    QuireError,
    SchemaMismatch,
)
from quire.formats import IndexSpec, Work
from quire.testing.formats.bench import rows

Run = Callable[[Work], Any]

REFUSED: dict[str, tuple[Run, type[QuireError]]] = {
    "append: another column": (lambda w: w.rows.append([{"id": 9, "x": 1}], missing="null"), SchemaMismatch),
    "append: a column less": (lambda w: w.rows.append([{"id": 9}], missing="error"), SchemaMismatch),
    "append: another type": (lambda w: w.rows.append([{"id": "x", "v": 1, "w": "a"}], missing="error"), SchemaMismatch),
    "append: no rows": (lambda w: w.rows.append(7, missing="error"), InvalidInput),
    "insert: a key twice": (lambda w: w.rows.insert(rows(9, 9), ("id",), missing="error"), DuplicateKeys),
    "insert: a null key": (
        lambda w: w.rows.insert([{"id": None, "v": 1, "w": "a"}], ("id",), missing="error"),
        DuplicateKeys,
    ),
    "insert: a key that is there": (lambda w: w.rows.insert(rows(9, 2), ("id",), missing="error"), KeyConflict),
    "insert: no such key column": (lambda w: w.rows.insert(rows(9), ("key",), missing="error"), ColumnNotFound),
    "upsert: a key twice": (lambda w: w.rows.upsert(rows(9, 9), ("id",)), DuplicateKeys),
    "upsert: without its key": (lambda w: w.rows.upsert([{"v": 1}], ("id",)), SchemaMismatch),
    "upsert: no such key column": (lambda w: w.rows.upsert(rows(9), ("key",)), ColumnNotFound),
    "update: no such column": (lambda w: w.rows.update({"x": "1"}, {}, None, ()), ColumnNotFound),
    "update: nothing to set": (lambda w: w.rows.update({}, {}, None, ()), InvalidInput),
    "update: of another type": (lambda w: w.rows.update({"v": "w"}, {}, None, ()), SchemaMismatch),
    "update: no such name": (lambda w: w.rows.update({"v": "x + 1"}, {}, None, ()), InvalidExpression),
    "update: no expression": (lambda w: w.rows.update({"v": "v +"}, {}, None, ()), InvalidExpression),
    "update: a bad condition": (lambda w: w.rows.update({"v": "1"}, {}, "id =", ()), InvalidExpression),
    "update: two rows to one key": (lambda w: w.rows.update({"id": "7"}, {}, None, ("id",)), DuplicateKeys),
    "update: a key that is there": (lambda w: w.rows.update({"id": "2"}, {}, "id = 1", ("id",)), KeyConflict),
    "update: a value of another type": (lambda w: w.rows.update({}, {"v": "x"}, None, ()), SchemaMismatch),
    "delete: no such name": (lambda w: w.rows.delete("x = 1"), InvalidExpression),
    "delete: no condition": (lambda w: w.rows.delete("id +"), InvalidExpression),
    "overwrite: another column": (lambda w: w.rows.overwrite([{"x": 1}], (), schema="keep"), SchemaMismatch),
    "overwrite: a key twice": (lambda w: w.rows.overwrite(rows(1, 1), ("id",), schema="keep"), DuplicateKeys),
    "overwrite: loses the key": (lambda w: w.rows.overwrite([{"x": 1}], ("id",), schema="replace"), ColumnNotFound),
    "add: a name that is there": (lambda w: w.columns.add({"v": "1"}), InvalidName),
    "add: an empty name": (lambda w: w.columns.add({"": "1"}), InvalidName),
    "add: no such name": (lambda w: w.columns.add({"x": "y + 1"}), InvalidExpression),
    "add: not nullable": (lambda w: w.columns.add(pa.field("x", pa.int64(), nullable=False)), SchemaMismatch),
    "add: nothing": (lambda w: w.columns.add({}), InvalidInput),
    "drop: no such column": (lambda w: w.columns.drop(["x"]), ColumnNotFound),
    "drop: all of them": (lambda w: w.columns.drop(["id", "v", "w"]), InvalidInput),
    "rename: no such column": (lambda w: w.columns.rename("x", "y"), ColumnNotFound),
    "rename: a name that is there": (lambda w: w.columns.rename("v", "w"), InvalidName),
    "alter: nothing": (lambda w: w.columns.alter("v"), InvalidInput),
    "alter: no such column": (lambda w: w.columns.alter("x", type=pa.int32()), ColumnNotFound),
    "alter: values that do not fit": (lambda w: w.columns.alter("w", type=pa.int64()), SchemaMismatch),
    "index: no such column": (lambda w: w.indexes.create(IndexSpec("x", "BTREE", "x"), replace=False), ColumnNotFound),
    "index: none to drop": (lambda w: w.indexes.drop("x"), NotFound),
    "read: no such column": (lambda w: w.view().scan(columns=["x"]), ColumnNotFound),
    "read: a column twice": (lambda w: w.view().scan(columns=["v", "v"]), InvalidInput),
    "read: a negative limit": (lambda w: w.view().scan(limit=-1), InvalidInput),
    "read: a filter that is none": (lambda w: w.view().count(filter=7), InvalidInput),
    "read: a filter with no such name": (lambda w: w.view().count(filter="x = 1"), InvalidExpression),
}
