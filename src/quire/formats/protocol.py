"""The small protocol a table format implements: stage, rebase, open a pin, backfill.

The lake decides *whether* two transactions may both commit (by what they did); a format decides *where* rows lie and
moves staged work onto a new base without rewriting data files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar, runtime_checkable

from quire.ledger import Change, Keys, Pin

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from quire.formats.arrow import Missing
    from quire.formats.marks import Marks

T = TypeVar("T")


@dataclass(frozen=True)
class Search:
    """A vector or full-text search, as part of a scan."""

    vector: tuple[str, Any] | None = None
    text: str | None = None
    text_columns: tuple[str, ...] = ()
    metric: str | None = None
    nprobes: int | None = None
    refine: int | None = None


@dataclass(frozen=True)
class IndexSpec:
    """An index to build or drop. `kind` is one of the names in `INDEX_KINDS`."""

    column: str
    kind: str
    name: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Staged:
    """A table state that exists in storage and that nobody can see yet."""

    pin: Pin
    keys: tuple[Keys, ...] = ()
    added: int = 0
    removed: int = 0
    files: tuple[str, ...] = ()
    """Files to make durable before publish, relative to the table's location."""


@dataclass(frozen=True)
class Overlap:
    """Why staged work cannot simply be moved onto a new base."""

    kind: Literal["keys", "rows", "moved"]
    """`keys`: a rival wrote a row with one of my keys. `rows`: a rival changed or moved a row I changed. `moved`: rows
    that I found by key were moved by compaction and by nothing else; running again cannot mean anything new."""
    items: tuple[dict[str, Any], ...] = ()
    hard: bool = False
    """Rows chosen by a predicate (update, delete): running again could change another meaning, so it is a conflict."""


@dataclass(frozen=True)
class Upkeep:
    """How a table is to be compacted."""

    target_rows: int = 1 << 20
    """Fragments with fewer rows are merged with their neighbours until they have as many."""
    deleted: float = 0.1
    """Fragments of which more than this share is deleted are written anew."""


@dataclass(frozen=True)
class Compacted:
    """What a compaction did, or would do."""

    fragments_before: int
    fragments_after: int
    rows: int = 0
    """Rows that were written anew."""
    bytes: int = 0
    """Size of the data files that were merged."""

    @property
    def changed(self) -> bool:
        return self.rows > 0 or self.fragments_before != self.fragments_after

    def to_dict(self) -> dict[str, int]:
        return asdict(self)


Progress = Callable[[int, int], None]
"""Called with steps done and steps in all, from any thread."""

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


class Cell(Protocol):
    """Bytes that are stored in one row and read by range."""

    size: int

    def read(self, offset: int, length: int) -> bytes:
        """These bytes, which must be there."""
        ...


class View(Protocol):
    """One table at one pin, for reading. Never sees anything newer."""

    @property
    def schema(self) -> pa.Schema: ...

    def count(self, filter: Any = None) -> int: ...

    def scan(
        self,
        *,
        columns: Sequence[str] | None = None,
        filter: Any = None,
        limit: int | None = None,
        offset: int | None = None,
        search: Search | None = None,
        batch_size: int | None = None,
    ) -> pa.RecordBatchReader: ...

    def dataset(self) -> Any:
        """An object that DuckDB can scan with filter and column pushdown."""
        ...

    def indexes(self) -> list[dict[str, Any]]: ...

    def config(self) -> dict[str, str]:
        """The format's own settings of the table."""
        ...

    def has(self, columns: Sequence[str], values: pa.Table) -> pa.Table:
        """The distinct rows of `values` for which the table has a row with equal `columns`."""
        ...

    def cell(self, column: str, on: Sequence[str], key: pa.Table) -> Cell | None:
        """The bytes in `column` of the row whose columns `on` are the one row of `key`.

        None where they are null, `NotFound` where there is no such row. Of a blob nothing is read before it is asked.
        """
        ...


