"""A transaction in one request: the statements as JSON, and rows beside them as streams of Arrow, one part each.

    --b
    Content-Disposition: form-data; name="commit"

    {"operations": [{"op": "append", "table": "documents", "part": "documents"}]}
    --b
    Content-Disposition: form-data; name="documents"

    …a stream of Arrow…
    --b--

Parts come in the order of the statements that name them, so that each is read as it arrives, whatever its size.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from quire.errors import InvalidInput
from quire.server.calls import Call, decoded
from quire.server.multipart import PartFile, Parts, boundary_of

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

COMMIT = "commit"
END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""With which a stream of Arrow ends. One that was cut between two batches would look whole without it."""


class Upload:
    """The body of a request that commits."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._parts: Parts | None = None
        boundary = boundary_of(call.headers.get("content-type", ""))
        if boundary is None:
            self._statements = call.body.whole()
            return
        self._parts = Parts(call.body.pieces(), boundary)
        first = self._parts.next()
        if first is None or first.name != COMMIT:
            raise InvalidInput(
                f"The first part of the body is not called {COMMIT!r}.", next="Send the statements first, as JSON."
            )
        limit = call.server.limits.body_bytes
        self._statements = first.read(limit + 1) or b""
        while len(self._statements) <= limit and (piece := first.read(1 << 16)):
            self._statements += piece
        if len(self._statements) > limit:
            raise call.body.too_large()

    @property
    def digest(self) -> str:
        """What stands for the statements and the rows that were read so far, however they were wrapped."""
        rows = self._parts.digest if self._parts is not None else ""
        return hashlib.sha256(self._statements + rows.encode()).hexdigest()

    def statements(self, kind: type[T]) -> T:
        """The statements, as JSON of a type."""
        return decoded(self._statements, kind)

    def part(self, name: str) -> pa.RecordBatchReader:
        """The rows of the next part, which must have this name, as they arrive."""
        if self._parts is None:
            raise InvalidInput(
                f"The body has no part {name!r}.", next="Send it as multipart/form-data, or give rows.", field="part"
            )
        found = self._parts.next()
        if found is None or found.name != name:
            have = "it has no more parts" if found is None else f"the next part is {found.name!r}"
            raise InvalidInput(
                f"The body has no part {name!r} here: {have}.",
                next="Send the parts in the order of the statements that name them, each once.",
                field="part",
            )
        return arrow(found)

    def finish(self) -> None:
        """Read what is left. A part that no statement names is a mistake."""
        if self._parts is not None and (left := self._parts.next()) is not None:
            raise InvalidInput(f"No statement names the part {left.name!r}.", next="Leave it out.", field="part")
        self._call.body.drain()

    def drain(self) -> None:
        """Read everything that is left, for its digest."""
        while self._parts is not None and self._parts.next() is not None:
            pass
        self._call.body.drain()


def arrow(part: PartFile) -> pa.RecordBatchReader:
    """A stream of Arrow as batches; an error of the stream is an error of the client."""
    import pyarrow as pa

    try:
        opened = pa.ipc.open_stream(io.BufferedReader(part, 1 << 16))
    except (pa.ArrowException, OSError, EOFError) as error:
        raise _broken(part, error) from None
    return pa.RecordBatchReader.from_batches(opened.schema, _batches(part, opened))


def _batches(part: PartFile, opened: Any) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    while True:
        try:
            batch = opened.read_next_batch()
            batch.validate(full=True)
        except StopIteration:
            break
        except (pa.ArrowException, OSError, EOFError) as error:
            raise _broken(part, error) from None
        yield batch
    while part.read(1 << 16):  # the rest, so that the last bytes are known
        pass
    if part.tail != END:
        raise InvalidInput(
            f"Part {part.name!r} is a stream of Arrow without its end.", next="Close the writer before you send it."
        )


def _broken(part: PartFile, error: Exception) -> InvalidInput:
    said = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
    return InvalidInput(
        f"Part {part.name!r} is no stream of Arrow: {said}.", next="Send what pyarrow.ipc.new_stream writes."
    )
