"""From whatever the user holds to Arrow batches that fit a table's schema.

Accepted: anything with `__arrow_c_stream__` or `__arrow_c_array__` (Arrow, polars, DuckDB, pandas 3, …), pandas
frames, lists of dicts, dicts of columns, and iterators of batches larger than memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from quire.errors import InvalidInput, SchemaMismatch

if TYPE_CHECKING:
    import pyarrow as pa

Missing = Literal["error", "null"]
T = TypeVar("T")


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

        if isinstance(self.batches, _Kept):
            return self.batches.table
        return pa.Table.from_batches(self.batches, schema=self.schema)

    def feed(self, write: Callable[[pa.RecordBatchReader], T]) -> T:
        """Let `write` consume the batches. What the producer of the data raises comes out as it is."""
        failure: list[BaseException] = []

        def guarded() -> Iterator[pa.RecordBatch]:
            try:
                for batch in self.batches:
                    if batch.num_rows:
                        yield batch
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
class _Kept:
    """The batches of a table, made when they are asked for: often the table itself is."""

    table: pa.Table

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self.table.to_batches())


def source(data: Any, schema: pa.Schema | None = None, *, table: str = "") -> Source:
    """Read `data` as Arrow. `schema` only helps where Python objects carry no types (lists of dicts)."""
    import pyarrow as pa

    try:
        return _read(data, schema, table)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise SchemaMismatch(
            f"The data{_for(table)} cannot be read as columns: {str(error).splitlines()[0]}.",
            next="Give every column one type and one name.",
            table=table,
        ) from None


def _read(data: Any, schema: pa.Schema | None, table: str) -> Source:
    import pyarrow as pa

    if isinstance(data, pa.Table):
        return _from_table(data)
    if isinstance(data, pa.RecordBatch):
        return _from_table(pa.Table.from_batches([data]))
    if isinstance(data, pa.RecordBatchReader):
        return plain(Source(data.schema, data, whole=False))
    if isinstance(data, str | bytes):
        raise _unreadable(data)
    if isinstance(data, Mapping):
        return _from_columns(dict(data), schema, table)
    if _is_frame(data, "pandas"):
        # A named index is data; the numbers that pandas gives to rows are not.
        data = data.reset_index() if any(name is not None for name in data.index.names) else data
        return _from_table(pa.Table.from_pandas(data, preserve_index=False).replace_schema_metadata(None))
    if hasattr(data, "__arrow_c_stream__"):
        return _from_stream(data)
    if hasattr(data, "__arrow_c_array__"):
        return _from_table(pa.Table.from_batches([pa.record_batch(data)]))
    if isinstance(data, list | tuple) and all(isinstance(row, Mapping) for row in data):
        names = dict.fromkeys(itertools.chain.from_iterable(data))
        if data and not names:
            raise SchemaMismatch(
                f"The {len(data)} rows{_for(table)} have no columns at all.", next="Name at least one.", table=table
            )
        return _from_columns({n: [row.get(n) for row in data] for n in names}, schema, table)
    if hasattr(data, "__iter__"):
        return _from_iterator(iter(data), schema, table)
    raise _unreadable(data)


def fitting(data: Any, schema: pa.Schema) -> Source | None:
    """What `source` and `fit` would make of rows that have the schema already: the usual case, and a quick one."""
    import pyarrow as pa

    return _whole(data) if isinstance(data, pa.Table) and _is_same(data.schema, schema) else None


def _is_same(have: pa.Schema, want: pa.Schema) -> bool:
    """Whether two schemas are equal, also in how they call the values of lists: Arrow overlooks that, tables do not."""
    return have.equals(want) and all(map(_is_same_type, have.types, want.types))


def _is_same_type(have: pa.DataType, want: pa.DataType) -> bool:
    return have == want and (not have.num_fields or str(have) == str(want))


def fit(data: Source, schema: pa.Schema, *, table: str, missing: Missing = "error", only: bool = False) -> Source:
    """The same rows in the table's column order and types, or `SchemaMismatch`.

    With `only` the data may lack columns of the table and keeps its own subset.
    """
    import pyarrow as pa

    if _is_same(data.schema, schema):
        return data
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
            next=f"Its columns are {_names(schema.names)}; drop the extra ones or add them with add_columns"
            " (`quire table add-column`).",
            table=table,
            unexpected=extra,
        )
    required = [n for n in absent if not schema.field(n).nullable]
    if not only and (required or (absent and missing == "error")):
        lacking = required if missing == "null" else absent
        raise SchemaMismatch(
            f"The data for table {table!r} lacks column {_names(lacking)}.",
            next="Supply it" + ("." if required else ', or pass missing="null" (`--fill-missing`) to fill in nulls.'),
            table=table,
            missing=lacking,
        )
    target = pa.schema([f for f in schema if not only or f.name in have])
    for field in target:
        fits = field.name not in have or _castable(data.schema.field(field.name).type, field.type)
        if not fits and not _all_null(data, field.name):
            raise _wrong_type(table, field, data.schema.field(field.name).type)
    if _is_same(data.schema, target):
        return data
    convert = _Fitter(target, table)
    batches: Iterable[pa.RecordBatch] = (
        [convert(b) for b in data.batches] if data.whole else (convert(b) for b in data.batches)
    )
    return Source(target, batches, data.whole)


def _all_null(data: Source, name: str) -> bool:
    """Whether a column in memory has no value at all: then it has no type either, whatever pandas called it."""
    return data.whole and all(b.column(name).null_count == b.num_rows for b in data.batches)


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
            if column.null_count == len(column):
                column = pa.nulls(len(column), field.type)
            if not _is_same_type(column.type, field.type):
                try:
                    column = column.cast(field.type)
                except pa.ArrowException as error:
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
    families = (_is_text, _is_binary, t.is_timestamp, t.is_date, t.is_time, t.is_duration, t.is_boolean)
    return any(family(have) and family(want) for family in families)


def _from_table(table: pa.Table) -> Source:
    return plain(_whole(table))


def _whole(table: pa.Table) -> Source:
    if table.num_columns and table.column(0).num_chunks > 1:
        table = table.combine_chunks()
    return Source(table.schema, _Kept(table), whole=True)


def _from_stream(data: Any) -> Source:
    import pyarrow as pa

    try:
        reader = pa.RecordBatchReader.from_stream(data)
    except pa.ArrowException:
        raise _unreadable(data) from None
    # A polars frame is in memory; a reader or a DuckDB relation may be larger than it.
    if _is_frame(data, "polars"):
        return _from_table(reader.read_all())
    return plain(Source(reader.schema, reader, whole=False))


def plain(data: Source) -> Source:
    """Without encodings that tables do not store: views, dictionaries, run lengths, narrow decimals."""
    import pyarrow as pa

    if all(_is_plain(kind) for kind in data.schema.types):
        return data
    target = plain_schema(data.schema)

    def convert(batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [_plain_array(c, f.type) for c, f in zip(batch.columns, target, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=target)

    if data.whole:
        return Source(target, [convert(b) for b in data.batches], True)
    return Source(target, (convert(b) for b in data.batches), False)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([pa.field(f.name, _plain_type(f.type), f.nullable, f.metadata) for f in schema])


def _is_plain(kind: pa.DataType) -> bool:
    simple, lists = _plain_ids()
    if kind.id in lists:
        return _is_plain(kind.value_type)
    return kind.id in simple or _plain_type(kind) == kind


@cache
def _plain_ids() -> tuple[frozenset[int], frozenset[int]]:
    """Types that are stored as they are, which most columns have; and lists, which are if their values are."""
    import pyarrow as pa

    kinds = (pa.int8, pa.int16, pa.int32, pa.int64, pa.uint8, pa.uint16, pa.uint32, pa.uint64, pa.float16, pa.float32)
    more = (pa.float64, pa.bool_, pa.string, pa.large_string, pa.binary, pa.large_binary, pa.date32, pa.date64)
    lists = (pa.list_(pa.int8()), pa.list_(pa.int8(), 1), pa.large_list(pa.int8()))
    return frozenset(kind().id for kind in (*kinds, *more)), frozenset(kind.id for kind in lists)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa
    import pyarrow.types as t

    if t.is_string_view(kind):
        return pa.string()
    if t.is_binary_view(kind):
        return pa.binary()
    if t.is_dictionary(kind) or t.is_run_end_encoded(kind):
        return _plain_type(kind.value_type)
    if t.is_decimal(kind) and kind.bit_width < 128:
        return pa.decimal128(kind.precision, kind.scale)
    if t.is_list_view(kind) or t.is_list(kind):
        return pa.list_(_plain_field(kind.value_field))
    if t.is_large_list_view(kind) or t.is_large_list(kind):
        return pa.large_list(_plain_field(kind.value_field))
    if t.is_fixed_size_list(kind):
        return pa.list_(_plain_field(kind.value_field), kind.list_size)
    if t.is_struct(kind):
        return pa.struct([_plain_field(f) for f in kind])
    return kind


def _plain_field(field: pa.Field) -> pa.Field:
    return field.with_type(_plain_type(field.type))


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


def _plain_array(array: pa.Array, target: pa.DataType) -> pa.Array:
    import pyarrow as pa

    if array.type == target:
        return array
    if pa.types.is_dictionary(array.type):
        values = _plain_array(array.dictionary, target)
        return pa.DictionaryArray.from_arrays(array.indices, values).dictionary_decode()
    views = pa.types.is_list_view(array.type) or pa.types.is_large_list_view(array.type)
    try:
        # pyarrow's cast from a list view may give an array that is not valid.
        return array.cast(target) if not views else pa.array(array.to_pylist(), target)
    except pa.ArrowException:  # no kernel for this nesting: rare, so values are good enough
        return pa.array(array.to_pylist(), target)


def scalar(value: Any, field: pa.Field, table: str) -> pa.Scalar:
    """One Python value as a column's type, or `SchemaMismatch`."""
    import pyarrow as pa

    column = _from_columns({field.name: [value]}, pa.schema([field]), table)
    whole = fit(column, pa.schema([field]), table=table).table()
    return whole.column(0)[0]


