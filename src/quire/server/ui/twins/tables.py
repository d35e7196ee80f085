"""One table: its columns and its first rows; what its columns hold; which commits changed it."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any

from quire.errors import InvalidInput, NotFound
from quire.filters import In, every
from quire.rowfiles import json_values
from quire.rowfiles.write import json_rows
from quire.server import row_formats
from quire.server.calls import Call
from quire.server.handlers.tables import RowsAsked, json_value, rows_of
from quire.server.ui.reading import At
from quire.server.ui.twins.home import kind_of

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.lake import Table

FIRST = 100
"""Rows of a window."""
PROFILED = 50_000
"""Rows that a profile of the columns is made of, at most."""
BINS = 24


class OneTable(At):
    name: str = ""
    filter: list[str] = []
    """Conditions that all have to hold."""
    search: str | None = None
    """A text; with a vector the search is hybrid."""
    vector: str | None = None
    """A list of numbers as JSON: the nearest rows."""
    like: str | None = None
    """The key of a row as JSON: the rows whose vectors are nearest to its own."""
    vector_column: str | None = None
    offset: int = 0


def table(call: Call) -> dict[str, Any]:
    """The table at one commit, with the rows at the top of its window."""
    asked: OneTable = call.query
    snap = call.snapshot()
    found = snap[asked.name]
    said = found.describe()
    shown = {k: v for k, v in said.items() if k not in ("location", "config")}
    shown["indexes"] = json.loads(json.dumps(said["indexes"], default=str))
    return {
        "commit": snap.commit,
        "time": snap.time.isoformat(),
        "kind": kind_of(asked.name),
        "table": shown,
        "vectors": vectors_of(found.schema),
        **_window(call, found),
    }


def rows(call: Call) -> dict[str, Any]:
    """One window of rows: what is on the screen, and nothing else is read."""
    snap = call.snapshot()
    return {"commit": snap.commit, **_window(call, snap[call.query.name])}


def _window(call: Call, found: Any) -> dict[str, Any]:
    asked: OneTable = call.query
    condition = " and ".join(f"({one})" for one in asked.filter if one.strip()) or None
    wanted = RowsAsked(filter=condition, search=asked.search or None, offset=max(0, asked.offset))
    wanted.vector = asked.vector or (_vector_like(found, asked) if asked.like else None)
    ranked = wanted.search is not None or wanted.vector is not None
    if ranked:
        wanted.vector_column = asked.vector_column if wanted.vector is not None else None
        wanted.limit, wanted.offset = FIRST, 0
    got = rows_of(found, wanted, FIRST)
    values, _ = row_formats.page(got, FIRST)
    total = len(values) if ranked else found.count(wanted.filter)
    return {
        "rows": values,
        "offset": wanted.offset,
        "total": total,
        "ranked": ranked,
        "vector": wanted.vector,
        "columns": row_formats.columns_of(got.schema),
    }


def vectors_of(schema: pa.Schema) -> list[str]:
    """The columns that hold a vector in every row."""
    import pyarrow as pa

    kinds = [(f.name, f.type) for f in schema if pa.types.is_fixed_size_list(f.type)]
    return [name for name, kind in kinds if pa.types.is_floating(kind.value_type)]


def _vector_like(found: Table, asked: OneTable) -> str:
    """The vector of the row that has a key, as JSON."""
    import pyarrow as pa

    columns = vectors_of(found.schema)
    column = asked.vector_column or (columns[0] if columns else None)
    if column not in columns:
        raise InvalidInput(f"{asked.name!r} has no such column of vectors.", next="Choose one that holds vectors.")
    key = json_value(asked.like or "", "like")
    if not found.key or not isinstance(key, dict) or set(key) != set(found.key):
        raise InvalidInput("This is no key of the table.", next="Give its key columns, as JSON.", field="like")
    typed = json_values.table([key], pa.schema([found.schema.field(name) for name in found.key])).to_pylist()[0]
    condition = every([In(name, (value,)) for name, value in typed.items()])
    rows = found.scan(columns=[column], filter=condition, limit=1).to_pylist()
    if not rows or rows[0][column] is None:
        raise NotFound("There is no row with this key and a vector.", next="Choose another row.")
    return json.dumps(rows[0][column])


def profile(call: Call) -> dict[str, Any]:
    """What the columns hold, told by the first rows: nulls, least and greatest, how values spread."""
    import pyarrow as pa

    snap = call.snapshot()
    found = snap[call.query.name]
    plain = [f.name for f in found.schema if _is_plain(f.type)]
    data = pa.table(found.scan(columns=plain, limit=PROFILED).to_arrow()) if plain else None
    columns = [] if data is None else [_column(name, data[name]) for name in plain]
    return {"of": 0 if data is None else data.num_rows, "total": found.count(), "columns": columns}


def _is_plain(kind: pa.DataType) -> bool:
    import pyarrow as pa

    is_ = pa.types
    return any(
        test(kind)
        for test in (
            is_.is_integer, is_.is_floating, is_.is_string, is_.is_large_string, is_.is_boolean, is_.is_date,
            is_.is_timestamp, is_.is_decimal,
        )
    )  # fmt: skip


def _column(name: str, data: pa.ChunkedArray) -> dict[str, Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

    told: dict[str, Any] = {
        "name": name,
        "nulls": data.null_count,
        "least": None,
        "greatest": None,
        "bins": [],
        "top": [],
    }
    values = data.drop_null()
    if pa.types.is_floating(values.type):
        values = values.filter(pc.is_finite(values))
    if not len(values):
        return told
    if not pa.types.is_boolean(values.type):
        ends = pc.min_max(values)
        told["least"], told["greatest"] = (_text(ends[end]) for end in ("min", "max"))
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        told["bins"] = _bins(values.cast(pa.float64(), safe=False))
    else:
        counted = pc.value_counts(values).to_pylist()
        counted.sort(key=lambda one: (-one["counts"], str(one["values"])))
        told["distinct"] = len(counted)
        if len(counted) <= 24 or counted[0]["counts"] > 1:
            told["top"] = [{"value": _short(one["values"]), "count": one["counts"]} for one in counted[:6]]
    return told


def _bins(values: pa.ChunkedArray) -> list[int]:
    import numpy as np

    return [int(n) for n in np.histogram(values.to_numpy(), bins=BINS)[0]]


def _text(value: Any) -> Any:
    [row] = json_rows_of(value)
    return _short(row)


def json_rows_of(value: Any) -> list[Any]:
    """A value of Arrow as JSON has it."""
    import pyarrow as pa

    batch = pa.RecordBatch.from_arrays([pa.array([value.as_py()], value.type)], names=["v"])
    return [row["v"] for row in json_rows(batch)]


def _short(value: Any) -> Any:
    text = value if isinstance(value, str) else None
    if text is not None:
        return text if len(text) <= 40 else text[:39] + "…"
    return value if isinstance(value, int | float | bool) or value is None else str(value)


class Versions(At):
    name: str = ""


LOOKED = 400
"""Commits that are looked through for those of one table."""


def versions(call: Call) -> dict[str, Any]:
    """The newest commits that changed a table."""
    name = call.query.name
    entries = list(islice(call.lake().log(), LOOKED))
    found = [entry.to_dict() for entry in entries if name in entry.tables]
    return {"versions": found[:100], "looked": len(entries)}


class OneRow(At):
    name: str = ""
    key: str = ""


def row(call: Call) -> dict[str, Any]:
    """Every version of one row."""
    found = call.lake().history(call.query.name, json_value(call.query.key, "key"), limit=50)
    return {"versions": [version.to_dict() for version in found]}
