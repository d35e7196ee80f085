"""What one commit changed: for every table typed rows, and what happened to the table itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from quire.arguments import checks_arguments
from quire.errors import InvalidInput, SnapshotExpired, Unsupported
from quire.lake.context import Core
from quire.lake.engines import chosen, provided
from quire.lake.read.diff import RowDiff, TableDiff, What
from quire.ledger import StreamToken, TableState
from quire.prompt import Escaped, one_line

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

ChangeType = Literal["insert", "update", "delete"]
Images = Literal["after", "both", "none"]
Event = Literal["created", "dropped", "renamed", "columns"]

OPS: tuple[ChangeType, ...] = ("insert", "update", "delete")
ADDED = ("_change_type", "_commit", "_commit_seq", "_commit_time")
"""Columns that changed rows have beside those of their table."""


@dataclass(frozen=True)
class Asked:
    """Which changes a reader wants."""

    tables: frozenset[str] | None
    ops: frozenset[str]
    images: Images


@dataclass(frozen=True)
class Header:
    """The commit that a block is about."""

    commit: str
    sequence: int
    parents: tuple[str, ...]
    author: str
    message: str
    time: datetime
    metadata: dict[str, str]


@checks_arguments
@dataclass(frozen=True, repr=False)
class TableChanges(Escaped):
    """What a commit did to one table. Rows are read when they are looked at."""

    name: str
    id: str
    """Stays the same when the table is renamed."""
    events: tuple[Event, ...]
    was: str | None
    """The name before, if the table was renamed."""
    columns: dict[str, list[str]]
    """Columns that were `added`, `removed` and `retyped`."""
    reset: bool
    """Whether the rows are all that the table holds now, and take the place of what a reader has: it was just created,
    columns were added or retyped, or this is a baseline."""
    key: tuple[str, ...]
    _core: Core = field(repr=False)
    _header: Header = field(repr=False)
    _old: TableState | None = field(repr=False)
    _new: TableState | None = field(repr=False)
    _asked: Asked = field(repr=False)
    _gap: Callable[[SnapshotExpired], Exception] = field(repr=False)

    def __repr__(self) -> str:
        said = [self.name, *self.events, *(["reset"] if self.reset and "created" not in self.events else [])]
        return one_line(f"<TableChanges {' '.join(said)}>")

    @cached_property
    def rows(self) -> pa.Table:
        """The changed rows, ordered by key, with `_change_type`, `_commit`, `_commit_seq` and `_commit_time`.

        A type is `insert`, `update_preimage`, `update_postimage` or `delete`; a deleted row is whole.
        """
        return self._reading(self._rows)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The same a batch at a time. Of a table that is read as a whole, in no order and in bounded memory."""
        if not self.reset or self._new is None or not self._wants("insert"):
            yield from self.rows.to_batches()
            return
        scan = self._reading(lambda: self._core.format(self._new.pin.format).open(self._new.pin, self.name).scan())  # type: ignore[union-attr]
        while (batch := self._reading(lambda: next(iter(scan), None))) is not None:
            import pyarrow as pa

            yield from self._told(pa.table(batch), "insert").to_batches()

    def frame(self, spark: Any) -> Any:
        """The same rows as a frame of Spark, in no order; its executors read and compare them."""
        session = chosen(spark)
        if session is None:
            raise InvalidInput("A frame needs a Spark session.", next="Pass a session, or read .rows in this process.")
        old = None if self.reset else self._old
        found = TableDiff(self._core, old, self._new)
        parts = []
        if self._new is not None and (self.reset or (old is not None and old.pin.version != self._new.pin.version)):
            kinds: list[tuple[ChangeType, str, What]] = [("insert", "insert", "added")]
            if not self.reset:
                before: list[tuple[ChangeType, str, What]] = [("update", "update_preimage", "changed_before")]
                kinds += [("delete", "delete", "removed"), ("update", "update_postimage", "changed_after")]
                kinds += before if self._asked.images == "both" else []
            parts = [(kind, found.frame(session, what)) for op, kind, what in kinds if self._wants(op)]
        head = self._header
        schema = self._told(self._schema().empty_table(), "insert").schema
        return provided(session, "diff").told(session, schema, parts, (head.commit, head.sequence, head.time))

    def _reading(self, read: Callable[[], T]) -> T:
        try:
            return read()
        except SnapshotExpired as error:
            raise self._gap(error) from error

    def _wants(self, op: ChangeType) -> bool:
        return op in self._asked.ops and self._asked.images != "none"

    def _rows(self) -> pa.Table:
        import pyarrow as pa

        parts = [self._told(rows, kind) for kind, rows in self._parts() if rows.num_rows]
        if not parts:
            return self._told(self._schema().empty_table(), "insert")
        together = pa.concat_tables(parts, promote_options="default")
        return self._ordered(together)

    def _schema(self) -> pa.Schema:
        state = self._new or self._old
        assert state is not None
        return self._core.format(state.pin.format).open(state.pin, self.name).schema

    def _parts(self) -> Iterator[tuple[str, pa.Table]]:
        """Rows by their type."""
        if self._new is None:
            return
        if self.reset:
            if self._wants("insert"):
                view = self._core.format(self._new.pin.format).open(self._new.pin, self.name)
                yield "insert", view.scan().read_all()
            return
        if self._old is None or self._old.pin.version == self._new.pin.version:
            return
        found: RowDiff = TableDiff(self._core, self._old, self._new).rows
        if self._wants("delete"):
            yield "delete", found.removed
        if self._wants("update"):
            if self._asked.images == "both":
                yield "update_preimage", found.changed_before
            yield "update_postimage", found.changed_after
        if self._wants("insert"):
            yield "insert", found.added

    def _told(self, rows: pa.Table, kind: str) -> pa.Table:
        import pyarrow as pa

        taken = [name for name in rows.column_names if name in ADDED]
        if taken:
            raise Unsupported(
                f"Table {self.name!r} has a column {taken[0]!r}: changes need that name for themselves.",
                next="Rename that column; or leave the table out with tables=[…].",
                table=self.name,
                column=taken[0],
            )
        count, head = rows.num_rows, self._header
        said = (
            pa.array([kind] * count, pa.string()),
            pa.array([head.commit] * count, pa.string()),
            pa.array([head.sequence] * count, pa.int64()),
            pa.array([head.time] * count, pa.timestamp("us", "UTC")),
        )
        for name, values in zip(ADDED, said, strict=True):
            rows = rows.append_column(name, values)
        return rows

    def _ordered(self, rows: pa.Table) -> pa.Table:
        """By key where there is one; what was there comes before what came."""
        import pyarrow as pa
        import pyarrow.compute as pc

        order = {"delete": 0, "update_preimage": 1, "update_postimage": 2, "insert": 3}
        ranks = pc.index_in(rows.column("_change_type"), pa.array(list(order)))
        keys = [(f"k{i}", "ascending") for i in range(len(self.key))]
        try:
            columns = {f"k{i}": rows.column(name) for i, name in enumerate(self.key)}
            by = pc.sort_indices(pa.table({**columns, "rank": ranks}), sort_keys=[*keys, ("rank", "ascending")])
        except (pa.ArrowException, KeyError):
            return rows  # a key of a type that Arrow does not sort
        return rows.take(by)

    def to_dict(self) -> dict[str, Any]:
        """What happened to the table itself, as plain values."""
        return {
            "table": self.name,
            "id": self.id,
            "events": list(self.events),
            "was": self.was,
            "columns": self.columns,
            "reset": self.reset,
        }


