"""Tables of a lake as Spark frames. Executors read the data files; the driver only says which."""

from __future__ import annotations

import copy
import logging
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import quire
from quire.arguments import checked
from quire.errors import ColumnNotFound, InvalidInput
from quire.filters import Condition, read_filter
from quire.filters import columns as columns_of
from quire.formats.tasks import Share, grouped, shares
from quire.lake import Lake, Snapshot, Table
from quire.spark import jobs, scan_rule, types

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

TASK_ROWS = 262_144
"""Rows that one task reads at least, when they lie in many small fragments."""
TASK_BYTES = 128 << 20
"""What one task reads at most."""
TOLD_BYTES = 256 << 20
"""A table of more bytes than this is as large as any to Spark."""
TEXT = 20
"""The bytes of a text or a list at least."""

_log = logging.getLogger("quire.spark")
_COMMIT = re.compile(r"(.+:)?\d+\.\d+|HEAD")


@checked
def table(
    spark: SparkSession,
    lake: Lake | Snapshot | str,
    name: str,
    *,
    columns: Sequence[str] | None = None,
    filter: str | None = None,
    at: str | datetime | None = None,
) -> DataFrame:
    """A table as a frame: of the newest commit, of a snapshot that you hold, or `at` a commit, a tag or a time.

    Executors read the columns and rows that the query on the frame needs: what `where` and `select` say afterwards goes
    into the scan, as `columns` and `filter` (SQL over the row) do. On Spark Connect those two alone do. The frame shows
    one commit for ever.
    """
    return frame(spark, snapshot_of(lake, at)[name], columns, filter)


@checked
def views(
    spark: SparkSession, snapshot: Snapshot | Lake | str, *, tables: Sequence[str] | None = None, prefix: str = ""
) -> list[str]:
    """Make every table of one snapshot a temporary view, or these `tables`, so that Spark SQL joins see one commit; the
    views' names.

    A name that is no plain word is written in backticks: select * from `node:Person`. Columns for which Spark has no
    type are left out of their view, and a table of nothing else has none; the log of `quire.spark` says so.
    """
    if isinstance(tables, str):
        raise InvalidInput("tables takes a list of names.", next=f"Write tables=[{tables!r}].")
    held = snapshot_of(snapshot, None)
    names = list(held.tables() if tables is None else dict.fromkeys(tables))
    _check_apart(names)
    made = []
    for name in names:
        columns = readable_columns(held[name])
        if columns:
            frame(spark, held[name], columns).createOrReplaceTempView("`" + (prefix + name).replace("`", "``") + "`")
            made.append(prefix + name)
    return made


def _check_apart(names: Sequence[str]) -> None:
    """Refuse names of which Spark would take one for the other."""
    known: dict[str, str] = {}
    for name in names:
        other = known.setdefault(name.lower(), name)
        if other != name:
            raise InvalidInput(
                f"Tables {other!r} and {name!r} differ in case only, so they would be one view.",
                next="Choose with tables=, and make the views of the others in a second call with a prefix.",
                tables=[other, name],
            )


def readable_columns(held: Table) -> list[str]:
    """The columns for which Spark has a type; of the others the log is told."""
    lost = types.unreadable(held.schema, held.name)
    if lost:
        _log.warning("The view of table %r lacks %s: Spark has no type for it.", held.name, ", ".join(lost))
    return [name for name in held.schema.names if name not in lost]


def frame(
    spark: SparkSession, held: Table, columns: Sequence[str] | None = None, filter: str | None = None
) -> DataFrame:
    """A table at one commit as a frame, whose scan is narrowed by what is done to it."""
    scan = Scan(held, columns, filter, cores_of(spark))
    name = scan_rule.remember(scan) if scan_rule.install(spark) else f"read {scan.name}"
    return frame_of(spark, scan, name)


def frame_of(spark: SparkSession, scan: Scan, name: str = "") -> DataFrame:
    """What a scan reads, as it is. The name is seen in Spark's UI."""
    schema = types.spark_schema(scan.target)
    return jobs.source(spark, len(scan.shares), scan, schema, scan.told_rows(), name=name or str(scan))


def cores_of(spark: SparkSession) -> int:
    """How many tasks of a session run at once, as far as it says."""
    return spark.sparkContext.defaultParallelism if hasattr(spark, "_jsparkSession") else 0


