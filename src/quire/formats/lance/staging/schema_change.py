"""Schema changes, staged.

Each takes a pinned handle and returns a staged one with the column changed by field id, never by name alone.

Lance has no uncommitted form of dropping or renaming a column. The verb is therefore run on a scratch copy of the
pinned manifest in a temporary folder; the operation it produces carries the right field ids and is then staged on the
pin. (A schema built by hand would renumber the fields, and another column's data would appear under the name.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from quire.conversion import vectors
from quire.conversion.plain_types import plain_schema
from quire.conversion.rules import Unfit, converted, verdict
from quire.errors import (
    ColumnNotFound,
    InvalidExpression,
    InvalidInput,
    InvalidName,
    NotFound,
    QuireError,
    SchemaMismatch,
    Unsupported,
)
from quire.filters import Computing, Expression, read
from quire.formats.blob_cell import is_blob
from quire.formats.lance import filter_sql, scratch
from quire.formats.lance.metering import metered, reading, scanned, sending
from quire.formats.lance.session import DETACHED, first_line, translate
from quire.formats.lance.staging.net_change import written
from quire.formats.lance.staging.stager import Stager
from quire.store import run_parallel

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


Made = Expression | Any
"""What a new column is: an expression, or an Arrow scalar for every row."""


def _with_blobs(schema: pa.Schema) -> pa.Schema:
    """Marked columns in the type that Lance has for blobs: a new table gives it to them, a new column would not."""
    import pyarrow as pa
    from lance import blob_field

    binary = (pa.types.is_binary, pa.types.is_large_binary)
    marked = {f.name for f in schema if any(is_it(f.type) for is_it in binary) and is_blob(f)}
    return pa.schema([blob_field(f.name) if f.name in marked else f for f in schema])


def check_schema(schema: pa.Schema, table: str) -> None:
    """Refuse columns that Lance would shadow, that cannot be quoted, or that have no type."""
    import pyarrow as pa

    if not schema.names:
        raise SchemaMismatch(f"Table {table!r} needs at least one column.", next="Pass a schema or data.", table=table)
    for text in (part for pair in (schema.metadata or {}).items() for part in pair):
        if not _is_utf8(text):
            raise SchemaMismatch(
                f"The metadata of the schema of table {table!r} is not UTF-8.", next="Leave it out.", table=table
            )
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
        _check_metadata(field, table)
        if not _storable(field.type):
            raise SchemaMismatch(
                f"Column {field.name!r} of table {table!r} is {field.type}, which Lance tables cannot hold.",
                next="Convert it to another type first.",
                table=table,
                column=field.name,
                actual=str(field.type),
            )


def _check_metadata(field: pa.Field, table: str) -> None:
    """Refuse words for Lance that it could not follow."""
    import pyarrow as pa

    given = field.metadata or {}
    problem = None if all(map(_is_utf8, (*given, *given.values()))) else "has metadata that is not UTF-8"
    told = {} if problem else {key.decode(): value.decode() for key, value in given.items()}
    binary = pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type) or pa.types.is_struct(field.type)
    if told.get("lance-encoding:blob") == "true" and not binary:
        problem = f"is marked as a blob and is {field.type}"
    if any(key.startswith("lance-schema:unenforced-primary-key") for key in told) and field.nullable:
        problem = "is marked as a primary key and may be null"
    if problem:
        raise SchemaMismatch(
            f"Column {field.name!r} of table {table!r} {problem}.",
            next="Correct the metadata of the field, or leave it out.",
            table=table,
            column=field.name,
        )


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _storable(kind: pa.DataType) -> bool:
    import pyarrow.types as t

    if t.is_interval(kind) or t.is_union(kind):
        return False
    if t.is_fixed_size_list(kind) and (kind.list_size < 1 or not _storable_in_vectors(kind.value_type)):
        return False
    return all(_storable(kind.field(i).type) for i in range(kind.num_fields)) if t.is_nested(kind) else True


def _storable_in_vectors(kind: pa.DataType) -> bool:
    """Whether lists of a fixed size can hold values of this type: Lance wants them of one size too."""
    import pyarrow.types as t

    if t.is_struct(kind):
        return all(_storable_in_vectors(f.type) for f in kind)
    of_any_size = ("string", "large_string", "binary", "large_binary", "list", "large_list", "map")
    return not any(getattr(t, f"is_{name}")(kind) for name in of_any_size)


def check_name(name: str, table: str) -> None:
    if any("\ud800" <= c <= "\udfff" for c in name):
        raise InvalidName(f"Column name {name!r} of table {table!r} is not valid text.", next="Choose another name.")
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
    """Add columns: a field or schema (filled with nulls), or names with SQL expressions over the other columns, or with
    Arrow scalars that every row gets."""
    import pyarrow as pa

    if isinstance(columns, pa.Field):
        columns = pa.schema([columns])
    if isinstance(columns, pa.Schema):
        columns = plain_schema(columns)
        columns = _with_blobs(_nullable(columns))
        names, given = columns.names, {}
    elif isinstance(columns, Mapping) and columns:
        names, given = list(columns), {n: v for n, v in columns.items() if not isinstance(v, pa.DataType)}
        columns = pa.schema([pa.field(n, v) for n, v in columns.items() if isinstance(v, pa.DataType)])
    else:
        raise InvalidInput(
            "add_columns takes a field, a schema, or a mapping of names to types, Arrow scalars or SQL expressions.",
            next='For example add_columns({"length": "character_length(text)"}).',
        )
    for name in names:
        check_name(name, table)
        if handle.schema.get_field_index(name) >= 0:
            raise InvalidName(
                f"Table {table!r} already has a column {name!r}.", next="Choose another name.", table=table
            )
    made: dict[str, Made] = {
        n: e
        if isinstance(e, pa.Scalar)
        else read(str(e), handle.schema, part=f"expression for column {n!r}", table=table)
        for n, e in given.items()
    }
    schema = pa.schema([columns.field(n) if n not in made else pa.field(n, made[n].type) for n in names])
    check_schema(schema, table)
    return _merge(stager, handle, schema, made, table)


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


def _merge(
    stager: Stager, handle: LanceDataset, schema: pa.Schema, made: Mapping[str, Made], table: str
) -> LanceDataset:
    """The table with more columns: some computed, the others null."""
    from lance import LanceOperation as Op

    fragments = handle.get_fragments()
    if not fragments:
        return on_scratch(stager, handle, lambda scratch: scratch.add_columns(schema))
    handle = stager.placed(handle)
    fragments = handle.get_fragments()
    expressions = [one for one in made.values() if isinstance(one, Expression)]
    needed = list(dict.fromkeys(name for one in expressions for name in one.columns)) or _one(handle)

    failed: list[QuireError] = []

    def values(batch: pa.RecordBatch) -> pa.RecordBatch:
        try:
            computed = _computed(batch, schema, made)
            _check_vectors(computed, table)
            return computed
        except QuireError as error:
            failed.append(error)
            raise

    try:
        done = run_parallel([partial(_widened, handle, f, values, columns=needed) for f in fragments])
    except QuireError:
        raise
    except Exception as error:
        if failed:  # Lance tells of what its callback raises as text
            raise failed[0] from None
        # Of rows that cannot be read for the callback it says in a `TypeError` that the callback is wrong.
        cause = error.__context__ if isinstance(error, TypeError) else None
        raise translate(cause or error, f"the rows of table {table!r}") from None
    stager.files.extend(written([metadata for metadata, _ in done], handle.schema))
    return stager.detach(handle, Op.Merge([metadata for metadata, _ in done], done[0][1]))


def _check_vectors(computed: pa.RecordBatch, table: str) -> None:
    for name, column in zip(computed.schema.names, computed.columns, strict=True):
        if vectors.first_wrong(column) is not None:
            raise SchemaMismatch(
                f"In some row the value for the new column {name!r} of table {table!r} is a vector that holds a null,"
                " NaN or an infinity.",
                next="Give null where there is no vector.",
                table=table,
                column=name,
            )


def _computed(batch: pa.RecordBatch, schema: pa.Schema, made: Mapping[str, Made]) -> pa.RecordBatch:
    import pyarrow as pa

    with Computing() as computing:
        arrays = [
            computing.value(one, batch) if isinstance(one, Expression) else pa.repeat(one, batch.num_rows)
            for one in (made.get(f.name, pa.scalar(None, f.type)) for f in schema)
        ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


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
    if not nullable and _has_nulls(stager, handle, name):
        raise SchemaMismatch(
            f"Column {name!r} of table {table!r} has nulls.", next="Fill them first.", table=table, column=name
        )
    change = _alteration(path=name, nullable=nullable)
    return on_scratch(stager, handle, lambda scratch: scratch.alter_columns(change), empty=True)


def _has_nulls(stager: Stager, handle: LanceDataset, name: str) -> bool:
    handle = stager.placed(handle)
    with scanned("scan", handle):
        return bool(handle.count_rows(f"{filter_sql.quoted(name)} is null"))


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

    handle = stager.placed(handle)
    fragments = handle.get_fragments()
    failed: list[Exception] = []
    """What Lance would tell of as text."""

    def cast(batch: pa.RecordBatch) -> pa.RecordBatch:
        try:
            made = pa.RecordBatch.from_arrays([_retyped(batch.column(0), kind)], schema=pa.schema([field]))
            vectors.check(made, table)
        except (pa.ArrowException, QuireError) as error:
            failed.append(error)
            raise
        return made

    try:
        done = run_parallel([partial(_widened, handle, f, cast, columns=[name]) for f in fragments])
    except QuireError:
        raise
    except Exception as error:
        reason = failed[0] if failed else error
        if isinstance(reason, QuireError):
            raise reason from None
        raise SchemaMismatch(
            f"Column {name!r} of table {table!r} cannot be converted to {kind}: {first_line(reason)}.",
            next="Add a column of that type with an expression that says what becomes of each value, such as"
            f" TRY_CAST(… AS …), then drop {name!r} and rename the new one.",
            table=table,
            column=name,
            expected=str(kind),
        ) from None
    stager.files.extend(written([metadata for metadata, _ in done], handle.schema))
    return stager.detach(handle, Op.Merge([metadata for metadata, _ in done], done[0][1]))


def _retyped(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Values of a column in another type: by the rules for input and, beyond them, as Arrow casts."""
    import pyarrow as pa

    if verdict(values.type, kind) == "never":
        return values.cast(kind)
    try:
        return converted(values, kind)
    except Unfit as unfit:
        raise pa.ArrowInvalid(f"{unfit.value!r} {unfit.why or 'does not fit'}") from None


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

    with scratch.folder() as folder:
        place = str(folder / "scratch")
        lance.write_dataset(pa.table({"seed": pa.array([], pa.int64())}), place)
        version = handle.version
        body = _read_manifest(stager, handle)
        copied = version if version & DETACHED else version | DETACHED
        (folder / "scratch" / "_versions" / f"d{copied}.manifest").write_bytes(body)
        LanceDataset.commit(place, Op.Restore(copied))
        copy = lance.dataset(place)
        if empty:
            every = [f.fragment_id for f in copy.get_fragments()]
            copy = LanceDataset.commit(place, Op.Delete([], every, "true"), read_version=copy.version)
        try:
            verb(copy)
        except (ValueError, OSError) as error:
            raise InvalidExpression(
                f"Lance refuses this schema change: {first_line(error)}.", next="Check the column and the expression."
            ) from None
        changed: Any = lance.dataset(place)
        operation = changed.read_transaction(changed.version).operation
    return stager.detach(handle, operation)


def _alteration(**parts: Any) -> Any:
    return parts


def _read_manifest(stager: Stager, handle: LanceDataset) -> bytes:
    if stager.session.store.scheme == "memory":
        raise Unsupported(
            "This schema change needs the table's manifest as a file, which memory:// does not have.",
            next="Use a lake on disk, or add the column with an expression.",
        )
    try:
        return stager.manifest(handle.version)
    except NotFound as error:
        what = f"version {handle.version} of {stager.session.uri(stager.location)}"
        raise translate(FileNotFoundError(error.message), what) from error
