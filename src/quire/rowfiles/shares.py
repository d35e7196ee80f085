"""Shares of a large file, each for a task: row groups of Parquet, or the lines that begin in some of its bytes.

A CSV file has no shares: where a row begins in it, only who read the rows before knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

SHARE = 128 << 20
"""Bytes of a file that one task reads, if the file can be taken apart."""
BLOCK = 8 << 20


@dataclass(frozen=True)
class Share:
    """A part of a file: from one row group or byte up to another."""

    start: int
    end: int
    before: int = 0
    """Rows of Parquet, or lines, before these."""
    size: int = 0
    """About how many bytes it has."""


def row_groups(stream: IO[bytes], aim: int) -> list[Share]:
    """The row groups of a Parquet file, together where they are smaller than `aim`."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(stream) as file:
        groups = [file.metadata.row_group(n) for n in range(file.metadata.num_row_groups)]
    found, start, rows, before, taken = [], 0, 0, 0, 0
    for number, group in enumerate(groups):
        sizes = (group.column(i).total_compressed_size for i in range(group.num_columns))
        taken, rows = taken + sum(sizes), rows + group.num_rows
        if taken >= aim or number + 1 == len(groups):
            found.append(Share(start, number + 1, before, taken))
            start, taken, before = number + 1, 0, rows
    return found


def byte_ranges(size: int, aim: int) -> list[Share]:
    """The bytes of a file of lines; how many lines are before each is not known yet."""
    return [Share(start, min(start + aim, size), 0, min(aim, size - start)) for start in range(0, size, aim)]


def lines_between(stream: Any, start: int, end: int | None, block: int | None = None) -> Iterator[bytes]:
    """Whole lines, about `block` bytes of them at once: those that begin between two bytes."""
    block = block or BLOCK
    at, rest = start, b""
    if start:  # the line that crosses the border belongs to the share before
        stream.seek(start - 1)
        at, rest = _after_line(stream, start - 1, block)
    while end is None or at < end:
        data = rest or stream.read(block)
        rest = b""
        if not data:
            return
        if end is not None and at + len(data) >= end:
            cut = data.find(b"\n", end - at - 1) + 1
            while not cut and (more := stream.read(block)):
                cut = more.find(b"\n") + 1
                data += more[: cut or None]
                cut = len(data) if cut else 0
            yield data[: cut or None]
            return
        whole = data.rfind(b"\n") + 1
        if not whole:
            more = stream.read(block)
            if more:
                rest = data + more
                continue
            whole = len(data)
        yield data[:whole]
        at, rest = at + whole, data[whole:] + stream.read(block) if whole < len(data) else b""


def count_lines(stream: Any, start: int, end: int | None) -> int:
    """How many lines begin between two bytes; the last one of a file may have no end."""
    return sum(block.count(b"\n") for block in lines_between(stream, start, end))


def _after_line(stream: Any, at: int, block: int) -> tuple[int, bytes]:
    """Where the first line begins after the one that `at` is in, and what was read of it."""
    while data := stream.read(block):
        end = data.find(b"\n") + 1
        if end:
            return at + end, data[end:]
        at += len(data)
    return at, b""
