"""What tools answer, for clients that read answers as data: each has its commit, and says whether it was cut."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class Answer(TypedDict):
    """What every answer has."""

    commit: str | None
    truncated: NotRequired[bool]


class RowsAnswer(TypedDict):
    """The answer of what finds rows."""

    commit: str
    branch: str
    columns: list[dict[str, str]]
    """The name and the type of each."""
    rows: list[dict[str, Any]]
    truncated: bool


ROWS = ("query", "sql", "search")
"""The tools that find rows; stored queries do, too."""


def kind_of(tool: str) -> type[Any]:
    """What a tool answers."""
    return RowsAnswer if tool in ROWS else Answer
