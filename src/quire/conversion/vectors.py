"""Vectors hold finite numbers: one with NaN or an infinity is near to nothing, and no search would ever find it. A null
among the numbers would be read as any number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quire.errors import SchemaMismatch

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK = 1 << 16
"""Numbers that are looked at together, so that they stay in the processor's cache."""


def holds(kind: pa.DataType) -> bool:
    """Whether there are vectors (fixed-size lists of floats) in values of a type."""
    import pyarrow.types as t

    if t.is_fixed_size_list(kind) and t.is_floating(kind.value_type):
        return True
    return any(holds(kind.field(i).type) for i in range(kind.num_fields))


def check(batch: pa.RecordBatch, table: str, first: int = 0) -> None:
    """Refuse rows with a vector that is not finite; `first` is the number of the first row."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        at = first_wrong(column) if holds(column.type) else None
        if at is None:
            continue
        where = f" of table {table!r}" if table else ""
        raise SchemaMismatch(
            f"The vector in column {name!r}{where}, row {first + at} (counted from 0), holds a null, NaN or an"
            " infinity.",
            next="Leave the row out, or give null where there is no vector.",
            table=table,
            column=name,
            row=first + at,
        )


def first_wrong(array: Any) -> int | None:
    """The first row that holds a vector that is not finite."""
    import numpy as np
    import pyarrow.compute as pc
    import pyarrow.types as t

    if not holds(array.type):
        return None
    if t.is_struct(array.type):
        found = [at for at in map(first_wrong, array.flatten()) if at is not None]
        return min(found, default=None)
    if t.is_map(array.type):
        array = array.cast(_entries(array.type))
    values = array.flatten()
    at = _first_infinite(values) if t.is_floating(values.type) else first_wrong(values)
    if at is None:
        return None
    lengths = pc.list_value_length(array).fill_null(0).to_numpy()
    return int(np.searchsorted(np.cumsum(lengths), at, "right"))


def _entries(kind: Any) -> Any:
    import pyarrow as pa

    return pa.list_(pa.struct([pa.field("key", kind.key_type, False), pa.field("value", kind.item_type)]))


def _first_infinite(values: Any) -> int | None:
    import numpy as np
    import pyarrow as pa

    if pa.types.is_float16(values.type):
        values = values.cast(pa.float32())
    numbers = values.fill_null(np.nan).to_numpy() if values.null_count else values.to_numpy()
    with np.errstate(all="ignore"):
        for start in range(0, len(numbers), BLOCK):
            block = numbers[start : start + BLOCK]
            # The sum is finite only if all are; it may also be too large where they are.
            if not np.isfinite(block.sum()):
                wrong = ~np.isfinite(block)
                if wrong.any():
                    return start + int(np.argmax(wrong))
    return None
