"""Running a prepared read: DuckDB joins the scans, and its columns become the outputs of the query."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from quire import duckdb_engines
from quire.errors import InvalidQuery, QuireError, StorageError
from quire.graph.language import plan
from quire.graph.query.direct import joined
from quire.graph.query.prepare import Prepared
from quire.graph.query.sql.duckdb import CompiledSql
from quire.graph.query.sql.duckdb import whole as properties_of
from quire.lake.read.sql_limits import Watch
from quire.lake.read.table import Rows

if TYPE_CHECKING:
    import pyarrow as pa

BATCH = 100_000
ENGINE = duckdb_engines.Engine(
    ("TimeZone = 'UTC'", "preserve_insertion_order = false", "python_enable_replacements = false")
)
_COMPUTED = r"(?:(?:Out of Range|Conversion) Error: |Invalid Input Error: (?=.*(?:zero|overflow|outside)))(.*)"
"""What DuckDB says of a value that cannot be computed. Other inputs that it calls invalid are faults of the SQL."""


def execute(prepared: Prepared, watch: Watch | None = None) -> Rows:
    """Run it. Rows stream; columns have the declared types. `watch` is one that began before."""
    import duckdb
    import pyarrow as pa

    schema = schema_of(prepared.read.outputs)
    watch = watch or Watch()
    found = joined(prepared)
    if found is not None:
        batch = _batch(found, schema)
        watch.count(batch.num_rows)
        return Rows(pa.RecordBatchReader.from_batches(schema, [batch]))
    statement = prepared.statement()
    kept = prepared.kept(statement.text)
    if kept:
        statement = prepared.statement()  # what the scans would filter is left to the SQL now
    # A query with limits has an engine of its own: those that others share have none.
    connection = duckdb_engines.connect(ENGINE) if not watch.settings else ENGINE.started(watch.settings)
    try:
        for name, source in prepared.sources.items():
            if name in prepared.layout.implied:
                continue
            relation = kept[name] if name in kept else source.relation(prepared.snapshot)
            connection.register(source.place.relation, relation)

        def begun() -> Any:
            relation = connection.sql(statement.text, params=prepared.values.bound or None)
            return relation.to_arrow_reader(BATCH)

        reader = watch.reader(watch.work(connection, begun), connection)
        return Rows(pa.RecordBatchReader.from_batches(schema, shaped(reader, statement, schema)), keep=connection)
    except duckdb.Error as error:
        connection.close()
        raise _failed(error) from None
    except BaseException:
        connection.close()
        raise


def output_schema(statement: CompiledSql) -> pa.Schema:
    """The columns of the answer of a statement."""
    return schema_of([column.output for column in statement.columns])


def schema_of(outputs: Sequence[plan.Projected]) -> pa.Schema:
    """The columns of the answer."""
    import pyarrow as pa

    fields = []
    for output in outputs:
        if isinstance(output.expression, plan.Whole):
            fields.append(pa.field(output.name, _struct(output.expression)))
        else:
            assert output.type is not None
            fields.append(pa.field(output.name, output.type.arrow()))
    return pa.schema(fields)


def _struct(term: plan.Whole) -> pa.DataType:
    import pyarrow as pa

    shown = term.entity.shown
    ids = [pa.field(shown[name], pa.string()) for name in term.entity.returned]
    return pa.struct([*ids, *(pa.field(p.name, p.type.arrow()) for p in properties_of(term.entity))])


def shaped(reader: Any, statement: CompiledSql, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """DuckDB's columns as the outputs they are."""
    import pyarrow as pa

    try:
        for batch in reader:
            arrays, at = [], 0
            for column, field in zip(statement.columns, schema, strict=True):
                parts = batch.columns[at : at + len(column.names)]
                at += len(column.names)
                arrays.append(_output(parts, field.type, whole=isinstance(column.output.expression, plan.Whole)))
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
    except QuireError:
        raise
    except Exception as error:
        raise _failed(error) from None


def _batch(columns: Sequence[tuple[bool, list[Any]]], schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    arrays = [_output(parts, field.type, whole=whole) for (whole, parts), field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _output(parts: list[Any], kind: pa.DataType, *, whole: bool) -> Any:
    import pyarrow as pa

    if not whole:
        return _cast(parts[0], kind)
    returned = parts[len(parts) - kind.num_fields :]  # the first, by which entities are told apart, need not be
    values = [_cast(part, field.type) for part, field in zip(returned, kind, strict=True)]
    return pa.StructArray.from_arrays(values, fields=list(kind), mask=parts[0].is_null())


def _cast(values: Any, kind: pa.DataType) -> Any:
    import pyarrow as pa

    if values.type == kind:
        return values
    if values.null_count == len(values):  # Arrow crashes on such lists that came over a wire and are to be vectors
        return pa.nulls(len(values), kind)
    return values.cast(kind)


def _failed(error: Exception) -> QuireError:
    """What went wrong: a number that does not fit, or the store."""
    text = re.split(r"\n\s*LINE ", str(error), maxsplit=1)[0].strip().splitlines()
    found = re.search(_COMPUTED, text[0] if text else "")
    if found is None and not isinstance(error, OSError):
        return InvalidQuery(
            f"The query failed: {text[0] if text else type(error).__name__}.",
            next="This is a bug in Quire; report it with the query.",
        )
    if found is None:
        return StorageError(f"Reading failed before the end: {text[0] if text else error}.", next="Try again.")
    reason = found[1].split(". Use TRY")[0].rstrip(".!")
    large = re.search(r"with value (\S+) can't be cast", reason)
    if large is not None:
        reason = f"the whole number {large[1]} is out of range for I64"
    return InvalidQuery(
        f"The query cannot compute a value: {reason}.",
        next="Filter out the rows that cause it, or use a float.",
        reason=reason,
    )
