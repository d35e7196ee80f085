"""Columns of a Delta table as Arrow has them, and the other way round.

Delta lacks some types of Arrow. A column of one is stored as the nearest type of Delta that holds all its values, and
its field remembers what it was, so that Quire reads back what was written. Other clients see the type of Delta.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from quire.errors import ColumnNotFound, FormatError, InvalidName, SchemaMismatch

if TYPE_CHECKING:
    import pyarrow as pa

ARROW = "quire.arrow"
"""Where a field remembers its type in Arrow: a schema with this one field, in Base64."""
_SIMPLE = {
    "boolean": "bool_",
    "byte": "int8",
    "short": "int16",
    "integer": "int32",
    "long": "int64",
    "float": "float32",
    "double": "float64",
    "string": "string",
    "binary": "binary",
    "date": "date32",
}
_FORBIDDEN = ' ,;{}()\n\t=."`'


def schema_text(schema: pa.Schema, table: str) -> str:
    """The schema of a table as its log holds it, or a typed error."""
    import pyarrow as pa

    if not schema.names:
        raise SchemaMismatch(f"Table {table!r} needs at least one column.", next="Pass a schema or data.", table=table)
    seen: dict[str, str] = {}
    for field in schema:
        check_name(field.name, table)
        if field.name.lower() in seen:
            raise SchemaMismatch(
                f"Table {table!r} has two columns named {seen[field.name.lower()]!r} and {field.name!r}; Delta does not"
                " tell upper case from lower.",
                next="Rename one.",
                table=table,
            )
        seen[field.name.lower()] = field.name
        if pa.types.is_null(field.type):
            raise SchemaMismatch(
                f"Column {field.name!r} of table {table!r} has no type: all its values are null.",
                next="Pass a schema with a type for it.",
                table=table,
                column=field.name,
            )
    return json.dumps({"type": "struct", "fields": [_field(f, table) for f in schema]}, separators=(",", ":"))


def check_name(name: str, table: str) -> None:
    """Refuse a name that Delta clients cannot store without a mapping of columns."""
    if not name or any(ord(c) < 32 or c in _FORBIDDEN for c in name):
        raise InvalidName(
            f"Column name {name!r} of table {table!r} is empty or holds a character that Delta does not allow: a blank"
            ' or one of , ; { } ( ) = . " `.',
            next="Choose another name.",
            table=table,
            column=name,
        )


def _field(field: pa.Field, table: str) -> dict[str, Any]:
    delta = _delta(field.type, field.name, table)
    metadata: dict[str, Any] = {}
    if _arrow(delta) != field.type or field.metadata:
        import pyarrow as pa

        metadata[ARROW] = base64.b64encode(pa.schema([field]).serialize().to_pybytes()).decode()
    return {"name": field.name, "type": delta, "nullable": field.nullable, "metadata": metadata}


def _delta(kind: pa.DataType, column: str, table: str) -> Any:
    """The type of Delta that holds all values of a type of Arrow."""
    import pyarrow.types as t

    for test, name in (
        (t.is_boolean, "boolean"),
        (t.is_int8, "byte"),
        (t.is_int16, "short"),
        (t.is_uint8, "short"),
        (t.is_int32, "integer"),
        (t.is_uint16, "integer"),
        (t.is_int64, "long"),
        (t.is_uint32, "long"),
        (t.is_uint64, "decimal(20,0)"),
        (t.is_float16, "float"),
        (t.is_float32, "float"),
        (t.is_float64, "double"),
        (t.is_string, "string"),
        (t.is_large_string, "string"),
        (t.is_binary, "binary"),
        (t.is_large_binary, "binary"),
        (t.is_fixed_size_binary, "binary"),
        (t.is_date32, "date"),
    ):
        if test(kind) and not hasattr(kind, "extension_name"):
            return name
    if t.is_timestamp(kind) and kind.unit != "ns" and kind.tz in (None, "UTC", "+00:00"):
        return "timestamp_ntz" if kind.tz is None else "timestamp"
    if t.is_decimal128(kind) and kind.scale >= 0:
        return f"decimal({kind.precision},{kind.scale})"
    if t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind):
        inner = kind.value_field
        element = _delta(inner.type, column, table)
        return {"type": "array", "elementType": element, "containsNull": inner.nullable}
    if t.is_struct(kind):
        fields = [
            {"name": f.name, "type": _delta(f.type, column, table), "nullable": f.nullable, "metadata": {}}
            for f in kind
        ]
        return {"type": "struct", "fields": fields}
    if t.is_map(kind):
        key, value = (_delta(part, column, table) for part in (kind.key_type, kind.item_type))
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": kind.item_field.nullable}
    raise SchemaMismatch(
        f"Column {column!r} of table {table!r} is {kind}, which Delta tables cannot hold.",
        next="Convert it: times to timestamps in microseconds (UTC or without a zone), durations to numbers.",
        table=table,
        column=column,
        actual=str(kind),
    )


def _arrow(delta: Any) -> pa.DataType:
    """The type of Arrow in which a type of Delta is stored."""
    import pyarrow as pa

    if isinstance(delta, str):
        if delta in _SIMPLE:
            made: pa.DataType = getattr(pa, _SIMPLE[delta])()
            return made
        if delta == "timestamp":
            return pa.timestamp("us", "UTC")
        if delta == "timestamp_ntz":
            return pa.timestamp("us")
        if delta.startswith("decimal(") and delta.endswith(")"):
            precision, scale = delta[8:-1].split(",")
            return pa.decimal128(int(precision), int(scale))
    elif isinstance(delta, dict):
        if delta["type"] == "array":
            return pa.list_(pa.field("element", _arrow(delta["elementType"]), delta["containsNull"]))
        if delta["type"] == "struct":
            return pa.struct([pa.field(f["name"], _arrow(f["type"]), f["nullable"]) for f in delta["fields"]])
        if delta["type"] == "map":
            item = pa.field("value", _arrow(delta["valueType"]), delta["valueContainsNull"])
            return pa.map_(_arrow(delta["keyType"]), item)
    raise ValueError(f"{delta!r} is no type of Delta that Quire knows")


@lru_cache(maxsize=256)
def stored_schema(text: str) -> pa.Schema:
    """The columns in the types in which data files hold them."""
    import pyarrow as pa

    try:
        fields = json.loads(text)["fields"]
        return pa.schema([pa.field(f["name"], _arrow(f["type"]), f["nullable"]) for f in fields])
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(
            f"The schema of a Delta table cannot be read ({error}).", next="Read the table with Delta's own clients."
        ) from None


@lru_cache(maxsize=256)
def shown_schema(text: str) -> pa.Schema:
    """The columns as Quire shows them: in the types in which they were given."""
    import pyarrow as pa

    stored, shown = stored_schema(text), []
    for field, told in zip(stored, json.loads(text)["fields"], strict=True):
        given = (told.get("metadata") or {}).get(ARROW)
        original = None if given is None else _remembered(given)
        if original is not None and _stored_type(original) == field.type:
            shown.append(pa.field(field.name, original.type, field.nullable, original.metadata))
        else:
            shown.append(field)
    return pa.schema(shown)


def _remembered(text: str) -> pa.Field | None:
    import pyarrow as pa

    try:
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text))).field(0)
    except (ValueError, TypeError, pa.ArrowException):
        return None


def _stored_type(field: pa.Field) -> pa.DataType | None:
    try:
        return _arrow(_delta(field.type, field.name, ""))
    except SchemaMismatch:
        return None


def has_ntz(text: str) -> bool:
    """Whether a column holds times without a zone, for which readers need a feature."""
    return '"timestamp_ntz"' in text


def require(schema: pa.Schema, names: Sequence[str], table: str) -> None:
    """Refuse columns that the table does not have."""
    for name in names:
        if schema.get_field_index(name) < 0:
            raise ColumnNotFound(
                f"Table {table!r} has no column {name!r}.",
                next=f"Its columns are {', '.join(schema.names)}.",
                table=table,
                column=name,
            )
