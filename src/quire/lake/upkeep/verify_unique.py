"""Keys and stable row ids of whole tables: whether every row has its own. Memory is bounded, the rest goes to disk."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from quire.errors import QuireError, StorageError
from quire.formats import Numbered
from quire.formats.keys import show
from quire.formats.row_hashes import comparable, comparable_type
from quire.lake.context import Core
from quire.ledger import Pin, TableInfo

if TYPE_CHECKING:
    import pyarrow as pa

MEMORY = "512MB"
EXAMPLES = 5

Wrong = tuple[str, str, str]


def unique(core: Core, tables: Sequence[tuple[Pin, TableInfo]]) -> list[Wrong]:
    """What is wrong with the keys and row ids of some pinned states: which check, where, and what."""
    return [wrong for pin, info in tables for wrong in _of_one(core, pin, info)]


def _of_one(core: Core, pin: Pin, info: TableInfo) -> Iterator[Wrong]:
    where = f"table {info.name!r} version {pin.counter}"
    try:
        format = core.format(pin.format)
        if info.key:
            keys = _named(format.open(pin, info.name).scan(columns=list(info.key)), info.key)
            nulls, twice = _repeated(keys, info.key)
            if twice:
                yield "key", where, f"Several rows have the same key: {show(twice)}."
            if nulls:
                yield "key", where, "Some rows have no value in the key."
        ids = format.row_ids(pin, info.name) if isinstance(format, Numbered) else None
        if ids is not None:
            _, twice = _repeated(ids, ids.schema.names)
            if twice:
                yield (
                    "row id",
                    where,
                    (f"Several rows have the same stable row id: {show(twice)}. An index confuses them."),
                )
    except QuireError as error:
        yield "key", where, str(error)


def _named(reader: pa.RecordBatchReader, names: Sequence[str]) -> pa.RecordBatchReader:
    """Only these columns: a scan may add others."""
    import pyarrow as pa

    schema = pa.schema([reader.schema.field(n) for n in names])
    return pa.RecordBatchReader.from_batches(schema, (batch.select(list(names)) for batch in reader))


def _repeated(reader: pa.RecordBatchReader, names: Sequence[str]) -> tuple[bool, list[dict[str, Any]]]:
    """Whether rows lack a value, and some of the values that several rows have.

    DuckDB groups them by typed columns under neutral names, and spills what does not fit.
    """
    import duckdb
    import pyarrow as pa

    columns = [f"k{i}" for i in range(len(names))]
    schema = pa.schema([pa.field(c, comparable_type(f.type)) for c, f in zip(columns, reader.schema, strict=True)])
    rows = pa.RecordBatchReader.from_batches(
        schema, (pa.RecordBatch.from_arrays([comparable(c) for c in b.columns], schema=schema) for b in reader)
    )
    chosen, lacking = ", ".join(columns), " or ".join(f"{c} is null" for c in columns)
    with tempfile.TemporaryDirectory(prefix="quire-") as folder:
        settings: dict[str, Any] = {"memory_limit": MEMORY, "temp_directory": folder, "threads": 2}
        try:
            with duckdb.connect(config=settings) as connection:
                connection.register("scanned", rows)
                found = connection.sql(
                    f"select {chosen}, count(*) as n from scanned group by {chosen} having n > 1 or {lacking}"
                    f" order by n desc limit {10 * EXAMPLES}"
                ).fetchall()
        except duckdb.Error as error:
            raise StorageError(
                f"The rows cannot be compared: {error}.", next="Free some disk space, and try again."
            ) from None
    nulls = any(None in row[:-1] for row in found)
    twice = [dict(zip(names, row[:-1], strict=True)) for row in found if None not in row[:-1]]
    return nulls, twice[:EXAMPLES]
