"""Named consumers of changes, of which the lake knows how far they have come."""

from __future__ import annotations

from typing import Literal

import msgspec

from quire.errors import ConsumerNotFound
from quire.lake import Lake
from quire.lake.feed.consumers import Consumer
from quire.lake.feed.feed import Feed
from quire.lake.handles import consumer_feed
from quire.server.calls import Answer, Call
from quire.server.handlers.changes import Paging, answered


class NewConsumer(msgspec.Struct, forbid_unknown_fields=True):
    """A consumer to go on with, or a new one that begins at `since`."""

    name: str
    branch: str = "main"
    since: str | None = None
    tables: list[str] | None = None
    ops: list[Literal["insert", "update", "delete"]] | None = None
    images: Literal["after", "both", "none"] | None = None
    hold: float | None = None


class ConsumerAsked(Paging):
    """From a cursor on, or from where the consumer stands."""

    cursor: str | None = None


class Done(msgspec.Struct, forbid_unknown_fields=True):
    """Up to where a consumer is done; without a cursor its hold begins anew."""

    cursor: str | None = None
    branch: str = "main"


class Resetting(msgspec.Struct, forbid_unknown_fields=True):
    """Where a consumer begins anew."""

    since: str
    branch: str = "main"


def consumers(call: Call) -> Answer:
    return Answer({"consumers": [one.to_dict() for one in call.lake().consumers.list()]})


def open_consumer(call: Call) -> Answer:
    wanted = call.decoded(NewConsumer)
    made = call.lake(wanted.branch).consumers.open(
        wanted.name,
        since=wanted.since,
        tables=wanted.tables,
        ops=wanted.ops,
        images=wanted.images,
        hold=wanted.hold,
    )
    return Answer({"name": made.name, "commit": made.at})


def drop_consumer(call: Call) -> Answer:
    call.lake().consumers.drop(call.path["consumer"])
    return Answer(status=204, body=b"")


async def changes(call: Call) -> Answer:
    """What was committed since the consumer was last done."""
    asked: ConsumerAsked = call.query
    lake = await call.server.in_thread(call.lake)

    def begin(lake: Lake, since: str) -> Feed:
        found = _of(call, lake)
        return consumer_feed(found, since) if since else found.changes()

    return await answered(call, lake, asked, begin, asked.cursor or "")


def done(call: Call) -> Answer:
    wanted = call.decoded(Done)
    found = _of(call, call.lake(wanted.branch))
    if wanted.cursor is None:
        found.renew()
    else:
        found.commit(wanted.cursor)
    return Answer({"name": found.name, "commit": found.at})


def reset(call: Call) -> Answer:
    wanted = call.decoded(Resetting)
    found = _of(call, call.lake(wanted.branch))
    found.reset(wanted.since)
    return Answer({"name": found.name, "commit": found.at})


def _of(call: Call, lake: Lake) -> Consumer:
    name = call.path["consumer"]
    if not any(one.name == name for one in lake.consumers.list()):
        raise ConsumerNotFound(f"There is no consumer {name!r}.", next="GET consumers lists them.", consumer=name)
    return lake.consumers.open(name)
