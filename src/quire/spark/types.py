"""Columns on both sides: which Arrow type Spark reads as which of its own, and back.

Spark has no vectors, no unsigned numbers and no nanoseconds. Vectors become arrays, unsigned numbers the next wider
signed one, times microseconds; times of the day need Spark 4.1 or newer. A value that would change on the way is
refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from quire.errors import SchemaMismatch, Unsupported

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType, StructType


def readable(schema: pa.Schema, table: str) -> pa.Schema:
    """The same columns in Arrow types that Spark takes."""
    import pyarrow as pa

    return pa.schema([pa.field(f.name, _readable(f.type, f.name, table), f.nullable) for f in schema])


def _readable(kind: pa.DataType, column: str, table: str) -> pa.DataType:
    import pyarrow as pa
    import pyarrow.types as t

    wider = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20)}
    other = {pa.float16(): pa.float32(), pa.date64(): pa.date32()}
    if kind in wider or kind in other:
        return wider.get(kind) or other[kind]
    if t.is_large_string(kind) or t.is_string_view(kind):
        return pa.string()
    if t.is_large_binary(kind) or t.is_fixed_size_binary(kind) or t.is_binary_view(kind):
        return pa.binary()
    if t.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if t.is_duration(kind):
        return pa.duration("us")
    if t.is_dictionary(kind):
        return _readable(kind.value_type, column, table)
    if t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind):
        inner = kind.value_field
        return pa.list_(pa.field("element", _readable(inner.type, column, table), inner.nullable))
    if t.is_struct(kind):
        return pa.struct([pa.field(f.name, _readable(f.type, column, table), f.nullable) for f in kind])
    if t.is_map(kind):
        return pa.map_(_readable(kind.key_type, column, table), _readable(kind.item_type, column, table))
    if t.is_time(kind) and _has_times():
        return pa.time64("ns")
    if t.is_decimal256(kind) or t.is_time(kind) or isinstance(kind, pa.BaseExtensionType):
        raise Unsupported(
            f"Column {column!r} of table {table!r} is {kind}, for which Spark has no type.",
            next="Leave it out: name the other columns with columns=.",
            table=table,
            column=column,
        )
    return kind


def unreadable(schema: pa.Schema, table: str) -> list[str]:
    """The columns for which Spark has no type."""
    found = []
    for field in schema:
        try:
            _readable(field.type, field.name, table)
        except Unsupported:
            found.append(field.name)
    return found


def _has_times() -> bool:
    """Whether this Spark knows times of the day: from 4.1 on, to the microsecond, which it moves as nanoseconds."""
    from pyspark.sql import types as s

    return hasattr(s, "TimeType")


def converted(batches: Iterable[pa.RecordBatch], target: pa.Schema, table: str) -> Iterator[pa.RecordBatch]:
    """Batches with the types of `target`, which is what `readable` said."""
    import pyarrow as pa

    for batch in batches:
        columns = []
        for field in target:
            column = batch.column(batch.schema.get_field_index(field.name))
            try:
                columns.append(_cast(column, field.type))
            except pa.ArrowException as error:
                raise SchemaMismatch(
                    f"Column {field.name!r} of table {table!r} has a value that Spark cannot hold as {field.type}:"
                    f" {str(error).splitlines()[0]}.",
                    next="Leave the column out, or read the table in this process.",
                    table=table,
                    column=field.name,
                ) from None
        yield pa.RecordBatch.from_arrays(columns, schema=target)


def _cast(column: Any, kind: pa.DataType) -> Any:
    import pyarrow as pa

    if pa.types.is_time(kind):  # Spark would cut what is finer
        return column.cast(pa.time64("us")).cast(kind)
    return column if column.type == kind else column.cast(kind)


def spark_schema(schema: pa.Schema) -> StructType:
    """Spark's schema for columns that `readable` gave."""
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(f.name, _to_spark(f.type), f.nullable) for f in schema])


def _to_spark(kind: pa.DataType) -> DataType:
    import pyarrow.types as t
    from pyspark.sql import types as s

    simple: tuple[tuple[Any, Any], ...] = (
        (t.is_boolean, s.BooleanType),
        (t.is_int8, s.ByteType),
        (t.is_int16, s.ShortType),
        (t.is_int32, s.IntegerType),
        (t.is_int64, s.LongType),
        (t.is_float32, s.FloatType),
        (t.is_float64, s.DoubleType),
        (t.is_string, s.StringType),
        (t.is_binary, s.BinaryType),
        (t.is_date32, s.DateType),
        (t.is_duration, s.DayTimeIntervalType),
        (t.is_null, s.NullType),
    )
    for is_it, made in simple:
        if is_it(kind):
            return made()  # type: ignore[no-any-return]
    if t.is_decimal(kind):
        return s.DecimalType(kind.precision, kind.scale)
    if t.is_timestamp(kind):
        return s.TimestampType() if kind.tz else s.TimestampNTZType()
    if t.is_time(kind):
        return s.TimeType(6)
    if t.is_list(kind):
        return s.ArrayType(_to_spark(kind.value_type), kind.value_field.nullable)
    if t.is_map(kind):
        return s.MapType(_to_spark(kind.key_type), _to_spark(kind.item_type))
    assert t.is_struct(kind), kind
    return s.StructType([s.StructField(f.name, _to_spark(f.type), f.nullable) for f in kind])


def arrow_schema(schema: StructType) -> pa.Schema:
    """What a frame's columns are in a table that is made of them."""
    import pyarrow as pa

    return pa.schema([pa.field(f.name, _to_arrow(f.dataType, f.name), f.nullable) for f in schema.fields])


def _to_arrow(kind: DataType, column: str) -> pa.DataType:
    import pyarrow as pa
    from pyspark.sql import types as s

    simple: dict[str, Any] = {
        "boolean": pa.bool_(),
        "tinyint": pa.int8(),
        "smallint": pa.int16(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestamp_ntz": pa.timestamp("us"),
        "void": pa.null(),
    }
    if kind.simpleString() in simple:
        return simple[kind.simpleString()]
    if isinstance(kind, s.StringType | s.CharType | s.VarcharType):
        return pa.string()
    if isinstance(kind, s.DayTimeIntervalType):
        return pa.duration("us")
    if _has_times() and isinstance(kind, s.TimeType):
        return pa.time64("us")
    if isinstance(kind, s.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, s.ArrayType):
        return pa.list_(pa.field("element", _to_arrow(kind.elementType, column), kind.containsNull))
    if isinstance(kind, s.MapType):
        return pa.map_(_to_arrow(kind.keyType, column), _to_arrow(kind.valueType, column))
    if isinstance(kind, s.StructType):
        return pa.struct([pa.field(f.name, _to_arrow(f.dataType, column), f.nullable) for f in kind.fields])
    raise SchemaMismatch(
        f"Column {column!r} is {kind.simpleString()}, for which a table has no type.",
        next="Cast it, for example to string.",
        column=column,
    )
