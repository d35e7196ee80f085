"""One SELECT over all tables of one commit, within the server's bounds for memory, threads and time."""

from __future__ import annotations

from typing import Any

import msgspec

from quire.server import row_formats
from quire.server.calls import Answer, Call
from quire.server.handlers.tables import PAGE


class Query(msgspec.Struct, forbid_unknown_fields=True):
    """A SELECT, and the values of its `?` or `$name`."""

    query: str
    params: list[Any] | dict[str, Any] | None = None
    limit: int | None = None
    """Rows of the answer in JSON, at most; the stream forms have all of them."""
    timeout: float | None = None
    memory: int | None = None
    max_rows: int | None = None
    """Bounds of this query: they lower those of the server."""


def sql(call: Call) -> Answer:
    asked = call.decoded(Query)
    kind = row_formats.wanted(call.headers.get("accept", ""))
    snap = call.snapshot()
    rows = snap.sql(asked.query, asked.params, timeout=asked.timeout, memory=asked.memory, max_rows=asked.max_rows)
    if kind != "json":
        answer = row_formats.stream(rows, kind)
    else:
        most = min(PAGE if asked.limit is None else max(0, asked.limit), call.server.limits.page_rows)
        columns = row_formats.columns_of(rows.schema)
        values, more = row_formats.page(rows, most)
        answer = Answer({"commit": snap.commit, "columns": columns, "rows": values, "truncated": more})
    answer.cost = snap.cost
    answer.headers["quire-commit"] = snap.commit
    return answer
