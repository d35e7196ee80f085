"""One table: its columns and its first rows; what its columns hold; which commits changed it."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any

from quire.rowfiles.write import json_rows
from quire.server import row_formats
from quire.server.calls import Call
from quire.server.handlers.tables import RowsAsked, json_value, rows_of
from quire.server.ui.reading import At
from quire.server.ui.twins.home import kind_of

if TYPE_CHECKING:
    import pyarrow as pa

FIRST = 100
"""Rows of a window."""
PROFILED = 50_000
"""Rows that a profile of the columns is made of, at most."""
BINS = 24


class OneTable(At):
    name: str = ""
    filter: str | None = None
    search: str | None = None
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
        **_window(call, found),
    }


def rows(call: Call) -> dict[str, Any]:
    """One window of rows: what is on the screen, and nothing else is read."""
    snap = call.snapshot()
    return {"commit": snap.commit, **_window(call, snap[call.query.name])}


def _window(call: Call, found: Any) -> dict[str, Any]:
    asked: OneTable = call.query
    wanted = RowsAsked(filter=asked.filter or None, search=asked.search or None, offset=max(0, asked.offset))
    if wanted.search is not None:
        wanted.limit, wanted.offset = FIRST, 0
    got = rows_of(found, wanted, FIRST)
    values, _ = row_formats.page(got, FIRST)
    total = len(values) if wanted.search is not None else found.count(wanted.filter)
    return {"rows": values, "offset": wanted.offset, "total": total, "columns": row_formats.columns_of(got.schema)}


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
        counted.sort(key=lambda one: -one["counts"])
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
