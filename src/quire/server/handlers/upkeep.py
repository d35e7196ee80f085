"""Upkeep of a lake, as jobs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from quire.errors import NotFound
from quire.lake import Lake
from quire.lake.handles import allow_on_lake
from quire.server.calls import Answer, Call


class Upkeep(msgspec.Struct, forbid_unknown_fields=True):
    """Options of cleanup and optimize, as those of the library."""

    dry_run: bool = False
    keep: int = 10
    older_than: float = 7 * 86_400.0
    grace: float = 3_600.0
    dead_after: float = 86_400.0
    target_rows: int = 1 << 20
    deleted: float = 0.1
    tables: list[str] | None = None
    deep: bool = False
    branch: str = "main"


def _cleanup(lake: Lake, how: Upkeep) -> Any:
    times: dict[str, Any] = {"older_than": how.older_than, "grace": how.grace, "dead_after": how.dead_after}
    return lake.cleanup(keep=how.keep, dry_run=how.dry_run, **times).to_dict()


def _optimize(lake: Lake, how: Upkeep) -> Any:
    sizes: dict[str, Any] = {"target_rows": how.target_rows, "deleted": how.deleted}
    return lake.optimize(how.tables, dry_run=how.dry_run, **sizes).to_dict()


def _recover(lake: Lake, how: Upkeep) -> Any:
    return lake.recover().to_dict()


def _verify(lake: Lake, how: Upkeep) -> Any:
    return lake.verify(deep=how.deep).to_dict()


SHOWN = (
    "branch", "head", "time", "tables", "rows", "bytes", "checkpoint", "uncheckpointed", "pending_backfill", "floor",
    "tokens", "load", "scattered", "offers",
)  # fmt: skip
"""What a status tells to clients: nothing of where anything lies."""


def _backfill(lake: Lake, how: Upkeep) -> Any:
    return {"tables": [one.to_dict() for one in lake.backfill()]}


VERBS: dict[str, Callable[[Lake, Upkeep], Any]] = {
    "backfill": _backfill,
    "cleanup": _cleanup,
    "optimize": _optimize,
    "recover": _recover,
    "verify": _verify,
}


def begin(call: Call) -> Answer:
    """Begin a job; `jobs/{id}` says how it stands."""
    wanted, verb = call.decoded(Upkeep), call.path["verb"]
    lake = call.lake(wanted.branch)
    if verb not in VERBS:
        raise NotFound(f"There is no upkeep {verb!r}.", next=f"There are {', '.join(sorted(VERBS))}.")
    allow_on_lake(lake, verb)
    job = call.server.jobs.begin(call.path["lake"], verb, call.actor.name, partial(VERBS[verb], lake, wanted))
    where = f"/v1/lakes/{call.path['lake']}/jobs/{job.id}"
    return Answer(job.to_dict(), status=202, headers={"location": where})


def job(call: Call) -> Answer:
    return Answer(call.server.jobs.get(call.path["lake"], call.path["job"]).to_dict())


def status(call: Call) -> Answer:
    """Where the lake stands: its head, what is not backfilled, foreign writes."""
    said = call.lake().status()
    return Answer({name: said[name] for name in SHOWN})
