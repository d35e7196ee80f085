"""Parquet files of a Delta table: written with statistics, read with the types that Quire shows."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from quire.conversion.source import Source
from quire.errors import FormatError, InvalidInput
from quire.formats.delta.log.state import DataFile, State, now
from quire.ledger import new_id

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

BATCH = 1 << 16
"""Rows that are read at once."""
LARGEST_ROWS = 1 << 20
"""Rows of one data file."""
LARGEST_BYTES = 128 << 20
"""Bytes that rows take in memory before a file is closed."""
_STATISTICS = 32
"""Columns of which least and greatest values are noted: the first ones."""
_LONGEST = 64

Written = tuple[DataFile, bytes]


def written(rows: Source, state: State) -> Iterator[Written]:
    """Rows that fit the table as data files, one after the other; nothing for no rows."""
    held: list[Any] = []
    count = size = 0
    for batch in rows.batches:
        held.append(batch)
        count, size = count + batch.num_rows, size + batch.nbytes
        if count >= LARGEST_ROWS or size >= LARGEST_BYTES:
            yield from _files(held, rows.schema, state)
            held, count, size = [], 0, 0
    if count:
        yield from _files(held, rows.schema, state)


def _files(batches: Sequence[pa.RecordBatch], schema: pa.Schema, state: State) -> Iterator[Written]:
    import pyarrow as pa

    table = pa.Table.from_batches(batches, schema=schema)
    stored = state.stored
    table = pa.table([table.column(f.name).cast(f.type) for f in stored], schema=stored)
    for values, part in _by_partition(table, state.partition):
        for start in range(0, part.num_rows, LARGEST_ROWS):
            yield _file(part.slice(start, LARGEST_ROWS), values)


def _file(rows: pa.Table, partition: tuple[tuple[str, str | None], ...]) -> Written:
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    pq.write_table(rows, sink, compression="snappy", coerce_timestamps="us")
    body = sink.getvalue()
    path = f"data/part-{new_id()}.parquet"
    made = DataFile(path, len(body), rows.num_rows, partition, statistics(rows), now())
    return made, body


def statistics(rows: pa.Table) -> str:
    """What Delta clients skip files by."""
    import pyarrow.compute as pc
    import pyarrow.types as t

    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name, column in list(zip(rows.column_names, rows.columns, strict=True))[:_STATISTICS]:
        if t.is_nested(column.type):
            continue
        nulls[name] = column.null_count
        kind = column.type
        if not (
            t.is_integer(kind) or t.is_string(kind) or t.is_date(kind) or t.is_timestamp(kind) or t.is_floating(kind)
        ):
            continue
        if t.is_floating(kind) and pc.any(pc.is_nan(column)).as_py():
            continue
        found = pc.min_max(column).as_py()
        low, high = _told(found["min"]), _told(found["max"])
        if low is None or high is None or (isinstance(high, str) and max(len(low), len(high)) > _LONGEST):
            continue
        if not isinstance(low, float) or (abs(low) != float("inf") and abs(high) != float("inf")):
            least[name], greatest[name] = low, high
    told = {"numRecords": rows.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}
    return msgspec.json.encode(told).decode()


def _told(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        if value.microsecond % 1000:
            return None  # Delta's statistics have milliseconds
        text = value.replace(tzinfo=None).isoformat(timespec="milliseconds")
        return f"{text}Z" if value.tzinfo is not None else text
    return value.isoformat() if isinstance(value, dt.date) else value


def batches(source: Any, names: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of a file, of these columns as far as it has them. The source is a file object of Arrow."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(source, pre_buffer=True) as file:
        there = None if names is None else [name for name in names if name in file.schema_arrow.names]
        yield from file.iter_batches(batch_size=BATCH, columns=there)


def living_batches(
    source: Any, names: Sequence[str], living: NDArray[np.uint32]
) -> Iterator[tuple[int, pa.RecordBatch | None]]:
    """The same with the number of rows of each; nothing instead of row groups that have no living row."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(source, pre_buffer=True) as file:
        there = [name for name in names if name in file.schema_arrow.names]
        sizes = [file.metadata.row_group(n).num_rows for n in range(file.metadata.num_row_groups)]
        ends = np.searchsorted(living, np.cumsum([0, *sizes]))
        for wanted, some in groupby(range(len(sizes)), lambda n: bool(ends[n + 1] > ends[n])):
            groups = list(some)
            if not wanted:
                yield sum(sizes[n] for n in groups), None
                continue
            for batch in file.iter_batches(batch_size=BATCH, row_groups=groups, columns=there):
                yield batch.num_rows, batch