class Work(Protocol):
    """One transaction's staged work on one table. Statements apply in order and see each other."""

    @property
    def changed(self) -> bool: ...

    @property
    def exclusive(self) -> bool:
        """Whether any concurrent change of the table is a conflict (overwrite, schema change)."""
        ...

    @property
    def additive(self) -> bool:
        """Whether all it does is to add rows, so that it can be staged behind other work that does the same."""
        ...

    def on(self, pin: Pin) -> bool:
        """Whether the work is based on this very state."""
        ...

    def keys(self) -> tuple[Keys, ...]:
        """The keys of the rows that it writes, if it was given any to write by."""
        ...

    def view(self) -> View: ...
    def delta(self, columns: Sequence[str] | None = None) -> tuple[pa.RecordBatchReader, pa.RecordBatchReader]:
        """Rows of the base that the work removes, and rows that it adds; one that it replaces is among both.

        Of `columns` only, as far as a side has them; a blob may then be shown as a scan shows it. What the work itself
        added and removed again is in neither.
        """
        ...

    def append(self, data: Any, *, missing: Missing) -> int: ...
    def insert(self, data: Any, on: Sequence[str], *, missing: Missing) -> int: ...
    def upsert(self, data: Any, on: Sequence[str], *, keep: Mapping[str, Any] | None = None) -> tuple[int, int]:
        """Replace the rows with these keys, add the others; how many were added, and replaced.

        Columns that are not given keep their values, and so do, by column, the rows of a mask in `keep`: what is given
        there is for rows that are new. It is built on each base anew.
        """
        ...

    def upserted(self) -> tuple[int, int]:
        """Rows that all upserts of the work added and replaced, on the base that it stands on now."""
        ...

    def update(self, exprs: dict[str, str], values: dict[str, Any], where: str | None, key: Sequence[str]) -> int: ...
    def delete(self, where: str) -> int: ...
    def overwrite(self, data: Any, key: Sequence[str], *, schema: Literal["keep", "replace"]) -> int: ...
    def add_columns(self, spec: Any) -> None: ...
    def drop_columns(self, names: Sequence[str]) -> None: ...
    def rename_column(self, old: str, new: str) -> None: ...
    def alter_column(self, name: str, *, type: Any = None, nullable: bool | None = None) -> None: ...
    def create_index(self, spec: IndexSpec, *, replace: bool, run: Run | None = None) -> None:
        """Build an index over the final rows when the work is staged; by others, if `run` is given."""
        ...

    def drop_index(self, name: str) -> None: ...
    def compact(
        self, how: Upkeep, *, mode: Literal["do", "plan"] = "do", progress: Progress | None = None
    ) -> Compacted:
        """Merge small fragments and leave deleted rows behind; `plan` writes nothing and only tells.

        Goes with `extend_indexes` and with no other statement on the same table. On a newer base, what cannot follow
        the rivals is left alone; when nothing is left, the work is unchanged.
        """
        ...

    def extend_indexes(
        self, how: Upkeep, *, mode: Literal["do", "plan"] = "do", progress: Progress | None = None
    ) -> list[str]:
        """Let every index cover all rows, at a cost that follows what is new; the names of those that were extended.

        With `plan`, those that would be after a compaction planned by the same `how`. On a newer base, what no longer
        fits is left for the next time.
        """
        ...

    def settle(self) -> None:
        """Wait for background writes; raise what they raised."""
        ...

    def rebase(self, onto: Pin, theirs: Sequence[Change]) -> Overlap | None:
        """Move the staged work onto a newer pin of the table, if no row is in dispute. Data files are kept."""
        ...

    def replay(self, onto: Pin) -> None:
        """Run every statement again on a newer pin, from its staged input."""
        ...

    def stage(self, behind: Sequence[Work] = ()) -> Staged:
        """Write the table state that the commit will pin. Repeatable.

        `behind` are additive works of others on the same pin that are committed just before this one, which must be
        additive too: the state holds their rows and then its own.
        """
        ...

    def written(self) -> tuple[str, Sequence[str]]:
        """The table's location, and everything below it that this work has written and still needs.

        A name that is empty or ends in `/` is a folder.
        """
        ...


