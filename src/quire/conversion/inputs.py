"""Read whatever the user holds as Arrow batches.

Accepted: anything with `__arrow_c_stream__` or `__arrow_c_array__` (Arrow, polars, DuckDB, pandas 3, …), pandas
frames, lists of dicts, dicts of columns, and iterators of batches larger than memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from quire.conversion.fit import fit
from quire.conversion.misfit import for_table, illegible, misfit, no_columns, of_table, unreadable
from quire.conversion.plain_types import plain
from quire.conversion.rules import ONE_VALUE, Unfit
from quire.conversion.source import Source, is_same, whole
from quire.errors import InvalidInput, QuireError, SchemaMismatch

if TYPE_CHECKING:
    import pyarrow as pa


def source(data: Any, schema: pa.Schema | None = None, *, table: str = "", first: int = 0) -> Source:
    """Read `data` as Arrow. Where Python objects carry no types (lists of dicts), `schema` has them; `first` is the
    number of the first row."""
    import pyarrow as pa

    try:
        return _read(data, schema, table, first)
    except (pa.ArrowException, NotImplementedError, OverflowError, TypeError, ValueError) as error:
        raise illegible(error, table) from None
    except BaseException as error:
        if type(error).__name__ == "PanicException":  # of a library that is written in Rust
            raise illegible(error, table) from None
        raise


def _read(data: Any, schema: pa.Schema | None, table: str, first: int) -> Source:
    import pyarrow as pa

    if isinstance(data, pa.Table):
        return _from_table(data)
    if isinstance(data, pa.RecordBatch):
        return _from_table(pa.Table.from_batches([data]))
    if isinstance(data, pa.RecordBatchReader):
        return plain(Source(data.schema, data, whole=False)).taken()
    if isinstance(data, str | bytes):
        raise unreadable(data)
    if isinstance(data, Mapping):
        return _from_columns(dict(data), schema, table, first)
    if _is_frame(data, "pandas"):
        # A named index is data; the numbers that pandas gives to rows are not.
        data = data.reset_index() if any(name is not None for name in data.index.names) else data
        return _from_frame(data, schema, table, first)
    if hasattr(data, "__arrow_c_stream__"):
        return _from_stream(data, table)
    if hasattr(data, "__arrow_c_array__"):
        return _from_table(pa.Table.from_batches([pa.record_batch(data)]))
    if isinstance(data, list | tuple) and all(isinstance(row, Mapping) for row in data):
        names = dict.fromkeys(itertools.chain.from_iterable(data))
        if data and not names:
            raise SchemaMismatch(
                f"The {len(data)} rows{for_table(table)} have no columns at all.",
                next="Name at least one.",
                table=table,
            )
        return _from_columns({n: [row.get(n) for row in data] for n in names}, schema, table, first)
    if _has_bare_rows(data):
        raise InvalidInput(
            f"The rows{for_table(table)} have no column names: they are bare values, not dicts.",
            next='Pass a list of dicts, such as [{"id": 1}], or a dict of columns, such as {"id": [1]}.',
            type=type(data).__name__,
        )
    if hasattr(data, "__iter__"):
        return _from_iterator(iter(data), schema, table)
    raise unreadable(data)


def _has_bare_rows(data: Any) -> bool:
    """Whether this is an array, or a list of lists or single values."""
    if isinstance(data, list | tuple):
        first = next((row for row in data if row is not None), data)
        if isinstance(first, list | tuple) and first:
            first = first[0]
            return isinstance(first, str | bytes | int | float | list | tuple | type(None))
        return bool(data) and isinstance(first, str | bytes | int | float | list | tuple) and first is not data
    return type(data).__module__.split(".")[0] == "numpy"


def _from_table(table: pa.Table) -> Source:
    return plain(whole(table))


def _from_stream(data: Any, table: str) -> Source:
    import pyarrow as pa

    # A polars frame is in memory; a reader or a DuckDB relation may be larger than it.
    is_whole = _is_frame(data, "polars")
    if is_whole:
        for name, kind in data.schema.items():
            _check_no_objects(name, kind, table)
    with _asking(data):
        try:
            reader = pa.RecordBatchReader.from_stream(data)
        except pa.ArrowException:
            if is_whole:
                _check_known_to_arrow(data, table)
            raise unreadable(data) from None
    if is_whole:
        return _from_table(reader.read_all())

    def batches() -> Iterator[pa.RecordBatch]:
        with _asking(data):
            yield from reader

    return plain(Source(reader.schema, batches(), whole=False)).taken()


@contextmanager
def _asking(data: Any) -> Iterator[None]:
    """A library that makes rows while they are read may fail then, such as DuckDB on a relation."""
    try:
        yield
    except (QuireError, GeneratorExit):
        raise
    except Exception as error:
        said = next(iter(str(error).splitlines()), type(error).__name__)
        raise unreadable(data, said) from None


def _check_no_objects(name: str, kind: Any, table: str) -> None:
    """Refuse a type of polars that holds Python objects: Arrow is given their addresses."""
    inner = [getattr(kind, "inner", None), *(field.dtype for field in getattr(kind, "fields", ()))]
    if str(kind) != "Object":
        for held in filter(None, inner):
            _check_no_objects(name, held, table)
        return
    raise SchemaMismatch(
        f"Column {name!r}{of_table(table)} is of polars' type Object, whose values no other library can read.",
        next="Give the column a type, or pass the rows as dicts: frame.to_dicts().",
        table=table,
        column=name,
        actual="Object",
    )


def _check_known_to_arrow(frame: Any, table: str) -> None:
    """Blame the column of a polars frame whose type Arrow does not have, such as whole numbers of 128 bits."""
    import pyarrow as pa

    for name, kind in frame.schema.items():
        try:
            pa.RecordBatchReader.from_stream(frame.select(name))
        except pa.ArrowException:
            raise SchemaMismatch(
                f"Column {name!r}{of_table(table)} is of polars' type {kind}, which Arrow does not have.",
                next="Cast it before writing, for example to pl.Int64, pl.Decimal(38, 0) or pl.String.",
                table=table,
                column=name,
                actual=str(kind),
            ) from None


def scalar(value: Any, field: pa.Field, table: str) -> pa.Scalar:
    """One Python value as a column's type, or `SchemaMismatch`."""
    import pyarrow as pa

    column = _from_columns({field.name: [value]}, pa.schema([field]), table)
    whole = fit(column, pa.schema([field]), table=table).table()
    return whole.column(0)[0]


