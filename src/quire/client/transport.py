"""Requests to a server: connections that are used again, errors as the library has them, answers that are whole.

What may be sent twice is sent again when the answer is lost: reads, and writes that carry a key.
"""

from __future__ import annotations

import http.client
import io
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from quire import errors
from quire.errors import InvalidUri, QuireError, ServerUnavailable
from quire.lake.commit.tokens import Token
from quire.lake.commit.tokens import token as new_token
from quire.ledger import StreamToken

if TYPE_CHECKING:
    import pyarrow as pa

ARROW = "application/vnd.apache.arrow.stream"
END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
TRIES = 4
IDLE = 16
"""Connections that are kept for the next request."""
_LOST = (OSError, http.client.HTTPException, ssl.SSLError, socket.timeout)
_AGAIN = frozenset({429, 502, 503, 504})


@dataclass(frozen=True)
class Reply:
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Transport:
    """One server, and who asks it. Safe to share between threads."""

    def __init__(self, url: str, token: str | None, timeout: float) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
            raise InvalidUri(
                f"{url.split('@')[-1][:80]!r} is not the address of a server.",
                next="Write http://host:port/lake; a token is given apart.",
            )
        self.url = f"{parts.scheme}://{parts.netloc}"
        self._host, self._port, self._tls = parts.hostname, parts.port, parts.scheme == "https"
        self._token, self._timeout = token, timeout
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()

    def ask(
        self,
        method: str,
        path: str,
        value: Any = None,
        *,
        body: bytes | None = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        again: bool | None = None,
    ) -> Reply:
        """A request and its whole answer. `again` says whether it may be sent twice; a GET may."""
        sent = json.dumps(value, allow_nan=False).encode() if value is not None else body
        named = {"accept": "application/json", **(headers or {})}
        may = again if again is not None else method == "GET"
        for left in range(TRIES - 1, -1, -1):
            try:
                answer, connection = self._send(method, path, sent, query, named)
                reply = Reply(answer.status, _lower(answer), answer.read())
            except _LOST as error:
                if not may or not left:
                    raise self._unavailable(error) from None
                time.sleep(0.05 * (TRIES - left))
                continue
            self._keep(connection, answer)
            if may and left and reply.status in _AGAIN:
                time.sleep(min(float(reply.headers.get("retry-after", 0.2)), 5.0))
                continue
            if reply.status >= 400:
                raise error_of(reply)
            return reply
        raise AssertionError("the last try returns or raises")

    def send(
        self,
        method: str,
        path: str,
        pieces: Iterable[bytes],
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """A request whose body is sent as it is made, once, and its whole answer."""
        connection = self._connected()
        address, named = self._addressed(path, query), self._named({"accept": "application/json", **(headers or {})})
        try:
            try:
                connection.request(method, address, iter(pieces), named)
            except (BrokenPipeError, ConnectionResetError):
                pass  # the server may have answered before it had read everything
            answer = connection.getresponse()
            reply = Reply(answer.status, _lower(answer), answer.read())
        except _LOST as error:
            connection.close()
            raise self._unavailable(error) from None
        except BaseException:
            connection.close()
            raise
        self._keep(connection, answer)
        if reply.status >= 400:
            raise error_of(reply)
        return reply

    def rows(
        self,
        method: str,
        path: str,
        value: Any = None,
        *,
        body: bytes | None = None,
        query: Mapping[str, Any] | None = None,
    ) -> pa.RecordBatchReader:
        """Rows as they arrive. A stream that is cut off is an error, also between two batches."""
        import pyarrow as pa

        sent = json.dumps(value, allow_nan=False).encode() if value is not None else body
        for left in range(TRIES - 1, -1, -1):
            try:
                answer, connection = self._send(method, path, sent, query, {"accept": ARROW})
                if answer.status >= 400:
                    reply = Reply(answer.status, _lower(answer), answer.read())
                    if reply.status in _AGAIN and left:
                        time.sleep(min(float(reply.headers.get("retry-after", 0.2)), 5.0))
                        continue
                    raise error_of(reply)
                stream = _Whole(answer)
                opened = pa.ipc.open_stream(io.BufferedReader(stream, 1 << 16))
                break
            except (*_LOST, pa.ArrowException) as error:
                if not left:
                    raise self._unavailable(error) from None
                time.sleep(0.05 * (TRIES - left))

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                yield from opened
                stream.finish()
            except (*_LOST, pa.ArrowException) as error:
                raise self._unavailable(error) from None
            self._keep(connection, answer)

        return pa.RecordBatchReader.from_batches(opened.schema, batches())

    def _send(
        self, method: str, path: str, body: bytes | None, query: Mapping[str, Any] | None, headers: Mapping[str, str]
    ) -> tuple[http.client.HTTPResponse, http.client.HTTPConnection]:
        address, named = self._addressed(path, query), self._named(headers)
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is not None:
            try:
                connection.request(method, address, body, named)
                return connection.getresponse(), connection
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                # The server let go of it meanwhile. What was sent on it was not begun, or is safe to send again.
                connection.close()
                if method != "GET" and "idempotency-key" not in named:
                    raise
        connection = self._connected()
        try:
            connection.request(method, address, body, named)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the server may have answered before it had read everything
        return connection.getresponse(), connection

    def _addressed(self, path: str, query: Mapping[str, Any] | None) -> str:
        asked = urlencode([(k, v) for k, v in (query or {}).items() if v is not None], doseq=True)
        return f"{path}?{asked}" if asked else path

    def _named(self, headers: Mapping[str, str]) -> dict[str, str]:
        return dict(headers) if self._token is None else {**headers, "authorization": f"Bearer {self._token}"}

    def _connected(self) -> http.client.HTTPConnection:
        if self._tls:
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=context)
        return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)

    def _keep(self, connection: http.client.HTTPConnection, answer: http.client.HTTPResponse) -> None:
        if answer.will_close or not answer.isclosed():
            connection.close()
            return
        with self._lock:
            if len(self._idle) < IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Let go of idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _unavailable(self, error: Exception) -> ServerUnavailable:
        said = (str(error).splitlines() or [""])[0] or type(error).__name__
        return ServerUnavailable(
            f"The server at {self.url} did not answer in full: {said.rstrip('.')}.",
            next="Try again. A write that carries a token is safe to repeat.",
            url=self.url,
        )


