"""One transaction's staged work on one table: run statements, move to a newer base, stage.

The statements come in parts, by what they are about: rows, columns, indexes, upkeep, files of other processes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from quire.filters import Where
from quire.formats.protocol.distributed import HandedFiles, Run
from quire.formats.protocol.upkeep import UpkeepStatements
from quire.formats.protocol.view import View
from quire.ledger import Change, Keys, NotedKeys, Pin

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.conversion.fit import Missing
    from quire.conversion.source import Source


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
    noted: tuple[NotedKeys, ...] = ()
    """The keys of its new data files, for others that look for some."""


@dataclass(frozen=True)
class Overlap:
    """Why staged work cannot simply be moved onto a new base."""

    kind: Literal["keys", "rows", "counts"]
    """`keys`: a rival wrote a row with one of my keys. `rows`: a rival changed a row I changed, or put it where it
    cannot be found. `counts`: run again, a statement would not return what it has returned."""
    items: tuple[dict[str, Any], ...] = ()
    hard: bool = False
    """Whether it is a conflict: keys that must be new are taken, a condition chose other rows, a count was told."""


@dataclass(frozen=True)
class Ran:
    """What a work has run so far, so that it shows whether it ran anything since."""

    made: object
    """The state of its own that it goes on from after a statement about more than some rows; None before."""
    statements: tuple[object, ...]
    """What changed rows since then. Each is itself alone, however much two say the same."""


class RowStatements(Protocol):
    """Statements about rows. They apply in order and see each other."""

    def fitted(self, data: Any, *, missing: Missing) -> Source:
        """What is given for rows of the table, in the columns and types in which the table holds them."""
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

    def update(self, exprs: dict[str, str], values: dict[str, Any], where: Where | None, key: Sequence[str]) -> int: ...
    def delete(self, where: Where) -> int: ...
    def overwrite(self, data: Any, key: Sequence[str], *, schema: Literal["keep", "replace"]) -> int: ...


class ColumnStatements(Protocol):
    """Statements about columns. From then on any concurrent change of the table is a conflict."""

    def add(self, spec: Any) -> None: ...
    def drop(self, names: Sequence[str]) -> None: ...
    def rename(self, old: str, new: str) -> None: ...
    def alter(self, name: str, *, type: Any = None, nullable: bool | None = None) -> None: ...


class IndexStatements(Protocol):
    """Statements about indexes. They apply to the final rows, whatever their order."""

    def create(self, spec: IndexSpec, *, replace: bool, run: Run | None = None) -> None:
        """Build an index over the final rows when the work is staged; by others, if `run` is given."""
        ...

    def drop(self, name: str) -> None: ...


class Work(Protocol):
    """One transaction's staged work on one table. Nobody sees any of it before the commit."""

    # -- statements -------------------------------------------------------------------------------------------

    @property
    def rows(self) -> RowStatements: ...
    @property
    def columns(self) -> ColumnStatements: ...
    @property
    def indexes(self) -> IndexStatements: ...
    @property
    def upkeep(self) -> UpkeepStatements: ...
    @property
    def files(self) -> HandedFiles | None:
        """Where other processes contribute; None when the format knows no files but its own."""
        ...

    # -- what they came to ------------------------------------------------------------------------------------

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

    def ran(self) -> Ran: ...
    def view(self) -> View: ...
    def delta(self, columns: Sequence[str] | None = None) -> tuple[pa.RecordBatchReader, pa.RecordBatchReader]:
        """Rows of the base that the work removes, and rows that it adds; one that it replaces is among both.

        Of `columns` only, as far as a side has them; a blob may then be shown as a scan shows it. What the work itself
        added and removed again is in neither.
        """
        ...

    # -- life -------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Wait for background writes; raise what they raised."""
        ...

    def mark(self) -> object:
        """Where the work stands, for `take_back`."""
        ...

    def take_back(self, mark: object) -> None:
        """Undo the statements since a mark, as if they had never run. They must have changed nothing but rows."""
        ...

    def rebase(self, onto: Pin, theirs: Sequence[Change]) -> Overlap | None:
        """Move the staged work onto a newer pin of the table, if no row is in dispute. Data files are kept.

        Rows that a condition chose stay the rows of the state on which it ran, wherever a compaction put them.
        """
        ...

    def replay(self, onto: Pin, *, told: bool = True) -> Overlap | None:
        """Run every statement again on a newer pin, from its staged input: whole, or nothing is changed.

        For statements by key alone: a condition could choose other rows. With `told` their counts are known to the
        program, and one that would differ is a hard overlap.
        """
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
