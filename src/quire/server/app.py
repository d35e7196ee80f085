"""The application: the steps of every request, from the socket to the answer. Plain ASGI.

    address → who → role → place in flight → query → handler → answer, or a problem

Nothing that a handler raises reaches the client but as a problem. An error after the first byte breaks the connection
off, so that no client takes a part for the whole.
"""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import nullcontext
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

import anyio
import msgspec

from quire.errors import Denied, InvalidInput, LakeNotFound, QuireError, Unauthenticated
from quire.lake.context import acting_as
from quire.lake.guard import NOBODY, Who, act_as
from quire.lake.read.sql_limits import limited
from quire.ledger.records import learn, reader
from quire.rowfiles.write import to_json
from quire.server import problems
from quire.server.auth.actors import ANYBODY, Actor
from quire.server.bodies import Body, ClientGone
from quire.server.calls import Answer, Call
from quire.server.delta.route_table import DELTA_ROUTES
from quire.server.lance.route_table import LANCE_ROUTES
from quire.server.problems import HttpRefusal, Told
from quire.server.route_table import ROUTES, SYSTEM
from quire.server.routes import Route, Routes
from quire.server.state import Server
from quire.server.ui import browsers, reading, shell
from quire.server.ui.ui_routes import ROUTES as PAGES

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
VIA = "http"
UNKNOWN = "unknown"
"""What metrics and logs call an address that there is not."""


class BrokenOff(Exception):
    """An answer could not be finished: the connection is closed without its end."""


