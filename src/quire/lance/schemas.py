"""Arrow schemas as the JSON of the specification."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quire.errors import InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa

NAMES = {"halffloat": "float16", "float": "float", "double": "double", "string": "string", "bool": "boolean"}


def json_schema(schema: pa.Schema) -> Any:
    """A schema as a client of the data plane reads it."""
    from lance_namespace_urllib3_client.models.json_arrow_schema import JsonArrowSchema

    return JsonArrowSchema(fields=[json_field(field) for field in schema])


def json_field(field: pa.Field) -> Any:
    from lance_namespace_urllib3_client.models.json_arrow_field import JsonArrowField

    return JsonArrowField(name=field.name, nullable=field.nullable, type=json_type(field.type))


def json_type(type_: pa.DataType) -> Any:
    import pyarrow as pa
    from lance_namespace_urllib3_client.models.json_arrow_data_type import JsonArrowDataType

    if pa.types.is_fixed_size_list(type_):
        fields = [json_field(type_.value_field)]
        return JsonArrowDataType(type="fixed_size_list", fields=fields, length=type_.list_size)
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        name = "large_list" if pa.types.is_large_list(type_) else "list"
        return JsonArrowDataType(type=name, fields=[json_field(type_.value_field)])
    if pa.types.is_struct(type_):
        return JsonArrowDataType(type="struct", fields=[json_field(type_.field(n)) for n in range(type_.num_fields)])
    if pa.types.is_map(type_):
        return JsonArrowDataType(type="map", fields=[json_field(type_.key_field), json_field(type_.item_field)])
    if pa.types.is_fixed_size_binary(type_):
        return JsonArrowDataType(type="fixed_size_binary", length=type_.byte_width)
    return JsonArrowDataType(type=NAMES.get(str(type_), str(type_)))


def arrow_type(told: dict[str, Any]) -> pa.DataType:
    """The type that a client names, of those without parts."""
    import pyarrow as pa

    name = str(told.get("type", ""))
    plain = {theirs: ours for ours, theirs in NAMES.items()}
    try:
        return pa.type_for_alias({"utf8": "string", **plain}.get(name.lower(), name.lower()))
    except ValueError:
        raise InvalidInput(f"{name[:60]!r} is not a type.", next="Name a plain Arrow type, such as int64.") from None
