"""The statements of a transaction as clients send them, and running them. Each is one verb of the library."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from quire.conversion import type_text
from quire.errors import InvalidInput
from quire.lake import Transaction
from quire.rowfiles import json_values

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]
Names = list[str]


class OnTable(msgspec.Struct, tag_field="op", forbid_unknown_fields=True, omit_defaults=True):
    """What all statements have: the table that they are about."""

    table: str


class WithRows(OnTable):
    """Rows are in the body, or in a part of it by its name."""

    rows: list[Row] | None = None
    part: str | None = None


class CreateTable(WithRows, tag="create_table"):
    """Make a table of rows, of `columns` such as `id:int64!,name:string`, of a schema of Arrow in base64, or both."""

    columns: str | None = None
    schema: str | None = None
    key: Names = []
    stable_row_ids: bool = False
    format: str = "lance"
    options: dict[str, Any] = {}


class Append(WithRows, tag="append"):
    """Add rows; on a table with a key they must be new."""

    missing: Literal["error", "null"] = "error"


class Insert(WithRows, tag="insert"):
    """Add rows whose keys are new; with `exists` "ignore" leave the others out."""

    on: Names = []
    exists: Literal["error", "ignore"] = "error"
    missing: Literal["error", "null"] = "error"


class Upsert(WithRows, tag="upsert"):
    """Replace the rows with these keys, add the others."""

    on: Names = []


class Overwrite(WithRows, tag="overwrite"):
    """Replace all rows."""

    schema: Literal["keep", "replace"] = "keep"


class Update(OnTable, tag="update"):
    """Set columns where a condition holds: `set` to expressions, `values` to values."""

    set: dict[str, str] = {}
    values: dict[str, Any] = {}
    where: str | None = None


class Delete(OnTable, tag="delete"):
    """Delete rows for which a condition holds."""

    where: str


class DropTable(OnTable, tag="drop_table"):
    """Drop a table."""


class RenameTable(OnTable, tag="rename_table"):
    """Rename a table."""

    to: str


class AddColumns(OnTable, tag="add_columns"):
    """Add columns: by type (`int64`, nulls), or by an expression over the row."""

    types: dict[str, str] = {}
    expressions: dict[str, str] = {}


class DropColumns(OnTable, tag="drop_columns"):
    """Drop columns."""

    columns: Names


class RenameColumn(OnTable, tag="rename_column"):
    """Rename a column."""

    column: str
    to: str


class AlterColumn(OnTable, tag="alter_column"):
    """Change the type of a column, or whether it may be null."""

    column: str
    type: str | None = None
    nullable: bool | None = None


class CreateIndex(OnTable, tag="create_index"):
    """Build an index."""

    column: str
    kind: str = "BTREE"
    name: str | None = None
    replace: bool = False
    options: dict[str, Any] = {}


class DropIndex(OnTable, tag="drop_index"):
    """Drop an index."""

    name: str


Operation = (
    CreateTable
    | Append
    | Insert
    | Upsert
    | Overwrite
    | Update
    | Delete
    | DropTable
    | RenameTable
    | AddColumns
    | DropColumns
    | RenameColumn
    | AlterColumn
    | CreateIndex
    | DropIndex
)

PartNamed = Callable[[str], Any]
"""Rows that came as a part of the body, by its name."""


def run(tx: Transaction, wanted: Any, part: PartNamed) -> Any:
    """Run one statement; what the library's verb returns."""
    match wanted:
        case CreateTable():
            schema = _schema(wanted)
            data = _given(wanted, part, schema, optional=True)
            how: dict[str, Any] = {"stable_row_ids": wanted.stable_row_ids, "format": wanted.format}
            how["options"] = wanted.options or None
            tx.create_table(wanted.table, data, schema=schema, key=wanted.key or None, **how)
            return None
        case DropTable():
            tx.drop_table(wanted.table)
            return None
        case RenameTable():
            tx.rename_table(wanted.table, wanted.to)
            return None
    table = tx[wanted.table]
    match wanted:
        case Append():
            return table.append(_given(wanted, part, table.schema), missing=wanted.missing)
        case Insert(exists="error"):
            rows = _given(wanted, part, table.schema)
            return table.insert(rows, on=wanted.on or None, missing=wanted.missing)
        case Insert():
            rows = _given(wanted, part, table.schema)
            return table.insert(rows, on=wanted.on or None, missing=wanted.missing, exists="ignore")
        case Upsert():
            return table.upsert(_given(wanted, part, table.schema), on=wanted.on or None)
        case Overwrite():
            schema = table.schema if wanted.schema == "keep" else None
            return table.overwrite(_given(wanted, part, schema), schema=wanted.schema)
        case Update():
            return table.update(wanted.set, values=typed_values(table.schema, wanted.values), where=wanted.where)
        case Delete():
            return table.delete(wanted.where)
        case AddColumns():
            types = {name: type_text.data_type(kind) for name, kind in wanted.types.items()}
            return table.add_columns({**types, **wanted.expressions})
        case DropColumns():
            return table.drop_columns(wanted.columns)
        case RenameColumn():
            return table.rename_column(wanted.column, wanted.to)
        case AlterColumn():
            kind = None if wanted.type is None else type_text.data_type(wanted.type)
            return table.alter_column(wanted.column, type=kind, nullable=wanted.nullable)
        case CreateIndex():
            settings: Any = wanted.options
            if "engine" in settings:
                raise InvalidInput("The server builds the index itself.", next="Leave engine out.", field="options")
            return table.create_index(wanted.column, wanted.kind, name=wanted.name, replace=wanted.replace, **settings)
        case DropIndex():
            return table.drop_index(wanted.name)
    raise AssertionError(f"no verb for {type(wanted).__name__}")


def _schema(wanted: CreateTable) -> pa.Schema | None:
    if wanted.schema is None:
        return None if wanted.columns is None else type_text.schema(wanted.columns)
    return arrow_schema(wanted.schema)


def arrow_schema(text: str) -> pa.Schema:
    """A schema of Arrow from its bytes in base64."""
    import base64

    import pyarrow as pa

    try:
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text, validate=True)))
    except (ValueError, pa.ArrowException, OSError):
        raise InvalidInput(
            "The schema is none of Arrow in base64.",
            next="Send what pyarrow's schema.serialize() gives.",
            field="schema",
        ) from None


def _given(wanted: WithRows, part: PartNamed, schema: pa.Schema | None, *, optional: bool = False) -> Any:
    """The rows of a statement, typed as the table's columns are."""
    if wanted.rows is not None and wanted.part is not None:
        raise InvalidInput("Rows are given twice: in the body and in a part.", next="Give them once.", field="part")
    if wanted.part is not None:
        return part(wanted.part)
    if wanted.rows is None:
        if optional:
            return None
        raise InvalidInput(f"There are no rows for table {wanted.table!r}.", next="Give rows, or name a part.")
    if not wanted.rows and schema is None:
        return None
    return json_values.table(wanted.rows, schema)


def typed_values(schema: pa.Schema, values: dict[str, Any]) -> dict[str, Any]:
    """Values of JSON as those of their columns."""
    found = {}
    for name, value in values.items():
        at = schema.get_field_index(name)
        known = at >= 0 and value is not None
        found[name] = json_values.column([value], schema.field(at).type, name)[0].as_py() if known else value
    return found
