"""Comparing, merging and reviewing: two sides beside each other, conflicts row by row, requests."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from quire.errors import InvalidInput, QuireError
from quire.lake.merge.plan import MergePlan
from quire.ledger import MAIN
from quire.server.calls import Answer, Call
from quire.server.handlers.commits import noted, told

MOST = 2_000
"""Conflicts that a page holds, at most."""


class Sides(msgspec.Struct, forbid_unknown_fields=True):
    """What is brought in (`b`), and into what (`a`): branches, or two commits of one branch."""

    a: str = ""
    b: str = ""
    branch: str = MAIN


def compare(call: Call) -> dict[str, Any]:
    """What merging `b` into `a` would do; of two commits, what differs."""
    asked: Sides = call.query
    lake = call.lake()
    branches = [branch.to_dict() for branch in lake.branches()]
    names = [branch["name"] for branch in branches]
    found: dict[str, Any] = {"a": asked.a, "b": asked.b, "kind": "none", "branches": branches}
    if not asked.a or not asked.b:
        return found
    if asked.a in names and asked.b in names and asked.a != asked.b:
        plan = call.lake(asked.a).merge(asked.b, preview=True)
        told_plan = plan.to_dict()
        return {**found, "kind": "merge", "plan": {**told_plan, "conflicts": told_plan["conflicts"][:10]}}
    return {**found, "kind": "diff", "diff": lake.diff(asked.a, asked.b).to_dict()}


class Merged(msgspec.Struct, forbid_unknown_fields=True):
    source: str = ""
    into: str = MAIN
    request: int | None = None
    branch: str = MAIN


def conflicts(call: Call) -> dict[str, Any]:
    """Everything that both sides changed, with how a request says that it is to be resolved."""
    asked: Merged = call.query
    lake = call.lake(asked.into)
    request = None
    if asked.request is not None:
        request = lake.requests.get(asked.request)
        asked = msgspec.structs.replace(asked, source=request.source, into=request.target)
        lake = call.lake(asked.into)
    plan = lake.merge(asked.source, preview=True)
    kept = [] if request is None else list(request.resolutions)
    if kept:
        plan.resolve(kept)
    return {
        "source": asked.source,
        "into": asked.into,
        "request": None if request is None else request.to_dict(),
        "plan": _told(plan),
        "keys": {table: list(lake.snapshot()[table].key) for table in {c.table for c in plan.conflicts}
                 if table in lake.snapshot()},
    }  # fmt: skip


def _told(plan: MergePlan) -> dict[str, Any]:
    said = plan.to_dict()
    said["total"] = len(said["conflicts"])
    said["conflicts"] = said["conflicts"][:MOST]
    said["stale"] = plan.stale.to_list()
    return said


class Resolution(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """How one conflict is resolved. The fingerprint says which one it was made for."""

    table: str
    fingerprint: str
    resolution: Literal["ours", "theirs", "delete", "values"]
    key: dict[str, Any] | None = None
    merged: dict[str, Any] | None = None


class Resolved(msgspec.Struct, forbid_unknown_fields=True):
    source: str = ""
    into: str = MAIN
    request: int | None = None
    resolutions: list[Resolution] = []
    others: Literal["ours", "theirs"] | None = None
    """What becomes of conflicts that no resolution is given for."""
    message: str | None = None
    check: bool = False
    """Only say how the rows would be, and what is still open."""
    force: bool = False


def merge(call: Call) -> Answer:
    """Merge with these resolutions. What does not fit any more is reported, and nothing is committed then."""
    wanted = call.decoded(Resolved)
    if wanted.request is not None:
        return _merge_request(call, wanted)
    lake = call.lake(wanted.into)
    plan = lake.merge(wanted.source, preview=True, message=wanted.message, resolve=wanted.others, metadata=noted({}))
    plan.resolve(_rows(wanted))
    if wanted.check or len(plan.stale):
        return Answer({"commit": None, "plan": _told(plan)})
    return told(call, lake, plan.commit())


def keep(call: Call) -> Answer:
    """Keep resolutions with a merge request, for when it is merged."""
    wanted = call.decoded(Resolved)
    if wanted.request is None:
        raise InvalidInput("There is no request to keep them with.", next="Name it in request.", field="request")
    return Answer(call.lake().requests.resolve(wanted.request, _rows(wanted)).to_dict())


def _merge_request(call: Call, wanted: Resolved) -> Answer:
    assert wanted.request is not None
    lake = call.lake()
    if wanted.resolutions:
        lake.requests.resolve(wanted.request, _rows(wanted))
    done = lake.requests.merge(wanted.request, resolve=wanted.others, force=wanted.force, message=wanted.message)
    return told(call, call.lake(lake.requests.get(wanted.request).target), done)


def _rows(wanted: Resolved) -> list[dict[str, Any]]:
    return [
        {"table": r.table, "fingerprint": r.fingerprint, "resolution": r.resolution, "key": r.key, "merged": r.merged}
        for r in wanted.resolutions
    ]


class State(msgspec.Struct, forbid_unknown_fields=True):
    state: Literal["open", "merged", "closed", "all"] = "open"
    branch: str = MAIN
    source: str | None = None
    """What a new request is about, when the page is opened for one."""
    into: str | None = None


def requests(call: Call) -> dict[str, Any]:
    """Merge requests, and the branches of which there could be another one."""
    lake = call.lake()
    every = lake.requests.list("all")
    counts = {state: sum(1 for one in every if one.state == state) for state in ("open", "merged", "closed")}
    wanted = call.query.state
    return {
        "requests": [one.to_dict() for one in every if wanted in (one.state, "all")],
        "counts": counts,
        "branches": [branch.to_dict() for branch in lake.branches()],
    }


class Number(msgspec.Struct, forbid_unknown_fields=True):
    number: int = 0
    branch: str = MAIN


def request(call: Call) -> dict[str, Any]:
    """A request with what its merge would do, as long as it is open."""
    lake = call.lake()
    found = lake.requests.get(call.query.number)
    said: dict[str, Any] = {"request": found.to_dict(), "plan": None, "problem": None, "commits": []}
    if found.state == "open":
        try:
            plan = call.lake(found.target).merge(found.source, preview=True)
            if found.resolutions:
                plan.resolve(list(found.resolutions))
            told_plan = _told(plan)
            said["plan"] = {**told_plan, "conflicts": told_plan["conflicts"][:5]}
            bases = set(plan.bases)
            for entry in call.lake(found.source).log(limit=30):
                if entry.branch != found.source or entry.id in bases:
                    break
                said["commits"].append(entry.to_dict())
        except QuireError as error:
            told_error = error.to_dict()
            said["problem"] = {"detail": told_error["message"], "next": told_error["next"], "kind": error.kind}
    return said
