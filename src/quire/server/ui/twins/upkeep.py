"""Upkeep: how a lake is, what holds old commits, what is to do; and what happens in it right now."""

from __future__ import annotations

from typing import Any

from quire.lake.handles import protectors_of
from quire.server.calls import Call
from quire.server.handlers.upkeep import SHOWN

VERBS = ("optimize", "cleanup", "recover", "verify")


def upkeep(call: Call) -> dict[str, Any]:
    """Where the lake stands, what keeps old commits and staged files, and the jobs that this server ran."""
    lake = call.lake()
    status = lake.status()
    said = {name: status[name] for name in SHOWN}
    said["offers"] = status["offers"]
    said["background_failures"] = len(status["background_failures"])
    consumers = [one.to_dict() for one in lake.consumers.list()]
    return {
        "status": said,
        "consumers": consumers,
        "recoveries": len(list(lake.recoveries())),
        "tags": [{"name": name, "commit": str(tag)} for name, tag in lake.tags().items()],
        **protectors_of(lake),
        "jobs": [job.to_dict() for job in call.server.jobs.of(call.path["lake"])],
        "verbs": VERBS,
    }


def live(call: Call) -> dict[str, Any]:
    """The newest commits, and the place after which more are told."""
    lake = call.lake()
    recent = [entry.to_dict() for entry in lake.log(limit=15)]
    return {"recent": recent, "cursor": lake.changes("now").cursor}