def _from_columns(columns: Mapping[str, Any], schema: pa.Schema | None, table: str) -> Source:
    """Columns of Python values, each built alone, so that a wrong value is blamed on its column."""
    if not columns:
        if schema is None:
            raise _empty()
        return Source(schema, [], whole=True)
    import pyarrow as pa

    arrays = {}
    for name, values in columns.items():
        if not isinstance(name, str):
            raise SchemaMismatch(f"Column name {name!r}{_for(table)} is not text.", next="Use text for names.")
        known = schema is not None and schema.get_field_index(name) >= 0
        arrays[name] = _column(name, values, schema.field(name).type if known and schema is not None else None, table)
    return _from_table(pa.table(arrays))


def _column(name: str, values: Any, hint: pa.DataType | None, table: str) -> Any:
    import pyarrow as pa

    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if hasattr(values, "__array__") and not isinstance(values, list):
        hint = None
    if hint is not None and pa.types.is_integer(hint) and any(isinstance(v, float) for v in values):
        hint = None  # with the hint 1.5 would silently become 1; as it is, it is refused
    if hint is not None and _is_text(hint) and any(isinstance(v, bytes) for v in values):
        hint = None  # likewise bytes would become text, and text bytes
    if hint is not None and _is_binary(hint) and any(isinstance(v, str) for v in values):
        hint = None
    try:
        return pa.array(values, hint)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        wanted = f" is {hint}, but" if hint is not None else ":"
        raise SchemaMismatch(
            f"Column {name!r}{_of(table)}{wanted} the data cannot be read so ({str(error).splitlines()[0]}).",
            next="Give the column values of one type.",
            table=table,
            column=name,
            expected=str(hint) if hint is not None else None,
        ) from None


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow.types as t

    return bool(t.is_string(kind) or t.is_large_string(kind) or t.is_string_view(kind))


