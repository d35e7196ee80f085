"""Deletion vectors: which rows of a data file are gone, as the Delta protocol stores them.

The rows are a 64-bit Roaring bitmap in its portable form. A small one is written into the commit itself, in Base85; a
large one is a file of its own, with a checksum.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from quire.errors import FormatError
from quire.formats.roaring_bitmap import NO_RUNS, bitmap
from quire.formats.row_bitmap import Marks

INLINE = 2048
"""Bytes up to which a vector is part of the commit."""
_MAGIC = 1681511377
_CHARACTERS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_VALUES = {character: value for value, character in enumerate(_CHARACTERS)}


class Vector(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Where the rows that are gone are written down, in the words of the protocol."""

    storage_type: str
    path_or_inline_dv: str
    size_in_bytes: int
    cardinality: int
    offset: int | None = None

    @property
    def id(self) -> str:
        """What tells it from other vectors of the same file."""
        tail = "" if self.offset is None else f"@{self.offset}"
        return f"{self.storage_type}{self.path_or_inline_dv}{tail}"

    def file(self) -> str:
        """The file that holds it, relative to the table; for one that has a file."""
        if self.storage_type != "u":
            raise FormatError(
                f"A deletion vector of kind {self.storage_type!r} lies outside its table, which Quire does not read.",
                next="Rewrite the table with the writer that made it.",
            )
        prefix, encoded = self.path_or_inline_dv[:-20], self.path_or_inline_dv[-20:]
        raw = decode_text(encoded).hex()
        name = f"{raw[:8]}-{raw[8:12]}-{raw[12:16]}-{raw[16:20]}-{raw[20:32]}"
        return f"{prefix}/deletion_vector_{name}.bin" if prefix else f"deletion_vector_{name}.bin"

    def rows(self, file: bytes | None = None) -> Marks:
        """The rows, given the file that holds it if there is one."""
        if self.storage_type == "i":
            return decode(decode_text(self.path_or_inline_dv)[: self.size_in_bytes])
        assert file is not None
        start = self.offset or 1
        body = file[start + 4 : start + 4 + self.size_in_bytes]
        stored = struct.unpack_from(">I", file, start + 4 + self.size_in_bytes)[0] if len(file) >= start + 8 else None
        if len(body) != self.size_in_bytes or stored != zlib.crc32(body):
            raise FormatError(f"{self.file()} is damaged.", next="Restore it from a copy.", key=self.file())
        return decode(body)


def inline(rows: Marks) -> Vector | None:
    """The rows as part of a commit; None when they take too much room."""
    body = encode(rows)
    return Vector("i", encode_text(body), len(body), len(rows)) if len(body) <= INLINE else None


def in_file(rows: Marks, id: bytes) -> tuple[Vector, bytes]:
    """The rows in a file of their own, which is named by these 16 bytes; and that file."""
    body = encode(rows)
    file = b"\x01" + struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    return Vector("u", encode_text(id), len(body), len(rows), 1), file


# -- the bitmap --------------------------------------------------------------------------------------------------------


def encode(rows: Marks) -> bytes:
    """Row numbers below 2**32 as a Roaring bitmap array with one bitmap."""
    numbers = np.asarray(rows).astype(np.uint32)
    high = (numbers >> 16).astype(np.uint16)
    keys, starts = np.unique(high, return_index=True)
    parts = np.split((numbers & 0xFFFF).astype("<u2"), starts[1:]) if len(keys) else []
    head = struct.pack("<II", NO_RUNS, len(parts))
    head += b"".join(struct.pack("<HH", int(key), len(part) - 1) for key, part in zip(keys, parts, strict=True))
    bodies = [part.tobytes() if len(part) <= 4096 else _bits(part) for part in parts]
    at = len(head) + 4 * len(bodies)
    offsets = []
    for body in bodies:
        offsets.append(struct.pack("<I", at))
        at += len(body)
    count = 1 if parts else 0
    bitmap = struct.pack("<I", 0) + head + b"".join(offsets) + b"".join(bodies) if count else b""
    return struct.pack("<IQ", _MAGIC, count) + bitmap


def _bits(part: NDArray[Any]) -> bytes:
    flags = np.zeros(1 << 16, np.uint8)
    flags[part] = 1
    return np.packbits(flags, bitorder="little").tobytes()


def decode(body: bytes) -> Marks:
    """The row numbers of a Roaring bitmap array, or `FormatError`."""
    try:
        return Marks.of(_decoded(body))
    except (struct.error, ValueError, IndexError) as error:
        raise FormatError(
            f"A deletion vector cannot be read ({error}).", next="Restore the table from a copy."
        ) from None


def _decoded(body: bytes) -> NDArray[np.uint32]:
    magic, count = struct.unpack_from("<IQ", body, 0)
    if magic != _MAGIC:
        raise ValueError("it is no Roaring bitmap array")
    at, found = 12, [np.empty(0, np.uint32)]
    for _ in range(count):
        (high,) = struct.unpack_from("<I", body, at)
        if high:
            raise ValueError("a file has more than 2**32 rows")
        numbers, at = bitmap(body, at + 4)
        found.append(numbers)
    return np.concatenate(found)


# -- Base85 as ZeroMQ has it -------------------------------------------------------------------------------------------


def encode_text(data: bytes) -> str:
    padded = data + b"\0" * (-len(data) % 4)
    words = np.frombuffer(padded, ">u4").astype(np.uint64)
    digits = np.stack([words // np.uint64(85**power) % np.uint64(85) for power in (4, 3, 2, 1, 0)], axis=1)
    return "".join(_CHARACTERS[digit] for digit in digits.ravel().tolist())


def decode_text(text: str) -> bytes:
    try:
        digits = np.array([_VALUES[character] for character in text], np.uint64).reshape(-1, 5)
    except (KeyError, ValueError):
        raise FormatError("A deletion vector is no Base85.", next="Restore the table from a copy.") from None
    words = digits @ np.array([85**power for power in (4, 3, 2, 1, 0)], np.uint64)
    return words.astype(">u4").tobytes()
