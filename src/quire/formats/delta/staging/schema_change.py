"""Schema changes. A column that is added empty changes the log alone; others write the rows anew.

Delta finds columns by their names: without a mapping of columns, which many clients do not read, a column that is
dropped and added again under its name would show its old values. So files are written without it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from quire.conversion.plain_types import plain_schema
from quire.conversion.source import Source
from quire.errors import InvalidInput, InvalidName, SchemaMismatch
from quire.filters import Computing, read
from quire.formats.delta.files.parquet import check_partition
from quire.formats.delta.files.schema import check_name, has_ntz, require, schema_text
from quire.formats.delta.log.state import Metadata, Protocol, State
from quire.formats.delta.staging.draft import Draft

if TYPE_CHECKING:
    import pyarrow as pa

NTZ = "timestampNtz"


def with_features(protocol: Protocol, metadata: Metadata) -> Protocol:
    """The protocol with what the types of the columns need."""
    if not has_ntz(metadata.schema_string) or NTZ in (protocol.reader_features or ()):
        return protocol
    return Protocol(3, 7, (*(protocol.reader_features or ()), NTZ), (*(protocol.writer_features or ()), NTZ))


def add(draft: Draft, spec: Any) -> State:
    """Add columns: a field or schema (filled with nulls), or names with SQL expressions over the other columns."""
    import pyarrow as pa

    table, state = draft.table, draft.settled()
    if isinstance(spec, pa.Field):
        spec = pa.schema([spec])
    exprs: dict[str, Any]
    if isinstance(spec, pa.Schema):
        typed, exprs = plain_schema(spec), {}
        for field in typed:
            if not field.nullable:
                raise SchemaMismatch(
                    f"A new column {field.name!r} without an expression must be nullable: the rows that exist have no"
                    " value.",
                    next="Make it nullable, or give an expression.",
                    column=field.name,
                )
    elif isinstance(spec, Mapping) and spec:
        exprs = {n: v for n, v in spec.items() if not isinstance(v, pa.DataType)}
        typed = pa.schema([pa.field(n, v) for n, v in spec.items() if isinstance(v, pa.DataType)])
    else:
        raise InvalidInput(
            "add_columns takes a field, a schema, or a mapping of names to types, Arrow scalars or SQL expressions.",
            next='For example add_columns({"length": "character_length(text)"}).',
        )
    for name in (*exprs, *typed.names):
        check_name(name, table)
        _free(state, name, table)
    if not exprs:
        return _with_schema(state, pa.schema([*state.schema, *typed]), table)
    said = {
        n: read(str(e), state.schema, part=f"expression for column {n!r}", table=table)
        for n, e in exprs.items()
        if not isinstance(e, pa.Scalar)
    }
    kinds = {n: e.type if isinstance(e, pa.Scalar) else said[n].type for n, e in exprs.items()}
    schema = plain_schema(pa.schema([*state.schema, *(pa.field(n, k) for n, k in kinds.items()), *typed]))

    def grown(batch: pa.RecordBatch, computing: Computing) -> list[pa.Array]:
        from quire.formats.delta.staging.run import given

        made = []
        for name, e in exprs.items():
            if isinstance(e, pa.Scalar):
                made.append(pa.repeat(e, batch.num_rows))
            else:
                made.append(computing.value(said[name], given(said[name], batch)))
        nulls = [pa.nulls(batch.num_rows, f.type) for f in typed]
        return [*batch.columns, *made, *nulls]

    return _rewritten(draft, state, schema, grown)


def _free(state: State, name: str, table: str) -> None:
    if name.lower() in (n.lower() for n in state.schema.names):
        raise InvalidName(f"Table {table!r} already has a column {name!r}.", next="Choose another name.", table=table)


def _with_schema(state: State, schema: pa.Schema, table: str) -> State:
    """The state with other columns; those that were there keep all that their fields say."""
    told = json.loads(schema_text(schema, table))
    known = {f["name"]: f for f in json.loads(state.metadata.schema_string)["fields"]}
    told["fields"] = [_kept(f, known) for f in told["fields"]]
    text = json.dumps(told, separators=(",", ":"))
    metadata = msgspec.structs.replace(state.metadata, schema_string=text)
    return state.change(metadata=metadata, protocol=with_features(state.protocol, metadata))


def _kept(field: dict[str, Any], known: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    before = known.get(field["name"])
    if before is None or before["type"] != field["type"]:
        return field
    return {
        **before,
        "nullable": field["nullable"],
        "metadata": {**(before.get("metadata") or {}), **field["metadata"]},
    }


def _rewritten(draft: Draft, state: State, schema: pa.Schema, columns: Any) -> State:
    """The state with all its rows written anew."""
    import pyarrow as pa

    check_partition(state.partition, schema, draft.table)
    after = _with_schema(state, schema, draft.table)

    def batches(computing: Computing) -> Any:
        for _, _, batch in draft.folder.rows(state, state.schema.names):
            made = columns(batch, computing)
            arrays = [c if c.type == f.type else c.cast(f.type) for c, f in zip(made, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    with Computing() as computing:
        files = draft.write(Source(schema, batches(computing), whole=False), after)
    return after.change(files=tuple(files))


def drop(draft: Draft, names: Sequence[str]) -> State:
    import pyarrow as pa

    state, table = draft.settled(), draft.table
    require(state.schema, names, table)
    if len(set(names)) >= len(state.schema.names):
        raise InvalidInput(f"Table {table!r} would have no column left.", next="Drop the table instead.", table=table)
    _check_not_partition(state, names, table)
    left = [n for n in state.schema.names if n not in names]
    schema = pa.schema([state.schema.field(n) for n in left])
    return _rewritten(draft, state, schema, lambda batch, _: [batch.column(n) for n in left])


def rename(draft: Draft, old: str, new: str) -> State:
    import pyarrow as pa

    state, table = draft.settled(), draft.table
    require(state.schema, [old], table)
    check_name(new, table)
    _free(state, new, table)
    _check_not_partition(state, [old], table)
    schema = pa.schema([f.with_name(new) if f.name == old else f for f in state.schema])
    return _rewritten(draft, state, schema, lambda batch, _: batch.columns)


def _check_not_partition(state: State, names: Sequence[str], table: str) -> None:
    for name in names:
        if name in state.partition:
            raise InvalidInput(
                f"Column {name!r} partitions table {table!r} and cannot be dropped, renamed or retyped.",
                next="Create a new table with the partition that you want.",
                table=table,
                column=name,
            )


def set_nullable(draft: Draft, state: State, name: str, nullable: bool) -> State:
    import pyarrow as pa

    if not nullable:
        for _, _, batch in draft.folder.rows(state, [name]):
            if batch.column(0).null_count:
                raise SchemaMismatch(
                    f"Column {name!r} of table {draft.table!r} has nulls.",
                    next="Fill them first.",
                    table=draft.table,
                    column=name,
                )
    fields = [f.with_nullable(nullable) if f.name == name else f for f in state.schema]
    return _with_schema(state, pa.schema(fields), draft.table)


def retype(draft: Draft, state: State, name: str, kind: pa.DataType) -> State:
    """Change a column's type: its values are cast. It moves to the end."""
    import pyarrow as pa

    old = state.schema.field(name)
    if old.type == kind:
        return state
    _check_not_partition(state, [name], draft.table)
    others = [f for f in state.schema if f.name != name]
    schema = pa.schema([*others, pa.field(name, kind, old.nullable)])

    def cast(batch: pa.RecordBatch, _: Computing) -> list[pa.Array]:
        try:
            return [*(batch.column(f.name) for f in others), batch.column(name).cast(kind)]
        except pa.ArrowException as error:
            raise SchemaMismatch(
                f"Column {name!r} of table {draft.table!r} cannot be converted to {kind}:"
                f" {str(error).splitlines()[0]}.",
                next="Fix the values that do not fit with update, then try again.",
                table=draft.table,
                column=name,
                expected=str(kind),
            ) from None

    return _rewritten(draft, state, schema, cast)
