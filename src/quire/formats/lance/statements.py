"""What a transaction was asked to do to a table, kept so that it can be done again on a newer base."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from quire.formats.arrow import Source
from quire.store import awaited

if TYPE_CHECKING:
    import pyarrow as pa
    from lance.fragment import FragmentMetadata


@dataclass
class Staging:
    """Data files of one statement: being written, or written. Never written twice."""

    rows: int
    future: Future[list[FragmentMetadata]]

    def fragments(self) -> list[FragmentMetadata]:
        result = self.future.result()
        awaited()
        return result


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


@dataclass
class Patch:
    """Upsert of some columns only: the new rows depend on the old ones, so they are built on each base."""

    source: pa.Table
    on: tuple[str, ...]

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


Statement = Append | Keyed | Patch | Update | Delete


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