class Scan:
    """What the tasks that read a table need to know. It is sent to them."""

    def __init__(
        self, held: Table, columns: Sequence[str] | None, filter: str | Condition | None, cores: int = 0
    ) -> None:
        if isinstance(columns, str):
            raise InvalidInput("columns takes a list of names.", next=f"Write columns=[{columns!r}].")
        if filter is not None:
            if not isinstance(filter, str):
                raise InvalidInput("On Spark a filter is SQL text.", next='For example filter="year > 2020".')
            held.scan(columns=[], filter=filter, limit=0).to_arrow()  # a bad one is told of here, not by a task
        import pyarrow as pa

        schema = held.schema
        for name in columns or ():
            if schema.get_field_index(name) < 0:
                raise ColumnNotFound(
                    f"Table {held.name!r} has no column {name!r}.",
                    next=f"Its columns are {', '.join(schema.names)}.",
                    table=held.name,
                    column=name,
                )
        self.schema = schema
        self.names = list(schema.names if columns is None else columns)
        self.name = held.name
        self.filter: str | Condition | None = filter
        self.target = types.readable(pa.schema([schema.field(n) for n in self.names]), held.name)
        self.place, self.parts = held.parts()
        self.rows = sum(rows for _, rows in self.parts)
        self.most = _rows_of_a_task(self.rows, held.bytes, cores)
        """Rows of a task."""
        self.shares = shares(self.parts, self.most)
        split = any(share.span for share in self.shares)
        self.indexed = {column for index in held.indexes() for column in index["columns"]} if split else set()
        self.size = held.bytes
        self._share()

    def narrowed(self, names: Sequence[str], condition: Condition | None) -> Scan:
        """The same rows, or those for which a condition holds, with some columns: without any, the narrowest one."""
        import pyarrow as pa

        made = copy.copy(self)
        made.names = [n for n in self.names if n in set(names)] or [min(self.names, key=self._width)]
        made.target = pa.schema([self.target.field(name) for name in made.names])
        if condition is not None:
            made.filter = condition if self.filter is None else f"({self.filter}) AND ({condition})"
            made._share()
        return made

    def _share(self) -> None:
        """An index finds rows in whole fragments, faster than tasks that look through parts of them."""
        if self.filter is not None and self.indexed:
            named = set(columns_of(read_filter(self.filter, self.schema).condition))
            if named & self.indexed:
                self.shares = [Share(tuple(group)) for group in grouped(self.parts, self.most)]

    def _width(self, name: str) -> float:
        return fixed_width(self.schema.field(name).type) or 1 << 20

    def told_rows(self) -> int:
        """The numbers from which Spark is told that the rows are made: as many bytes as those will have."""
        if not self.rows:
            return 0
        widths = [fixed_width(field.type) for field in self.schema]
        free = widths.count(None)
        each = max(TEXT, (self.size / self.rows - sum(width or 0 for width in widths)) / free) if free else 0
        row = sum(fixed_width(self.schema.field(name).type) or each for name in self.names)
        return max(self.rows, int(min(self.rows * row, TOLD_BYTES)) // 8)

    def __call__(self, number: int) -> Iterator[pa.RecordBatch]:
        rows = self.shares[number].read(self.place, self.names, self.filter)
        yield from types.converted(rows, self.target, self.name)

    def __str__(self) -> str:
        chosen = "" if self.filter is None else f" where {self.filter}"
        return f"read {self.name} [{', '.join(self.names)}]{chosen}"[:400]


def fixed_width(kind: pa.DataType) -> float | None:
    """The bytes of a value, if they are the same for all."""
    import pyarrow.types as t

    if t.is_fixed_size_list(kind):
        inner = fixed_width(kind.value_type)
        return None if inner is None else inner * kind.list_size
    return kind.bit_width / 8 if t.is_primitive(kind) or t.is_fixed_size_binary(kind) else None


def _rows_of_a_task(rows: int, size: int, cores: int) -> int:
    """About one task per core, but no more than 128 MB for one, and no task for a few rows."""
    by_size = TASK_BYTES * rows // size if size else rows
    return max(1, min(by_size, max(TASK_ROWS, -(-rows // cores) if cores else TASK_ROWS)))


def snapshot_of(lake: Lake | Snapshot | str, at: str | datetime | None) -> Snapshot:
    """One commit of a lake: `at` is a commit (`12.0`), a tag, a branch, or a time."""
    if isinstance(lake, Snapshot):
        if at is not None:
            raise InvalidInput("A snapshot shows one commit.", next="Leave at= out, or pass the lake.")
        return lake
    opened = lake if isinstance(lake, Lake) else quire.open(lake, read_only=True)
    if at is None:
        return opened.snapshot()
    if isinstance(at, datetime):
        return opened.at(time=at)
    return opened.at(commit=at) if _COMMIT.fullmatch(at) else opened.at(**_place_or_time(at))


def _place_or_time(text: str) -> dict[str, Any]:
    try:
        return {"time": datetime.fromisoformat(text)}
    except ValueError:
        return {"commit": text}
