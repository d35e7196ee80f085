"""Schema changes, staged.

Each takes a pinned handle and returns a staged one with the column changed by field id, never by name alone.

Lance has no uncommitted form of dropping or renaming a column. The verb is therefore run on a scratch copy of the
pinned manifest in a temporary folder; the operation it produces carries the right field ids and is then staged on the
pin. (A schema built by hand would renumber the fields, and another column's data would appear under the name.)
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quire.errors import (
    ColumnNotFound,
    InvalidExpression,
    InvalidInput,
    InvalidName,
    QuireError,
    SchemaMismatch,
    Unsupported,
)
from quire.formats.arrow import plain_schema
from quire.formats.lance import match
from quire.formats.lance.metering import metered, reading, scanned, sending
from quire.formats.lance.net import Stager, written
from quire.formats.lance.session import DETACHED, first_line
from quire.store import Store, run_parallel

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset

RESERVED = frozenset(
    {
        "_rowid",
        "_rowaddr",
        "_rowoffset",
        "_row_created_at_version",
        "_row_last_updated_at_version",
        "_distance",
        "_score",
    }
)


def blobs(name: str) -> pa.Field:
    """A column of blobs, in the type that Lance has for them."""
    from lance import blob_field

    return blob_field(name)


def check_schema(schema: pa.Schema, table: str) -> None:
    """Refuse columns that Lance would shadow, that cannot be quoted, or that have no type."""
    import pyarrow as pa

    if not schema.names:
        raise SchemaMismatch(f"Table {table!r} needs at least one column.", next="Pass a schema or data.", table=table)
    seen = set()
    for field in schema:
        check_name(field.name, table)
        if field.name in seen:
            raise SchemaMismatch(
                f"Table {table!r} has two columns named {field.name!r}.", next="Rename one.", table=table
            )
        seen.add(field.name)
        if pa.types.is_null(field.type):
            raise SchemaMismatch(
                f"Column {field.name!r} of table {table!r} has no type: all its values are null.",
                next="Pass a schema with a type for it.",
                table=table,
                column=field.name,
            )
        if not _storable(field.type):
            raise SchemaMismatch(
                f"Column {field.name!r} of table {table!r} is {field.type}, which Lance tables cannot hold.",
                next="Convert it to another type first.",
                table=table,
                column=field.name,
                actual=str(field.type),
            )


def _storable(kind: pa.DataType) -> bool:
    import pyarrow.types as t

    if t.is_interval(kind) or t.is_union(kind):
        return False
    return all(_storable(kind.field(i).type) for i in range(kind.num_fields)) if t.is_nested(kind) else True


def check_name(name: str, table: str) -> None:
    if not name or name in RESERVED or "`" in name or "." in name or any(ord(c) < 32 for c in name):
        reason = (
            "is one of Lance's own"
            if name in RESERVED
            else "is empty or holds a dot, a backtick or a control character"
        )
        raise InvalidName(
            f"Column name {name!r} of table {table!r} {reason}.", next="Choose another name.", table=table, column=name
        )


def require(handle: LanceDataset, names: Sequence[str], table: str) -> None:
    for name in names:
        if handle.schema.get_field_index(name) < 0:
            raise ColumnNotFound(
                f"Table {table!r} has no column {name!r}.",
                next=f"Its columns are {', '.join(handle.schema.names)}.",
                table=table,
                column=name,
            )


def add(stager: Stager, handle: LanceDataset, columns: Any, table: str) -> LanceDataset:
    """Add columns: a field or schema (filled with nulls), or names with SQL expressions over the other columns."""
    import pyarrow as pa

    if isinstance(columns, pa.Field):
        columns = pa.schema([columns])
    if isinstance(columns, pa.Schema):
        columns = plain_schema(columns)
        exprs: dict[str, str | None] = dict.fromkeys(_nullable(columns).names)
    elif isinstance(columns, Mapping) and columns:
        exprs = {n: None if isinstance(v, pa.DataType) else str(v) for n, v in columns.items()}
        columns = pa.schema([pa.field(n, v) for n, v in columns.items() if isinstance(v, pa.DataType)])
    else:
        raise InvalidInput(
            "add_columns takes a field, a schema, or a mapping of names to types or SQL expressions.",
            next='For example add_columns({"length": "character_length(text)"}).',
        )
    for name in exprs:
        check_name(name, table)
        if handle.schema.get_field_index(name) >= 0:
            raise InvalidName(
                f"Table {table!r} already has a column {name!r}.", next="Choose another name.", table=table
            )
    return _merge(stager, handle, exprs, columns)


def _nullable(schema: pa.Schema) -> pa.Schema:
    for field in schema:
        if field.nullable:
            continue
        raise SchemaMismatch(
            f"A new column {field.name!r} without an expression must be nullable: the rows that exist have no value.",
            next="Make it nullable, or give an expression.",
            column=field.name,
        )
    return schema


def _merge(stager: Stager, handle: LanceDataset, exprs: Mapping[str, str | None], typed: pa.Schema) -> LanceDataset:
    from lance import LanceOperation as Op

    fragments = handle.get_fragments()
    if not fragments:
        return _merge_empty(stager, handle, exprs, typed)
    sql = {n: e for n, e in exprs.items() if e is not None}
    nulls = [typed.field(n) for n, e in exprs.items() if e is None]

    def values(batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa

        return pa.RecordBatch.from_arrays([pa.nulls(batch.num_rows, f.type) for f in nulls], schema=pa.schema(nulls))

    def widen(fragment: Any) -> tuple[Any, Any]:
        return _widened(handle, fragment, sql) if sql else _widened(handle, fragment, values, columns=_one(handle))

    with match.checking_expression(*sql.values()):
        done = run_parallel([partial(widen, f) for f in fragments])
    stager.files.extend(written([metadata for metadata, _ in done], handle.schema))
    grown = stager.detach(handle, Op.Merge([metadata for metadata, _ in done], done[0][1]))
    return _merge(stager, grown, {f.name: None for f in nulls}, typed) if sql and nulls else grown


def _widened(handle: LanceDataset, fragment: Any, value: Any, **options: Any) -> tuple[Any, Any]:
    """A fragment with a data file more: its metadata and the schema."""
    with metered("merge", handle.uri, steps=2) as window:
        window.in_turn = False
        metadata, schema = fragment.merge_columns(value, **options)
        new = metadata.files[len(fragment.metadata.files) :]
        window.steps = reading(handle, [fragment], opened_first=callable(value)) + sending(new)[0]
    return metadata, schema


def _one(handle: LanceDataset) -> list[str]:
    """The cheapest column to read while only the number of rows matters."""
    import pyarrow as pa

    fixed = [f.name for f in handle.schema if pa.types.is_primitive(f.type)]
    return (fixed or handle.schema.names)[:1]


def _merge_empty(
    stager: Stager, handle: LanceDataset, exprs: Mapping[str, str | None], typed: pa.Schema
) -> LanceDataset:
    """A table without rows has no fragment to widen: the verb runs on the scratch copy, which writes no data then."""
    import pyarrow as pa

    sql = {n: e for n, e in exprs.items() if e is not None}
    nulls = pa.schema([typed.field(n) for n, e in exprs.items() if e is None])

    def verb(scratch: LanceDataset) -> None:
        if sql:
            scratch.add_columns(sql)
        if nulls.names:
            scratch.add_columns(nulls)

    if sql and nulls.names:
        handle = on_scratch(stager, handle, lambda s: s.add_columns(sql))
        return on_scratch(stager, handle, lambda s: s.add_columns(nulls))
    return on_scratch(stager, handle, verb)


def drop(stager: Stager, handle: LanceDataset, names: Sequence[str], table: str) -> LanceDataset:
    require(handle, names, table)
    if len(set(names)) >= len(handle.schema.names):
        raise InvalidInput(f"Table {table!r} would have no column left.", next="Drop the table instead.", table=table)
    return on_scratch(stager, handle, lambda scratch: scratch.drop_columns(list(names)))


def rename(stager: Stager, handle: LanceDataset, old: str, new: str, table: str) -> LanceDataset:
    require(handle, [old], table)
    check_name(new, table)
    if handle.schema.get_field_index(new) >= 0:
        raise InvalidName(f"Table {table!r} already has a column {new!r}.", next="Choose another name.", table=table)
    return on_scratch(stager, handle, lambda scratch: scratch.alter_columns(_alteration(path=old, name=new)))


def set_nullable(stager: Stager, handle: LanceDataset, name: str, nullable: bool, table: str) -> LanceDataset:
    require(handle, [name], table)
    if not nullable and _has_nulls(handle, name):
        raise SchemaMismatch(
            f"Column {name!r} of table {table!r} has nulls.", next="Fill them first.", table=table, column=name
        )
    change = _alteration(path=name, nullable=nullable)
    return on_scratch(stager, handle, lambda scratch: scratch.alter_columns(change), empty=True)


def _has_nulls(handle: LanceDataset, name: str) -> bool:
    with scanned("scan", handle):
        return bool(handle.count_rows(f"{match.quoted(name)} is null"))


def retype(stager: Stager, handle: LanceDataset, name: str, kind: pa.DataType, table: str) -> LanceDataset:
    """Change a column's type: its values are cast into a new column, which then takes the name. It moves to the end."""
    require(handle, [name], table)
    field = handle.schema.field(name)
    if field.type == kind:
        return handle
    temporary = f"{name}__{kind.id}"
    grown = _cast_into(stager, handle, name, temporary, kind, table)
    return rename(stager, drop(stager, grown, [name], table), temporary, name, table)


