"""Merging branches, and the requests of those who want one merged."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from quire.errors import Conflict, InvalidInput
from quire.lake import Lake
from quire.lake.merge.plan import MergePlan
from quire.server.calls import Answer, Call
from quire.server.cursors import read, written
from quire.server.handlers.commits import noted, token_of, told
from quire.server.operations import typed_values

SHOWN = 100
"""Conflicts of an answer, at most."""


Side = str | dict[str, Any] | None
Resolution = dict[str, Any]
"""A conflict of a preview with its `resolution`: "ours", "theirs", "delete", or "values" with `merged`."""


class Merging(msgspec.Struct, forbid_unknown_fields=True):
    """Bring `source` into `into`. `resolve` is "ours" or "theirs", for all tables or by table."""

    source: str
    into: str = "main"
    preview: bool = False
    mode: Literal["auto", "ff-only", "no-ff", "squash"] = "auto"
    resolve: Side = None
    resolutions: list[Resolution] = []
    granularity: Literal["cell", "row", "table"] | dict[str, str] = "cell"
    groups: dict[str, list[list[str]]] | None = None
    orphans: Literal["fail", "drop-edges", "keep-node"] = "fail"
    base: str | None = None
    theirs: str | None = None
    """The commit of the source that a preview was about: later ones are left out."""
    message: str | None = None
    timeout: float | None = None
    metadata: dict[str, str] = {}
    limit: int = SHOWN
    """Conflicts that a preview lists, at most."""


class Picking(msgspec.Struct, forbid_unknown_fields=True):
    """Do here what a commit did elsewhere, or undo what it did."""

    branch: str = "main"
    parent: int = 1
    preview: bool = False
    resolve: Side = None
    resolutions: list[Resolution] = []
    message: str | None = None
    metadata: dict[str, str] = {}
    limit: int = SHOWN


class ConflictsAsked(msgspec.Struct, forbid_unknown_fields=True):
    offset: int = 0
    limit: int = SHOWN


class PlanAt(msgspec.Struct, array_like=True, frozen=True):
    """Which preview a word stands for: it is planned again, so the server keeps nothing."""

    ours: str
    theirs: str
    asked: Merging


class RequestsAsked(msgspec.Struct, forbid_unknown_fields=True):
    state: Literal["open", "merged", "closed", "all"] = "open"


class NewRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A branch that should be merged."""

    source: str
    title: str
    text: str = ""
    into: str | None = None


class NewReview(msgspec.Struct, forbid_unknown_fields=True):
    """What somebody says of a request."""

    verdict: Literal["approve", "object", "comment"]
    text: str = ""


class Resolutions(msgspec.Struct, forbid_unknown_fields=True):
    """How conflicts are to be resolved when the request is merged."""

    resolutions: list[Resolution]


class MergingRequest(msgspec.Struct, forbid_unknown_fields=True):
    """How a request is merged. `force` merges it in spite of objections."""

    mode: Literal["auto", "ff-only", "no-ff", "squash"] = "auto"
    resolve: Side = None
    force: bool = False
    message: str | None = None


class Closing(msgspec.Struct, forbid_unknown_fields=True):
    """Why a request is closed."""

    text: str = ""


def merge(call: Call) -> Answer:
    """What a merge does, or with `preview` would do. With open conflicts nothing is committed: 409 lists them."""
    wanted = call.decoded(Merging)
    lake = call.lake(wanted.into)
    about: dict[str, Any] = {"token": token_of(call), "timeout": wanted.timeout}
    plan = _merge(lake, wanted, **about, metadata=noted(wanted.metadata))
    _resolve(lake, plan, wanted.resolutions)
    if wanted.preview:
        word = written(PlanAt(plan.ours, plan.theirs, msgspec.structs.replace(wanted, resolutions=[])))
        where = f"/v1/lakes/{call.path['lake']}/merges/{word}/conflicts"
        return Answer(
            {**_plan(call, plan, wanted.limit), "more": where if len(plan.conflicts) > wanted.limit else None}
        )
    return told(call, lake, plan.commit())


def conflicts(call: Call) -> Answer:
    """The conflicts of a preview by pages, as long as nobody commits to its branches."""
    at = read(call.path["merge"], PlanAt)
    asked: ConflictsAsked = call.query
    plan = _merge(call.lake(at.asked.into), at.asked)
    if (plan.ours, plan.theirs) != (at.ours, at.theirs):
        raise Conflict(
            "The branches have new commits since this merge was looked at.", next="Preview it again.", retryable=True
        )
    most = max(0, min(asked.limit, call.server.limits.page_rows))
    found = plan.conflicts[max(0, asked.offset) : max(0, asked.offset) + most]
    return Answer({"conflicts": found.to_list(), "count": len(plan.conflicts), "open": len(plan.conflicts.open)})