class App:
    """The ASGI application of a server."""

    def __init__(self, server: Server, *, check_answers: bool = False) -> None:
        self.server = server
        own = SYSTEM if server.config.only is not None else (*ROUTES, *PAGES)
        delta = () if server.config.only is not None else DELTA_ROUTES
        self.routes = Routes((*own, *LANCE_ROUTES, *delta))
        self._check = check_answers
        """Whether answers in JSON are held against the types that `openapi.json` names: for tests."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await _Exchange(self, scope, receive, send).run()
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1003})

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        sweeping: asyncio.Task[None] | None = None
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                sweeping = asyncio.ensure_future(self.server.sweep())
                await send({"type": "lifespan.startup.complete"})
            else:
                if sweeping is not None:
                    sweeping.cancel()
                self.server.stop()
                await self.server.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    def check(self, route: Route, body: bytes) -> None:
        """Hold an answer against the type that the route names."""
        if self._check and route.answer is not None:
            reader(route.answer).decode(body)


class _Exchange:
    """One request and its answer."""

    def __init__(self, app: App, scope: Scope, receive: Receive, send: Send) -> None:
        self.app, self.server = app, app.server
        self.scope, self.receive, self._send = scope, receive, send
        self.headers: dict[str, str] = {}
        self.method: str = scope["method"]
        self.id = uuid.uuid4().hex
        self.began = time.monotonic()
        self.route: Route | None = None
        self.path: dict[str, str] = {}
        self.address = ""
        self.actor: Actor | None = None
        self.body: Body | None = None
        self.started = False
        self.status = 0
        self.sent = 0
        self.kind: str | None = None
        self.ends: list[Callable[[], None]] = []

    async def run(self) -> None:
        """Answer. Whatever happens is counted and logged."""
        try:
            try:
                await self._answer(await self._handled())
            except ClientGone:
                self.kind = "client-gone"
            except Exception as error:
                await self._problem(error)
        finally:
            for end in self.ends:
                end()
            self._told()

    # -- the steps ----------------------------------------------------------------------------------------------

    async def _handled(self) -> Answer:
        self._read_headers()
        raw = self.scope["raw_path"].split(b"?")[0]
        self.address = raw.decode("ascii", "replace")
        browsers.check(self.method, self.headers, private=self.server.sessions.private)
        self.route, self.path = self.app.routes.find(self.method, raw)
        self.actor = await self._who(self.route)
        act_as(Who(self.actor.name, self.actor.roles, VIA, self.id))
        if self.method == "HEAD" and self.route.follows:
            raise InvalidInput("This address has no headers to look at alone.", next="Use GET.")
        follows = self.route.follows
        place = self.server.in_flight.taken(self.actor.name, writes=self.route.writes)
        with nullcontext() if follows or self.route.access == "public" else place:
            call = self._call(self.route, self.actor)
            self.ends = call.ends
            if follows:
                answer = self.route.handler(call)
                assert not isinstance(answer, Answer)
                found = await answer
                if found.stream is not None:
                    await self._streamed(found, found.stream)
                return found
            found = await self.server.in_thread(partial(self._work, self.route, call))
            if found.stream is not None:  # a place is held until the last piece is sent
                await self._streamed(found, found.stream)
            return found

    def _work(self, route: Route, call: Call) -> Answer:
        """What happens in a worker thread: the handler, and writing what it found as JSON."""
        with acting_as(call.actor.name, call.noted), limited(self.server.sql_limits):
            found = route.handler(call)
        assert isinstance(found, Answer)
        if found.body is None and found.stream is None:
            found.body = to_json(found.value)
            self.app.check(route, found.body)
        return found

    def _read_headers(self) -> None:
        for raw, value in self.scope["headers"]:
            name = raw.decode("latin-1").lower()
            if name in ("content-length", "transfer-encoding", "host", "authorization") and name in self.headers:
                raise InvalidInput(f"The request has more than one header {name}.", next="Send it once.")
            text = value.decode("latin-1")
            self.headers[name] = f"{self.headers[name]}, {text}" if name in self.headers else text
        given = self.headers.get("x-request-id", "")
        if _REQUEST_ID.fullmatch(given):
            self.id = given
        if "content-length" in self.headers and "transfer-encoding" in self.headers:
            raise InvalidInput("The request says its length in two ways.", next="Send one of the two headers.")

    async def _who(self, route: Route) -> Actor:
        """Who asks, if it may ask for this kind of thing at all."""
        if route.access == "public":
            return ANYBODY
        lake = self.path.get("lake")
        try:
            self.actor = actor = await self._actor(route)
        except Unauthenticated:
            self._refused_before(
                NOBODY, lake, route
            )  # without the id, so that however many there are, they are counted
            raise
        who = Who(actor.name, actor.roles, VIA, self.id)
        if lake is not None and not actor.sees(lake):
            self._refused_before(who, lake, route)
            raise LakeNotFound(f"This server has no lake {lake!r}.", next="GET /v1/lakes lists them.", lake=lake)
        if route.access != "any" and not actor.may(route.access):
            self._refused_before(who, lake, route)
            raise Denied(
                f"{actor.name!r} may not {route.summary[0].lower()}{route.summary[1:].rstrip('.')}.",
                next=f"This takes the role {route.access!r}.",
                role=route.access,
            )
        return actor

    def _refused_before(self, who: Who, lake: str | None, route: Route) -> None:
        """Write down who was refused, of those that no lake hears of."""
        if lake is not None:
            self.server.lakes.refused(lake, who, route.name)

    def _credentials(self, route: Route) -> dict[str, str]:
        """The headers, with a token where the clients of a face put it."""
        key = self.headers.get(route.face.key_header or "") if route.face is not None else None
        if key is None or "authorization" in self.headers:
            return self.headers
        return {**self.headers, "authorization": f"Bearer {key}"}

    async def _actor(self, route: Route) -> Actor:
        """Who asks: by a cookie that stands for somebody, else by what the gate knows."""
        sessions = self.server.sessions
        session = sessions.find(self.headers)
        if session is None:
            if sessions.private:
                raise sessions.refuse(self.headers)
            return await self.server.gate.actor(self._credentials(route), self.server.in_thread)
        browsers.check_written(self.method, self.headers)
        if session.actor is not None:
            return session.actor
        known = {**self.headers, "authorization": f"Bearer {session.token}"}
        return await self.server.gate.actor(known, self.server.in_thread)

    def _call(self, route: Route, actor: Actor) -> Call:
        declared = self.headers.get("content-length", "")
        self.body = Body(
            self.receive,
            int(declared) if declared.isdecimal() else None,
            self.server.limits.body_bytes,
            self.server.limits.idle_seconds,
        )
        query = _query(route, self.scope.get("query_string", b""))
        where = (self.path, query, self.headers, self.body, self.address)
        return Call(self.server, self.id, actor, *where, audited=route.audited)

    # -- the answer ---------------------------------------------------------------------------------------------

    async def _answer(self, answer: Answer) -> None:
        if answer.stream is not None:
            return
        if answer.events is not None:
            await self._events(answer)
            return
        body = answer.body if answer.body is not None else to_json(answer.value)
        await self._start(answer, len(body))
        await self._piece(b"" if self.method == "HEAD" else body, last=True)

    async def _streamed(self, answer: Answer, pieces: Iterator[bytes]) -> None:
        """Send pieces as they are made. The first is made before anything is sent, so that its error is a problem."""
        step = partial(next, pieces, None)
        try:
            piece = await self.server.in_thread(step)
            await self._start(answer, None)
            if self.method == "HEAD":
                piece = None
            async with anyio.create_task_group() as tasks:
                gone = anyio.Event()
                tasks.start_soon(self._watch, gone)
                while piece is not None and not gone.is_set():
                    await self._piece(piece)
                    piece = await self.server.in_thread(step)
                tasks.cancel_scope.cancel()
            if not gone.is_set():
                await self._piece(b"", last=True)
            else:
                self.kind = "client-gone"
        except ExceptionGroup as group:
            raise group.exceptions[0] from None
        finally:
            close = getattr(pieces, "close", None)
            if close is not None:
                with anyio.CancelScope(shield=True):
                    await self.server.in_thread(close)

    async def _events(self, answer: Answer) -> None:
        assert answer.events is not None
        await self._start(answer, None)
        async with anyio.create_task_group() as tasks:
            gone = anyio.Event()
            tasks.start_soon(self._watch, gone, tasks)
            async for piece in answer.events:
                await self._piece(piece)
            tasks.cancel_scope.cancel()
        if not gone.is_set():
            await self._piece(b"", last=True)

    async def _watch(self, gone: anyio.Event, tasks: Any = None) -> None:
        """Notice that the client went away."""
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                gone.set()
                if tasks is not None:
                    tasks.cancel_scope.cancel()
                return

    async def _start(self, answer: Answer, length: int | None) -> None:
        headers = {"content-type": answer.media_type, "cache-control": "no-cache", "x-content-type-options": "nosniff"}
        headers |= answer.headers
        headers["x-request-id"] = self.id
        headers["server-timing"] = f"app;dur={(time.monotonic() - self.began) * 1000:.1f}"
        if answer.cost:
            headers["quire-cost"] = ", ".join(f"{n}={answer.cost[n]}" for n in ("total", "hops") if n in answer.cost)
        if length is not None and answer.status not in (204, 304):
            headers["content-length"] = str(length)
        if answer.status == 304:
            del headers["content-type"]
        self.status, self.started = answer.status, True
        raw = [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items()]
        await self._send({"type": "http.response.start", "status": answer.status, "headers": raw})

    async def _piece(self, piece: bytes, *, last: bool = False) -> None:
        self.sent += len(piece)
        await self._send({"type": "http.response.body", "body": piece, "more_body": not last})

    # -- what went wrong ----------------------------------------------------------------------------------------

    async def _problem(self, error: Exception) -> None:
        if isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        status, headers = 500, {}
        if isinstance(error, Told):
            await self._refused(error)
            return
        if isinstance(error, HttpRefusal):
            said, status, headers = error.error, error.status, error.headers
        elif isinstance(error, QuireError):
            said, status = error, problems.status_of(error)
        elif isinstance(error, ClientGone):
            self.kind = "client-gone"
            return
        else:
            self._unexpected(error)
            said = QuireError("The server failed.", next="Report the request id to whoever runs the server.")
        face = self.app.routes.face(self.scope["raw_path"])
        if face is not None:
            await self._refused(face.problem(said, status, self.id, self._hidden()))
            return
        self.kind = said.kind
        if self.started:
            raise BrokenOff(said.kind) from None
        settle = f"/v1/lakes/{self.path['lake']}/outcomes" if "lake" in self.path else None
        body = problems.body_of(said, status, self.id, self._hidden())
        headers = {**problems.headers_of(said, settle), **headers}
        if self.body is not None and not self.body.finished:
            headers["connection"] = "close"  # what is left of the body is not read
        if self._looked_at():
            known = self.actor
            around = {} if known is None else reading.around(self.server, known, self.path.get("lake"), self.headers)
            answer = shell.problem(self.address, body, status, around)
            answer.headers |= headers
        else:
            answer = Answer(status=status, headers=headers, media_type=problems.MEDIA_TYPE, body=to_json(body))
        await self._start(answer, len(answer.body or b""))
        await self._piece(b"" if self.method == "HEAD" else answer.body or b"", last=True)

    async def _refused(self, told: Told) -> None:
        """Answer as a face does."""
        self.kind = told.kind or None
        if self.started:
            raise BrokenOff(told.kind) from None
        headers = dict(told.headers)
        if self.body is not None and not self.body.finished:
            headers["connection"] = "close"  # what is left of the body is not read
        await self._start(Answer(status=told.status, headers=headers, media_type=told.media_type), len(told.body))
        await self._piece(b"" if self.method == "HEAD" else told.body, last=True)

    def _looked_at(self) -> bool:
        """Whether a person looks at the answer: what went wrong is a page, then."""
        if self.route is not None:
            return self.route.page
        return self.address.startswith("/ui/") and "text/html" in self.headers.get("accept", "")

    def _hidden(self) -> dict[str, str]:
        """Where the lakes lie is no business of clients."""
        return self.server.lakes.addresses()

    def _unexpected(self, error: Exception) -> None:
        """Log where a mistake of ours is: the type and the lines, not the text, which may hold data."""
        frames, trace = [], error.__traceback__
        while trace is not None:
            code = trace.tb_frame.f_code
            frames.append(f"{code.co_filename.rpartition('quire/')[2]}:{trace.tb_lineno}")
            trace = trace.tb_next
        self.server.log("failure", request=self.id, type=type(error).__name__, at=frames[-6:])

    def _told(self) -> None:
        seconds = time.monotonic() - self.began
        route = self.route.path if self.route is not None else UNKNOWN
        method = self.method if self.route is not None else UNKNOWN
        self.server.metrics.count(method, route, self.status, seconds, self.sent, self.kind)
        self.server.log(
            "request",
            request=self.id,
            actor=self.actor.name if self.actor is not None else None,
            method=method,
            route=route,
            lake=self.path.get("lake") if self.status < 400 else None,
            status=self.status,
            ms=round(seconds * 1000, 1),
            sent=self.sent,
            kind=self.kind,
        )


def _query(route: Route, text: bytes) -> Any:
    """The parameters of the address, as the route has them."""
    given: dict[str, Any] = {}
    if route.face is not None:
        return _texts(text)
    fields = {f.encode_name: f.type for f in msgspec.structs.fields(route.query)} if route.query is not None else {}
    try:
        pairs = parse_qsl(text.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=200)
    except (ValueError, UnicodeDecodeError):
        raise InvalidInput("The parameters of the address are not UTF-8, or too many.", next="Encode them.") from None
    for name, value in pairs:
        if name not in fields:
            known = f"It takes {', '.join(fields)}." if fields else "It takes none."
            raise InvalidInput(f"There is no parameter {name!r} at this address.", next=known, field=name)
        if "list" in str(fields[name]):
            given.setdefault(name, []).append(value)
        elif name in given:
            raise InvalidInput(f"The parameter {name!r} is given twice.", next="Give it once.", field=name)
        else:
            given[name] = value
    if route.query is None:
        return None
    learn(route.query)
    try:
        return msgspec.convert(given, route.query, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"A parameter does not fit: {error}.", next="GET /openapi.json lists them.") from None


def _texts(text: bytes) -> dict[str, list[str]]:
    """The parameters of an address as they are."""
    found: dict[str, list[str]] = {}
    try:
        for name, value in parse_qsl(text.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=200):
            found.setdefault(name, []).append(value)
    except (ValueError, UnicodeDecodeError):
        raise InvalidInput("The parameters of the address are not UTF-8, or too many.", next="Encode them.") from None
    return found


__all__ = ["App", "BrokenOff"]