@checks_arguments
@dataclass(frozen=True, repr=False)
class ChangeBlock(Escaped):
    """One commit of the feed: who, when, and what changed in which table. Upkeep has no tables."""

    commit: str
    sequence: int
    """A number that rises from commit to commit of the branch."""
    parents: tuple[str, ...]
    author: str
    message: str
    time: datetime
    metadata: dict[str, str]
    tables: dict[str, TableChanges]
    cursor: str
    """Pass it as `since=` to go on after this commit."""
    baseline: bool = False
    """Whether these are all rows of the commit instead of what it changed."""

    def __repr__(self) -> str:
        did = ", ".join(self.tables) or "nothing that is asked for"
        return one_line(f"<ChangeBlock {self.commit}{' (baseline)' if self.baseline else ''}: {did}>")

    def __bool__(self) -> bool:
        return bool(self.tables)

    def token(self, name: str) -> StreamToken:
        """The token of this block for a program called `name`, which makes applying it to a lake happen once.

        >>> import quire
        >>> lake = quire.create("memory://feed-token-example")
        >>> receipt = lake.create_table("t", [{"id": 1}])
        >>> [block] = [block for block in lake.changes("beginning") if block]
        >>> block.token("search").scope
        'feed:search'
        """
        return StreamToken(f"feed:{name}", self.sequence)

    def to_dict(self) -> dict[str, Any]:
        """All of it but the rows, as plain values."""
        return {
            "commit": self.commit,
            "sequence": self.sequence,
            "parents": list(self.parents),
            "author": self.author,
            "message": self.message,
            "time": self.time.isoformat(),
            "metadata": self.metadata,
            "baseline": self.baseline,
            "cursor": self.cursor,
            "tables": [table.to_dict() for table in self.tables.values()],
        }


@dataclass(frozen=True)
class Differences:
    """Finds what led from one state of a table to the next one."""

    core: Core
    asked: Asked
    gap: Callable[[SnapshotExpired], Exception]

    def of(
        self, header: Header, old: TableState | None, new: TableState | None, ops: Sequence[str]
    ) -> TableChanges | None:
        """What a commit did to a table; None when that is nothing that was asked for."""
        state = new or old
        assert state is not None
        names = {s.info.name for s in (old, new) if s is not None}
        if self.asked.tables is not None and not names & self.asked.tables:
            return None
        events: list[Event] = []
        columns: dict[str, list[str]] = {"added": [], "removed": [], "retyped": []}
        if old is None:
            events.append("created")
        elif new is None:
            events.append("dropped")
        else:
            if old.info.name != new.info.name:
                events.append("renamed")
            if SCHEMA & set(ops):
                columns = self._columns(old, new)
                if any(columns.values()):
                    events.append("columns")
        if not events and (set(ops) <= UPKEEP or (old and new and old.pin.version == new.pin.version)):
            return None
        return TableChanges(
            name=state.info.name,
            id=state.info.id,
            events=tuple(events),
            was=old.info.name if old is not None and "renamed" in events else None,
            columns=columns,
            reset=new is not None and (old is None or bool(columns["added"] or columns["retyped"])),
            key=tuple(state.info.key),
            _core=self.core,
            _header=header,
            _old=old,
            _new=new,
            _asked=self.asked,
            _gap=self.gap,
        )

    def _columns(self, old: TableState, new: TableState) -> dict[str, list[str]]:
        try:
            return TableDiff(self.core, old, new).columns
        except SnapshotExpired as error:
            raise self.gap(error) from error


UPKEEP = frozenset({"compact", "index"})
"""What changes no row."""
SCHEMA = frozenset({"schema", "overwrite", "restore", "adopt", "create", "register"})
"""What may change columns."""
