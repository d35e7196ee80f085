"""Rows of which some values are given, and the others are those of rows that are there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa


def patched(
    schema: pa.Schema, given: pa.Table, keep: Mapping[str, Any], old: pa.Table | None, positions: Any
) -> pa.Table:
    """Whole rows: what is given, and else what the row that is there has, or null.

    `keep` has a mask for some columns: where it says so, a row that is there keeps its value. `old` holds columns of
    the rows that are there, and `positions` says for each of them which given row it is.
    """
    import pyarrow as pa

    rows = given.num_rows
    place = np.full(rows, -1, np.int64)
    place[positions] = np.arange(len(positions))
    known, columns = place >= 0, []
    for one in schema:
        if one.name not in given.schema.names:
            columns.append(pa.nulls(rows, one.type) if old is None else old.column(one.name).take(_or_null(place)))
        elif old is None or one.name not in keep:
            columns.append(given.column(one.name))
        else:
            stays = known & keep[one.name]
            both = pa.chunked_array([*given.column(one.name).chunks, *old.column(one.name).chunks], one.type)
            columns.append(both.take(pa.array(np.where(stays, rows + place, np.arange(rows)))))
    return pa.table(columns, schema=schema)


def _or_null(place: Any) -> pa.Array:
    import pyarrow as pa

    return pa.array(place, mask=place < 0)
