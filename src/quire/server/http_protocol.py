"""Uvicorn's parser of HTTP with two bounds that it lacks: how large the head of a request may be, and how slow.

It also takes the offer of another protocol for what it is. Java's own client offers HTTP/2 with every request, and the
parser would take the body of such a request for the first bytes of the other protocol.
"""

from __future__ import annotations

import asyncio
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD = 64 << 10
"""Bytes of the address and headers of one request."""
HEAD_SECONDS = 20.0
"""How long a client may take to send them."""
_OFFERS = frozenset({b"upgrade", b"http2-settings"})
"""Headers of one connection that offer another protocol."""


FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 5\r\n"
    b"connection: close\r\ncontent-length: %d\r\n\r\n%s"
)
TOO_MANY = (
    b'{"type":"urn:quire:throttled","title":"Service Unavailable","status":503,"kind":"throttled",'
    b'"detail":"Too many connections are open.","next":"Ask again after Retry-After.","retryable":true,"request_id":""}'
)


def bounded(most: int) -> type[HttpToolsProtocol]:
    """The protocol for a server that holds so many connections."""
    return type("BoundedHttp", (BoundedHttp,), {"most": most})


class BoundedHttp(HttpToolsProtocol):
    """A connection that is closed when the head of a request is too large or too slow, or there are too many."""

    most = 8192

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._head = 0
        self._late: asyncio.TimerHandle | None = None
        self._offered = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.most:
            transport.write(FULL % (len(TOO_MANY), TOO_MANY))
            transport.close()
            return
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_here()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._late is not None:
            self._head += len(data)
        self._unset_keepalive_if_required()
        try:
            self._feed(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):  # the latter: CONNECT
            self.send_400_response("Invalid HTTP request received.")
        if self._late is not None and self._head > MOST_HEAD:
            self._refuse()

    def _feed(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            head = self._without_offer()
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
            self.parser.feed_data(head)
            self._offered = False
            self._feed(data[offer.args[0] :])

    def _without_offer(self) -> bytes:
        """The head that came, with nothing in it but what HTTP/1.1 needs."""
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        lines = [method + b" " + self.url + b" HTTP/" + version]
        for name, value in self.headers:
            if name == b"connection":
                value = b", ".join(w for w in map(bytes.strip, value.split(b",")) if w.lower() not in _OFFERS)
            if name not in _OFFERS and (value or name != b"connection"):
                lines.append(name + b": " + value)
        return b"\r\n".join([*lines, b"", b""])

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._late is None:  # another request on a connection that was kept
            self._expect_head()

    def on_headers_complete(self) -> None:
        self._head_is_here()
        self._offered = bool(self.parser.should_upgrade())
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > MOST_HEAD:
            raise ValueError("the head of the request is too large")  # the parser answers 400 and closes
        if not self._offered:
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        if not self._offered:
            super().on_message_complete()

    def _expect_head(self) -> None:
        self._head = 0
        self._late = self.loop.call_later(HEAD_SECONDS, self._refuse)

    def _head_is_here(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _refuse(self) -> None:
        self._head_is_here()
        if self.transport is not None and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large or too slow.")