def _cast_into(
    stager: Stager, handle: LanceDataset, name: str, temporary: str, kind: pa.DataType, table: str
) -> LanceDataset:
    import pyarrow as pa
    from lance import LanceOperation as Op

    field = pa.field(temporary, kind, handle.schema.field(name).nullable)
    fragments = handle.get_fragments()
    if not fragments:
        return on_scratch(stager, handle, lambda s: s.add_columns(pa.schema([field.with_nullable(True)])))

    def cast(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([batch.column(0).cast(kind)], schema=pa.schema([field]))

    try:
        done = run_parallel([partial(_widened, handle, f, cast, columns=[name]) for f in fragments])
    except QuireError:
        raise
    except Exception as error:
        raise SchemaMismatch(
            f"Column {name!r} of table {table!r} cannot be converted to {kind}: {first_line(error)}.",
            next="Fix the values that do not fit with update, then try again.",
            table=table,
            column=name,
            expected=str(kind),
        ) from None
    stager.files.extend(written([metadata for metadata, _ in done], handle.schema))
    return stager.detach(handle, Op.Merge([metadata for metadata, _ in done], done[0][1]))


def on_scratch(
    stager: Stager, handle: LanceDataset, verb: Callable[[LanceDataset], None], *, empty: bool = False
) -> LanceDataset:
    """Run a metadata verb on a scratch copy of the manifest and stage the operation it made on the handle.

    With `empty` the copy names no data: for a verb that would look at rows, which are not there.
    """
    import lance
    import pyarrow as pa
    from lance import LanceDataset
    from lance import LanceOperation as Op

    folder = Path(tempfile.mkdtemp(prefix="quire-"))
    try:
        place = str(folder / "scratch")
        lance.write_dataset(pa.table({"seed": pa.array([], pa.int64())}), place)
        version = handle.version
        name = manifest_name(version)
        body = _read_manifest(stager, handle, name)
        copied = version if version & DETACHED else version | DETACHED
        (folder / "scratch" / "_versions" / f"d{copied}.manifest").write_bytes(body)
        LanceDataset.commit(place, Op.Restore(copied))
        scratch = lance.dataset(place)
        if empty:
            every = [f.fragment_id for f in scratch.get_fragments()]
            scratch = LanceDataset.commit(place, Op.Delete([], every, "true"), read_version=scratch.version)
        try:
            verb(scratch)
        except (ValueError, OSError) as error:
            raise InvalidExpression(
                f"Lance refuses this schema change: {first_line(error)}.", next="Check the column and the expression."
            ) from None
        changed: Any = lance.dataset(place)
        operation = changed.read_transaction(changed.version).operation
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return stager.detach(handle, operation)


def _alteration(**parts: Any) -> Any:
    return parts


def manifest_name(version: int) -> str:
    """The file of a version.

    Staged ones are named by it, linear ones by its complement, so that the newest sorts first.
    """
    return f"d{version}.manifest" if version & DETACHED else f"{2**64 - 1 - version:020d}.manifest"


def _read_manifest(stager: Stager, handle: LanceDataset, name: str) -> bytes:
    session = stager.session
    if session.store.scheme == "memory":
        raise Unsupported(
            "This schema change needs the table's manifest as a file, which memory:// does not have.",
            next="Use a lake on disk, or add the column with an expression.",
        )
    table = Store.open(session.uri(stager.location), session.store.options)
    return table.get(f"_versions/{name}")
