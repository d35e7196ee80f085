"""Columns and their types as people write them: `id:int64!,name:string,vec:float32[128]`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from quire.errors import InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa

_TYPES = {
    "int": "int64",
    "integer": "int64",
    "boolean": "bool",
    "str": "string",
    "text": "string",
    "bytes": "binary",
    "date": "date32",
    "timestamp": "timestamp[us]",
}


def schema(text: str) -> pa.Schema:
    """Columns as `id:int64!,name:string,vec:float32[128]`; `!` means required.

    >>> schema("id:int64!,tags:string[]").field("id").nullable
    False
    """
    import pyarrow as pa

    fields = []
    for part in re.split(r",(?![^\[(]*[\])])", text):
        name, colon, kind = (piece.strip() for piece in part.partition(":"))
        if not name or not colon or not kind:
            raise InvalidInput(
                f"{part.strip()!r} is not a column.", next="Write columns as id:int64,name:string,vec:float32[128]."
            )
        fields.append(pa.field(name, data_type(kind.removesuffix("!")), nullable=not kind.endswith("!")))
    return pa.schema(fields)


def data_type(text: str) -> pa.DataType:
    """A type by its Arrow name; `T[]` is a list and `T[128]` a vector of 128."""
    import pyarrow as pa

    text = text.strip()
    if listed := re.fullmatch(r"(.+)\[(\d*)\]", text):
        item = data_type(listed[1])
        return pa.list_(item, int(listed[2])) if listed[2] else pa.list_(item)
    if zoned := re.fullmatch(r"timestamp\[(s|ms|us|ns),\s*(?:tz=)?([\w/+:-]+)\]", text):
        return pa.timestamp(zoned[1], zoned[2])
    if decimal := re.fullmatch(r"decimal(?:128)?\((\d+),\s*(\d+)\)", text):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    try:
        return pa.type_for_alias(_TYPES.get(text, text))
    except ValueError:
        raise InvalidInput(
            f"{text!r} is not a type.",
            next="Use Arrow's names: int64, float32, string, bool, date32, timestamp[us], timestamp[us, tz=UTC], "
            "decimal(10, 2), binary; string[] for a list, float32[128] for a vector.",
        ) from None
