"""The body of a request, read as it arrives: whole within a bound, or piece by piece of any size.

Handlers run in threads, and the pieces come from the event loop. Whoever reads no further takes no more from the
socket, so a body of any size passes through in bounded memory.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any

import anyio

from quire.errors import InvalidInput, TooLarge
from quire.server.problems import HttpRefusal

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class ClientGone(Exception):
    """The client went away in the middle of its body."""


class Body:
    """A body that is read once, from a worker thread."""

    def __init__(self, receive: Receive, declared: int | None, limit: int, idle: float) -> None:
        self._receive, self._declared, self.limit, self._idle = receive, declared, limit, idle
        self._more = True
        self._loop = asyncio.get_running_loop()

    @property
    def finished(self) -> bool:
        """Whether all of it was read."""
        return not self._more

    async def next_piece(self) -> bytes:
        """The next bytes, for the event loop; none at the end."""
        if not self._more:
            return b""
        try:
            with anyio.fail_after(self._idle):
                message = await self._receive()
        except TimeoutError:
            error = InvalidInput(f"Nothing arrived for {self._idle:g} seconds.", next="Send the body without a pause.")
            raise HttpRefusal(408, error, {"connection": "close"}) from None
        if message["type"] == "http.disconnect":
            self._more = False
            raise ClientGone
        self._more = message.get("more_body", False)
        piece: bytes = message.get("body", b"")
        return piece

    def pieces(self) -> Iterator[bytes]:
        """The bytes as they arrive, for any thread but the event loop's: libraries read in threads of their own."""
        while self._more:
            piece = asyncio.run_coroutine_threadsafe(self.next_piece(), self._loop).result()
            if piece:
                yield piece

    def whole(self) -> bytes:
        """All of it, for a worker thread; `TooLarge` beyond the bound, before it is read where its size was said."""
        if self._declared is not None and self._declared > self.limit:
            raise self.too_large()
        found = bytearray()
        for piece in self.pieces():
            found += piece
            if len(found) > self.limit:
                raise self.too_large()
        return bytes(found)

    def drain(self) -> None:
        """Read the rest and forget it."""
        for _ in self.pieces():
            pass

    def too_large(self) -> TooLarge:
        """Why a body is refused."""
        return TooLarge(
            f"The body is larger than {self.limit} bytes.",
            next="Send less at once, or send rows as Arrow in a multipart body.",
            limit=self.limit,
        )


class BodyFile(io.RawIOBase):
    """A body as a file that is read once, as it arrives."""

    def __init__(self, body: Body) -> None:
        super().__init__()
        self._pieces = body.pieces()
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        if not self._left:
            self._left = next(self._pieces, b"")
        found, self._left = self._left[: len(view)], self._left[len(view) :]
        view[: len(found)] = found
        return len(found)
