"""Finding rows: by key, by predicate, by address."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.errors import InvalidExpression, QuireError
from quire.formats.alike import comparable, comparable_type
from quire.formats.lance.blobs import blob_columns, read_at, with_bytes
from quire.formats.lance.metering import Scan, metered, reading, scanned
from quire.formats.lance.net import Addresses
from quire.formats.lance.session import first_line, translate, translating

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
    import pyarrow as pa

    if keys.num_rows == 0 or (fragments is not None and not fragments):
        return np.empty(0, np.uint64), np.empty(0, np.uint64), pa.array([], pa.int64())
    scanner: dict[str, Any] = {"columns": list(on), "with_row_address": True, "with_row_id": True}
    if fragments is not None:
        scanner["fragments"] = list(fragments)
    if keys.num_rows <= (FEW if len(on) == 1 else FEW_COMPOSITE):
        scanner["filter"] = _filter(on, keys, handle.schema)
    with translating(f"look-up of keys in {handle.uri}"), scanned("lookup", handle, fragments) as scan:
        return _join(handle.scanner(**scanner, **scan.options).to_reader(), on, keys)


def _filter(on: Sequence[str], keys: pa.Table, schema: pa.Schema) -> Any:
    """These keys as a filter, or None where Lance has no way to take them: then the key columns are scanned.

    An expression goes to Lance over Substrait, together with the schema of the whole table, and Substrait lacks some
    types: unsigned numbers and large text as keys, times and wide decimals anywhere. SQL has literals for the first.
    """
    kinds = [keys.schema.field(n).type for n in on]
    if all(_in_substrait(kind) for kind in kinds) and all(_beside_substrait(kind) for kind in schema.types):
        return _is_in(on, keys)
    if not all(_in_sql(kind) for kind in kinds):
        return None
    if len(on) == 1:
        return f"{quoted(on[0])} in ({', '.join(_literal(v) for v in keys.column(on[0]).to_pylist())})"
    rows = keys.select(list(on)).to_pylist()
    return " or ".join("(" + " and ".join(f"{quoted(n)} = {_literal(row[n])}" for n in on) + ")" for row in rows)


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


def _in_sql(kind: pa.DataType) -> bool:
    import pyarrow.types as t

    return bool(t.is_integer(kind) or t.is_string(kind) or t.is_large_string(kind))


def _literal(value: int | str) -> str:
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def _is_in(on: Sequence[str], keys: pa.Table) -> Any:
    import pyarrow.compute as pc

    if len(on) == 1:
        return pc.field(on[0]).isin(keys.column(on[0]).combine_chunks())
    rows = keys.select(list(on)).to_pylist()
    terms = [reduce(lambda a, b: a & b, [pc.field(n) == _scalar(keys, n, row[n]) for n in on]) for row in rows]
    return reduce(lambda a, b: a | b, terms)


def _scalar(keys: pa.Table, name: str, value: Any) -> Any:
    import pyarrow as pa

    return pa.scalar(value, keys.schema.field(name).type)


def _join(reader: pa.RecordBatchReader, on: Sequence[str], keys: pa.Table) -> tuple[Addresses, Any, Any]:
    """Match scanned rows with keys.

    DuckDB does it with typed columns and can spill; names are neutral, nothing is pasted.
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
    with duckdb.connect() as connection:
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


def share(batches: Iterable[pa.RecordBatch], on: Sequence[str], number: int, of: int) -> Iterator[pa.RecordBatch]:
    """One of several shares of rows: those of the same key are in the same one."""
    import duckdb
    import pyarrow as pa

    names = [f"k{i}" for i in range(len(on))]
    with duckdb.connect() as connection:
        for batch in batches:
            connection.register("keys", pa.table([comparable(batch.column(n)) for n in on], names=names))
            query = f"select hash({', '.join(names)}) % $of = $number from keys"
            mine = connection.sql(query, params={"of": of, "number": number}).to_arrow_table()
            yield batch.filter(mine.column(0).combine_chunks())


def _neutral(name: str, on: Sequence[str], names: Sequence[str]) -> str:
    return names[list(on).index(name)] if name in on else name


def where(handle: LanceDataset, predicate: str) -> Addresses:
    """Addresses of the rows that satisfy a predicate."""
    with scanned("scan", handle) as scan, checking_expression(predicate):
        table = handle.scanner(columns=[], with_row_address=True, filter=predicate, **scan.options).to_table()
    return np.asarray(table.column("_rowaddr").to_numpy(), np.uint64)


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
    handle: LanceDataset, exprs: dict[str, str], predicate: str | None, scan: Scan
) -> Iterator[pa.RecordBatch]:
    """Full rows that satisfy a predicate, some columns computed, blobs as bytes, with their addresses.

    Whoever consumes them counts the requests.
    """
    columns = {n: exprs.get(n, quoted(n)) for n in handle.schema.names}
    with checking_expression(predicate or "", *exprs.values()):
        options = {**with_bytes(handle.schema), **scan.options}
        scanner = handle.scanner(columns=columns, with_row_address=True, filter=predicate, **options)
        yield from scanner.to_reader()


def quoted(name: str) -> str:
    """A column name as Lance's SQL reads it. Names with a backtick are refused when a column is made."""
    return f"`{name}`"


class checking_expression:  # noqa: N801 - used as a context manager
    """Turns Lance's complaint about the user's own SQL into a typed error; everything else is a storage failure."""

    def __init__(self, *texts: str) -> None:
        self.texts = texts

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None or isinstance(error, QuireError) or not isinstance(error, Exception):
            return
        # A file that is gone in the middle of a scan comes as the same class as bad SQL.
        lost = "LanceError(IO)" in str(error) or "Object at location" in str(error)
        if isinstance(error, ValueError | NotImplementedError) and not lost:
            text = " / ".join(t for t in self.texts if t)
            reason = first_line(error).removeprefix("Invalid user input: ")
            raise InvalidExpression(
                f"{text!r} is not a valid expression here: {reason}." if text else f"This cannot be read: {reason}.",
                next="Quote text with '…' and unusual column names with `…`.",
                expression=text,
            ) from None
        raise translate(error, "a scan") from error