def _is_binary(kind: pa.DataType) -> bool:
    import pyarrow.types as t

    return bool(t.is_binary(kind) or t.is_large_binary(kind) or t.is_binary_view(kind) or t.is_fixed_size_binary(kind))


def _from_iterator(items: Iterator[Any], schema: pa.Schema | None, table: str) -> Source:
    head: Source | None = None
    for item in items:
        if isinstance(item, list | tuple | Mapping) and not item:
            continue
        head = _chunk(item, schema, table)
        break
    if head is None:
        if schema is None:
            raise _empty()
        return Source(schema, [], whole=True)
    first = head

    def batches() -> Iterator[pa.RecordBatch]:
        yield from first.batches
        for item in items:
            if isinstance(item, list | tuple | Mapping) and not item:
                continue
            part = _chunk(item, schema or first.schema, table)
            if not _is_same(part.schema, first.schema):
                part = fit(part, first.schema, table=table or "(the first batch)")
            yield from part.batches

    return Source(first.schema, batches(), whole=False)


def _chunk(item: Any, schema: pa.Schema | None, table: str) -> Source:
    if isinstance(item, Mapping) and not any(isinstance(v, list) or hasattr(v, "__array__") for v in item.values()):
        raise InvalidInput(
            "An iterator must yield batches, not single rows.",
            next="Pass a list of dicts, or yield Arrow batches or lists of dicts.",
        )
    return source(item, schema, table=table)


def _is_frame(data: Any, package: str) -> bool:
    return type(data).__module__.split(".")[0] == package and hasattr(data, "columns")


def _for(table: str) -> str:
    return f" for table {table!r}" if table else ""


def _of(table: str) -> str:
    return f" of table {table!r}" if table else ""


def _empty() -> InvalidInput:
    return InvalidInput(
        "There are no rows, so the columns are unknown.", next="Pass a schema, or an empty Arrow table with one."
    )


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
