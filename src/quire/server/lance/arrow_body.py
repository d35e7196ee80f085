"""Rows of a body as Arrow, read as they arrive; rows of an answer as an Arrow file, made as they are taken."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from quire.errors import InvalidInput
from quire.server.bodies import Body, BodyFile

if TYPE_CHECKING:
    import pyarrow as pa

ARROW_FILE = "application/vnd.apache.arrow.file"
END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""The last bytes of a stream that its writer has closed."""
PIECE_ROWS = 65_536


class _Watched(io.RawIOBase):
    """A file that remembers its last bytes."""

    def __init__(self, file: io.RawIOBase) -> None:
        super().__init__()
        self._file = file
        self.tail = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._file.readinto(buffer) or 0
        self.tail = (self.tail + bytes(memoryview(buffer)[:count][-len(END) :]))[-len(END) :]
        return int(count)


def rows_of(body: Body) -> Any:
    """The rows of a body: batches as they arrive, or the bytes of an Arrow file, which is read from its end."""
    import pyarrow as pa

    watched = _Watched(BodyFile(body))
    file = io.BufferedReader(watched, 1 << 16)
    if file.peek(6)[:6] == b"ARROW1":
        return body_file(file, body)
    try:
        opened = pa.ipc.open_stream(file)
    except (pa.ArrowException, OSError, EOFError) as error:
        raise _broken(error) from None
    return pa.RecordBatchReader.from_batches(opened.schema, _batches(opened, file, watched))


def body_file(file: Any, body: Body) -> bytes:
    found: bytes = file.read(body.limit + 1)
    if len(found) > body.limit:
        raise body.too_large()
    return found


def _batches(opened: Any, file: Any, watched: _Watched) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    while True:
        try:
            batch = opened.read_next_batch()
            batch.validate(full=True)
        except StopIteration:
            break
        except (pa.ArrowException, OSError, EOFError) as error:
            raise _broken(error) from None
        yield batch
    while file.read(1 << 16):  # the rest, so that the last bytes are known
        pass
    if watched.tail != END:
        raise InvalidInput("The stream of Arrow has no end.", next="Close the writer before you send it.")


def _broken(error: Exception) -> InvalidInput:
    said = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
    return InvalidInput(f"The body is no stream of Arrow: {said}.", next="Send what pyarrow.ipc.new_stream writes.")


def file_of(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """An Arrow file in pieces."""
    import pyarrow as pa

    sink = _Pieces()
    writer = pa.ipc.new_file(sink, schema)
    for batch in batches:
        for start in range(0, batch.num_rows, PIECE_ROWS):
            writer.write_batch(batch.slice(start, PIECE_ROWS))
            yield sink.taken()
    writer.close()
    yield sink.taken()


class _Pieces(io.RawIOBase):
    """A file that is only written, and emptied in between."""

    def __init__(self) -> None:
        super().__init__()
        self._held: list[bytes] = []
        self._at = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def write(self, data: Any) -> int:
        held = bytes(data)
        self._held.append(held)
        self._at += len(held)
        return len(held)

    def taken(self) -> bytes:
        found = b"".join(self._held)
        self._held.clear()
        return found
