"""Errors of the language: always with a line and a column."""

from __future__ import annotations

from typing import Any

from quire.errors import InvalidQuery
from quire.graph.language.ast import At


def wrong(at: At, message: str, next: str | None = None, **fields: Any) -> InvalidQuery:
    """An error at a position. `message` begins with a small letter unless it begins with a name."""
    return InvalidQuery(
        f"Line {at.line}, column {at.column}: {message}",
        next=next or None,
        line=at.line,
        column=at.column,
        **fields,
    )


def within(error: InvalidQuery, *, file: str = "", query: str = "") -> InvalidQuery:
    """The same error with the file and the query it is in, where they are known."""
    said, fields = error.message, dict(error.fields)
    if query and "query" not in fields:
        fields["query"] = query
    if file and "file" not in fields:
        fields["file"] = file
        said = f"{file}: {said[0].lower()}{said[1:]}"
    return InvalidQuery(said, next=error.next, **fields)
