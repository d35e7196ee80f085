"""Manifest files as bytes: what Lance opens a version from without asking the store.

A manifest file ends with a footer, the position of the message and Lance's mark. At that position lie the length of the
message and the message, which is what a handle is made of: `LanceDataset(uri, version=, serialized_manifest=)`. Before
it lie, where there are any, the list of indexes and the transaction.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from quire.errors import CorruptRecord

MAGIC = b"LANC"
FOOTER = struct.Struct("<QHH4s")
"""The position of the message, the two numbers of the file's format, the mark."""
_LENGTH = struct.Struct("<I")
VERSION, INDEX_SECTION = 3, 6
"""Numbers of fields in Lance's `table.proto`."""


@dataclass(frozen=True)
class Manifest:
    """What a manifest file holds, once it was found to be whole."""

    message: bytes
    """What `LanceDataset` takes as `serialized_manifest`."""
    indexed: bool
    """Whether the file lists indexes. The message does not: Lance reads the list from the file when it needs it."""


def parse(body: bytes, version: int, what: str) -> Manifest:
    """The manifest file of one version, taken apart; `CorruptRecord` if it is cut, damaged or of another version."""
    if len(body) < FOOTER.size + _LENGTH.size:
        raise corrupt(what, f"it has only {len(body)} bytes")
    position, _, _, magic = FOOTER.unpack_from(body, len(body) - FOOTER.size)
    if magic != MAGIC:
        raise corrupt(what, "it does not end as a manifest does")
    start, end = position + _LENGTH.size, len(body) - FOOTER.size
    stop = start + _LENGTH.unpack_from(body, position)[0] if start <= end else 0
    if not start <= stop <= end:
        raise corrupt(what, "its fields lie outside of it")
    message = body[start:stop]
    try:
        numbers = whole_numbers(message)
    except ValueError:
        raise corrupt(what, "its fields cannot be read") from None
    if numbers.get(VERSION, 0) != version:
        raise corrupt(what, f"it holds version {numbers.get(VERSION, 0)}")
    at = numbers.get(INDEX_SECTION)
    if at is not None and at + _LENGTH.size > position:
        raise corrupt(what, "its list of indexes lies outside of it")
    return Manifest(message, at is not None)


def renumbered(body: bytes, version: int) -> bytes:
    """The same manifest file as another version of the table. What it says of the transaction stays as it is."""
    position, _, _, _ = FOOTER.unpack_from(body, len(body) - FOOTER.size)
    start = position + _LENGTH.size
    stop = start + _LENGTH.unpack_from(body, position)[0]
    parts = [_varint_field(VERSION, version) if n == VERSION else raw for n, _, raw in fields(body[start:stop])]
    message = b"".join(parts)
    return body[:position] + _LENGTH.pack(len(message)) + message + body[stop:]


def _varint_field(number: int, value: int) -> bytes:
    out, value = bytearray([number << 3]), value
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def fields(message: bytes) -> Iterator[tuple[int, Any, bytes]]:
    """The fields of a protobuf message in their order: number, value, and all bytes of it. `ValueError` for no message.

    A value is a whole number, or bytes.
    """
    at, length = 0, len(message)
    try:
        while at < length:
            start = at
            tag, at = varint(message, at)
            value: Any
            match tag & 7:
                case 2:
                    size, at = varint(message, at)
                    value, at = message[at : at + size], at + size
                case 0:
                    value, at = varint(message, at)
                case 1:
                    value, at = message[at : at + 8], at + 8
                case 5:
                    value, at = message[at : at + 4], at + 4
                case kind:
                    raise ValueError(f"a field of kind {kind}")
            if at > length:
                raise ValueError("it ends too early")
            yield tag >> 3, value, message[start:at]
    except IndexError:
        raise ValueError("it ends too early") from None


def whole_numbers(message: bytes) -> dict[int, int]:
    """Those fields of a message that are whole numbers; `ValueError` for no message.

    A manifest has a field for every fragment and is opened with every commit, so the others are passed over as fast as
    Python can.
    """
    found: dict[int, int] = {}
    at, length = 0, len(message)
    try:
        while at < length:
            tag = message[at]
            at += 1
            if tag > 127:
                tag, at = varint(message, at - 1)
            kind = tag & 7
            if kind == 2:
                size = message[at]
                at += 1
                if size > 127:
                    size, at = varint(message, at - 1)
                at += size
            elif kind == 0:
                found[tag >> 3], at = varint(message, at)
            elif kind in (1, 5):
                at += 8 if kind == 1 else 4
            else:
                raise ValueError(f"a field of kind {kind}")
    except IndexError:
        raise ValueError("it ends too early") from None
    if at > length:
        raise ValueError("it ends too early")
    return found


def by_number(message: bytes) -> dict[int, list[int | bytes]]:
    """The values of a message by the numbers of its fields; `ValueError` for no message.

    The same as `fields` tells, in a third of the time: a manifest has a field for every fragment.
    """
    found: dict[int, list[int | bytes]] = {}
    at, length = 0, len(message)
    try:
        while at < length:
            tag = message[at]
            at += 1
            if tag > 127:
                tag, at = varint(message, at - 1)
            kind = tag & 7
            value: int | bytes
            if kind == 0:
                value, at = varint(message, at)
            else:
                if kind == 2:
                    size = message[at]
                    at += 1
                    if size > 127:
                        size, at = varint(message, at - 1)
                elif kind in (1, 5):
                    size = 8 if kind == 1 else 4
                else:
                    raise ValueError(f"a field of kind {kind}")
                value, at = message[at : at + size], at + size
            number = tag >> 3
            if number in found:
                found[number].append(value)
            else:
                found[number] = [value]
    except IndexError:
        raise ValueError("it ends too early") from None
    if at > length:
        raise ValueError("it ends too early")
    return found


def section(body: bytes, start: int) -> bytes:
    """A message in a manifest file, with its length before it."""
    (length,) = _LENGTH.unpack_from(body, start)
    if start + _LENGTH.size + length > len(body):
        raise ValueError("it ends too early")
    return body[start + _LENGTH.size : start + _LENGTH.size + length]


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A whole number, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def corrupt(what: str, why: str) -> CorruptRecord:
    """The error for a manifest file that says nothing, or something else than it should."""
    return CorruptRecord(
        f"The manifest of {what} is damaged: {why}.",
        next="Restore that file from a backup, or read an older commit; `quire verify` names every table it affects.",
        what=what,
    )
