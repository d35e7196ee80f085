"""What one task of a pipeline does: read a piece, map it, fit it, write data files; tell what was left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from quire.conversion.inputs import source as arrow_source
from quire.errors import InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, TypeVar
from urllib.parse import quote

import numpy as np

from quire.formats import task_table, tasks
from quire.graph.integrity.violations import Violation
from quire.graph.load.rejects import Rejects
from quire.lake.engines import Answer
from quire.lake.engines import on_frame as on_rows
from quire.pipeline.map_rows import Fitter, Mapper, Met, explained
from quire.pipeline.mapping import Feed
from quire.rowfiles import json_values
from quire.rowfiles.csv import Tell
from quire.rowfiles.files import Numbered, RowFile
from quire.rowfiles.kinds import Kind
from quire.rowfiles.rejects import RejectFolder


def on_frame(session: Any | None, frame: Any, into: IntoTable, name: str, number: int) -> list[dict[str, Any]]:
    """Write the rows of a frame: what each task tells."""

    def work(batches: Iterator[pa.RecordBatch], part: int) -> Answer:
        return into(Batches(name, batches), number * 100_000 + part)

    return [head for head, _ in on_rows(session, frame, work, name)]


def local_batches(frame: Any, name: str) -> Iterator[pa.RecordBatch]:
    """The rows of a frame in this process."""
    if hasattr(frame, "mapInArrow"):
        raise InvalidInput(f"{name} is a Spark DataFrame.", next="Pass its session as engine.")
    yield from arrow_source(frame).batches


def spark_frame(frame: Any, name: str) -> Any:
    """The frame, if it is one of Spark."""
    if not hasattr(frame, "mapInArrow"):
        raise InvalidInput(
            f"{name} is not a Spark DataFrame.", next="Make one with spark.createDataFrame, or load it locally."
        )
    return frame


LINES = "line"
RUNS = 1_000
"""Up to so many runs of lines are told as they are; more are written to a file."""

Lines = list[tuple[int, int]] | str
"""The lines of rows: runs, each by its first line and how many they are, or the file that they are in."""


class Readable(Protocol):
    """Something that rows come from."""

    @property
    def path(self) -> str: ...

    def read(self, tell: Tell) -> Iterator[Numbered]: ...

    def first_line(self) -> int: ...


@dataclass
class Batches:
    """Rows that are at hand already: those of a frame, or of a part of one."""

    path: str
    batches: Iterable[pa.RecordBatch]

    def read(self, tell: Tell) -> Iterator[Numbered]:
        line = 1
        for batch in self.batches:
            yield batch, np.arange(line, line + batch.num_rows)
            line += batch.num_rows

    def first_line(self) -> int:
        return 1


@dataclass(frozen=True)
class Care:
    """What becomes of rows that break a rule."""

    most: int
    """So many are told."""
    skip: bool | int
    """Whether the others are loaded without them, or without so many at most."""
    folder: RejectFolder
    """Where they are written to."""


class Told:
    """Collects what is wrong in one task; a context manager that writes the rejected rows where they belong."""

    def __init__(self, care: Care, target: str, source: Readable, name: str) -> None:
        self.target, self.source = target, source
        self.rejects = Rejects(care.most, care.folder.sink(name), care.skip)
        self._before: int | None = None
        self.met: Met | None = None

    def __enter__(self) -> Told:
        return self

    def __exit__(self, *_: Any) -> None:
        self.rejects.close()

    def line(self, number: int) -> int:
        """A line of the piece as it is numbered in the file."""
        if self._before is None:
            self._before = self.source.first_line() - 1
        return number + self._before

    def reject(self, line: int, rule: str, column: str | None, said: str, row: Any) -> None:
        self.rejects.leave_out(self.target, 1)
        violation = Violation(self.target, rule, said, property=column, file=self.source.path, line=self.line(line))
        self.rejects.add(violation, row)

    def tell(self, line: int, rule: str, said: str, text: Any) -> None:
        self.reject(line, rule, None, said, text)

    def summary(self) -> dict[str, Any]:
        found = self.rejects.found
        return {
            "violations": [v.to_dict() for v in found.violations],
            "count": found.count,
            "rejected": self.rejects.rows,
        }


@dataclass(frozen=True)
class IntoTable:
    """Writes the rows of a piece as data files of a table."""

    feed: Feed
    output: tasks.Output
    schema: Any
    care: Care

    def __call__(self, piece: Readable, number: int) -> Answer:
        with Told(self.care, self.feed.target, piece, f"{number:05}") as told:
            lines: list[Any] = []
            written, rows = tasks.write_rows(self.output, self._rows(piece, told, lines))
            where = self._lines(lines) if rows and self.output.on else None
            return {"written": written, "rows": rows, "lines": where, "met": told.met, **told.summary()}, b""

    def _rows(self, piece: Readable, told: Told, lines: list[Any]) -> Iterator[pa.RecordBatch]:
        loose = self.feed.columns is None and isinstance(piece, Piece) and piece.kind is Kind.jsonl
        fitter = Fitter(
            self.feed.target, self.schema, self.output.on, told.reject, missing="null" if loose else "error"
        )
        kinds = dict(zip(self.schema.names, self.schema.types, strict=True))
        for batch, numbers in mapped(self.feed, exactly(self.feed, piece, kinds), told):
            for fitted, kept in fitter(batch, numbers):
                if self.output.on:
                    lines.append(kept)
                yield fitted

    def _lines(self, lines: list[Any]) -> Lines:
        import pyarrow as pa

        runs = _runs(lines)
        if len(runs) <= RUNS:
            return runs
        batches = (pa.record_batch({LINES: pa.array(some, pa.int64())}) for some in lines)
        return task_table(self.output.place).write_beside(batches)

    def _numbers(self, lines: Lines) -> Any:
        """The line of every row."""
        if isinstance(lines, str):
            return tasks.all_keys(self.output.place, [lines], [LINES]).column(0).to_numpy()
        return np.concatenate([np.arange(first, first + count) for first, count in lines])

    def again(self, paths: Sequence[str], lines: Lines, source: Readable, name: str, wrong: dict[int, str]) -> Answer:
        """Write the rows of a task once more, without those at some positions, which are told as rejected."""
        import pyarrow as pa

        place, names = self.output.place, list(self.schema.names)
        numbers = self._numbers(lines)
        name = f"{quote(self.output.table, safe='')}-{name}"
        with Told(self.care, self.feed.target, source, name) as told:

            def kept() -> Iterator[pa.RecordBatch]:
                at = 0
                for batch in task_table(place).read_files(paths, names):
                    keep = np.ones(batch.num_rows, bool)
                    for position in sorted(p for p in wrong if at <= p < at + batch.num_rows):
                        keep[position - at] = False
                        row = batch.slice(position - at, 1).to_pylist()[0]
                        line, key = int(numbers[position]), ", ".join(self.output.on)
                        told.reject(line, "key", key, wrong[position], row)
                    at += batch.num_rows
                    yield batch.filter(pa.array(keep))

            written, rows = tasks.write_rows(self.output, kept())
            left = self._lines([np.delete(numbers, list(wrong))]) if rows else None
            return {"written": written, "rows": rows, "lines": left, **told.summary()}, b""


def _runs(lines: Sequence[Any]) -> list[tuple[int, int]]:
    """The first line and the length of every run of lines that follow one another."""
    numbers = np.concatenate(lines) if len(lines) > 1 else np.asarray(lines[0])
    starts = np.concatenate([[0], np.flatnonzero(np.diff(numbers) != 1) + 1])
    counts = np.diff(np.append(starts, len(numbers)))
    return list(zip(numbers[starts].tolist(), counts.tolist(), strict=True))


@dataclass(frozen=True)
class Piece(RowFile):
    """A file of a source, or a part of one, that one task reads."""

    alone: bool = True
    """Whether its feed reads nothing else. Objects of JSON leave out what is null: one of several may lack a column."""


Source = TypeVar("Source", bound=Readable)


def wanted(feed: Feed, kinds: Mapping[str, pa.DataType]) -> dict[str, pa.DataType]:
    """The columns of a source that a feed takes for whole numbers or decimals, with the types that they become.

    One that is taken for both is read as the decimal, which holds either.
    """
    import pyarrow.types as t

    columns = feed.mapped()
    pairs = [(n, n) for n in kinds] if columns is None else [(c.column, n) for n, c in columns.items()]
    found: dict[str, pa.DataType] = {}
    for column, name in pairs:
        kind = kinds.get(name)
        if column is None or kind is None or not json_values.is_exact(kind):
            continue
        if column not in found or t.is_decimal(kind):
            found[column] = kind
    return found


def exactly(feed: Feed, piece: Source, kinds: Mapping[str, pa.DataType]) -> Source:
    """The same piece; one of JSON knows then which of its numbers must not change on the way to these types."""
    return replace(piece, exact=wanted(feed, kinds)) if isinstance(piece, Piece) else piece


def mapped(feed: Feed, piece: Readable, told: Told) -> Iterator[Numbered]:
    """The rows of a piece as a feed maps them."""
    with explained(piece.path), Mapper(feed, told.reject) as mapper:
        for batch, lines in piece.read(told.tell):
            if batch.num_rows:
                yield from mapper(batch, lines)
        told.met = _finished(mapper, piece)


def _finished(mapper: Mapper, piece: Readable) -> Met:
    """Refuse columns that the piece lacks; where others may have them, tell."""
    if not isinstance(piece, Piece) or piece.kind is not Kind.jsonl or piece.alone:
        mapper.finish()
    return mapper.met


@dataclass(frozen=True)
class Mapped:
    """A piece as the graph's loader reads it: columns that a feed has mapped, each row with its line."""

    feed: Feed
    piece: Piece | Batches
    met: dict[str, list[str]] = field(default_factory=dict)
    """Columns that were there and that were not, once all of it is read."""

    def numbered(self, reject: Any) -> Iterator[Numbered]:
        """Rows with lines; `reject(line, rule, said, row)` hears of those that could not be mapped."""
        told = _Forwarded(self.piece, reject)
        with explained(self.piece.path), Mapper(self.feed, told.reject) as mapper:
            for batch, lines in self.piece.read(told.tell):
                if batch.num_rows:
                    yield from mapper(batch, lines)
            self.met.update(_finished(mapper, self.piece))


@dataclass
class _Forwarded:
    piece: Readable
    to: Any

    def reject(self, line: int, rule: str, column: str | None, said: str, row: Any) -> None:
        self.to(line, rule, said, row)

    def tell(self, line: int, rule: str, said: str, text: Any) -> None:
        self.to(line, rule, said, text)
