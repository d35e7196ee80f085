"""Blobs of nodes and edges, read by range: a blob of a gigabyte is opened without reading it.

with graph.blob("Document", "report", "body") as body:
    body.size                      # in bytes
    body.read_range(1_000, 50)     # these 50 bytes and no others
    body.seek(0); body.read(10)    # like any file
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from quire.arguments import checks_arguments
from quire.errors import InvalidInput
from quire.lake.handles import view_of
from quire.prompt import Escaped, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quire.formats import Cell
    from quire.graph.catalog import Entity
    from quire.lake import Snapshot


@checks_arguments
class Blob(Escaped, io.RawIOBase):
    """A blob as a file that is read only; `io.BufferedReader(blob)` reads ahead.

    It belongs to one commit and never changes.
    """

    def __init__(self, cell: Cell, name: str) -> None:
        super().__init__()
        self._cell = cell
        self._at = 0
        self.name = name

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return self._cell.size

    def read_range(self, offset: int, length: int) -> bytes:
        """Bytes from `offset` on, `length` of them or as many as there are; the position of the file stays."""
        if self.closed:
            raise ValueError("read of a closed blob")
        if offset < 0 or length < 0:
            raise InvalidInput(
                f"A range begins at 0 or later and is not shorter than 0, not {offset} and {length}.",
                next="Correct it.",
            )
        length = min(length, self.size - offset)
        return self._cell.read(offset, length) if length > 0 else b""

    def readinto(self, buffer: Any) -> int:
        """Read as many of the next bytes as the buffer holds."""
        view = memoryview(buffer).cast("B")
        found = self.read_range(self._at, len(view))
        view[: len(found)] = found
        self._at += len(found)
        return len(found)

    def readall(self) -> bytes:
        found = self.read_range(self._at, self.size)
        self._at += len(found)
        return found

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence not in (io.SEEK_SET, io.SEEK_CUR, io.SEEK_END):
            raise ValueError(f"whence is 0, 1 or 2, not {whence}")
        to = offset + (0, self._at, self.size)[whence]
        if to < 0:
            raise ValueError(f"a blob has no place {to}")
        self._at = to
        return to

    def tell(self) -> int:
        return self._at

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def __len__(self) -> int:
        return self.size

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return one_line(f"<Blob {self.name}, {self.size} bytes>")


def open_blob(snapshot: Snapshot, entity: Entity, id: str, name: str) -> Blob | None:
    """The blob of a property, of the row with this id; None where it is null, `NotFound` where there is no row."""
    import pyarrow as pa

    prop = entity.property(name)
    if prop.type.base != "Blob":
        raise InvalidInput(
            f"{entity.name}.{name} is {prop.type.bare}, not a Blob.",
            next=f"Its blobs are {', '.join(_blobs(entity)) or 'none'}; read {name} with a query.",
            type=entity.name,
            property=name,
        )
    view = view_of(snapshot[entity.table])
    cell = view.cell(prop.column, ["id"], pa.table({"id": pa.array([id], pa.string())}))
    return None if cell is None else Blob(cell, f"{entity.name}.{name} of {id!r}")


def _blobs(entity: Entity) -> Sequence[str]:
    return [p.name for p in entity.defined.properties if p.type.base == "Blob"]
