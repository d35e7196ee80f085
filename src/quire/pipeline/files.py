"""The rows of a file in batches, each row with its line: on disk or in a bucket, compressed or not, whole or in part.

A large Parquet file is read by several tasks, each some of its row groups; a large file of JSON lines too, each the
lines that begin in its bytes. A CSV file is read by one: where a row begins in it, only who read the rows before knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from quire.errors import InvalidInput
from quire.graph.load.lines import Lines
from quire.graph.load.readers import open_csv
from quire.graph.load.shares import SHARE, byte_ranges, count_lines, lines_between, row_groups
from quire.graph.load.sources import explained as readable
from quire.pipeline.json_lines import JsonLines
from quire.pipeline.mapping import COMPRESSED, Format
from quire.store import inputs

if TYPE_CHECKING:
    import pyarrow as pa

PIECE = SHARE
"""Bytes of a file that one task reads, if the file can be taken apart."""
BLOCK = 8 << 20
BATCH = 65_536

Numbered = tuple["pa.RecordBatch", Any]
"""Rows, and the line of each; those of Parquet and Arrow are counted from 1."""
Tell = Callable[[int, str, str, Any], None]
"""Called with the line as the piece numbers it, the rule, what is wrong, and the text of what is no row at all."""


@dataclass(frozen=True)
class Piece:
    """A file, or a part of one, that one task reads."""

    path: str
    format: Format
    start: int = 0
    """The first byte of JSON lines, or the first row group of Parquet."""
    end: int | None = None
    before: int = 0
    """Rows of Parquet before these."""
    size: int = 0
    """About how many bytes it has."""
    options: dict[str, str] = field(default_factory=dict, repr=False)
    """Of the store that it lies in. They hold credentials and travel with it."""
    alone: bool = True
    """Whether its feed reads nothing else. Objects of JSON leave out what is null: one of several may lack a column."""
    exact: Mapping[str, pa.DataType] = field(default_factory=dict, repr=False)
    """Columns of JSON whose numbers must not change, with the types that they become."""

    @property
    def is_text(self) -> bool:
        """Whether the file knows nothing but text."""
        return self.format == "csv"

    def read(self, tell: Tell) -> Iterator[Numbered]:
        """All rows, in order. What cannot be read at all is an error that names the file.

        Lines of JSON are numbered from the beginning of the piece: `first_line` says where that is.
        """
        with explained(self.path):
            if self.format == "parquet":
                yield from self._parquet()
            elif self.format == "arrow":
                yield from self._arrow()
            elif self.format == "csv":
                yield from self._csv(tell)
            else:
                yield from self._json(tell)

    def _opened(self) -> IO[bytes]:
        return inputs.open_input(self.path, self.options)

    @contextmanager
    def _stream(self) -> Iterator[Any]:
        import pyarrow as pa

        with self._opened() as file:
            given = pa.PythonFile(file, mode="r")
            compression = _compression(self.path)
            with pa.CompressedInputStream(given, compression) if compression else given as stream:
                yield stream

    def _parquet(self) -> Iterator[Numbered]:
        import pyarrow.parquet as pq

        with self._opened() as stream, pq.ParquetFile(stream) as file:
            end = file.metadata.num_row_groups if self.end is None else self.end
            line = self.before + 1
            for batch in file.iter_batches(batch_size=BATCH, row_groups=list(range(self.start, end))):
                yield batch, np.arange(line, line + batch.num_rows)
                line += batch.num_rows

    def _arrow(self) -> Iterator[Numbered]:
        import pyarrow as pa

        line = 1
        with self._opened() as stream:
            seekable = stream.read(6) == b"ARROW1"
            stream.seek(0)
            opened = pa.ipc.open_file(stream) if seekable else pa.ipc.open_stream(stream)
            with opened:
                batches = (opened.get_batch(n) for n in range(opened.num_record_batches)) if seekable else opened
                for batch in batches:
                    yield batch, np.arange(line, line + batch.num_rows)
                    line += batch.num_rows

    def _csv(self, tell: Tell) -> Iterator[Numbered]:
        lines = Lines()

        def invalid(row: Any) -> str:
            said = f"This line has {row.actual_columns} fields, not {row.expected_columns}."
            lines.skip(row.number, row.text, lambda line: tell(line, "csv", said, row.text))
            return "skip"

        with self._stream() as stream:
            for batch in open_csv(stream, BLOCK, invalid):
                yield lines.of_text(batch)
        lines.finish()

    def _json(self, tell: Tell) -> Iterator[Numbered]:
        rows = JsonLines(tell, exact=self.exact)
        with self._stream() as stream:
            for block in lines_between(stream, self.start, self.end):
                yield from rows.of(block)

    def first_line(self) -> int:
        """The number in its file of the first line of the piece. Everything before it is read to know that."""
        if not self.start or self.format != "jsonl":
            return 1
        with self._stream() as stream:
            return 1 + count_lines(stream, 0, self.start)


def pieces(path: str, format: Format, options: dict[str, str], *, apart: bool = True) -> list[Piece]:
    """What tasks read of a file: all of it or, if it is large and can be taken `apart`, a part each."""
    size = inputs.size_of(path, options)
    whole = Piece(path, format, size=size, options=options)
    if size <= PIECE or not apart or _compression(path) or format not in ("parquet", "jsonl"):
        return [whole]
    if format == "parquet":
        with explained(path), whole._opened() as stream:
            shares = row_groups(stream, PIECE)
    else:
        shares = byte_ranges(size, PIECE)
    return [replace(whole, start=s.start, end=s.end, before=s.before, size=s.size) for s in shares]


def grouped(sizes: Sequence[int], slots: int) -> list[list[int]]:
    """Pieces that one task reads in turn: small ones together, since a task of Spark has a price of its own."""
    aim = min(PIECE // 4, sum(sizes) // (2 * slots) + 1)
    groups: list[list[int]] = []
    full = aim
    for number, size in enumerate(sizes):
        if full >= aim:
            groups.append([])
            full = 0
        groups[-1].append(number)
        full += size
    return groups


def _compression(path: str) -> str | None:
    return COMPRESSED.get(PurePath(path).suffix.lower())


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Turn what DuckDB, Arrow and the file system say about a file into one error that names it."""
    import duckdb

    try:
        with readable(path):
            yield
    except (duckdb.Error, EOFError) as error:
        said = " ".join((str(error).split("\n\nLINE ")[0].split("\nLINE ")[0]).split()).rstrip(".")
        raise InvalidInput(f"{path}: {said}.", next="Correct the file or the mapping.", file=path) from None
