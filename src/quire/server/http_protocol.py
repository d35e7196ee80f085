"""Uvicorn's parser of HTTP with two bounds that it lacks: how large the head of a request may be, and how slow."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD = 64 << 10
"""Bytes of the address and headers of one request."""
HEAD_SECONDS = 20.0
"""How long a client may take to send them."""


class BoundedHttp(HttpToolsProtocol):
    """A connection that is closed when the head of a request is too large or too slow."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._head = 0
        self._late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_here()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._late is not None:
            self._head += len(data)
        super().data_received(data)
        if self._late is not None and self._head > MOST_HEAD:
            self._refuse()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._late is None:  # another request on a connection that was kept
            self._expect_head()

    def on_headers_complete(self) -> None:
        self._head_is_here()
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > MOST_HEAD:
            raise ValueError("the head of the request is too large")  # the parser answers 400 and closes
        super().on_headers_complete()

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
