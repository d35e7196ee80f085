"""What other processes do for a table: write data files, read parts, look keys up. None of it is visible to anybody.

A task opens one state by its version and asks for nothing newer. The files it writes are named by nobody until the
process that owns the transaction hands them in; those of a task that failed or was run twice stay garbage.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from quire.formats import keys as keylib
from quire.formats.arrow import Missing, Source, fit, plain
from quire.formats.lance import blobs, match
from quire.formats.lance.metering import streamed
from quire.formats.lance.session import load, translating
from quire.formats.marks import Marks
from quire.formats.protocol import Place

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset
    from numpy.typing import NDArray

BATCH_ROWS = 65_536
"""Rows that are read from a file at once."""


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


def open_place(place: Place) -> LanceDataset:
    """The table at this very state."""
    return _opened(place.uri, place.version, tuple(sorted(place.options.items())))


def open_alone(place: Place) -> LanceDataset:
    """The same on a handle of one's own: some verbs borrow it exclusively."""
    load()
    import lance

    with translating(f"version {place.version} of {place.uri}"):
        return lance.dataset(place.uri, version=place.version, storage_options=place.options or None)


@lru_cache(maxsize=64)
def _opened(uri: str, version: int, options: tuple[tuple[str, str], ...]) -> LanceDataset:
    return open_alone(Place(uri, version, dict(options)))


def write_rows(output: Output, batches: Iterable[pa.RecordBatch]) -> tuple[list[str], int]:
    """Write rows as data files that nobody names yet: descriptions of their fragments, and how many rows there were."""
    from lance.fragment import write_fragments

    some = (aligned(batch) for batch in batches if batch.num_rows)
    first = next(some, None)
    if first is None:
        return [], 0
    handle = open_place(output.place)
    schema = output.schema or handle.schema
    given = plain(Source(first.schema, chain([first], some), whole=False))
    rows = fit(returned(given, schema), schema, table=output.table, missing=output.missing)
    count = _Count(output)
    flow = Source(rows.schema, count.through(rows.batches), whole=False)
    with translating(f"data of {output.table}"):
        fragments = flow.feed(
            lambda reader: write_fragments(
                reader, handle, schema=rows.schema, mode=output.mode, max_bytes_per_file=1 << 30
            )
        )
    return [json.dumps(f.to_json()) for f in fragments], count.rows