@dataclass(frozen=True)
class Place:
    """One state of a table as another process opens it, to read it or to write data files for it.

    The options hold credentials: they travel with it and are never shown.
    """

    uri: str
    version: int
    options: dict[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Found:
    """Rows of a table that were found by key in other processes."""

    addresses: NDArray[np.uint64] | Mapping[int, Marks]
    """Which: by address (the fragment's number in the high half, the row's in the low), or by fragment."""
    matched: int
    """How many of the keys have a row."""
    examples: tuple[dict[str, Any], ...] = ()
    """Some of those keys, for people."""


@dataclass(frozen=True)
class Built:
    """Rows that other processes have made for one state of a table, and the rows of it that they replace."""

    fragments: tuple[str, ...]
    found: Found


Build = Callable[[Place], Built]
"""Makes the rows of a statement whose rows depend on those that are there, on every base that it moves to."""
Seek = Callable[[Place, Sequence[int] | None], Found]
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


@runtime_checkable
class Shared(Protocol):
    """Work to which other processes can contribute."""

    def place(self) -> Place:
        """Where data files for it are to be written."""
        ...

    def hand_in(self, handed: Handed) -> int:
        """Run a statement from files that are written; how many keys had a row, or how many rows are there now."""
        ...


@runtime_checkable
class Spread(Protocol):
    """Work whose upkeep other processes can do. The same as `compact` and `extend_indexes`, in parts."""

    def compacting(self, how: Upkeep) -> Split[Compacted]: ...
    def extending(self) -> Split[list[str]]: ...


class WholeRows(Protocol):
    """Whole rows of a part of a table, blobs as bytes. It can be pickled, unless it is for this process only."""

    def schema(self) -> pa.Schema: ...
    def batches(self) -> Iterator[pa.RecordBatch]: ...


@runtime_checkable
class Parted(Protocol):
    """A view that can be read in parts by other processes."""

    def place(self) -> Place: ...
    def parts(self) -> list[tuple[int, int]]:
        """The table's fragments: number and rows."""
        ...

    def whole(self, fragments: Sequence[int], *, here: bool) -> WholeRows:
        """The rows of some fragments, for this process or for another."""
        ...


@dataclass(frozen=True)
class Head:
    """What a plain client of the format sees at the table's location."""

    version: int
    counter: int | None
    """Quire's counter of the promoted state, or None when a foreign writer made this version."""
    commit: str | None = None


@dataclass(frozen=True)
class Promotion:
    """Outcome of a backfill of one table."""

    table: str
    outcome: Literal["current", "promoted", "foreign", "behind", "blocked"]
    """With `foreign` a plain writer was there first, with `behind` another backfill; `blocked`: must not be touched."""
    version: int
    detail: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {"table": self.table, "outcome": self.outcome, "version": self.version, "detail": self.detail}


class AlreadyAdopted(Exception):
    """The foreign change that is being adopted was adopted by somebody else first."""


@dataclass(frozen=True)
class Foreign:
    """What a plain writer did since the last state it had in common with Quire."""

    base: int
    head: int
    ops: tuple[str, ...]
    details: tuple[str, ...] = ()


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


Claim = tuple[int, ...]
"""What a state says of one of its files, as the format itself understands it."""


@runtime_checkable
class Readable(Protocol):
    """A format whose files can be read one by one, to see whether each holds what the states that need it say."""

    def claims(self, pin: Pin, table: str, *, deep: bool) -> tuple[dict[str, Claim], str | None]:
        """What a pinned state says of its files, by name below its location; and what is wrong with it by itself.

        Unless it is `deep`, only of files that are small and whose size is not known.
        """
        ...

    def unlike(self, location: str, path: str, claim: Claim) -> str | None:
        """Read the whole file: in what it is not what was said of it, or None."""
        ...


class TableFormat(Protocol):
    """A kind of table. Its methods take pins, never "the newest"."""

    name: str

    def location(self, table: str) -> str:
        """Where a new table of this id lies, relative to the lake; plain clients of the format expect its form."""
        ...

    def create(
        self, location: str, data: Any, *, schema: Any, write: str, stable_row_ids: bool, table: str
    ) -> Work: ...
    def register(self, uri: str) -> tuple[Pin, pa.Schema]: ...
    def open(self, pin: Pin, table: str = "") -> View: ...
    def begin(self, pin: Pin, *, write: str, table: str) -> Work: ...
    def prepare(self, pin: Pin) -> None:
        """Read now, in the background, what the next write to a state that was just published would read first."""
        ...

    def head(self, pin: Pin) -> Head: ...
    def promote(self, pin: Pin, *, commit: str, table: str) -> Promotion: ...
    def foreign(self, pin: Pin, head: Head) -> Foreign: ...
    def graft(self, pin: Pin, found: Foreign, *, same: bool, key: Sequence[str], write: str, table: str) -> Work:
        """A foreign change as the work of a transaction on `pin`.

        `same` says that the foreign writer began at exactly this state, not just at one whose rows it includes.
        """
        ...

    def files(self, pin: Pin, table: str) -> dict[str, int | None]:
        """Every file that a pinned state needs, relative to its location, with its size where it is known.

        A name that ends in `/` is a folder that must not be empty.
        """
        ...

    def kept(self, pin: Pin, table: str) -> set[str]:
        """What cleanup must leave for a pinned state: its `files`, and whatever else belongs to them.

        Names are relative to the location; one that ends in `/` stands for everything below it.
        """
        ...

    def plain_files(self, location: str, since: datetime) -> set[str]:
        """What cleanup must leave for plain clients, in the same form.

        That is the HEAD, versions that a plain writer made since Quire's last one, and what was HEAD at or after store
        time `since`. Empty when there is no plain table at the location.
        """
        ...

    def head_differs(self, pin: Pin) -> str | None:
        """How the plain HEAD differs from the pin that it claims to be; None when it does not, or claims nothing."""
        ...

    def is_at(self, pin: Pin, version: int, commit: str) -> bool: ...
    def undo(self, work: Work, before: Pin, after: Pin, *, key: Sequence[str]) -> bool:
        """Take back, in `work`, the rows by which `after` differs from `before`; False when they were changed since."""
        ...

    def changed_rows(
        self, before: Pin, after: Pin, columns: Sequence[str] | None = None
    ) -> tuple[pa.RecordBatchReader, pa.RecordBatchReader]:
        """Rows of `before` that are gone and rows of `after` that are new, reading only what differs.

        Whole rows come with the bytes of their blobs; of `columns`, those that a side has, as a scan shows them.
        """
        ...
