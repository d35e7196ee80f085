"""A multipart body, part by part as it arrives: nothing is kept but the piece at hand.

Only what clients of the server need is understood: parts with a name, in the order in which they are used. A body
that ends without its last boundary is refused, so a part is never taken for the whole.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator
from typing import Any

from quire.errors import InvalidInput

MOST_HEADERS = 8 << 10
"""Bytes of the headers of one part."""

_NAME = re.compile(r'name="([^"\r\n]*)"')
_BOUNDARY = re.compile(r'boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))')


def boundary_of(content_type: str) -> bytes | None:
    """What separates the parts; None for a body that is not multipart."""
    if not content_type.lower().startswith(("multipart/form-data", "multipart/mixed")):
        return None
    found = _BOUNDARY.search(content_type)
    if found is None:
        raise InvalidInput("The multipart body has no boundary.", next="Name it in Content-Type.")
    return (found[1] or found[2]).encode("latin-1")


class Parts:
    """The parts of one body, each to be read before the next one is asked for."""

    def __init__(self, pieces: Iterator[bytes], boundary: bytes) -> None:
        self._pieces = pieces
        self._mark = b"\r\n--" + boundary
        self._buffer = b"\r\n"  # so that the first boundary looks like the others
        self._open: PartFile | None = None
        self._ended = False
        self._digest = hashlib.sha256()
        if self._until_mark() != b"":
            raise _broken("it does not begin with its boundary")

    @property
    def digest(self) -> str:
        """What stands for the names and bytes of the parts that were read so far."""
        return self._digest.hexdigest()

    def next(self) -> PartFile | None:
        """The next part, or None after the last one. What was not read of the one before is skipped."""
        if self._open is not None:
            while self._open.read(1 << 20):
                pass
            self._open = None
        if self._ended:
            return None
        while len(self._buffer) < 2:
            self._more()
        if self._buffer.startswith(b"--"):
            self._ended = True
            for _ in self._pieces:  # what follows means nothing
                pass
            return None
        head = self._headers()
        name = _NAME.search(head)
        if name is None:
            raise _broken("a part has no name")
        self._digest.update(b"\0part\0" + name[1].encode())
        self._open = PartFile(self, name[1])
        return self._open

    def _headers(self) -> str:
        while b"\r\n\r\n" not in self._buffer:
            if len(self._buffer) > MOST_HEADERS:
                raise _broken("the headers of a part are too long")
            self._more()
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        if self._buffer.startswith(self._mark[2:]):
            self._buffer = b"\r\n" + self._buffer  # a part without a byte
        return head.decode("latin-1")

    def _until_mark(self) -> bytes:
        """Everything before the next boundary, which is taken away."""
        found = bytearray()
        while piece := self.take(1 << 16):
            found += piece
        return bytes(found)

    def content(self, most: int) -> bytes:
        """Bytes of the part at hand, which count for the digest."""
        found = self.take(most)
        self._digest.update(found)
        return found

    def take(self, most: int) -> bytes:
        """Bytes of the part at hand; none at its end."""
        while True:
            at = self._buffer.find(self._mark)
            if at == 0:
                self._buffer = self._buffer[len(self._mark) :]
                return b""
            # What may be the beginning of the mark is kept until more is known.
            safe = at if at > 0 else len(self._buffer) - len(self._mark) + 1
            if safe > 0:
                found = self._buffer[: min(safe, most)]
                self._buffer = self._buffer[len(found) :]
                return found
            self._more()

    def _more(self) -> None:
        piece = next(self._pieces, None)
        if piece is None:
            raise _broken("it ends before its last boundary")
        self._buffer += piece


class PartFile(io.RawIOBase):
    """One part as a file that is read once."""

    def __init__(self, parts: Parts, name: str) -> None:
        super().__init__()
        self._parts = parts
        self.name = name
        self._left = b""
        self._done = False
        self.tail = b""
        """The last bytes that were read."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        if not self._left and not self._done:
            self._left = self._parts.content(1 << 16)
            self._done = not self._left
        found, self._left = self._left[: len(view)], self._left[len(view) :]
        view[: len(found)] = found
        if found:
            self.tail = (self.tail + found)[-8:]
        return len(found)


def _broken(why: str) -> InvalidInput:
    return InvalidInput(f"The multipart body is broken: {why}.", next="Send it again, whole.")
