"""What other processes do for a table: read parts of it, look keys up, write data files. Nobody can see any of it.

A place says which state of which table, and a task opens it through its format (`quire.formats.task_table`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar, runtime_checkable

from quire.formats.protocol.view import View

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from quire.conversion.source import Source
    from quire.filters import Condition
    from quire.formats.row_bitmap import Marks
    from quire.ledger import Pin

T = TypeVar("T")


Part = Callable[[], bytes]
"""A piece of long work that any process can do, and so it can be pickled. It may write files that nobody names yet, and
answers with what is to be told of them. It may be done twice, and one answer counts."""
Run = Callable[[Sequence[Part]], list[bytes]]
"""Lets others do parts; their answers, in order."""


@dataclass(frozen=True)
class Split(Generic[T]):
    """Long work in parts, and what the process that owns the transaction makes of all their answers, in order."""

    parts: Sequence[Part]
    take: Callable[[Sequence[bytes]], T]


@dataclass(frozen=True)
class Place:
    """One state of a table as another process opens it, to read it or to write data files for it.

    The options hold credentials: they travel with it and are never shown.
    """

    format: str
    uri: str
    version: str
    """As a pin of the format names it."""
    options: dict[str, str] = field(default_factory=dict, repr=False)


class WholeRows(Protocol):
    """Whole rows of a part of a table, blobs as bytes. It can be pickled, unless it is for this process only."""

    def schema(self) -> pa.Schema: ...
    def batches(self) -> Iterator[pa.RecordBatch]: ...


Parts = list[tuple[int, int]]
"""Fragments: the number of each in its state, and how many of its rows are meant."""
Span = tuple[int, int]
"""Some neighbours among the rows of a fragment that are there: from the first number on, up to before the second."""


@runtime_checkable
class Parted(Protocol):
    """A view that can be read in parts by other processes."""

    def place(self) -> Place: ...
    def parts(self) -> Parts:
        """The table's fragments."""
        ...

    def parts_since(self, before: View) -> tuple[Parts, Parts]:
        """Fragments of an earlier view of which rows are gone, and fragments of this one that are new."""
        ...

    def whole(self, fragments: Sequence[int], *, here: bool) -> WholeRows:
        """The rows of some fragments, for this process or for another."""
        ...


class Changed(Protocol):
    """Rows by which two states of a table differ, in parts that other processes read. It can be pickled."""

    @property
    def rows(self) -> Sequence[int]:
        """Of every part, how many rows it has at most."""
        ...

    def read(self, part: int) -> Iterator[tuple[bool, pa.RecordBatch]]:
        """The rows of a part: True stands before those that are new, False before those that are gone."""
        ...


@runtime_checkable
class Comparable(Protocol):
    """A format whose states other processes can compare."""

    def changed(self, before: Pin, after: Pin) -> Changed:
        """The same rows as `changed_rows` gives. Nothing is read but what says where they are."""
        ...


@dataclass(frozen=True)
class MatchedRows:
    """Rows of a table that were found by key in other processes."""

    addresses: NDArray[np.uint64] | Mapping[int, Marks]
    """Which: by address, or by fragment."""
    matched: int
    """How many of the keys have a row."""
    examples: tuple[dict[str, Any], ...] = ()
    """Some of those keys, for people."""


@dataclass(frozen=True)
class Built:
    """Rows that other processes have made for one state of a table, and the rows of it that they replace."""

    fragments: tuple[str, ...]
    found: MatchedRows


Build = Callable[[Place], Built]
"""Makes the rows of a statement whose rows depend on those that are there, on every base that it moves to."""
Seek = Callable[[Place, Sequence[int] | None], MatchedRows]
"""Finds the rows of a table that have one of a statement's keys: in all fragments, or in these. It is called again on
every base that the statement moves to, and must then speak of the same keys."""


@dataclass(frozen=True)
class Handed:
    """One statement whose data files other processes have written."""

    op: Literal["append", "insert", "upsert", "delete", "overwrite"]
    fragments: tuple[str, ...] = ()
    """As the format's own writers describe them."""
    on: tuple[str, ...] = ()
    seek: Seek | None = None
    """For every statement that goes by key. That the keys are distinct is the caller's to know."""
    schema: Any = None
    """New columns of the table, for an overwrite that replaces them."""
    rests_on_base: bool = False
    """Whether the rows were computed from those of the table, so that they mean nothing on another base."""
    without: Mapping[int, NDArray[np.uint32]] = field(default_factory=dict)
    """By position among the fragments: rows of theirs that are left out. `seek` speaks of the others."""
    build: Build | None = None
    """For an upsert whose rows depend on those that are there: it comes without fragments, and with what makes them."""


class HandedFiles(Protocol):
    """How data files that other processes wrote become part of a transaction's work on a table."""

    def place(self) -> Place:
        """Where data files for it are to be written."""
        ...

    def hand_in(self, handed: Handed) -> int:
        """Run a statement from files that are written; how many keys had a row, or how many rows are there now."""
        ...


ROW_ADDRESS = "_rowaddr"
"""The column in which rows come with their addresses: the fragment's number in the high half, the row's in the low.

Addresses rise in the order of the rows, and mean something at one state only."""


@dataclass(frozen=True)
class NewFile:
    """A data file that a task wrote."""

    path: str
    """As `TaskTable.read_files` takes it."""
    rows: int


class TaskTable(Protocol):
    """One state of a table in a task: what is read there, and files that are written beside it.

    It asks for nothing newer. What it writes is named by nobody until the process that owns the transaction hands it
    in; files of a task that failed or was run twice stay garbage.
    """

    @property
    def schema(self) -> pa.Schema: ...

    def view(self, table: str) -> View: ...
    def parts(self) -> Parts: ...

    # -- reading ----------------------------------------------------------------------------------------------

    def read_rows(
        self,
        parts: Sequence[int],
        columns: Sequence[str] | None,
        filter: str | Condition | None = None,
        *,
        span: Span | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Rows of some fragments, or of a span of the only one. A filter is asked about the rows of the span."""
        ...

    def addressed_rows(self, parts: Sequence[int], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Columns of all rows of some fragments, and `ROW_ADDRESS`."""
        ...

    def gone_rows(self, after: Place, part: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Columns of the rows of one fragment that a later state does not have."""
        ...

    def find_keys(
        self, parts: Sequence[int] | None, on: Sequence[str], keys: pa.Table
    ) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Addresses of the rows, of all fragments or some, that have one of the keys, and the position of its key."""
        ...

    def patched(
        self, given: pa.RecordBatch, keep: Mapping[str, Any], addresses: NDArray[np.uint64], positions: Any
    ) -> pa.Table:
        """Whole rows as the table stores them, some of which keep values of rows that are there.

        The row at `addresses[i]` is replaced by the given one at `positions[i]`, which takes its values in the columns
        of `keep` where their mask says so.
        """
        ...

    # -- writing ----------------------------------------------------------------------------------------------

    def stored(self, rows: Source, schema: pa.Schema) -> Source:
        """The same rows with bytes as the table stores them, if it has a type of its own for blobs."""
        ...

    def write(self, rows: Source, *, mode: Literal["append", "overwrite"]) -> list[str]:
        """Write rows that fit as data files: their fragments, for `Handed`."""
        ...

    def new_files(self, fragments: Iterable[str]) -> list[NewFile]:
        """The data file of each of these new fragments."""
        ...

    def write_beside(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema | None = None) -> str:
        """Write rows that belong to no table to a file beside the data files; its path, as `read_files` takes it."""
        ...

    def read_files(self, paths: Sequence[str], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some columns of files that tasks have written, file by file."""
        ...
