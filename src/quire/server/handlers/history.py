"""The log, one commit of it, what differs between two, and what became of a write that nobody confirmed."""

from __future__ import annotations

import re
from itertools import islice
from typing import Any, Literal

import msgspec

from quire.errors import InvalidInput
from quire.lake import CommitInfo, Rows
from quire.rowfiles.write import json_rows
from quire.server import row_formats
from quire.server.calls import Answer, Call, at_commit
from quire.server.cursors import LogAt, read, written


class LogAsked(msgspec.Struct, forbid_unknown_fields=True):
    branch: str = "main"
    limit: int = 50
    next: str | None = None
    parents: Literal["first", "all"] = "first"
    """Whether commits of merged branches are listed, too, each with its place (`point`) and `kept` parents."""


class OnBranch(msgspec.Struct, forbid_unknown_fields=True):
    branch: str = "main"


class DiffAsked(msgspec.Struct, forbid_unknown_fields=True):
    branch: str = "main"
    tables: list[str] = []
    since_base: bool = False
    """What `b` did since the two parted, instead of all that differs."""
    rows: int = 0
    """How many rows of each kind are told for every table."""


class DiffRowsAsked(OnBranch, kw_only=True):
    """Which rows of a table: those that `what` says."""

    what: Literal["added", "changed_before", "changed_after", "removed"]
    since_base: bool = False


def log(call: Call) -> Answer:
    """Commits, newest first. A page goes on below the commit at which the one before ended, whatever came since."""
    asked: LogAsked = call.query
    if not 1 <= asked.limit <= 1000:
        raise InvalidInput("limit is a number from 1 to 1000.", next="Correct it.", field="limit")
    lake = call.lake()
    entries = iter(lake.log(parents=asked.parents))
    found: list[CommitInfo] = []
    if asked.next is None:
        found = list(islice(entries, asked.limit + 1))
        head = found[0].id
    else:
        head = read(asked.next, LogAt).last
        below = False
        for entry in entries:
            if below:
                found += [entry, *islice(entries, asked.limit)]
                break
            below = _place(entry, asked) == head
        if not below:
            raise InvalidInput("This next is of another branch.", next="Ask for the first page again.", field="next")
    more = len(found) > asked.limit
    found = found[: asked.limit]
    value = {
        "commits": [_told(entry, asked) for entry in found],
        "next": written(LogAt(_place(found[-1], asked))) if more else None,
    }
    return at_commit(call, lake, found[0].id if found else head, Answer(value))


def _place(entry: CommitInfo, asked: LogAsked) -> str:
    return entry.id if asked.parents == "first" else f"{entry.point.branch}:{entry.id}"


def _told(entry: CommitInfo, asked: LogAsked) -> dict[str, Any]:
    said = entry.to_dict()
    if asked.parents == "all":
        said["point"] = msgspec.structs.asdict(entry.point)
        said["kept"] = [msgspec.structs.asdict(one) for one in entry.kept or ()]
    return said


def show(call: Call) -> Answer:
    lake = call.lake()
    found = lake.show(call.path["commit"])
    return at_commit(call, lake, found.id, Answer(found.to_dict()))


def diff(call: Call) -> Answer:
    asked: DiffAsked = call.query
    b = None if call.path["b"] == "HEAD" else call.path["b"]
    found = call.lake().diff(call.path["a"], b, tables=asked.tables or None, since_base=asked.since_base)
    value = found.to_dict()
    for said, entry in zip(value["tables"], found, strict=True):
        said["key"] = list(entry.key)
    if asked.rows:
        for said, entry in zip(value["tables"], found, strict=True):
            if entry.kind == "renamed":
                continue
            some = entry.some(min(asked.rows, call.server.limits.page_rows))
            said["rows"] = {
                "added": json_rows(some.added),
                "changed_before": json_rows(some.changed_before),
                "changed_after": json_rows(some.changed_after),
                "removed": json_rows(some.removed),
            }
    return Answer(value)


def diff_rows(call: Call) -> Answer:
    """All rows of one kind, of one table that differs, as a stream."""
    asked: DiffRowsAsked = call.query
    b = None if call.path["b"] == "HEAD" else call.path["b"]
    name = call.path["table"]
    found = call.lake().diff(call.path["a"], b, tables=[name], since_base=asked.since_base)
    rows = getattr(found[name].rows, asked.what)
    kind = row_formats.wanted(call.headers.get("accept", ""))
    if kind != "json":
        return row_formats.stream(Rows(rows.to_reader()), kind)
    values, more = row_formats.page(Rows(rows.to_reader()), call.server.limits.page_rows)
    columns = row_formats.columns_of(rows.schema)
    return Answer({"commit": found.after, "columns": columns, "rows": values, "truncated": more})


def outcome(call: Call) -> Answer:
    """What became of a commit, by the word at which a 503 pointed."""
    word = call.path["write"]
    if not re.fullmatch(r"[0-9A-Za-z_-]{1,64}\.[0-9]{1,18}(-[0-9]{1,18})?\.[0-9A-Za-z_-]{1,64}", word):
        raise InvalidInput("This names no write.", next="Use the Location that the answer 503 had.", field="write")
    found = call.lake().outcome(word.replace(".", "/"))
    return Answer({"outcome": found.name.lower()})
