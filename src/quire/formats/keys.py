"""Keys of rows: canonical typed values, their hashes, and duplicates within one batch."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from quire.conversion import held
from quire.errors import ColumnNotFound, DuplicateKeys, InvalidInput, KeyConflict
from quire.formats.row_hashes import suspects
from quire.ledger import Keys

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

INLINE = 512
"""More keys than this are not listed in a commit; a rival then reads the key column instead."""


def summarise(columns: Sequence[str], keys: pa.Table) -> Keys:
    """What a commit record says about the keys it wrote."""
    if keys.num_rows > INLINE:
        return Keys(columns=tuple(columns), count=keys.num_rows)
    packed = b"".join(sorted(hashes(columns, keys)))
    return Keys(columns=tuple(columns), count=keys.num_rows, hashes=base64.b64encode(packed).decode())


def hashes(columns: Sequence[str], keys: pa.Table) -> Iterable[bytes]:
    columns_values = [held.values(keys.column(name)) for name in columns]
    for values in zip(*columns_values, strict=True):
        digest = hashlib.blake2b(digest_size=8)
        for value in values:
            tag, body = canonical(value)
            digest.update(tag + len(body).to_bytes(4, "big") + body)
        yield digest.digest()


def canonical(value: Any) -> tuple[bytes, bytes]:
    """One value as (type tag, bytes), equal for equal values whatever their Arrow width."""
    if isinstance(value, bool):
        return b"b", b"\x01" if value else b"\x00"
    if isinstance(value, int):
        return b"i", str(value).encode()
    if isinstance(value, float):
        return (b"i", str(int(value)).encode()) if value.is_integer() else (b"f", repr(value).encode())
    if isinstance(value, str):
        return b"s", value.encode()
    if isinstance(value, bytes):
        return b"x", value
    if hasattr(value, "isoformat"):
        return b"t", value.isoformat().encode()
    return b"o", str(value).encode()


def disjoint(mine: Keys, theirs: Iterable[Keys]) -> bool | None:
    """True: no key in common. None: the records cannot tell, look at the data."""
    own = hashes_of(mine)
    for other in theirs:
        found = hashes_of(other)
        if own is None or found is None or other.columns != mine.columns or own & found:
            return None
    return None if own is None else True


def hashes_of(keys: Keys) -> set[bytes] | None:
    """The hashes, apart; None when there were too many to list."""
    if keys.hashes is None:
        return None
    raw = base64.b64decode(keys.hashes)
    return {raw[i : i + 8] for i in range(0, len(raw), 8)}


def check_columns(on: Sequence[str], schema: pa.Schema, table: str) -> None:
    """Refuse key columns that do not exist, occur twice, or hold lists or structs."""
    import pyarrow as pa

    if len(set(on)) != len(on):
        raise InvalidInput(f"The key of table {table!r} names a column twice.", next="Name each once.", table=table)
    for name in on:
        if schema.get_field_index(name) < 0:
            raise ColumnNotFound(
                f"Table {table!r} has no column {name!r} to use as a key.",
                next=f"Its columns are {', '.join(schema.names)}.",
                table=table,
                column=name,
            )
        kind = schema.field(name).type
        if pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
            raise InvalidInput(
                f"Column {name!r} of table {table!r} is {kind}, which cannot be a key.",
                next="Use a column of single values.",
                table=table,
                column=name,
            )


def check_present(keys: pa.Table | pa.RecordBatch, on: Sequence[str], table: str) -> None:
    """Refuse null keys."""
    for name in on:
        if keys.column(name).null_count:
            raise DuplicateKeys(
                f"The data for table {table!r} has a null in key column {name!r}.",
                next="A key must be present in every row; fill or drop those rows.",
                table=table,
                column=name,
            )


def check_distinct(keys: pa.Table, on: Sequence[str], table: str) -> None:
    """Refuse null keys and keys that occur twice in one batch: the result would depend on luck."""
    check_present(keys, on, table)
    twice = _twice(keys, on)
    if twice.num_rows:
        raise repeated(held.rows(twice.slice(0, 5)), table)


def are_distinct(keys: pa.Table, on: Sequence[str]) -> bool:
    """Whether no two rows are alike in these columns."""
    return not _twice(keys, on).num_rows


def _twice(keys: pa.Table, on: Sequence[str]) -> pa.Table:
    """What several of the rows have in these columns. Zero is zero, whatever its sign."""
    import pyarrow.compute as pc

    names = [f"k{i}" for i in range(len(on))]  # an aggregate names its own column, and so might a key
    some = _plain_zero(suspects(keys, on).select(list(on))).rename_columns(names)
    counts = some.group_by(names, use_threads=False).aggregate([([], "count_all")])
    return counts.filter(pc.greater(counts["count_all"], 1)).select(names).rename_columns(list(on))


def firsts(keys: pa.Table, on: Sequence[str]) -> NDArray[np.int64]:
    """The positions of the rows that are the first with their key, and of all rows that lack one; in order."""
    import numpy as np
    import pyarrow as pa

    names = [f"k{i}" for i in range(len(on))]
    some = _plain_zero(keys.select(list(on))).rename_columns(names)
    some = some.append_column("position", pa.array(np.arange(keys.num_rows)))
    first = some.group_by(names, use_threads=False).aggregate([("position", "min")]).column("position_min").to_numpy()
    lacking = np.zeros(keys.num_rows, bool)
    for name in names:
        lacking |= some.column(name).is_null().to_numpy()
    return np.union1d(first, np.flatnonzero(lacking)).astype(np.int64)


def _plain_zero(keys: pa.Table) -> pa.Table:
    """Keys in which zero has no sign."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for place, column in enumerate(keys.columns):
        if pa.types.is_floating(column.type):
            plain = pc.add(column.cast(pa.float64()), 0.0)
            keys = keys.set_column(place, keys.schema.field(place).with_type(plain.type), plain)
    return keys


