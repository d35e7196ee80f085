"""What all twins begin with: which lake, which branch, which commit, who asks, and what it cost to find out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from quire.ledger import MAIN
from quire.server.calls import Answer, Call
from quire.store.meter import metering

if TYPE_CHECKING:
    from quire.server.auth.actors import Actor
    from quire.server.state import Server


class At(msgspec.Struct, forbid_unknown_fields=True):
    """Which commit: the newest of a branch, or a commit, a tag or a time."""

    branch: str = MAIN
    at: str | None = None


Data = Callable[[Call], dict[str, Any]]


def state_of(page: str, data: Data, call: Call) -> dict[str, Any]:
    """All that a page is a function of."""
    with metering() as meter:
        shown = data(call)
    cost = {key: meter.to_dict()[key] for key in ("total", "hops", "retries", "bytes_in", "bytes_out", "seconds")}
    cost["lance"] = sum(meter.external.values())
    return {"page": page, "context": context(call), "data": shown, "cost": cost}


def twin(page: str, data: Data) -> Callable[[Call], Answer]:
    """The handler of a page's twin in JSON."""

    def handler(call: Call) -> Answer:
        state = state_of(page, data, call)
        return Answer(state, cost=state["cost"])

    return handler


def context(call: Call) -> dict[str, Any]:
    """Where a page is, and what who looks at it may do. It costs no request."""
    found = around(call.server, call.actor, call.path.get("lake"), call.headers)
    return found | {"branch": call.branch, "at": getattr(call.query, "at", None)} if "lake" in found else found


def around(server: Server, actor: Actor, name: str | None, headers: Mapping[str, str]) -> dict[str, Any]:
    """What surrounds a page whatever it shows, also when it cannot be shown; a lake only if the actor may know it."""
    found: dict[str, Any] = {
        "actor": actor.name,
        "signed_in": server.sessions.find(headers) is not None and not server.sessions.private,
        "lakes": [lake for lake in server.lakes.names() if actor.sees(lake)],
    }
    if name is not None and name in found["lakes"]:
        writable = not server.lakes.is_read_only(name)
        found |= {
            "lake": name,
            "write": writable and actor.may("write"),
            "admin": writable and actor.may("admin"),
            "address": server.lakes.copied(name),
        }
    return found
