"""One file of rows, or a part of it, or a stream: its rows in batches, each row with its line.

A large Parquet file is read by several tasks, each some of its row groups; a large file of JSON lines too, each the
lines that begin in its bytes. A CSV file is read by one: where a row begins in it, only who read the rows before knows.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from csv import Error as CsvError
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, Self

from quire.rowfiles import columnar, inputs
from quire.rowfiles.csv import PLAIN, CsvForm, Tell, text_batches
from quire.rowfiles.jsonl import JsonLines, objects
from quire.rowfiles.kinds import Kind, compression_of, explained
from quire.rowfiles.line_numbers import Lines
from quire.rowfiles.shares import SHARE, Share, byte_ranges, count_lines, lines_between, row_groups

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK = 8 << 20
"""Bytes of text that are read at once."""

Numbered = tuple["pa.RecordBatch", Any]
"""Rows, and the line of each; those of Parquet and Arrow are counted from 1."""


@dataclass(frozen=True)
class RowFile:
    """A file, a share of one that a task reads, or an open stream of bytes."""

    path: str
    """Where it is; for a stream, how it is called in errors."""
    kind: Kind
    form: CsvForm = PLAIN
    """How it is written, if it is CSV."""
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of the store that it lies in. They hold credentials and travel with it."""
    share: Share | None = None
    stream: Any = field(default=None, repr=False)
    """An open binary file that is read instead."""
    exact: Mapping[str, pa.DataType] = field(default_factory=dict, repr=False)
    """Columns of JSON whose numbers must not change, with the types that they become."""

    @property
    def is_text(self) -> bool:
        """Whether it knows nothing but text."""
        return self.kind is Kind.csv

    def place(self, line: int) -> str:
        """A row, by its line, as it is told to people: rows of Parquet and Arrow have no lines."""
        return f"{self.path}, {'line' if self.kind in (Kind.csv, Kind.jsonl) else 'row'} {line}"

    @property
    def can_be_shared(self) -> bool:
        """Whether several tasks can read it, each a part."""
        whole = self.share is None and self.stream is None
        return whole and self.kind in (Kind.parquet, Kind.jsonl) and compression_of(self.path) is None

    @property
    def size(self) -> int:
        """Bytes of it, or about how many of the share; 0 where that is not known."""
        if self.share is not None:
            return self.share.size
        return inputs.size_of(self.path, self.options) if self.stream is None else 0

    def read(self, tell: Tell, *, block: int | None = None, names: list[str] | None = None) -> Iterator[Numbered]:
        """All rows, in order. What cannot be read at all is an error that names the file.

        Columns of CSV are text; those of JSON have the types of their values, which may change from batch to batch.
        Other files, and CSV, begin with a batch without rows, which says the columns. Lines are counted from the
        beginning of the file, as far as the share knows it: `first_line` finds it out. `names` are those of a CSV
        file without a header.
        """
        with explained(self.path):
            if self.kind is Kind.jsonl:
                rows = JsonLines(tell, exact=self.exact)
                before = self._before
                for data in self._blocks(block):
                    for batch, lines in rows.of(data):
                        yield batch, lines + before
            elif self.kind is Kind.csv:
                with self.opened() as stream:
                    yield from text_batches(stream, self.path, self.form, block or BLOCK, tell, names)
            else:
                first = self._before + 1
                lines = Lines(first, first)
                for batch in self._columnar():
                    yield batch, lines.of(batch.num_rows)

    def objects(self, of: Any = dict[str, Any], *, exact: bool = False, block: int | None = None) -> Iterator[Any]:
        """The lines of a file of JSON: the number of each, its length, and what it holds or why it holds nothing."""
        with explained(self.path):
            yield from objects(self._blocks(block), self._before + 1, of, exact=exact)

    def first_line(self) -> int:
        """The number in its file of the first line of a share. Everything before it is read to know that."""
        if self.share is None or not self.share.start or self.kind is not Kind.jsonl or self.share.before:
            return 1
        with explained(self.path), self.opened() as stream:
            return 1 + count_lines(stream, 0, self.share.start)

    def count_lines(self) -> int:
        """How many lines begin in the share."""
        with explained(self.path), self.opened() as stream:
            start, end = (0, None) if self.share is None else (self.share.start, self.share.end)
            return count_lines(stream, start, end)

    def shares(self, aim: int | None = None) -> list[Self]:
        """The same file as parts that several tasks read, if it is large and can be taken apart."""
        aim = SHARE if aim is None else aim
        size = self.size if self.can_be_shared else 0
        if size <= aim:
            return [self]
        if self.kind is Kind.jsonl:
            found = byte_ranges(size, aim)
        else:
            with explained(self.path), self.raw() as stream:
                found = row_groups(stream, aim)
        return [replace(self, share=share) for share in found] or [self]

    @contextmanager
    def raw(self) -> Iterator[IO[bytes]]:
        """The bytes as they are stored."""
        if self.stream is not None:
            yield self.stream
            return
        with inputs.open_input(self.path, self.options) as file:
            yield file

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """The bytes, decompressed by the name."""
        import pyarrow as pa

        compression = compression_of(self.path) if self.stream is None else None
        with self.raw() as file:
            if compression is None:
                yield file
                return
            with pa.CompressedInputStream(pa.PythonFile(file, mode="r"), compression) as stream:
                yield stream

    @property
    def _before(self) -> int:
        return 0 if self.share is None else self.share.before

    def _blocks(self, size: int | None) -> Iterator[bytes]:
        """Whole lines, many of them at once."""
        start, end = (0, None) if self.share is None else (self.share.start, self.share.end)
        with self.opened() as stream:
            yield from lines_between(_Bytes(stream) if self.stream is not None else stream, start, end, size or BLOCK)

    def _columnar(self) -> Iterator[pa.RecordBatch]:
        if self.kind is Kind.parquet:
            with self.raw() as stream:
                yield from columnar.parquet(stream, self.share)
            return
        local = self.stream is None and not inputs.is_remote(self.path) and compression_of(self.path) is None
        with self.opened() as stream:
            yield from columnar.arrow(stream, self.path.removeprefix("file://") if local else None)


