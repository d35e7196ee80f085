"""Rows on their way into a table: batches of one schema, in memory or as they come.

What a statement was given is what is stored, whatever becomes of the caller's memory. Arrow arrays may share their
memory with an array of numpy, a frame or a file that changes later, and they do not tell. So rows of a caller are
copied before the call returns, if they are written or used after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from quire.conversion import vectors

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")


@dataclass
class Source:
    """User data as batches.

    `whole` says that it is in memory already: it can be read again, and in another thread. `own` says that nobody else
    can change that memory.
    """

    schema: pa.Schema
    batches: Iterable[pa.RecordBatch]
    whole: bool
    own: bool = False

    def reader(self) -> pa.RecordBatchReader:
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, iter(self.batches))

    def table(self) -> pa.Table:
        import pyarrow as pa

        if isinstance(self.batches, Kept):
            return self.batches.table
        return pa.Table.from_batches(self.batches, schema=self.schema)

    def taken(self) -> Source:
        """The same rows in memory that no caller can change: copied, unless it is our own already."""
        if self.own:
            return self
        if self.whole:
            return Source(self.schema, Kept(copied_table(self.table())), whole=True, own=True)
        return Source(self.schema, map(copied, self.batches), whole=False, own=True)

    def feed(self, write: Callable[[pa.RecordBatchReader], T]) -> T:
        """Let `write` consume the batches. What the producer of the data raises comes out as it is."""
        failure: list[BaseException] = []

        def guarded() -> Iterator[pa.RecordBatch]:
            try:
                for batch in self.batches:
                    if batch.num_rows:
                        yield aligned(batch)
            except BaseException as error:
                failure.append(error)
                raise

        try:
            return write(Source(self.schema, guarded(), whole=False).reader())
        except Exception:
            if failure:
                raise failure[0] from None
            raise


@dataclass(frozen=True)
class Kept:
    """The batches of a table, made when they are asked for: often the table itself is."""

    table: pa.Table

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self.table.to_batches())


def whole(table: pa.Table) -> Source:
    """A table as one batch, if its columns lie in several pieces."""
    if table.num_columns and table.column(0).num_chunks > 1:
        table = table.combine_chunks()
    return Source(table.schema, Kept(table), whole=True)


def fitting(data: Any, schema: pa.Schema, table: str = "") -> Source | None:
    """What `source` and `fit` would make of rows that have the schema already: the usual case, and a quick one."""
    import pyarrow as pa

    if not isinstance(data, pa.Table) or not is_same(data.schema, schema):
        return None
    return finite(whole(data), table)


def finite(data: Source, table: str) -> Source:
    """The same rows, or `SchemaMismatch` for the first with a vector that is not finite."""
    if not any(kind.num_fields and vectors.holds(kind) for kind in data.schema.types):
        return data

    def checked() -> Iterator[pa.RecordBatch]:
        rows = 0
        for batch in data.batches:
            vectors.check(batch, table, rows)
            rows += batch.num_rows
            yield batch

    if not data.whole:
        return Source(data.schema, checked(), whole=False, own=data.own)
    for _ in checked():
        pass
    return data


def is_same(have: pa.Schema, want: pa.Schema) -> bool:
    """Whether two schemas are equal, also in how they call the values of lists: Arrow overlooks that, tables do not."""
    return have.equals(want) and all(map(_is_same_type, have.types, want.types))


def _is_same_type(have: pa.DataType, want: pa.DataType) -> bool:
    return have == want and (not have.num_fields or str(have) == str(want))


def selected(reader: pa.RecordBatchReader, columns: Sequence[str] | None) -> pa.RecordBatchReader:
    """The same rows with these columns only, as far as they are there."""
    import pyarrow as pa

    if columns is None:
        return reader
    names = [name for name in columns if name in reader.schema.names]
    schema = pa.schema([reader.schema.field(name) for name in names])
    return pa.RecordBatchReader.from_batches(schema, (batch.select(names) for batch in reader))


def empty(schema: pa.Schema, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
    """No rows of a schema."""
    import pyarrow as pa

    return selected(pa.RecordBatchReader.from_batches(schema, []), columns)


# -- memory of our own -------------------------------------------------------------------------------------------------


def copied(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows in memory of their own, laid out as Arrow likes it. Only what the rows use is copied."""
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([own(column) for column in batch.columns], schema=batch.schema)


def copied_table(table: pa.Table) -> pa.Table:
    """The same as `copied`, in one piece."""
    import pyarrow as pa

    columns = [own(*column.chunks, kind=column.type) for column in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema)


def own(*arrays: pa.Array, kind: Any = None) -> pa.Array:
    """These arrays as one, in memory of its own."""
    import pyarrow as pa

    if not arrays:
        return pa.nulls(0, kind)
    # Arrow gives a single array back as it is.
    made = pa.concat_arrays([*arrays, arrays[0].slice(0, 0)])
    return made


def aligned(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows where Lance can take them: it fails on values that do not begin at a multiple of their size, which
    is how a file, a stream or a caller may have laid them down."""
    if not any(is_off(column) for column in batch.columns):
        return batch
    import pyarrow as pa

    columns = [own(column) if is_off(column) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def is_off(column: pa.Array) -> bool:
    """Whether the memory of an array begins where its type may not."""
    step = 16 if holds_decimals(column.type) else 8
    return any(buffer is not None and buffer.address % step for buffer in column.buffers())


def holds_decimals(kind: Any) -> bool:
    import pyarrow as pa

    if isinstance(kind, pa.BaseExtensionType):
        return holds_decimals(kind.storage_type)
    if pa.types.is_decimal(kind):
        return True
    return any(holds_decimals(kind.field(i).type) for i in range(kind.num_fields))