def _from_columns(columns: Mapping[str, Any], schema: pa.Schema | None, table: str, first: int = 0) -> Source:
    """Columns of Python values, each built alone, so that a wrong value is blamed on its column."""
    if not columns:
        if schema is None:
            raise no_columns()
        return Source(schema, [], whole=True, own=True)
    import pyarrow as pa

    arrays = {}
    for name, values in columns.items():
        if not isinstance(name, str):
            raise SchemaMismatch(f"Column name {name!r}{for_table(table)} is not text.", next="Use text for names.")
        arrays[name] = _column(_field(name, schema), values, table, first)
    lengths = {name: len(array) for name, array in arrays.items()}
    longest, shortest = max(lengths, key=lengths.__getitem__), min(lengths, key=lengths.__getitem__)
    if lengths[longest] != lengths[shortest]:
        raise SchemaMismatch(
            f"Column {longest!r}{of_table(table)} has {lengths[longest]} values, but column {shortest!r} has"
            f" {lengths[shortest]}.",
            next="Give every column as many values as there are rows.",
            table=table,
            column=shortest,
        )
    read = _from_table(pa.table(arrays))
    read.own = all(isinstance(values, list | tuple | range) for values in columns.values())
    return read


def _field(name: str, schema: pa.Schema | None) -> pa.Field:
    """A column as the table has it; of no type where it is not known."""
    import pyarrow as pa

    known = schema is not None and schema.get_field_index(name) >= 0
    return schema.field(name) if known and schema is not None else pa.field(name, pa.null())


def _column(field: pa.Field, values: Any, table: str, first: int) -> Any:
    """One column of whatever holds values: Arrow, numpy, pandas, polars, or Python."""
    import pyarrow as pa

    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    import numpy as np

    from quire.conversion import python_values

    want = None if pa.types.is_null(field.type) else field.type
    try:
        if python_values.is_pandas(values):
            return python_values.pandas_column(values, want)
        if hasattr(values, "__arrow_c_stream__"):
            if type(values).__module__.split(".")[0] == "polars":
                _check_no_objects(field.name, values.dtype, table)
            return pa.chunked_array(values)
        if hasattr(values, "__arrow_c_array__"):
            return pa.array(values)
        if hasattr(values, "__array__"):
            return python_values.numpy_column(np.ma.asarray(values) if _is_masked(values) else np.asarray(values), want)
        found = python_values.listed(values)
        if found is None:
            raise Unfit(0, values, ONE_VALUE)
        return python_values.column(found, want)
    except Unfit as unfit:
        raise misfit(unfit, field, table, first) from None


def _is_masked(values: Any) -> bool:
    import numpy as np

    return isinstance(values, np.ma.MaskedArray)


def _from_frame(frame: Any, schema: pa.Schema | None, table: str, first: int) -> Source:
    """A frame of pandas. Columns of objects are read like lists of Python."""
    import pyarrow as pa

    names = [name if isinstance(name, str) else str(name) for name in frame.columns]
    columns = [frame.iloc[:, i] for i in range(len(names))]
    arrays = []
    for name, series in zip(names, columns, strict=True):
        known = _field(name, schema if series.dtype == object else None)
        arrays.append(_column(known, series, table, first))
    return _from_table(pa.Table.from_arrays(arrays, names=names)) if names else _from_table(pa.table({}))


def _from_iterator(items: Iterator[Any], schema: pa.Schema | None, table: str) -> Source:
    head: Source | None = None
    for item in items:
        if isinstance(item, list | tuple | Mapping) and not item:
            continue
        head = _chunk(item, schema, table, 0).taken()
        break
    if head is None:
        if schema is None:
            raise no_columns()
        return Source(schema, [], whole=True)
    first = head

    def batches() -> Iterator[pa.RecordBatch]:
        rows = 0
        for batch in first.batches:
            rows += batch.num_rows
            yield batch
        for item in items:
            if isinstance(item, list | tuple | Mapping) and not item:
                continue
            part = _chunk(item, schema or first.schema, table, rows)
            if not is_same(part.schema, first.schema):
                part = fit(part, first.schema, table=table or "(the first batch)", first=rows)
            for batch in part.taken().batches:
                rows += batch.num_rows
                yield batch

    return Source(first.schema, batches(), whole=False, own=True)


def _chunk(item: Any, schema: pa.Schema | None, table: str, first: int) -> Source:
    if isinstance(item, Mapping) and not any(isinstance(v, list) or hasattr(v, "__array__") for v in item.values()):
        raise InvalidInput(
            "An iterator must yield batches, not single rows.",
            next="Pass a list of dicts, or yield Arrow batches or lists of dicts.",
        )
    return source(item, schema, table=table, first=first)


def _is_frame(data: Any, package: str) -> bool:
    return type(data).__module__.split(".")[0] == package and hasattr(data, "columns")