class _Bytes:
    """A stream that a caller has opened: it may give text. What is there is taken, without waiting for more: while
    Python waits for all of it, no interrupt is heard."""

    def __init__(self, stream: Any) -> None:
        self._read = getattr(stream, "read1", stream.read)

    def read(self, size: int) -> bytes:
        found = self._read(size)
        return found.encode() if isinstance(found, str) else bytes(found)


def grouped(sizes: Sequence[int], slots: int) -> list[list[int]]:
    """Files that one task reads in turn: small ones together, since a task of Spark has a price of its own."""
    aim = min(SHARE // 4, sum(sizes) // (2 * slots) + 1)
    groups: list[list[int]] = []
    full = aim
    for number, size in enumerate(sizes):
        if full >= aim:
            groups.append([])
            full = 0
        groups[-1].append(number)
        full += size
    return groups


def header(file: RowFile) -> pa.RecordBatch | None:
    """The columns of a file, without rows. Lines of JSON have none."""
    if file.kind is Kind.jsonl:
        return None
    for batch, _ in file.read(lambda *_: None, block=1 << 20):
        return batch.slice(0, 0)
    return None


def first_line(file: RowFile, most: int = 1 << 16) -> str:
    """The first row of a text file; a stream keeps it for whoever reads it."""
    if file.stream is None:
        with file.opened() as source:
            head = source.read(most)
    elif hasattr(file.stream, "peek"):
        head = file.stream.peek(most)[:most]
    else:
        at = file.stream.tell()
        head = file.stream.read(most)
        file.stream.seek(at)
    lines = bytes(head).decode(_readable(file.form.encoding), "replace").splitlines()
    return lines[0] if lines else ""


def doubts(files: Sequence[RowFile]) -> Iterator[str]:
    """What looks wrong about files before they are read: CSV that seems to have another delimiter."""
    for file in files:
        if file.kind is not Kind.csv:
            continue
        with suppress(OSError, ValueError, CsvError):  # what cannot be read is told by whoever reads it
            for other in islice(file.form.doubts(file.path, first_line(file)), 1):
                yield f"{file.path} looks as if its fields were separated by {other}"


def _readable(encoding: str) -> str:
    return "utf-8-sig" if encoding == "utf-8" else encoding


def buffered(stream: Any) -> Any:
    """An open file as bytes: one that was opened as text has them below, or gives them."""
    if not isinstance(stream, io.TextIOBase):
        return stream
    return getattr(stream, "buffer", None) or io.BytesIO(stream.read().encode())
