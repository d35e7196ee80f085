"""The commits of a lake with their branches and tags, one commit, and what it changed."""

from __future__ import annotations

from typing import Any

import msgspec

from quire.errors import InvalidInput, QuireError
from quire.lake import Lake
from quire.lake.handles import log_of
from quire.ledger import MAIN
from quire.rowfiles.write import json_rows
from quire.server.calls import Call

PAGE = 60
LANES = 8
"""Branches that are drawn beside the one that is looked at, at most."""


class LogAsked(msgspec.Struct, forbid_unknown_fields=True):
    branch: str = MAIN
    before: str | None = None
    """Go on below this commit of the branch."""
    lanes: bool = True


def commits(call: Call) -> dict[str, Any]:
    """Commits of a branch and, on its first page, of the branches beside it, newest first."""
    asked: LogAsked = call.query
    lake = call.lake()
    own = _below(lake, asked.before)
    more = len(own) > PAGE
    own = own[:PAGE]
    tags: dict[str, list[str]] = {}
    for name, tag in lake.tags().items():
        tags.setdefault(str(tag), []).append(name)
    heads = [branch.to_dict() for branch in lake.branches()] if asked.before is None else []
    every = {(entry["branch"], entry["id"]): entry for entry in own}
    logs = {log_of(lake): asked.branch}
    if asked.before is None and asked.lanes:
        for branch in [b for b in heads if b["name"] != asked.branch][:LANES]:
            _beside(call, branch["name"], own[-1]["time"] if more and own else "", every, logs)
    found = sorted(every.values(), key=lambda entry: entry["time"], reverse=True)
    for entry in found:
        entry["parents"] = [_named(parent, entry["branch"], logs) for parent in entry["parents"]]
    return {
        "commit": own[0]["id"] if own else None,
        "commits": found,
        "next": own[-1]["id"] if more else None,
        "branches": heads,
        "tags": tags,
    }


def _below(lake: Lake, before: str | None) -> list[dict[str, Any]]:
    """A page of commits, and one more if there is more."""
    found: list[dict[str, Any]] = []
    below = before is None
    for entry in lake.log(parents="all") if before is None else lake.log():
        if below:
            found.append(entry.to_dict())
        elif entry.id == before:
            below = True
        if len(found) > PAGE:
            break
    if not below:
        raise InvalidInput(f"There is no commit {before!r} on this branch.", next="Begin with its newest commit.")
    return found


def _beside(
    call: Call, name: str, since: str, every: dict[tuple[str, str], dict[str, Any]], logs: dict[str, str]
) -> None:
    """Add the commits of another branch that are no older than what is shown."""
    try:
        lake = call.lake(name)
        logs[log_of(lake)] = name
        for entry in lake.log(limit=PAGE):
            said = entry.to_dict()
            if said["time"] < since or entry.branch == call.branch:
                break
            if all(entry.write != other["write"] for other in every.values()):
                every[said["branch"], said["id"]] = said
    except QuireError:
        return  # it was deleted just now


def _named(parent: str, branch: str, logs: dict[str, str]) -> dict[str, str]:
    log, colon, commit = parent.rpartition(":")
    return {"branch": logs.get(log, log) if colon else branch, "id": commit}


class OneCommit(msgspec.Struct, forbid_unknown_fields=True):
    id: str = ""
    branch: str = MAIN


def commit(call: Call) -> dict[str, Any]:
    """Who, when, why; what it did to each table; what it cost."""
    lake = call.lake()
    found = lake.show(call.query.id or "HEAD")
    said = found.to_dict()
    logs = {log_of(lake): call.branch, log_of(call.lake(MAIN)): MAIN}
    said["parents"] = [_named(parent, said["branch"], logs) for parent in said["parents"]]
    tags = [name for name, tag in lake.tags().items() if str(tag) == found.id]
    return {"commit": said, "tags": tags, "head": lake.head == found.id}


class Changed(msgspec.Struct, forbid_unknown_fields=True):
    id: str = ""
    before: str | None = None
    branch: str = MAIN
    table: str = ""


ROWS = 50
"""Rows of each kind that are shown of a table."""


def changed(call: Call) -> dict[str, Any]:
    """What a commit did to one table, row by row; or what lies between two commits."""
    asked: Changed = call.query
    lake = call.lake()
    before = asked.before
    if before is None:
        parents = lake.show(asked.id).parents
        if not parents:
            raise InvalidInput("The first commit changed nothing.", next="Look at a later one.")
        before = parents[0]
    found = lake.diff(before, asked.id, tables=[asked.table])
    told = found.to_dict()["tables"]
    for said, entry in zip(told, found, strict=True):
        if entry.kind != "renamed":
            some = entry.some(ROWS)
            said["rows"] = {
                "added": json_rows(some.added),
                "before": json_rows(some.changed_before),
                "after": json_rows(some.changed_after),
                "removed": json_rows(some.removed),
            }
    schema = lake.at(commit=asked.id)
    key = list(schema[asked.table].key) if asked.table in schema else []
    return {"table": told[0] if told else None, "key": key, "shown": ROWS}