@dataclass
class _Count:
    output: Output
    rows: int = 0

    def through(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            keylib.check_present(batch, self.output.on, self.output.table)
            self.rows += batch.num_rows
            yield batch


def aligned(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows where Lance can take them: it refuses decimals that do not begin at a multiple of 16 bytes, which
    is how a stream may have laid them down."""
    import pyarrow as pa

    def off(column: Any) -> bool:
        return _has_decimals(column.type) and any(b is not None and b.address % 16 for b in column.buffers())

    if not any(off(column) for column in batch.columns):
        return batch
    order = pa.array(np.arange(batch.num_rows))
    columns = [column.take(order) if off(column) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _has_decimals(kind: Any) -> bool:
    import pyarrow as pa

    if pa.types.is_decimal(kind):
        return True
    return any(_has_decimals(kind.field(i).type) for i in range(kind.num_fields))


def returned(data: Source, schema: pa.Schema) -> Source:
    """The same rows as the table has them, where an engine without its types had to show them in others.

    Lists become vectors, without a copy, in every batch in which all of them fit; decimals without a fraction become
    unsigned numbers, also in lists and structs. Everything else stays as it is, for `fit` to cast or to refuse.
    """
    import pyarrow as pa

    wanted = {f.name: f.type for f in schema if _is_shown_otherwise(f.type)}
    if not any(name in wanted for name in data.schema.names):
        return data

    def convert(batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [_returned(c, wanted.get(n)) for c, n in zip(batch.columns, batch.schema.names, strict=True)]
        return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)

    fields = [f.with_type(_returned_type(f.type, wanted.get(f.name))) for f in data.schema]
    return Source(pa.schema(fields), (convert(b) for b in data.batches), data.whole)


def _is_shown_otherwise(kind: Any) -> bool:
    """Whether there are vectors or unsigned numbers in values of a type."""
    import pyarrow as pa

    if pa.types.is_fixed_size_list(kind) or pa.types.is_uint64(kind):
        return True
    return any(_is_shown_otherwise(kind.field(i).type) for i in range(kind.num_fields))


def _returned_type(have: Any, want: Any) -> Any:
    """The type that such values have then, but for vectors, which not every batch may hold."""
    import pyarrow as pa

    if _whole(have, want):
        return want
    if want is not None and pa.types.is_list(have) and _is_list(want):
        return pa.list_(have.value_field.with_type(_returned_type(have.value_type, want.value_type)))
    if want is not None and pa.types.is_struct(have) and pa.types.is_struct(want):
        return pa.struct([f.with_type(_returned_type(f.type, _field_type(want, f.name))) for f in have])
    return have


def _returned(column: Any, kind: Any) -> Any:
    import pyarrow as pa

    if kind is None or column.type == kind:
        return column
    if _whole(column.type, kind):
        try:
            return column.cast(kind)
        except pa.ArrowException:
            return column
    if pa.types.is_list(column.type) and _is_list(kind):
        return _returned_lists(column, kind)
    if pa.types.is_struct(column.type) and pa.types.is_struct(kind):
        names = [f.name for f in column.type]
        inner = [_returned(c, _field_type(kind, n)) for c, n in zip(column.flatten(), names, strict=True)]
        return pa.StructArray.from_arrays(inner, names, mask=column.is_null())
    return column


def _returned_lists(column: Any, kind: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    values = _returned(column.flatten(), kind.value_type)
    lengths = pc.list_value_length(column).fill_null(0).to_numpy()
    fits = pa.types.is_fixed_size_list(kind) and values.type == kind.value_type and not column.null_count
    if fits and bool((lengths == kind.list_size).all()):
        return pa.FixedSizeListArray.from_arrays(values, type=kind)
    if values.type == column.type.value_type:
        return column
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    field = column.type.value_field.with_type(values.type)
    return pa.ListArray.from_arrays(offsets, values, type=pa.list_(field), mask=column.is_null())


def _is_list(kind: Any) -> bool:
    import pyarrow.types as t

    return bool(t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind))


def _field_type(kind: Any, name: str) -> Any:
    place = kind.get_field_index(name)
    return None if place < 0 else kind.field(place).type


def _whole(have: Any, want: Any) -> bool:
    """Whether decimals without a fraction stand for unsigned numbers."""
    import pyarrow as pa

    return want is not None and pa.types.is_uint64(want) and pa.types.is_decimal(have) and have.scale == 0


# -- keys -------------------------------------------------------------------------------------------------------------


def write_keys(output: Output, batches: Iterable[pa.RecordBatch]) -> tuple[list[str], int]:
    """Write keys alone, in a file of their own that no fragment will name: its path, and how many there were."""
    from lance.file import LanceFileWriter

    handle = open_place(output.place)
    schema = picked(handle.schema, output.on)
    some = (aligned(batch) for batch in batches if batch.num_rows)
    first = next(some, None)
    if first is None:
        return [], 0
    given = plain(Source(first.schema, chain([first], some), whole=False))
    count = _Count(output)
    path = f"{uuid.uuid4()}.lance"
    with translating(f"keys for {output.table}"):
        uri = f"{output.place.uri}/data/{path}"
        with LanceFileWriter(uri, schema, storage_options=output.place.options or None) as writer:
            for batch in count.through(fit(returned(given, schema), schema, table=output.table).batches):
                writer.write_batch(batch)
    return [path], count.rows


def write_columns(place: Place, batches: Iterable[pa.RecordBatch]) -> str:
    """Write rows that belong to no table beside its data files; where `read_keys` finds them."""
    load()
    from lance.file import LanceFileWriter

    path = f"{uuid.uuid4()}.lance"
    uri, options = f"{place.uri}/data/{path}", place.options or None
    with translating(f"a file beside {place.uri}"), LanceFileWriter(uri, storage_options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return path


def paths_of(fragments: Iterable[str]) -> list[str]:
    """The data file of each of these new fragments; a new one has one."""
    return [str(json.loads(text)["files"][0]["path"]) for text in fragments]


def rows_of(fragments: Iterable[str]) -> list[int]:
    """How many rows each of these new fragments has."""
    return [int(json.loads(text)["physical_rows"]) for text in fragments]


def read_keys(place: Place, paths: Sequence[str], on: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Some columns of data files that no manifest names."""
    load()
    from lance.file import LanceFileReader

    with translating(f"keys in {place.uri}"):
        for path in paths:
            reader = LanceFileReader(
                f"{place.uri}/data/{path}", storage_options=place.options or None, columns=list(on)
            )
            for batch in reader.read_all(batch_size=BATCH_ROWS).to_batches():
                yield batch.select(list(on))


def all_keys(place: Place, paths: Sequence[str], on: Sequence[str], share: int = 0, of: int = 1) -> pa.Table:
    """The same as one table, for who can hold them all; or one of several shares, which have no key in common."""
    import pyarrow as pa

    read = read_keys(place, paths, on)
    batches = list(match.share(read, on, share, of) if of > 1 else read)
    schema = batches[0].schema if batches else picked(open_place(place).schema, on)
    return pa.Table.from_batches(batches, schema=schema)


def find_keys(
    place: Place, fragments: Sequence[int] | None, on: Sequence[str], keys: pa.Table
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Addresses of the rows of some fragments that have one of the keys, and the position of each one's key."""
    handle = open_place(place)
    some = None if fragments is None else _fragments(handle, fragments)
    addresses, _, positions = match.where_key(handle, on, keys, some)
    return addresses, positions.to_numpy().astype(np.int64)


def key_schema(place: Place, on: Sequence[str], *, address: bool = False) -> pa.Schema:
    """The columns of `read_keys` or, with the address, of `key_rows`."""
    import pyarrow as pa

    schema = picked(open_place(place).schema, on)
    return schema.append(pa.field("_rowaddr", pa.int64())) if address else schema


def fragments_of(place: Place) -> list[tuple[int, int]]:
    """The table's fragments: number and rows."""
    return [(int(f.fragment_id), int(f.metadata.num_rows)) for f in open_place(place).get_fragments()]


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


def key_rows(place: Place, fragments: Sequence[int], on: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The keys of some fragments with `_rowaddr`, the address of each row."""
    handle = open_place(place)
    some = _fragments(handle, fragments)
    with translating(f"keys of {place.uri}"):
        yield from handle.scanner(columns=list(on), with_row_address=True, fragments=some).to_reader()


def keys_at(place: Place, fragment: int, rows: Marks, on: Sequence[str]) -> list[dict[str, Any]]:
    """The keys of some rows of a fragment; it is read up to the last of them."""
    import pyarrow as pa

    found: list[dict[str, Any]] = []
    for batch in key_rows(place, [fragment], on):
        offsets = batch.column("_rowaddr").to_numpy() & np.uint64(0xFFFFFFFF)
        chosen = batch.filter(pa.array(np.isin(offsets, np.asarray(rows))))
        found += chosen.select(list(on)).to_pylist()
        if len(found) >= len(rows):
            break
    return found


# -- reading ----------------------------------------------------------------------------------------------------------


def read_rows(
    place: Place, fragments: Sequence[int], columns: Sequence[str] | None, filter: str | None
) -> Iterator[pa.RecordBatch]:
    """Rows of some fragments."""
    handle = open_place(place)
    chosen = None if columns is None else list(columns)
    with match.checking_expression(filter or ""):
        scanner = handle.scanner(columns=chosen, filter=filter, fragments=_fragments(handle, fragments))
        yield from scanner.to_reader()


@dataclass(frozen=True)
class Whole:
    """Whole rows of some fragments of a state, blobs as bytes."""

    place: Place | None
    fragments: tuple[int, ...]
    handle: LanceDataset | None = None
    """For this process: the handle to read them by."""

    def schema(self) -> pa.Schema:
        return blobs.given(self._opened().schema)

    def batches(self) -> Iterator[pa.RecordBatch]:
        handle, schema = self._opened(), self.schema()
        if not self.fragments:
            return
        options = {"fragments": _fragments(handle, self.fragments), **blobs.with_bytes(handle.schema)}
        with translating(f"rows of {handle.uri}"):
            for batch in streamed(handle, options):
                yield batch if batch.schema.equals(schema) else batch.cast(schema)

    def _opened(self) -> LanceDataset:
        if self.handle is not None:
            return self.handle
        assert self.place is not None
        return open_place(self.place)


def _fragments(handle: LanceDataset, numbers: Sequence[int]) -> list[Any]:
    found = [handle.get_fragment(number) for number in numbers]
    assert all(f is not None for f in found)
    return found


def picked(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """Some columns of a schema."""
    import pyarrow as pa

    return pa.schema([schema.field(name) for name in names])