def masks(keep: Mapping[str, Any], rows: pa.Table, on: Sequence[str], table: str) -> dict[str, Any]:
    """Masks of an upsert by column, as numpy arrays of our own; those that are false throughout are left out."""
    import numpy as np

    found = {}
    for name, given in keep.items():
        mask = np.array(given, bool)  # a copy: the caller's memory may be used again
        if name in on or rows.schema.get_field_index(name) < 0 or mask.shape != (rows.num_rows,):
            raise InvalidInput(
                f"keep[{name!r}] of table {table!r} must have one boolean per row, for a column of the data that is not"
                " part of the key.",
                next="Correct it.",
                table=table,
                column=name,
            )
        if mask.any():
            found[name] = mask
    return found


def repeated(twice: list[dict[str, Any]], table: str) -> DuplicateKeys:
    """The error for keys that one batch holds more than once."""
    return DuplicateKeys(
        f"The data for table {table!r} has the same key more than once: {show(twice)}.",
        next="Keep one row per key.",
        table=table,
        keys=twice,
    )


def show(keys: Sequence[dict[str, Any]]) -> str:
    """Keys for people: `id=3`, `(a=1, b='x')`."""
    parts = []
    for key in keys[:5]:
        body = ", ".join(f"{k}={shown(v)!r}" for k, v in key.items())
        parts.append(body if len(key) == 1 else f"({body})")
    return ", ".join(parts) + (", …" if len(keys) > 5 else "")


def shown(value: Any) -> Any:
    """A value as an error tells it, also from another process: as JSON has it, dates as text, bytes as hex."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def conflict(found: Sequence[dict[str, Any]], table: str) -> KeyConflict:
    """The error of an insert whose keys have rows already."""
    return KeyConflict(
        f"Table {table!r} already has a row with {show(found)}.",
        next="Use upsert to replace it, or insert(…, exists='ignore') to leave those rows out.",
        table=table,
        keys=list(found[:20]),
    )
