"""Vectors that a search is asked with: they fit the column, and hold finite numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from quire.errors import ColumnNotFound, InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


def check_vector(field: Any, table: str) -> None:
    """Refuse a column that holds lists of any length where a vector is needed, and say how to make it one."""
    if getattr(field.type, "list_size", None) is None:
        raise _no_vector(field, table)


def _no_vector(field: Any, table: str) -> InvalidInput:
    kind = field.type
    advice = "A vector column is a fixed-size list of floats."
    if hasattr(kind, "value_type"):
        width = getattr(kind, "list_size", "N")
        of = ", N being its length" if width == "N" else ""
        advice += f' Make it one with alter_column("{field.name}", type=pa.list_(pa.float32(), {width})){of}.'
    return InvalidInput(
        f"Column {field.name!r} of table {table!r} is {kind}, not a vector.",
        next=advice,
        table=table,
        column=field.name,
    )


def query_vector(schema: pa.Schema, column: str, query: Any, table: str) -> NDArray[np.float32]:
    """A query for a vector column, checked; `InvalidInput` and `ColumnNotFound` say what is wrong with it."""
    import pyarrow as pa

    kind = schema.field(column).type if schema.get_field_index(column) >= 0 else None
    width = getattr(kind, "list_size", None)
    inner = getattr(kind, "value_type", None)
    if inner is not None and (width is None or not pa.types.is_floating(inner)):
        raise _no_vector(schema.field(column), table)
    if width is None:
        raise ColumnNotFound(
            f"Table {table!r} has no vector column {column!r}.",
            next="A vector column is a fixed-size list of floats.",
            table=table,
            column=column,
        )
    vector: NDArray[np.float32]
    try:
        with np.errstate(over="ignore"):
            vector = np.array(query, dtype=np.float32)
    except (TypeError, ValueError, OverflowError):
        vector = np.empty(0, np.float32)
    if vector.shape != (width,):
        raise InvalidInput(
            f"The query for column {column!r} must be one vector of {width} numbers, not of shape {vector.shape}.",
            next="Embed the query with the model that made the column.",
            column=column,
        )
    if not np.isfinite(vector).all():
        raise InvalidInput(
            f"The query for column {column!r} holds NaN, an infinity or a number that a 32-bit float cannot hold.",
            next="Nothing is near to such a vector: give finite numbers.",
            column=column,
        )
    return vector
