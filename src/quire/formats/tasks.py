"""What a task does for a table of any format: write rows that fit it, write and read keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from quire import duckdb_engines
from quire.conversion import held
from quire.conversion.engine_types import returned
from quire.conversion.fit import Missing, fit
from quire.conversion.plain_types import plain
from quire.conversion.source import Source, aligned
from quire.errors import Unsupported
from quire.filters import Condition
from quire.formats import keys as keylib
from quire.formats.protocol.distributed import ROW_ADDRESS, Place, Span
from quire.formats.registry import task_table
from quire.formats.row_bitmap import Marks
from quire.formats.row_hashes import comparable
from quire.store import Store
from quire.store.forwarded_credentials import carried

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Output:
    """How a task writes rows for a table. It is the same for all tasks of one statement."""

    place: Place
    table: str
    on: tuple[str, ...] = ()
    """Columns that must hold no null, because rows are found by them."""
    missing: Missing = "error"
    mode: Literal["append", "overwrite"] = "append"
    schema: Any = None
    """The columns to write; those of the table when it is None."""


def place_of(store: Store, format: str, uri: str, version: str) -> Place:
    """A version of a table for other processes. What is in this one's memory they cannot see."""
    if store.scheme == "memory":
        raise Unsupported(
            f"The lake {store.uri} is in memory, so other processes cannot read it.",
            next="Use a directory or a bucket.",
            uri=store.uri,
        )
    return Place(format, uri, version, carried(store.scheme, store.options or {}))


def write_rows(output: Output, batches: Iterable[pa.RecordBatch]) -> tuple[list[str], int]:
    """Write rows as data files that nobody names yet: their fragments, and how many rows there were."""
    given = _given(batches)
    if given is None:
        return [], 0
    held = task_table(output.place)
    schema = output.schema or held.schema
    rows = fit(held.stored(returned(given, schema), schema), schema, table=output.table, missing=output.missing)
    count = _Count(output)
    written = held.write(Source(rows.schema, count.through(rows.batches), whole=False), mode=output.mode)
    return written, count.rows


def write_keys(output: Output, batches: Iterable[pa.RecordBatch]) -> tuple[list[str], int]:
    """Write keys alone, in a file of their own that no fragment will name: its path, and how many there were."""
    given = _given(batches)
    if given is None:
        return [], 0
    held = task_table(output.place)
    schema = picked(held.schema, output.on)
    count = _Count(output)
    rows = fit(returned(given, schema), schema, table=output.table)
    return [held.write_beside(count.through(rows.batches), schema)], count.rows


def _given(batches: Iterable[pa.RecordBatch]) -> Source | None:
    """Batches of an engine, if there is a row in them."""
    some = (aligned(batch) for batch in batches if batch.num_rows)
    first = next(some, None)
    return None if first is None else plain(Source(first.schema, chain([first], some), whole=False))


@dataclass
class _Count:
    output: Output
    rows: int = 0

    def through(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            keylib.check_present(batch, self.output.on, self.output.table)
            self.rows += batch.num_rows
            yield batch


def paths_of(place: Place, fragments: Iterable[str]) -> list[str]:
    """The files of new fragments."""
    return [file.path for file in task_table(place).new_files(fragments)]


def all_keys(place: Place, paths: Sequence[str], on: Sequence[str], share: int = 0, of: int = 1) -> pa.Table:
    """Keys in files as one table, for who can hold them all; or one of several shares, which have no key in common."""
    import pyarrow as pa

    held = task_table(place)
    read = held.read_files(paths, on)
    batches = list(_share(read, on, share, of) if of > 1 else read)
    schema = batches[0].schema if batches else picked(held.schema, on)
    if any(batch.schema != schema for batch in batches):  # files say in their own way whether a column may hold nulls
        schema = pa.schema([field.with_nullable(True) for field in schema])
        batches = [pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in batches]
    return pa.Table.from_batches(batches, schema=schema)


def _share(batches: Iterable[pa.RecordBatch], on: Sequence[str], number: int, of: int) -> Iterator[pa.RecordBatch]:
    """One of several shares of rows: those of the same key are in the same one."""
    import pyarrow as pa

    names = [f"k{i}" for i in range(len(on))]
    with duckdb_engines.connected(duckdb_engines.PLAIN) as connection:
        for batch in batches:
            connection.register("keys", pa.table([comparable(batch.column(n)) for n in on], names=names))
            query = f"select hash({', '.join(names)}) % $of = $number from keys"
            mine = connection.sql(query, params={"of": of, "number": number}).to_arrow_table()
            yield batch.filter(mine.column(0).combine_chunks())


def key_schema(place: Place, on: Sequence[str], *, address: bool = False) -> pa.Schema:
    """The columns of keys in files or, with the address, of `TaskTable.addressed_rows`."""
    import pyarrow as pa

    schema = picked(task_table(place).schema, on)
    return schema.append(pa.field(ROW_ADDRESS, pa.int64())) if address else schema


def keys_at(place: Place, part: int, rows: Marks, on: Sequence[str]) -> list[dict[str, Any]]:
    """The keys of some rows of a fragment; it is read up to the last of them."""
    import pyarrow as pa

    found: list[dict[str, Any]] = []
    for batch in task_table(place).addressed_rows([part], on):
        offsets = batch.column(ROW_ADDRESS).to_numpy() & np.uint64(0xFFFFFFFF)
        chosen = batch.filter(pa.array(np.isin(offsets, np.asarray(rows))))
        found += held.rows(chosen.select(list(on)))
        if len(found) >= len(rows):
            break
    return found


def grouped(parts: Iterable[tuple[int, int]], rows: int) -> list[list[int]]:
    """Fragments in groups of neighbours with about as many rows."""
    groups: list[list[int]] = []
    full = 0
    for number, count in parts:
        if not groups or full + count > rows:
            groups.append([])
            full = 0
        groups[-1].append(number)
        full += count
    return groups


@dataclass(frozen=True)
class Share:
    """What one task reads of a table: fragments, or a span of the rows of a large one."""

    parts: tuple[int, ...]
    span: Span | None = None

    def read(
        self, place: Place, columns: Sequence[str] | None, filter: str | Condition | None = None
    ) -> Iterator[pa.RecordBatch]:
        yield from task_table(place).read_rows(self.parts, columns, filter, span=self.span)


def shares(parts: Iterable[tuple[int, int]], rows: int) -> list[Share]:
    """Fragments in groups of neighbours with about as many rows, and larger ones in several spans."""
    found: list[Share] = []
    small: list[tuple[int, int]] = []
    for number, count in parts:
        pieces = round(count / rows)
        if pieces < 2:
            small.append((number, count))
            continue
        found += [Share(tuple(group)) for group in grouped(small, rows)]
        small = []
        ends = [count * i // pieces for i in range(pieces + 1)]
        found += [Share((number,), span) for span in pairwise(ends)]
    return found + [Share(tuple(group)) for group in grouped(small, rows)]


def picked(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """Some columns of a schema."""
    import pyarrow as pa

    return pa.schema([schema.field(name) for name in names])
