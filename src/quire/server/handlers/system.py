"""The server itself: is it there, is it ready, what did it do, what can it do."""

from __future__ import annotations

from quire.errors import Refused
from quire.server.calls import Answer, Call
from quire.server.problems import HttpRefusal


def health(call: Call) -> Answer:
    return Answer({"status": "ok"})


def ready(call: Call) -> Answer:
    """Ready as long as it takes work and its lakes answer."""
    if call.server.stopping:
        raise HttpRefusal(503, Refused("The server is stopping.", next="Ask another one."))
    for lake in call.server.lakes.every():
        lake.refresh()
    return Answer({"status": "ready"})


def metrics(call: Call) -> Answer:
    text = call.server.metrics.text(call.server.gauges())
    return Answer(body=text.encode(), media_type="text/plain; version=0.0.4; charset=utf-8")


def openapi(call: Call) -> Answer:
    from quire.server.openapi import committed

    return Answer(body=committed())


def lakes(call: Call) -> Answer:
    names = [name for name in call.server.lakes.names() if call.actor.sees(name)]
    return Answer({"lakes": [{"name": n, "read_only": call.server.lakes.get(n).read_only} for n in names]})
