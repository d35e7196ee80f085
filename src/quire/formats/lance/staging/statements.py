"""What a transaction was asked to do to a table, kept so that it can be done again on a newer base."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from quire.conversion.source import Source
from quire.filters import Where
from quire.formats import Build, Seek
from quire.formats.keys import summarise
from quire.ledger import Keys
from quire.store import result_of

if TYPE_CHECKING:
    import pyarrow as pa
    from lance.fragment import FragmentMetadata


@dataclass
class Staging:
    """Data files of one statement: to be written, being written, or written. Never written twice."""

    rows: int
    future: Future[list[FragmentMetadata]] | None
    """None as long as nobody has begun to write them."""
    table: pa.Table | None = None
    """The rows themselves while they are few, so that whoever judges them need not read them again."""

    def fragments(self) -> list[FragmentMetadata]:
        assert self.future is not None
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
    told: int | None = None
    """The same on the first base: what the program knows."""


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
    told: int | None = None


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
    told: int | None = None

    @property
    def keys(self) -> pa.Table:
        return self.source.select(list(self.on))


@dataclass
class Update:
    exprs: dict[str, str]
    values: dict[str, Any]
    where: Where | None
    on: tuple[str, ...] = ()
    """Key columns that the update itself writes; the new keys must be free."""
    keys: pa.Table | None = None


@dataclass
class Delete:
    where: Where


StagedStatement = Append | Keyed | Sought | Patch | Update | Delete


def by_condition(statement: StagedStatement) -> bool:
    """Whether it is about the rows that were there when it ran, so that run later it could be about others."""
    return isinstance(statement, Update | Delete) or (isinstance(statement, Sought) and statement.mode == "delete")


def only_adds(statements: Sequence[StagedStatement]) -> bool:
    return all(isinstance(s, Append) or (isinstance(s, Keyed) and s.mode == "insert") for s in statements)


def upserted(statements: Sequence[StagedStatement]) -> tuple[int, int]:
    """Rows that the upserts among them added and replaced, on the base that they were run on last."""
    added = replaced = 0
    for statement in statements:
        if isinstance(statement, Patch) or (isinstance(statement, Keyed | Sought) and statement.mode == "upsert"):
            rows = statement.source.num_rows if isinstance(statement, Patch) else statement.staging.rows
            added, replaced = added + rows - statement.matched, replaced + statement.matched
    return added, replaced


def told_otherwise(statements: Sequence[StagedStatement]) -> bool:
    """Whether the program knows a count of one of them, and it counted something else on its last base."""
    return any(isinstance(s, Keyed | Sought | Patch) and s.matched != s.told for s in statements)


def keys_of(statements: Sequence[StagedStatement]) -> tuple[Keys, ...]:
    """The keys of the rows that they write, for the record of the commit."""
    import pyarrow as pa

    by_columns: dict[tuple[str, ...], list[pa.Table]] = {}
    for statement in statements:
        if isinstance(statement, Keyed | Patch | Update) and statement.on and statement.keys is not None:
            by_columns.setdefault(tuple(statement.on), []).append(statement.keys.select(list(statement.on)))
    sought = [s for s in statements if isinstance(s, Sought) and s.mode != "delete"]
    unlisted = tuple(Keys(columns=s.on, count=s.staging.rows) for s in sought)
    return unlisted + tuple(summarise(on, pa.concat_tables(parts)) for on, parts in by_columns.items())


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
