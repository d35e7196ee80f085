"""The lakes of the server, and the tables of one."""

from __future__ import annotations

from itertools import islice
from typing import Any

import msgspec

from quire.errors import NotFound, QuireError
from quire.lake import CommitInfo, Lake, Snapshot
from quire.server.calls import Call
from quire.server.ui.reading import At

RECENT = 40
"""Commits that the small lines of the tables are drawn from."""


def home(call: Call) -> dict[str, Any]:
    """A card for every lake. One that does not answer says so on its card."""
    return {"lakes": [_card(call, name) for name in call.server.lakes.names() if call.actor.sees(name)]}


def _card(call: Call, name: str) -> dict[str, Any]:
    lake = call.server.lakes.get(name)
    card: dict[str, Any] = {"name": name, "read_only": lake.read_only, "problem": None}
    try:
        snap = lake.snapshot()
        rows, size = _sums(snap)
        recent = list(lake.log(limit=12))
    except QuireError as error:
        return {**card, "problem": {"kind": error.kind, "next": error.to_dict()["next"]}}
    return {
        **card,
        "commit": snap.commit,
        "time": snap.time.isoformat(),
        "tables": len(snap),
        "rows": rows,
        "bytes": size,
        "message": recent[0].message if recent else "",
        "author": recent[0].author if recent else "",
        "activity": [sum(t.added + t.removed for t in entry.tables.values()) for entry in reversed(recent)],
    }


def _sums(snap: Snapshot) -> tuple[int, int]:
    tables = [snap[name] for name in snap]
    return sum(table.count() for table in tables), sum(table.bytes for table in tables)


def tables(call: Call) -> dict[str, Any]:
    """The first page of a lake."""
    return overview(call.lake(), call.snapshot())


def overview(lake: Lake, snap: Snapshot) -> dict[str, Any]:
    """The tables of one commit, with how many rows they had lately, and the newest commits."""
    recent = recent_of(lake, snap.commit, RECENT)
    found = []
    for name in snap:
        table = snap[name]
        rows = table.count()
        found.append(
            {
                "name": name,
                "kind": kind_of(name),
                "id": table.id,
                "version": int(table.version),
                "rows": rows,
                "bytes": table.bytes,
                "key": list(table.key),
                "commit": table.commit,
                "line": _line(name, rows, recent),
            }
        )
    return {
        "commit": snap.commit,
        "time": snap.time.isoformat(),
        "tables": found,
        "recent": [entry.to_dict() for entry in recent[:6]],
    }


def kind_of(name: str) -> str:
    """Whether a table holds nodes, edges, what the graph keeps for itself, or rows like any other."""
    kind, colon, _ = name.partition(":")
    return {"node": "node", "edge": "edge", "graph": "graph"}.get(kind, "table") if colon else "table"


def recent_of(lake: Lake, commit: str, most: int) -> list[CommitInfo]:
    """The newest commits of a branch up to one commit, newest first."""
    found: list[CommitInfo] = []
    for entry in islice(lake.log(), 10 * most):
        if found or entry.id == commit:
            found.append(entry)
            if len(found) == most:
                break
    return found


def _line(name: str, rows: int, recent: list[CommitInfo]) -> list[int]:
    """How many rows a table had after each of the newest commits that changed it, oldest first."""
    line = [rows]
    for entry in recent:
        change = entry.tables.get(name)
        if change is not None:
            line.append(max(0, line[-1] - change.added + change.removed))
    return line[::-1]


# -- search of everything ------------------------------------------------------------------------------------------


class Search(At):
    q: str = ""


COMMITS = 200
"""Commits whose messages are searched, at most: the newest."""
SHOWN = 12


def search(call: Call) -> dict[str, Any]:
    """Tables, branches, tags, requests and commits that have a text in their names; without a text all names."""
    word = call.query.q.strip().lower()
    lake = call.lake()
    found: list[dict[str, Any]] = []

    def add(kind: str, name: str, **more: Any) -> None:
        if word in name.lower() and sum(1 for one in found if one["kind"] == kind) < SHOWN:
            found.append({"kind": kind, "name": name, **more})

    for name in call.snapshot():
        add("table", name)
    for branch in lake.branches():
        add("branch", branch.name, head=branch.head)
    for name, tag in lake.tags().items():
        add("tag", name, commit=str(tag))
    for request in lake.requests.list("all"):
        add("request", f"#{request.number} {request.title}", number=request.number, state=request.state)
    if word:
        for entry in lake.log(limit=COMMITS):
            add("commit", f"{entry.id} {entry.message}", commit=entry.id, author=entry.author, branch=entry.branch)
        if (
            not any(one["kind"] == "commit" and one["commit"] == word for one in found)
            and word.replace(".", "").isdigit()
        ):
            try:
                old = lake.show(word)
                found.append(
                    {"kind": "commit", "name": f"{old.id} {old.message}", "commit": old.id, "branch": old.branch}
                )
            except (NotFound, QuireError):
                pass
    return {"found": found, "q": call.query.q}


def names(call: Call) -> dict[str, Any]:
    """The branches and tags that one can look at instead."""
    lake = call.lake()
    return {
        "branches": [branch.to_dict() for branch in lake.branches()],
        "tags": [{"name": name, "commit": str(tag)} for name, tag in lake.tags().items()],
    }


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """No parameters."""
