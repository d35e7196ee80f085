"""Text is UTF-8: what is not is told with its line, before anything tries to make sense of it."""

from __future__ import annotations

import codecs
import io
from typing import Any


class NotText(OSError):
    """A file holds bytes that are no UTF-8. It has no number, since nothing is wrong with the disk."""


class Checked(io.RawIOBase):
    """A stream of bytes that ends with an error where they are no text.

    Arrow hands rows that it cannot split to Python as text, and has no way to say that they are none.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._lines = 1

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        data = bytes(self._stream.read() if size < 0 else self._stream.read(size))
        held = self._decoder.getstate()[0]
        try:
            self._decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            line = self._lines + (held + data)[: error.start].count(b"\n")
            raise NotText(f"line {line} is not UTF-8 text") from None
        self._lines += data.count(b"\n")
        return data
