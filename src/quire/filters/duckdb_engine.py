"""DuckDB as the engine of expressions: it parses them, says their types, and computes them over rows in memory.

It can reach nothing but the rows that it is given: no files, no network, no settings. Times without a zone that stand
for a moment are UTC, wherever the program runs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from quire import duckdb_engines

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

DEPTH = 200
"""An expression may nest so deep."""
ENGINE = duckdb_engines.Engine(("TimeZone = 'UTC'", f"max_expression_depth = {DEPTH}"), threads=1)

KNOWN = ("arrow.uuid", "arrow.json", "arrow.bool8")


def connect() -> duckdb.DuckDBPyConnection:
    """A connection of one's own to the one engine of this process."""
    return duckdb_engines.connect(ENGINE)


def connected() -> AbstractContextManager[duckdb.DuckDBPyConnection]:
    return duckdb_engines.connected(ENGINE)


def parsed(text: str) -> Any:
    """What DuckDB's parser makes of a statement."""
    with connected() as connection:
        [[found]] = connection.sql("select json_serialize_sql(?)", params=[text]).fetchall()
    return json.loads(found)


def written(expression: Any) -> str:
    """The text of an expression that was parsed."""
    tree = json.loads(_template())
    tree["statements"][0]["node"]["select_list"] = [expression]
    with connected() as connection:
        [[found]] = connection.sql("select json_deserialize_sql(?::json)", params=[json.dumps(tree)]).fetchall()
    text = str(found).strip()
    assert text[:7].upper() == "SELECT ", text
    return text[7:]


@lru_cache(maxsize=1)
def _template() -> str:
    return json.dumps(parsed("select null"))


def shown(kind: pa.DataType) -> pa.DataType:
    """The type as which DuckDB sees values of a type: it has no half floats and no decimals of more than 38 digits.

    Of what it has no word for at all, such as blobs, it sees only whether they are there.
    """
    import pyarrow as pa
    import pyarrow.types as t

    if is_closed(kind):
        return pa.bool_()
    if t.is_float16(kind):
        return pa.float32()
    if t.is_decimal256(kind):
        return pa.string()
    if t.is_fixed_size_list(kind):
        inner = shown(kind.value_type)
        return kind if inner == kind.value_type else pa.list_(kind.value_field.with_type(inner), kind.list_size)
    if t.is_list(kind) or t.is_large_list(kind):
        inner = shown(kind.value_type)
        made = pa.list_ if t.is_list(kind) else pa.large_list
        return kind if inner == kind.value_type else made(kind.value_field.with_type(inner))
    if t.is_struct(kind):
        fields = [f.with_type(shown(f.type)) for f in kind]
        return kind if all(f.type == g.type for f, g in zip(fields, kind, strict=True)) else pa.struct(fields)
    return kind


def as_shown(values: Any) -> Any:
    """Values in the type as which DuckDB sees them."""
    kind = shown(values.type)
    if is_closed(values.type):
        import pyarrow as pa
        import pyarrow.compute as pc

        return pc.if_else(values.is_valid(), pa.scalar(True), pa.scalar(None, pa.bool_()))
    return values if kind == values.type else values.cast(kind)


def is_text_there(kind: pa.DataType) -> bool:
    """Whether DuckDB is shown texts for values that are none, in it or within it: they compare in another order."""
    import pyarrow.types as t

    if t.is_decimal256(kind):
        return True
    return t.is_nested(kind) and any(is_text_there(kind.field(i).type) for i in range(kind.num_fields))


def is_closed(kind: pa.DataType) -> bool:
    """Whether it is an extension type that DuckDB does not know."""
    import pyarrow as pa

    return isinstance(kind, pa.BaseExtensionType) and kind.extension_name not in KNOWN


def rows(batch: pa.RecordBatch | pa.Table, columns: Sequence[str], names: Sequence[str]) -> pa.Table:
    """Some columns of a batch under other names, for DuckDB; without any, what counts the rows."""
    import pyarrow as pa

    if not columns:
        return pa.table({"__rows": pa.nulls(batch.num_rows, pa.bool_())})
    return pa.table([as_shown(batch.column(c)) for c in columns], names=list(names))


def computed(connection: duckdb.DuckDBPyConnection, given: pa.Table, outputs: Sequence[str]) -> pa.Table:
    """The values of expressions for each row, in the order of the rows."""
    connection.register("given", given)
    try:
        listed = ", ".join(f"({text}\n) as o{i}" for i, text in enumerate(outputs))
        return connection.sql(f"select {listed} from given").to_arrow_table()
    finally:
        connection.unregister("given")


def type_of(connection: duckdb.DuckDBPyConnection, kind: pa.DataType) -> str:
    """DuckDB's name of a type."""
    import pyarrow as pa

    connection.register("given", pa.table([pa.nulls(1, shown(kind))], names=["c"]))
    [[name]] = connection.sql("select typeof(c) from given").fetchall()
    connection.unregister("given")
    return str(name)


@lru_cache(maxsize=4096)
def constant(text: str, target: pa.DataType) -> tuple[Any, bool]:
    """The value of an expression without columns, cast to the type of a column, and whether it is of that type by
    itself. Raises what DuckDB says of it."""
    import pyarrow as pa

    with connected() as connection:
        kind = type_of(connection, target)
        connection.register("given", pa.table([pa.nulls(1, shown(target))], names=["c"]))
        table = connection.sql(
            f"select cast(({text}\n) as {kind}) as v, typeof({text}\n) = typeof(c) as same from given"
        ).to_arrow_table()
    return table.column(0)[0].as_py(), table.column(1)[0].as_py()
