"""From whatever the user holds to Arrow batches that fit a table's schema.

Accepted: anything with `__arrow_c_stream__` or `__arrow_c_array__` (Arrow, polars, DuckDB, pandas 3, …), pandas
frames, lists of dicts, dicts of columns, and iterators of batches larger than memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from quire.errors import InvalidInput, SchemaMismatch

if TYPE_CHECKING:
    import pyarrow as pa

Missing = Literal["error", "null"]


@dataclass
class Source:
    """User data as batches. `whole` says that it is in memory already: it can be read again, and in another thread."""

    schema: pa.Schema
    batches: Iterable[pa.RecordBatch]
    whole: bool

    def reader(self) -> pa.RecordBatchReader:
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, iter(self.batches))

    def table(self) -> pa.Table:
        import pyarrow as pa

        return pa.Table.from_batches(self.batches, schema=self.schema)


def source(data: Any, schema: pa.Schema | None = None) -> Source:
    """Read `data` as Arrow. `schema` only helps where Python objects carry no types (lists of dicts)."""
    import pyarrow as pa

    if isinstance(data, pa.Table):
        return _from_table(data)
    if isinstance(data, pa.RecordBatch):
        return _from_table(pa.Table.from_batches([data]))
    if isinstance(data, pa.RecordBatchReader):
        return _plain(Source(data.schema, data, whole=False))
    if isinstance(data, Mapping):
        return _from_python(lambda hint: pa.table(dict(data), schema=hint), schema, data.keys())
    if _is_pandas(data):
        return _from_table(pa.Table.from_pandas(data, preserve_index=False).replace_schema_metadata(None))
    if hasattr(data, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(data)
        # Frames (polars, pandas) are in memory; a reader or a DuckDB relation may be larger than it.
        return (
            _from_table(reader.read_all())
            if hasattr(data, "columns") and hasattr(data, "__len__")
            else _plain(Source(reader.schema, reader, whole=False))
        )
    if hasattr(data, "__arrow_c_array__"):
        return _from_table(pa.Table.from_batches([pa.record_batch(data)]))
    if isinstance(data, list | tuple):
        if all(isinstance(row, Mapping) for row in data):
            names: Iterable[str] = dict.fromkeys(itertools.chain.from_iterable(data))
            return _from_python(lambda hint: pa.Table.from_pylist([dict(r) for r in data], schema=hint), schema, names)
        return _from_iterator(iter(data), schema)
    if isinstance(data, Iterator) or hasattr(data, "__iter__"):
        return _from_iterator(iter(data), schema)
    raise _unreadable(data)


def fit(data: Source, schema: pa.Schema, *, table: str, missing: Missing = "error", only: bool = False) -> Source:
    """The same rows in the table's column order and types, or `SchemaMismatch`.

    With `only` the data may lack columns of the table and keeps its own subset.
    """
    import pyarrow as pa

    have, want = set(data.schema.names), set(schema.names)
    extra = [n for n in data.schema.names if n not in want]
    absent = [n for n in schema.names if n not in have]
    if len(have) != len(data.schema.names):
        raise SchemaMismatch(
            f"The data for table {table!r} has two columns of one name.", next="Rename one.", table=table
        )
    if extra:
        raise SchemaMismatch(
            f"Table {table!r} has no column {_names(extra)}.",
            next=f"Its columns are {_names(schema.names)}; drop the extra ones or add them with add_columns.",
            table=table,
            unexpected=extra,
        )
    required = [n for n in absent if not schema.field(n).nullable]
    if not only and (required or (absent and missing == "error")):
        lacking = required if missing == "null" else absent
        raise SchemaMismatch(
            f"The data for table {table!r} lacks column {_names(lacking)}.",
            next="Supply it" + ("." if required else ', or pass missing="null" to fill it with nulls.'),
            table=table,
            missing=lacking,
        )
    target = pa.schema([f for f in schema if not only or f.name in have])
    for field in target:
        if field.name in have and not _castable(data.schema.field(field.name).type, field.type):
            raise _wrong_type(table, field, data.schema.field(field.name).type)
    if data.schema.equals(target):
        return data
    convert = _Fitter(target, table)
    batches: Iterable[pa.RecordBatch] = (
        [convert(b) for b in data.batches] if data.whole else (convert(b) for b in data.batches)
    )
    return Source(target, batches, data.whole)


@dataclass
class _Fitter:
    target: pa.Schema
    table: str

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa

        arrays = []
        for field in self.target:
            index = batch.schema.get_field_index(field.name)
            if index < 0:
                arrays.append(pa.nulls(batch.num_rows, field.type))
                continue
            column = batch.column(index)
            if column.type != field.type:
                try:
                    column = column.cast(field.type)
                except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                    raise _wrong_type(self.table, field, column.type, str(error)) from None
            if column.null_count and not field.nullable:
                raise SchemaMismatch(
                    f"Column {field.name!r} of table {self.table!r} is required, but the data has a null in it.",
                    next="Fill or drop those rows.",
                    table=self.table,
                    column=field.name,
                )
            arrays.append(column)
        return pa.RecordBatch.from_arrays(arrays, schema=self.target)


def _castable(have: pa.DataType, want: pa.DataType) -> bool:
    """Whether values may be converted without a change of meaning. Overflow is found later, by value."""
    import pyarrow.types as t

    if have == want or t.is_null(have):
        return True

    def text(x: pa.DataType) -> bool:
        return bool(t.is_string(x) or t.is_large_string(x) or t.is_string_view(x))

    def raw(x: pa.DataType) -> bool:
        return bool(t.is_binary(x) or t.is_large_binary(x) or t.is_binary_view(x) or t.is_fixed_size_binary(x))

    def listed(x: pa.DataType) -> bool:
        return bool(t.is_list(x) or t.is_large_list(x) or t.is_fixed_size_list(x))

    if t.is_dictionary(have):
        return _castable(have.value_type, want)
    if listed(have) and listed(want):
        return _castable(have.value_type, want.value_type)
    if t.is_struct(have) and t.is_struct(want):
        return {f.name for f in have} == {f.name for f in want} and all(
            _castable(have.field(f.name).type, f.type) for f in want
        )
    if t.is_integer(have):
        return bool(t.is_integer(want) or t.is_floating(want) or t.is_decimal(want))
    if t.is_floating(have) or t.is_decimal(have):
        return bool(t.is_floating(want) or t.is_decimal(want))
    families = (text, raw, t.is_timestamp, t.is_date, t.is_time, t.is_duration, t.is_boolean)
    return any(family(have) and family(want) for family in families)


def _from_table(table: pa.Table) -> Source:
    return _plain(Source(table.schema, table.combine_chunks().to_batches(), whole=True))


def _plain(data: Source) -> Source:
    """Without view and dictionary encodings, which tables do not store."""
    import pyarrow as pa
    import pyarrow.types as t

    def plain(kind: pa.DataType) -> pa.DataType:
        if t.is_string_view(kind):
            return pa.string()
        if t.is_binary_view(kind):
            return pa.binary()
        if t.is_dictionary(kind):
            return plain(kind.value_type)
        if t.is_null(kind):
            return kind
        return kind

    target = pa.schema([pa.field(f.name, plain(f.type), f.nullable, f.metadata) for f in data.schema])
    if target.equals(data.schema):
        return Source(target, data.batches, data.whole) if data.schema.metadata else data
    if not data.whole:
        return Source(target, (b.cast(target) for b in data.batches), False)
    return Source(target, [b.cast(target) for b in data.batches], True)


def _from_python(build: Any, schema: pa.Schema | None, names: Iterable[str]) -> Source:
    import pyarrow as pa

    hint = None
    if schema is not None:
        names = list(names)
        if all(schema.get_field_index(n) >= 0 for n in names):
            hint = pa.schema([schema.field(n).with_nullable(True) for n in names])
    try:
        return _from_table(build(hint))
    except (
        pa.ArrowInvalid,
        pa.ArrowTypeError,
        pa.ArrowNotImplementedError,
        OverflowError,
        TypeError,
        ValueError,
    ) as error:
        raise SchemaMismatch(
            f"The rows cannot be read as one table: {str(error).splitlines()[0]}.",
            next="Give every row the same types, one per column.",
        ) from None


def _from_iterator(items: Iterator[Any], schema: pa.Schema | None) -> Source:

    try:
        first = next(items)
    except StopIteration:
        if schema is None:
            raise InvalidInput(
                "The iterator is empty, so the columns are unknown.", next="Pass an empty Arrow table with a schema."
            ) from None
        return Source(schema, [], whole=True)
    head = _chunk(first, schema)

    def batches() -> Iterator[pa.RecordBatch]:
        for item in itertools.chain([head], items):
            part = item if isinstance(item, Source) else _chunk(item, head.schema)
            if not part.schema.equals(head.schema):
                part = fit(part, head.schema, table="(the first batch)")
            yield from part.batches

    return Source(head.schema, batches(), whole=False)


def _chunk(item: Any, schema: pa.Schema | None) -> Source:
    if isinstance(item, Mapping) and not any(isinstance(v, list) or hasattr(v, "__array__") for v in item.values()):
        raise InvalidInput(
            "An iterator must yield batches, not single rows.",
            next="Pass a list of dicts, or yield Arrow batches or lists of dicts.",
        )
    return source(item, schema)


def _is_pandas(data: Any) -> bool:
    return type(data).__module__.startswith("pandas") and hasattr(data, "columns")


def _names(names: Iterable[str]) -> str:
    return ", ".join(repr(n) for n in names)


def _wrong_type(table: str, field: pa.Field, have: pa.DataType, detail: str = "") -> SchemaMismatch:
    because = f" ({detail.splitlines()[0]})" if detail else ""
    return SchemaMismatch(
        f"Column {field.name!r} of table {table!r} is {field.type}, but the data has {have}{because}.",
        next="Cast the column before writing, or change the table with alter_column.",
        table=table,
        column=field.name,
        expected=str(field.type),
        actual=str(have),
    )


def _unreadable(data: Any) -> InvalidInput:
    return InvalidInput(
        f"Cannot read rows from a {type(data).__name__}.",
        next="Pass an Arrow table or reader, a pandas or polars frame, a list of dicts, or an iterator of batches.",
        type=type(data).__name__,
    )
