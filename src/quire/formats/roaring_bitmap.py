"""Roaring bitmaps in their portable form, of 32-bit numbers: how formats store sets of rows and of fragments."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

NO_RUNS, RUNS = 12346, 12347
"""How a bitmap begins, without and with containers that are runs."""


def bitmap(body: bytes, start: int) -> tuple[NDArray[np.uint32], int]:
    """One 32-bit bitmap, and where it ends."""
    (cookie,) = struct.unpack_from("<I", body, start)
    at, runs = start + 4, b""
    if cookie & 0xFFFF == RUNS:
        count = (cookie >> 16) + 1
        runs = body[at : at + (count + 7) // 8]
        at += len(runs)
    elif cookie == NO_RUNS:
        (count,) = struct.unpack_from("<I", body, at)
        at += 4
    else:
        raise ValueError("it is no Roaring bitmap")
    heads = [struct.unpack_from("<HH", body, at + 4 * i) for i in range(count)]
    at += 4 * count
    if not runs or count >= 4:
        at += 4 * count  # where each container begins, which follows from the containers before it
    found = [np.empty(0, np.uint32)]
    for i, (key, less) in enumerate(heads):
        low, at = _container(body, at, less + 1, bool(runs) and bool(runs[i // 8] >> (i % 8) & 1))
        found.append((np.uint32(key) << np.uint32(16)) | low.astype(np.uint32))
    return np.concatenate(found), at


def _container(body: bytes, at: int, size: int, runs: bool) -> tuple[NDArray[Any], int]:
    if runs:
        (count,) = struct.unpack_from("<H", body, at)
        pairs = np.frombuffer(body, "<u2", 2 * count, at + 2).reshape(count, 2).astype(np.uint32)
        spans = [np.arange(first, first + more + 1) for first, more in pairs]
        return np.concatenate([np.empty(0, np.uint32), *spans]), at + 2 + 4 * count
    if size <= 4096:
        return np.frombuffer(body, "<u2", size, at), at + 2 * size
    flags = np.frombuffer(body, np.uint8, 8192, at)
    return np.flatnonzero(np.unpackbits(flags, bitorder="little")), at + 8192
