"""Columns of bytes that are read by range: how they are marked, and bytes that are in memory already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quire.conversion import held
from quire.errors import NotFound, SchemaMismatch
from quire.formats import keys as keylib

if TYPE_CHECKING:
    import pyarrow as pa


BLOB = {b"lance-encoding:blob": b"true"}
"""Metadata that mark a column of bytes as one of blobs, in every format."""


def is_blob(field: pa.Field) -> bool:
    """Whether a column holds blobs, for which Lance has several types."""
    return b"lance-encoding:blob" in (field.metadata or {}) or "lance.blob" in str(field.type)


class BytesCell:
    """A value that came with its row."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)

    def read(self, offset: int, length: int) -> bytes:
        return self._data[offset : offset + length]


def in_memory(value: Any, column: str, table: str) -> BytesCell | None:
    """A value as a cell, if it is bytes."""
    if value is None:
        return None
    if not isinstance(value, bytes):
        raise SchemaMismatch(
            f"Column {column!r} of table {table!r} holds no bytes.",
            next="Read it with scan.",
            table=table,
            column=column,
        )
    return BytesCell(value)


def no_row(key: pa.Table, table: str) -> NotFound:
    return NotFound(
        f"Table {table!r} has no row with {keylib.show(held.rows(key))}.", next="Check the key.", table=table
    )
