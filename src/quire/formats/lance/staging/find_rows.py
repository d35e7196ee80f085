"""Finding rows: by key, by predicate, by address."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.filters import Assignment, Computing, Condition, In, Where, duckdb_engine, every
from quire.formats.lance import filter_sql, filtered_scan
from quire.formats.lance.blobs import blob_columns, read_at, with_bytes
from quire.formats.lance.lookups import candidates, known
from quire.formats.lance.lookups.candidates import Chosen
from quire.formats.lance.lookups.reading import WITH_DELETED, noted
from quire.formats.lance.metering import Scan, metered, reading, scanned
from quire.formats.lance.session import translating
from quire.formats.lance.staging.net_change import Addresses
from quire.formats.row_hashes import comparable, comparable_type
from quire.store import run_parallel

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset
    from lance.fragment import LanceFragment

FEW = 2_000
"""Up to this many keys are looked up by filter, which uses an index; more are joined with a scan of the key columns."""
FEW_COMPOSITE = 128


def where_key(
    handle: LanceDataset, on: Sequence[str], keys: pa.Table, fragments: Sequence[LanceFragment] | None = None
) -> tuple[Addresses, pa.Table, Any]:
    """Rows whose key is in `keys`: addresses, row ids, and for each row the position of its key in `keys`."""
    if keys.num_rows == 0 or (fragments is not None and not fragments):
        return _NO_ADDRESS, _NO_ADDRESS, _no_position()
    among = None if fragments is None else {int(f.fragment_id) for f in fragments}
    chosen = candidates.for_keys(handle, on, keys, among)
    if chosen is None:
        return _filtered(handle, on, keys, fragments)
    reads: list[Callable[[], tuple[Addresses, Any, Any]]] = []
    if chosen.numbers:
        some = fragments if chosen.every else known.fragments_of(handle, chosen.numbers)
        reads.append(partial(_filtered, handle, on, keys, some))
    if chosen.unknown:
        reads.append(partial(_met, handle, on, keys, chosen))
    return _together(run_parallel(reads))


_NO_ADDRESS = np.empty(0, np.uint64)


def _no_position() -> Any:
    import pyarrow as pa

    return pa.array([], pa.int64())


def _together(found: Sequence[tuple[Addresses, Any, Any]]) -> tuple[Addresses, Any, Any]:
    import pyarrow as pa

    if len(found) == 1:
        return found[0]
    addresses, rowids, positions = zip(*found, strict=True) if found else ((), (), ())
    return (
        np.concatenate([_NO_ADDRESS, *addresses]),
        np.concatenate([_NO_ADDRESS, *rowids]),
        pa.concat_arrays([_no_position(), *positions]),
    )


def _filtered(
    handle: LanceDataset, on: Sequence[str], keys: pa.Table, fragments: Sequence[LanceFragment] | None
) -> tuple[Addresses, Any, Any]:
    """The same by a scan of some fragments, or of all."""
    scanner: dict[str, Any] = {"columns": list(on), "with_row_address": True, "with_row_id": True}
    few = _are_few(on, keys)
    if few:
        scanner["filter"] = _filter(on, keys, handle.schema)
    with translating(f"look-up of keys in {handle.uri}"), scanned("lookup", handle, fragments) as scan:
        return _join(handle.scanner(**scanner, **scan.only(fragments)).to_reader(), on, keys, few=few)


def _are_few(on: Sequence[str], keys: pa.Table) -> bool:
    return bool(keys.num_rows <= (FEW if len(on) == 1 else FEW_COMPOSITE))


def _met(handle: LanceDataset, on: Sequence[str], keys: pa.Table, chosen: Chosen) -> tuple[Addresses, Any, Any]:
    """The same by a scan of fragments that were not known, and are from then on."""
    import pyarrow as pa

    some = known.fragments_of(handle, [piece.number for piece in chosen.unknown])
    with translating(f"look-up of keys in {handle.uri}"), scanned("lookup", handle, some) as scan:
        scanner = handle.scanner(columns=list(on), **WITH_DELETED, **scan.only(some))
        rows = scanner.to_reader()
        living = noted(handle, rows, on, chosen.fields, chosen.unknown)
        return _join(pa.RecordBatchReader.from_batches(rows.schema, living), on, keys, few=_are_few(on, keys))


def _filter(on: Sequence[str], keys: pa.Table, schema: pa.Schema) -> Any:
    """A filter that lets rows with these keys pass, or None where Lance has no way to take one: then the key columns
    are scanned.

    Of a key of several columns, each is among the values wanted. Rows that mix two keys pass as well, and the join
    drops them: a term for each key would grow exponentially on its way to Lance.

    An expression goes to Lance over Substrait, together with the schema of the whole table, and Substrait lacks some
    types: unsigned numbers and large text as keys, times and wide decimals anywhere. SQL has literals for the first.
    """
    kinds = [keys.schema.field(n).type for n in on]
    if all(_in_substrait(kind) for kind in kinds) and all(_beside_substrait(kind) for kind in schema.types):
        return _is_in(on, keys)
    return filter_sql.exactly(_condition(on, keys), schema)


def _condition(on: Sequence[str], keys: pa.Table) -> Condition:
    return every([In(n, tuple(keys.column(n).unique().to_pylist())) for n in on])


def _in_substrait(kind: pa.DataType) -> bool:
    import pyarrow.types as t

    plain = (t.is_signed_integer, t.is_string, t.is_binary, t.is_boolean, t.is_date32, t.is_float32, t.is_float64)
    return any(is_it(kind) for is_it in plain) or t.is_decimal128(kind) or (t.is_timestamp(kind) and kind.unit != "ns")


def _beside_substrait(kind: pa.DataType) -> bool:
    """Whether a column of this type may be in a table whose schema is sent: Lance leaves some out that it cannot send,
    but only columns, not what is nested in them."""
    import pyarrow.types as t

    left_out = (t.is_unsigned_integer, t.is_floating, t.is_large_string, t.is_large_binary, t.is_fixed_size_list)
    return any(is_it(kind) for is_it in left_out) or t.is_timestamp(kind) or _nested_in_substrait(kind)


def _nested_in_substrait(kind: pa.DataType) -> bool:
    import pyarrow.types as t

    if t.is_list(kind):
        return _nested_in_substrait(kind.value_type)
    if t.is_struct(kind):
        return all(_nested_in_substrait(f.type) for f in kind)
    return _in_substrait(kind)


def _is_in(on: Sequence[str], keys: pa.Table) -> Any:
    import pyarrow.compute as pc

    return reduce(lambda a, b: a & b, [pc.field(n).isin(keys.column(n).unique()) for n in on])


def _join(reader: pa.RecordBatchReader, on: Sequence[str], keys: pa.Table, *, few: bool) -> tuple[Addresses, Any, Any]:
    """Match scanned rows with keys.

    DuckDB does it with typed columns; names are neutral, nothing is pasted. For many keys it starts with all cores, and
    can spill.
    """
    import duckdb
    import pyarrow as pa

    count = len(on)
    names = [f"k{i}" for i in range(count)]
    wanted = pa.table(
        [*(comparable(keys.column(n)) for n in on), pa.array(range(keys.num_rows), pa.int64())],
        names=[*names, "position"],
    )
    renamed = pa.schema([pa.field(_neutral(f.name, on, names), comparable_type(f.type)) for f in reader.schema])
    rows = pa.RecordBatchReader.from_batches(
        renamed, (pa.RecordBatch.from_arrays([comparable(c) for c in b.columns], schema=renamed) for b in reader)
    )
    with duckdb_engine.connected() if few else duckdb.connect() as connection:
        connection.register("scanned", rows)
        connection.register("wanted", wanted)
        condition = " and ".join(f"s.{n} = w.{n}" for n in names)
        found = connection.sql(
            f"select s._rowaddr, s._rowid, w.position from scanned s join wanted w on {condition}"
        ).to_arrow_table()
    return (
        found.column(0).to_numpy().astype(np.uint64),
        found.column(1).to_numpy().astype(np.uint64),
        found.column(2).combine_chunks(),
    )


def _neutral(name: str, on: Sequence[str], names: Sequence[str]) -> str:
    return names[list(on).index(name)] if name in on else name


def where(handle: LanceDataset, predicate: Where, table: str = "") -> Addresses:
    """Addresses of the rows that satisfy a predicate."""
    found = filtered_scan.split(predicate, handle.schema, table=table, part="condition")
    some = candidates.for_condition(handle, found.condition)
    with scanned("scan", handle, some) as scan, filtered_scan.reading(found, table):
        options = {"with_row_address": True, "filter": found.lance, **scan.only(some)}
        reader = handle.scanner(columns=list(found.columns), **options).to_reader()
        parts = [batch.column("_rowaddr").to_numpy() for batch in found.kept(reader)]
    return np.asarray(np.concatenate(parts), np.uint64) if parts else np.empty(0, np.uint64)


def alive(handle: LanceDataset, fragment: int) -> Any:
    """Physical offsets of the rows of a fragment that are not deleted."""
    some = [_fragment(handle, fragment)]
    with scanned("scan", handle, some) as scan, translating(f"fragment {fragment}"):
        table = handle.scanner(columns=[], with_row_address=True, fragments=some, **scan.options).to_table()
    return (table.column("_rowaddr").to_numpy() & np.uint64(0xFFFFFFFF)).astype(np.uint32)


def _fragment(handle: LanceDataset, number: int) -> LanceFragment:
    found = handle.get_fragment(number)
    assert found is not None
    return found


def rows_at(handle: LanceDataset, rowids: Any, columns: Sequence[str]) -> pa.Table:
    """Columns of rows by row id, in the order given; blobs with their bytes."""
    import pyarrow as pa

    ids = [int(r) for r in rowids]
    beside = [name for name in blob_columns(handle.schema) if name in columns]
    plain = [name for name in columns if name not in beside]
    with metered("take", handle.uri, steps=1) as window, translating(f"rows of {handle.uri}"):
        window.in_turn = False
        window.steps = reading(handle, handle.get_fragments())
        found = (
            {n: c for n, c in zip(plain, handle._take_rows(ids, columns=plain).columns, strict=True)} if plain else {}
        )
        found |= {name: read_at(handle, ids, name) for name in beside}
    return pa.table([found[n] for n in columns], schema=pa.schema([handle.schema.field(n) for n in columns]))


def computed(
    handle: LanceDataset,
    exprs: Mapping[str, Assignment],
    given: Collection[str],
    predicate: Where | None,
    scan: Scan,
    table: str,
) -> Iterator[pa.RecordBatch]:
    """Full rows that satisfy a predicate, blobs as bytes, with their addresses: some columns computed, and without
    those that are `given`.

    Whoever consumes them counts the requests.
    """
    import pyarrow as pa

    found = filtered_scan.split(predicate, handle.schema, table=table, part="where")
    needed = {name for one in exprs.values() for name in one.expression.columns} | set(found.columns)
    read = [n for n in handle.schema.names if n in needed or (n not in exprs and n not in given)]
    kept = [n for n in read if n not in exprs and n not in given]
    with filtered_scan.reading(found, table), Computing() as computing:
        some = candidates.for_condition(handle, found.condition)
        options = {**with_bytes(handle.schema), **scan.only(some)}
        scanner = handle.scanner(columns=read, with_row_address=True, filter=found.lance, **options)
        for batch in found.kept(scanner.to_reader()):
            arrays = {n: batch.column(n) for n in [*kept, "_rowaddr"]}
            arrays |= {n: computing.set(one, batch) for n, one in exprs.items()}
            yield pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))
