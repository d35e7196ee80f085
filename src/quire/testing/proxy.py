"""A proxy in front of an S3-compatible server that counts, delays, caps and cuts what passes through it.

Bytes are forwarded as they are, Host and Authorization included, so every client's signatures stay valid: Quire's, that
of Lance's own client, anybody's. Point the clients at `endpoint` instead of the server.

    with SeaweedFS() as s3, Proxy(s3.endpoint) as proxy:
        lake = quire.open(uri, storage_options={**s3.options, "aws_endpoint": proxy.endpoint})
        proxy.latency = 0.02                        # seconds per request, from now on
        proxy.concurrency = 8                       # at most so many at the server at once, first come first served
        start = proxy.mark()
        lake.create_table("t", [{"id": 1}])
        proxy.counts("kind", "key_class", since=start)          # {("PUT", "data"): 1, ("create", "slot"): 1, …}
        longest_chain(proxy.since(start))                       # sequential hops, as seen on the wire
        cut = proxy.cut(lambda r: r.key_class == "slot", side="after")    # the slot is written, its answer is lost
        lake.create_table("u", [{"id": 1}])                     # Quire reads the slot and finds that it is its own
        assert cut.hits

Give it a latency before you count hops: what runs side by side overlaps then whatever the scheduler does. Plain
HTTP/1.1, path-style addresses, no pipelining. A fault that was armed and met by no request has no `hits`: assert them.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from quire.testing.wire import BrokenPeer, Gate, Head, Request, error_answer, longest_chain, pieces, read_head

__all__ = ["Fault", "Proxy", "Request", "Side", "When", "longest_chain"]

Side = Literal["before", "after"]
When = Callable[[Request], bool] | int | None
"""Which request: a predicate, the how-manieth from now on (1 is the next), or None for any."""

_AT_ONCE = 1 << 16
_HEAD = 1 << 20


@dataclass
class Fault:
    """Something that happens to the requests for which `when` holds: from the `nth` of them on, `times` times."""

    act: Literal["cut", "answer", "delay"]
    when: Callable[[Request], bool] | None = None
    nth: int = 1
    times: int | None = 1
    side: Side = "before"
    then_dead: bool = False
    status: int = 503
    seconds: float = 0.0
    hits: list[Request] = field(default_factory=list)
    """The requests that met it."""
    _seen: int = 0

    def meets(self, request: Request) -> bool:
        if (self.times is not None and len(self.hits) >= self.times) or not (self.when is None or self.when(request)):
            return False
        self._seen += 1
        if self._seen < self.nth:
            return False
        self.hits.append(request)
        return True


class Proxy:
    """One listening port in front of `upstream`. Safe to use from any thread; stops with its `with` block."""

    def __init__(
        self,
        upstream: str,
        *,
        latency: float = 0.0,
        concurrency: int | None = None,
        loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
    ) -> None:
        """`loop` makes the event loop that it runs in: uvloop's takes less CPU."""
        parts = urlsplit(upstream)
        if parts.scheme != "http" or not parts.hostname:
            raise ValueError(f"The proxy speaks plain HTTP only, and {upstream!r} is not an http:// address.")
        self.upstream = (parts.hostname, parts.port or 80)
        self.port = 0
        self.latency = latency
        self.dead = False
        """While true, every connection is closed as it comes: what a client sends after its death."""
        self._gate = Gate(concurrency)
        self._requests: list[Request] = []
        self._faults: list[Fault] = []
        self._failures: list[Exception] = []
        self._stopping = asyncio.Event()
        self._flying = 0
        self._quiet = threading.Condition()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._new_loop = loop

    # -- life -------------------------------------------------------------------------------------------------

    @property
    def endpoint(self) -> str:
        """The address for clients."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        listening = socket.create_server(("127.0.0.1", 0), backlog=512)
        listening.setblocking(False)
        self.port = int(listening.getsockname()[1])
        self._loop = self._new_loop()
        self._thread = threading.Thread(target=self._run, args=(self._loop, listening), name="quire-proxy", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
        if self._failures and error is None:
            raise self._failures[0]

    def stop(self) -> None:
        """Close every connection and the port. What was counted stays."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        self._loop = self._thread = None
        loop.call_soon_threadsafe(self._stopping.set)
        thread.join()

    def _run(self, loop: asyncio.AbstractEventLoop, listening: socket.socket) -> None:
        with contextlib.closing(loop):
            loop.run_until_complete(self._live(listening))

    async def _live(self, listening: socket.socket) -> None:
        accepting = asyncio.ensure_future(self._accept(listening))
        await self._stopping.wait()
        for task in (accepting, *self._tasks):
            task.cancel()
        await asyncio.gather(accepting, *self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # transports close one turn after they are told to

    async def _accept(self, listening: socket.socket) -> None:
        # By hand, because asyncio's own server loses a connection that it accepts while it is closed.
        loop = asyncio.get_running_loop()
        with listening:
            while True:
                client, _ = await loop.sock_accept(listening)
                if self.dead:
                    client.close()
                    continue
                task = asyncio.ensure_future(self._serve(client))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    # -- controls ---------------------------------------------------------------------------------------------

    @property
    def concurrency(self) -> int | None:
        """How many requests may be at the server at once; None for any number."""
        return self._gate.limit

    @concurrency.setter
    def concurrency(self, limit: int | None) -> None:
        self._gate.limit = limit
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._gate.wake)

    def cut(
        self, when: When = None, *, side: Side = "before", nth: int = 1, times: int | None = 1, then_dead: bool = False
    ) -> Fault:
        """Close the connection on a request.

        `before`: the server never sees it. `after`: the server has answered, and the answer is thrown away. With
        `then_dead` this is the client's death: exactly the requests that came until then reach the server, no answer
        and no later request passes.
        """
        return self._arm(Fault("cut", side=side, times=times, then_dead=then_dead), when, nth)

    def answer(self, status: int, when: When = None, *, nth: int = 1, times: int | None = 1) -> Fault:
        """Answer with an error of S3's (409, 412, 500, 503, …); the server never sees the request."""
        return self._arm(Fault("answer", status=status, times=times), when, nth)

    def delay(self, seconds: float, when: When = None, *, nth: int = 1, times: int | None = 1) -> Fault:
        """Hold a request up on its way to the server."""
        return self._arm(Fault("delay", seconds=seconds, times=times), when, nth)

    def _arm(self, fault: Fault, when: When, nth: int) -> Fault:
        fault.when, fault.nth = (None, when) if isinstance(when, int) else (when, nth)
        self._faults = [*self._faults, fault]
        return fault

    def heal(self) -> None:
        """Disarm every fault, and accept connections again."""
        self._faults = []
        self.dead = False

    # -- what passed ------------------------------------------------------------------------------------------

    @property
    def requests(self) -> list[Request]:
        """Everything that came, in order; a request is there from the moment its head was read."""
        return list(self._requests)

    def mark(self) -> int:
        """A place in `requests`, for `since`."""
        return len(self._requests)

    def since(self, mark: int) -> list[Request]:
        """What came after a mark."""
        return self._requests[mark:]

    def counts(self, *by: str, since: int = 0) -> Counter[Any]:
        """Requests by one attribute (default: kind), or by several together."""
        names = by or ("kind",)
        values = (tuple(getattr(r, name) for name in names) for r in self.since(since))
        return Counter(value[0] if len(names) == 1 else value for value in values)

    def settle(self, timeout: float = 30.0) -> bool:
        """Wait until no request is under way, so that nothing changes at the server any more. False: time ran out."""
        with self._quiet:
            return self._quiet.wait_for(lambda: self._flying == 0, timeout)

    # -- one client connection --------------------------------------------------------------------------------

    async def _serve(self, client: socket.socket) -> None:
        link = _Link(self.upstream)
        try:
            with client:
                reader, writer = await asyncio.open_connection(sock=client, limit=_HEAD)
                try:
                    while not self.dead and await self._exchange(reader, writer, link):
                        pass
                finally:
                    writer.transport.abort()  # nothing that is still buffered goes out
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError, BrokenPeer):
            pass  # a peer went away, or the proxy stops
        except Exception as error:
            self._failures.append(error)
        finally:
            link.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, link: _Link) -> bool:
        """One request and its answer. False when the connection is not to be used again."""
        head = await read_head(reader)
        if head is None or self.dead:
            return False
        request = Request.of(len(self._requests) + 1, head, time.perf_counter())
        self._requests.append(request)
        with self._quiet:
            self._flying += 1
        try:
            return await self._handle(request, head, reader, writer, link)
        finally:
            request.ended = request.ended or time.perf_counter()
            with self._quiet:
                self._flying -= 1
                self._quiet.notify_all()

    async def _handle(
        self, request: Request, head: Head, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, link: _Link
    ) -> bool:
        met = [fault for fault in self._faults if fault.meets(request)]
        self.dead = self.dead or any(fault.then_dead for fault in met)
        async with self._gate:
            wait = self.latency + sum(fault.seconds for fault in met)
            if wait:
                await asyncio.sleep(wait)
            for fault in met:
                if fault.act == "cut" and fault.side == "before":
                    return False
                if fault.act == "answer":
                    return await self._refuse(fault.status, request, head, reader, writer)
            lost = any(fault.act == "cut" for fault in met)
            return await self._forward(request, head, reader, writer, link, lost=lost)

    async def _refuse(
        self, status: int, request: Request, head: Head, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """An error of our own, once the body is read: a client that waits to be told to go on is not told."""
        if not head.expects:
            async for piece in pieces(reader, head, answer_to=None):
                request.bytes_out += len(piece)
        request.status, request.ended = status, time.perf_counter()
        writer.write(error_answer(status, request.key, bodiless=request.method == "HEAD", last=head.expects))
        await writer.drain()
        return not head.expects

    async def _forward(
        self,
        request: Request,
        head: Head,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        link: _Link,
        *,
        lost: bool,
    ) -> bool:
        server, out = await link.open()
        sending = None
        if head.short_body is not None:
            body = await reader.readexactly(head.short_body)
            request.bytes_out = len(body)
            out.write(head.raw + body)
        else:
            out.write(head.raw)
            if head.has_body:
                # It goes out while the answer is waited for: the server may want to be asked first, or refuse early.
                sending = asyncio.ensure_future(_send(request, head, reader, out))
        try:
            answer = await _answer(server, writer)
            waiting = answer.raw
            async for piece in pieces(server, answer, answer_to=request.method):
                request.bytes_in += len(piece)
                if lost or self.dead:
                    continue
                if len(waiting) + len(piece) > _AT_ONCE:
                    writer.write(waiting)
                    await writer.drain()
                    waiting = b""
                waiting += piece
            sent = sending is None or sending.done()
        finally:
            if sending is not None:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
        if lost or self.dead:
            return False
        # Stamped before the last bytes leave: a request that waits for this answer begins later on this clock.
        request.status, request.ended = answer.status, time.perf_counter()
        writer.write(waiting)
        await writer.drain()
        if head.closes or answer.closes or answer.until_end or not sent:
            writer.close()  # in order: the client has a whole answer
            await writer.wait_closed()
            return False
        return True


async def _send(request: Request, head: Head, reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
    try:
        async for piece in pieces(reader, head, answer_to=None):
            request.bytes_out += len(piece)
            out.write(piece)
            await out.drain()
    except (OSError, asyncio.IncompleteReadError, BrokenPeer):
        out.transport.abort()  # the client left in the middle: the server must not wait for the rest


async def _answer(server: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Head:
    """The final answer; interim ones are passed on as they come."""
    while True:
        answer = await read_head(server)
        if answer is None:
            raise BrokenPeer("the server closed the connection instead of answering")
        if answer.status >= 200:
            return answer
        writer.write(answer.raw)
        await writer.drain()


class _Link:
    """The one connection to the server that belongs to a client's connection, made when it is needed."""

    def __init__(self, upstream: tuple[str, int]) -> None:
        self._upstream = upstream
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is not None and self._streams[0].at_eof():
            self.close()  # the server ended an idle connection
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._upstream, limit=_HEAD)
        return self._streams

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None
