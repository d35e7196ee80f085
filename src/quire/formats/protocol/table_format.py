"""A kind of table: open a pin, begin work on it, follow its plain HEAD, say which files it needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from quire.formats.protocol.view import View
from quire.formats.protocol.work import Work
from quire.ledger import NotedKeys, Pin
from quire.prompt import OneLine

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Head:
    """What a plain client of the format sees at the table's location."""

    version: int
    counter: int | None
    """Quire's counter of the promoted state, or None when a foreign writer made this version."""
    commit: str | None = None
    transaction: str | None = None
    """What a plain writer calls what it did."""


@dataclass(frozen=True, repr=False)
class Promotion(OneLine):
    """Outcome of a backfill of one table."""

    table: str
    outcome: Literal["current", "promoted", "foreign", "behind", "blocked"]
    """With `foreign` a plain writer was there first, with `behind` another backfill; `blocked`: must not be touched."""
    version: int
    detail: str = ""

    def _facts(self) -> str:
        return f"{self.table} {self.outcome}, version {self.version}{f' ({self.detail})' if self.detail else ''}"

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
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


@runtime_checkable
class Numbered(Protocol):
    """A format that can give every row of a table an id which stays with it."""

    def row_ids(self, pin: Pin, table: str) -> pa.RecordBatchReader | None:
        """The ids of all rows in one column, which should all be different; None when this table has none."""
        ...


@runtime_checkable
class Learning(Protocol):
    """A format that looks for rows in fewer files when it is told which keys others wrote."""

    def learn(self, location: str, noted: Sequence[NotedKeys]) -> None:
        """Take in what the commits of others have noted of their new files."""
        ...


@runtime_checkable
class Mergeable(Protocol):
    """A format whose changes can be carried from one line of a table to another without writing rows again."""

    def fields(self, pin: Pin) -> Mapping[str, int]:
        """The ids of the columns of a state: a column keeps its id when it is renamed."""
        ...

    def holds_files_of(self, pin: Pin, other: Pin, *, moved: bool = True) -> bool:
        """Whether a state still has every data file of another one, so that a row of it can be found at its place.

        Not so where a row is back that was gone there, as after a restore: that is no new file, and cannot be carried.
        Unless rows may have been `moved`, those of a file that is missing are gone.
        """
        ...

    def share_new_files(self, before: Pin, one: Pin, other: Pin) -> bool:
        """Whether two states have a data file in common that an earlier one has not."""
        ...

    def carry_over(
        self,
        work: Work,
        before: Pin,
        after: Pin,
        *,
        key: Sequence[str],
        leave_out: pa.Table | None = None,
        others: Sequence[Pin] = (),
        moved: bool = True,
    ) -> None:
        """Do in `work`, which has run nothing yet, what leads from `before` to `after`: with the same data files.

        Rows of `before` that are gone in `after` go where they lie, or by their key where they were moved. Without a
        key one that is like it in all columns goes. What comes with keys in `leave_out` does not, and a row that was
        moved and has one of these keys stays. A file that the work's state has already, on whatever way it came, is not
        added again, nor is one that a state of `others` has and it has not: it was removed there. Unless rows may have
        been `moved`, those of a file that the work's state has not are gone already.
        """
        ...

    def take_away(self, work: Work, key: Sequence[str], keys: pa.Table) -> None:
        """Remove the rows with these keys from the state that a work stands on."""
        ...

    def carry_indexes(self, work: Work, before: Pin, after: Pin) -> bool:
        """Take over the indexes that came between two states of another line, but for names that the work's state has.

        They are not built anew: they speak of rows that lie here as there, and optimizing extends them to the others.
        Whether there is any.
        """
        ...

    def whole_rows(self, pin: Pin, keys: pa.Table) -> pa.Table:
        """The rows of a state that have one of the keys, with the bytes of their blobs."""
        ...

    def take_rows(self, work: Work, rows: pa.Table) -> None:
        """Remove one row that is like it in all columns for each of these, as far as there are any."""
        ...

    def count_rows(self, pin: Pin, rows: pa.Table) -> Sequence[int]:
        """How often a state has each of these rows, which differ."""
        ...


@runtime_checkable
class Configurable(Protocol):
    """A format whose tables are created with choices of their own."""

    def create_with(
        self, location: str, data: Any, *, schema: Any, write: str, table: str, options: Mapping[str, Any]
    ) -> Work:
        """As `create`; `InvalidInput` for an option that there is not, or a value that it does not take."""
        ...


