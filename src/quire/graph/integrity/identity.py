"""Ids of nodes from the columns of their keys: `quire.graph.types.identity`, a column at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from quire.graph.types import Type, identity

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.graph.catalog import Entity

_CASTS = ("Bool", "I32", "I64", "U32", "U64", "Date")
"""Types whose canonical text is what Arrow prints."""


def ids(columns: Sequence[Any], kinds: Sequence[Type]) -> pa.Array:
    """The id of every row of key columns. Null where a part of the key is null."""
    import pyarrow as pa

    if len(columns) == 1:
        return texts(columns[0], kinds[0])
    parts = [column.to_pylist() for column in columns]
    made = [None if None in row else identity(row) for row in zip(*parts, strict=True)]
    return pa.array(made, pa.string())


def texts(column: Any, kind: Type) -> pa.Array:
    """The canonical text of every value of a column that is stored as this type."""
    import pyarrow as pa

    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if kind.is_text:
        return whole
    if kind.base in _CASTS:
        return whole.cast(pa.string())
    return pa.array([None if v is None else identity([v]) for v in whole.to_pylist()], pa.string())


def key_columns(entity: Entity) -> tuple[list[str], list[Type]]:
    """Where the key of a node type is stored, and as what."""
    names = entity.defined.key
    return list(entity.columns(names)), [entity.property(n).type for n in names]
