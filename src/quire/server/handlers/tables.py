"""Tables of one commit: what there is, rows by page or as a stream, look-ups, the history of a row."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import msgspec

from quire.errors import InvalidInput
from quire.lake import Rows, Table
from quire.server import row_formats
from quire.server.calls import Answer, Call, at_commit
from quire.server.cursors import RowsAt, read, written

PAGE = 1_000
"""Rows of a page, when nothing else is asked for."""


class At(msgspec.Struct, forbid_unknown_fields=True):
    """Which commit: the newest of a branch, or a commit, a tag or a time."""

    branch: str = "main"
    at: str | None = None


class RowsAsked(At):
    """Which rows, and which of their columns."""

    columns: list[str] = []
    filter: str | None = None
    search: str | None = None
    """A text for a full-text search."""
    vector: str | None = None
    """A vector, as a list in JSON, for a vector search; with `search` it is hybrid."""
    text_column: str | None = None
    vector_column: str | None = None
    metric: str | None = None
    limit: int | None = None
    offset: int = 0
    next: str | None = None


class CountAsked(At):
    filter: str | None = None


class HistoryAsked(msgspec.Struct, forbid_unknown_fields=True):
    key: str
    """The key as JSON: a value, or an object for a key of several columns."""
    branch: str = "main"
    limit: int | None = None


def tables(call: Call) -> Answer:
    snap = call.snapshot()
    found = []
    for name in snap:
        table = snap[name]
        found.append(
            {
                "name": name,
                "id": table.id,
                "version": int(table.version),
                "rows": table.count(),
                "bytes": table.bytes,
                "key": list(table.key),
                "commit": table.commit,
            }
        )
    value = {"commit": snap.commit, "branch": snap.branch, "time": snap.time.isoformat(), "tables": found}
    return at_commit(call, call.lake(), snap.commit, Answer(value, cost=snap.cost))


def table(call: Call) -> Answer:
    snap = call.snapshot()
    found = snap[call.path["table"]]
    said = found.describe()
    value = {k: v for k, v in said.items() if k not in ("location", "config")}
    value["indexes"] = [json.loads(json.dumps(index, default=str)) for index in said["indexes"]]
    value["schema"] = row_formats.schema_text(found.schema)
    return at_commit(call, call.lake(), snap.commit, Answer(value, cost=snap.cost))


def find(call: Call) -> Answer:
    """The same as `rows`, for questions that are too long for an address."""
    call.query = call.decoded(RowsAsked)
    return rows(call)


def rows(call: Call) -> Answer:
    asked: RowsAsked = call.query
    kind = row_formats.wanted(call.headers.get("accept", ""))
    question = _question(asked)
    if asked.next is not None:
        place = read(asked.next, RowsAt)
        if (place.table, place.question) != (call.path["table"], question):
            raise InvalidInput(
                "This next is of another question.", next="Ask for the next page as for the first.", field="next"
            )
        asked = msgspec.structs.replace(asked, at=place.commit, offset=place.offset)
        call.query = asked
    snap = call.snapshot()
    found = snap[call.path["table"]]
    answer: Answer
    if kind != "json":
        answer = row_formats.stream(rows_of(found, asked, asked.limit), kind)
    else:
        most = min(PAGE if asked.limit is None else asked.limit, call.server.limits.page_rows)
        asked_rows = rows_of(found, asked, most + 1)
        columns = row_formats.columns_of(asked_rows.schema)
        values, more = row_formats.page(asked_rows, most)
        value: dict[str, Any] = {"commit": snap.commit, "columns": columns, "rows": values, "next": None}
        value["truncated"] = more
        if more and asked.search is None and asked.vector is None:
            value["next"] = written(RowsAt(snap.commit, found.name, question, asked.offset + most))
        answer = Answer(value)
    answer.cost = snap.cost
    return at_commit(call, call.lake(), snap.commit, answer)


def count(call: Call) -> Answer:
    snap = call.snapshot()
    found = snap[call.path["table"]].count(call.query.filter)
    return at_commit(call, call.lake(), snap.commit, Answer({"commit": snap.commit, "count": found}, cost=snap.cost))


def history(call: Call) -> Answer:
    asked: HistoryAsked = call.query
    versions = call.lake().history(call.path["table"], json_value(asked.key, "key"), limit=asked.limit)
    found = [version.to_dict() for version in versions]
    return Answer({"versions": found, "complete": versions.complete})


def json_value(text: str, field: str) -> Any:
    """A value that a parameter holds as JSON; a bare word is text."""
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError:
        if text[:1] in '[{"':
            raise InvalidInput(f"The parameter {field!r} is not JSON.", next="Correct it.", field=field) from None
        return text


def _question(asked: RowsAsked) -> str:
    """What stands for all that decides which rows there are, and in which order."""
    said = [asked.branch, asked.columns, asked.filter, asked.search, asked.vector]
    return hashlib.sha256(msgspec.json.encode(said)).hexdigest()[:16]


def rows_of(found: Table, asked: RowsAsked, limit: int | None) -> Rows:
    """The rows of a table that are asked for: by a scan, or by a search."""
    columns = asked.columns or None
    if asked.search is None and asked.vector is None:
        return found.scan(columns=columns, filter=asked.filter, limit=limit, offset=asked.offset or None)
    if asked.offset:
        raise InvalidInput("A search has no offset.", next="Ask for more rows with limit.", field="offset")
    vector = None if asked.vector is None else json_value(asked.vector, "vector")
    most = 10 if limit is None or asked.limit is None else limit
    how: dict[str, Any] = {"text_column": asked.text_column, "vector_column": asked.vector_column}
    if asked.metric is not None:
        how["metric"] = asked.metric
    return found.search(vector=vector, text=asked.search, limit=most, filter=asked.filter, columns=columns, **how)