def cherry_pick(call: Call) -> Answer:
    return _one_commit(call, call.decoded(Picking), pick=True)


def revert(call: Call) -> Answer:
    """Undo a commit. A plain revert is done without planning a merge, where that is possible."""
    wanted = call.decoded(Picking)
    if wanted.preview or wanted.parent != 1 or wanted.resolve is not None or wanted.resolutions:
        return _one_commit(call, wanted, pick=False)
    lake = call.lake(wanted.branch)
    return told(call, lake, lake.revert(call.path["commit"], wanted.message, metadata=noted(wanted.metadata)))


def _one_commit(call: Call, wanted: Picking, *, pick: bool) -> Answer:
    lake = call.lake(wanted.branch)
    verb = lake.cherry_pick if pick else lake.revert
    about = noted(wanted.metadata)
    how: dict[str, Any] = {"parent": wanted.parent, "resolve": wanted.resolve, "metadata": about}
    plan: MergePlan = verb(call.path["commit"], wanted.message, preview=True, **how)
    _resolve(lake, plan, wanted.resolutions)
    return Answer(_plan(call, plan, wanted.limit)) if wanted.preview else told(call, lake, plan.commit())


def _merge(lake: Lake, wanted: Merging, **about: Any) -> MergePlan:
    how: dict[str, Any] = {
        "mode": wanted.mode,
        "resolve": wanted.resolve,
        "granularity": wanted.granularity,
        "groups": wanted.groups,
        "orphans": wanted.orphans,
        "base": wanted.base,
        "message": wanted.message,
    }
    plan = lake.merge(wanted.source, preview=True, **about, **how)
    if wanted.theirs is None or plan.theirs == wanted.theirs:
        return plan
    return lake.merge(f"{wanted.source}:{wanted.theirs}", preview=True, **about, **how)


def _resolve(lake: Lake, plan: MergePlan, given: list[Resolution]) -> None:
    """Apply resolutions, whose values in JSON become those of their columns."""
    if given:
        plan.resolve([_typed(lake, one) for one in given])


def _typed(lake: Lake, one: Resolution) -> Resolution:
    merged, snap = one.get("merged"), lake.snapshot()
    if not isinstance(merged, dict) or one.get("table") not in snap:
        return one
    return {**one, "merged": typed_values(snap[one["table"]].schema, merged)}


def _plan(call: Call, plan: MergePlan, limit: int) -> dict[str, Any]:
    said = plan.to_dict()
    most = max(0, min(limit, call.server.limits.page_rows))
    said["truncated"] = len(plan.conflicts) > most
    said["conflicts"] = said["conflicts"][:most]
    said["stale"] = plan.stale.to_list()
    return said


def requests(call: Call) -> Answer:
    return Answer({"requests": [one.to_dict() for one in call.lake().requests.list(call.query.state)]})


def request(call: Call) -> Answer:
    return Answer(call.lake().requests.get(_number(call)).to_dict())


def open_request(call: Call) -> Answer:
    wanted = call.decoded(NewRequest)
    made = call.lake().requests.open(wanted.source, wanted.title, wanted.text, into=wanted.into)
    where = f"/v1/lakes/{call.path['lake']}/requests/{made.number}"
    return Answer(made.to_dict(), status=201, headers={"location": where})


def review(call: Call) -> Answer:
    wanted = call.decoded(NewReview)
    return Answer(call.lake().requests.review(_number(call), wanted.verdict, wanted.text).to_dict())


def resolve(call: Call) -> Answer:
    wanted = call.decoded(Resolutions)
    return Answer(call.lake().requests.resolve(_number(call), wanted.resolutions).to_dict())


def merge_request(call: Call) -> Answer:
    """Merge what a request asks for. Asked again, the answer is the receipt of then."""
    wanted = call.decoded(MergingRequest)
    lake, number = call.lake(), _number(call)
    target = call.lake(lake.requests.get(number).target)
    how: dict[str, Any] = {"mode": wanted.mode, "resolve": wanted.resolve, "force": wanted.force}
    return told(call, target, lake.requests.merge(number, message=wanted.message, **how))


def close(call: Call) -> Answer:
    return Answer(call.lake().requests.close(_number(call), call.decoded(Closing).text).to_dict())


def reopen(call: Call) -> Answer:
    return Answer(call.lake().requests.reopen(_number(call)).to_dict())


def _number(call: Call) -> int:
    text = call.path["number"]
    if not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise InvalidInput(f"{text[:40]!r} is not the number of a request.", next="GET requests lists them.")
    return int(text)