def rows_in(body: bytes, path: str) -> int:
    """How many rows a data file has."""
    return int(_opened(body, path).metadata.num_rows)


def records(body: bytes, names: Collection[str], path: str) -> list[dict[str, Any]]:
    """The rows of a small file as objects, of these columns as far as it has them."""
    file = _opened(body, path)
    found: list[dict[str, Any]] = file.read(columns=[n for n in file.schema_arrow.names if n in names]).to_pylist()
    return found


def file_of_records(records: Sequence[Mapping[str, Any]], schema: pa.Schema) -> bytes:
    """Objects as a file of these columns; what they lack is null."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(records), schema=schema), sink, compression="snappy")
    return sink.getvalue()


def _opened(body: bytes, path: str) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(io.BytesIO(body))
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"{path} is no Parquet file ({error}).", next="Restore it from a copy.", key=path) from None


def may_hold(file: DataFile, column: str, keys: Any) -> bool:
    """Whether a file can have a row with one of these values in a column, by its statistics."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as t

    if not file.stats or not (t.is_integer(keys.type) or t.is_string(keys.type)):
        return True
    told: Mapping[str, Any] = msgspec.json.decode(file.stats)
    low, high = (told.get(part, {}).get(column) for part in ("minValues", "maxValues"))
    kind = str if t.is_string(keys.type) else int
    if type(low) is not kind or type(high) is not kind:
        return True
    try:
        first, last = pa.scalar(low, keys.type), pa.scalar(high, keys.type)
    except (pa.ArrowException, OverflowError):
        return True
    return bool(pc.any(pc.and_(pc.greater_equal(keys, first), pc.less_equal(keys, last))).as_py())


# -- partitions --------------------------------------------------------------------------------------------------------


def _by_partition(
    rows: pa.Table, columns: Sequence[str]
) -> Iterator[tuple[tuple[tuple[str, str | None], ...], pa.Table]]:
    """Rows by the values of the columns that lie in no file."""
    import pyarrow as pa

    if not columns:
        yield (), rows
        return
    keys = pa.table([_texts(rows.column(name), name) for name in columns], names=list(columns))
    codes: dict[tuple[str | None, ...], list[int]] = {}
    for position, values in enumerate(zip(*(c.to_pylist() for c in keys.columns), strict=True)):
        codes.setdefault(values, []).append(position)
    rest = rows.select([name for name in rows.column_names if name not in columns])
    for values, positions in codes.items():
        yield tuple(zip(columns, values, strict=True)), rest.take(pa.array(positions))


def _texts(column: Any, name: str) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as t

    found = column.cast(pa.string())
    if t.is_string(column.type) and pc.any(pc.equal(found, "")).as_py():
        raise InvalidInput(
            f"Column {name!r} partitions the table and has an empty text, which Delta cannot tell from a null.",
            next="Use another value for it, or do not partition by this column.",
            column=name,
        )
    return found


def check_partition(columns: Sequence[str], schema: pa.Schema, table: str) -> tuple[str, ...]:
    """The columns to partition by, or a typed error."""
    import pyarrow.types as t

    for i, name in enumerate(columns):
        if schema.get_field_index(name) < 0 or name in columns[:i]:
            raise InvalidInput(
                f"Table {table!r} cannot be partitioned by {name!r}: it has no such column, or it is named twice.",
                next=f"Its columns are {', '.join(schema.names)}.",
                table=table,
                column=name,
            )
        kind = schema.field(name).type
        if not (t.is_integer(kind) or t.is_string(kind) or t.is_boolean(kind) or t.is_date(kind)):
            raise InvalidInput(
                f"Table {table!r} cannot be partitioned by {name!r}, which is {kind}.",
                next="Use a column of whole numbers, texts, truth values or dates.",
                table=table,
                column=name,
            )
    if columns and len(columns) == len(schema.names):
        raise InvalidInput(f"Table {table!r} has no column beside its partition.", next="Leave one out.", table=table)
    return tuple(columns)


def constant(value: str | None, kind: pa.DataType, rows: int, path: str) -> pa.Array:
    """A column whose value is the same in every row of a file."""
    import pyarrow as pa

    try:
        if value is None or value == "":
            return pa.nulls(rows, kind)
        return pa.repeat(pa.scalar(value).cast(kind), rows)
    except pa.ArrowException as error:
        raise FormatError(f"{path} has a partition value {value!r} that is no {kind} ({error}).", key=path) from None
