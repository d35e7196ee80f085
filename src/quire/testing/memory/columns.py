"""Schema changes. A column keeps its number for life, so that a name can wander without its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from quire.conversion.plain_types import plain_schema
from quire.errors import InvalidInput, InvalidName, SchemaMismatch
from quire.testing.memory import sql
from quire.testing.memory.files import Columns, Field, Folder, Fragment, Version, type_name
from quire.testing.memory.net import locate
from quire.testing.memory.view import require

if TYPE_CHECKING:
    import pyarrow as pa


def fields_of(schema: pa.Schema, table: str, first: int = 0) -> tuple[Field, ...]:
    """An Arrow schema as columns numbered from `first`, or a typed error."""
    import pyarrow as pa

    if not schema.names:
        raise SchemaMismatch(f"Table {table!r} needs at least one column.", next="Pass a schema or data.", table=table)
    made: list[Field] = []
    for number, field in enumerate(schema, first):
        check_name(field.name, table)
        if any(f.name == field.name for f in made):
            raise SchemaMismatch(
                f"Table {table!r} has two columns named {field.name!r}.", next="Rename one.", table=table
            )
        if pa.types.is_null(field.type):
            raise SchemaMismatch(
                f"Column {field.name!r} of table {table!r} has no type: all its values are null.",
                next="Pass a schema with a type for it.",
                table=table,
                column=field.name,
            )
        made.append(Field(number, field.name, type_name(field.type, field.name, table), field.nullable))
    return tuple(made)


def check_name(name: str, table: str) -> None:
    if not name or "`" in name or "." in name or any(ord(c) < 32 for c in name):
        raise InvalidName(
            f"Column name {name!r} of table {table!r} is empty or holds a dot, a backtick or a control character.",
            next="Choose another name.",
            table=table,
            column=name,
        )


def add(folder: Folder, state: Version, spec: Any, table: str) -> Version:
    """Add columns: a field or schema (filled with nulls), or names with SQL expressions over the other columns."""
    import pyarrow as pa

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
    found = locate(folder, state, state.schema.names, table=table)
    values = {
        n: pa.repeat(e, found.rows)
        if isinstance(e, pa.Scalar)
        else sql.value(str(e), n, state.schema, found.columns, found.rows, table=table)
        for n, e in exprs.items()
    }
    schema = pa.schema([*(pa.field(n, v.type) for n, v in values.items()), *typed])
    columns = {n: v.to_pylist() for n, v in values.items()} | {f.name: [None] * found.rows for f in typed}
    return _grown(folder, state, schema, columns, table)


def _free(state: Version, name: str, table: str) -> None:
    if state.field(name) is not None:
        raise InvalidName(f"Table {table!r} already has a column {name!r}.", next="Choose another name.", table=table)


def _grown(folder: Folder, state: Version, schema: pa.Schema, columns: dict[str, list[Any]], table: str) -> Version:
    """The state with more columns, given for all living rows in order: one more file per fragment."""
    new = fields_of(schema, table, first=state.next_field)
    fragments: list[Fragment] = []
    row = 0
    for fragment in state.fragments:
        living = fragment.living()
        values: Columns = {f.id: [None] * fragment.rows for f in new}
        for offset in living:
            for field in new:
                values[field.id][offset] = columns[field.name][row]
            row += 1
        more = folder.write_columns(values, fragment.rows)
        assert more is not None
        fragments.append(msgspec.structs.replace(fragment, files=(*fragment.files, *more.files)))
    return state.change(
        fields=(*state.fields, *new), fragments=tuple(fragments), next_field=state.next_field + len(new)
    )


def drop(state: Version, names: Sequence[str], table: str) -> Version:
    require(state, names, table)
    if len(set(names)) >= len(state.fields):
        raise InvalidInput(f"Table {table!r} would have no column left.", next="Drop the table instead.", table=table)
    fields = tuple(f for f in state.fields if f.name not in names)
    numbers = {f.id for f in fields}
    return state.change(fields=fields, indexes=tuple(i for i in state.indexes if i.field in numbers))


def rename(state: Version, old: str, new: str, table: str) -> Version:
    require(state, [old], table)
    check_name(new, table)
    _free(state, new, table)
    return _replaced(state, old, name=new)


def set_nullable(folder: Folder, state: Version, name: str, nullable: bool, table: str) -> Version:
    require(state, [name], table)
    if not nullable and None in locate(folder, state, [name], table=table).columns[name]:
        raise SchemaMismatch(
            f"Column {name!r} of table {table!r} has nulls.", next="Fill them first.", table=table, column=name
        )
    return _replaced(state, name, nullable=nullable)


def _replaced(state: Version, column: str, **parts: Any) -> Version:
    fields = tuple(msgspec.structs.replace(f, **parts) if f.name == column else f for f in state.fields)
    return state.change(fields=fields)


def retype(folder: Folder, state: Version, name: str, kind: pa.DataType, table: str) -> Version:
    """Change a column's type: its values are cast into a new column, which then takes the name. It moves to the end."""
    import pyarrow as pa

    require(state, [name], table)
    old = state.schema.field(name)
    if old.type == kind:
        return state
    values = locate(folder, state, [name], table=table).columns[name]
    try:
        cast = pa.array(values, old.type).cast(kind).to_pylist()
    except pa.ArrowException as error:
        raise SchemaMismatch(
            f"Column {name!r} of table {table!r} cannot be converted to {kind}: {str(error).splitlines()[0]}.",
            next="Fix the values that do not fit with update, then try again.",
            table=table,
            column=name,
            expected=str(kind),
        ) from None
    temporary = f"{name}__new"
    grown = _grown(folder, state, pa.schema([pa.field(temporary, kind, old.nullable)]), {temporary: cast}, table)
    return rename(drop(grown, [name], table), temporary, name, table)
