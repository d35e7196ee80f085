"""The small protocol a table format implements: stage, rebase, open a pin, backfill.

The lake decides *whether* two transactions may both commit (by what they did); a format decides *where* rows lie and
moves staged work onto a new base without rewriting data files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from quire.ledger import Change, Keys, Pin

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.formats.arrow import Missing


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


class Work(Protocol):
    """One transaction's staged work on one table. Statements apply in order and see each other."""

    @property
    def changed(self) -> bool: ...

    @property
    def exclusive(self) -> bool:
        """Whether any concurrent change of the table is a conflict (overwrite, schema change)."""
        ...

    def on(self, pin: Pin) -> bool:
        """Whether the work is based on this very state."""
        ...

    def view(self) -> View: ...
    def append(self, data: Any, *, missing: Missing) -> int: ...
    def insert(self, data: Any, on: Sequence[str], *, missing: Missing) -> int: ...
    def upsert(self, data: Any, on: Sequence[str]) -> tuple[int, int]: ...
    def update(self, exprs: dict[str, str], values: dict[str, Any], where: str | None, key: Sequence[str]) -> int: ...
    def delete(self, where: str) -> int: ...
    def overwrite(self, data: Any, key: Sequence[str], *, schema: Literal["keep", "replace"]) -> int: ...
    def add_columns(self, spec: Any) -> None: ...
    def drop_columns(self, names: Sequence[str]) -> None: ...
    def rename_column(self, old: str, new: str) -> None: ...
    def alter_column(self, name: str, *, type: Any = None, nullable: bool | None = None) -> None: ...
    def create_index(self, spec: IndexSpec, *, replace: bool) -> None: ...
    def drop_index(self, name: str) -> None: ...
    def settle(self) -> None:
        """Wait for background writes; raise what they raised."""
        ...

    def rebase(self, onto: Pin, theirs: Sequence[Change]) -> Overlap | None:
        """Move the staged work onto a newer pin of the table, if no row is in dispute. Data files are kept."""
        ...

    def replay(self, onto: Pin) -> None:
        """Run every statement again on a newer pin, from its staged input."""
        ...

    def stage(self) -> Staged:
        """Write the table state that the commit will pin. Repeatable."""
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

    def head_differs(self, pin: Pin) -> str | None:
        """How the plain HEAD differs from the pin that it claims to be; None when it does not, or claims nothing."""
        ...

    def is_at(self, pin: Pin, version: int, commit: str) -> bool: ...
    def undo(self, work: Work, before: Pin, after: Pin, *, key: Sequence[str]) -> bool:
        """Take back, in `work`, the rows by which `after` differs from `before`; False when they were changed since."""
        ...

    def changed_rows(self, before: Pin, after: Pin) -> tuple[pa.RecordBatchReader, pa.RecordBatchReader]:
        """Rows of `before` that are gone and rows of `after` that are new, reading only what differs."""
        ...