class LakeServer:
    """What a server answers about one lake: addresses are those below the lake's own."""

    def __init__(self, transport: Transport, name: str) -> None:
        self.transport, self.name = transport, name
        self.base = f"/v1/lakes/{segment(name)}"

    @property
    def url(self) -> str:
        """The address by which the lake was reached."""
        return f"{self.transport.url}/{self.name}"

    def ask(self, method: str, path: str, value: Any = None, **more: Any) -> Any:
        """A request, and the answer's JSON; None without a body."""
        reply = self.transport.ask(method, f"{self.base}/{path}", value, **more)
        return reply.json if reply.body else None

    def rows(self, method: str, path: str, value: Any = None, **more: Any) -> pa.RecordBatchReader:
        """Rows as they arrive."""
        return self.transport.rows(method, f"{self.base}/{path}", value, **more)

    def send(self, path: str, pieces: Iterable[bytes], **more: Any) -> Any:
        """A body that is sent as it is made, and the answer's JSON."""
        return self.transport.send("POST", f"{self.base}/{path}", pieces, **more).json


class _Whole(io.RawIOBase):
    """A body of Arrow that must end with the marker of its end."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        super().__init__()
        self._answer = answer
        self._tail = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = self._answer.read(len(buffer))
        buffer[: len(found)] = found
        self._tail = (self._tail + found)[-len(END) :] if found else self._tail
        return len(found)

    def finish(self) -> None:
        """Read to the end, and see that it is the end."""
        while rest := self._answer.read(1 << 16):
            self._tail = (self._tail + rest)[-len(END) :]
        if self._tail != END:
            raise http.client.IncompleteRead(self._tail)


def key_of(token: Token | None) -> str:
    """The token of a write, as a header has it; a new one if none is given."""
    if isinstance(token, StreamToken):
        return f"{token.scope}:{token.sequence}"
    return token or new_token()


def segment(name: str) -> str:
    """A name as one segment of an address."""
    return quote(name, safe="")


def _lower(answer: http.client.HTTPResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in answer.getheaders()}


def _kinds() -> dict[str, type[QuireError]]:
    return {c.kind: c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, QuireError)}


_RESERVED = frozenset({"type", "title", "status", "detail", "kind", "next", "retryable", "message"})


def error_of(reply: Reply) -> QuireError:
    """The error that a problem stands for: the class that the library would have raised here."""
    try:
        said = reply.json
        kind, message = str(said["kind"]), str(said["detail"])
    except (ValueError, KeyError, TypeError):
        return ServerUnavailable(
            f"The server answered {reply.status} without a problem of its own.",
            next="Is a proxy in between? Try again.",
        )
    fields = {name: value for name, value in said.items() if name not in _RESERVED and name.isidentifier()}
    found = _kinds().get(kind, QuireError)
    return found(message, next=said.get("next"), retryable=said.get("retryable"), **fields)
