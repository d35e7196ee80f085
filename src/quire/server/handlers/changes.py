"""The change feed: a page of commits at once, after a wait for news, or as events for as long as the client listens."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

import anyio
import msgspec

from quire.errors import InvalidInput
from quire.lake import Lake
from quire.lake.feed.blocks import ChangeBlock
from quire.lake.feed.feed import Feed
from quire.lake.handles import slot_of
from quire.rowfiles.write import json_rows, to_json
from quire.server.calls import Answer, Call
from quire.server.row_formats import ARROW, NDJSON

if TYPE_CHECKING:
    import pyarrow as pa

EVENTS = "text/event-stream"
LONGEST_WAIT = 60.0
HEARTBEAT = 15.0
"""Seconds after which a client that listens hears that the server is still there."""

Begin = Callable[[Lake, str], Feed]
"""Makes a feed that begins at a place."""


class Paging(msgspec.Struct, forbid_unknown_fields=True):
    """How much of a feed is asked for."""

    branch: str = "main"
    limit: int = 100
    """Commits of one page; with 0 the answer is where the feed stands."""
    wait: float = 0.0
    rows: bool = True
    """Whether changed rows are told, or only which tables were changed."""


class ChangesAsked(Paging):
    """From where, which, and how long to wait when there is nothing new."""

    cursor: str | None = None
    since: str = "now"
    tables: list[str] = []
    ops: list[Literal["insert", "update", "delete"]] = []
    images: Literal["after", "both", "none"] = "after"
    net: bool = False
    """One block that leads to the newest commit."""


class BaselineAsked(msgspec.Struct, forbid_unknown_fields=True):
    """Which tables are read whole."""

    branch: str = "main"
    tables: list[str] | None = None


async def changes(call: Call) -> Answer:
    asked: ChangesAsked = call.query
    lake = await call.server.in_thread(call.lake)
    how: dict[str, Any] = {"tables": asked.tables or None, "ops": asked.ops or None, "images": asked.images}

    def begin(lake: Lake, since: str) -> Feed:
        return lake.changes(since, net=asked.net, **how)

    return await answered(call, lake, asked, begin, asked.cursor or asked.since)


async def answered(call: Call, lake: Lake, asked: Paging, begin: Begin, since: str) -> Answer:
    """A feed in the form that the client asks for."""
    if not 0 <= asked.limit <= 1000 or not 0 <= asked.wait <= LONGEST_WAIT:
        raise InvalidInput(
            f"limit is a number from 0 to 1000, and wait one from 0 to {LONGEST_WAIT:g}.", next="Correct it."
        )
    accept = call.headers.get("accept", "")
    if EVENTS in accept:
        since = call.headers.get("last-event-id") or since
        call.finally_do(call.server.followers.taken(call.actor))  # before anything is read for it, or told to it
        seen, page = await call.server.in_thread(partial(_page, lake, asked, begin, since))
        return Answer(events=_events(call, lake, asked, begin, seen, page), media_type=EVENTS)
    arrow = ARROW in accept
    looked = msgspec.structs.replace(asked, rows=False, limit=min(asked.limit, 1)) if arrow else asked
    seen, page = await call.server.in_thread(partial(_page, lake, looked, begin, since))
    until = anyio.current_time() + asked.wait
    if asked.limit and asked.wait and not page["changes"]:
        call.finally_do(call.server.followers.taken(call.actor))
    while asked.limit and not page["changes"] and (left := until - anyio.current_time()) > 0:
        if not await call.server.followers.wait(lake, seen, left):
            break
        since = page["cursor"]
        seen, page = await call.server.in_thread(partial(_page, lake, looked, begin, since))
    if arrow:
        return Answer(stream=_arrow(begin(lake, since), asked.limit), media_type=ARROW)
    return Answer(body=await call.server.in_thread(partial(to_json, page)))


async def _events(
    call: Call, lake: Lake, asked: Paging, begin: Begin, seen: int, page: dict[str, Any]
) -> AsyncIterator[bytes]:
    """An event for every commit; its id is the cursor by which a client that lost the connection goes on."""
    yield b"retry: 1000\n\n"
    while not call.server.stopping:
        for block in page["changes"]:
            body = await call.server.in_thread(partial(to_json, block))
            yield b"id: %s\nevent: commit\ndata: %s\n\n" % (block["cursor"].encode(), body)
        if not page["changes"] and not await call.server.followers.wait(lake, seen, HEARTBEAT):
            yield b": still here\n\n"
            continue
        seen, page = await call.server.in_thread(partial(_page, lake, asked, begin, page["cursor"]))


def _page(lake: Lake, asked: Paging, begin: Begin, since: str) -> tuple[int, dict[str, Any]]:
    """Blocks after a place, and a slot up to which they were looked for."""
    seen = slot_of(lake)  # reading asks for news, so it sees at least this
    feed = begin(lake, since)
    blocks = []
    for block in islice(feed, asked.limit):
        said = block.to_dict()
        for told, table in zip(said["tables"], block.tables.values(), strict=True):
            told["key"] = list(table.key)
            if asked.rows:
                told["rows"] = [row for batch in table.batches() for row in json_rows(batch)]
        blocks.append(said)
    return seen, {"changes": blocks, "cursor": feed.cursor}


# -- for programs ------------------------------------------------------------------------------------------------------


def envelope() -> pa.Schema:
    """Changes as one stream of Arrow: tables differ in their columns, so each batch of rows is a stream of its own.

    A line has a `block` as JSON, or `rows` of the table at this place in the block before. The last line has the
    `cursor` up to which changes were told. Of a baseline there are no rows: read them at its commit.
    """
    import pyarrow as pa

    fields = [("block", pa.string()), ("table", pa.int32()), ("rows", pa.binary()), ("cursor", pa.string())]
    return pa.schema([pa.field(name, kind) for name, kind in fields])


def _arrow(feed: Feed, limit: int) -> Iterator[bytes]:
    import pyarrow as pa

    schema, sink = envelope(), io.BytesIO()
    with pa.ipc.new_stream(sink, schema) as writer:

        def taken() -> bytes:
            found = sink.getvalue()
            sink.seek(0)
            sink.truncate()
            return found

        def line(**said: Any) -> bytes:
            writer.write_batch(pa.RecordBatch.from_pylist([said], schema=schema))
            return taken()

        for block in islice(feed, limit):
            yield line(block=to_json(_head(block)).decode())
            for place, table in enumerate(block.tables.values()) if not block.baseline else ():
                told = False
                for batch in table.batches():
                    told = True
                    yield line(table=place, rows=_stream(pa.Table.from_batches([batch])))
                if not told:
                    yield line(table=place, rows=_stream(table.rows))
        yield line(cursor=feed.cursor)
    yield taken()


def _head(block: ChangeBlock) -> dict[str, Any]:
    said = block.to_dict()
    for told, table in zip(said["tables"], block.tables.values(), strict=True):
        told["key"] = list(table.key)
    return said


def _stream(rows: pa.Table) -> bytes:
    import pyarrow as pa

    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue()


def baseline(call: Call) -> Answer:
    """All rows of the newest commit as JSON lines; the last line has the cursor from which the feed goes on."""
    wanted = call.decoded(BaselineAsked)
    feed = call.lake(wanted.branch).changes("baseline", tables=wanted.tables)
    block = next(iter(feed))

    def lines() -> Iterator[bytes]:
        for table in block.tables.values():
            for batch in table.batches():
                yield b"".join(to_json({"_table": table.name, **row}) + b"\n" for row in json_rows(batch))
        yield to_json({"_commit": block.commit, "_cursor": block.cursor}) + b"\n"

    return Answer(stream=lines(), media_type=NDJSON, headers={"quire-commit": block.commit})
