"""`spark.readStream.format("quire").option("changes", "true")`: the changes of one table, as a stream of rows.

A row has the columns of the table, and `_change_type`, `_commit`, `_commit_seq`, `_commit_time` and `_reset`: whether
the row is one of all that the table holds now, which take the place of what a reader has. An offset is a commit, so a
batch that Spark runs again has the same rows. A part of a batch is the change of a commit, or a part of a table that is
read as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

import quire
from quire.errors import FeedGap, InvalidInput, SchemaMismatch, TableNotFound, Unsupported
from quire.lake.feed.blocks import ADDED
from quire.lake.feed.cursor import Scope, sequence
from quire.lake.handles import head_of, scope_of, snapshot_of, store_of
from quire.ledger import Point
from quire.spark import types
from quire.spark.read import Scan
from quire.store.forwarded_credentials import carried

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.lake.feed.blocks import ChangeBlock, TableChanges

CHANGES = (
    "changes",
    "lake",
    "table",
    "path",
    "branch",
    "since",
    "images",
    "ops",
    "onGap",
    "commits",
    "consumer",
    "hold",
)
"""The options of such a stream."""
ALL = {"branch": "", "slot": -1, "index": 0}
"""The offset before a stream that begins with all rows of the table."""

Offset = dict[str, Any]

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, SupportsTriggerAvailableNow
except ImportError:  # before PySpark 4.2 Spark asks for the newest offset alone
    ReadAllAvailable = SupportsTriggerAvailableNow = object  # type: ignore[misc, assignment]


def stream_schema(given: Mapping[str, str]) -> pa.Schema:
    """The columns of the stream: those of the table now, and what tells of the change."""
    import pyarrow as pa

    schema = _opened(given)[given["table"]].schema
    taken = [name for name in schema.names if name in (*ADDED, "_reset")]
    if taken:
        raise Unsupported(
            f"Table {given['table']!r} has a column {taken[0]!r}: changes need that name for themselves.",
            next="Rename that column.",
            table=given["table"],
            column=taken[0],
        )
    told = [
        pa.field("_change_type", pa.string(), False),
        pa.field("_commit", pa.string(), False),
        pa.field("_commit_seq", pa.int64(), False),
        pa.field("_commit_time", pa.timestamp("us", "UTC"), False),
        pa.field("_reset", pa.bool_(), False),
    ]
    nullable = [field.with_nullable(True) for field in schema]
    return types.readable(pa.schema([*nullable, *told]), given["table"])


@dataclass
class _Change(InputPartition):
    """What one commit changed; `since` is the cursor before it."""

    def __init__(self, since: str, commit: str) -> None:
        super().__init__(0)
        self.since, self.commit = since, commit


@dataclass
class _Whole(InputPartition):
    """A part of the table as it is at a commit."""

    def __init__(self, scan: Scan, number: int, told: dict[str, Any]) -> None:
        super().__init__(number)
        self.scan, self.number, self.told = scan, number, told


class ChangesReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the changes of one table. Where it stands is Spark's checkpoint; a consumer's hold follows it."""

    def __init__(self, given: dict[str, str]) -> None:
        self.given = _checked(given)
        self.target = stream_schema(given)
        place = store_of(self._lake)
        self.options = carried(place.scheme, place.options)
        """What executors need to open the lake: what the environment of the driver says."""
        self._last: Offset | None = None
        self._until: Offset | None = None

    # -- offsets ----------------------------------------------------------------------------------------------

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        since = self.given.get("since", "now")
        if since == "baseline":
            return dict(ALL)
        lake = self._lake
        at = _offset(self._scope.parse(self._feed(lake, since).cursor))
        self._hold(at)
        return at

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._lake.refresh()
        self._until = _offset(head_of(self._lake))

    def latestOffset(self, start: Offset | None = None, limit: Any = None) -> Offset:  # noqa: N802 - Spark's name
        """The end of the next batch: the newest commit, or so many commits on as the option `commits` says.

        Spark from 4.2 on tells where the batch begins, and may ask for everything; before, it asks without a word.
        """
        self._lake.refresh()
        newest = self._until or _offset(head_of(self._lake))
        most = int(self.given.get("commits", "0"))
        begin = start if start is not None else self._last
        everything = limit is not None and ReadAllAvailable is not object and isinstance(limit, ReadAllAvailable)
        if most and begin is not None and begin["slot"] >= 0 and not (everything and self._until is None):
            newest = self._ahead(begin, newest, most)
        self._last = newest
        return newest

    def _ahead(self, begin: Offset, newest: Offset, most: int) -> Offset:
        """So many commits on, at most."""
        try:
            feed = self._feed(self._lake, self._scope.cursor(_point(begin)))
            for count, block in enumerate(feed, 1):
                at = self._scope.parse(block.cursor)
                if (at.slot, at.index) >= (newest["slot"], newest["index"]):
                    return newest
                if count == most:
                    return _offset(at)
        except FeedGap:
            pass  # told when the batch is planned
        return newest

    def commit(self, end: Offset) -> None:
        """Spark is done with everything up to here."""
        self._hold(end)

    def _hold(self, at: Offset) -> None:
        name = self.given.get("consumer")
        if name is None or at["slot"] < 0:
            return
        with quire.open(self.given["lake"], branch=self.given.get("branch", "main"), backfill=False) as lake:
            cursor = self._scope.cursor(_point(at))
            hold = float(self.given.get("hold", "0"))
            consumer = lake.consumers.open(name, since=cursor, hold=hold, **self._filter)
            consumer.commit(cursor)

    # -- parts ------------------------------------------------------------------------------------------------

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        if start == end:
            return []
        self._last = end
        self._lake.refresh()
        if start["slot"] < 0:
            return list(self._whole(_point(end)))
        try:
            return list(self._planned(start, end))
        except FeedGap:
            if self.given.get("onGap", "error") != "baseline":
                raise
            return list(self._whole(_point(end)))

    def _planned(self, start: Offset, end: Offset) -> Iterator[InputPartition]:
        feed = self._feed(self._lake, self._scope.cursor(_point(start)))
        before = feed.cursor
        for block in feed:
            at = self._scope.parse(block.cursor)
            changes = self._of_table(block)
            if changes is not None:
                self._check(changes, block)
                if changes.reset:
                    yield from self._whole(at)
                else:
                    yield _Change(before, block.commit)
            before = block.cursor
            if (at.slot, at.index) >= (end["slot"], end["index"]):
                return

    def _of_table(self, block: ChangeBlock) -> TableChanges | None:
        """What a commit did to the table; its new name ends the stream."""
        name = self.given["table"]
        for changes in block.tables.values():
            if changes.was == name and changes.name != name:
                raise TableNotFound(
                    f"Commit {block.commit} renamed table {name!r} to {changes.name!r}.",
                    next="Start a stream of that table from this commit on.",
                    table=name,
                    commit=block.commit,
                )
        return block.tables.get(name)

    def _check(self, changes: TableChanges, block: ChangeBlock) -> None:
        """Refuse what a stream of rows cannot tell: its columns are those that the table had when it was started."""
        if "dropped" in changes.events:
            raise TableNotFound(
                f"Commit {block.commit} dropped table {changes.name!r}, so its changes end there.",
                next="Stop the stream.",
                table=changes.name,
                commit=block.commit,
            )
        now = stream_schema(self.given)
        if now != self.target:
            raise SchemaMismatch(
                f"The columns of table {changes.name!r} have changed since this stream was started.",
                next="Start the query again with the same checkpoint: it goes on where it was, with the new columns.",
                table=changes.name,
                commit=block.commit,
            )

    def _whole(self, at: Point) -> Iterator[InputPartition]:
        """All rows of the table at a commit."""
        snapshot = snapshot_of(self._lake, at)
        scan = Scan(snapshot[self.given["table"]], None, None)
        told = {"kind": "insert", "commit": at.commit, "sequence": sequence(at), "time": snapshot.time, "reset": True}
        for number in range(len(scan.shares)):
            yield _Whole(scan, number, told)

    # -- reading, on executors --------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if isinstance(partition, _Whole):
            for batch in partition.scan(partition.number):
                yield from self._told(batch, partition.told)
        elif isinstance(partition, _Change):
            lake = _opened(self.given, self.options)
            block = next(iter(self._feed(lake, partition.since)))
            for batch in block.tables[self.given["table"]].rows.to_batches():
                yield from self._told(batch, None)

    def _told(self, batch: pa.RecordBatch, told: dict[str, Any] | None) -> Iterator[pa.RecordBatch]:
        """A batch with the columns of the stream: those that it does not have are null."""
        import pyarrow as pa

        count = batch.num_rows
        constant: dict[str, Any] = {"_reset": told is not None}
        if told is not None:
            constant |= {"_change_type": told["kind"], "_commit": told["commit"]}
            constant |= {"_commit_seq": told["sequence"], "_commit_time": told["time"]}
        columns = []
        for field in self.target:
            place = batch.schema.get_field_index(field.name)
            if field.name in constant:
                columns.append(pa.array([constant[field.name]] * count, field.type))
            else:
                columns.append(batch.column(place) if place >= 0 else pa.nulls(count, field.type))
        whole = pa.RecordBatch.from_arrays(columns, names=self.target.names)
        yield from types.converted([whole], self.target, self.given["table"])

    # -- the lake ---------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """Executors open the lake anew."""
        return {name: value for name, value in vars(self).items() if name != "_lake"}

    @cached_property
    def _lake(self) -> quire.Lake:
        return _opened(self.given)

    @property
    def _filter(self) -> dict[str, Any]:
        ops = self.given.get("ops")
        return {
            "tables": [self.given["table"]],
            "ops": None if ops is None else [op.strip() for op in ops.split(",")],
            "images": self.given.get("images", "after"),
        }

    @property
    def _scope(self) -> Scope:
        return scope_of(self._lake, **self._filter)

    def _feed(self, lake: quire.Lake, since: str) -> Any:
        return lake.changes(since, **self._filter)


def _opened(given: Mapping[str, str], options: dict[str, str] | None = None) -> quire.Lake:
    return quire.open(given["lake"], branch=given.get("branch", "main"), storage_options=options, read_only=True)


def _checked(given: dict[str, str]) -> dict[str, str]:
    if given.get("onGap", "error") not in ("error", "baseline"):
        raise InvalidInput(
            f"The option onGap is not {given['onGap']!r}.", next="Use error or baseline.", option="onGap"
        )
    for name, least in (("commits", 1.0), ("hold", 0.0)):
        if name in given:
            try:
                fine = float(given[name]) >= least and (name == "hold" or given[name].isdecimal())
            except ValueError:
                fine = False
            if not fine:
                raise InvalidInput(
                    f"The option {name} is not {given[name]!r}.", next="Give a positive number.", option=name
                )
    if "hold" in given and "consumer" not in given:
        raise InvalidInput("Only a consumer holds changes.", next='.option("consumer", …).', option="hold")
    return given


def _offset(at: Point) -> Offset:
    return {"branch": at.branch, "slot": at.slot, "index": at.index}


def _point(offset: Offset) -> Point:
    return Point(branch=offset["branch"], slot=offset["slot"], index=offset["index"])