@runtime_checkable
class Linear(Protocol):
    """A format whose versions are one line, so that an earlier state comes back as a new version of its own."""

    def again(self, now: Pin | None, then: Pin, *, write: str, table: str) -> Work | None:
        """The work that brings `now` to what `then` is; None where `then` itself can be pinned next.

        `now` is None for a table that was dropped.
        """
        ...


@dataclass(frozen=True)
class OwnedCommit:
    """A version that the owner has ratified, and the file that holds it."""

    version: int
    path: str
    """Relative to the table."""
    size: int
    timestamp: int
    """The in-commit timestamp, in milliseconds."""


@runtime_checkable
class Owned(Protocol):
    """A format with such tables."""

    def latest(self, pin: Pin) -> int:
        """The newest version that was ratified; -1 where an owner may say so because it never ratified one."""
        ...

    def unpublished(self, pin: Pin) -> Sequence[OwnedCommit]:
        """Ratified versions up to a pin that are not published yet, in order and without a gap."""
        ...

    def publish(self, pin: Pin, version: int, *, table: str) -> Promotion:
        """Publish all versions up to this one."""
        ...

    def proposed(
        self, pin: Pin, actions: Sequence[Mapping[str, Any]], *, key: Sequence[str], write: str, table: str
    ) -> tuple[Work, str]:
        """A client's commit on top of a pin as work that moves to no other base, and what it does in one word."""
        ...

    def handed_over(self, pin: Pin, file: str, *, key: Sequence[str], write: str, table: str) -> tuple[Work, str]:
        """The same for a commit that a client has staged itself, in a file of this name: it is ratified as it is."""
        ...

    def created(self, location: str, table: str) -> Pin:
        """The first version of a table that a client has created at a location, which nobody else uses."""
        ...

    def is_ratified(self, pin: Pin, file: str) -> bool:
        """Whether a commit that a client has staged is one of the versions up to a pin."""
        ...

    def described(self, pin: Pin) -> Mapping[str, Any]:
        """What the log says of the table as a whole at a pin, in the words of the format, and where it lies."""
        ...

    def make_room(self, pin: Pin) -> None:
        """Let clients stage commits: where folders are made by hand, theirs is."""
        ...

    def newest(self, pin: Pin) -> int:
        """The version that a pin names."""
        ...

    def ratified(self, pin: Pin, version: int) -> OwnedCommit:
        """A version up to the one that a pin names, as it was staged."""
        ...


@runtime_checkable
class Convertible(Protocol):
    """A format whose tables may have an owner of their commits, or none: then anybody writes to them."""

    def dialect(self, pin: Pin) -> str | None:
        """In which way a table says that its commits are owned; None for a plain table."""
        ...

    def own(self, pin: Pin, dialect: str, *, key: Sequence[str], write: str, table: str) -> Pin | None:
        """Make a plain table the lake's, in its own log: what is to be pinned then.

        None when a plain client wrote the next version first, and nothing was changed. May be called again after it was
        stopped anywhere: it goes on. Its newest rows must keep the `key`.
        """
        ...

    def owned(self, pin: Pin) -> None:
        """What `own` answered was committed."""
        ...

    def release(self, pin: Pin, *, write: str, table: str) -> Work:
        """The work of a commit after which the table is plain."""
        ...


class TableExport(Protocol):
    """A table for the plain clients of a format, written outside the lake. It can be sent to another process."""

    def files(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, stem: str
    ) -> Iterator[tuple[str, bytes, int, str]]:
        """Rows as files whose names begin so: path, bytes and rows of each, and what `finish` is told of it."""
        ...

    def finish(self, told: Sequence[str]) -> Mapping[str, bytes]:
        """The files by which those that were told of become a table."""
        ...


@runtime_checkable
class Exporting(Protocol):
    """A format in which tables of any format can be exported."""

    def exporting(self, schema: pa.Schema, *, table: str) -> TableExport:
        """A new table of these columns; a typed error when the format cannot hold them."""
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
    def additions(self, work: Work) -> str | None:
        """The rows that a staged work adds, as text by which another process can add them; None when it does more.

        The files that the text names are in the store. It holds no row and no address outside the table.
        """
        ...

    def adding(self, pin: Pin, told: str, *, write: str, table: str) -> Work:
        """A work on `pin` that adds the rows that another process told of by `additions`.

        It can be staged, behind others too. `CorruptRecord` for a text that no process can have told.
        """
        ...

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

    def plain_files(self, location: str, since: datetime, known: int = 0) -> set[str]:
        """What cleanup must leave for plain clients, in the same form.

        That is the HEAD, versions that a plain writer made since Quire's last one or since version `known`, whose rows
        Quire has, that one too, and what was HEAD at or after store time `since`. Empty when there is no plain table.
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
