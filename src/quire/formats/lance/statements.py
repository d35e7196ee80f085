"""What a transaction was asked to do to a table, kept so that it can be done again on a newer base."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from quire.formats.arrow import Source
from quire.formats.protocol import Build, Seek
from quire.store import result_of

if TYPE_CHECKING:
    import pyarrow as pa
    from lance.fragment import FragmentMetadata


@dataclass
class Staging:
    """Data files of one statement: being written, or written. Never written twice."""

    rows: int
    future: Future[list[FragmentMetadata]]
    table: pa.Table | None = None
    """The rows themselves while they are few, so that whoever judges them need not read them again."""

    def fragments(self) -> list[FragmentMetadata]:
        return result_of(self.future)


@dataclass
class Append:
    staging: Staging


@dataclass
class Keyed:
    """Strict insert or upsert of whole rows."""

    mode: Literal["insert", "upsert"]
    staging: Staging
    on: tuple[str, ...]
    keys: pa.Table
    matched: int = 0
    """How many of the rows replaced another, on the base that it was run on last."""


@dataclass
class Sought:
    """Strict insert, upsert or delete by key whose keys lie in files, where other processes look for their rows."""

    mode: Literal["insert", "upsert", "delete"]
    staging: Staging
    on: tuple[str, ...]
    seek: Seek
    without: Mapping[int, Any] = field(default_factory=dict)
    """By position among its fragments: rows of theirs that are left out."""
    build: Build | None = None
    """What makes the rows, on each base anew."""
    matched: int = 0


@dataclass
class Patch:
    """Upsert of some values only: the new rows depend on the old ones, so they are built on each base."""

    source: pa.Table
    on: tuple[str, ...]
    keep: Mapping[str, Any] = field(default_factory=dict)
    """By column, a mask of the rows that keep the value of the row that is there; theirs is for rows that are new."""
    fresh: Staging | None = None
    """The source as it is, which is right where no row is there yet."""
    staging: Staging | None = None
    """The rows as they were built last."""
    matched: int = 0

    @property
    def keys(self) -> pa.Table:
        return self.source.select(list(self.on))


@dataclass
class Update:
    exprs: dict[str, str]
    values: dict[str, Any]
    where: str | None
    on: tuple[str, ...] = ()
    """Key columns that the update itself writes; the new keys must be free."""
    keys: pa.Table | None = None


@dataclass
class Delete:
    where: str


Statement = Append | Keyed | Sought | Patch | Update | Delete


@dataclass
class Tap:
    """Lets batches flow to the writer and keeps only some columns of them."""

    columns: Sequence[str]
    kept: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0

    def through(self, source: Source) -> Source:
        def flow() -> Iterator[pa.RecordBatch]:
            for batch in source.batches:
                self.rows += batch.num_rows
                if self.columns:
                    self.kept.append(batch.select(list(self.columns)))
                yield batch

        return Source(source.schema, flow(), whole=False)

    def table(self, schema: pa.Schema) -> pa.Table:
        import pyarrow as pa

        return pa.Table.from_batches(self.kept, schema=pa.schema([schema.field(n) for n in self.columns]))


def done(value: list[FragmentMetadata]) -> Future[list[FragmentMetadata]]:
    future: Future[list[FragmentMetadata]] = Future()
    future.set_result(value)
    return future


def patched(schema: pa.Schema, patch: Patch, old: pa.Table | None, positions: Any) -> pa.Table:
    """Whole rows: what is given, and else what the row that is there has, or null.

    `old` holds columns of the rows that are there, and `positions` says for each of them which given row it is.
    """
    import numpy as np
    import pyarrow as pa

    given, rows = patch.source, patch.source.num_rows
    place = np.full(rows, -1, np.int64)
    place[positions] = np.arange(len(positions))
    known, columns = place >= 0, []
    for one in schema:
        if one.name not in given.schema.names:
            columns.append(pa.nulls(rows, one.type) if old is None else old.column(one.name).take(_or_null(place)))
        elif old is None or one.name not in patch.keep:
            columns.append(given.column(one.name))
        else:
            stays = known & patch.keep[one.name]
            both = pa.chunked_array([*given.column(one.name).chunks, *old.column(one.name).chunks], one.type)
            columns.append(both.take(pa.array(np.where(stays, rows + place, np.arange(rows)))))
    return pa.table(columns, schema=schema)


def _or_null(place: Any) -> pa.Array:
    import pyarrow as pa

    return pa.array(place, mask=place < 0)
